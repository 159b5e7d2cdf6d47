/* ATTENTION in 8-bit integers: the reference against the rounding of kernels/quant.h restated here,
 * the other libraries, which may compute it as it is, against what rounding costs. With an argument
 * only the library of that name is looked at: test_kernels_attention_int8 graft_kernels_cuda. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/harness.h"
#include "tests/test.h"

static const struct {
    int64_t n, queries, keys, heads, head_dim;
    int merged; /* 3: q, k and v are slices of one tensor; 2: k and v; 1: none */
} shapes[] = {
    {2, 64, 64, 8, 40, 3},   {1, 200, 200, 8, 64, 3},  {1, 64, 77, 8, 80, 2},
    {2, 16, 77, 8, 160, 2},  {1, 33, 77, 8, 64, 1},    {1, 100, 1, 8, 40, 1},
    {1, 70, 7, 8, 40, 2},    {1, 1, 1, 2, 64, 1},      {1, 65, 200, 2, 41, 2},
    {1, 33, 1024, 8, 40, 2}, {1, 17, 1024, 2, 160, 1}, {3, 9, 5, 1, 3, 1},
    {1, 130, 130, 8, 64, 3}, {1, 70, 5000, 1, 160, 1},
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static kernel_lib ref, other;
static bool have_other;

static graft_tensor_desc tokens(int64_t n, int64_t t, int64_t width, int parts)
{
    graft_tensor_desc d = {.dtype = GRAFT_F32, .rank = 3, .dim = {n, t, width}};
    make_dense(&d);
    d.stride[0] *= parts;
    d.stride[1] *= parts;
    return d;
}

static kernel_case case_of(size_t i)
{
    kernel_case c = {.source = GRAFT_F32};
    int64_t n = shapes[i].n, width = shapes[i].heads * shapes[i].head_dim;
    int merged = shapes[i].merged;
    c.desc.size = sizeof c.desc;
    c.desc.op = GRAFT_OP_ATTENTION;
    c.desc.attrs.heads = (int32_t)shapes[i].heads;
    c.desc.attrs.scale = 1.0f / sqrtf((float)shapes[i].head_dim);
    c.desc.attrs.quant = GRAFT_QUANT_INT8;
    c.desc.in[0] = tokens(n, shapes[i].queries, width, merged == 3 ? 3 : 1);
    c.desc.in[1] = c.desc.in[2] = tokens(n, shapes[i].keys, width, merged);
    c.desc.out = tokens(n, shapes[i].queries, width, 1);
    snprintf(c.name, sizeof c.name, "%lld x %lld on %lld, %lld heads of %lld, merged %d",
             (long long)n, (long long)shapes[i].queries, (long long)shapes[i].keys,
             (long long)shapes[i].heads, (long long)shapes[i].head_dim, merged);
    return c;
}

/* As in models: keys have a mean that is large beside what sets them apart, values' columns differ
 * in size. */
static void values_of(const kernel_case *c, graft_dtype t, float *val[GRAFT_MAX_INPUTS])
{
    int64_t width = c->desc.out.dim[2], all = element_count(&c->desc.in[1]);
    case_values(c, t, 7, val);
    for (int64_t i = 0; i < all; i++) {
        uint64_t column = (uint64_t)(i % width);
        float mean = (float)(random_next(&column) % 17) - 8.0f;
        val[1][i] += mean;
        val[2][i] *= 1.0f + (float)(i % width % 5);
        if (t == GRAFT_F32) continue;
        union {
            float f;
            uint32_t u;
        } bits = {val[1][i]}; /* what bfloat16 holds */
        bits.u &= 0xffff0000u;
        val[1][i] = bits.f;
        bits.f = val[2][i];
        bits.u &= 0xffff0000u;
        val[2][i] = bits.f;
    }
}

/* Every `step`-th of n values, `size` levels from the largest on. */
static void snap(float *x, int64_t n, int64_t step)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i * step]));
    float scale = most / 127.0f;
    for (int64_t i = 0; i < n && most > 0; i++)
        x[i * step] = (float)lrintf(x[i * step] * (1.0f / scale)) * scale;
}

static void snap_head(float *q, float *k, float *v, int64_t queries, int64_t keys, int64_t d,
                      int64_t width)
{
    for (int64_t i = 0; i < queries; i++) snap(q + i * width, d, 1);
    for (int64_t c = 0; c < d; c++) {
        double sum = 0;
        for (int64_t i = 0; i < keys; i++) sum += (double)k[i * width + c];
        for (int64_t i = 0; i < keys; i++) k[i * width + c] -= (float)(sum / (double)keys);
        snap(v + c, keys, width);
    }
    for (int64_t i = 0; i < keys; i++) snap(k + i * width, d, 1);
}

