/* Guidance on the CUDA library with the fake driver: prompts for parts of the picture, guidance by
 * three prompts and changes of guidance have the bits of the host's way, and no step touches the
 * host. */
#include "engine/cfg.h"
#include "tests/cuda/both_ways.h"
#include "tests/cuda/least.h"

#define SD3 GRAFT_SOURCE_DIR "/golden/small/mmdit_sd3.safetensors"

static char least[256], least_xl[256]; /* files */

/* ------------------------------------------------------------------ parts of the picture */

/* A prompt that counts in the left half, and one with a grey mask of its own on each picture. */
typedef struct placed {
    graft_cond *left, *masked;
    graft_image *mask;
} placed;

static placed placed_of(graft_cond *left, graft_cond *masked)
{
    static const int64_t shape[4] = {PICTURES, PLACE, PLACE, 1};
    static const graft_area half = {0, 0, 0.5, 1, true};
    float data[PICTURES * PLACE * PLACE];
    placed p = {NULL, NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < PICTURES * PLACE * PLACE; i++) /* nothing in the first row */
        data[i] = i / PLACE % PLACE ? fabsf(fixed_value((uint64_t)(i + 900))) : 0;
    CHECK_OK(graft_image_from_data(data, shape, true, &p.mask, &e), &e);
    CHECK_OK(graft_cond_area(left, &half, 0.8, &p.left, &e), &e);
    CHECK_OK(graft_cond_mask(masked, p.mask, 0.7, true, &p.masked, &e), &e);
    return p;
}

static void placed_end(placed *p)
{
    graft_cond_release(p->left);
    graft_cond_release(p->masked);
    graft_image_release(p->mask);
}

static graft_cond *combined(const graft_cond *a, const graft_cond *b)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_combine(a, b, &out, &e), &e);
    return out;
}

/* Areas and masks of prompts; one that is all of the picture is none. Where no prompt counts the
 * result is 0. */
static void placed_prompts(void)
{
    static const graft_area whole = {0, 0, 1, 1, true};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least_xl);
    graft_cond *a = words(m, WORDS), *longer = words(m, WORDS + 2), *all = NULL;
    graft_latent *latent = masked_latent(4);
    graft_err e = GRAFT_ERR_INIT;
    placed p = placed_of(a, longer);
    graft_cond *mixed = combined(a, p.left), *alone = combined(p.left, p.masked);
    CHECK_OK(graft_cond_area(a, &whole, 1, &all, &e), &e);
    const job plain = job_of(m, all, a, "euler", 2);
    both_ways(&plain);
    job j = job_of(m, mixed, a, "euler", 2);
    both_ways(&j);
    CHECK(differs(&j, &plain));
    j = job_of(m, alone, p.left, "euler_cfg_pp", 2);
    j.latent = latent;
    both_ways(&j);
    if (!SANITIZED) {
        j = job_of(m, p.masked, mixed, "euler", 2);
        both_ways(&j);
        j.p.cfg = 1;
        both_ways(&j);
    }
    graft_cond_release(mixed);
    graft_cond_release(alone);
    placed_end(&p);
    graft_latent_release(latent);
    graft_cond_release(all);
    graft_cond_release(longer);
    graft_cond_release(a);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* With what changes guidance, or needs more of a batch: rescaling, perturbed rows, features of
 * earlier steps. */
