/* Matrices in files as bitsandbytes writes them in 4 bits. */
#ifndef GRAFT_TESTS_ENGINE_CODES_H
#define GRAFT_TESTS_ENGINE_CODES_H
#include "kernels/float_blocks.h"
#include "tests/engine/fixture.h"

typedef struct codes_way {
    bool fp4, nested; /* nested: scales are bytes */
    int64_t block;
} codes_way;

static inline const float *codes_table(const codes_way *w)
{
    return w->fp4 ? graft_float_fp4 : graft_float_nf4;
}

/* The entry of the table that is nearest. */
static inline int nearest_of(const float *table, int n, float v)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (fabsf(table[i] - v) < fabsf(table[best] - v)) best = i;
    return best;
}

static inline void add_part(made_file *f, const char *name, const char *suffix, graft_dtype dtype,
                            int64_t n, void *data)
{
    char full[300];
    graft_st_tensor *t = &f->tensor[f->n++];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    *t = (graft_st_tensor){
        .name = strdup(full), .dtype = dtype, .rank = 1, .shape = {n}, .data = data};
    t->bytes = (uint64_t)n * graft_dtype_size(dtype);
}

static inline void *zeros_for(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);
    if (!p) abort();
    return p;
}

/* The scales of n blocks, which become what the file has: bytes, with one number for 256 of them.
 */
static inline float nest_scales(made_file *f, const char *name, int64_t n, float *scale)
{
    const int64_t all = (n + 255) / 256;
    float *map = zeros_for(256, sizeof *map), *most = zeros_for(all, sizeof *most), offset = 0;
    uint8_t *byte = zeros_for(n, 1);
    for (int64_t i = 0; i < n; i++) offset += scale[i] / (float)n;
    for (int64_t i = 0; i < n; i++)
        most[i / 256] = fmaxf(most[i / 256], fabsf(scale[i] - offset) + 1e-6f);
    for (int i = 0; i < 256; i++) map[i] = (float)(i - 128) / 127;
    for (int64_t i = 0; i < n; i++) {
        byte[i] = (uint8_t)nearest_of(map, 256, (scale[i] - offset) / most[i / 256]);
        scale[i] = map[byte[i]] * most[i / 256];
        scale[i] += offset;
    }
    add_part(f, name, ".absmax", GRAFT_U8, n, byte);
    add_part(f, name, ".nested_absmax", GRAFT_F32, all, most);
    add_part(f, name, ".nested_quant_map", GRAFT_F32, 256, map);
    return offset;
}

/* What is said of a matrix; 9 digits are a float. */
static inline void add_state(made_file *f, const char *name, const graft_st_tensor *t,
                             const codes_way *w, float offset)
{
    char says[400], more[200] = "", suffix[60];
    const char *type = w->fp4 ? "fp4" : "nf4";
    if (w->nested)
        snprintf(more, sizeof more,
                 ", \"nested_blocksize\": 256, \"nested_dtype\": \"float32\", "
                 "\"nested_offset\": %.9g",
                 (double)offset);
    const int n = snprintf(says, sizeof says,
                           "{\"quant_type\": \"%s\", \"blocksize\": %d, \"dtype\": \"bfloat16\", "
                           "\"shape\": [%d, %d]%s}",
                           type, (int)w->block, (int)t->shape[0], (int)t->shape[1], more);
    snprintf(suffix, sizeof suffix, ".quant_state.bitsandbytes__%s", type);
    add_part(f, name, suffix, GRAFT_U8, n, strdup(says));
    float *table = zeros_for(16, sizeof *table);
    memcpy(table, codes_table(w), 16 * sizeof *table);
    add_part(f, name, ".quant_map", GRAFT_F32, 16, table);
}

/* Tensor i, a matrix in float32, becomes codes; returns what they hold (free). */
static inline float *store_as_codes(made_file *f, size_t i, const codes_way *w)
{
    const graft_st_tensor t = f->tensor[i];
    const int64_t n = shape_count(t.shape, 2), blocks = (n + w->block - 1) / w->block;
    float *v = (float *)(uintptr_t)t.data, *scale = zeros_for(blocks, sizeof *scale), offset = 0;
    uint8_t *codes = zeros_for((n + 1) / 2, 1);
    for (int64_t k = 0; k < n; k++)
        scale[k / w->block] = fmaxf(scale[k / w->block], fabsf(v[k]) + 1e-9f);
    if (w->nested)
        offset = nest_scales(f, t.name, blocks, scale);
    else
        add_part(f, t.name, ".absmax", GRAFT_F32, blocks, scale);
    for (int64_t k = 0; k < n; k++) {
        const float s = scale[k / w->block];
        const int code = nearest_of(codes_table(w), 16, v[k] / s);
        codes[k / 2] |= (uint8_t)(k % 2 ? code : code << 4);
        v[k] = codes_table(w)[code] * s;
    }
    if (w->nested) free(scale);
    add_state(f, t.name, &t, w, offset);
    f->tensor[i].dtype = GRAFT_U8;
    f->tensor[i].data = codes;
    f->tensor[i].bytes = (uint64_t)((n + 1) / 2);
    f->tensor[i].shape[0] = (n + 1) / 2;
    f->tensor[i].shape[1] = 1;
    return v;
}
#endif
