/* Convolutions of doubled pictures on the picture as it was: all such variants against ref, what
 * they are offered for, how their weights are packed, and the own kernel where cuDNN refuses. */
#include "base/alloc.h"
#include "base/half.h"
#include "tests/cuda/backend.h"
#include "tests/cuda/compare.h"
#include "tests/kernels/cases.h"
#include "tests/test.h"

enum { MOST_VARIANTS = 16 };

static fake_cuda_state *fake;
static kernel_lib cuda, ref;

typedef struct shape {
    int64_t n, h, w, channels, outputs, gap; /* gap: between the pixels of x and of the result */
    bool bias, add;
    graft_act act;
} shape;

static kernel_case case_of(const shape *s)
{
    kernel_case c = {.source = GRAFT_F32};
    graft_op_desc *d = &c.desc;
    d->size = sizeof *d;
    d->op = GRAFT_OP_CONV2D;
    d->attrs = (graft_attrs){ATTRS_3X3, .act = s->act, .upsample = 2, .up_h = (int32_t)(2 * s->h),
                             .up_w = (int32_t)(2 * s->w)};
    d->in[GRAFT_CONV_X] = gapped(act_of(s->n, s->h, s->w, s->channels), s->gap);
    d->in[GRAFT_CONV_W] = weight_of(s->outputs, s->channels, 3, 3);
    if (s->bias) d->in[GRAFT_CONV_BIAS] = weight_of(s->outputs, 0, 0, 0);
    if (s->add) d->in[GRAFT_CONV_CHANNEL_ADD] = act_of(s->n, s->outputs, 0, 0);
    d->out = gapped(act_of(s->n, 2 * s->h, 2 * s->w, s->outputs), s->gap);
    snprintf(c.name, sizeof c.name, "%dx%dx%dx%d to %d, gap %d%s%s%s", (int)s->n, (int)s->h,
             (int)s->w, (int)s->channels, (int)s->outputs, (int)s->gap, s->bias ? " bias" : "",
             s->add ? " add" : "", act_name[s->act]);
    return c;
}

/* The record of each variant; returns how many there are. */
static int32_t list_variants(const graft_op_desc *d, graft_kernel_info info[MOST_VARIANTS])
{
    int32_t count = 1;
    for (int32_t v = 0; v < count; v++) {
        graft_kernel *k = NULL;
        char text[200] = "";
        info[v] = (graft_kernel_info){.size = sizeof *info};
        CHECK_INT(cuda.api->prepare(cuda.device, d, v, &k, &info[v], text, sizeof text), GRAFT_OK);
        if (k) cuda.api->release(k);
        CHECK(info[v].variant_count <= MOST_VARIANTS);
        count = info[v].variant_count <= MOST_VARIANTS ? info[v].variant_count : 0;
    }
    return count;
}

static bool is_corners(const char *variant)
{
    return strncmp(variant, "corners, ", 9) == 0;
}

static int offered(const graft_op_desc *d)
{
    graft_kernel_info info[MOST_VARIANTS];
    int n = 0;
    int32_t count = list_variants(d, info);
    for (int32_t i = 0; i < count; i++) n += is_corners(info[i].variant);
    return n;
}

/* ------------------------------------------------------------------ results */

static void against_ref(const shape *s, graft_dtype dtype, uint64_t seed)
{
    kernel_case c = case_of(s);
    const graft_op_desc d = case_desc(&c, dtype);
    graft_kernel_info info[MOST_VARIANTS];
    float *val[GRAFT_MAX_INPUTS];
    case_result want;
    int tried = 0, own = 0;
    case_values(&c, dtype, seed, val);
    case_want(&ref, &c, GRAFT_F32, val, &want);
    int32_t count = list_variants(&d, info);
    for (int32_t v = 0; v < count; v++) {
        if (!is_corners(info[v].variant)) continue;
        compare(&cuda, &c, dtype, v, val, &want);
        tried++;
        own += strstr(info[v].variant, "own mma") != NULL;
    }
    CHECK(tried >= 2);
    CHECK_INT(own, 1);
    free(want.out);
    values_free(val);
}

static void results(void)
{
    static const shape shapes[] = {
        {1, 8, 8, 16, 16, 0, true, false, GRAFT_ACT_NONE},
        {1, 1, 1, 8, 8, 0, true, false, GRAFT_ACT_NONE}, /* four corners of one pixel */
        {2, 5, 3, 24, 40, 0, true, false, GRAFT_ACT_NONE},
        {1, 1, 7, 8, 16, 0, false, false, GRAFT_ACT_NONE},
        {3, 4, 6, 40, 8, 8, false, false, GRAFT_ACT_NONE},
        {2, 6, 6, 16, 24, 16, true, true, GRAFT_ACT_SILU},
        {1, 9, 2, 64, 72, 0, true, false, GRAFT_ACT_RELU},
        {1, 20, 24, 32, 32, 0, true, false, GRAFT_ACT_NONE},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        against_ref(&shapes[i], GRAFT_BF16, 2 * i);
        against_ref(&shapes[i], GRAFT_F16, 2 * i + 1);
    }
}

