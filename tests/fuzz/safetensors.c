/* Any bytes, as safetensors or GGUF: opened or refused; every tensor that is reported lies inside
 * the input. Names that diffusers gives are translated, or refused, and llama.cpp's rows are moved.
 * GGUF files that follow each other are read as the parts of one. */
#include "engine/files/llama_rows.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/weights/coded.h"
#include "engine/weights/gguf.h"
#include "engine/weights/gguf_tokenizer.h"
#include "engine/weights/packed.h"
#include "engine/weights/quantized.h"
#include "kernels/blocks.h"

#include <stdlib.h>
#include <string.h>

/* Reads every value; sanitizers watch. */
static void read_quantized(const graft_st_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    if (n > 1 << 20) return;
    float *values = malloc((size_t)n * sizeof *values);
    if (values) graft_quantized_to_f32(t->dtype, t->data, t->shape[0], n / t->shape[0], values);
    free(values);
}

static void read_blocks(const graft_st_tensor *t)
{
    const int64_t n = graft_st_values(t);
    if (n > 1 << 20) return;
    if (t->bytes != (uint64_t)n / t->blocks->values * t->blocks->bytes) abort();
    float *values = malloc((size_t)n * sizeof *values + 1);
    if (values) graft_ggml_blocks_to_f32(t->blocks, t->data, 0, n, values);
    free(values);
}

static void read_packed(const graft_st_tensor *t)
{
    const int32_t type = graft_packed_type(t);
    const int64_t rows = t->shape[0], n = t->shape[1],
                  levels = graft_blocks_level_bytes(type, rows * n);
    uint8_t *p = malloc((size_t)graft_blocks_bytes(type, rows, n) + 1);
    if (!type || !graft_blocks_fit(type, rows, n)) abort();
    if (p) graft_packed_copy(t, p, p + levels);
    free(p);
}

static void read_coded(const graft_st_tensor *t)
{
    const int64_t n = graft_st_values(t);
    if (n > 1 << 20) return;
    if (n != t->coded->rows * t->coded->columns) abort();
    float *values = malloc((size_t)n * sizeof *values + 1);
    float *scale = malloc((size_t)t->coded->rows * sizeof *scale);
    int8_t *level = malloc((size_t)n + 1);
    if (values) graft_coded_to_f32(t->coded, t->data, 0, n, values);
    if (values && n > 2) graft_coded_to_f32(t->coded, t->data, 1, n - 2, values);
    if (!t->part && t->rank == 2 && graft_coded_has_blocks(t->coded)) read_packed(t);
    if (level && scale && graft_coded_has_levels(t->coded, t->coded->hadamard))
        graft_coded_levels(t->coded, t->data, level, scale);
    free(values);
    free(scale);
    free(level);
}

/* A tokenizer of a GGUF file's metadata; whatever has its name may be one. */
static bool is_made(const graft_st_tensor *t)
{
    return strcmp(t->name, GRAFT_T5_TOKENIZER) == 0 || strcmp(t->name, GRAFT_QWEN_TOKENIZER) == 0 ||
           strcmp(t->name, GRAFT_MISTRAL_TOKENIZER) == 0;
}

static void adopt(const uint8_t *data, size_t size, graft_diffusers_adopt *how)
{
    graft_err e;
    graft_safetensors *f;
    if (graft_safetensors_open_memory(data, size, "fuzz", &f, &e)) return;
    if (how(f, &e) == GRAFT_OK)
        for (size_t i = 0; i < graft_safetensors_count(f); i++) {
            const graft_st_tensor *t = graft_safetensors_at(f, i);
            const volatile uint8_t *p = t->data;
            if (graft_safetensors_find(f, t->name) != t) abort();
            if (t->bytes && p[0] + p[t->bytes - 1] < 0) abort(); /* sanitizers watch */
            if (t->blocks) read_blocks(t);
            if (t->coded) read_coded(t);
        }
    graft_safetensors_close(f);
}

static void read_part(const uint8_t *data, size_t size, bool first, graft_gguf_common *common)
{
    graft_gguf g;
    if (graft_gguf_read(data, size, "fuzz", first, common, &g, NULL)) return;
    for (size_t i = 0; i < g.n; i++) {
        const graft_st_tensor *t = &g.tensor[i];
        const uint8_t *p = t->data;
        const bool made = g.tokenizer && i + 1 == g.n;
        if (made && t->data != g.tokenizer) abort();
        if (!made && (p < data || p > data + size || t->bytes > (size_t)(data + size - p))) abort();
        if (t->blocks) read_blocks(t);
    }
    graft_gguf_finish(&g);
}

static void read_parts(const uint8_t *data, size_t size)
{
    graft_gguf_common common = {0};
    const uint8_t *end = data + size;
    for (const uint8_t *at = data; graft_gguf_is_one(at, (size_t)(end - at));) {
        const uint8_t *next = memmem(at + 4, (size_t)(end - at) - 4, "GGUF", 4);
        read_part(at, (size_t)((next ? next : end) - at), at == data, &common);
        at = next ? next : end;
    }
    graft_gguf_common_finish(&common);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    graft_err e;
    graft_safetensors *f;
    read_parts(data, size);
    if (graft_safetensors_open_memory(data, size, "fuzz", &f, &e)) return 0;
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        const uint8_t *p = t->data;
        if (is_made(t)) continue;
        if (p < data || p > data + size || t->bytes > (size_t)(data + size - p)) abort();
        if (graft_safetensors_find(f, t->name) != t) abort();
        if (graft_is_quantized(t->dtype)) read_quantized(t);
        if (t->blocks) read_blocks(t);
        if (t->coded) read_coded(t);
    }
    const char *key, *value;
    for (size_t i = 0; (key = graft_safetensors_metadata_at(f, i, &value)); i++)
        if (graft_safetensors_metadata(f, key) != value) abort();
    graft_safetensors_close(f);
    adopt(data, size, graft_diffusers_adopt_unet);
    adopt(data, size, graft_diffusers_adopt_mmdit);
    adopt(data, size, graft_diffusers_adopt_vae);
    adopt(data, size, graft_llama_rows_adopt);
    return 0;
}