/* One query, in double. */
static void attend(const float *q, const float *k, const float *v, int64_t keys, int64_t d,
                   int64_t width, double scale, double *weight, float *out)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < keys; i++) {
        weight[i] = 0;
        for (int64_t c = 0; c < d; c++) weight[i] += (double)q[c] * (double)k[i * width + c];
        weight[i] *= scale;
        most = fmax(most, weight[i]);
    }
    for (int64_t i = 0; i < keys; i++) {
        weight[i] = rint(exp(weight[i] - most) * 255);
        sum += weight[i];
    }
    for (int64_t c = 0; c < d; c++) {
        double y = 0;
        for (int64_t i = 0; i < keys; i++) y += weight[i] * (double)v[i * width + c];
        out[c] = (float)(y / sum);
    }
}

/* Overwrites the values. */
static float *restated(const kernel_case *c, float *const *val)
{
    int64_t n = c->desc.out.dim[0], queries = c->desc.out.dim[1], width = c->desc.out.dim[2];
    int64_t keys = c->desc.in[1].dim[1], d = width / c->desc.attrs.heads;
    float *out = malloc((size_t)(n * queries * width) * sizeof *out);
    double *weight = malloc((size_t)keys * sizeof *weight);
    if (!out || !weight) abort();
    for (int64_t b = 0; b < n; b++)
        for (int64_t at = 0; at < width; at += d) {
            float *q = val[0] + b * queries * width + at, *k = val[1] + b * keys * width + at;
            float *v = val[2] + b * keys * width + at, *y = out + b * queries * width + at;
            snap_head(q, k, v, queries, keys, d, width);
            for (int64_t i = 0; i < queries; i++)
                attend(q + i * width, k, v, keys, d, width, (double)c->desc.attrs.scale, weight,
                       y + i * width);
        }
    free(weight);
    return out;
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

static float *run(const kernel_lib *lib, const kernel_case *c, graft_dtype t, float *const *val)
{
    case_result r;
    case_run(lib, c, t, -1, val, &r);
    if (r.fault[0]) printf("%s: %s\n", c->name, r.fault);
    CHECK(!r.fault[0] && r.out);
    return r.out;
}

/* A weight at the border of two levels may fall on either side. */
static void reference_rounds_as_written(void)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        kernel_case c = case_of(i);
        float *val[GRAFT_MAX_INPUTS];
        values_of(&c, GRAFT_F32, val);
        float *own = run(&ref, &c, GRAFT_F32, val), *want = restated(&c, val);
        double error = nmse(own, want, element_count(&c.desc.out));
        if (!(error < 1e-7)) printf("%s: nmse %g\n", c.name, error);
        CHECK(error < 1e-7);
        free(own);
        free(want);
        values_free(val);
    }
}

/* Causal attention is not rounded. */
static void causal_stays(void)
{
    kernel_case c = case_of(1), plain = c;
    float *val[GRAFT_MAX_INPUTS];
    const kernel_lib *libs[] = {&ref, have_other ? &other : NULL};
    values_of(&c, GRAFT_F32, val);
    c.desc.attrs.causal = plain.desc.attrs.causal = 1;
    plain.desc.attrs.quant = GRAFT_QUANT_NONE;
    for (int i = 0; i < 2 && libs[i]; i++) {
        float *a = run(libs[i], &c, GRAFT_F32, val), *b = run(libs[i], &plain, GRAFT_F32, val);
        CHECK(memcmp(a, b, (size_t)element_count(&c.desc.out) * sizeof *a) == 0);
        free(a);
        free(b);
    }
    values_free(val);
}

/* Blocks of keys with scales of their own, or no rounding at all: neither is further from the exact
 * result than a few times what the reference's rounding costs. */
static void check_other(const kernel_case *c, graft_dtype t)
{
    double most = t == GRAFT_F32 ? 1e-9 : 5e-5; /* for what is not rounded */
    int64_t n = element_count(&c->desc.out);
    kernel_case plain = *c;
    float *val[GRAFT_MAX_INPUTS];
    plain.desc.attrs.quant = GRAFT_QUANT_NONE;
    values_of(c, t, val);
    float *exact = run(&ref, &plain, GRAFT_F32, val), *rounded = run(&ref, c, GRAFT_F32, val);
    float *own = run(&other, c, t, val);
    double cost = nmse(rounded, exact, n), error = nmse(own, exact, n);
    bool ok = cost < 2e-3 && error < most + 3 * cost;
    if (!ok) printf("%s, dtype %d: nmse %g, rounding costs %g\n", c->name, t, error, cost);
    CHECK(ok);
    free(exact);
    free(rounded);
    free(own);
    values_free(val);
}

static void other_library(void)
{
    for (size_t i = 0; i < COUNT(shapes) && have_other; i++) {
        kernel_case c = case_of(i);
        check_other(&c, GRAFT_F32);
        check_other(&c, GRAFT_BF16);
    }
}

