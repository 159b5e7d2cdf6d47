/* Packed weights on the CUDA library: each value of each type has the bits that the
 * host's decoder gives, rounded once to the dtype, wherever in a row it is; weights on the device
 * are the file's bytes, or Q8_0 of floats with the bits of the host's, merged ones as well.
 * tests/kernels/blocks.c has the products. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernels/quant.h"
#include "tests/cuda/backend.h"
#include "tests/cuda/compare.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/harness.h"
#include "tests/test.h"

static kernel_lib cuda;

static const int32_t types[] = {2,  3,  6,  7,   8,   10,  11,  12,  13,
                                14, 20, 23, 224, 225, 226, 227, 228, 229};
#define N_TYPES (sizeof types / sizeof *types)

/* Where a block has numbers of float16, 0xff: none. */
static void halves_of(int32_t type, uint8_t at[2])
{
    at[0] = type == 10 ? 80 : type == 11 ? 108 : type == 14 ? 208 : 0;
    at[1] = type == 10 ? 82 : type == 3 || type == 7 || type == 12 || type == 13 ? 2 : 0xff;
}

/* Behind levels of floats, a scale for each row. */
static void end_floats(int32_t type, uint8_t *p, int64_t rows, int64_t columns)
{
    const int64_t levels = graft_blocks_level_bytes(type, rows * columns);
    const bool e5m2 = type == GRAFT_FLOAT_E5M2;
    for (int64_t i = 0; i < levels && type != GRAFT_FLOAT_NVFP4; i++)
        if (e5m2 ? (p[i] & 0x7c) == 0x7c : (p[i] & 0x7f) == 0x7f) p[i] ^= 0x10;
    for (int64_t i = 0; i < levels && type == GRAFT_FLOAT_NVFP4; i += 9)
        if ((p[i] & 0x7f) == 0x7f) p[i] ^= 0x10;
    for (int64_t i = 0; i < levels && type == GRAFT_FLOAT_MXFP8; i += 33)
        p[i] = (uint8_t)(i % 7 ? 90 + p[i] % 64 : 0); /* the least power, too */
    for (int64_t i = 0; i < levels && graft_blocks_values(type) == 64; i += 36) {
        const float scale = ldexpf((float)(p[i] + 1), -12) * (p[i + 1] & 1 ? 1 : -1);
        memcpy(p + i, &scale, sizeof scale);
    }
    for (int64_t r = 0; r < rows; r++) {
        const float scale = (float)(r + 1) * 1e-3f;
        memcpy(p + levels + r * 4, &scale, sizeof scale);
    }
}

/* Any bits but for what is no number, whose bits differ between devices. */
static uint8_t *any_blocks(int32_t type, int64_t rows, int64_t columns, uint64_t seed)
{
    const size_t bytes = (size_t)graft_blocks_bytes(type, rows, columns);
    const size_t each = (size_t)graft_blocks_level_bytes(type, graft_blocks_values(type));
    uint8_t *p = malloc(bytes), at[2];
    if (!p) abort();
    halves_of(type, at);
    if (graft_blocks_scaled(type)) {
        for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)(random_next(&seed) >> 50);
        end_floats(type, p, rows, columns);
        return p;
    }
    for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)(random_next(&seed) >> 50);
    for (size_t i = 0; i < bytes; i += each)
        for (int k = 0; k < 2; k++)
            if (at[k] != 0xff) p[i + at[k] + 1] &= 0xbb; /* below 1 */
    return p;
}

static graft_kernel *prepared(const graft_op_desc *d, graft_kernel_info *info)
{
    graft_kernel *k = NULL;
    char text[256] = "";
    info->size = sizeof *info;
    CHECK_INT(cuda.api->prepare(cuda.device, d, 0, &k, info, text, sizeof text), GRAFT_OK);
    if (!k) abort();
    return k;
}

static graft_op_desc layer(int64_t rows, int64_t columns, graft_dtype dtype, bool pairs,
                           int32_t type)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR};
    d.in[GRAFT_LINEAR_X] = tensor_of(2, 1, columns, 0, 0);
    d.in[GRAFT_LINEAR_W] = tensor_of(2, rows, columns, 0, 0);
    d.in[GRAFT_LINEAR_W].constant = 1;
    d.out = tensor_of(2, 1, pairs ? rows / 2 : rows, 0, 0);
    d.in[GRAFT_LINEAR_X].dtype = d.in[GRAFT_LINEAR_W].dtype = d.out.dtype = dtype;
    d.attrs.act = pairs ? GRAFT_ACT_GEGLU : GRAFT_ACT_NONE;
    d.attrs.quant = GRAFT_QUANT_BLOCKS + type;
    return d;
}

