/* ControlNets that are put on a model instead of on prompts: a model, several of them, what it
 * makes without and with each, and what holds for all kinds of them. */
#ifndef GRAFT_TESTS_ENGINE_MODEL_PATCH_H
#define GRAFT_TESTS_ENGINE_MODEL_PATCH_H
#include "engine/objects/control.h"
#include "tests/engine/control_transformer.h"
#include "tests/engine/diffusers.h"
#include "tests/engine/regions.h"

enum { NETS_MOST = 3 };

static graft_model *base;
static graft_controlnet *nets[NETS_MOST];
static int n_nets;
static graft_image *mask; /* its lower half is white */
static pair prompts;
static float plain[ONE], steered[NETS_MOST][ONE];

static inline graft_controlnet *load_patch(graft_engine *g, const char *path)
{
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_patch_load(g, path, NULL, &n, &e), &e);
    return n;
}

/* With the mask where it cannot do without. */
static inline graft_model_control_options patch(const graft_controlnet *n, double strength)
{
    return (graft_model_control_options){.net = n,
                                         .vae = vae,
                                         .hint = hint,
                                         .mask =
                                             n && graft_control_sees_mask(&n->arch) ? mask : NULL,
                                         .strength = strength};
}

static inline graft_model *put(const graft_model *on, graft_model_control_options o)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_control(on, &o, &out, &e), &e);
    return out;
}

static inline void put_and_sample(const graft_model *on, graft_model_control_options o, float *out)
{
    graft_model *with = put(on, o);
    sample(with, prompts, out);
    graft_model_release(with);
}

/* With this one behind that one. */
static inline void sample_two(graft_model_control_options first, graft_model_control_options second,
                              float *out)
{
    graft_model *with = put(base, first);
    put_and_sample(with, second, out);
    graft_model_release(with);
}

/* Black, but white from row `from` on. */
static inline graft_image *half_mask(int64_t from)
{
    float v[64 * 64];
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 64 * 64; i++) v[i] = i / 64 >= from;
    CHECK_OK(graft_image_from_data(v, (int64_t[]){1, 64, 64, 1}, true, &out, &e), &e);
    return out;
}

/* ------------------------------------------------------------------ what they add */

static inline void strengths(void)
{
    for (int i = 0; i < n_nets; i++) {
        float now[ONE];
        graft_image *another = control_hint(1, 64, 9);
        graft_model_control_options o = patch(nets[i], 1);
        graft_model *none = put(base, patch(nets[i], 0));
        CHECK(none == base);
        graft_model_release(none);
        CHECK(difference(steered[i], plain, ONE) > 0.01);
        put_and_sample(base, o, now);
        CHECK(memcmp(now, steered[i], sizeof now) == 0);
        sample_two(patch(nets[i], 0.5), patch(nets[i], 0.5), now);
        CHECK(difference(now, steered[i], ONE) < 1e-4);
        sample_two(patch(nets[i], 0.7), patch(nets[i], -0.7), now);
        CHECK(difference(now, plain, ONE) < 1e-4);
        o.hint = another;
        put_and_sample(base, o, now);
        CHECK(difference(now, steered[i], ONE) > 1e-3);
        graft_image_release(another);
    }
    CHECK(difference(steered[0], steered[n_nets - 1], ONE) > 1e-3);
}

/* Of several files, in whichever order. */
static inline void together(void)
{
    for (int i = 0; i < n_nets; i++)
        for (int k = 0; k < i; k++) {
            float a[ONE], b[ONE];
            sample_two(patch(nets[i], 0.8), patch(nets[k], 0.6), a);
            sample_two(patch(nets[k], 0.6), patch(nets[i], 0.8), b);
            CHECK(difference(a, b, ONE) < 1e-4);
            CHECK(difference(a, steered[i], ONE) > 1e-3 && difference(a, plain, ONE) > 1e-3);
            CHECK(difference(a, steered[k], ONE) > 1e-3);
        }
}

