/* Quantized LINEAR and CONV2D: the reference against itself on values that were quantized here, the
 * other libraries against the reference, in all their variants. With an argument only the library
 * of that name is held against the reference: test_kernels_quant graft_kernels_cuda; with "turned"
 * behind that only what turns rows is, in cases that are small enough to play a device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/hadamard.h"
#include "kernels/quant.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/harness.h"
#include "tests/test.h"

static kernel_lib ref, cpu;
static bool have_cpu, played;

/* The nearest whole number; with 448 levels the nearest that has four bits, none below 2^-9. */
static float nearest(float x, int levels)
{
    int exponent;
    if (levels != 448) return (float)lrintf(x);
    frexp((double)x, &exponent);
    double step = ldexp(1, exponent < -5 ? -9 : exponent - 4);
    return (float)(rint((double)x / step) * step);
}

/* Each group of n values to multiples of its largest / levels; groups of at most `group`. */
static void snap(float *v, int64_t rows, int64_t n, int64_t group, int levels)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t at = 0; at < n; at += group) {
            float *p = v + r * n + at, most = 0;
            int64_t count = n - at < group ? n - at : group;
            for (int64_t i = 0; i < count; i++)
                if (fabsf(p[i]) > most) most = fabsf(p[i]);
            float scale = most / (float)levels;
            if (levels == 448) scale = exp2f(ceilf(log2f(scale)));
            for (int64_t i = 0; i < count && most > 0; i++)
                p[i] = nearest(p[i] * (1.0f / scale), levels) * scale;
        }
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

static int64_t rows_of(const graft_tensor_desc *t, int dims)
{
    int64_t n = 1;
    for (int i = 0; i < dims; i++) n *= t->dim[i];
    return n;
}

static kernel_case quantized(const kernel_case *c, graft_quant quant)
{
    kernel_case q = *c;
    q.desc.attrs.quant = quant;
    return q;
}

static void check_ref(const kernel_case *given, graft_quant quant)
{
    kernel_case exact = *given; /* values quantized here must pass pack() unchanged */
    const kernel_case *c = &exact;
    exact.source = GRAFT_F32;
    float *val[GRAFT_MAX_INPUTS];
    case_result plain, own;
    kernel_case q = quantized(c, quant);
    const graft_tensor_desc *x = &c->desc.in[0], *w = &c->desc.in[1];
    case_values(c, GRAFT_F32, 3, val);
    case_run(&ref, &q, GRAFT_F32, -1, val, &own);
    int64_t per_output = element_count(w) / w->dim[0];
    bool of_8_bits = quant != GRAFT_QUANT_INT4;
    int most = quant == GRAFT_QUANT_FP8 ? 448 : of_8_bits ? 127 : 7;
    snap(val[1], w->dim[0], per_output, of_8_bits ? per_output : GRAFT_QUANT_GROUP, most);
    int64_t rows = rows_of(x, c->desc.op == GRAFT_OP_CONV2D ? 1 : x->rank - 1);
    if (of_8_bits) snap(val[0], rows, element_count(x) / rows, element_count(x), most);
    case_want(&ref, c, GRAFT_F32, val, &plain);
    if (own.fault[0]) printf("%s: %s\n", c->name, own.fault);
    CHECK(!own.fault[0] && !plain.fault[0]);
    double error = nmse(own.out, plain.out, element_count(&c->desc.out));
    if (!(error < 1e-9)) printf("%s quant %d: nmse %g\n", c->name, quant, error);
    CHECK(error < 1e-9);
    free(own.out);
    free(plain.out);
    values_free(val);
}

