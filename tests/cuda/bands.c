/* Convolutions in bands (conv2d_bands.h), with bands of 4 KiB instead of 16 MiB: doubled pictures
 * and results in x's place, in all variants against ref; what is done so and how many rows at a
 * time; the own kernel where cuDNN is not there, refuses, or cannot read what it is given. */
#include "tests/cuda/compare.h"
#include "tests/cuda/networks.h"
#include "tests/kernels/cases.h"

static kernel_lib cuda, ref;

typedef struct shape {
    int64_t n, h, w, channels, outputs, gap; /* gap: between the pixels of x and of the result */
    int kernel;
    bool doubled, residual, add;
    graft_act act;
} shape;

static kernel_case case_of(const shape *s)
{
    kernel_case c = {.source = GRAFT_F32};
    graft_op_desc *d = &c.desc;
    int32_t up = s->doubled ? 2 : 1, pad = s->kernel / 2;
    d->size = sizeof *d;
    d->op = GRAFT_OP_CONV2D;
    d->attrs = (graft_attrs){.kernel_h = s->kernel,
                             .kernel_w = s->kernel,
                             .stride_h = 1,
                             .stride_w = 1,
                             .pad_top = pad,
                             .pad_left = pad,
                             .pad_bottom = pad,
                             .pad_right = pad,
                             .act = s->act};
    if (s->doubled) {
        d->attrs.upsample = 2;
        d->attrs.up_h = (int32_t)(2 * s->h);
        d->attrs.up_w = (int32_t)(2 * s->w);
    }
    d->in[GRAFT_CONV_X] = gapped(act_of(s->n, s->h, s->w, s->channels), s->gap);
    d->in[GRAFT_CONV_W] = weight_of(s->outputs, s->channels, s->kernel, s->kernel);
    d->in[GRAFT_CONV_BIAS] = weight_of(s->outputs, 0, 0, 0);
    if (s->add) d->in[GRAFT_CONV_CHANNEL_ADD] = act_of(s->n, s->outputs, 0, 0);
    d->out = gapped(act_of(s->n, up * s->h, up * s->w, s->outputs), s->gap);
    if (s->residual) d->in[GRAFT_CONV_RESIDUAL] = d->out;
    snprintf(c.name, sizeof c.name, "%s%dx%dx%dx%d to %d by %d, gap %d%s%s%s",
             s->doubled ? "doubled " : "", (int)s->n, (int)s->h, (int)s->w, (int)s->channels,
             (int)s->outputs, s->kernel, (int)s->gap, s->residual ? " residual" : "",
             s->add ? " add" : "", act_name[s->act]);
    return c;
}

/* What the library's own choice for it is. */
static graft_kernel_info info_of(const graft_op_desc *d, bool *in_place)
{
    graft_kernel *k = NULL;
    graft_kernel_info info = {.size = sizeof info};
    char text[200] = "";
    CHECK_INT(cuda.api->prepare(cuda.device, d, -1, &k, &info, text, sizeof text), GRAFT_OK);
    *in_place = k && cuda.api->inplace(k, GRAFT_CONV_X);
    for (int32_t i = 1; k && i < GRAFT_MAX_INPUTS; i++) CHECK_INT(cuda.api->inplace(k, i), 0);
    if (k) cuda.api->release(k);
    return info;
}

/* Bytes of a band, as the workspace holds it; cuDNN's own does not come beside it here. */
static uint64_t band_of(const shape *s, int rows)
{
    int64_t width = s->doubled ? 2 * s->w : s->w;
    return (uint64_t)((rows + s->kernel - 1) * width * s->channels * 2 + 255) / 256 * 256;
}

/* ------------------------------------------------------------------ results */

/* How many rows a band has: as many as divide the height, and with those around them take 4 KiB,
 * 8 of a doubled picture. */