/* Of all prompts, whichever share a batch. */
static inline void steers_both(const graft_cond *positive, const graft_cond *negative, int net)
{
    float x[ONE], with[ONE], bare[ONE], each[2][ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *on = put(base, patch(nets[net], 1));
    one_call c = {on, positive, negative, 3.0, {1, 16, HIGH, WIDE}, NULL, NULL, 0};
    noise_of(&c, x);
    CHECK_OK(try_denoise_at(&c, x, 0.6f, with, &e), &e);
    c.model = base;
    CHECK_OK(try_denoise_at(&c, x, 0.6f, bare, &e), &e);
    c.model = on, c.cfg = 1;
    CHECK_OK(try_denoise_at(&c, x, 0.6f, each[0], &e), &e);
    c.positive = negative;
    CHECK_OK(try_denoise_at(&c, x, 0.6f, each[1], &e), &e);
    for (int k = 0; k < ONE; k++) each[0][k] = each[1][k] + 3 * (each[0][k] - each[1][k]);
    CHECK(difference(with, each[0], ONE) < 1e-4);
    CHECK(difference(with, bare, ONE) > 1e-3);
    graft_model_release(on);
}

/* Pictures repeat over a batch; a latent of odd sides is filled up. */
static inline void batches_and_sizes(void)
{
    static float all[3 * ONE], first[3 * ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_image *two = control_hint(2, 64, 1);
    for (int i = 0; i < n_nets; i++) {
        graft_model_control_options o = patch(nets[i], 1);
        graft_model *on = put(base, o);
        CHECK_OK(try_sizes(on, prompts, 3, HIGH, WIDE, NULL, first, &e), &e);
        graft_model_release(on);
        o.hint = two;
        on = put(base, o);
        CHECK_OK(try_sizes(on, prompts, 3, HIGH, WIDE, NULL, all, &e), &e);
        CHECK(difference(all, first, ONE) < 1e-4);
        CHECK(difference(all + ONE, first + ONE, ONE) > 1e-4);
        CHECK(difference(all + 2 * ONE, first + 2 * ONE, ONE) < 1e-4);
        CHECK_OK(try_sizes(on, prompts, 1, 5, 7, NULL, all, &e), &e);
        CHECK_OK(try_sizes(base, prompts, 1, 5, 7, NULL, first, &e), &e);
        CHECK(difference(all, first, (size_t)16 * 5 * 7) > 1e-3);
        graft_model_release(on);
    }
    graft_image_release(two);
}

/* ------------------------------------------------------------------ EasyCache */

static inline graft_model *eased(const graft_model *m)
{
    const graft_easycache_options o = {.threshold = 3, .end = 1};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_easycache(m, &o, &out, &e), &e);
    return out;
}

enum { EVALUATIONS = 5 };

/* What the model makes of fixed latents at falling sigmas, in one run. */
static inline void walk_down(const graft_model *m, float x[EVALUATIONS][ONE],
                             float out[EVALUATIONS][ONE], double sigma[EVALUATIONS])
{
    graft_sigma_table table;
    graft_guided *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_guided_config c = {.model = m,
                                   .table = &table,
                                   .positive = prompts.positive,
                                   .negative = prompts.negative,
                                   .cfg = 1,
                                   .shape = {1, 16, HIGH, WIDE},
                                   .steps = EVALUATIONS};
    graft_model_sigma_table(m, &table);
    CHECK_OK(graft_guided_create(&c, &g, &e), &e);
    for (int i = 0; i < EVALUATIONS; i++) {
        const graft_denoiser d = graft_guided_denoiser(g);
        sigma[i] = 0.6 - 0.02 * i;
        for (int k = 0; k < ONE; k++)
            x[i][k] = fixed_value(4711 + (uint64_t)k) + 0.02f * (float)i * fixed_value((uint64_t)k);
        graft_guided_step(g, (size_t)i);
        CHECK_OK(d.denoise(d.ctx, x[i], (float)sigma[i], out[i], &e), &e);
    }
    graft_guided_destroy(g);
}

/* What an evaluation of a flow gives that is left out, by that in full of before (easycache.h). */
static inline void told_from(const float *x, double sigma, const float *last_x, double last_sigma,
                             const float *last, float *want)
{
    for (int k = 0; k < ONE; k++) {
        const double v = (last_x[k] - last[k]) / last_sigma;
        want[k] = (float)(x[k] - sigma * (x[k] + v - last_x[k]));
    }
}

/* Evaluations that are not left out are those of the steered model, and the others follow from
 * them: from this strength and this picture, whatever ran before. first: the first of those. */
static inline void eased_alike(graft_model_control_options o, float first[ONE])
{
    static float x[EVALUATIONS][ONE], whole[EVALUATIONS][ONE], got[2][EVALUATIONS][ONE], want[ONE];
    double sigma[EVALUATIONS];
    int full = 0, left_out = 0;
    graft_model *on = put(base, o), *behind = eased(on), *easy = eased(base),
                *before = put(easy, o);
    walk_down(on, x, whole, sigma);
    walk_down(behind, x, got[0], sigma);
    walk_down(before, x, got[1], sigma);
    CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0);
    for (int i = 0; i < EVALUATIONS; i++) {
        if (memcmp(got[0][i], whole[i], sizeof *whole) == 0) {
            full = i;
            continue;
        }
        told_from(x[i], sigma[i], x[full], sigma[full], whole[full], want);
        CHECK(difference(got[0][i], want, ONE) < 1e-4);
        if (!left_out++) memcpy(first, got[0][i], sizeof *got[0]);
    }
    CHECK(left_out > 0);
    graft_model *const all[] = {on, behind, easy, before};
    for (int i = 0; i < 4; i++) graft_model_release(all[i]);
}

