/* LINEAR of 8 bits with a norm in front: ref gives the bits of both operators one after the other,
 * the CUDA library what ref gives, in all variants; what is refused. */
#include "tests/cuda/backend.h"
#include "tests/cuda/compare.h"
#include "tests/kernels/cases.h"
#include "tests/test.h"

static kernel_lib cuda, ref;

typedef struct shape {
    int64_t rows, columns, outputs, gap; /* gap: between the rows of x */
    bool bias, residual;
    graft_act act;
} shape;

static kernel_case case_of(const shape *s, graft_quant quant)
{
    kernel_case c = {.source = GRAFT_F32};
    graft_op_desc *d = &c.desc;
    int64_t out = s->act == GRAFT_ACT_GEGLU ? s->outputs / 2 : s->outputs;
    d->size = sizeof *d;
    d->op = GRAFT_OP_LINEAR;
    d->attrs = (graft_attrs){.act = s->act, .eps = 1e-5f, .quant = quant};
    d->in[GRAFT_LINEAR_X] = gapped(act_of(2, s->rows, s->columns, 0), s->gap);
    d->in[GRAFT_LINEAR_W] = weight_of(s->outputs, s->columns, 0, 0);
    if (s->bias) d->in[GRAFT_LINEAR_BIAS] = weight_of(s->outputs, 0, 0, 0);
    d->out = act_of(2, s->rows, out, 0);
    if (s->residual) d->in[GRAFT_LINEAR_RESIDUAL] = d->out;
    d->in[GRAFT_LINEAR_GAMMA] = d->in[GRAFT_LINEAR_BETA] = weight_of(s->columns, 0, 0, 0);
    snprintf(c.name, sizeof c.name, "2x%d rows of %d to %d, gap %d%s%s%s", (int)s->rows,
             (int)s->columns, (int)s->outputs, (int)s->gap, s->bias ? " bias" : "",
             s->residual ? " residual" : "", act_name[s->act]);
    return c;
}

static const shape shapes[] = {
    {3, 64, 48, 0, true, false, GRAFT_ACT_NONE},     {40, 320, 64, 0, false, false, GRAFT_ACT_NONE},
    {33, 640, 128, 8, true, false, GRAFT_ACT_GEGLU}, {64, 1280, 80, 0, true, true, GRAFT_ACT_NONE},
    {5, 1288, 64, 0, true, false, GRAFT_ACT_SILU},   {2, 2048, 32, 16, false, true, GRAFT_ACT_NONE},
    {7, 72, 40, 3, true, false, GRAFT_ACT_NONE}, /* rows that are read one by one */
    {4, 77, 24, 0, true, false, GRAFT_ACT_NONE},     {1, 1, 16, 0, true, false, GRAFT_ACT_NONE},
    {70, 128, 160, 0, true, false, GRAFT_ACT_GEGLU},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };
static const graft_quant quants[] = {GRAFT_QUANT_INT8, GRAFT_QUANT_FP8};

/* x is far from zero, and its rows differ in size: what a norm is for. */
static void far_from_zero(const kernel_case *c, graft_dtype dtype, float *x)
{
    int64_t n = element_count(&c->desc.in[GRAFT_LINEAR_X]), columns = c->desc.in[1].dim[1];
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * (float)(1 + i / columns % 5) + 3.0f;
        uint32_t half = 0;
        element_put(dtype, &half, 0, (double)v);
        x[i] = dtype == GRAFT_F32 ? v : (float)element_get(dtype, &half, 0);
    }
}

/* The norm, and the layer on its result. */
static float *one_after_the_other(const kernel_case *c, float *const *val)
{
    kernel_case norm = {.source = GRAFT_F32}, layer = *c;
    float *in[GRAFT_MAX_INPUTS] = {val[0], val[GRAFT_LINEAR_GAMMA], val[GRAFT_LINEAR_BETA]};
    case_result normed, out;
    norm.desc.size = sizeof norm.desc;
    norm.desc.op = GRAFT_OP_LAYER_NORM;
    norm.desc.attrs.eps = c->desc.attrs.eps;
    norm.desc.in[0] = c->desc.in[0];
    norm.desc.in[1] = norm.desc.in[2] = c->desc.in[GRAFT_LINEAR_GAMMA];
    norm.desc.out = gapped(c->desc.in[0], 0);
    case_want(&ref, &norm, GRAFT_F32, in, &normed);
    CHECK_STR(normed.fault, "");
    memcpy(in, val, sizeof in);
    in[0] = normed.out;
    in[GRAFT_LINEAR_GAMMA] = in[GRAFT_LINEAR_BETA] = NULL;
    memset(&layer.desc.in[GRAFT_LINEAR_GAMMA], 0, 2 * sizeof layer.desc.in[0]);
    layer.desc.in[0] = norm.desc.out;
    layer.desc.attrs.eps = 0;
    case_want(&ref, &layer, GRAFT_F32, in, &out);
    CHECK_STR(out.fault, "");
    free(normed.out);
    return out.out;
}