static int32_t check_variant(const kernel_case *q, graft_dtype dtype, int32_t variant,
                             float *const *val, const case_result *want)
{
    case_result own;
    graft_quant quant = q->desc.attrs.quant;
    case_run(&cpu, q, dtype, variant, val, &own);
    if (own.fault[0]) printf("%s: %s\n", q->name, own.fault);
    CHECK(!own.fault[0] && own.out);
    double error = own.out ? nmse(own.out, want->out, element_count(&q->desc.out)) : 1;
    double limit = dtype == GRAFT_F32 ? 1e-9 : quant != GRAFT_QUANT_INT4 ? 1e-5 : 2e-5;
    if (q->desc.op == GRAFT_OP_LINEAR && q->desc.in[GRAFT_LINEAR_GAMMA].dtype)
        limit = 3e-5; /* a norm that is off by its last bit moves levels beside a half */
    if (!(error < limit)) printf("%s quant %d %s: nmse %g\n", q->name, quant, own.variant, error);
    CHECK(error < limit);
    free(own.out);
    return own.variants;
}

static void check_cpu(const kernel_case *c, graft_quant quant, graft_dtype dtype)
{
    float *val[GRAFT_MAX_INPUTS];
    case_result want;
    kernel_case q = quantized(c, quant);
    graft_op_desc d = case_desc(&q, dtype), plain = case_desc(c, dtype);
    if (c->desc.op == GRAFT_OP_LINEAR) plain.attrs.groups = 0;
    if (!cpu.api->supports(cpu.device, &plain)) return;
    CHECK(cpu.api->supports(cpu.device, &d));
    case_values(c, dtype, 4, val);
    case_want(&ref, &q, GRAFT_F32, val, &want);
    int32_t variants = check_variant(&q, dtype, -1, val, &want);
    for (int32_t v = 0; v < variants && variants > 1; v++) check_variant(&q, dtype, v, val, &want);
    free(want.out);
    values_free(val);
}

static bool heavy(const kernel_case *c)
{
    return truth_cost(c) * (double)element_count(&c->desc.out) > (played ? 2e5 : 2e8);
}

static void each(void (*check)(const kernel_case *c, graft_quant quant))
{
    size_t n;
    kernel_case *list = kernel_cases(&n);
    int used = 0;
    for (size_t i = 0; i < n; i++) {
        graft_op op = list[i].desc.op;
        if ((op != GRAFT_OP_CONV2D && op != GRAFT_OP_LINEAR) || heavy(&list[i])) continue;
        check(&list[i], GRAFT_QUANT_INT8);
        check(&list[i], GRAFT_QUANT_INT4);
        if (i % 3 == 0) check(&list[i], GRAFT_QUANT_FP8); /* nearly all is int8's */
        used++;
    }
    CHECK(used > 10);
    printf("%d cases\n", used);
    free(list);
}

/* The two roundings are one, and what is E4M3 times a power of two stays what it is. */
static void floats_of_8_bits(void)
{
    float x[256], y[256];
    for (int v = 0; v < 256; v++)
        x[v] = (v & 127) == 127 ? 0 : graft_f8_e4m3_to_f32((uint8_t)v) * 0x1p-20f;
    for (int n = 1; n <= 256; n++) {
        graft_quant8_snap(GRAFT_QUANT_FP8, x, y, n, graft_quant_absmax(x, n));
        CHECK(memcmp(x, y, (size_t)n * sizeof *x) == 0);
    }
    for (uint32_t u = 0; u < 0x7f800000u; u += 4999) {
        float f;
        memcpy(&f, &u, sizeof f);
        CHECK(graft_quant_e4m3(f) == graft_f8_e4m3_to_f32(graft_f32_to_f8_e4m3(f)));
        CHECK(graft_quant_e4m3(-f) == -graft_quant_e4m3(f));
    }
    CHECK(isnan(graft_quant_e4m3(NAN)));
    for (int v = 0; v < 256; v++) {
        uint8_t level = (uint8_t)v;
        graft_quant8_values(GRAFT_QUANT_FP8, &level, 0.5f, y, 1);
        float want = graft_f8_e4m3_to_f32(level) * 0.5f;
        CHECK(isnan(want) ? isnan(y[0]) : memcmp(y, &want, sizeof want) == 0);
    }
    /* No scale has an inverse that is not finite, and rows below that are zeros. */
    static const float tiny[] = {0, 1e-45f, 1e-38f, 0x1p-101f, 0x1p-100f, 1e-20f};
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++) {
        float row[2] = {tiny[i], 0};
        graft_quant8_snap(GRAFT_QUANT_FP8, row, y, 2, tiny[i]);
        CHECK(y[1] == 0 && (tiny[i] < 0x1p-100f ? y[0] == 0 : fabsf(y[0] / tiny[i] - 1) < 0.07f));
    }
}