static inline void with_easycache(void)
{
    graft_image *another = control_hint(1, 64, 9);
    for (int i = 0; i < n_nets; i++) {
        float one[ONE], half[ONE], other[ONE], none[ONE], again[ONE];
        graft_model_control_options o = patch(nets[i], 1);
        eased_alike(o, one);
        eased_alike(patch(nets[i], 0.5), half);
        eased_alike(patch(nets[i], 0), none);
        o.hint = another;
        eased_alike(o, other);
        eased_alike(patch(nets[i], 1), again);
        CHECK(memcmp(again, one, sizeof one) == 0);
        CHECK(difference(half, one, ONE) > 1e-3 && difference(half, none, ONE) > 1e-3);
        CHECK(difference(one, none, ONE) > 1e-3 && difference(one, other, ONE) > 1e-3);
    }
    graft_image_release(another);
}

/* ------------------------------------------------------------------ the run */

static inline void nothing_is_compiled_again(void)
{
    float now[ONE];
    graft_image *other = control_hint(1, 48, 77);
    const uint64_t before = graphs_built(engine);
    for (int i = 0; i < n_nets; i++)
        for (int k = 1; k < 4; k++) {
            graft_model_control_options o = patch(nets[i], 0.3 * k);
            if (k % 2) o.hint = other;
            put_and_sample(base, o, now);
        }
    CHECK_INT(graphs_built(engine), before);
    graft_image_release(other);
}

/* The model of this file with other weights. */
static inline const char *another_model(const char *of)
{
    const char *path = temp_path("another.safetensors");
    made_file *f = net_file(of);
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        float *v = (float *)(uintptr_t)t->data;
        if (strstr(t->name, "diffusion_model.") && t->rank == 2)
            for (int64_t k = 0; k < shape_count(t->shape, 2); k++) v[k] *= 0.7f;
    }
    write_file(f, path, "{\"rope_dim\": 6}");
    return path;
}

/* On a model that is swapped in, and on one of integers. */
static inline void steers_other_weights(const char *file, int net)
{
    float now[ONE], want[ONE], bare[ONE];
    const char *path = another_model(file);
    graft_model *with = put(base, patch(nets[net], 1)), *other = load_model(engine, path);
    put_and_sample(other, patch(nets[net], 1), want);
    const uint64_t before = graphs_built(engine);
    graft_model *s = swap_weights(with, path, false);
    sample(s, prompts, now);
    CHECK(memcmp(now, want, sizeof now) == 0);
    CHECK(difference(now, steered[net], ONE) > 1e-3);
    CHECK_INT(graphs_built(engine), before);
    sample(with, prompts, now);
    CHECK(memcmp(now, steered[net], sizeof now) == 0);
    graft_model *q = half_quantized(base);
    put_and_sample(q, patch(nets[net], 1), now);
    sample(q, prompts, bare);
    CHECK(memcmp(now, steered[net], sizeof now) != 0);
    CHECK(difference(now, steered[net], ONE) < 0.5 && difference(now, bare, ONE) > 1e-3);
    graft_model_release(q);
    graft_model_release(s);
    graft_model_release(with);
    graft_model_release(other);
    unlink(path);
}

/* Behind it QuantizeModel measures what the steered network sees. The model that is returned is the
 * caller's. */
