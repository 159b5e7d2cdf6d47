/* What does not change from step to step is computed once: the same bits as computing it every
 * time, for whatever prompts a step has, and nothing of one series in the next. */
#include "engine/exec/invariants.h"

#include <math.h>

#include "engine/objects/room.h"
#include "tests/engine/flux.h"
#include "tests/engine/mmdit.h"
#include "tests/engine/regions.h"

enum { LINE = 20000, VALUES = 16 * SIDE * SIDE };

static graft_engine *engine;

typedef struct inputs {
    float x[VALUES], t, context[TOKENS * 64], y[4096];
} inputs;

static void fill(inputs *in, uint64_t picture, uint64_t prompt)
{
    in->t = 300.0f + 50.0f * (float)picture;
    for (size_t i = 0; i < VALUES; i++) in->x[i] = fixed_value(picture * LINE + i);
    for (size_t i = 0; i < TOKENS * 64; i++) in->context[i] = fixed_value((50 + prompt) * LINE + i);
    for (size_t i = 0; i < 4096; i++) in->y[i] = fixed_value((90 + prompt) * LINE + i);
}

static void run(const graft_binding *b, graft_invariants *series, const inputs *in, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    memset(out, 0, VALUES * sizeof *out);
    CHECK_OK(graft_exe_run_again(b, engine->arenas, series,
                                 (const void *[]){in->x, &in->t, in->context, in->y},
                                 (void *[]){out}, NULL, &e),
             &e);
}

static size_t count_invariant(const graft_exe *x)
{
    size_t n = 0;
    for (size_t i = 0; x->kept && i < x->graph->n_nodes; i++) n += x->kept[i].invariant;
    return n;
}

/* The second run of a series gets numbers that are none in place of the prompt: what it still read
 * of them would show. */
static void once_a_series(const char *path, int64_t tokens, size_t least)
{
    static inputs a, b, poisoned, other;
    static float first[VALUES], second[VALUES], third[VALUES], out[VALUES];
    graft_model *m = load_model(engine, path);
    graft_binding *bound = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.context_dim <= 64 && m->arch.adm_channels <= 4096);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, tokens, NULL, &bound, &e), &e);
    if (!bound) return;
    fill(&a, 0, 0);
    fill(&b, 1, 0);
    fill(&other, 2, 1);
    poisoned = b;
    for (size_t i = 0; i < TOKENS * 64; i++) poisoned.context[i] = NAN;
    for (size_t i = 0; i < 4096; i++) poisoned.y[i] = NAN;
    run(bound, NULL, &a, first);
    run(bound, NULL, &b, second);
    run(bound, NULL, &other, third);
    CHECK(memcmp(first, second, sizeof first) && memcmp(second, third, sizeof first));
    size_t n = count_invariant(bound->exe);
    printf("     %s: %zu of %zu operators, %lld bytes\n", strrchr(path, '/') + 1, n,
           bound->exe->graph->n_nodes, (long long)bound->exe->kept_bytes);
    CHECK(n >= least && n < bound->exe->graph->n_nodes / 2);
    for (int turn = 0; turn < 2; turn++) { /* the second series has the memory of the first */
        graft_invariants *series = NULL;
        CHECK_OK(graft_invariants_create(bound->exe, engine->kept, &series, &e), &e);
        CHECK(series && !graft_invariants_made(series));
        run(bound, series, turn ? &other : &a, out);
        CHECK(memcmp(out, turn ? third : first, sizeof out) == 0);
        CHECK(graft_invariants_made(series));
        if (!turn) run(bound, series, &poisoned, out);
        if (!turn) CHECK(memcmp(out, second, sizeof out) == 0);
        graft_invariants_destroy(series);
    }
    graft_binding_release(bound);
    graft_model_release(m);
}

static void the_prompt_is_read_once(void)
{
    once_a_series(SD1, TOKENS, 2);
    once_a_series(SD2, TOKENS, 2);
    once_a_series(SDXL, TOKENS, 3);
    once_a_series(MMDIT, MMDIT_WORDS, 2);
    once_a_series(FLUX_DEV, FLUX_WORDS, 7); /* guidance, the pooled prompt, and the prompt */
}

static bool stop_now(void *ctx)
{
    return --*(int *)ctx < 0;
}

/* A first run that ends early has made nothing that a later one may rely on. */
static void a_first_run_that_is_cancelled(void)
{
    static inputs a;
    static float want[VALUES], out[VALUES];
    graft_model *m = load_model(engine, SDXL);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_invariants *series = NULL;
    int left = 12;
    const graft_task task = {.ctx = &left, .cancelled = stop_now};
    fill(&a, 0, 0);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    run(b, NULL, &a, want);
    CHECK_OK(graft_invariants_create(b->exe, engine->kept, &series, &e), &e);
    memset(graft_invariants_data(series), 0xff, (size_t)b->exe->kept_bytes);
    CHECK_INT(graft_exe_run_again(b, engine->arenas, series,
                                  (const void *[]){a.x, &a.t, a.context, a.y}, (void *[]){out},
                                  &task, &e),
              GRAFT_E_CANCEL);
    CHECK(!graft_invariants_made(series));
    run(b, series, &a, out);
    CHECK(memcmp(out, want, sizeof out) == 0);
    graft_invariants_destroy(series);
    graft_binding_release(b);
    graft_model_release(m);
}