static void *uploaded(const void *src, uint64_t bytes)
{
    void *p = cuda.api->alloc(cuda.device, bytes);
    if (!p) abort();
    CHECK_INT(cuda.api->upload(cuda.device, p, src, bytes), GRAFT_OK);
    return p;
}

static void *downloaded(const void *src, uint64_t bytes)
{
    void *p = malloc(bytes);
    if (!p) abort();
    CHECK_INT(cuda.api->download(cuda.device, p, src, bytes), GRAFT_OK);
    return p;
}

/* ------------------------------------------------------------------ values */

static uint32_t bits_in(graft_dtype dtype, float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return dtype == GRAFT_F32 ? u : dtype == GRAFT_F16 ? graft_f32_to_f16(v) : graft_f32_to_bf16(v);
}

/* How many of the unpacked weight's elements are not what the host decodes: rows padded with zeros,
 * of pairs those of both halves by turns. */
static int64_t wrong_values(const graft_op_desc *d, int32_t type, const uint8_t *blocks,
                            const void *unpacked)
{
    const int64_t rows = d->in[GRAFT_LINEAR_W].dim[0], columns = d->in[GRAFT_LINEAR_W].dim[1];
    const int64_t ldw = (columns + 7) / 8 * 8;
    int64_t wrong = 0;
    float *row = malloc((size_t)columns * sizeof *row);
    if (!row) abort();
    for (int64_t r = 0; r < rows; r++) {
        const bool pairs = d->attrs.act == GRAFT_ACT_GEGLU;
        const graft_blocks_weight w = {type, blocks, rows, columns};
        graft_blocks_to_f32(&w, pairs ? r % 2 * (rows / 2) + r / 2 : r, 0, columns, row);
        for (int64_t i = 0; i < ldw; i++) {
            uint32_t want = i < columns ? bits_in(d->out.dtype, row[i]) : 0;
            const int64_t at = r * ldw + i;
            uint32_t got = d->out.dtype == GRAFT_F32 ? ((const uint32_t *)unpacked)[at]
                                                     : ((const uint16_t *)unpacked)[at];
            wrong += got != want;
        }
    }
    free(row);
    return wrong;
}

/* What a launch of the own product leaves in its workspace is the weight and nothing else. */
static void check_values(int32_t type, int64_t rows, int64_t columns, graft_dtype dtype, bool pairs)
{
    const graft_op_desc d = layer(rows, columns, dtype, pairs, type);
    const uint64_t size = graft_dtype_size(dtype);
    uint8_t *blocks = any_blocks(type, rows, columns, (uint64_t)(type + columns));
    float *zeros = calloc((size_t)(rows + columns), sizeof *zeros);
    graft_kernel_info info;
    graft_kernel *k = prepared(&d, &info);
    if (!zeros) abort();
    CHECK_INT(info.packed_bytes[1], graft_blocks_bytes(type, rows, columns));
    CHECK(info.workspace_bytes >= (uint64_t)(rows * ((columns + 7) / 8 * 8)) * size);
    void *x = uploaded(zeros, (uint64_t)columns * size), *out = uploaded(zeros, (uint64_t)rows * 4);
    void *w = cuda.api->alloc(cuda.device, info.packed_bytes[1]);
    void *ws = cuda.api->alloc(cuda.device, info.workspace_bytes);
    const void *in[GRAFT_MAX_INPUTS] = {x, w};
    CHECK_INT(cuda.api->pack(k, 1, GRAFT_BLOCKS + type, blocks, w), GRAFT_OK);
    CHECK_INT(cuda.api->launch(k, in, out, ws), GRAFT_OK);
    void *there = downloaded(w, info.packed_bytes[1]);
    void *unpacked = downloaded(ws, info.workspace_bytes);
    CHECK(memcmp(there, blocks, info.packed_bytes[1]) == 0);
    const int64_t wrong = wrong_values(&d, type, blocks, unpacked);
    CHECK_INT(wrong, 0);
    if (wrong)
        printf("  %s (%d,%d), dtype %d: %lld\n", graft_blocks_name(type), (int)rows, (int)columns,
               (int)dtype, (long long)wrong);
    void *given[] = {x, out, w, ws};
    for (int i = 0; i < 4; i++) cuda.api->free(cuda.device, given[i]);
    cuda.api->release(k);
    free(there);
    free(unpacked);
    free(blocks);
    free(zeros);
}

/* Whole rows of blocks; blocks that go on into the next row, one value of which is anywhere among
 * eight; a row shorter than eight. */
