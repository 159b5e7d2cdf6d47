/* Noise that is added without sampling is that with which sampling begins, and a share of a model's
 * schedule is the sigma that its betas give. */
#include <math.h>

#include "engine/image/latent.h"
#include "engine/sampling/noise.h"
#include "tests/engine/regions.h"

#define FLOW GRAFT_SOURCE_DIR "/golden/small/mmdit_sd35m.safetensors"

enum { H = 4, W = 6, CELLS = H * W };

static graft_engine *engine;
static graft_err e;

static graft_sigmas *sigmas_of(const float *v, size_t n)
{
    graft_sigmas *s = NULL;
    CHECK_OK(graft_sigmas_from_data(v, n, &s, &e), &e);
    return s;
}

static graft_latent *latent_of(int64_t pictures, int64_t channels, float scale)
{
    const int64_t shape[4] = {pictures, channels, H, W};
    float v[2 * 16 * CELLS];
    graft_latent *l = NULL;
    for (int64_t i = 0; i < pictures * channels * CELLS; i++)
        v[i] = scale * fixed_value(100 + (uint64_t)i);
    CHECK_OK(graft_latent_from_data(v, shape, &l, &e), &e);
    return l;
}

static graft_latent *noised(const graft_model *m, const graft_latent *l, const graft_sigmas *s,
                            bool noise)
{
    graft_latent *out = NULL;
    CHECK_OK(graft_latent_noised(m, l, s, noise, 77, &out, &e), &e);
    return out;
}

/* A sampler that adds the noise itself, and one that is given it. */
static void as_a_sampler_begins(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_cond *p = place_prompt(m, 1, TOKENS), *n = place_prompt(m, 2, TOKENS);
    graft_latent *from = latent_of(2, 4, 2), *with = NULL, *own = NULL, *given = NULL;
    graft_sigmas *s = sigmas_of((const float[]){5, 1, 0}, 3);
    graft_sampling run = {.model = m,
                          .positive = p,
                          .negative = n,
                          .cfg = 3,
                          .sampler = "euler",
                          .sigmas = s,
                          .add_noise = true,
                          .seed = 77};
    CHECK_OK(graft_sample_custom(&run, from, NULL, &own, NULL, &e), &e);
    with = noised(m, from, s, true);
    run.add_noise = false;
    CHECK_OK(graft_sample_custom(&run, with, NULL, &given, NULL, &e), &e);
    int64_t shape[4];
    const float *a = graft_latent_data(own, shape), *b = graft_latent_data(given, shape);
    CHECK(difference(a, b, 2 * 4 * CELLS) < 1e-5);
    CHECK(difference(graft_latent_data(with, shape), graft_latent_data(from, shape),
                     2 * 4 * CELLS) > 1);
    graft_latent *const all[] = {from, with, own, given};
    for (int i = 0; i < 4; i++) graft_latent_release(all[i]);
    graft_sigmas_release(s);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(m);
}

/* The difference of first and last in any order, or the only one; none: nothing happens. Where the
 * generator is off, nothing is added either. */
static void how_much(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_latent *from = latent_of(1, 4, 1);
    const int64_t wanted[4] = {1, 4, H, W};
    static const float lists[][3] = {{3, 1, 0.5f}, {0.5f, 1, 3}, {2.5f}};
    float noise[4 * CELLS];
    int64_t shape[4];
    CHECK_OK(graft_noise_latent(77, wanted, NULL, noise, &e), &e);
    const float *v = graft_latent_data(from, shape);
    for (int k = 0; k < 3; k++) {
        graft_sigmas *s = sigmas_of(lists[k], k < 2 ? 3 : 1);
        graft_latent *with = noised(m, from, s, true), *without = noised(m, from, s, false);
        const float *got = graft_latent_data(with, shape);
        for (int i = 0; i < 4 * CELLS; i++) /* SD 1's latents are scaled by 0.18215 */
            CHECK_NEAR(got[i], v[i] + 2.5 / 0.18215 * noise[i], 1e-4);
        CHECK(difference(graft_latent_data(without, shape), v, 4 * CELLS) < 1e-6);
        graft_latent_release(with);
        graft_latent_release(without);
        graft_sigmas_release(s);
    }
    graft_sigmas *none = sigmas_of(NULL, 0);
    graft_latent *same = noised(m, from, none, true);
    CHECK(same == from);
    graft_latent_release(same);
    graft_sigmas_release(none);
    graft_latent_release(from);
    graft_model_release(m);
}

/* A flow's latent becomes less as its noise becomes more; zeros of 4 channels become those of 16.
 */