static const struct {
    shape shape;
    int rows;
} cases[] = {
    /* x is as large as 16 bands, and has more channels than the result: it may take x's place. */
    {{1, 64, 16, 32, 16, 0, 3, false, false, false, GRAFT_ACT_NONE}, 2},
    {{2, 34, 16, 32, 24, 0, 3, false, false, true, GRAFT_ACT_SILU}, 2},
    {{1, 108, 8, 40, 8, 0, 3, false, false, false, GRAFT_ACT_NONE}, 4},
    {{3, 48, 16, 16, 8, 0, 1, false, false, false, GRAFT_ACT_RELU}, 8},
    {{1, 144, 8, 32, 8, 0, 5, false, false, true, GRAFT_ACT_NONE}, 4},
    /* Doubled pictures larger than 4 bands. */
    {{1, 18, 16, 8, 8, 0, 3, true, false, false, GRAFT_ACT_NONE}, 12},
    {{2, 12, 8, 16, 24, 0, 3, true, true, false, GRAFT_ACT_NONE}, 12},
    {{1, 25, 11, 8, 16, 0, 3, true, false, true, GRAFT_ACT_SILU}, 10},
    {{2, 16, 9, 16, 8, 8, 3, true, true, true, GRAFT_ACT_GELU}, 8},
    {{1, 20, 16, 8, 8, 0, 1, true, false, false, GRAFT_ACT_NONE}, 10},
    {{1, 17, 16, 8, 8, 0, 3, true, false, false, GRAFT_ACT_NONE}, 2},
};
enum { CASES = sizeof cases / sizeof *cases };

static void results(void)
{
    for (uint64_t i = 0; i < CASES; i++) {
        const shape *s = &cases[i].shape;
        kernel_case c = case_of(s);
        const graft_op_desc d = case_desc(&c, GRAFT_BF16);
        bool in_place;
        graft_kernel_info info = info_of(&d, &in_place);
        CHECK_INT(in_place, !s->doubled);
        CHECK_INT(info.workspace_bytes, band_of(s, cases[i].rows));
        CHECK(strncmp(info.variant, "cudnn", 5) == 0);
        compare_variants(&cuda, &ref, &c, GRAFT_BF16, 2 * i);
        compare_variants(&cuda, &ref, &c, GRAFT_F16, 2 * i + 1);
    }
    CHECK_INT(refused, 0);
}

/* ------------------------------------------------------------------ what is done at once */

static void at_once(const shape *s)
{
    kernel_case c = case_of(s);
    const graft_op_desc d = case_desc(&c, GRAFT_BF16);
    bool in_place;
    graft_kernel_info info = info_of(&d, &in_place);
    uint64_t seen = s->doubled ? (uint64_t)(s->n * 4 * s->h * s->w * s->channels * 2) : 0;
    CHECK(!in_place);
    CHECK_INT(info.workspace_bytes, (seen + 255) / 256 * 256);
}

static void not_in_bands(void)
{
    static const shape shapes[] = {
        {1, 62, 16, 32, 16, 0, 3, false, false, false, GRAFT_ACT_NONE}, /* small */
        {1, 64, 16, 32, 32, 0, 3, false, false, false, GRAFT_ACT_NONE}, /* as large as x */
        {1, 64, 16, 32, 16, 8, 3, false, false, false, GRAFT_ACT_NONE}, /* with gaps */
        {1, 64, 16, 32, 16, 0, 3, false, true, false, GRAFT_ACT_NONE},  /* with a residual */
        {1, 67, 16, 32, 16, 0, 3, false, false, false, GRAFT_ACT_NONE}, /* a prime height */
        {1, 64, 16, 32, 12, 0, 3, false, false, false, GRAFT_ACT_NONE}, /* no eights */
        {1, 16, 16, 8, 8, 0, 3, true, false, false, GRAFT_ACT_NONE},    /* small */
        {1, 37, 8, 8, 8, 0, 3, true, false, false, GRAFT_ACT_NONE},     /* bands of two rows */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) at_once(&shapes[i]);
    kernel_case c = case_of(&cases[0].shape);
    graft_op_desc d = case_desc(&c, GRAFT_F32);
    bool in_place;
    info_of(&d, &in_place);
    CHECK(!in_place);
    d = case_desc(&c, GRAFT_BF16); /* every other pixel */
    d.attrs.stride_h = d.attrs.stride_w = 2;
    d.out.dim[1] /= 2;
    d.out.dim[2] /= 2;
    make_dense(&d.out);
    info_of(&d, &in_place);
    CHECK(!in_place);
}

