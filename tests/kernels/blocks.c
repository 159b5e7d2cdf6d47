/* LINEAR on packed weights: libraries against what they make of the same weights in floats, in
 * every type and dtype. Blocks of ggml are those that ggml itself decoded (golden/small/gguf);
 * floats of 8 and 4 bits are taken apart here. The name of another library than the CPU's may be
 * given, and "small" for small cases alone. */
#include <math.h>
#include <stdlib.h>

#include "engine/weights/safetensors.h"
#include "kernels/quant.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/harness.h"
#include "tests/test.h"

static kernel_lib ref, cpu;
static bool have_cpu, played;

static const int32_t types[] = {2,  3,  6,  7,   8,   10,  11,  12,  13,
                                14, 20, 23, 224, 225, 226, 227, 228, 229};
#define N_TYPES (sizeof types / sizeof *types)

static graft_safetensors *packed_file, *plain_file;

static graft_safetensors *opened(const char *path)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    if (!f) abort();
    return f;
}

/* The tensor of that type, and its values. */
static const graft_st_tensor *golden(int32_t type, const float **values)
{
    for (size_t i = 0; i < graft_safetensors_count(packed_file); i++) {
        const graft_st_tensor *t = graft_safetensors_at(packed_file, i);
        if (!t->blocks || (int32_t)t->blocks->id != type) continue;
        *values = graft_safetensors_find(plain_file, t->name)->data;
        return t;
    }
    abort();
}

/* A byte of FP8 that is a number. */
static uint8_t number(int32_t type, uint64_t *seed)
{
    const uint8_t v = (uint8_t)(random_next(seed) >> 56);
    const bool none = type == GRAFT_FLOAT_E5M2 ? (v & 0x7c) == 0x7c : (v & 0x7f) == 0x7f;
    return none ? 0x80 : v;
}

/* Codes of NF4 and FP4 and what they are worth, as bitsandbytes' kernels have it. */
static void codes_block(int32_t type, uint64_t *seed, float scale, uint8_t *block, float *values)
{
    static const float nf4[16] = {-1.0f,
                                  -0.6961928009986877f,
                                  -0.5250730514526367f,
                                  -0.39491748809814453f,
                                  -0.28444138169288635f,
                                  -0.18477343022823334f,
                                  -0.09105003625154495f,
                                  0.0f,
                                  0.07958029955625534f,
                                  0.16093020141124725f,
                                  0.24611230194568634f,
                                  0.33791524171829224f,
                                  0.44070982933044434f,
                                  0.5626170039176941f,
                                  0.7229568362236023f,
                                  1.0f};
    static const float fp4[8] = {0.0f, 0.005208333333f, 0.66666667f, 1.0f, 0.33333333f,
                                 0.5f, 0.16666667f,     0.25f};
    const float absmax = ldexpf(1 + (float)(random_next(seed) >> 44) * 0x1p-20f, -3);
    memcpy(block, &absmax, sizeof absmax);
    for (int i = 0; i < 64; i++) {
        const uint8_t v = (uint8_t)(random_next(seed) >> 60);
        uint8_t *at = block + 4 + i / 2;
        *at = i % 2 ? *at | v : (uint8_t)(v << 4); /* the first in the high half */
        const float worth = type == GRAFT_FLOAT_NF4 ? nf4[v] : v & 8 ? -fp4[v & 7] : fp4[v];
        values[i] = worth * (absmax * scale);
    }
}

/* One block and what it holds, times the scale of its row. */
static void float_block(int32_t type, uint64_t *seed, float scale, uint8_t *block, float *values)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    if (type == GRAFT_FLOAT_E4M3 || type == GRAFT_FLOAT_E5M2) {
        block[0] = number(type, seed);
        *values = (type == GRAFT_FLOAT_E4M3 ? graft_f8_e4m3_to_f32(block[0])
                                            : graft_f8_e5m2_to_f32(block[0])) *
                  scale;
        return;
    }
    if (type == GRAFT_FLOAT_NF4 || type == GRAFT_FLOAT_FP4) {
        codes_block(type, seed, scale, block, values);
        return;
    }
    if (type == GRAFT_FLOAT_MXFP8) {
        block[0] = (uint8_t)(120 + (random_next(seed) >> 61));
        const float power = ldexpf(1, block[0] - 127) * scale;
        for (int i = 0; i < 32; i++) {
            block[1 + i] = number(type, seed);
            values[i] = graft_f8_e4m3_to_f32(block[1 + i]) * power;
        }
        return;
    }
    block[0] = number(type, seed) & 0x7f;
    const float whole = graft_f8_e4m3_to_f32(block[0]) * scale;
    for (int i = 0; i < 16; i++) {
        const uint8_t v = (uint8_t)(random_next(seed) >> 60);
        uint8_t *at = block + 1 + i / 2;
        *at = i % 2 ? *at | v : (uint8_t)(v << 4); /* the first in the high half */
        values[i] = (v & 8 ? -e2m1[v & 7] : e2m1[v & 7]) * whole;
    }
}

