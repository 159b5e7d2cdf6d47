/* The demo checkpoint, part by part, against what an independent implementation made of it: tokens,
 * conditioning, the UNet's predictions, twenty DDIM steps written out here, prompts under masks,
 * picture and moments. */
#include "base/half.h"
#include "tests/engine/regions.h"

#define GOLDEN GRAFT_SOURCE_DIR "/golden/demo/emoji-64.golden.safetensors"
#define LATENT (4 * 8 * 8)
#define STEPS  20

static graft_engine *engine;
static graft_model *model;
static graft_clip *clip;
static graft_vae *vae;
static graft_safetensors *golden;
static double tolerance;

static float *want(const char *name, size_t n)
{
    const graft_st_tensor *t = graft_safetensors_find(golden, name);
    CHECK(t != NULL);
    if (!t) exit(1);
    CHECK_INT(shape_count(t->shape, t->rank), n);
    return values_of(t);
}

/* max |a-b| / max |b| */
static double error_of(const float *a, const float *b, size_t n)
{
    double diff = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a[i])) return INFINITY;
        diff = fmax(diff, fabs((double)a[i] - b[i]));
        top = fmax(top, fabs((double)b[i]));
    }
    return diff / top;
}

static void check_near(const char *what, const float *got, const char *name, size_t n, double limit)
{
    float *b = want(name, n);
    double error = error_of(got, b, n);
    printf("     %-24s error %.2g\n", what, error);
    CHECK(error <= limit);
    free(b);
}

static void tokens_match(void)
{
    const graft_tokenizer *t;
    graft_chunks chunks;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_engine_tokenizer(engine, &t, &e), &e);
    CHECK_OK(graft_prompt_chunks(t, "red apple, 3d", 49407, &chunks, &e), &e);
    const graft_st_tensor *tokens = graft_safetensors_find(golden, "tokens");
    CHECK_INT(chunks.count, 1);
    CHECK(memcmp(chunks.tokens, tokens->data, 77 * sizeof(int32_t)) == 0);
    graft_chunks_finish(&chunks);
}

static graft_cond *encode(const char *prompt)
{
    graft_cond *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode(clip, prompt, NULL, &c, &e), &e);
    return c;
}

static void conditioning_matches(void)
{
    graft_cond *c = encode("red apple, 3d"), *u = encode("");
    check_near("conditioning", c->entry[0]->data, "context_cond", 77 * 128, 2e-5);
    check_near("empty prompt", u->entry[0]->data, "context_uncond", 77 * 128, 2e-5);
    graft_cond_release(c);
    graft_cond_release(u);
}

/* Both halves as one batch: out holds the unconditional prediction, then the conditional one. */
static void predict(graft_binding *b, const float *x, float timestep, const float *context,
                    float *out)
{
    float both[2 * LATENT], t[2] = {timestep, timestep};
    graft_err e = GRAFT_ERR_INIT;
    memcpy(both, x, LATENT * sizeof *x);
    memcpy(both + LATENT, x, LATENT * sizeof *x);
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){both, t, context}, (void *[]){out},
                           NULL, NULL, &e),
             &e);
}

static void sampling_matches(void)
{
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float *x = want("noise", LATENT), *c = want("context_cond", 77 * 128);
    float *u = want("context_uncond", 77 * 128), context[2 * 77 * 128], eps[2 * LATENT];
    const graft_st_tensor *alphas =
        graft_safetensors_find(graft_weights_file(model->weights), "alphas_cumprod");
    float *ab = values_of(alphas);
    memcpy(context, u, sizeof context / 2);
    memcpy(context + 77 * 128, c, sizeof context / 2);
    CHECK_OK(graft_model_bind(model, 2, 8, 8, 77, NULL, &b, &e), &e);
    for (int i = 0; i < STEPS; i++) {
        int t = 951 - 50 * i, before = i + 1 < STEPS ? t - 50 : 0;
        predict(b, x, (float)t, context, eps);
        char name[32];
        snprintf(name, sizeof name, "eps_cond.%d", i);
        if (graft_safetensors_find(golden, name))
            check_near(name, eps + LATENT, name, LATENT, tolerance);
        snprintf(name, sizeof name, "eps_uncond.%d", i);
        if (graft_safetensors_find(golden, name)) check_near(name, eps, name, LATENT, tolerance);
        for (int k = 0; k < LATENT; k++) {
            double guided = eps[k] + 4.0 * ((double)eps[LATENT + k] - eps[k]);
            double x0 = (x[k] - sqrt(1 - ab[t]) * guided) / sqrt(ab[t]);
            x[k] = (float)(sqrt(ab[before]) * x0 + sqrt(1 - ab[before]) * guided);
        }
        snprintf(name, sizeof name, "x.%d", i);
        if (graft_safetensors_find(golden, name)) check_near(name, x, name, LATENT, tolerance);
    }
    check_near("latent after 20 steps", x, "latent", LATENT, tolerance);
    graft_binding_release(b);
    free(x);
    free(c);
    free(u);
    free(ab);
}

/* The apple on the left, where it counts thrice beside nothing but the empty prompt, and that alone
 * on the right: composed here of the reference's predictions of the first step, whose state is
 * sqrt(alpha) times ours. */