static graft_cond *between(graft_cond *c, double start, double end)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_timestep_range(c, start, end, &out, &e), &e);
    graft_cond_release(c);
    return out;
}

/* A sampling whose prompts come and go: every step as one of a sampling of its own. */
static void prompts_that_come_and_go(void)
{
    static const float sigma[] = {12.0f, 1.0f, 12.0f, 0.2f, 0.2f, 1.0f, 12.0f};
    static const char *const path[] = {SD1, SDXL};
    static float x[MOST], want[MOST], out[MOST];
    for (size_t p = 0; p < sizeof path / sizeof *path; p++) {
        graft_model *m = load_model(engine, path[p]);
        graft_cond *early = between(place_prompt(m, 1, TOKENS), 0, 0.4);
        graft_cond *late = between(place_prompt(m, 2, TOKENS), 0.2, 1);
        graft_cond *two = both(early, late), *long_one = place_prompt(m, 3, 2 * TOKENS);
        graft_cond *positive = both(two, in_cells(long_one, 0, 0, 4, 6, 1)),
                   *negative = place_prompt(m, 4, TOKENS);
        const one_call c = {m, positive, negative, 4.0, {2, 4, 8, 8}, NULL, NULL, 0};
        graft_sigma_table table;
        graft_guided *g = NULL;
        graft_err e = GRAFT_ERR_INIT;
        graft_guided_config k = {.model = m,
                                 .table = &table,
                                 .positive = positive,
                                 .negative = negative,
                                 .cfg = 4.0,
                                 .shape = {2, 4, 8, 8},
                                 .steps = 7};
        graft_model_sigma_table(m, &table);
        CHECK_OK(graft_guided_create(&k, &g, &e), &e);
        graft_denoiser d = graft_guided_denoiser(g);
        noise_of(&c, x);
        for (size_t i = 0; i < sizeof sigma / sizeof *sigma; i++) {
            CHECK_OK(try_denoise_at(&c, x, sigma[i], want, &e), &e);
            CHECK_OK(d.denoise(d.ctx, x, sigma[i], out, &e), &e);
            CHECK(memcmp(out, want, call_values(&c) * sizeof *out) == 0);
        }
        graft_guided_destroy(g);
        graft_cond_release(positive);
        graft_cond_release(negative);
        graft_model_release(m);
    }
}

/* Where memory has a limit there is none for this. */
static void nothing_beside_a_limit(void)
{
    graft_model *m = load_model(engine, SD1), *compiled[2] = {NULL};
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *positive = place_prompt(m, 1, TOKENS), *negative = place_prompt(m, 2, TOKENS);
    static float x[MOST], out[2][MOST];
    one_call c = {m, positive, negative, 4.0, {1, 4, 8, 8}, NULL, NULL, 3};
    noise_of(&c, x);
    graft_arenas_trim(engine->kept);
    for (int i = 0; i < 2; i++) {
        const graft_compile_options o = {.max_memory_mb = i ? 0 : 4096};
        CHECK_OK(graft_model_compile(m, &o, NULL, &compiled[i], &e), &e);
        c.model = compiled[i];
        CHECK_OK(try_denoise(&c, x, out[i], &e), &e);
        CHECK((graft_arenas_bytes(engine->kept) > 0) == i);
    }
    CHECK(memcmp(out[0], out[1], call_values(&c) * sizeof **out) == 0);
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_model_release(compiled[0]);
    graft_model_release(compiled[1]);
    graft_model_release(m);
}

static graft_status half_free(graft_device *d, graft_device_info *out)
{
    (void)d;
    out->memory_total = (uint64_t)1 << 30;
    out->memory_free = (uint64_t)1 << 28;
    return GRAFT_OK;
}

/* What pictures that prompts show leave may be gigabytes. */
static void not_more_than_there_is(void)
{
    const graft_kernels_api says = {.info = half_free};
    graft_backend b = {.api = &says, .info = {.memory_total = (uint64_t)1 << 30}};
    const uint64_t mib = 1 << 20;
    b.info.host_memory = true;
    CHECK(graft_engine_may_keep(&b, 128 * mib) && !graft_engine_may_keep(&b, 128 * mib + 1));
    b.info.host_memory = false;
    CHECK(graft_engine_may_keep(&b, 128 * mib) && !graft_engine_may_keep(&b, 128 * mib + 1));
    b.info.memory_total = (uint64_t)1 << 32; /* then what is free counts */
    CHECK(graft_engine_may_keep(&b, 128 * mib) && !graft_engine_may_keep(&b, 128 * mib + 1));
    b.info.memory_total = 100 * mib;
    CHECK(graft_engine_may_keep(&b, 64 * mib) && !graft_engine_may_keep(&b, 64 * mib + 1));
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    RUN(not_more_than_there_is);
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) continue;
        RUN(the_prompt_is_read_once);
        RUN(a_first_run_that_is_cancelled);
        RUN(prompts_that_come_and_go);
        RUN(nothing_beside_a_limit);
        graft_engine_destroy(engine);
    }
    return test_end();
}