static const int32_t float_values[] = {1, 1, 32, 16, 64, 64}; /* of a block */

static uint8_t *floats_of(int32_t type, int64_t outputs, int64_t n, float *values)
{
    static const int32_t bytes[] = {1, 1, 33, 9, 36, 36};
    const int64_t wide = float_values[type - 224], size = bytes[type - 224], row = n / wide * size;
    uint8_t *blocks = malloc((size_t)(outputs * (row + 4)));
    uint64_t seed = 7;
    if (!blocks) abort();
    for (int64_t o = 0; o < outputs; o++) {
        const float scale = (float)(1 + o % 7) * (type == GRAFT_FLOAT_E5M2 ? 1e-5f : 1e-3f);
        memcpy(blocks + outputs * row + o * 4, &scale, sizeof scale);
        for (int64_t i = 0; i < n / wide; i++)
            float_block(type, &seed, scale, blocks + o * row + i * size, values + o * n + i * wide);
    }
    return blocks;
}

/* A weight (outputs, columns): its blocks (malloc), and what they are. Of ggml's again and again
 * those of the file. */
static uint8_t *weights_of(int32_t type, int64_t outputs, int64_t columns, float *values)
{
    const float *v;
    const int64_t n = outputs * columns;
    if (type >= 224) return floats_of(type, outputs, columns, values);
    const graft_st_tensor *t = golden(type, &v);
    const int64_t all = graft_st_values(t);
    uint8_t *blocks = malloc((size_t)graft_ggml_bytes(type, n));
    if (!blocks) abort();
    for (int64_t i = 0; i < n; i += all) {
        const int64_t m = n - i < all ? n - i : all;
        memcpy(blocks + graft_ggml_bytes(type, i), t->data, (size_t)graft_ggml_bytes(type, m));
        memcpy(values + i, v, (size_t)m * sizeof *v);
    }
    return blocks;
}

