/* Weights that a device has no room for (engine/exec/offload.h) on the fake driver, beside others:
 * packs that nobody uses, other programs, further graphs of the same run, ControlNets, other
 * threads; and what is left where something fails. */
#include <pthread.h>

#include "base/alloc.h"
#include "engine/quant/replay.h"
#include "tests/cuda/offload.h"
#include "tests/engine/control.h"

static char other[256]; /* a file: SD1 with other weights */

/* Packs that nobody uses make room for the window, too, also where nothing is missing. */
static void unused_make_room(void)
{
    const whole w = without_limit(SD1, "bf16");
    for (int i = 0; i < MANY; i++) {
        const uint64_t limit = limit_of(&w, i, MANY);
        graft_engine *g = limited("bf16", w.arena + w.weights);
        graft_model *unused = load_model(g, other), *m = load_model(g, SD1);
        float out[OUT];
        run_model(unused, out);
        g->max_bytes = limit;
        for (int turn = 0; turn < 2; turn++) {
            run_model(m, out);
            CHECK(same_bits(out, w.out));
            CHECK(held(g) <= limit);
        }
        CHECK(held_away(g) > 0);
        graft_model_release(unused);
        graft_model_release(m);
        graft_engine_destroy(g);
    }
}

/* Sets take turns between the device and the host, as one or the other is used first. */
static void resident_and_away(void)
{
    const whole w = without_limit(SD1, "bf16"), o = without_limit(other, "bf16");
    graft_engine *g = limited("bf16", w.arena + w.weights + w.weights * 4 / 5);
    graft_model *m = load_model(g, SD1), *n = swap_weights(m, other, true);
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    for (int turn = 0; turn < (SANITIZED ? 2 : 3); turn++) {
        graft_binding *a = NULL, *b = NULL;
        const bool swapped = turn & 1;
        CHECK_OK(graft_model_bind(swapped ? n : m, 1, SIDE, SIDE, TOKENS, NULL, &a, &e), &e);
        CHECK_OK(graft_model_bind(swapped ? m : n, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
        CHECK(a && !a->offload && b && b->offload);
        for (int i = 0; i < 3; i++) {
            one_run(a, g, out, NULL);
            CHECK(same_bits(out, swapped ? o.out : w.out));
            one_run(b, g, out, NULL);
            CHECK(same_bits(out, swapped ? w.out : o.out));
            CHECK(held(g) <= g->max_bytes);
        }
        graft_binding_release(a);
        graft_binding_release(b);
        for (int i = 0; i < 4; i++) {
            run_model(i & 1 ? n : m, out);
            CHECK(same_bits(out, i & 1 ? o.out : w.out));
            CHECK(held(g) <= g->max_bytes);
        }
    }
    graft_model_release(m);
    graft_model_release(n);
    graft_packs_trim(g->packs, 0);
    graft_packs_trim(g->offloaded, 0);
    CHECK_INT(packs_of(g).bytes, 0);
    CHECK_INT(held_away(g), 0);
    graft_engine_destroy(g);
}

/* Two bindings of the same packs and another window have other recordings. */
static void other_windows(void)
{
    const whole w = without_limit(SD1, "bf16");
    graft_engine *g = limited("bf16", w.least);
    graft_model *m = load_model(g, SD1);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    graft_offload *all = NULL;
    graft_offload_found *found = calloc(b->exe->n_uses, sizeof *found);
    for (size_t i = 0; i < b->exe->n_uses; i++)
        found[i] = b->offload->away[i] ? GRAFT_OFFLOAD_ON_HOST : GRAFT_OFFLOAD_ON_DEVICE;
    /* As much as is away now, and a window of two. */
    const uint64_t window = b->offload->window;
    CHECK_OK(graft_offload_choose(b->exe, b->exe->weight_bytes - b->offload->bytes + 2 * window,
                                  true, found, &all, &e),
             &e);
    CHECK(all && all->window == 2 * window);
    CHECK(memcmp(all->all.place, b->offload->all.place, b->exe->n_uses * sizeof(int64_t)) != 0);
    graft_offload_free(all);
    free(found);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ several graphs of a run */

/* With this limit, 0: without, into `out`. */
typedef size_t run_with(graft_engine *g, float *out);

static graft_cond *left_half(const graft_cond *c)
{
    static const graft_area half = {0, 0, 0.5, 1, true};
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_area(c, &half, 0.8, &out, &e), &e);
    return out;
}

/* A small graph for the half first, then a large one. */
static size_t halves(graft_engine *g, float *out)
{
    graft_model *m = load_model(g, SD1);
    graft_cond *a = words(m, WORDS), *half = left_half(a), *both = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_combine(half, a, &both, &e), &e);
    const job j = job_of(m, both, a, "euler", 2);
    const size_t n = sample(&j, NULL, false, out);
    graft_cond_release(both);
    graft_cond_release(half);
    graft_cond_release(a);
    graft_model_release(m);
    return n;
}

static size_t steered(graft_engine *g, float *out, double start, double end)
{
    graft_model *m = load_model(g, SD1);
    random_state = 1; /* it makes a ControlNet up */
    steered_prompts s = steered_by(m, words(m, WORDS), words(m, WORDS), PLACE, start, end);
    const job j = job_of(m, s.with_p, s.with_n, "euler", 3);
    const size_t n = sample(&j, NULL, false, out);
    steered_release(&s);
    graft_model_release(m);
    return n;
}

static size_t steered_all(graft_engine *g, float *out)
{
    return steered(g, out, 0, 1);
}

/* The network has all memory when the ControlNet begins. */
static size_t steered_late(graft_engine *g, float *out)
{
    return steered(g, out, 0.5, 1);
}

/* From `least` on, which is that of the network and more: a multiple of it by `tenths`. */
static void within_limits(run_with *run, int tenths)
{
    const whole w = without_limit(SD1, "bf16");
    const uint64_t least = w.least * (uint64_t)tenths / 10;
    float want[MOST], out[MOST];
    size_t n = 0;
    for (int i = 0; i <= MANY; i++) {
        graft_engine *g = limited("bf16", i ? least + w.weights * (uint64_t)(i - 1) / 4 : 0);
        n = run(g, i ? out : want);
        CHECK(!i || held(g) <= g->max_bytes);
        CHECK(!i || memcmp(want, out, n * sizeof *out) == 0);
        CHECK(i != 1 || held_away(g) > 0);
        graft_engine_destroy(g);
    }
}

static void several_graphs(void)
{
    within_limits(halves, 12);
    within_limits(steered_all, 20);
    within_limits(steered_late, 20);
}

/* ------------------------------------------------------------------ threads */

typedef struct runner {
    graft_engine *g;
    graft_binding *b;
    const float *want;
    int wrong;
} runner;

static void *run_often(void *arg)
{
    runner *r = arg;
    float out[OUT];
    for (int i = 0; i < 4; i++)
        if (run_as(r->b, r->g, out, NULL, NULL) || !same_bits(out, r->want)) r->wrong++;
    return NULL;
}

/* Two runs of one binding, and one of another that is on the device. */
static void at_the_same_time(void)
{
    const whole w = without_limit(SD1, "bf16"), o = without_limit(other, "bf16");
    for (int i = 0; i < 4; i++) {
        fake->lazy = i & 1;
        fake->eager = i;
        graft_engine *g = limited("bf16", w.least + w.weights / 8);
        graft_model *m = load_model(g, SD1), *n = load_model(g, other);
        graft_binding *b[2] = {NULL, NULL};
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b[0], &e), &e);
        g->max_bytes = 3 * w.weights;
        CHECK_OK(graft_model_bind(n, 1, SIDE, SIDE, TOKENS, NULL, &b[1], &e), &e);
        CHECK(b[0] && b[0]->offload && b[1] && !b[1]->offload);
        runner r[3] = {{g, b[0], w.out, 0}, {g, b[0], w.out, 0}, {g, b[1], o.out, 0}};
        pthread_t t[3];
        for (int k = 0; k < 3; k++) CHECK_INT(pthread_create(&t[k], NULL, run_often, &r[k]), 0);
        for (int k = 0; k < 3; k++) pthread_join(t[k], NULL);
        for (int k = 0; k < 3; k++) CHECK_INT(r[k].wrong, 0);
        graft_binding_release(b[0]);
        graft_binding_release(b[1]);
        graft_model_release(m);
        graft_model_release(n);
        graft_engine_destroy(g);
    }
    fake->lazy = 1;
    fake->eager = 0;
}