static void of_flows(void)
{
    graft_model *m = load_model(engine, FLOW);
    graft_latent *from = latent_of(1, 16, 1), *empty = NULL, *other = latent_of(1, 4, 1);
    graft_sigmas *s = sigmas_of((const float[]){0.75f}, 1);
    const int64_t wanted[4] = {1, 16, H, W};
    static float noise[16 * CELLS];
    int64_t shape[4];
    CHECK_OK(graft_noise_latent(77, wanted, NULL, noise, &e), &e);
    CHECK_OK(graft_latent_empty(4, 8 * W, 8 * H, 1, &empty, &e), &e);
    graft_latent *with = noised(m, from, s, true), *zeros = noised(m, empty, s, true);
    const float *v = graft_latent_data(from, shape), *got = graft_latent_data(with, shape);
    double scale = m->scale_factor, shift = m->latent_shift;
    for (int i = 0; i < 16 * CELLS; i++) {
        double x = 0.25 * (v[i] - shift) * scale + 0.75 * noise[i];
        CHECK_NEAR(got[i], x / scale + shift, 1e-5);
    }
    got = graft_latent_data(zeros, shape);
    CHECK(shape[1] == 16);
    for (int i = 0; i < 16 * CELLS; i++) CHECK_NEAR(got[i], 0.75 * noise[i] / scale + shift, 1e-5);
    graft_latent *no = NULL;
    CHECK_INT(graft_latent_noised(m, other, s, true, 1, &no, &e), GRAFT_E_ARG);
    CHECK(!no && strstr(e.text, "4 channels"));
    graft_latent *const all[] = {from, empty, other, with, zeros};
    for (int i = 0; i < 5; i++) graft_latent_release(all[i]);
    graft_sigmas_release(s);
    graft_model_release(m);
}

static void masks_and_places_stay(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_latent *batch = latent_of(2, 4, 1), *second = NULL, *masked = NULL;
    graft_image *mask = columns(H, W, 0, 2);
    graft_sigmas *s = sigmas_of((const float[]){1}, 1);
    int64_t shape[4];
    CHECK_OK(graft_latent_from_batch(batch, 1, 1, &second, &e), &e);
    CHECK_OK(graft_latent_set_mask(second, mask, &masked, &e), &e);
    graft_latent *all = noised(m, batch, s, true), *one = noised(m, masked, s, true);
    CHECK(graft_latent_mask(one) != NULL && !graft_latent_mask(all));
    const int64_t *index = graft_latent_batch_index(one);
    CHECK(index && index[0] == 1);
    /* The noise of its place when each is drawn singly. */
    float drawn[4 * CELLS];
    CHECK_OK(graft_noise_latent(77, (const int64_t[]){1, 4, H, W}, (const int64_t[]){1}, drawn, &e),
             &e);
    const float *v = graft_latent_data(second, shape), *got = graft_latent_data(one, shape);
    for (int i = 0; i < 4 * CELLS; i++) CHECK_NEAR(got[i], v[i] + drawn[i] / 0.18215, 1e-4);
    graft_latent *const done[] = {batch, second, masked, all, one};
    for (int i = 0; i < 5; i++) graft_latent_release(done[i]);
    graft_image_release(mask);
    graft_sigmas_release(s);
    graft_model_release(m);
}

/* sigma of timestep t of the schedule that SD 1.x was trained with. */
static double sigma_of(int t)
{
    double product = 1;
    for (int i = 0; i <= t; i++) {
        double root = sqrt(0.00085) + (sqrt(0.012) - sqrt(0.00085)) * i / 999;
        product *= 1 - root * root;
    }
    return sqrt(1 / product - 1);
}

static double at(const graft_model *m, double percent, bool actual)
{
    double out = -1;
    CHECK_OK(graft_sigmas_at_percent(m, percent, actual, &out, &e), &e);
    return out;
}

static void shares_of_the_schedule(void)
{
    graft_model *m = load_model(engine, SD1), *flow = load_model(engine, FLOW);
    CHECK_NEAR(at(m, 0, false), 999999999.9, 100);
    CHECK(at(m, 1, false) == 0);
    CHECK_NEAR(at(m, 0, true), sigma_of(999), 1e-4);
    CHECK_NEAR(at(m, 1, true), sigma_of(0), 1e-6);
    for (int actual = 0; actual < 2; actual++) {
        CHECK_NEAR(at(m, 0.5, actual), sqrt(sigma_of(499) * sigma_of(500)), 1e-4); /* 499.5 */
        CHECK_NEAR(at(m, 0.999, actual), pow(sigma_of(0), 0.001) * pow(sigma_of(1), 0.999), 1e-4);
        /* shift t / (1 + (shift - 1) t), whose shift is 3 */
        CHECK_NEAR(at(flow, 0.25, actual), 3 * 0.75 / 2.5, 1e-5);
    }
    CHECK(at(flow, 0, false) == 1 && at(flow, 0, true) == 1);
    CHECK(at(flow, 1, false) == 0);
    CHECK_NEAR(at(flow, 1, true), 3 * 0.001 / 1.002, 1e-6);
    static const double bad[] = {-0.1, 1.1, NAN};
    double out;
    for (int i = 0; i < 3; i++)
        CHECK_INT(graft_sigmas_at_percent(m, bad[i], false, &out, &e), GRAFT_E_ARG);
    graft_model_release(flow);
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("ref");
    RUN(as_a_sampler_begins);
    RUN(how_much);
    RUN(of_flows);
    RUN(masks_and_places_stay);
    RUN(shares_of_the_schedule);
    graft_engine_destroy(engine);
    return test_end();
}