static void placed_and_changed(void)
{
    const graft_deepcache_options o = {
        .cache_interval = 2, .end_step = 1000, .schedule = "uniform"};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *with[3] = {NULL, NULL, NULL};
    graft_cond *a = words(m, WORDS), *longer = words(m, WORDS + 2);
    graft_latent *latent = masked_latent(4);
    graft_err e = GRAFT_ERR_INIT;
    placed p = placed_of(a, longer);
    graft_cond *mixed = combined(p.left, a), *other = combined(p.masked, a);
    CHECK_OK(graft_model_perturbed_attention(m, 2.5, &with[0], &e), &e);
    CHECK_OK(graft_model_deepcache(m, &o, &with[1], &e), &e);
    CHECK_OK(graft_model_rescale_cfg(m, 0.7, &with[2], &e), &e);
    for (int i = 0; i < 3; i++) {
        const job plain = job_of(m, mixed, other, "euler", 3);
        job j = job_of(with[i], mixed, other, "euler", 3);
        CHECK(differs(&j, &plain));
        if (i == 2) j.latent = latent;
        both_ways(&j);
        graft_model_release(with[i]);
    }
    graft_cond_release(mixed);
    graft_cond_release(other);
    placed_end(&p);
    graft_latent_release(latent);
    graft_cond_release(longer);
    graft_cond_release(a);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Of transformers, whose parts are of whole patches, and of a UNet that sees planes beside the
 * latent. */
static void placed_in_more(void)
{
    char path[256];
    graft_engine *g = engine_in("cuda", "bf16");
    snprintf(path, sizeof path, "%s", temp_path("wide.safetensors"));
    write_wide(least, path);
    for (int flow = 0; flow < 2; flow++) {
        graft_model *m = load_model(g, flow ? SD3 : path);
        graft_cond *a = words(m, WORDS), *b = words(m, WORDS + 1);
        graft_latent *latent = masked_latent(flow ? 16 : 4);
        placed p = placed_of(a, b);
        graft_cond *mixed = combined(p.left, p.masked);
        job plain = job_of(m, a, a, "euler", 2), j = job_of(m, mixed, a, "euler", 2);
        plain.p.scheduler = j.p.scheduler = "simple";
        plain.latent = j.latent = latent;
        both_ways(&j);
        CHECK(differs(&j, &plain));
        graft_cond_release(mixed);
        placed_end(&p);
        graft_latent_release(latent);
        graft_cond_release(a);
        graft_cond_release(b);
        graft_model_release(m);
    }
    remove(path);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ three prompts */

/* Each way to put them together, of one length and of several, for parts of the picture, with rows
 * that are perturbed. */
static void third_prompts(void)
{
    static const graft_third_way ways[] = {GRAFT_THIRD_PERPENDICULAR, GRAFT_THIRD_DUAL,
                                           GRAFT_THIRD_NESTED};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *away = NULL;
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS), *longer = words(m, WORDS + 2);
    graft_cond *other = words(m, WORDS + 1);
    graft_latent *latent = masked_latent(4);
    graft_err e = GRAFT_ERR_INIT;
    placed p = placed_of(longer, a);
    graft_cond *mixed = combined(p.left, a);
    CHECK_OK(graft_model_perturbed_attention(m, 2.5, &away, &e), &e);
    const job plain = job_of(m, a, longer, "euler", 2);
    for (size_t i = 0; i < 3; i++) {
        job j = plain;
        j.third = (graft_third){i ? b : other, ways[i], 0.75};
        CHECK(differs(&j, &plain));
        if (!i) j.latent = latent;
        both_ways(&j);
    }
    job j = job_of(away, mixed, a, "euler_cfg_pp", 2);
    j.third = (graft_third){longer, GRAFT_THIRD_PERPENDICULAR, 1.5};
    both_ways(&j);
    graft_cond_release(mixed);
    placed_end(&p);
    graft_latent_release(latent);
    graft_cond_release(longer);
    graft_cond_release(a);
    graft_cond_release(b);
    graft_cond_release(other);
    graft_model_release(away);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ changes */

static graft_model *changed(const graft_model *m, graft_cfg_change change)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_change_cfg(m, &change, &out, &e), &e);
    return out;
}

static const graft_cfg_change changes[] = {
    {GRAFT_CFG_PROJECTED, 0.5, 3, -0.5}, {GRAFT_CFG_PROJECTED, 1, 0, 0},
    {GRAFT_CFG_TANGENTIAL, 0, 0, 0},     {GRAFT_CFG_RENORMED, 1.25, 6, 0},
    {GRAFT_CFG_ZERO_STAR, 0, 0, 0},      {GRAFT_CFG_NORMED, 0.875, 0, 0},
    {GRAFT_CFG_SIMILAR, 0, 0, 0}};
enum { CHANGES = sizeof changes / sizeof *changes };

/* Each alone, on two pictures; then all of them, with what else may be there. */
static void changes_of_guidance(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *all = NULL;
    graft_cond *a = words(m, WORDS), *longer = words(m, WORDS + 2);
    graft_latent *latent = masked_latent(4);
    graft_err e = GRAFT_ERR_INIT;
    placed p = placed_of(longer, a);
    graft_cond *mixed = combined(p.left, a);
    job plain = job_of(m, a, longer, "euler", 3), j;
    plain.latent = latent;
    CHECK_OK(graft_model_perturbed_attention(m, 2.5, &all, &e), &e);
    for (int i = 0; i < CHANGES; i++) {
        graft_model *one = changed(m, changes[i]), *more = changed(all, changes[i]);
        j = plain;
        j.m = one;
        CHECK(differs(&j, &plain));
        both_ways(&j);
        graft_model_release(one);
        graft_model_release(all);
        all = more;
    }
    j = job_of(all, mixed, a, "euler_cfg_pp", 2);
    both_ways(&j);
    j = job_of(all, a, longer, "euler", 2);
    j.p.cfg = 1; /* nothing but CFGNorm's strength */
    both_ways(&j);
    graft_cond_release(mixed);
    placed_end(&p);
    graft_latent_release(latent);
    graft_cond_release(longer);
    graft_cond_release(a);
    graft_model_release(all);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* With what changes guidance beside these: rescaling, and a cfg of 0. */
static void changes_of_others(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *rescaled = NULL;
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_rescale_cfg(m, 0.7, &rescaled, &e), &e);
    graft_model *with = changed(rescaled, changes[0]), *more = changed(with, changes[4]);
    const job plain = job_of(with, a, b, "euler", 2);
    job j = job_of(more, a, b, "euler", 2);
    CHECK(differs(&j, &plain));
    both_ways(&j);
    j.p.cfg = 0;
    both_ways(&j);
    graft_model_release(more);
    graft_model_release(with);
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(rescaled);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Values in a picture that no whole block of threads has, and more than one block. */
static void odd_sizes(void)
{
    const graft_cfg_change two[] = {{GRAFT_CFG_PROJECTED, 0.5, 3, -0.5},
                                    {GRAFT_CFG_SIMILAR, 0, 0, 0}};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *one = changed(m, two[0]), *with = changed(one, two[1]);
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS);
    graft_latent *latent = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_empty(4, 8 * 9, 8 * 11, 1, &latent, &e), &e); /* 396 values */
    job j = job_of(with, a, b, "euler", 2);
    j.latent = latent;
    both_ways(&j);
    graft_latent_release(latent);
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(with);
    graft_model_release(one);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ evaluations left out */

