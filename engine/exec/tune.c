#include "engine/exec/tune.h"

#include "base/alloc.h"
#include "base/map.h"

struct graft_tuner {
    graft_map results; /* signature in hexadecimal -> variant + 1, as a pointer-sized number */
};

graft_status graft_tuner_create(graft_tuner **out, graft_err *e)
{
    *out = graft_calloc(1, sizeof **out);
    return *out ? GRAFT_OK : graft_fail_nomem(e, "tuner");
}

void graft_tuner_destroy(graft_tuner *t)
{
    if (!t) return;
    graft_map_finish(&t->results);
    graft_free(t);
}

uint64_t graft_tuner_count(graft_tuner *t)
{
    return t->results.count;
}

graft_status graft_tuner_choose(graft_tuner *t, const graft_graph *g, graft_backend *backend,
                                graft_tuning level, int64_t max_bytes, const graft_task *task,
                                int32_t *variant, graft_err *e)
{
    (void)t, (void)backend, (void)level, (void)max_bytes, (void)task, (void)e;
    for (size_t i = 0; i < g->n_nodes; i++) variant[i] = -1;
    return GRAFT_OK;
}
