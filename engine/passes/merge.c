/* Linear layers that read the same value become one whose result has theirs as column slices. Two
 * sorts are worth it: q, k and v of a self-attention, k and v of a cross-attention, whose slices
 * the attention reads with strides; and the rows that a UNet makes of its time embedding, one for
 * each residual block, where a launch takes longer than the product. */
#include <string.h>

#include "base/alloc.h"
#include "engine/passes/passes.h"

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
           graft_gslot_rows(&g->slot[g->value[v].index]);
}

/* A layer whose result is of this rank, and nothing but a product. */
static bool plain_linear(const graft_graph *g, const graft_gnode *n, int32_t rank)
{
    return n->op == GRAFT_OP_LINEAR && n->attrs.act == GRAFT_ACT_NONE &&
           n->in[GRAFT_LINEAR_RESIDUAL] < 0 && plain_weight(g, n->in[GRAFT_LINEAR_W]) &&
           (n->in[GRAFT_LINEAR_BIAS] < 0 || plain_weight(g, n->in[GRAFT_LINEAR_BIAS])) &&
           g->value[n->out].rank == rank;
}

static bool alike(const graft_graph *g, const graft_gnode *a, const graft_gnode *b)
{
    return b->in[0] == a->in[0] &&
           (b->in[GRAFT_LINEAR_BIAS] < 0) == (a->in[GRAFT_LINEAR_BIAS] < 0) &&
           g->value[b->out].dtype == g->value[a->out].dtype && b->attrs.quant == a->attrs.quant &&
           b->attrs.groups == a->attrs.groups;
}

/* What was rows of `width` values is now their columns from `begin` on in `wide` ones: steps from
 * row to row get longer. Views that run across rows must have no reader. */
static void widen(graft_graph *g, graft_vid from, graft_vid to, int64_t begin)
{
    const int32_t last = g->value[from].rank - 1;
    const int64_t width = g->value[from].dim[last], wide = g->value[to].dim[last];
    for (size_t i = 0; i < g->n_values; i++) {
        graft_gvalue *v = &g->value[i];
        if (v->root != from) continue;
        v->root = to;
        v->offset = v->offset / width * wide + begin + v->offset % width;
        for (int k = 0; k + 1 < v->rank; k++)
            if (v->stride[k] % width == 0) v->stride[k] = v->stride[k] / width * wide;
    }
}

/* A weight of all rows of the members' inputs in this place. */
static graft_vid rows_of(graft_graph *g, const size_t *member, size_t n, int place, graft_vid *part)
{
    if (g->node[member[0]].in[place] < 0) return GRAFT_NO_VALUE;
    for (size_t i = 0; i < n; i++) part[i] = g->node[member[i]].in[place];
    return graft_graph_weight_rows(g, part, n);
}

/* Replaces the nodes member[0..n) by one at the place of the first. part: n places. */
static graft_status merge(graft_graph *g, const size_t *member, size_t n, graft_vid *part,
                          graft_err *e)
{
    graft_gvalue like = g->value[g->node[member[0]].out];
    int64_t *width = &like.dim[like.rank - 1];
    for (size_t i = 1; i < n; i++) *width += g->value[g->node[member[i]].out].dim[like.rank - 1];
    graft_vid w = rows_of(g, member, n, GRAFT_LINEAR_W, part);
    graft_vid bias = rows_of(g, member, n, GRAFT_LINEAR_BIAS, part);
    graft_vid out = graft_graph_temp(g, like.dtype, like.rank, like.dim);
    graft_status st = graft_graph_status(g, e);
    if (st) return st;
    int64_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        graft_vid own = g->node[member[i]].out;
        widen(g, own, out, begin);
        begin += g->value[own].dim[like.rank - 1];
        if (i) graft_pass_remove_node(g, member[i]);
    }
    graft_gnode *node = &g->node[member[0]];
    node->in[GRAFT_LINEAR_W] = w;
    node->in[GRAFT_LINEAR_BIAS] = bias;
    node->out = out;
    return GRAFT_OK;
}

/* Merges layers of this rank whose results have the same reader in the table. */
static graft_status merge_all(graft_graph *g, const int32_t *reader, int32_t rank, graft_err *e)
{
    size_t *member = graft_malloc_array(g->n_nodes, sizeof *member);
    graft_vid *part = graft_malloc_array(g->n_nodes, sizeof *part);
    graft_status st = member && part ? GRAFT_OK : graft_fail_nomem(e, "merging of layers");
    for (size_t i = 0; i < g->n_nodes && !st; i++) {
        const graft_gnode *first = &g->node[i];
        size_t n = 0;
        if (!plain_linear(g, first, rank) || reader[first->out] < 0) continue;
        for (size_t k = i; k < g->n_nodes; k++)
            if (plain_linear(g, &g->node[k], rank) && alike(g, first, &g->node[k]) &&
                reader[g->node[k].out] == reader[first->out])
                member[n++] = k;
        if (n > 1) st = merge(g, member, n, part, e);
    }
    graft_free(member);
    graft_free(part);
    return st;
}

graft_status graft_pass_merge(graft_graph *g, graft_err *e)
{
    /* Good for the whole pass: a merge makes new values, and changes who reads none of the old.
     * Layers of several attentions stay apart: all of them read the context, and graphs that hold
     * other selections of blocks would join, and pack, other matrices. */
    int32_t *attention = find_attentions(g);
    graft_status st =
        attention ? merge_all(g, attention, 3, e) : graft_fail_nomem(e, "merging of layers");
    graft_free(attention);
    return st;
}

/* Whether v is whole rows of its root, a matrix. */
static bool is_rows(const graft_graph *g, graft_vid v)
{
    const graft_gvalue *x = &g->value[v], *root = &g->value[x->root];
    const int64_t width = root->dim[1];
    return root->rank == 2 && x->rank == 2 && x->dim[1] == width && x->stride[1] == 1 &&
           (x->dim[0] == 1 || x->stride[0] == width) && x->offset % width == 0;
}

/* For each root value 0 if all that read it are convolutions, which add its rows to their channels;
 * else NOBODY or OTHERS. (graft_free); NULL when out of memory. */
static int32_t *find_added(const graft_graph *g)
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
            bool added = g->node[i].op == GRAFT_OP_CONV2D && k == GRAFT_CONV_CHANNEL_ADD;
            *r = added && is_rows(g, in) && *r != OTHERS ? 0 : OTHERS;
        }
    return reader;
}

graft_status graft_pass_merge_added(graft_graph *g, graft_err *e)
{
    /* The rows that nobody needs would be computed with the others. */
    graft_status st = graft_pass_clean(g, e);
    if (st) return st;
    int32_t *added = find_added(g);
    st = added ? merge_all(g, added, 2, e) : graft_fail_nomem(e, "merging of layers");
    graft_free(added);
    return st;
}
