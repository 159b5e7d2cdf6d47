/* The operators of diffusion transformers and T5 where numbers alone do not show it: what is no
 * number stays where it belongs, keys whose bias takes them out, or that do not count, are as if
 * they were not there, a residual may be overwritten, and what cannot be is refused. */
#include <float.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/harness.h"
#include "tests/test.h"

static graft_tensor_desc tensor(int64_t a, int64_t b, int64_t c)
{
    graft_tensor_desc t = {.dtype = GRAFT_F32, .rank = 3, .dim = {a, b, c}};
    make_dense(&t);
    return t;
}

static graft_tensor_desc weight(int64_t n)
{
    graft_tensor_desc t = {.dtype = GRAFT_F32, .rank = 1, .dim = {n}, .constant = 1};
    make_dense(&t);
    return t;
}

static kernel_case case_of(graft_op op, graft_tensor_desc x)
{
    kernel_case c = {.source = GRAFT_F32};
    c.desc.size = sizeof c.desc;
    c.desc.op = op;
    c.desc.in[0] = c.desc.out = x;
    return c;
}

static kernel_case rms_norm(int32_t heads)
{
    kernel_case c = case_of(GRAFT_OP_RMS_NORM, tensor(2, 3, 120));
    c.desc.attrs.heads = heads;
    c.desc.in[GRAFT_NORM_GAMMA] = weight(120 / heads);
    return c;
}

static kernel_case layer_norm(void)
{
    kernel_case c = case_of(GRAFT_OP_LAYER_NORM, tensor(2, 5, 24));
    c.desc.attrs.eps = 1e-6f;
    c.desc.in[GRAFT_NORM_GAMMA] = c.desc.in[GRAFT_NORM_BETA] = tensor(2, 1, 24);
    return c;
}

static kernel_case gate(void)
{
    kernel_case c = case_of(GRAFT_OP_MUL, tensor(2, 5, 24));
    c.desc.in[GRAFT_MUL_B] = tensor(2, 1, 24);
    c.desc.in[GRAFT_MUL_RESIDUAL] = c.desc.out;
    return c;
}

static kernel_case join(void)
{
    kernel_case c = case_of(GRAFT_OP_JOIN, tensor(2, 5, 24));
    c.desc.in[1] = tensor(2, 3, 24);
    c.desc.out = tensor(2, 8, 24);
    return c;
}

/* Two tokens, then a grid of 3 x 2. */
static kernel_case rope(void)
{
    kernel_case c = case_of(GRAFT_OP_ROPE, tensor(2, 8, 24));
    c.desc.attrs = (graft_attrs){.heads = 2, .up_h = 3, .up_w = 2, .kernel_h = 4, .kernel_w = 6};
    return c;
}

/* Two heads of eight. */
static kernel_case attention(int64_t queries, int64_t keys, bool bias)
{
    kernel_case c = case_of(GRAFT_OP_ATTENTION, tensor(2, queries, 16));
    c.desc.attrs.heads = 2;
    c.desc.attrs.scale = 0.5f;
    c.desc.in[GRAFT_ATTENTION_K] = c.desc.in[GRAFT_ATTENTION_V] = tensor(2, keys, 16);
    if (bias) c.desc.in[GRAFT_ATTENTION_BIAS] = tensor(2, queries, keys);
    return c;
}

static kernel_case counted(int64_t queries, int64_t keys)
{
    kernel_case c = attention(queries, keys, false);
    graft_tensor_desc *n = &c.desc.in[GRAFT_ATTENTION_COUNT];
    *n = (graft_tensor_desc){.dtype = GRAFT_I32, .rank = 1, .dim = {2}};
    make_dense(n);
    return c;
}

/* The output, dense; NULL after a fault. free() */
static float *run(const kernel_lib *lib, const kernel_case *c, graft_dtype t, float *const *val)
{
    case_result r;
    case_run(lib, c, t, -1, val, &r);
    CHECK_STR(r.fault, "");
    CHECK(r.out != NULL);
    return r.out;
}

static bool runs(const kernel_lib *lib, const kernel_case *c, graft_dtype t)
{
    graft_op_desc d = case_desc(c, t);
    return lib->api->supports(lib->device, &d);
}

/* Far from 0 it is x or nothing, and what is no number stays none; in vectors and behind the last
 * whole one. */