static void reference(void)
{
    each(check_ref);
}

static void both_dtypes(const kernel_case *c, graft_quant quant)
{
    check_cpu(c, quant, GRAFT_F32);
    check_cpu(c, quant, GRAFT_BF16);
}

static void other_libraries(void)
{
    if (have_cpu) each(both_dtypes);
}

/* ------------------------------------------------------------------ turned rows */

/* Element (i,j) of the matrix of size `group`, by the definition. */
static double hadamard_at(int64_t i, int64_t j, int64_t group)
{
    static const int of[4][4] = {{1, 1, 1, -1}, {1, 1, -1, 1}, {1, -1, 1, 1}, {-1, 1, 1, 1}};
    double v = 1;
    for (; group > 1; group /= 4, i /= 4, j /= 4) v *= 0.5 * of[i % 4][j % 4];
    return v;
}

static void transform(void)
{
    enum { N = 4096 };
    static float x[N], y[N];
    uint64_t seed = 5;
    for (int64_t group = 4; group <= N; group *= 4) {
        for (int i = 0; i < N; i++)
            y[i] = x[i] = (float)(random_next(&seed) >> 40) * 0x1p-23f - 1.0f;
        graft_hadamard(y, N, group);
        double error = 0;
        for (int64_t i = 0; i < N; i += 1 + i % 7) {
            double want = 0;
            for (int64_t j = i / group * group; j < (i / group + 1) * group; j++)
                want += x[j] * hadamard_at(i % group, j % group, group);
            error = fmax(error, fabs(want - y[i]));
        }
        CHECK(error < 4e-6);
        graft_hadamard(y, N, group); /* is its own inverse */
        for (int i = 0; i < N; i++) CHECK(fabsf(y[i] - x[i]) < 2e-6f);
    }
    CHECK(graft_hadamard_is(4, 8) && graft_hadamard_is(256, 3072) && graft_hadamard_is(N, N));
    CHECK(!graft_hadamard_is(0, 8) && !graft_hadamard_is(2, 8) && !graft_hadamard_is(8, 64));
    CHECK(!graft_hadamard_is(16, 40) && !graft_hadamard_is(4 * N, 4 * N) &&
          !graft_hadamard_is(-4, 8));
}

/* The largest group that the case's rows fit; 0: none. */
static int32_t group_of(const kernel_case *c)
{
    int64_t n = c->desc.in[1].dim[1];
    int32_t group = GRAFT_HADAMARD_MOST;
    while (group && !graft_hadamard_is(group, n)) group /= 4;
    return group < 4 ? 0 : group;
}

