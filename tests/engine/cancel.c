/* A run that nobody wants any more ends within an operator, too, where the library asks, and leaves
 * nothing of it behind: the next run has the bits of the first. */
#include <math.h>

#include "tests/engine/fixture.h"

enum { LARGE = 64, SMALL = 16, VALUES = 4 * LARGE * LARGE };

static int asked, until;

static bool ask(void *ctx)
{
    (void)ctx;
    return ++asked > until;
}

static graft_status run_at(const graft_binding *b, graft_engine *g, float *out, graft_err *e)
{
    const graft_task task = {.cancelled = ask};
    static float x[VALUES], context[TOKENS * 64];
    const float t = 500;
    for (size_t i = 0; i < VALUES; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < TOKENS * 64; i++) context[i] = fixed_value(VALUES + i);
    memset(out, 0, VALUES * sizeof *out);
    asked = 0;
    return graft_exe_run(b, g->arenas, (const void *[]){x, &t, context}, (void *[]){out}, &task,
                         NULL, e);
}

static void within_an_operator(const char *backend, int side, bool asks)
{
    graft_engine *g = make_engine(backend);
    graft_model *m = load_model(g, SD1);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    static float want[VALUES], got[VALUES];
    CHECK(m->arch.context_dim <= 64);
    CHECK_OK(graft_model_bind(m, 1, side, side, TOKENS, NULL, &b, &e), &e);
    int nodes = (int)b->exe->graph->n_nodes;
    until = 1 << 30;
    CHECK_OK(run_at(b, g, want, &e), &e);
    /* One question before each, and one before all. */
    CHECK(asks ? asked > nodes + 10 : asked == nodes + 1);
    int all = asked;
    for (int part = 0; part < 12; part++) {
        until = part * all / 12;
        graft_status st = run_at(b, g, got, &e);
        CHECK_INT(st, GRAFT_E_CANCEL);
        CHECK_STR(e.text, "cancelled");
        CHECK_INT(asked, until + 1);
    }
    until = 1 << 30;
    CHECK_OK(run_at(b, g, got, &e), &e);
    CHECK(memcmp(want, got, sizeof want) == 0);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void of_the_cpu(void)
{
    within_an_operator("cpu", LARGE, true);
}

static void of_the_reference(void)
{
    within_an_operator("ref", SMALL, false);
}

int main(void)
{
    RUN(of_the_cpu);
    RUN(of_the_reference);
    return test_end();
}
