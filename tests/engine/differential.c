/* Differential diffusion: when each place of a mask begins to change, against runs that begin
 * there.
 */
#include <math.h>

#include "engine/denoise/denoise.h"
#include "engine/denoise/sample.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "tests/engine/mmdit.h"
#include "tests/engine/sample.h"

enum { STEPS = 6 };

static graft_engine *engine;
static graft_model *model; /* that is looked at now */
static graft_cond *cond;
static int64_t channels;

static int64_t count(void)
{
    return channels * SIDE * SIDE;
}

static graft_latent *picture(void)
{
    float v[16 * SIDE * SIDE];
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < count(); i++) v[i] = fixed_value((uint64_t)i);
    CHECK_OK(graft_latent_from_data(v, (int64_t[]){1, channels, SIDE, SIDE}, &l, &e), &e);
    return l;
}

/* `grey` on the left and `other` on the right, a value for each cell of the latent. */
static graft_latent *masked(float grey, float other)
{
    graft_image *mask = NULL;
    graft_latent *l = picture(), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_create((int64_t[]){1, SIDE, SIDE, 1}, true, &mask, &e), &e);
    float *v = mask ? graft_image_writable(mask) : NULL;
    for (int i = 0; v && i < SIDE * SIDE; i++) v[i] = i % SIDE < SIDE / 2 ? grey : other;
    CHECK_OK(graft_latent_set_mask(l, mask, &out, &e), &e);
    graft_image_release(mask);
    graft_latent_release(l);
    return out;
}

static graft_model *differential(double strength)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_differential(model, strength, &out, &e), &e);
    return out;
}

/* The schedule's sigmas from step `from` to step `to`. Its first is not the model's most, at which
 * a run begins with a little more noise than that, and its last but one not the least, at which
 * everything changes. */
static graft_sigmas *part_of_schedule(size_t from, size_t to)
{
    graft_sigmas *all = NULL, *part = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    CHECK_OK(graft_sigmas_from_model(model, "simple", STEPS + 1, 1, &all, &e), &e);
    const float *v = graft_sigmas_data(all, &n);
    CHECK_INT(n, STEPS + 2);
    CHECK_OK(graft_sigmas_from_data(v + 1 + from, to - from + 1, &part, &e), &e);
    graft_sigmas_release(all);
    return part;
}

/* Takes the latent. */
static void run(const graft_model *m, graft_latent *from, size_t first, size_t last, float *out)
{
    graft_sigmas *sigmas = part_of_schedule(first, last);
    const graft_sampling s = {.model = m,
                              .positive = cond,
                              .negative = cond,
                              .cfg = 3,
                              .sampler = "euler",
                              .sigmas = sigmas,
                              .add_noise = true,
                              .seed = 5};
    graft_latent *l = NULL;
    int64_t shape[4];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sample_custom(&s, from, NULL, &l, NULL, &e), &e);
    if (l) memcpy(out, graft_latent_data(l, shape), (size_t)count() * sizeof *out);
    graft_latent_release(l);
    graft_latent_release(from);
    graft_sigmas_release(sigmas);
}

static bool same(const float *a, const float *b)
{
    return memcmp(a, b, (size_t)count() * sizeof *a) == 0;
}

/* The first step of those up to `last` at which this grey changes, by the definition. */
static size_t first_step(float grey, size_t last)
{
    graft_sigma_table t;
    graft_sigmas *all = part_of_schedule(0, last);
    size_t n = 0, i = 0;
    const float *sigma = graft_sigmas_data(all, &n);
    graft_model_sigma_table(model, &t);
    double end = (double)graft_sigma_to_timestep(&t, fmaxf(sigma[n - 1], t.sigma[0]));
    double begin = (double)graft_sigma_to_timestep(&t, sigma[0]);
    while (i + 1 < n &&
           (double)grey < ((double)graft_sigma_to_timestep(&t, sigma[i]) - end) / (begin - end))
        i++;
    graft_sigmas_release(all);
    return i;
}

/* One grey everywhere: as a run without a mask from that step on, or the picture itself where it
 * never comes. */
static void begins_late(void)
{
    static const float greys[] = {0.999f, 0.75f, 0.45f, 0.2f, 0.05f};
    graft_model *d = differential(1);
    float got[16 * SIDE * SIDE], want[16 * SIDE * SIDE];
    size_t before = 1;
    for (size_t i = 0; i < sizeof greys / sizeof *greys; i++)
        for (size_t last = STEPS; last + 2 > STEPS; last -= 2) {
            size_t step = first_step(greys[i], last);
            CHECK(last < STEPS || step >= before);
            if (last == STEPS) before = step;
            run(d, masked(greys[i], greys[i]), 0, last, got);
            if (step == last) continue; /* nothing but the noise is left to compare */
            run(model, picture(), step, last, want);
            double off = difference(got, want, (size_t)count());
            CHECK(off < 1e-4);
            if (off >= 1e-4)
                fprintf(stderr, "grey %g from step %zu of %zu: %g\n", (double)greys[i], step, last,
                        off);
        }
    graft_model_release(d);
}

/* Black and white are what they are without it, bit by bit, and so is grey at strength 0. */
static void black_and_white(void)
{
    graft_model *d = differential(1), *none = differential(0), *half = differential(0.5);
    float a[16 * SIDE * SIDE], b[16 * SIDE * SIDE], c[16 * SIDE * SIDE];
    run(d, masked(0, 1), 0, STEPS, a);
    run(model, masked(0, 1), 0, STEPS, b);
    CHECK(same(a, b));
    run(none, masked(0.3f, 0.8f), 0, STEPS, a);
    run(model, masked(0.3f, 0.8f), 0, STEPS, b);
    CHECK(same(a, b));
    run(half, masked(0.3f, 0.8f), 0, STEPS, a);
    run(d, masked(0.3f, 0.8f), 0, STEPS, c);
    CHECK(!same(a, b) && !same(a, c) && !same(b, c));
    run(d, picture(), 0, STEPS, a); /* without a mask there is nothing to do */
    run(model, picture(), 0, STEPS, b);
    CHECK(same(a, b));
    graft_model_release(d);
    graft_model_release(none);
    graft_model_release(half);
}

static void refused(void)
{
    static const double bad[] = {-0.1, 1.1, NAN, INFINITY};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(graft_model_differential(model, bad[i], &out, &e), GRAFT_E_ARG);
    CHECK(!out);
}

int main(void)
{
    static const char *const models[] = {SD1, MMDIT};
    engine = make_engine("cpu");
    for (int i = 0; i < 2; i++) {
        graft_err e = GRAFT_ERR_INIT;
        model = load_model(engine, models[i]);
        channels = model->arch.latent_channels;
        CHECK_OK(sample_cond(model, &cond, &e), &e);
        RUN(begins_late);
        RUN(black_and_white);
        RUN(refused);
        graft_cond_release(cond);
        graft_model_release(model);
    }
    graft_engine_destroy(engine);
    return test_end();
}