static void every_value(void)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16};
    static const int64_t shapes[][2] = {{8, 768}, {64, 40}, {64, 36}, {256, 29}, {256, 5}};
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (size_t k = 0; k < 3 && graft_blocks_fit(types[t], shapes[s][0], shapes[s][1]); k++)
                check_values(types[t], shapes[s][0], shapes[s][1], dtypes[k], (s + k) % 2);
}

/* ------------------------------------------------------------------ packing */

/* Values as a weight has them, and those whose rounding shows: no scale, halves of a level, a
 * scale that is none of float16's, infinities, what is no number. */
static float *to_pack(int64_t n)
{
    uint64_t seed = 17;
    float *x = malloc((size_t)n * sizeof *x);
    if (!x) abort();
    for (int64_t i = 0; i < n; i++) x[i] = (float)(random_next(&seed) >> 40) * 0x1p-23f - 1.0f;
    for (int i = 0; i < 32; i++) {
        x[i] = i % 2 ? -0.0f : 0.0f;
        x[32 + i] = (float)(i - 16) * 0.5f;
        x[64 + i] *= 1e-6f;
        x[96 + i] *= 3e-7f;
        x[128 + i] *= 6e4f;
    }
    x[32] = -127;
    x[160] = INFINITY;
    x[200] = NAN;
    return x;
}

static void check_packed(graft_kernel *k, graft_dtype from, const void *src, const uint8_t *want,
                         uint64_t bytes)
{
    void *there = cuda.api->alloc(cuda.device, bytes);
    CHECK_INT(cuda.api->pack(k, 1, from, src, there), GRAFT_OK);
    uint8_t *got = downloaded(there, bytes);
    int wrong = 0;
    for (uint64_t i = 0; i < bytes; i += GRAFT_GGML_Q8_0_SIZE) {
        /* A scale that is no number has bits of its own. */
        const bool nan = isnan(graft_ggml_half(want + i)) && isnan(graft_ggml_half(got + i));
        wrong += memcmp(got + i + (nan ? 2 : 0), want + i + (nan ? 2 : 0), nan ? 32 : 34) != 0;
    }
    CHECK_INT(wrong, 0);
    cuda.api->free(cuda.device, there);
    free(got);
}

static void floats_become_q8_0(void)
{
    const int64_t rows = 64, columns = 36, n = rows * columns;
    const graft_op_desc d = layer(rows, columns, GRAFT_BF16, false, GRAFT_GGML_Q8_0);
    const uint64_t bytes = (uint64_t)graft_ggml_bytes(GRAFT_GGML_Q8_0, n);
    graft_kernel_info info;
    graft_kernel *k = prepared(&d, &info);
    float *x = to_pack(n), *same = malloc((size_t)n * sizeof *same);
    uint16_t *narrow = malloc((size_t)n * sizeof *narrow);
    double *wide = malloc((size_t)n * sizeof *wide);
    uint8_t *want = malloc(bytes);
    if (!same || !narrow || !wide || !want) abort();
    graft_ggml_pack_q8_0(x, n, want);
    check_packed(k, GRAFT_F32, x, want, bytes);
    for (int64_t i = 0; i < n; i++) wide[i] = (double)x[i];
    check_packed(k, GRAFT_F64, wide, want, bytes);
    graft_f32_to_f16_array(x, narrow, (size_t)n);
    graft_f16_to_f32_array(narrow, same, (size_t)n);
    graft_ggml_pack_q8_0(same, n, want);
    check_packed(k, GRAFT_F16, narrow, want, bytes);
    graft_f32_to_bf16_array(x, narrow, (size_t)n);
    graft_bf16_to_f32_array(narrow, same, (size_t)n);
    graft_ggml_pack_q8_0(same, n, want);
    check_packed(k, GRAFT_BF16, narrow, want, bytes);
    cuda.api->release(k);
    free(x);
    free(same);
    free(narrow);
    free(wide);
    free(want);
}