static void masked_prompts_match(void)
{
    const int t = 951;
    const float columns[8] = {1, 1, 1, 1, 0.5f, 0, 0, 0};
    float v[64], d[LATENT];
    double got[LATENT], wanted[LATENT], worst = 0, most = 0;
    graft_err e = GRAFT_ERR_INIT;
    float *x = want("noise", LATENT), *c = want("eps_cond.0", LATENT),
          *u = want("eps_uncond.0", LATENT);
    float *ab =
        values_of(graft_safetensors_find(graft_weights_file(model->weights), "alphas_cumprod"));
    double root = sqrt(ab[t]), sigma = sqrt((1 - ab[t]) / ab[t]);
    for (int i = 0; i < 64; i++) v[i] = columns[i % 8];
    graft_image *mask = mask_of(v, 1, 8, 8);
    graft_cond *empty = encode("");
    graft_cond *all =
        both(masked(encode("red apple, 3d"), mask, 3, false), graft_cond_retain(empty));
    one_call call = {model, all, empty, 4.0, {1, 4, 8, 8}, NULL, NULL, 0};
    for (int i = 0; i < LATENT; i++) {
        double w = 3.0 * columns[i % 8], p = (w * c[i] + u[i]) / (w + 1);
        wanted[i] = (x[i] - sqrt(1 - ab[t]) * (u[i] + 4 * (p - u[i]))) / root;
        x[i] = (float)(x[i] / root);
    }
    CHECK_OK(try_denoise_at(&call, x, (float)sigma, d, &e), &e);
    for (int i = 0; i < LATENT; i++) { /* D is the difference of large numbers: as a prediction */
        got[i] = (x[i] - d[i]) / sigma;
        wanted[i] = (x[i] - wanted[i]) / sigma;
        most = fmax(most, fabs(wanted[i]));
        worst = fmax(worst, fabs(got[i] - wanted[i]));
    }
    printf("     %-24s error %.2g\n", "prompts under masks", worst / most);
    CHECK(worst / most <= tolerance);
    graft_cond_release(all);
    graft_cond_release(empty);
    graft_image_release(mask);
    free(x);
    free(c);
    free(u);
    free(ab);
}

static void picture_matches(void)
{
    graft_latent *l = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4] = {1, 4, 8, 8};
    float *z = want("latent", LATENT), *raw = want("image", 3 * 64 * 64);
    for (int i = 0; i < LATENT; i++) z[i] /= (float)model->scale_factor;
    CHECK_OK(graft_latent_from_data(z, shape, &l, &e), &e);
    CHECK_OK(graft_vae_decode(vae, l, NULL, NULL, &image, &e), &e);
    const float *p = graft_image_data(image, shape);
    CHECK(shape[0] == 1 && shape[1] == 64 && shape[2] == 64 && shape[3] == 3);
    double worst = 0;
    for (int i = 0; i < 64 * 64; i++)
        for (int k = 0; k < 3; k++) {
            double v = fmin(1, fmax(0, raw[k * 4096 + i] * 0.5 + 0.5));
            worst = fmax(worst, fabs(v - p[i * 3 + k]));
        }
    printf("     %-24s error %.2g\n", "picture", worst);
    CHECK(worst <= 2e-5);
    graft_image_release(image);
    graft_latent_release(l);
    free(z);
    free(raw);
}

/* The file says which colours its latents have; by SD's they would be 0.45 away. */
static void preview_is_alike(void)
{
    float *z = want("latent", LATENT), *raw = want("image", 3 * 64 * 64);
    uint8_t rgb[3 * 64];
    double off = 0;
    graft_preview_draw(&model->preview, z, 8, 8, rgb);
    for (int i = 0; i < 64; i++)
        for (int k = 0; k < 3; k++) {
            double mean = 0;
            for (int j = 0; j < 64; j++)
                mean += raw[k * 4096 + (i / 8 * 8 + j / 8) * 64 + i % 8 * 8 + j % 8] / 64;
            off += fabs(rgb[3 * i + k] / 255.0 - fmin(1, fmax(0, mean * 0.5 + 0.5))) / (3 * 64);
        }
    printf("     %-24s mean difference %.2g\n", "preview", off);
    CHECK(off <= 0.12);
    free(z);
    free(raw);
}

static void moments_match(void)
{
    graft_latent *l = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4] = {1, 64, 64, 3};
    float *in = want("vae_in", 3 * 64 * 64), p[3 * 64 * 64];
    for (int i = 0; i < 64 * 64; i++)
        for (int k = 0; k < 3; k++) p[i * 3 + k] = in[k * 4096 + i] * 0.5f + 0.5f;
    CHECK_OK(graft_image_from_data(p, shape, false, &image, &e), &e);
    CHECK_OK(graft_vae_encode(vae, image, NULL, NULL, &l, &e), &e);
    check_near("encoder's mean", graft_latent_data(l, shape), "vae_mean", LATENT, 2e-5);
    graft_latent_release(l);
    graft_image_release(image);
    free(in);
}

static void run_backend(const char *backend)
{
    graft_err e = GRAFT_ERR_INIT;
    printf("backend %s\n", backend);
    engine = make_engine(backend);
    CHECK_OK(graft_checkpoint_load(engine, DEMO, NULL, &model, &clip, &vae, &e), &e);
    /* Guided steps multiply the rounding of a single one; the last prediction is the worst. */
    tolerance = 1e-4;
    RUN(tokens_match);
    RUN(conditioning_matches);
    RUN(sampling_matches);
    RUN(masked_prompts_match);
    RUN(picture_matches);
    RUN(preview_is_alike);
    RUN(moments_match);
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