static void on_latent(void *ctx, const float *x, const int64_t shape[4])
{
    (void)x, (void)shape;
    ++*(int *)ctx;
}

/* The host's way, since someone looks at latents, and the device's, of which two numbers come to
 * the host where evaluations are compared; some are left out. */
static void leaves_out(const job *plain, double threshold)
{
    const graft_easycache_options o = {threshold, 0, 1, false};
    const uint64_t steps = (uint64_t)plain->p.steps;
    graft_model *with = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float host[MOST], here[MOST];
    int seen = 0;
    const graft_task task = {.ctx = &seen, .latent = on_latent};
    CHECK_OK(graft_model_easycache(plain->m, &o, &with, &e), &e);
    job j = *plain;
    j.m = with;
    const size_t n = sample(&j, &task, false, host);
    CHECK_INT(seen, steps);
    const uint64_t before = fake->download_bytes;
    CHECK_INT(sample(&j, NULL, false, here), n);
    const uint64_t numbers = fake->download_bytes - before - n * sizeof *here;
    CHECK(numbers > 0 && numbers % (2 * sizeof(double)) == 0);
    CHECK(numbers <= 2 * steps * 2 * sizeof(double)); /* what was learnt, and what decides */
    CHECK(memcmp(host, here, n * sizeof *host) == 0);
    CHECK(differs(&j, plain));
    graft_model_release(with);
}

static void left_out_evaluations(void)
{
    const graft_deepcache_options o = {
        .cache_interval = 2, .end_step = 1000, .schedule = "uniform"};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *away = NULL, *cached = NULL;
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS), *longer = words(m, WORDS + 2);
    graft_latent *latent = masked_latent(4);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_perturbed_attention(m, 2.5, &away, &e), &e);
    CHECK_OK(graft_model_deepcache(m, &o, &cached, &e), &e);
    job j = job_of(m, a, b, "euler", 6);
    leaves_out(&j, 3);
    j = job_of(away, a, longer, "euler_cfg_pp", 6);
    j.latent = latent;
    leaves_out(&j, 3);
    if (!SANITIZED) {
        j = job_of(m, longer, a, "euler", 6);
        j.third = (graft_third){b, GRAFT_THIRD_DUAL, 0.75};
        leaves_out(&j, 3);
        j = job_of(cached, a, b, "euler", 8);
        leaves_out(&j, 3);
        graft_model *changes_too = changed(m, changes[0]);
        j = job_of(changes_too, a, b, "euler", 6);
        leaves_out(&j, 3);
        graft_model_release(changes_too);
    }
    graft_latent_release(latent);
    graft_cond_release(longer);
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(cached);
    graft_model_release(away);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Too little memory for what is kept apart. */
static void no_room(void)
{
    const graft_easycache_options o = {3, 0, 1, false};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *with = NULL;
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS);
    graft_err e = GRAFT_ERR_INIT;
    placed p = placed_of(a, b);
    graft_model *one = changed(m, changes[0]);
    CHECK_OK(graft_model_easycache(one, &o, &with, &e), &e);
    job j = job_of(with, a, b, "euler", 4);
    with_little(&j);
    j = job_of(m, p.left, a, "euler", 2);
    j.third = (graft_third){b, GRAFT_THIRD_PERPENDICULAR, 1};
    with_little(&j);
    placed_end(&p);
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(with);
    graft_model_release(one);
    graft_model_release(m);
    graft_engine_destroy(g);
}

int main(void)
{
    if (!open_fake()) return test_end();
    snprintf(least, sizeof least, "%s", temp_path("least.safetensors"));
    snprintf(least_xl, sizeof least_xl, "%s", temp_path("least-xl.safetensors"));
    write_least(least, 0);
    write_least(least_xl, 40);
    RUN(placed_prompts);
    RUN(placed_and_changed);
    RUN(placed_in_more);
    RUN(third_prompts);
    RUN(changes_of_guidance);
    RUN(changes_of_others);
    RUN(odd_sizes);
    RUN(left_out_evaluations);
    RUN(no_room);
    remove(least);
    remove(least_xl);
    return close_fake();
}
