/* Any bytes: opened or refused; every tensor that is reported lies inside the input. */
#include "engine/weights/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    graft_err e;
    graft_safetensors *f;
    if (graft_safetensors_open_memory(data, size, "fuzz", &f, &e)) return 0;
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        const uint8_t *p = t->data;
        if (p < data || p > data + size || t->bytes > (size_t)(data + size - p)) abort();
        if (graft_safetensors_find(f, t->name) != t) abort();
    }
    const char *key, *value;
    for (size_t i = 0; (key = graft_safetensors_metadata_at(f, i, &value)); i++)
        if (graft_safetensors_metadata(f, key) != value) abort();
    graft_safetensors_close(f);
    return 0;
}
