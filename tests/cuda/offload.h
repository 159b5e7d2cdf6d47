/* What the tests of weights that a device has no room for (engine/exec/offload.h) share. */
#ifndef GRAFT_TESTS_CUDA_OFFLOAD_H
#define GRAFT_TESTS_CUDA_OFFLOAD_H
#include "tests/cuda/both_ways.h"

/* What the network takes without a limit, what it must have, and what it gives. */
typedef struct whole {
    uint64_t arena, weights, least;
    float out[OUT];
} whole;

static inline whole without_limit(const char *path, const char *precision)
{
    whole w;
    graft_engine *g = engine_in("cuda", precision);
    graft_model *m = load_model(g, path);
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, TOKENS, NULL, &b, &e), &e);
    one_run(b, g, w.out, NULL);
    CHECK(!b->offload);
    w.arena = (uint64_t)b->exe->arena_bytes;
    w.weights = b->exe->weight_bytes;
    w.least = w.arena + graft_offload_least(b->exe);
    graft_binding_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
    return w;
}

static inline graft_engine *limited(const char *precision, uint64_t limit)
{
    graft_engine *g = engine_in("cuda", precision);
    g->max_bytes = limit;
    graft_packs_use_slabs(g->packs, false);
    return g;
}

static inline uint64_t held(const graft_engine *g)
{
    graft_packs_stats packs;
    graft_packs_stats_get(g->packs, &packs);
    return packs.bytes + graft_arenas_bytes(g->arenas);
}

/* Limit i of n: from the least that does to one byte less than all. */
static inline uint64_t limit_of(const whole *w, int i, int n)
{
    return w->least + (w->arena + w->weights - 1 - w->least) * (uint64_t)i / (uint64_t)(n - 1);
}

static inline uint64_t held_away(const graft_engine *g)
{
    graft_packs_stats away;
    graft_packs_stats_get(g->offloaded, &away);
    return away.bytes;
}
#endif