/* ------------------------------------------------------------------ without cuDNN's plans */

static void by_own_kernels(void)
{
    int before = refused, asked = 0;
    fake->refuse_plans = 1;
    for (uint64_t i = 0; i < CASES; i += 2) {
        kernel_case c = case_of(&cases[i].shape);
        int others = by_library;
        asked += compare_variants(&cuda, &ref, &c, GRAFT_BF16, i) > 1;
        CHECK(by_library - others <= cases[i].shape.doubled); /* "corners, own …" is the own one */
    }
    fake->refuse_plans = 0;
    CHECK(asked == (CASES + 1) / 2 && refused - before >= asked);
}

static void switched_off(void)
{
    setenv("GRAFT_CUDA_BANDS", "off", 1);
    lib_close(&cuda);
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    for (uint64_t i = 0; i < CASES; i++) at_once(&cases[i].shape);
    CHECK(strstr(cuda.info.identity, " bands 0") != NULL);
}

/* ------------------------------------------------------------------ a whole VAE */

/* The demo's decoder, with bands of so many KiB; what the device held at most. */
static int64_t decoded(const char *bands, graft_image **out)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_vae *v = NULL;
    graft_latent *l = NULL;
    setenv("GRAFT_CUDA_BANDS", bands, 1);
    graft_engine *g = engine_in("cuda", "bf16");
    CHECK_OK(graft_vae_load(g, DEMO, NULL, &v, &e), &e);
    float values[2 * 4 * 12 * 10];
    const int64_t dim[4] = {2, 4, 12, 10};
    for (int i = 0; i < 2 * 4 * 12 * 10; i++)
        values[i] = sinf(0.7f * (float)i) + cosf(0.11f * (float)i);
    CHECK_OK(graft_latent_from_data(values, dim, &l, &e), &e);
    fake->peak_bytes = 0;
    CHECK_OK(graft_vae_decode(v, l, NULL, NULL, out, &e), &e);
    int64_t peak = fake->peak_bytes;
    graft_latent_release(l);
    graft_vae_release(v);
    graft_engine_destroy(g);
    return peak;
}

static void vae(void)
{
    graft_image *whole = NULL, *banded = NULL;
    int64_t before = decoded("off", &whole), after = decoded("64", &banded);
    printf("     %lld and %lld KiB at most\n", (long long)before >> 10, (long long)after >> 10);
    CHECK(after < before);
    if (whole && banded) {
        int64_t a[4], b[4];
        const float *x = graft_image_data(whole, a), *y = graft_image_data(banded, b);
        CHECK(memcmp(a, b, sizeof a) == 0);
        double off = difference(y, x, (size_t)(a[0] * a[1] * a[2] * a[3]));
        printf("     pictures differ by %.2g\n", off);
        CHECK(off < 3e-2);
    }
    graft_image_release(whole);
    graft_image_release(banded);
}

int main(void)
{
    use_fake_driver();
    setenv("GRAFT_CUDA_BANDS", "4", 1);
    fake = fake_driver_state();
    CHECK(fake != NULL);
    if (!fake || !lib_open(CUDA_LIBRARY, &cuda) ||
        !lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref))
        return test_end() + 1;
    RUN(results);
    RUN(not_in_bands);
    RUN(by_own_kernels);
    RUN(switched_off);
    lib_close(&ref);
    lib_close(&cuda);
    RUN(vae);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
