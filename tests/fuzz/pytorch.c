/* Any bytes: opened or refused; every tensor that is reported can be read. */
#include "engine/weights/pytorch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    graft_err e;
    graft_pytorch *f;
    size_t n;
    volatile uint8_t sum = 0;
    if (graft_pytorch_open_memory(data, size, "fuzz", &f, &e)) return 0;
    const graft_st_tensor *t = graft_pytorch_tensors(f, &n);
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < t[i].bytes; k++) sum ^= ((const uint8_t *)t[i].data)[k];
    graft_pytorch_note note;
    for (size_t i = 0; graft_pytorch_note_at(f, i, &note); i++)
        for (const char *p = note.value; *p; p++) sum ^= (uint8_t)*p;
    (void)sum;
    graft_pytorch_close(f);
    return 0;
}
