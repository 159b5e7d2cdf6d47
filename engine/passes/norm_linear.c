/* A linear layer of 8 bits looks at all of a row before it quantizes it, as a norm before it does:
 * done at once, the normed rows are never in memory. */
#include "base/alloc.h"
#include "engine/passes/passes.h"
#include "kernels/quant.h"

typedef struct finder {
    graft_graph *g;
    int32_t *uses, *producer;
    graft_pass_takes takes;
    void *ctx;
    bool taken; /* some norm */
} finder;

static bool is_vector(const graft_graph *g, graft_vid v)
{
    if (v < 0) return false;
    const graft_gvalue *x = &g->value[v];
    return x->rank == 1 && (x->kind == GRAFT_VALUE_WEIGHT || x->kind == GRAFT_VALUE_CONST);
}

/* The norm whose result node i alone reads, as it is; -1: there is none. */
static int32_t norm_before(const finder *f, size_t i)
{
    const graft_graph *g = f->g;
    graft_vid x = g->node[i].in[GRAFT_LINEAR_X];
    if (graft_graph_is_view(g, x) || f->producer[x] < 0 || f->uses[x] != 1) return -1;
    const graft_gnode *norm = &g->node[f->producer[x]];
    bool fits = norm->op == GRAFT_OP_LAYER_NORM && is_vector(g, norm->in[GRAFT_NORM_GAMMA]) &&
                is_vector(g, norm->in[GRAFT_NORM_BETA]) &&
                g->value[norm->in[GRAFT_NORM_X]].dtype == g->value[x].dtype;
    return fits ? f->producer[x] : -1;
}

static void take_norm(finder *f, size_t i)
{
    graft_graph *g = f->g;
    graft_op_desc d;
    const graft_gnode before = g->node[i];
    bool may = before.op == GRAFT_OP_LINEAR && graft_quant_is_8(before.attrs.quant) &&
               before.in[GRAFT_LINEAR_GAMMA] < 0;
    int32_t p = may ? norm_before(f, i) : -1;
    if (p < 0) return;
    const graft_gnode norm = g->node[p];
    g->node[i].in[GRAFT_LINEAR_X] = norm.in[GRAFT_NORM_X];
    g->node[i].in[GRAFT_LINEAR_GAMMA] = norm.in[GRAFT_NORM_GAMMA];
    g->node[i].in[GRAFT_LINEAR_BETA] = norm.in[GRAFT_NORM_BETA];
    g->node[i].attrs.eps = norm.attrs.eps;
    graft_graph_desc(g, i, &d);
    if (!f->takes(f->ctx, &d)) {
        g->node[i] = before;
        return;
    }
    graft_pass_remove_node(g, (size_t)p);
    f->taken = true;
}

graft_status graft_pass_norm_linear(graft_graph *g, graft_pass_takes takes, void *ctx, graft_err *e)
{
    finder f = {g, graft_pass_count_uses(g), graft_pass_producers(g), takes, ctx, false};
    bool ok = f.uses && f.producer;
    for (size_t i = 0; i < g->n_nodes && ok; i++) take_norm(&f, i);
    graft_free(f.uses);
    graft_free(f.producer);
    if (!ok) return graft_fail_nomem(e, "fusion");
    if (!f.taken) return GRAFT_OK;
    graft_status st = graft_pass_clean(g, e);
    return st ? st : graft_graph_verify(g, e);
}