static void gelu_far_out(const kernel_lib *lib, graft_dtype t)
{
    static const float far[] = {NAN, INFINITY, 1e30f, 100, 8, 0, -12, -100, -1e4f, -1e30f};
    enum { FAR = sizeof far / sizeof *far, N = 37 };
    kernel_case c = case_of(GRAFT_OP_ACT, tensor(1, 1, N));
    float x[N] = {0}, *val[GRAFT_MAX_INPUTS] = {x};
    c.desc.attrs.act = GRAFT_ACT_GELU_TANH;
    for (int i = 0; i < FAR; i++) {
        graft_dtype hold = t;
        uint32_t cell;
        element_put(hold, &cell, 0, (double)far[i]);
        x[i] = x[N - 1 - i] = (float)element_get(hold, &cell, 0);
    }
    float *y = run(lib, &c, t, val);
    for (int i = 0; i < N && y; i++) {
        bool ok = isnan(x[i]) ? isnan(y[i]) : x[i] >= 7 ? y[i] == x[i] : fabsf(y[i]) <= 1e-6f;
        if (!ok) printf("  %s: gelu by tanh of %g is %g\n", lib->kernels->name, x[i], y[i]);
        CHECK(ok);
    }
    free(y);
}

/* One value that is no number spoils its own head of its own row, and nothing else; a part of zeros
 * stays zero. */
static void heads_of_no_number(const kernel_lib *lib, graft_dtype t)
{
    static const float odd[] = {NAN, INFINITY};
    for (int32_t heads = 1; heads <= 24; heads += 23)
        for (int k = 0; k < 2; k++) {
            kernel_case c = rms_norm(heads);
            float *val[GRAFT_MAX_INPUTS];
            int64_t n = 120 / heads, at = 120 * 4 + n * (heads / 2) + n - 1;
            c.desc.attrs.eps = 1e-6f;
            case_values(&c, t, 5, val);
            val[0][at] = odd[k];
            for (int64_t i = 0; i < n; i++) val[0][i] = 0;
            float *y = run(lib, &c, t, val);
            for (int64_t i = 0; i < 720 && y; i++) {
                /* Beside an infinite value the others vanish. */
                bool own = i / n == at / n, spoilt = own && (k == 0 || i == at);
                CHECK(spoilt ? isnan(y[i]) : isfinite(y[i]));
                CHECK((i >= n && !own) || spoilt || y[i] == 0);
            }
            free(y);
            values_free(val);
        }
}

/* What is not turned stays in every bit, and what is no number spoils its own pair alone. */
static void turned_apart(const kernel_lib *lib, graft_dtype t, int32_t last)
{
    kernel_case c = rope();
    float *val[GRAFT_MAX_INPUTS];
    c.desc.attrs.pad_right = last;
    case_values(&c, t, 7, val);
    /* text, still, turned */
    const int64_t odd[] = {24 + 3, 3 * 24 + (last ? 11 : 1), 6 * 24 + 12 + 4};
    for (int i = 0; i < 3; i++) val[0][odd[i]] = i ? INFINITY : NAN;
    float *y = run(lib, &c, t, val);
    for (int64_t i = 0; i < 2 * 8 * 24 && y; i++) {
        bool stays = last ? i % 12 >= 12 - last : i % 12 < 2;
        bool still = i / 24 % 8 < 2 || stays, spoilt = i == odd[0] || i / 2 == odd[2] / 2;
        if (i == odd[1]) {
            CHECK(isinf(y[i]));
        } else if (spoilt) {
            CHECK(!isfinite(y[i]));
        } else if (still) {
            CHECK(y[i] == val[0][i]);
        } else {
            CHECK(isfinite(y[i]));
        }
    }
    free(y);
    values_free(val);
}

/* Every value of a part may be so small that only eps counts, or so large that squares nearly
 * overflow. */
static void rms_of_any_size(const kernel_lib *lib)
{
    static const float sizes[] = {1e-18f, 1e-6f, 1e6f, 3e17f};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        kernel_case c = rms_norm(8);
        float *val[GRAFT_MAX_INPUTS];
        c.desc.attrs.eps = 1e-6f;
        case_values(&c, GRAFT_F32, s, val);
        for (int64_t i = 0; i < 720; i++) val[0][i] *= sizes[s];
        float *y = run(lib, &c, GRAFT_F32, val);
        for (int64_t i = 0; i < 720 && y; i++) {
            double want = truth_at(&c, val, (int64_t[4]){i / 360, i / 120 % 3, i % 120});
            CHECK(fabs((double)y[i] - want) <= 1e-6 + 1e-5 * fabs(want));
        }
        free(y);
        values_free(val);
    }
}

