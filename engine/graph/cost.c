#include "engine/graph/cost.h"

double graft_cost_flops(const graft_graph *g, size_t i)
{
    const graft_gnode *n = &g->node[i];
    const graft_gvalue *out = &g->value[n->out], *x = &g->value[n->in[0]];
    if (n->op == GRAFT_OP_CONV2D) {
        const graft_gvalue *w = &g->value[n->in[GRAFT_CONV_W]];
        return 2.0 * (double)graft_gvalue_count(out) * (double)(w->dim[1] * w->dim[2] * w->dim[3]);
    }
    if (n->op == GRAFT_OP_LINEAR) {
        const graft_gvalue *w = &g->value[n->in[GRAFT_LINEAR_W]];
        double rows = (double)graft_gvalue_count(x) / (double)x->dim[x->rank - 1];
        return 2.0 * rows * (double)w->dim[0] * (double)w->dim[1];
    }
    if (n->op == GRAFT_OP_ATTENTION) {
        const graft_gvalue *k = &g->value[n->in[GRAFT_ATTENTION_K]];
        return 4.0 * (double)graft_gvalue_count(x) * (double)k->dim[1];
    }
    return 0;
}

double graft_cost_bytes(const graft_graph *g, size_t i)
{
    const graft_gnode *n = &g->node[i];
    double size = graft_dtype_size(g->value[n->out].dtype);
    double bytes = size * (double)graft_gvalue_count(&g->value[n->out]);
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
        if (n->in[k] >= 0) bytes += size * (double)graft_gvalue_count(&g->value[n->in[k]]);
    return bytes;
}