/* A LoRA on two parts, of which a block has values of both. */
static void merged_becomes_q8_0(void)
{
    enum { ROWS = 48, COLUMNS = 24, RANK = 3, FIRST = 20 };
    static float x[ROWS * COLUMNS], up[FIRST * RANK], down[RANK * COLUMNS], sum[ROWS * COLUMNS];
    graft_op_desc d = layer(ROWS, COLUMNS, GRAFT_BF16, false, GRAFT_GGML_Q8_0);
    uint8_t want[sizeof x / 4 / 32 * 34];
    uint64_t seed = 5;
    graft_kernel_info info;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)(random_next(&seed) >> 40) * 0x1p-23f - 1;
    for (int i = 0; i < FIRST * RANK; i++) up[i] = x[7 * i];
    for (int i = 0; i < RANK * COLUMNS; i++) down[i] = x[5 * i + 1];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            float product = 0;
            for (int k = 0; k < RANK && r < FIRST; k++)
                product = fmaf(up[r * RANK + k], down[k * COLUMNS + c], product);
            sum[r * COLUMNS + c] = fmaf(0.75f, product, x[r * COLUMNS + c]);
        }
    graft_ggml_pack_q8_0(sum, ROWS * COLUMNS, want);
    char *raw = uploaded(x, sizeof x), *there = cuda.api->alloc(cuda.device, sizeof want);
    const graft_low_rank term = {up, down, GRAFT_F32, GRAFT_F32, 0, FIRST, RANK, 0.75f, 0};
    const graft_weight_part part[] = {
        {raw, FIRST, GRAFT_F32, 1, &term},
        {raw + FIRST * COLUMNS * 4, ROWS - FIRST, GRAFT_F32, 0, NULL}};
    graft_kernel *k = prepared(&d, &info);
    CHECK_INT(cuda.kernels->more->pack_merged(k, 1, part, 2, there), GRAFT_OK);
    uint8_t *got = downloaded(there, sizeof want);
    CHECK(memcmp(got, want, sizeof want) == 0);
    free(got);
    cuda.api->release(k);
    d.attrs.quant = GRAFT_QUANT_BLOCKS + 2; /* which nothing becomes */
    k = prepared(&d, &info);
    CHECK_INT(cuda.kernels->more->pack_merged(k, 1, part, 2, there), GRAFT_E_UNSUPPORTED);
    cuda.api->release(k);
    cuda.api->free(cuda.device, there);
    cuda.api->free(cuda.device, raw);
}

/* ------------------------------------------------------------------ in pieces */

static void reopen(const char *pieces)
{
    setenv("GRAFT_CUDA_PIECES", pieces, 1);
    lib_close(&cuda);
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    unsetenv("GRAFT_CUDA_PIECES");
}

static const struct {
    int64_t tokens, columns, outputs, gap;
    graft_act act;
    bool bias, residual;
    int pieces; /* of 16 KiB in 16 bits, of 32 in float32 */
} large[] = {
    {5, 96, 512, 0, GRAFT_ACT_NONE, true, true, 8},
    {3, 96, 192, 3, GRAFT_ACT_NONE, false, true, 3},
    {4, 64, 256, 0, GRAFT_ACT_GELU_TANH, true, false, 2},
    {2, 32, 1024, 1, GRAFT_ACT_SILU, true, true, 4},
    {3, 64, 128, 0, GRAFT_ACT_GEGLU, true, false, 2},
    {5, 40, 384, 2, GRAFT_ACT_GEGLU, true, false, 6}, /* 64 outputs are less than fit */
    {3, 96, 200, 0, GRAFT_ACT_NONE, true, false, 1},  /* no pieces that are alike */
    {2, 256, 64, 0, GRAFT_ACT_NONE, true, false, 1},  /* nor smaller ones */
};
#define N_LARGE (sizeof large / sizeof *large)

static kernel_case case_of(size_t i, int32_t type)
{
    const int64_t n = large[i].outputs, wide = large[i].act == GRAFT_ACT_GEGLU ? 2 * n : n;
    kernel_case c = {.source = GRAFT_F32};
    c.desc = (graft_op_desc){.size = sizeof c.desc, .op = GRAFT_OP_LINEAR};
    c.desc.attrs.act = large[i].act;
    c.desc.attrs.quant = GRAFT_QUANT_BLOCKS + type;
    c.desc.in[GRAFT_LINEAR_X] = act_of(1, large[i].tokens, large[i].columns, 0);
    c.desc.in[GRAFT_LINEAR_W] = weight_of(wide, large[i].columns, 0, 0);
    if (large[i].bias) c.desc.in[GRAFT_LINEAR_BIAS] = weight_of(wide, 0, 0, 0);
    c.desc.out = gapped(act_of(1, large[i].tokens, n, 0), large[i].gap * 8);
    if (large[i].residual) c.desc.in[GRAFT_LINEAR_RESIDUAL] = act_of(1, large[i].tokens, n, 0);
    snprintf(c.name, sizeof c.name, "case %d of %s in pieces", (int)i, graft_ggml_name(type));
    return c;
}