/* Every `step`th key taken out by `out`, against the keys that are left. */
static void masked_keys(const kernel_lib *lib, graft_dtype t, float out, int64_t step)
{
    enum { QUERIES = 70, KEYS = 150 };
    int64_t left = 0;
    kernel_case all = attention(QUERIES, KEYS, true);
    float *val[GRAFT_MAX_INPUTS], *few[GRAFT_MAX_INPUTS] = {0};
    case_values(&all, t, 3, val);
    for (int64_t k = 0; k < KEYS; k++) left += k % step != 0;
    kernel_case some = attention(QUERIES, left, false);
    case_values(&some, t, 4, few);
    memcpy(few[0], val[0], sizeof(float) * 2 * QUERIES * 16);
    for (int64_t n = 0, to = 0; n < 2; n++)
        for (int64_t k = 0; k < KEYS; k++) {
            if (k % step == 0) continue;
            for (int i = 1; i < 3; i++)
                memcpy(few[i] + to * 16, val[i] + (n * KEYS + k) * 16, sizeof(float) * 16);
            to++;
        }
    for (int64_t i = 0; i < (int64_t)2 * QUERIES * KEYS; i++)
        val[3][i] = i % KEYS % step == 0 ? out : 0;
    float *a = run(lib, &all, t, val), *b = run(lib, &some, t, few);
    double worst = 0;
    for (int64_t i = 0; i < 2 * QUERIES * 16 && a && b; i++)
        worst = fmax(worst, isfinite(a[i]) ? fabs((double)a[i] - (double)b[i]) : INFINITY);
    if (worst > (t == GRAFT_F32 ? 1e-5 : 4e-2))
        printf("  %s, dtype %d: bias %g: off by %g\n", lib->kernels->name, (int)t, out, worst);
    CHECK(worst <= (t == GRAFT_F32 ? 1e-5 : 4e-2));
    free(a);
    free(b);
    values_free(val);
    values_free(few);
}

/* A permission for integers changes nothing where there is a bias. */
static void biased_is_not_quantized(const kernel_lib *lib, graft_dtype t)
{
    kernel_case c = attention(70, 90, true);
    float *val[GRAFT_MAX_INPUTS];
    case_values(&c, t, 6, val);
    float *a = run(lib, &c, t, val);
    c.desc.attrs.quant = GRAFT_QUANT_INT8;
    float *b = run(lib, &c, t, val);
    CHECK(a && b && memcmp(a, b, sizeof(float) * 2 * 70 * 16) == 0);
    free(a);
    free(b);
    values_free(val);
}

/* The sum of a transformer's blocks may be written where it was. */
static void residual_in_place(const kernel_lib *lib, graft_dtype t)
{
    kernel_case c = gate();
    graft_op_desc d = case_desc(&c, t);
    const graft_kernels_api *api = lib->api;
    graft_kernel *k = NULL;
    graft_kernel_info info = {.size = sizeof info};
    float *val[GRAFT_MAX_INPUTS];
    uint32_t cells[240];
    void *in[GRAFT_MAX_INPUTS] = {0};
    case_values(&c, t, 8, val);
    float *want = run(lib, &c, t, val);
    CHECK_INT(api->prepare(lib->device, &d, -1, &k, &info, NULL, 0), GRAFT_OK);
    if (k && api->inplace(k, GRAFT_MUL_RESIDUAL) && want) {
        for (int i = 0; i < 3; i++) {
            int64_t n = element_count(&d.in[i]), bytes = n * graft_dtype_size(d.in[i].dtype);
            for (int64_t e = 0; e < n; e++) element_put(d.in[i].dtype, cells, e, (double)val[i][e]);
            in[i] = api->alloc(lib->device, (uint64_t)bytes);
            api->upload(lib->device, in[i], cells, (uint64_t)bytes);
        }
        CHECK_INT(api->launch(k, (const void *const *)in, in[2], NULL), GRAFT_OK);
        CHECK_INT(api->wait(lib->device, NULL, 0), GRAFT_OK);
        api->download(lib->device, cells, in[2], 240 * graft_dtype_size(t));
        for (int64_t e = 0; e < 240; e++) CHECK(element_get(t, cells, e) == (double)want[e]);
        for (int i = 0; i < 3; i++) api->free(lib->device, in[i]);
    }
    api->release(k);
    free(want);
    values_free(val);
}