static const struct {
    int64_t tokens, columns, outputs, gap;
    graft_act act;
    bool bias, residual;
} shapes[] = {
    {5, 768, 3, 0, GRAFT_ACT_NONE, false, false},
    {1, 256, 9, 0, GRAFT_ACT_SILU, true, false},
    {70, 256, 130, 0, GRAFT_ACT_NONE, true, true},
    {9, 768, 402, 3, GRAFT_ACT_GELU, true, false}, /* more than a block of outputs */
    {6, 2304, 260, 0, GRAFT_ACT_NONE, true, true}, /* and more than a tile of columns */
    {8, 768, 201, 0, GRAFT_ACT_GEGLU, true, false},
    {3, 1280, 64, 1, GRAFT_ACT_GEGLU, false, false},
    {4, 320, 64, 0, GRAFT_ACT_NONE, true, false},    /* blocks of 256 go on into the next row */
    {7, 40, 64, 0, GRAFT_ACT_GELU_TANH, true, true}, /* and those of 32 */
    {6, 36, 64, 0, GRAFT_ACT_NONE, true, true},      /* and what is read eight at a time */
    {5, 29, 256, 0, GRAFT_ACT_GEGLU, true, false},
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

static kernel_case case_of(int32_t type, size_t shape)
{
    kernel_case c = {.source = GRAFT_F32};
    const int64_t n = shapes[shape].outputs, columns = shapes[shape].columns;
    const int64_t wide = shapes[shape].act == GRAFT_ACT_GEGLU ? 2 * n : n;
    c.desc = (graft_op_desc){.size = sizeof c.desc, .op = GRAFT_OP_LINEAR};
    c.desc.attrs.act = shapes[shape].act;
    c.desc.in[GRAFT_LINEAR_X] =
        gapped(act_of(1, shapes[shape].tokens, columns, 0), shapes[shape].gap);
    c.desc.in[GRAFT_LINEAR_W] = weight_of(wide, columns, 0, 0);
    if (shapes[shape].bias) c.desc.in[GRAFT_LINEAR_BIAS] = weight_of(wide, 0, 0, 0);
    c.desc.out = act_of(1, shapes[shape].tokens, n, 0);
    if (shapes[shape].residual) c.desc.in[GRAFT_LINEAR_RESIDUAL] = c.desc.out;
    snprintf(c.name, sizeof c.name, "%s, %d tokens of %d to %d", graft_blocks_name(type),
             (int)shapes[shape].tokens, (int)columns, (int)n);
    return c;
}

static double nmse(const float *a, const float *b, int64_t n)
{
    double error = 0, size = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return error / size;
}

/* The library on floats and on blocks; most: how far they may be apart. Returns whether their bits
 * are the same. */
static bool compare(const kernel_lib *lib, int32_t type, size_t shape, graft_dtype dtype,
                    double most)
{
    float *val[GRAFT_MAX_INPUTS];
    case_result want, got;
    kernel_case c = case_of(type, shape);
    const int64_t n = element_count(&c.desc.out);
    case_values(&c, dtype, 3 + shape, val);
    const int64_t *w = c.desc.in[GRAFT_LINEAR_W].dim;
    uint8_t *blocks = weights_of(type, w[0], w[1], val[GRAFT_LINEAR_W]);
    case_run(lib, &c, dtype, -1, val, &want);
    c.desc.attrs.quant = GRAFT_QUANT_BLOCKS + type;
    c.blocks = blocks;
    case_run(lib, &c, dtype, -1, val, &got);
    if (got.fault[0] || want.fault[0]) printf("%s: %s%s\n", c.name, got.fault, want.fault);
    CHECK(!got.fault[0] && !want.fault[0]);
    const bool ran = !got.fault[0] && !want.fault[0];
    const bool same = ran && memcmp(got.out, want.out, (size_t)n * sizeof(float)) == 0;
    /* Where float16 overflows, bits alone can be compared. */
    const double error = same ? 0 : ran ? nmse(got.out, want.out, n) : INFINITY;
    if (!(error <= most)) printf("%s, dtype %d: nmse %g\n", c.name, dtype, error);
    CHECK(error <= most);
    free(got.out);
    free(want.out);
    free(blocks);
    values_free(val);
    return same;
}

static bool has_f16(const kernel_lib *lib)
{
    const kernel_case c = case_of(types[0], 0);
    const graft_op_desc d = case_desc(&c, GRAFT_F16);
    return lib->api->supports(lib->device, &d);
}

/* What is compared: whole blocks, and on a device that is played small cases alone. */
static bool whole(int32_t type, size_t shape)
{
    const kernel_case c = case_of(type, shape);
    const int64_t *w = c.desc.in[GRAFT_LINEAR_W].dim;
    if (played && shapes[shape].tokens * w[0] * w[1] > 500000) return false;
    if (type >= 224) return w[1] % float_values[type - 224] == 0;
    return w[0] * w[1] % graft_ggml_values(type) == 0;
}

static void reference(void)
{
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t s = 0; s < N_SHAPES; s++)
            if (whole(types[t], s)) CHECK(compare(&ref, types[t], s, GRAFT_F32, 0));
}

/* Floats are summed in another order where outputs are taken in blocks; in bfloat16 that may move a
 * result by its last bit, and where oneDNN takes another of its kernels for a block results may be
 * rounded once more, ahead of a residual: all of them by at most half a last place, 2^-9. */
static void other_libraries(void)
{
    size_t n = 0, same = 0;
    for (size_t t = 0; t < N_TYPES && have_cpu; t++)
        for (size_t s = 0; s < N_SHAPES; s++) {
            if (!whole(types[t], s)) continue;
            same += compare(&cpu, types[t], s, GRAFT_F32, 1e-11);
            same += compare(&cpu, types[t], s, GRAFT_BF16, 0x1p-18);
            n += 2;
            if (!has_f16(&cpu)) continue;
            same += compare(&cpu, types[t], s, GRAFT_F16, 1e-8);
            n++;
        }
    printf("%zu cases, %zu of the same bits\n", n, same);
    CHECK(!have_cpu || n > (played ? 120 : 150));
}

/* ------------------------------------------------------------------ packing */

/* ggml's reference for a block of Q8_0, in C's own functions. */
static void q8_0_of(const float *x, uint8_t *out)
{
    float most = 0;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
    const float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    const uint16_t half = graft_f32_to_f16(d);
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
    for (int i = 0; i < 32; i++) out[2 + i] = (uint8_t)(int8_t)roundf(x[i] * inverse);
}