/* cuDNN runs none of its plans: the own kernel has weights that it can read. */
static void refused_by_cudnn(void)
{
    const shape s = {2, 5, 3, 24, 40, 0, true, false, GRAFT_ACT_NONE};
    kernel_case c = case_of(&s);
    const graft_op_desc d = case_desc(&c, GRAFT_BF16);
    graft_kernel_info info[MOST_VARIANTS];
    float *val[GRAFT_MAX_INPUTS];
    case_result want;
    int before = refused, tried = 0;
    case_values(&c, GRAFT_BF16, 5, val);
    case_want(&ref, &c, GRAFT_F32, val, &want);
    int32_t count = list_variants(&d, info);
    fake->refuse_plans = 1;
    for (int32_t v = 0; v < count; v++) {
        if (!is_corners(info[v].variant) || strstr(info[v].variant, "own")) continue;
        compare(&cuda, &c, GRAFT_BF16, v, val, &want);
        tried++;
    }
    fake->refuse_plans = 0;
    CHECK(tried > 0);
    CHECK_INT(refused - before, tried);
    free(want.out);
    values_free(val);
}

/* ------------------------------------------------------------------ what they are offered for */

static void offers(void)
{
    const shape s = {1, 8, 8, 16, 16, 0, true, false, GRAFT_ACT_NONE};
    kernel_case c = case_of(&s);
    const graft_op_desc d = case_desc(&c, GRAFT_BF16);
    graft_op_desc other = d;
    CHECK(offered(&d) >= 2);
    other = case_desc(&c, GRAFT_F32);
    CHECK_INT(offered(&other), 0);
    other = d; /* to an odd height: its last row sees nothing below itself */
    other.attrs.up_h = (int32_t)(other.out.dim[1] = 15);
    other.out.stride[0] = 15 * other.out.stride[1];
    CHECK_INT(offered(&other), 0);
    other = d;
    other.in[GRAFT_CONV_RESIDUAL] = d.out;
    CHECK_INT(offered(&other), 0);
    other = d; /* unlike sides */
    other.attrs.pad_top = 0;
    other.attrs.pad_bottom = 2;
    CHECK_INT(offered(&other), 0);
    const shape odd[] = {{1, 8, 8, 12, 16, 0, true, false, GRAFT_ACT_NONE},
                         {1, 8, 8, 16, 12, 0, true, false, GRAFT_ACT_NONE},
                         {1, 8, 8, 16, 16, 4, true, false, GRAFT_ACT_NONE}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        kernel_case k = case_of(&odd[i]);
        other = case_desc(&k, GRAFT_BF16);
        CHECK_INT(offered(&other), 0);
    }
}

/* ------------------------------------------------------------------ weights */

enum {
    OUTPUTS = 8,
    CHANNELS = 16,
    WEIGHTS = OUTPUTS * CHANNELS * 9,
    SMALL = OUTPUTS * CHANNELS * 16
};

/* Taps of a corner's pixel that fall on the first and on the second pixel of x, along one axis. */
static const int first_tap[2][2] = {{0, 1}, {0, 2}}, last_tap[2][2] = {{0, 2}, {1, 2}};

static float sum_of(const float *w, int64_t row, int64_t c, int pixel, int tap)
{
    float v = 0; /* small integers: exact */
    for (int y = first_tap[pixel / 2][tap / 2]; y <= last_tap[pixel / 2][tap / 2]; y++)
        for (int x = first_tap[pixel % 2][tap % 2]; x <= last_tap[pixel % 2][tap % 2]; x++)
            v += w[((row * CHANNELS + c) * 3 + y) * 3 + x];
    return v;
}

static void weights(void)
{
    const shape s = {1, 2, 2, CHANNELS, OUTPUTS, 0, false, false, GRAFT_ACT_NONE};
    kernel_case c = case_of(&s);
    const graft_op_desc d = case_desc(&c, GRAFT_BF16);
    graft_kernel_info info[MOST_VARIANTS];
    graft_kernel *k = NULL;
    char text[200] = "";
    float w[WEIGHTS];
    uint16_t got[SMALL];
    int bad = 0;
    int32_t last = list_variants(&d, info) - 1;
    CHECK(last > 0 && is_corners(info[last].variant));
    CHECK_INT(info[last].packed_bytes[GRAFT_CONV_W], sizeof got);
    CHECK(info[last].packing[GRAFT_CONV_W] != info[0].packing[GRAFT_CONV_W]);
    CHECK_INT(cuda.api->prepare(cuda.device, &d, last, &k, &info[last], text, sizeof text),
              GRAFT_OK);
    for (int i = 0; i < WEIGHTS; i++) w[i] = (float)(i * 7 % 31 - 15);
    void *packed = cuda.api->alloc(cuda.device, sizeof got);
    CHECK_INT(cuda.api->pack(k, GRAFT_CONV_W, GRAFT_F32, w, packed), GRAFT_OK);
    CHECK_INT(cuda.api->download(cuda.device, got, packed, sizeof got), GRAFT_OK);
    for (int i = 0; i < SMALL; i++) {
        int64_t channel = i % CHANNELS, row = i / CHANNELS / 4 % OUTPUTS;
        int tap = i / CHANNELS % 4, pixel = i / CHANNELS / 4 / OUTPUTS;
        bad += graft_bf16_to_f32(got[i]) != sum_of(w, row, channel, pixel, tap);
    }
    CHECK_INT(bad, 0);
    cuda.api->free(cuda.device, packed);
    cuda.api->release(k);
}

int main(void)
{
    use_fake_driver();
    fake = fake_driver_state();
    CHECK(fake != NULL);
    if (!fake || !lib_open(CUDA_LIBRARY, &cuda) ||
        !lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref))
        return test_end() + 1;
    RUN(results);
    RUN(refused_by_cudnn);
    RUN(offers);
    RUN(weights);
    lib_close(&ref);
    lib_close(&cuda);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