static bool refused(const kernel_lib *lib, const graft_op_desc *d)
{
    graft_kernel *k = NULL;
    graft_kernel_info info = {.size = sizeof info};
    char text[256] = "";
    graft_status st = lib->api->prepare(lib->device, d, -1, &k, &info, text, sizeof text);
    CHECK_INT(lib->api->supports(lib->device, d), st == GRAFT_OK);
    CHECK(st == GRAFT_OK || text[0]);
    if (!st) lib->api->release(k);
    return st != GRAFT_OK;
}

#define REFUSES(from, change)                                                                      \
    do {                                                                                           \
        d = (from).desc;                                                                           \
        CHECK(!refused(lib, &d));                                                                  \
        change;                                                                                    \
        bool was = refused(lib, &d);                                                               \
        if (!was) printf("  %s takes " #from " with " #change "\n", lib->kernels->name);           \
        CHECK(was);                                                                                \
    } while (0)

static void refused_turns(const kernel_lib *lib)
{
    graft_op_desc d;
    REFUSES(rope(), d.attrs.heads = 0);
    REFUSES(rope(), d.attrs.heads = 8); /* of three values */
    REFUSES(rope(), d.attrs.heads = 5);
    REFUSES(rope(), d.attrs.up_h = 0);
    REFUSES(rope(), d.attrs.up_w = -2);
    REFUSES(rope(), d.attrs.up_w = 3); /* nine cells */
    REFUSES(rope(), d.attrs.up_h = INT32_MAX);
    REFUSES(rope(), d.attrs.kernel_h = 3);
    REFUSES(rope(), d.attrs.kernel_h = 8);
    REFUSES(rope(), d.attrs.kernel_w = -2);
    REFUSES(rope(), d.attrs.kernel_w = INT32_MAX - 1);
    REFUSES(rope(), d.attrs.pad_right = 1);
    REFUSES(rope(), d.attrs.pad_right = 4); /* fourteen values of twelve */
    REFUSES(rope(), d.attrs.pad_right = -2);
    REFUSES(rope(), d.attrs.pad_right = INT32_MAX - 1);
    REFUSES(rope(), d.attrs.pad_bottom = 3); /* a cell too many then */
    REFUSES(rope(), d.attrs.pad_bottom = -1);
    REFUSES(rope(), d.attrs.pad_top = -1);
    REFUSES(rope(), d.attrs.pad_left = -1);
    REFUSES(rope(), d.attrs.groups = -1);
    REFUSES(rope(), d.attrs.stride_h = 2);
    REFUSES(rope(), d.attrs.stride_w = 2);
    REFUSES(rope(), d.attrs.stride_w = -1);
    REFUSES(rope(), d.attrs.stride_w = 1; d.attrs.pad_top = 1); /* of three rows */
    REFUSES(rope(), d.attrs.stride_h = 1; d.attrs.kernel_w = 4; d.attrs.pad_right = 2);
    REFUSES(rope(), d.attrs.stride_h = 1; d.attrs.kernel_w = 6); /* of six pairs two at most */
    REFUSES(rope(), d.attrs.stride_h = 1; d.attrs.kernel_w = 4; d.attrs.kernel_h = 6);
    REFUSES(rope(), d.attrs.scale = -256);
    REFUSES(rope(), d.attrs.scale = 0.5f);
    REFUSES(rope(), d.attrs.scale = NAN);
    REFUSES(rope(), d.attrs.scale = INFINITY);
    REFUSES(rope(), d.in[1] = d.in[0]);
    REFUSES(rope(), d.out.dim[1]++);
    REFUSES(rope(), d.in[0] = d.out = tensor(2, 8, 2 * 514)); /* too wide */
}

static void refusals(const kernel_lib *lib)
{
    graft_op_desc d;
    refused_turns(lib);
    REFUSES(rms_norm(8), d.attrs.heads = 0);
    REFUSES(rms_norm(8), d.attrs.heads = -8);
    REFUSES(rms_norm(8), d.attrs.heads = 7);
    REFUSES(rms_norm(8), d.attrs.heads = 4); /* gamma is too short */
    REFUSES(rms_norm(8), d.in[GRAFT_NORM_GAMMA].dtype = GRAFT_DTYPE_NONE);
    REFUSES(rms_norm(8), d.out.dim[1]++);
    REFUSES(rms_norm(8), d.in[2] = d.in[1]); /* there is no beta */
    REFUSES(layer_norm(), d.in[GRAFT_NORM_GAMMA].constant = 1);
    REFUSES(layer_norm(), d.in[GRAFT_NORM_GAMMA].dtype = GRAFT_BF16);
    REFUSES(layer_norm(), d.in[GRAFT_NORM_BETA].dtype = GRAFT_BF16);
    REFUSES(layer_norm(), d.in[GRAFT_NORM_BETA] = weight(24));
    REFUSES(layer_norm(), d.in[GRAFT_NORM_GAMMA] = weight(24));
    REFUSES(layer_norm(), d.in[GRAFT_NORM_GAMMA].dim[0] = 1);
    REFUSES(layer_norm(), d.in[GRAFT_NORM_BETA].dim[1] = 5);
    REFUSES(layer_norm(), d.in[GRAFT_NORM_GAMMA].stride[2] = 2);
    REFUSES(gate(), d.in[GRAFT_MUL_B].constant = 1);
    REFUSES(gate(), d.in[GRAFT_MUL_B].dtype = GRAFT_BF16);
    REFUSES(gate(), d.in[GRAFT_MUL_B].dim[0] = 1);
    REFUSES(gate(), d.in[GRAFT_MUL_B] = tensor(2, 5, 24));
    REFUSES(gate(), d.in[GRAFT_MUL_RESIDUAL].dim[1] = 1);
    REFUSES(gate(), d.in[GRAFT_MUL_RESIDUAL].rank = 2);
    REFUSES(gate(), d.op = GRAFT_OP_ADD);
    REFUSES(gate(), d.in[3] = d.in[2]);
    REFUSES(join(), d.in[1].dim[0] = 1);
    REFUSES(join(), d.in[1].dim[2] = 23);
    REFUSES(join(), d.out.dim[1] = 9);
    REFUSES(join(), d.in[1].dtype = GRAFT_DTYPE_NONE);
    REFUSES(join(), d.in[1].dtype = GRAFT_I32);
    REFUSES(attention(9, 9, true), d.attrs.causal = 1);
    REFUSES(attention(9, 7, true), d.in[GRAFT_ATTENTION_BIAS].constant = 1);
    REFUSES(attention(9, 7, true), d.in[GRAFT_ATTENTION_BIAS].dtype = GRAFT_BF16);
    REFUSES(attention(9, 7, true), d.in[GRAFT_ATTENTION_BIAS].dim[0] = 1);
    REFUSES(attention(9, 7, true), d.in[GRAFT_ATTENTION_BIAS].dim[1] = 7);
    REFUSES(attention(9, 7, true), d.in[GRAFT_ATTENTION_BIAS].dim[2] = 9);
    REFUSES(attention(9, 7, true), d.in[GRAFT_ATTENTION_BIAS].stride[2] = 2);
    REFUSES(attention(9, 7, true), d.attrs.shift = -1);
    REFUSES(attention(9, 7, true), d.attrs.shift = NAN);
    REFUSES(attention(9, 7, false), d.attrs.shift = 50);
    REFUSES(attention(9, 9, false), d.attrs.causal = 1; d.attrs.shift = 50);
    REFUSES(attention(9, 7, true), d.in[GRAFT_ATTENTION_COUNT] = counted(9, 7).desc.in[4]);
    REFUSES(counted(9, 9), d.attrs.causal = 1);
    REFUSES(counted(9, 7), d.in[GRAFT_ATTENTION_COUNT].constant = 1);
    REFUSES(counted(9, 7), d.in[GRAFT_ATTENTION_COUNT].dtype = GRAFT_I64);
    REFUSES(counted(9, 7), d.in[GRAFT_ATTENTION_COUNT].dtype = GRAFT_F32);
    REFUSES(counted(9, 7), d.in[GRAFT_ATTENTION_COUNT].dim[0] = 1);
    REFUSES(counted(9, 7), d.in[GRAFT_ATTENTION_COUNT] = tensor(2, 1, 1));
}

/* Attention of entry n of the batch, which has `keys` of the keys alone; its output (queries,16),
 * dense. free() */
static float *alone(const kernel_lib *lib, const kernel_case *all, graft_dtype t, float *const *val,
                    int64_t n, int64_t keys)
{
    const int64_t queries = all->desc.out.dim[1], most = all->desc.in[1].dim[1];
    kernel_case c = attention(queries, keys, false);
    c.desc.attrs = all->desc.attrs;
    c.desc.in[0].dim[0] = c.desc.in[1].dim[0] = c.desc.in[2].dim[0] = c.desc.out.dim[0] = 1;
    float *const own[GRAFT_MAX_INPUTS] = {val[0] + n * queries * 16, val[1] + n * most * 16,
                                          val[2] + n * most * 16};
    return run(lib, &c, t, own);
}

/* Keys that do not count are as if they were not there, whatever they are, as integers, too, where
 * there are any. A count that cannot be does no harm. Devices may have another kernel where nothing
 * is counted. */
static void counted_keys(const kernel_lib *lib, graft_dtype t, graft_quant quant, int32_t a,
                         int32_t b)
{
    enum { QUERIES = 70, KEYS = 150 };
    const int32_t count[2] = {a, b};
    kernel_case c = counted(QUERIES, KEYS);
    float *val[GRAFT_MAX_INPUTS];
    c.desc.attrs.quant = quant;
    if (!runs(lib, &c, t)) return;
    case_values(&c, t, 3, val);
    for (int n = 0; n < 2; n++) {
        val[GRAFT_ATTENTION_COUNT][n] = (float)count[n];
        for (int64_t i = count[n] < 1 ? 1 : count[n]; i < KEYS; i++)
            for (int64_t x = 0; x < 16; x++)
                val[1][(n * KEYS + i) * 16 + x] = val[2][(n * KEYS + i) * 16 + x] = 30000;
    }
    float *both = run(lib, &c, t, val);
    for (int n = 0; n < 2; n++) {
        const int64_t keys = count[n] < 1 ? 1 : count[n] > KEYS ? KEYS : count[n];
        const double most = lib->info.host_memory ? 0 : t == GRAFT_F32 ? 1e-5 : 4e-2;
        float *own = alone(lib, &c, t, val, n, keys);
        CHECK(both && own);
        for (int64_t i = 0; both && own && i < QUERIES * 16; i++)
            CHECK(fabs((double)both[n * QUERIES * 16 + i] - (double)own[i]) <= most);
        free(own);
    }
    free(both);
    values_free(val);
}

static void look_at(const kernel_lib *lib)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
    static const float out[] = {-INFINITY, -FLT_MAX, -1e9f};
    for (int i = 0; i < 3; i++) {
        graft_dtype t = dtypes[i];
        kernel_case norm = rms_norm(8);
        if (!runs(lib, &norm, t)) continue;
        heads_of_no_number(lib, t);
        turned_apart(lib, t, 0);
        turned_apart(lib, t, 2);
        residual_in_place(lib, t);
        biased_is_not_quantized(lib, t);
        for (graft_quant q = GRAFT_QUANT_NONE; q <= GRAFT_QUANT_INT8; q++) {
            counted_keys(lib, t, q, 149, 1);
            counted_keys(lib, t, q, 64, 65);
            counted_keys(lib, t, q, INT32_MIN, 1 << 30);
        }
        for (int k = 0; k < 3; k++) {
            masked_keys(lib, t, out[k], 3);
            masked_keys(lib, t, out[k], 149); /* whole blocks of keys have none of these */
        }
        if (t != GRAFT_F16) gelu_far_out(lib, t); /* which does not reach as far */
    }
    rms_of_any_size(lib);
    refusals(lib);
}

static const char *only; /* a part of the name of the library to look at */

static void each_library(void)
{
    glob_t found;
    int seen = 0;
    if (glob(GRAFT_LIB_DIR "/graft_kernels_*.so", 0, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        kernel_lib lib;
        if (only && !strstr(found.gl_pathv[i], only)) continue;
        if (!lib_open(found.gl_pathv[i], &lib)) continue;
        printf("  %s\n", lib.kernels->name);
        look_at(&lib);
        lib_close(&lib);
        seen++;
    }
    globfree(&found);
    CHECK(seen > 0);
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    RUN(each_library);
    return test_end();
}