static graft_kernel *prepared(const kernel_lib *lib, const kernel_case *c, graft_kernel_info *info)
{
    graft_kernel *k = NULL;
    char text[256];
    const graft_op_desc d = case_desc(c, GRAFT_F32);
    info->size = sizeof *info;
    if (lib->api->prepare(lib->device, &d, -1, &k, info, text, sizeof text)) printf("%s\n", text);
    CHECK(k != NULL);
    return k;
}

/* What the weight is on the device, of which nothing was there before. */
static void pack_into(const kernel_lib *lib, graft_kernel *k, graft_dtype from, const void *src,
                      uint8_t *out, size_t bytes)
{
    uint8_t *there = lib->api->alloc(lib->device, bytes);
    memset(out, 0xa5, bytes);
    if (!there) abort();
    CHECK_INT(lib->api->upload(lib->device, there, out, bytes), GRAFT_OK);
    CHECK_INT(lib->api->pack(k, GRAFT_LINEAR_W, from, src, there), GRAFT_OK);
    CHECK_INT(lib->api->download(lib->device, out, there, bytes), GRAFT_OK);
    lib->api->free(lib->device, there);
}

static void packs_q8_0(const kernel_lib *lib, size_t shape)
{
    kernel_case c = case_of(GRAFT_GGML_Q8_0, shape);
    const int64_t n = element_count(&c.desc.in[GRAFT_LINEAR_W]);
    const size_t bytes = (size_t)graft_ggml_bytes(GRAFT_GGML_Q8_0, n);
    float *x = malloc((size_t)n * sizeof *x);
    uint8_t *want = malloc(bytes), *got = malloc(bytes);
    uint64_t seed = 11;
    graft_kernel_info info;
    c.desc.attrs.quant = GRAFT_QUANT_BLOCKS + GRAFT_GGML_Q8_0;
    graft_kernel *k = prepared(lib, &c, &info);
    if (!x || !want || !got || !k) abort();
    CHECK_INT(info.packed_bytes[GRAFT_LINEAR_W], bytes);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(random_next(&seed) >> 40) * 0x1p-23f - 1.0f;
    for (int i = 0; i < 32; i++) x[i] = 0;                           /* without a scale */
    for (int i = 0; i < 32; i++) x[32 + i] = (float)(i - 16) * 0.5f; /* halves of a level */
    x[32] = 127;
    for (int i = 0; i < 32; i++) x[64 + i] *= 1e-6f; /* a scale that float16 holds badly */
    for (int64_t i = 0; i < n; i += 32) q8_0_of(x + i, want + graft_ggml_bytes(GRAFT_GGML_Q8_0, i));
    pack_into(lib, k, GRAFT_F32, x, got, bytes);
    CHECK(memcmp(got, want, bytes) == 0);
    pack_into(lib, k, GRAFT_BLOCKS + GRAFT_GGML_Q8_0, want, got, bytes);
    CHECK(memcmp(got, want, bytes) == 0);
    x[40] = NAN; /* goes on as such */
    pack_into(lib, k, GRAFT_F32, x, got, bytes);
    float back[64];
    graft_ggml_to_f32(GRAFT_GGML_Q8_0, got, 0, 64, back);
    CHECK(isnan(back[40]) && !isnan(back[0]));
    lib->api->release(k);
    free(x);
    free(want);
    free(got);
}

static void of_floats(void)
{
    for (size_t s = 0; s < N_SHAPES; s++) {
        if (!whole(GRAFT_GGML_Q8_0, s)) continue;
        packs_q8_0(&ref, s);
        if (have_cpu) packs_q8_0(&cpu, s);
    }
}

/* ------------------------------------------------------------------ what is refused */

