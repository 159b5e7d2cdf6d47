/* Linear layers that read the same value and feed the same attention become one: q, k and v of a
 * self-attention, k and v of a cross-attention. Their results are then column slices of one output,
 * which attention reads with strides. */
#include <string.h>

#include "base/alloc.h"
#include "engine/passes/passes.h"

#define MERGE_MAX 8

/* The node that reads value v, if it is one attention which reads v itself and no view of it; else
 * -1. Layers of several attentions stay apart: all of them read the context, and graphs that hold
 * other selections of blocks would join, and pack, other matrices. */
static int64_t attention_of(const graft_graph *g, graft_vid v)
{
    int64_t reader = -1;
    for (size_t i = 0; i < g->n_outputs; i++)
        if (g->value[g->output[i]].root == v) return -1;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
            graft_vid in = g->node[i].in[k];
            if (in < 0 || g->value[in].root != v) continue;
            if (in != v || g->node[i].op != GRAFT_OP_ATTENTION) return -1;
            if (reader >= 0 && reader != (int64_t)i) return -1;
            reader = (int64_t)i;
        }
    return reader;
}

static bool plain_weight(const graft_graph *g, graft_vid v)
{
    return v >= 0 && g->value[v].kind == GRAFT_VALUE_WEIGHT && !graft_graph_is_view(g, v) &&
           g->slot[g->value[v].index].kind != GRAFT_SLOT_TRANSPOSE;
}

static bool mergeable(const graft_graph *g, const graft_gnode *n)
{
    return n->op == GRAFT_OP_LINEAR && n->attrs.act == GRAFT_ACT_NONE &&
           n->in[GRAFT_LINEAR_RESIDUAL] < 0 && plain_weight(g, n->in[GRAFT_LINEAR_W]) &&
           (n->in[GRAFT_LINEAR_BIAS] < 0 || plain_weight(g, n->in[GRAFT_LINEAR_BIAS])) &&
           g->value[n->out].rank == 3 && attention_of(g, n->out) >= 0;
}

/* Replaces the nodes member[0..n) by one at the place of the first. */
static graft_status merge(graft_graph *g, const size_t *member, size_t n, graft_err *e)
{
    graft_vid w[MERGE_MAX], bias[MERGE_MAX];
    const graft_gnode first = g->node[member[0]];
    bool has_bias = first.in[GRAFT_LINEAR_BIAS] >= 0;
    int64_t width = 0;
    for (size_t i = 0; i < n; i++) {
        w[i] = g->node[member[i]].in[GRAFT_LINEAR_W];
        bias[i] = g->node[member[i]].in[GRAFT_LINEAR_BIAS];
        width += g->value[g->node[member[i]].out].dim[2];
    }
    graft_vid all_w = graft_graph_weight_rows(g, w, n);
    graft_vid all_bias = has_bias ? graft_graph_weight_rows(g, bias, n) : GRAFT_NO_VALUE;
    const graft_gvalue like = g->value[first.out];
    graft_vid out =
        graft_graph_temp(g, like.dtype, 3, (int64_t[]){like.dim[0], like.dim[1], width});
    graft_status st = graft_graph_status(g, e);
    if (st) return st;
    const graft_gvalue *o = &g->value[out];
    int64_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        graft_gvalue *v = &g->value[g->node[member[i]].out];
        v->root = out;
        v->offset = offset;
        v->stride[1] = o->stride[1];
        v->stride[0] = o->stride[0];
        offset += v->dim[2];
        if (i) graft_pass_remove_node(g, member[i]);
    }
    graft_gnode *node = &g->node[member[0]];
    node->in[GRAFT_LINEAR_W] = all_w;
    node->in[GRAFT_LINEAR_BIAS] = all_bias;
    node->out = out;
    return GRAFT_OK;
}

graft_status graft_pass_merge(graft_graph *g, graft_err *e)
{
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (!mergeable(g, &g->node[i])) continue;
        size_t member[MERGE_MAX] = {i}, n = 1;
        const graft_gnode *a = &g->node[i];
        for (size_t k = i + 1; k < g->n_nodes && n < MERGE_MAX; k++) {
            const graft_gnode *b = &g->node[k];
            if (b->op == GRAFT_OP_LINEAR && b->in[0] == a->in[0] &&
                (b->in[GRAFT_LINEAR_BIAS] < 0) == (a->in[GRAFT_LINEAR_BIAS] < 0) &&
                g->value[b->out].dtype == g->value[a->out].dtype &&
                b->attrs.quant == a->attrs.quant && mergeable(g, b) &&
                attention_of(g, b->out) == attention_of(g, a->out))
                member[n++] = k;
        }
        graft_status st = n > 1 ? merge(g, member, n, e) : GRAFT_OK;
        if (st) return st;
    }
    return GRAFT_OK;
}