static inline graft_model *measured_with(int net)
{
    float now[ONE];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *with = put(base, patch(nets[net], 1)), *q = NULL;
    graft_latent *from = NULL;
    CHECK_OK(graft_latent_empty(16, WIDE * PIXELS, HIGH * PIXELS, 1, &from, &e), &e);
    const graft_quantize_options o = {.bits = 8,
                                      .conv = true,
                                      .linear = true,
                                      .conv_mse_threshold = 1,
                                      .linear_mse_threshold = 1,
                                      .positive = prompts.positive,
                                      .negative = prompts.negative,
                                      .latent = from,
                                      .steps = 2,
                                      .cfg = 3,
                                      .seed = 5};
    CHECK_OK(graft_model_quantize(with, &o, NULL, &q, NULL, &e), &e);
    sample(q, prompts, now);
    CHECK(memcmp(now, steered[net], sizeof now) != 0);
    CHECK(difference(now, steered[net], ONE) < 0.5);
    CHECK(difference(now, plain, ONE) > 1e-3);
    graft_latent_release(from);
    graft_model_release(with);
    return q;
}

/* ------------------------------------------------------------------ what is refused */

static inline void refused(const graft_model *on, graft_model_control_options o, graft_status want,
                           const char *text)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_control(on, &o, &out, &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
    CHECK(!out);
}

/* Neither loader takes the other's files, and says whose they are. */
static inline void other_files(const char *patches, const char *what, const char *prompts_own)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *n = NULL;
    CHECK_INT(graft_controlnet_load(engine, patches, NULL, &n, &e), GRAFT_E_UNSUPPORTED);
    if (!strstr(e.text, what)) CHECK_STR(e.text, what);
    CHECK(strstr(e.text, ", which ModelPatchLoader opens") != NULL);
    CHECK_INT(graft_model_patch_load(engine, prompts_own, NULL, &n, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a ControlNet, which ControlNetLoader opens") != NULL);
    CHECK(!n);
}

/* The file without this tensor. */
static inline void broken(const char *file, const char *name)
{
    const char *path = temp_path("broken.safetensors");
    made_file *f = net_file(file);
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    drop_tensor(f, name);
    write_file(f, path, NULL);
    CHECK_INT(graft_model_patch_load(engine, path, NULL, &n, &e), GRAFT_E_FORMAT);
    if (!strstr(e.text, name)) CHECK_STR(e.text, name);
    unlink(path);
}

/* ------------------------------------------------------------------ without memory */

static inline graft_status load_and_sample_two(const char *first, int second, float *out,
                                               graft_err *e)
{
    graft_controlnet *n = NULL;
    graft_model *one = NULL, *two = NULL;
    graft_status st = graft_model_patch_load(engine, first, NULL, &n, e);
    graft_model_control_options a = patch(n, 0.5), b = patch(nets[second], 0.5);
    if (!st) st = graft_model_control(base, &a, &one, e);
    if (!st) st = graft_model_control(one, &b, &two, e);
    if (!st) st = try_sizes(two, prompts, 1, HIGH - 1, WIDE, NULL, out, e);
    graft_model_release(two);
    graft_model_release(one);
    graft_controlnet_release(n);
    return st;
}

/* Memory ends anywhere while a file is loaded, and used with another one behind it: an error, and
 * nothing is lost. */
static inline void runs_short_of_memory(const char *first, int second)
{
    float want[ONE], now[ONE];
    int64_t n = 0, failed = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(load_and_sample_two(first, second, want, &e), &e);
    CHECK_OK(load_and_sample_two(first, second, want, &e), &e);
    const int64_t live = live_blocks();
    for (bool done = false; !done && n < 1000000; n += n / 30) {
        graft_alloc_fail_at(++n);
        const graft_status st = load_and_sample_two(first, second, now, &e);
        done = graft_alloc_fail_at(0) > 0;
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !done));
        CHECK(st || memcmp(now, want, (HIGH - 1) * WIDE * 16 * sizeof *now) == 0);
        CHECK(live_blocks() <= live);
        failed += st != GRAFT_OK;
    }
    CHECK(n < 1000000 && failed > 20);
}

/* ------------------------------------------------------------------ all */

/* All of the above but what these two make comes before. */
static inline void begin_patches(int n)
{
    n_nets = n;
    sample(base, prompts, plain);
    for (int i = 0; i < n; i++) put_and_sample(base, patch(nets[i], 1), steered[i]);
}

static inline void end_patches(void)
{
    drop(prompts);
    for (int i = 0; i < n_nets; i++) graft_controlnet_release(nets[i]);
    graft_image_release(mask);
    graft_model_release(base);
}
#endif