/* A layer whose rows are turned is one of rows that were. */
static void check_turned(const kernel_case *given, graft_quant quant)
{
    kernel_case plain = quantized(given, GRAFT_QUANT_INT8), own = plain;
    const graft_tensor_desc *x = &given->desc.in[0];
    float *val[GRAFT_MAX_INPUTS];
    case_result want, got;
    own.desc.attrs.groups = group_of(given);
    if (quant != GRAFT_QUANT_INT8 || given->desc.op != GRAFT_OP_LINEAR || !own.desc.attrs.groups)
        return;
    case_values(given, GRAFT_F32, 7, val);
    case_want(&ref, &own, GRAFT_F32, val, &got);
    graft_hadamard(val[0], element_count(x), own.desc.attrs.groups);
    case_want(&ref, &plain, GRAFT_F32, val, &want);
    CHECK(!got.fault[0] && !want.fault[0]);
    CHECK(memcmp(got.out, want.out, (size_t)element_count(&given->desc.out) * sizeof(float)) == 0);
    free(got.out);
    free(want.out);
    values_free(val);
    if (!have_cpu) return;
    check_cpu(&own, GRAFT_QUANT_INT8, GRAFT_F32);
    check_cpu(&own, GRAFT_QUANT_INT8, GRAFT_BF16);
    while ((own.desc.attrs.groups /= 4) >= 4) check_cpu(&own, GRAFT_QUANT_INT8, GRAFT_F32);
}

/* Wider rows than others, rows with gaps between them, and normed ones, of libraries that norm. */
static void check_wide(void)
{
    static const struct {
        int64_t rows, columns, gap;
        bool norm;
    } of[] = {{9, 3072, 0, false},  {5, 4096, 0, false},  {3, 8192, 8, false},  {5, 8448, 0, false},
              {4, 15360, 0, false}, {2, 32768, 0, false}, {3, 12288, 1, false}, {13, 20, 0, false},
              {9, 64, 3, false},    {33, 320, 0, true},   {5, 1280, 8, true},   {4, 2048, 1, true}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        kernel_case c = {.source = GRAFT_F32};
        c.desc = (graft_op_desc){.size = sizeof c.desc, .op = GRAFT_OP_LINEAR};
        c.desc.attrs.quant = GRAFT_QUANT_INT8;
        c.desc.in[GRAFT_LINEAR_X] = gapped(act_of(1, of[i].rows, of[i].columns, 0), of[i].gap);
        c.desc.in[GRAFT_LINEAR_W] = weight_of(16, of[i].columns, 0, 0);
        c.desc.out = act_of(1, of[i].rows, 16, 0);
        snprintf(c.name, sizeof c.name, "%d rows of %d, gap %d%s", (int)of[i].rows,
                 (int)of[i].columns, (int)of[i].gap, of[i].norm ? ", normed" : "");
        if (!of[i].norm) {
            check_turned(&c, GRAFT_QUANT_INT8);
            continue;
        }
        c.desc.in[GRAFT_LINEAR_GAMMA] = weight_of(of[i].columns, 0, 0, 0);
        c.desc.in[GRAFT_LINEAR_BETA] = c.desc.in[GRAFT_LINEAR_GAMMA];
        c.desc.attrs.eps = 1e-5f;
        c.desc.attrs.groups = group_of(&c);
        if (have_cpu) both_dtypes(&c, GRAFT_QUANT_INT8);
    }
}

static void turned_rows(void)
{
    if (have_cpu && !(GRAFT_KERNELS_HAS(cpu.kernels->more, wants) &&
                      cpu.kernels->more->wants & GRAFT_WANTS_HADAMARD)) {
        printf("skipped: %s turns no rows\n", cpu.kernels->name);
        return;
    }
    each(check_turned);
    check_wide();
}

static void refuses_groups(void)
{
    const kernel_lib *libs[] = {&ref, have_cpu ? &cpu : NULL};
    size_t n;
    kernel_case *list = kernel_cases(&n);
    for (int l = 0; l < 2 && libs[l]; l++)
        for (size_t i = 0; i < n; i++) {
            graft_op_desc d = case_desc(&list[i], GRAFT_F32);
            if (d.op != GRAFT_OP_LINEAR || !group_of(&list[i])) continue;
            for (graft_quant q = GRAFT_QUANT_NONE; q <= GRAFT_QUANT_FP8; q++) {
                d.attrs.quant = q;
                d.attrs.groups = group_of(&list[i]) * (q == GRAFT_QUANT_INT8 ? 4 : 1);
                CHECK(!libs[l]->api->supports(libs[l]->device, &d));
            }
        }
    free(list);
}