/* ------------------------------------------------------------------ what fails */

/* The device is lost while weights come, or a recording is refused. */
static void device_fails(void)
{
    const whole w = without_limit(SD1, "bf16");
    graft_err e = GRAFT_ERR_INIT;
    float out[OUT];
    for (int at = 2; at < 12; at += SANITIZED ? 9 : 3) {
        graft_engine *g = limited("bf16", w.least);
        graft_model *m = load_model(g, SD1);
        graft_binding *b = NULL;
        CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
        fake->fail_launch = at;
        CHECK_INT(run_as(b, g, out, NULL, NULL), GRAFT_E_DEVICE);
        fake->fail_launch = 0;
        CHECK_INT(run_as(b, g, out, NULL, NULL), GRAFT_E_DEVICE);
        graft_binding_release(b);
        graft_model_release(m);
        graft_engine_destroy(g);
    }
    for (int at = 1; at < 60; at += SANITIZED ? 50 : 13) {
        graft_engine *g = limited("bf16", w.least);
        graft_model *m = load_model(g, SD1);
        for (int i = 0; i < 3; i++) {
            fake->fail_record = i == 1 ? at : 0;
            run_model(m, out);
            CHECK(same_bits(out, w.out));
        }
        fake->fail_record = 0;
        graft_model_release(m);
        graft_engine_destroy(g);
    }
}

