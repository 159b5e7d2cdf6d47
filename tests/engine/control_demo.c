/* The demo checkpoint steered by its ControlNet, against what an independent implementation made of
 * both: twenty DDIM steps from given noise, and the picture. */
#include <math.h>

#include "engine/objects/control.h"
#include "engine/denoise/sample.h"
#include "tests/engine/fixture.h"

#define NET    GRAFT_SOURCE_DIR "/models/controlnet/emoji-64-outline.safetensors"
#define GOLDEN GRAFT_SOURCE_DIR "/golden/demo/emoji-64-outline.golden.safetensors"

enum { LATENT = 4 * 8 * 8, STEPS = 20, PIXELS = 64 * 64 };

static graft_engine *engine;
static graft_model *model;
static graft_clip *clip;
static graft_vae *vae;
static graft_controlnet *net;
static graft_safetensors *golden;

static float *want(const char *name, size_t n)
{
    const graft_st_tensor *t = graft_safetensors_find(golden, name);
    CHECK(t != NULL);
    if (!t) exit(1);
    CHECK_INT(shape_count(t->shape, t->rank), n);
    return values_of(t);
}

/* (3,64,64) in 0..1 as a picture. */
static graft_image *hint_picture(void)
{
    float *planes = want("hint", 3 * PIXELS), p[3 * PIXELS];
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < PIXELS; i++)
        for (int k = 0; k < 3; k++) p[i * 3 + k] = planes[k * PIXELS + i];
    CHECK_OK(graft_image_from_data(p, (int64_t[]){1, 64, 64, 3}, false, &out, &e), &e);
    free(planes);
    return out;
}

static graft_cond *encode(const char *prompt)
{
    graft_cond *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode(clip, prompt, NULL, &c, &e), &e);
    return c;
}

/* The reference's noise is the state of its first timestep, sqrt(alpha) times ours, and its last
 * step goes to timestep 0, not to no noise at all. */
static graft_latent *start(float first)
{
    int64_t shape[4] = {1, 4, 8, 8};
    float *x = want("noise", LATENT), scale = sqrtf(1 + first * first);
    graft_latent *out = NULL;
    graft_err e = GRAFT_ERR_INIT;

    for (int i = 0; i < LATENT; i++) x[i] = x[i] * scale / (float)model->scale_factor;
    CHECK_OK(graft_latent_from_data(x, shape, &out, &e), &e);
    free(x);
    return out;
}

static graft_sigmas *steps(const graft_sigma_table *t)
{
    float sigma[STEPS + 1];
    graft_sigmas *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < STEPS; i++) sigma[i] = t->sigma[951 - 50 * i];
    sigma[STEPS] = t->sigma[0];
    CHECK_OK(graft_sigmas_from_data(sigma, STEPS + 1, &out, &e), &e);
    return out;
}

static void check_picture(const float *z)
{
    int64_t shape[4] = {1, 4, 8, 8};
    float *raw = want("image", 3 * PIXELS), scaled[LATENT];
    double worst = 0;
    graft_latent *l = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < LATENT; i++) scaled[i] = z[i] / (float)model->scale_factor;
    CHECK_OK(graft_latent_from_data(scaled, shape, &l, &e), &e);
    CHECK_OK(graft_vae_decode(vae, l, NULL, NULL, &image, &e), &e);
    const float *p = graft_image_data(image, shape);
    for (int i = 0; i < PIXELS; i++)
        for (int k = 0; k < 3; k++) {
            double v = fmin(1, fmax(0, raw[k * PIXELS + i] * 0.5 + 0.5));
            worst = fmax(worst, fabs(v - p[i * 3 + k]));
        }
    printf("     picture: error %.2g\n", worst);
    CHECK(worst <= 5e-5);
    graft_image_release(image);
    graft_latent_release(l);
    free(raw);
}

static void sampling_matches(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_sigma_table table;
    graft_model_sigma_table(model, &table);
    graft_image *hint = hint_picture();
    graft_cond *prompt = encode("pear, 3d"), *none = encode(""), *p = NULL, *n = NULL;
    const graft_control_options o = {.net = net, .hint = hint, .strength = 1, .end = 1};
    CHECK_OK(graft_cond_control(prompt, none, &o, &p, &n, &e), &e);
    graft_sigmas *sigmas = steps(&table);
    graft_latent *from = start(table.sigma[951]), *out = NULL;
    const graft_sampling s = {.model = model,
                              .positive = p,
                              .negative = n,
                              .cfg = 4,
                              .sampler = "ddim",
                              .sigmas = sigmas};
    CHECK_OK(graft_sample_custom(&s, from, NULL, &out, NULL, &e), &e);
    int64_t shape[4];
    const float *got = graft_latent_data(out, shape);
    float *latent = want("latent", LATENT), ours[LATENT];
    float last = table.sigma[0], scale = (float)model->scale_factor / sqrtf(1 + last * last);
    for (int i = 0; i < LATENT; i++) ours[i] = got[i] * scale;
    double error = difference(ours, latent, LATENT);
    printf("     latent after %d steps: error %.2g\n", STEPS, error);
    CHECK(error <= 5e-5); /* guided steps multiply the rounding of a single one */
    check_picture(ours);
    free(latent);
    graft_latent_release(from);
    graft_latent_release(out);
    graft_sigmas_release(sigmas);
    graft_image_release(hint);
    graft_cond *const all[] = {prompt, none, p, n};
    for (int i = 0; i < 4; i++) graft_cond_release(all[i]);
}

static void run_backend(const char *backend)
{
    graft_err e = GRAFT_ERR_INIT;
    printf("backend %s\n", backend);
    engine = make_engine(backend);
    CHECK_OK(graft_checkpoint_load(engine, DEMO, NULL, &model, &clip, &vae, &e), &e);
    CHECK_OK(graft_controlnet_load(engine, NET, NULL, &net, &e), &e);
    RUN(sampling_matches);
    graft_controlnet_release(net);
    graft_model_release(model);
    graft_clip_release(clip);
    graft_vae_release(vae);
    graft_engine_destroy(engine);
}

int main(void)
{
    golden = open_file(GOLDEN);
    run_backend("ref");
    run_backend("cpu");
    const char *more = getenv("GRAFT_TEST_BACKEND"); /* for machines that have another */
    if (more) run_backend(more);
    graft_safetensors_close(golden);
    return test_end();
}