/* Quantized and plain weights are never taken for one another, and int8 is a quarter of float32. */
static void packings_differ(void)
{
    const kernel_lib *libs[] = {&ref, have_cpu ? &cpu : NULL};
    size_t n;
    kernel_case *list = kernel_cases(&n);
    for (int l = 0; l < 2 && libs[l]; l++)
        for (size_t i = 0; i < n; i++) {
            if (list[i].desc.op != GRAFT_OP_CONV2D && list[i].desc.op != GRAFT_OP_LINEAR) continue;
            graft_kernel_info info[4];
            int have = 0;
            for (int q = 0; q < 4; q++) {
                kernel_case c = quantized(&list[i], q);
                graft_op_desc d = case_desc(&c, GRAFT_F32);
                graft_kernel *k = NULL;
                char text[256];
                info[q].size = sizeof info[q];
                have += !libs[l]->api->prepare(libs[l]->device, &d, -1, &k, &info[q], text,
                                               sizeof text);
                libs[l]->api->release(k);
            }
            if (have < 4) continue;
            for (int q = 0; q < 4; q++)
                for (int r = 0; r < q; r++) CHECK(info[q].packing[1] != info[r].packing[1]);
            const graft_tensor_desc *w = &list[i].desc.in[1];
            int64_t groups = (element_count(w) / w->dim[0] + 63) / 64;
            CHECK_INT(info[2].packed_bytes[1], w->dim[0] * groups * 36);
            if (l == 1 && w->dim[0] % 64 == 0 && w->dim[1] % 64 == 0)
                CHECK((double)info[1].packed_bytes[1] <=
                      0.25 * (double)info[0].packed_bytes[1] + 16.0 * (double)w->dim[0] + 512);
        }
    free(list);
}

static void refuses(void)
{
    const kernel_lib *libs[] = {&ref, have_cpu ? &cpu : NULL};
    size_t n;
    kernel_case *list = kernel_cases(&n);
    for (int l = 0; l < 2 && libs[l]; l++)
        for (size_t i = 0; i < n; i++) {
            graft_op_desc d = case_desc(&list[i], GRAFT_F32);
            d.attrs.quant = i & 1 ? 4 : -1;
            CHECK(!libs[l]->api->supports(libs[l]->device, &d));
            if (d.op == GRAFT_OP_CONV2D || d.op == GRAFT_OP_LINEAR) continue;
            /* Attention may be quantized to integers alone. */
            for (graft_quant q = GRAFT_QUANT_INT8; q <= GRAFT_QUANT_FP8; q++) {
                d.attrs.quant = q;
                if (d.op != GRAFT_OP_ATTENTION || q != GRAFT_QUANT_INT8)
                    CHECK(!libs[l]->api->supports(libs[l]->device, &d));
            }
        }
    free(list);
}

int main(int argc, char **argv)
{
    char path[1024];
    snprintf(path, sizeof path, GRAFT_LIB_DIR "/%s.so", argc > 1 ? argv[1] : "graft_kernels_cpu");
    if (!lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref)) return 1;
    have_cpu = lib_open(path, &cpu);
    if (argc > 1 && !have_cpu) return 1;
    played = argc > 2 && strcmp(argv[2], "turned") == 0;
    if (argc < 2) RUN(floats_of_8_bits);
    if (argc < 2) RUN(reference);
    if (!played) RUN(other_libraries);
    if (argc < 2) RUN(transform);
    RUN(turned_rows);
    RUN(refuses_groups);
    if (!played) RUN(packings_differ);
    if (!played) RUN(refuses);
    CHECK(argc < 2 || !lib_warnings()); /* no variant was another one's stand-in */
    if (have_cpu) lib_close(&cpu);
    lib_close(&ref);
    return test_end();
}