static void ref_is_both(void)
{
    for (size_t i = 0; i < SHAPES; i++)
        for (size_t q = 0; q < 2; q++) {
            kernel_case c = case_of(&shapes[i], quants[q]);
            float *val[GRAFT_MAX_INPUTS];
            case_result got;
            case_values(&c, GRAFT_F32, i, val);
            far_from_zero(&c, GRAFT_F32, val[0]);
            case_run(&ref, &c, GRAFT_F32, -1, val, &got);
            float *want = one_after_the_other(&c, val);
            size_t n = (size_t)element_count(&c.desc.out);
            CHECK_STR(got.fault, "");
            CHECK(memcmp(got.out, want, n * sizeof *want) == 0);
            free(got.out);
            free(want);
            values_free(val);
        }
}

/* Levels may fall to the other side of a half where a norm is off by its last bit: with float32 the
 * error of one level in a sum, far below that of quantizing. */
static bool near(const case_result *got, const case_result *want, const kernel_case *c,
                 graft_dtype dtype)
{
    error_sum sum = {0};
    double nmse = 0, max = 0;
    for (int64_t i = 0; i < element_count(&c->desc.out); i++)
        error_add(&sum, (double)got->out[i], (double)want->out[i]);
    error_within(&sum, limit_for(&c->desc, dtype), &nmse, &max);
    bool fp8 = c->desc.attrs.quant == GRAFT_QUANT_FP8;
    bool good = !got->fault[0] && nmse < (fp8 ? 2e-4 : 3e-5) && max < (fp8 ? 3e-2 : 1e-2);
    if (!good)
        fprintf(stderr, "  [%s] quant %d dtype %d: %s: %s nmse %.3g, max %.3g\n", got->variant,
                (int)c->desc.attrs.quant, (int)dtype, c->name, got->fault, nmse, max);
    return good;
}

static int all_variants(const shape *s, graft_quant quant, graft_dtype dtype, uint64_t seed)
{
    kernel_case c = case_of(s, quant);
    float *val[GRAFT_MAX_INPUTS];
    case_result want, got = {.variants = 1};
    int run = 0;
    case_values(&c, dtype, seed, val);
    far_from_zero(&c, dtype, val[0]);
    case_want(&ref, &c, GRAFT_F32, val, &want);
    for (int32_t v = -1; v < got.variants; v++, run++) {
        case_run(&cuda, &c, dtype, v, val, &got);
        CHECK(near(&got, &want, &c, dtype));
        free(got.out);
    }
    free(want.out);
    values_free(val);
    return run;
}

static void cuda_is_ref(void)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16};
    int run = 0;
    for (size_t i = 0; i < SHAPES; i++)
        for (size_t t = 0; t < 3; t++)
            for (size_t q = 0; q < 2; q++) run += all_variants(&shapes[i], quants[q], dtypes[t], i);
    printf("     %d runs\n", run);
    CHECK(run > 2 * 6 * SHAPES);
}

/* By ref and by CUDA. */
static void refused_by_both(const graft_op_desc *d)
{
    CHECK(!cuda.api->supports(cuda.device, d));
    CHECK(!ref.api->supports(ref.device, d));
}

static void refusals(void)
{
    kernel_case c = case_of(&shapes[0], GRAFT_QUANT_INT8);
    const graft_op_desc d = case_desc(&c, GRAFT_F32);
    graft_op_desc other = d;
    CHECK(cuda.api->supports(cuda.device, &d) && ref.api->supports(ref.device, &d));
    other.attrs.quant = GRAFT_QUANT_NONE;
    refused_by_both(&other);
    other.attrs.quant = GRAFT_QUANT_INT4;
    refused_by_both(&other);
    other = d;
    memset(&other.in[GRAFT_LINEAR_BETA], 0, sizeof other.in[0]);
    refused_by_both(&other);
    other = d;
    other.in[GRAFT_LINEAR_GAMMA].dim[0]--;
    refused_by_both(&other);
    other = d;
    other.in[GRAFT_LINEAR_GAMMA].constant = 0;
    refused_by_both(&other);
    other = d;
    other.attrs.eps = -1;
    refused_by_both(&other);
    const shape wide = {2, 2056, 16, 0, true, false, GRAFT_ACT_NONE};
    c = case_of(&wide, GRAFT_QUANT_INT8);
    other = case_desc(&c, GRAFT_BF16);
    CHECK(!cuda.api->supports(cuda.device, &other));
}

int main(void)
{
    use_fake_driver();
    setenv("GRAFT_CUDA_WGMMA", "all", 1);
    fake_cuda_state *fake = fake_driver_state();
    CHECK(fake != NULL);
    if (!fake || !lib_open(CUDA_LIBRARY, &cuda) ||
        !lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref))
        return test_end() + 1;
    RUN(ref_is_both);
    RUN(cuda_is_ref);
    RUN(refusals);
    lib_close(&ref);
    lib_close(&cuda);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
