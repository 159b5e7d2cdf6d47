/* Weights that a device has no room for (engine/exec/offload.h) on the fake driver: whatever the
 * limit, results have the bits that they have without one, and no more memory is taken. Copies
 * beside the launches are done as late as they must be, and as early as they may. */
#include "engine/exec/invariants.h"
#include "tests/cuda/offload.h"
#include "tests/engine/control.h"

static void within(const char *path, const char *precision, uint64_t limit, const whole *w)
{
    graft_engine *g = limited(precision, limit);
    graft_model *m = load_model(g, path);
    float out[OUT];
    fake->upload_bytes = 0;
    graft_binding *b = record_and_repeat(g, m, out);
    CHECK(same_bits(out, w->out));
    CHECK(b->offload && b->offload->bytes >= w->arena + w->weights - limit);
    CHECK(held(g) <= limit);
    CHECK(fake->upload_bytes > w->weights + 2 * b->offload->bytes); /* run, and recorded */
    graft_packs_stats away;
    graft_packs_stats_get(g->offloaded, &away);
    CHECK_INT(away.used_bytes, b->offload->bytes);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void any_limit(const char *path, const char *precision)
{
    const whole w = without_limit(path, precision);
    const uint64_t all = w.arena + w.weights;
    printf("     %s, %s: %llu KiB, %llu at least\n", strrchr(path, '/') + 1, precision,
           (unsigned long long)all >> 10, (unsigned long long)w.least >> 10);
    CHECK(w.least < all);
    for (int i = 0; i <= MANY; i++) {
        fake->eager = i & 1;
        within(path, precision, w.least + (all - 1 - w.least) * (uint64_t)i / MANY, &w);
    }
    fake->eager = 0;
}

static void too_low(const char *path)
{
    const whole w = without_limit(path, "bf16");
    graft_engine *g = limited("bf16", w.least - 1);
    graft_model *m = load_model(g, path);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK(strstr(e.text, "the smallest GRAFT_MEMORY_MB that would do is ") != NULL);
    g->max_bytes = w.arena + w.weights - 1;
    g->offload = false;
    CHECK_INT(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), GRAFT_E_LIMIT);
    /* max_memory_mb counts whole MiB. */
    const int64_t mib = (int64_t)((w.arena + w.weights) >> 20);
    CHECK((uint64_t)mib << 20 > w.least);
    g->max_bytes = 0;
    m->options.max_bytes = mib << 20;
    CHECK_INT(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), GRAFT_E_LIMIT);
    g->offload = true;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    CHECK(b->offload && held(g) <= (uint64_t)mib << 20);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* The device itself has too little. */
static void small_device(const char *path)
{
    const whole w = without_limit(path, "bf16");
    const int64_t before = fake->memory;
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, path);
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    CHECK_OK(graft_engine_describe(g, "cuda", NULL, &e), &e);
    fake->memory = fake->live_bytes + (int64_t)(w.arena + w.weights - (w.weights - w.least) / 4);
    /* What the device had when it was opened is what a part of it is spared of. */
    g->backends.list[0].info.memory_total = (uint64_t)fake->memory;
    graft_binding *b = record_and_repeat(g, m, out);
    CHECK(b->offload && same_bits(out, w.out));
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    fake->memory = before;
}

/* In a series only its first run brings what is computed once: SDXL's embedding of sizes. */
static void series_run(graft_binding *b, const graft_engine *g, graft_invariants *series,
                       float out[OUT])
{
    static float x[OUT], context[TOKENS * 64], y[48], t = 500;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < OUT; i++) x[i] = fixed_value((uint64_t)i);
    for (int i = 0; i < TOKENS * 64; i++) context[i] = fixed_value((uint64_t)(OUT + i));
    for (int i = 0; i < 48; i++) y[i] = fixed_value((uint64_t)(2 * OUT + i));
    CHECK_OK(graft_exe_run_again(b, g->arenas, series, (const void *[]){x, &t, context, y},
                                 (void *[]){out}, NULL, &e),
             &e);
}