static void packs_of_others(const kernel_lib *lib)
{
    static float x[256 * 9];
    uint64_t packing[N_TYPES + 1];
    for (size_t t = 0; t <= N_TYPES; t++) {
        kernel_case c = case_of(types[t % N_TYPES], 1);
        graft_kernel_info info;
        if (t < N_TYPES) c.desc.attrs.quant = GRAFT_QUANT_BLOCKS + types[t];
        graft_kernel *k = prepared(lib, &c, &info);
        if (!k) continue;
        packing[t] = info.packing[GRAFT_LINEAR_W];
        for (size_t i = 0; i < t; i++) CHECK(packing[i] != packing[t]);
        void *to = lib->api->alloc(lib->device, info.packed_bytes[GRAFT_LINEAR_W]);
        for (size_t other = 0; other < N_TYPES; other++)
            if (other != t)
                CHECK_INT(lib->api->pack(k, GRAFT_LINEAR_W, GRAFT_BLOCKS + types[other], x, to),
                          GRAFT_E_UNSUPPORTED);
        if (t < N_TYPES && types[t] != GRAFT_GGML_Q8_0)
            CHECK_INT(lib->api->pack(k, GRAFT_LINEAR_W, GRAFT_F32, x, to), GRAFT_E_UNSUPPORTED);
        lib->api->free(lib->device, to);
        lib->api->release(k);
    }
}

static void refused_by(const kernel_lib *lib)
{
    static const int32_t unknown[] = {-1, 0, 1, 4, 9, 15, 16, 24, 30, 223, 230, 256, 1 << 24};
    kernel_case c = case_of(12, 1);
    graft_op_desc d = case_desc(&c, GRAFT_F32);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        d.attrs.quant = GRAFT_QUANT_BLOCKS + unknown[i];
        CHECK(!lib->api->supports(lib->device, &d));
    }
    d.attrs.quant = GRAFT_QUANT_BLOCKS + 12;
    CHECK(lib->api->supports(lib->device, &d));
    d.attrs.groups = 4; /* rows are not turned */
    CHECK(!lib->api->supports(lib->device, &d));
    size_t parts = 0, others = 0, n;
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t s = 0; s < N_SHAPES; s++) {
            c = case_of(types[t], s);
            c.desc.in[GRAFT_LINEAR_W].dim[1] -= 1;
            c.desc.in[GRAFT_LINEAR_X].dim[2] -= 1;
            make_dense(&c.desc.in[GRAFT_LINEAR_X]);
            make_dense(&c.desc.in[GRAFT_LINEAR_W]);
            d = case_desc(&c, GRAFT_F32);
            d.attrs.quant = GRAFT_QUANT_BLOCKS + types[t];
            const int64_t *w = d.in[GRAFT_LINEAR_W].dim;
            const bool fits = types[t] < 224 ? w[0] * w[1] % graft_ggml_values(types[t]) == 0
                                             : types[t] < 226; /* an odd number of columns */
            CHECK_INT(lib->api->supports(lib->device, &d), fits);
            parts += !fits;
        }
    kernel_case *list = kernel_cases(&n);
    for (size_t i = 0; i < n; i++) {
        if (list[i].desc.op == GRAFT_OP_LINEAR) continue;
        d = case_desc(&list[i], GRAFT_F32);
        d.attrs.quant = GRAFT_QUANT_BLOCKS + GRAFT_GGML_Q8_0;
        CHECK(!lib->api->supports(lib->device, &d));
        others++;
    }
    CHECK(parts > 50 && others > 50);
    free(list);
    packs_of_others(lib);
}

static void refuses(void)
{
    refused_by(&ref);
    if (have_cpu) refused_by(&cpu);
    for (graft_quant q = 0; q < 600; q++)
        CHECK(!graft_quant_blocks(q) || graft_quant_dtype(q) == q);
    for (size_t t = 0; t < N_TYPES; t++) {
        const graft_quant q = GRAFT_QUANT_BLOCKS + types[t];
        CHECK_INT(graft_quant_blocks(q), types[t]);
        CHECK_INT(graft_quant_of_dtype(graft_quant_dtype(q)), q);
    }
}

int main(int argc, char **argv)
{
    char path[1024];
    snprintf(path, sizeof path, GRAFT_LIB_DIR "/%s.so", argc > 1 ? argv[1] : "graft_kernels_cpu");
    if (!lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref)) return 1;
    have_cpu = lib_open(path, &cpu);
    if (argc > 1 && !have_cpu) return 1;
    played = argc > 2 && strcmp(argv[2], "small") == 0;
    packed_file = opened(GRAFT_SOURCE_DIR "/golden/small/gguf/blocks.gguf");
    plain_file = opened(GRAFT_SOURCE_DIR "/golden/small/gguf/blocks.safetensors");
    if (argc < 2) RUN(reference);
    RUN(other_libraries);
    RUN(of_floats);
    RUN(refuses);
    graft_safetensors_close(packed_file);
    graft_safetensors_close(plain_file);
    if (have_cpu) lib_close(&cpu);
    lib_close(&ref);
    return test_end();
}