/* Memory of the host ends, or that of the device: the run says so or is as ever, and so is the next
 * one. */
static void memory_fails(void)
{
    const whole w = without_limit(SD1, "bf16");
    graft_engine *g = limited("bf16", w.least + w.weights / 8);
    graft_model *m = load_model(g, SD1);
    graft_err e = GRAFT_ERR_INIT;
    const int64_t device = fake->memory;
    float out[OUT];
    int came = 0, well = 0;
    run_model(m, out);
    for (int at = 1; at < 4000; at += at < 30 ? 1 + SANITIZED * 2 : 61 * (1 + SANITIZED * 5)) {
        graft_engine_release_unused(g);
        graft_alloc_fail_at(at);
        const graft_status st = try_model(m, out, &e);
        const bool now = graft_alloc_fail_at(0) == 0;
        CHECK(st == GRAFT_OK || (now && st == GRAFT_E_NOMEM));
        CHECK(st || same_bits(out, w.out));
        came += now;
        if (!now) break;
    }
    CHECK(came > 8);
    for (int part = 0; part < 12; part += 1 + SANITIZED * 4) {
        graft_engine_release_unused(g);
        fake->memory = fake->live_bytes + (int64_t)(w.arena + w.weights) * part / 8;
        const graft_status st = try_model(m, out, &e);
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
        CHECK(st || same_bits(out, w.out));
        well += st == GRAFT_OK;
        fake->memory = device;
        run_model(m, out);
        CHECK(same_bits(out, w.out));
    }
    CHECK(well > 0);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Without a limit: other programs take what the device had, whatever is there unused. What packing
 * takes for itself needs some of the rest. */
static void other_programs(void)
{
    const whole w = without_limit(SD1, "bf16"), o = without_limit(other, "bf16");
    const int64_t device = fake->memory;
    for (int part = 0; part <= 10; part += 1 + SANITIZED * 4) {
        graft_engine *g = engine_in("cuda", "bf16");
        graft_model *m = load_model(g, SD1), *n = load_model(g, other);
        graft_err e = GRAFT_ERR_INIT;
        float out[OUT];
        run_model(m, out);
        fake->memory = fake->live_bytes + (int64_t)(w.weights / 10) * part;
        graft_status st = try_model(n, out, &e);
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && part < 2));
        CHECK(st || same_bits(out, o.out));
        st = try_model(m, out, &e);
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && part < 2));
        CHECK(st || same_bits(out, w.out));
        fake->memory = device;
        run_model(n, out);
        CHECK(same_bits(out, o.out));
        graft_model_release(m);
        graft_model_release(n);
        graft_engine_destroy(g);
    }
}