static uint64_t workspace_of(const kernel_case *c, graft_dtype dtype)
{
    const graft_op_desc d = case_desc(c, dtype);
    graft_kernel_info info;
    cuda.api->release(prepared(&d, &info));
    return info.workspace_bytes;
}

/* Of Q5_0, Q8_0 or E4M3, as large as weights are, so that GEGLU of float16 does not overflow. */
static uint8_t *small_blocks(int32_t type, const graft_tensor_desc *w, uint64_t seed)
{
    const int64_t n = element_count(w), bytes = graft_ggml_bytes(type, n);
    const int64_t each = graft_ggml_bytes(type, 32);
    uint8_t *p = any_blocks(type, w->dim[0], w->dim[1], seed);
    for (int64_t i = 0; i < n && type == GRAFT_FLOAT_E4M3; i++) p[i] &= 0x9f; /* below 2^-3 */
    for (int64_t i = 0; i < bytes; i += each) {
        const float step = type == GRAFT_GGML_Q8_0 ? 2e-4f : 2e-3f;
        const uint16_t d = graft_f32_to_f16(step * (float)(i / each % 7 + 1));
        memcpy(p + i, &d, 2);
    }
    return p;
}

static const graft_dtype dtypes[] = {GRAFT_BF16, GRAFT_F16, GRAFT_F32};

static int32_t type_of(size_t i)
{
    return i % 3 == 2 ? GRAFT_FLOAT_E4M3 : i % 2 ? GRAFT_GGML_Q8_0 : 6;
}

/* Returns how many variants were run. whole: the workspace of the layer done at once. */
static int one_in_pieces(const kernel_lib *ref, size_t i, graft_dtype dtype, uint64_t whole)
{
    kernel_case c = case_of(i, type_of(i));
    const int64_t n = element_count(&c.desc.in[GRAFT_LINEAR_W]);
    const uint64_t bytes = (uint64_t)n * graft_dtype_size(dtype);
    const uint64_t saved = bytes - bytes / (uint64_t)large[i].pieces;
    const uint64_t piece = workspace_of(&c, dtype);
    uint8_t *blocks = small_blocks(type_of(i), &c.desc.in[GRAFT_LINEAR_W], i);
    c.blocks = blocks;
    CHECK(piece + saved <= whole && piece + 2 * saved + 1 > whole);
    const int run = compare_variants(&cuda, ref, &c, dtype, i);
    free(blocks);
    return run;
}

/* Layers in pieces are what ref makes of the whole, in every variant, and take the workspace of one
 * piece. */
static void in_pieces(void)
{
    kernel_lib ref;
    uint64_t whole[3][N_LARGE];
    int run = 0;
    CHECK(lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref));
    reopen("off");
    for (size_t i = 0; i < 3 * N_LARGE; i++) {
        const kernel_case c = case_of(i % N_LARGE, type_of(i));
        whole[i / N_LARGE][i % N_LARGE] = workspace_of(&c, dtypes[i / N_LARGE]);
    }
    for (size_t t = 0; t < 3; t++) {
        if (t != 1) reopen(dtypes[t] == GRAFT_F32 ? "32" : "16");
        CHECK(strstr(cuda.info.identity, t < 2 ? "/16" : "/32") != NULL);
        for (size_t i = 0; i < N_LARGE; i++) run += one_in_pieces(&ref, i, dtypes[t], whole[t][i]);
    }
    printf("     %d cases and variants, %d by libraries\n", run, by_library);
    CHECK(run > 60 && by_library > 20);
    CHECK_INT(refused, 0);
    lib_close(&ref);
}

/* Where a library refuses a piece the own kernels do all of it, and that is told. */
static void refused_pieces(void)
{
    kernel_lib ref;
    CHECK(lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref));
    reopen("16");
    fake_driver_state()->refuse_plans = 1;
    for (size_t i = 0; i < 5; i++) {
        kernel_case c = case_of(i, 6);
        uint8_t *blocks = small_blocks(6, &c.desc.in[GRAFT_LINEAR_W], i);
        c.blocks = blocks;
        compare_variants(&cuda, &ref, &c, GRAFT_BF16, i);
        free(blocks);
    }
    fake_driver_state()->refuse_plans = 0;
    CHECK(refused > 5);
    lib_close(&ref);
}

int main(void)
{
    use_fake_driver();
    if (!lib_open(CUDA_LIBRARY, &cuda)) return 1;
    RUN(every_value);
    RUN(floats_become_q8_0);
    RUN(merged_becomes_q8_0);
    RUN(in_pieces);
    RUN(refused_pieces);
    lib_close(&cuda);
    fake_cuda_state *fake = fake_driver_state();
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