static void fill(float *const *val, int input, const kernel_case *c,
                 float (*value)(int64_t token, int64_t column))
{
    int64_t width = c->desc.in[input].dim[2], all = element_count(&c->desc.in[input]);
    for (int64_t i = 0; i < all; i++) val[input][i] = value(i / width, i % width);
}

static float zero(int64_t token, int64_t column)
{
    (void)token, (void)column;
    return 0;
}

static float one(int64_t token, int64_t column)
{
    (void)token, (void)column;
    return 1;
}

static float growing(int64_t token, int64_t column)
{
    return (float)(token * (column % 7 + 1));
}

/* Queries of zeros see all keys alike, and none that is not there: 77 fill no whole tile. */
static void every_key_counts_once(void)
{
    kernel_case c = case_of(2);
    float *val[GRAFT_MAX_INPUTS];
    values_of(&c, GRAFT_F32, val);
    fill(val, 0, &c, zero);
    fill(val, 2, &c, one);
    float *own = run(&other, &c, GRAFT_F32, val), most = 0;
    for (int64_t i = 0; i < element_count(&c.desc.out); i++) most = fmaxf(most, fabsf(own[i] - 1));
    CHECK(most < 1e-5f);
    free(own);
    values_free(val);
}

/* The scores of small queries on large keys are those of others. */
static void small_queries_count(void)
{
    kernel_case c = case_of(9);
    float *val[GRAFT_MAX_INPUTS];
    values_of(&c, GRAFT_F32, val);
    for (int64_t i = 0; i < element_count(&c.desc.in[0]); i++) val[0][i] *= 1e-15f;
    for (int64_t i = 0; i < element_count(&c.desc.in[1]); i++) val[1][i] *= 1e15f;
    float *own = run(&other, &c, GRAFT_F32, val), *want = run(&ref, &c, GRAFT_F32, val);
    double error = nmse(own, want, element_count(&c.desc.out));
    if (!(error < 1e-3)) printf("nmse %g\n", error);
    CHECK(error < 1e-3);
    free(own);
    free(want);
    values_free(val);
}

/* Scores that rise from one block of keys to the next by more than floats have room for: what came
 * before must vanish beside them. All keys less their mean point the same way, so they have the
 * same levels and rounding does not matter. */
static void scores_rise_far(void)
{
    kernel_case c = case_of(9); /* 1024 keys */
    float *val[GRAFT_MAX_INPUTS];
    for (int steep = 0; steep < 5; steep++) {
        c.desc.attrs.scale = (float[]){1e-3f, 0.1f, 10.0f, 1e4f, 1e8f}[steep];
        values_of(&c, GRAFT_F32, val);
        fill(val, 0, &c, one);
        fill(val, 1, &c, growing);
        float *own = run(&other, &c, GRAFT_F32, val), *want = run(&ref, &c, GRAFT_F32, val);
        double error = nmse(own, want, element_count(&c.desc.out));
        if (!(error < 1e-3)) printf("scale %g: nmse %g\n", (double)c.desc.attrs.scale, error);
        CHECK(error < 1e-3);
        free(own);
        free(want);
        values_free(val);
    }
}

static float tiny(int64_t token, int64_t column)
{
    (void)token;
    return 1e-30f * (float)(1 + column % 3);
}

/* Values far below what a block's weights are kept at come out as they are. */
static void tiny_values_stay(void)
{
    kernel_case c = case_of(1);
    float *val[GRAFT_MAX_INPUTS], most = 0;
    values_of(&c, GRAFT_F32, val);
    fill(val, 2, &c, tiny);
    float *own = run(&other, &c, GRAFT_F32, val);
    int64_t width = c.desc.out.dim[2];
    for (int64_t i = 0; i < element_count(&c.desc.out); i++)
        most = fmaxf(most, fabsf(own[i] / tiny(0, i % width) - 1));
    CHECK(most < 1e-5f);
    free(own);
    values_free(val);
}

int main(int argc, char **argv)
{
    char path[1024];
    snprintf(path, sizeof path, GRAFT_LIB_DIR "/%s.so", argc > 1 ? argv[1] : "graft_kernels_cpu");
    if (!lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref)) return 1;
    have_other = lib_open(path, &other);
    if (argc > 1 && !have_other) return 1;
    if (argc < 2) RUN(reference_rounds_as_written);
    RUN(causal_stays);
    RUN(other_library);
    if (have_other) RUN(every_key_counts_once);
    if (have_other) RUN(small_queries_count);
    if (have_other) RUN(scores_rise_far);
    if (have_other) RUN(tiny_values_stay);
    if (have_other) lib_close(&other);
    lib_close(&ref);
    return test_end();
}