/* Unused weights do not keep activations from having memory. */
static void unused_and_an_arena(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD1), *n = load_model(g, other);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const int64_t device = fake->memory;
    float want[OUT], out[OUT];
    run_model(m, want);
    run_model(n, out);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    graft_arenas_trim(g->arenas);
    fake->memory = fake->live_bytes;
    one_run(b, g, out, NULL);
    CHECK(same_bits(out, want));
    fake->memory = device;
    graft_binding_release(b);
    graft_model_release(m);
    graft_model_release(n);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ calibration */

/* The values of all operators, run one by one. */
static double replayed(uint64_t limit, double *squares, size_t most)
{
    graft_engine *g = limited("bf16", limit);
    graft_model *m = load_model(g, SD1), *q = quantized(m, GRAFT_QUANT_INT8);
    graft_binding *b = NULL, *twin = NULL;
    graft_replay *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float x[OUT], t = 500, context[TOKENS * 48];
    double sum = 0;
    for (int i = 0; i < OUT; i++) x[i] = fixed_value((uint64_t)i);
    for (int i = 0; i < TOKENS * 48; i++) context[i] = fixed_value((uint64_t)(OUT + i));
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    CHECK((b->offload != NULL) == (limit > 0));
    g->max_bytes = 0;
    CHECK_OK(graft_model_bind(q, 1, SIDE, SIDE, TOKENS, NULL, &twin, &e), &e);
    CHECK_OK(graft_replay_create(b, twin, &r, &e), &e);
    CHECK_OK(graft_replay_run(r, (const void *[]){x, &t, context, NULL}, NULL, &e), &e);
    for (size_t i = 0; i < b->exe->graph->n_nodes; i++) {
        CHECK(i < most);
        CHECK_OK(graft_replay_square(r, i, 0, 0, &squares[i], &e), &e);
        sum += squares[i];
    }
    graft_replay_destroy(r);
    graft_binding_release(twin);
    graft_binding_release(b);
    graft_model_release(q);
    graft_model_release(m);
    graft_engine_destroy(g);
    return sum;
}

/* Only copies read memory of the host: no kernel does. */
static void calibration(void)
{
    enum { NODES = 1024 };
    static double want[NODES], got[NODES];
    const whole w = without_limit(SD1, "bf16");
    fake->hide_pinned = 1;
    CHECK(replayed(0, want, NODES) > 0);
    replayed(w.least, got, NODES);
    CHECK(memcmp(want, got, sizeof want) == 0);
    graft_engine *g = limited("bf16", w.least);
    graft_model *m = load_model(g, SD1);
    float out[OUT];
    run_model(m, out);
    CHECK(same_bits(out, w.out));
    graft_model_release(m);
    graft_engine_destroy(g);
    fake->hide_pinned = 0;
}

int main(void)
{
    if (!open_fake_without_wgmma()) return test_end();
    snprintf(other, sizeof other, "%s", temp_path("offload-beside.safetensors"));
    write_changed(other);
    RUN(unused_make_room);
    RUN(resident_and_away);
    RUN(other_windows);
    RUN(several_graphs);
    RUN(at_the_same_time);
    RUN(device_fails);
    RUN(memory_fails);
    RUN(other_programs);
    RUN(unused_and_an_arena);
    RUN(calibration);
    unlink(other);
    return close_fake();
}
