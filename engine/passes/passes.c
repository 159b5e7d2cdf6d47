#include "engine/passes/passes.h"

#include <assert.h>

#include "base/alloc.h"

graft_status graft_passes_run(graft_graph *g, graft_err *e)
{
    static const struct {
        const char *name;
        graft_status (*run)(graft_graph *, graft_err *);
    } passes[] = {
#define GRAFT_PASS(name, what) {#name, graft_pass_##name},
#include "engine/passes/passes.def"
#undef GRAFT_PASS
    };
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        graft_status st = passes[i].run(g, e);
        if (st) return graft_err_prefix(e, st, "pass %s", passes[i].name);
    }
    return graft_graph_verify(g, e);
}

int32_t *graft_pass_count_uses(const graft_graph *g)
{
    int32_t *uses = graft_calloc(g->n_values, sizeof *uses);
    if (!uses) return NULL;
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (graft_pass_removed(&g->node[i])) continue;
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
            if (g->node[i].in[k] >= 0) uses[g->value[g->node[i].in[k]].root]++;
    }
    for (size_t i = 0; i < g->n_outputs; i++) uses[g->value[g->output[i]].root]++;
    return uses;
}

int32_t *graft_pass_producers(const graft_graph *g)
{
    int32_t *producer = graft_malloc_array(g->n_values, sizeof *producer);
    if (!producer) return NULL;
    for (size_t i = 0; i < g->n_values; i++) producer[i] = -1;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!graft_pass_removed(&g->node[i])) producer[g->node[i].out] = (int32_t)i;
    return producer;
}

static bool same_shape(const graft_gvalue *a, const graft_gvalue *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i] && a->stride[i] == b->stride[i];
    return same;
}

void graft_pass_replace(graft_graph *g, graft_vid from, graft_vid to)
{
    graft_gvalue *t = &g->value[to];
    assert(graft_gvalue_dense(t) && graft_gvalue_count(t) == graft_gvalue_count(&g->value[from]));
    for (size_t i = 0; i < g->n_values; i++) {
        graft_gvalue *v = &g->value[i];
        if ((graft_vid)i == to || v->root != from) continue;
        v->root = t->root;
        v->offset += t->offset;
        v->kind = t->kind;
        v->index = t->index;
    }
    if (!same_shape(&g->value[from], t)) return;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
            if (g->node[i].in[k] == from) g->node[i].in[k] = to;
    for (size_t i = 0; i < g->n_outputs; i++)
        if (g->output[i] == from) g->output[i] = to;
}

void graft_pass_remove_node(graft_graph *g, size_t i)
{
    g->node[i].op = 0;
    g->node[i].out = GRAFT_NO_VALUE;
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++) g->node[i].in[k] = GRAFT_NO_VALUE;
}