static void a_series_within(uint64_t limit, const float want[OUT])
{
    graft_engine *g = limited("f32", limit);
    graft_model *m = load_model(g, SDXL);
    graft_binding *b = NULL;
    graft_invariants *series = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    uint64_t bytes[4];
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    CHECK_OK(graft_invariants_create(b->exe, g->kept, &series, &e), &e);
    for (int i = 0; i < 4; i++) {
        fake->upload_bytes = 0;
        series_run(b, g, series, out);
        CHECK(same_bits(out, want));
        bytes[i] = fake->upload_bytes;
    }
    const graft_offload *o = b->offload;
    CHECK(o && o->later.n < o->all.n);
    CHECK(bytes[1] < bytes[0] && bytes[3] < bytes[1]); /* the last one is a recording */
    graft_invariants_destroy(series);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void a_series(void)
{
    graft_engine *g = engine_in("cuda", "f32");
    graft_model *m = load_model(g, SDXL);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float want[OUT];
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    CHECK_INT(b->exe->graph->n_inputs, 4);
    const uint64_t arena = (uint64_t)b->exe->arena_bytes, all = arena + b->exe->weight_bytes;
    const uint64_t least = arena + graft_offload_least(b->exe);
    series_run(b, g, NULL, want);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    for (int i = 0; i < 4; i++) {
        fake->eager = i & 1;
        a_series_within(i < 2 ? least : all - 1, want);
    }
    fake->eager = 0;
}

static bool stop_now(void *ctx)
{
    return --*(int *)ctx < 0;
}

/* What was under way when a run ended early does not come into the next one's memory: that of a
 * larger picture, which has the window's place for activations. */
static void cancelled(void)
{
    const whole w = without_limit(SD1, "bf16");
    graft_engine *g = limited("bf16", w.least);
    graft_model *m = load_model(g, SD1);
    graft_binding *b = NULL, *large = NULL;
    graft_err e = GRAFT_ERR_INIT;
    static float x[4 * OUT], t = 500, context[TOKENS * 48], want[4 * OUT], out[4 * OUT];
    for (int i = 0; i < 4 * OUT; i++) x[i] = fixed_value((uint64_t)i);
    const void *in[] = {x, &t, context, NULL};
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    g->max_bytes = 0;
    CHECK_OK(graft_model_bind(m, 1, 2 * SIDE, 2 * SIDE, TOKENS, NULL, &large, &e), &e);
    CHECK(b->offload && large->exe->arena_bytes >= graft_binding_arena(b));
    CHECK_OK(graft_exe_run(large, g->arenas, in, (void *[]){want}, NULL, NULL, &e), &e);
    fake->eager = 2;
    for (int after = 2; after < 60; after += SANITIZED ? 19 : 5) {
        int left = after;
        const graft_task task = {.ctx = &left, .cancelled = stop_now};
        graft_exe_profile none = {.n = 0}; /* no recording, which would run to its end */
        CHECK_INT(run_as(b, g, out, &task, &none), GRAFT_E_CANCEL);
        CHECK_OK(graft_exe_run(large, g->arenas, in, (void *[]){out}, NULL, NULL, &e), &e);
        CHECK(memcmp(out, want, sizeof out) == 0);
        one_run(b, g, out, NULL);
        CHECK(same_bits(out, w.out));
    }
    fake->eager = 0;
    graft_binding_release(large);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Other weights take the places of those that go, on the device and beside it. */
static void swapped(void)
{
    const char *path = temp_path("offload.safetensors");
    write_changed(path);
    const whole one = without_limit(SD1, "bf16"), other = without_limit(path, "bf16");
    graft_engine *g = limited("bf16", (one.least + one.arena + one.weights) / 2);
    graft_model *m = load_model(g, SD1);
    float out[OUT];
    run_model(m, out);
    CHECK(same_bits(out, one.out));
    const int64_t objects = fake->live_objects;
    for (int turn = 0; turn < 4; turn++) {
        graft_model *next = swap_weights(m, turn & 1 ? SD1 : path, false);
        graft_model_release(m);
        m = next;
        run_model(m, out);
        CHECK(same_bits(out, turn & 1 ? one.out : other.out));
        CHECK(held(g) <= g->max_bytes);
        CHECK(fake->live_objects <= objects + 4); /* recordings */
    }
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

/* Two graphs of one model at a time. */
static void with_a_second_graph(void)
{
    const whole w = without_limit(SD1, "bf16");
    float want[MOST], out[MOST];
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        graft_engine *g = limited("bf16", i ? w.least + (w.weights - w.least) / 2 : 0);
        graft_model *m = load_model(g, SD1), *cached = with_deepcache(m, 2, -1, 0);
        graft_cond *c = words(m, WORDS), *d = words(m, WORDS + 1);
        const job j = job_of(cached, c, d, "euler", 4);
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(try_both(&j, NULL, false, i ? out : want, NULL, &n, &e), &e);
        graft_packs_stats away;
        graft_packs_stats_get(g->offloaded, &away);
        CHECK(i ? away.made > 0 : away.made == 0);
        if (i) CHECK(held(g) <= g->max_bytes);
        graft_cond_release(c);
        graft_cond_release(d);
        graft_model_release(cached);
        graft_model_release(m);
        graft_engine_destroy(g);
    }
    CHECK(memcmp(want, out, n * sizeof *out) == 0);
}

/* A ControlNet's weights are there beside the network's, which make room for them. */
static void with_a_controlnet(void)
{
    const whole w = without_limit(SD1, "bf16");
    float want[MOST], out[MOST];
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        graft_engine *g = limited("bf16", i ? w.arena + w.weights : 0);
        graft_model *m = load_model(g, SD1);
        random_state = 1; /* it makes a ControlNet up */
        steered_prompts s = steered_by(m, words(m, WORDS), words(m, WORDS), PLACE, 0.0, 1.0);
        const job j = job_of(m, s.with_p, s.with_n, "euler", 3);
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(try_both(&j, NULL, false, i ? out : want, NULL, &n, &e), &e);
        graft_packs_stats away;
        graft_packs_stats_get(g->offloaded, &away);
        CHECK(i ? away.made > 0 : away.made == 0);
        if (i) CHECK(held(g) <= g->max_bytes);
        steered_release(&s);
        graft_model_release(m);
        graft_engine_destroy(g);
    }
    CHECK(memcmp(want, out, n * sizeof *out) == 0);
}

static void keep_pinned(void *ctx, int32_t level, const char *text)
{
    (void)level;
    if (strstr(text, "pinned memory")) ++*(int *)ctx;
}

/* Memory of the host that the device reads by itself is short: the rest lies in ordinary memory,
 * which a line of the log says, and results are the same. */
static void pinned_memory_ends(const whole *w, int after)
{
    graft_engine *g = limited("bf16", w->least);
    graft_model *m = load_model(g, SD1);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    int lines = 0;
    const graft_task task = {.log = {&lines, keep_pinned}};
    CHECK_OK(graft_engine_describe(g, "cuda", NULL, &e), &e);
    fake->fail_pinned = after;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, &task, &b, &e), &e);
    fake->fail_pinned = 0;
    const uint64_t captures = fake->captures;
    CHECK(b->offload->ordinary > 0);
    CHECK((b->offload->ordinary == b->offload->bytes) == (after == 1));
    CHECK_INT(lines, 1);
    for (int i = 0; i < 3; i++) {
        one_run(b, g, out, NULL);
        CHECK(same_bits(out, w->out));
    }
    CHECK_INT(fake->captures, captures);
    graft_binding_release(b);
    graft_packs_trim(g->offloaded, 0); /* there is some again */
    b = record_and_repeat(g, m, out);
    CHECK(b->offload && !b->offload->ordinary && same_bits(out, w->out));
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* New weights take the places of those in ordinary memory, and all memory may be short. */
static void ordinary_memory(const whole *w)
{
    const char *path = temp_path("ordinary.safetensors");
    write_changed(path);
    const whole other = without_limit(path, "bf16");
    graft_engine *g = limited("bf16", w->least);
    graft_model *m = load_model(g, SD1);
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    CHECK_OK(graft_engine_describe(g, "cuda", NULL, &e), &e);
    fake->fail_pinned = 4;
    run_model(m, out);
    for (int turn = 0; turn < 2; turn++) {
        graft_model *next = swap_weights(m, turn ? SD1 : path, false);
        graft_model_release(m);
        m = next;
        run_model(m, out);
        CHECK(same_bits(out, turn ? w->out : other.out));
    }
    int came = 0;
    for (int at = 1; at < 200; at += SANITIZED ? 19 : 3) {
        graft_packs_trim(g->offloaded, 0);
        graft_alloc_fail_at(at);
        const graft_status st = try_model(m, out, &e);
        came += graft_alloc_fail_at(0) == 0;
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
        CHECK(st || same_bits(out, w->out));
    }
    CHECK(came > 1);
    fake->fail_pinned = 0;
    graft_model_release(m);
    graft_engine_destroy(g);
    unlink(path);
}

static void no_pinned_memory(void)
{
    const whole w = without_limit(SD1, "bf16");
    for (int i = 0; i < 3; i++) {
        fake->eager = i;
        for (int after = 1; after < 12; after += SANITIZED ? 10 : 5) pinned_memory_ends(&w, after);
    }
    fake->eager = 0;
    ordinary_memory(&w);
}

int main(void)
{
    if (!open_fake_without_wgmma()) return test_end();
    any_limit(SD1, "bf16");
    too_low(SD1);
    small_device(SD1);
    a_series();
    cancelled();
    swapped();
    with_a_second_graph();
    with_a_controlnet();
    no_pinned_memory();
    return close_fake();
}
