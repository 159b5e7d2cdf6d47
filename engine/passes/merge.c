/* Linear layers that read the same value and feed the same attention become one: q, k and v of a
 * self-attention, k and v of a cross-attention. Their results are then column slices of one output,
 * which attention reads with strides. */
#include <string.h>

#include "base/alloc.h"
#include "engine/passes/passes.h"

#define MERGE_MAX 8

enum { NOBODY = -1, OTHERS = -2 };

/* For each root value the node that reads it, if it is one attention which reads the value itself
 * and no view of it; else NOBODY or OTHERS. (graft_free); NULL when out of memory. */
static int32_t *find_attentions(const graft_graph *g)
{
    int32_t *reader = graft_malloc_array(g->n_values, sizeof *reader);
    if (!reader) return NULL;
    for (size_t i = 0; i < g->n_values; i++) reader[i] = NOBODY;
    for (size_t i = 0; i < g->n_outputs; i++) reader[g->value[g->output[i]].root] = OTHERS;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
            graft_vid in = g->node[i].in[k];
            if (in < 0) continue;
            int32_t *r = &reader[g->value[in].root];
            bool direct = g->value[in].root == in && g->node[i].op == GRAFT_OP_ATTENTION;
            *r = direct && (*r == NOBODY || *r == (int32_t)i) ? (int32_t)i : OTHERS;
        }
    return reader;
}

static bool plain_weight(const graft_graph *g, graft_vid v)
{
    return v >= 0 && g->value[v].kind == GRAFT_VALUE_WEIGHT && !graft_graph_is_view(g, v) &&
           graft_gslot_plain(&g->slot[g->value[v].index]);
}

static bool mergeable(const graft_graph *g, const int32_t *attention, const graft_gnode *n)
{
    return n->op == GRAFT_OP_LINEAR && n->attrs.act == GRAFT_ACT_NONE &&
           n->in[GRAFT_LINEAR_RESIDUAL] < 0 && plain_weight(g, n->in[GRAFT_LINEAR_W]) &&
           (n->in[GRAFT_LINEAR_BIAS] < 0 || plain_weight(g, n->in[GRAFT_LINEAR_BIAS])) &&
           g->value[n->out].rank == 3 && attention[n->out] >= 0;
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

/* Layers of several attentions stay apart: all of them read the context, and graphs that hold other
 * selections of blocks would join, and pack, other matrices. */
static bool goes_with(const graft_graph *g, const int32_t *attention, const graft_gnode *a,
                      const graft_gnode *b)
{
    return b->op == GRAFT_OP_LINEAR && b->in[0] == a->in[0] &&
           (b->in[GRAFT_LINEAR_BIAS] < 0) == (a->in[GRAFT_LINEAR_BIAS] < 0) &&
           g->value[b->out].dtype == g->value[a->out].dtype && b->attrs.quant == a->attrs.quant &&
           mergeable(g, attention, b) && attention[b->out] == attention[a->out];
}

graft_status graft_pass_merge(graft_graph *g, graft_err *e)
{
    /* Good for the whole pass: a merge makes new values, and changes who reads none of the old. */
    int32_t *attention = find_attentions(g);
    graft_status st = attention ? GRAFT_OK : graft_fail_nomem(e, "merging of layers");
    for (size_t i = 0; i < g->n_nodes && !st; i++) {
        if (!mergeable(g, attention, &g->node[i])) continue;
        size_t member[MERGE_MAX] = {i}, n = 1;
        for (size_t k = i + 1; k < g->n_nodes && n < MERGE_MAX; k++)
            if (goes_with(g, attention, &g->node[i], &g->node[k])) member[n++] = k;
        if (n > 1) st = merge(g, member, n, e);
    }
    graft_free(attention);
    return st;
}
