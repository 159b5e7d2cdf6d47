/* Fusions: an operator takes over the work of the one behind it. The fused operator stands at the
 * place of the later one, where all inputs are known. */
#include "base/alloc.h"
#include "engine/passes/passes.h"

typedef struct fuser {
    graft_graph *g;
    int32_t *uses, *producer;
} fuser;

/* The node that makes v when v (or the root it shows whole) is read only once; -1 otherwise. */
static int32_t sole_producer(const fuser *f, graft_vid v)
{
    if (v < 0) return -1;
    const graft_gvalue *x = &f->g->value[v];
    if (x->kind != GRAFT_VALUE_TEMP || f->uses[x->root] != 1 || !graft_gvalue_dense(x) ||
        graft_gvalue_count(x) != graft_gvalue_count(&f->g->value[x->root]))
        return -1;
    return f->producer[x->root];
}

/* Node `first`, changed as the caller wants, moves to the place of node `second`; readers of
 * second's output read first's. */
static void take_over(fuser *f, size_t first, size_t second, graft_gnode node)
{
    graft_vid from = f->g->node[second].out;
    graft_pass_remove_node(f->g, first);
    f->g->node[second] = node;
    if (from == node.out) return;
    f->uses[node.out] = f->uses[from];
    graft_pass_replace(f->g, from, node.out);
    f->producer[node.out] = (int32_t)second;
}

/* The operator behind p only adds to what p makes: it must make the same kind of number. */
static bool same_dtype(const fuser *f, int32_t p, const graft_gnode *n)
{
    return f->g->value[f->g->node[p].out].dtype == f->g->value[n->out].dtype;
}

/* Constants are packed by the operator that reads them, whole and in its own layout: they cannot
 * take the place of an activation. */
static bool is_activation(const fuser *f, graft_vid v)
{
    return v >= 0 &&
           (f->g->value[v].kind == GRAFT_VALUE_TEMP || f->g->value[v].kind == GRAFT_VALUE_INPUT);
}

static bool can_take_act(const graft_gnode *n, graft_act act)
{
    if (n->attrs.act != GRAFT_ACT_NONE) return false;
    if (n->op == GRAFT_OP_GROUP_NORM) return act == GRAFT_ACT_SILU;
    return n->op == GRAFT_OP_CONV2D || n->op == GRAFT_OP_LINEAR;
}

static bool fuse_act(fuser *f, size_t i)
{
    const graft_gnode *n = &f->g->node[i];
    int32_t p = sole_producer(f, n->in[0]);
    if (n->op != GRAFT_OP_ACT || p < 0 || !can_take_act(&f->g->node[p], n->attrs.act) ||
        !same_dtype(f, p, n))
        return false;
    graft_gnode fused = f->g->node[p];
    fused.attrs.act = n->attrs.act;
    take_over(f, (size_t)p, i, fused);
    return true;
}

static bool fuse_geglu(fuser *f, size_t i)
{
    const graft_gnode *n = &f->g->node[i];
    int32_t p = n->op == GRAFT_OP_GEGLU ? sole_producer(f, n->in[0]) : -1;
    if (p < 0 || f->g->node[p].op != GRAFT_OP_LINEAR || f->g->node[p].attrs.act != GRAFT_ACT_NONE ||
        f->g->node[p].in[GRAFT_LINEAR_RESIDUAL] >= 0 ||
        f->g->value[f->g->node[p].out].rank != f->g->value[n->out].rank)
        return false;
    graft_gnode fused = f->g->node[p];
    fused.attrs.act = GRAFT_ACT_GEGLU;
    fused.out = n->out;
    take_over(f, (size_t)p, i, fused);
    f->producer[fused.out] = (int32_t)i;
    return true;
}

static bool fuse_upsample(fuser *f, size_t i)
{
    const graft_gnode *n = &f->g->node[i];
    int32_t p = n->op == GRAFT_OP_CONV2D ? sole_producer(f, n->in[GRAFT_CONV_X]) : -1;
    if (p < 0 || f->g->node[p].op != GRAFT_OP_UPSAMPLE || n->attrs.upsample) return false;
    const graft_gnode *up = &f->g->node[p];
    const graft_gvalue *x = &f->g->value[up->in[0]];
    int64_t h = 2 * x->dim[1] - up->attrs.up_h, w = 2 * x->dim[2] - up->attrs.up_w;
    if (h < 0 || h > 1 || w < 0 || w > 1) return false; /* no doubling */
    graft_gnode fused = *n;
    fused.in[GRAFT_CONV_X] = up->in[0];
    fused.attrs.upsample = 2;
    fused.attrs.up_h = up->attrs.up_h;
    fused.attrs.up_w = up->attrs.up_w;
    graft_pass_remove_node(f->g, (size_t)p);
    f->g->node[i] = fused;
    return true;
}

/* (N,1,1,C) beside (N,H,W,C). */
static bool is_channel_add(const graft_gvalue *x, const graft_gvalue *y)
{
    return x->rank == 4 && y->rank == 4 && y->dim[0] == x->dim[0] && y->dim[1] == 1 &&
           y->dim[2] == 1 && y->dim[3] == x->dim[3] && graft_gvalue_dense(y) &&
           (x->dim[1] > 1 || x->dim[2] > 1);
}

static bool fuse_channel_add(fuser *f, size_t i, int main_input)
{
    graft_graph *g = f->g;
    const graft_gnode *n = &g->node[i];
    graft_vid x = n->in[main_input], y = n->in[1 - main_input];
    int32_t p = sole_producer(f, x);
    if (p < 0 || !is_activation(f, y) || !same_dtype(f, p, n) || g->node[p].op != GRAFT_OP_CONV2D ||
        g->node[p].attrs.act != GRAFT_ACT_NONE || g->node[p].in[GRAFT_CONV_CHANNEL_ADD] >= 0 ||
        g->node[p].in[GRAFT_CONV_RESIDUAL] >= 0 || !is_channel_add(&g->value[x], &g->value[y]))
        return false;
    int64_t dim[2] = {g->value[y].dim[0], g->value[y].dim[3]};
    graft_gnode fused = g->node[p];
    fused.in[GRAFT_CONV_CHANNEL_ADD] = graft_graph_reshape(g, y, 2, dim);
    if (fused.in[GRAFT_CONV_CHANNEL_ADD] < 0) return false;
    take_over(f, (size_t)p, i, fused);
    return true;
}

static bool fuse_residual(fuser *f, size_t i, int main_input)
{
    graft_graph *g = f->g;
    const graft_gnode *n = &g->node[i];
    graft_vid x = n->in[main_input], y = n->in[1 - main_input];
    int32_t p = sole_producer(f, x);
    if (p < 0 || !is_activation(f, y) || !same_dtype(f, p, n)) return false;
    const graft_gnode *op = &g->node[p];
    if (op->op != GRAFT_OP_CONV2D && op->op != GRAFT_OP_LINEAR) return false;
    int place = op->op == GRAFT_OP_CONV2D ? GRAFT_CONV_RESIDUAL : GRAFT_LINEAR_RESIDUAL;
    if (op->in[place] >= 0 || op->attrs.act != GRAFT_ACT_NONE ||
        g->value[y].dtype != g->value[op->out].dtype || !graft_gvalue_dense(&g->value[y]) ||
        graft_gvalue_count(&g->value[y]) != graft_gvalue_count(&g->value[x]))
        return false;
    graft_gnode fused = *op;
    const graft_gvalue shape = g->value[op->out];
    fused.in[place] = graft_graph_reshape(g, y, shape.rank, shape.dim);
    if (fused.in[place] < 0) return false;
    take_over(f, (size_t)p, i, fused);
    return true;
}

static bool fuse_add(fuser *f, size_t i)
{
    if (f->g->node[i].op != GRAFT_OP_ADD) return false;
    for (int side = 0; side < 2; side++)
        if (fuse_channel_add(f, i, side) || fuse_residual(f, i, side)) return true;
    return false;
}

graft_status graft_pass_fuse(graft_graph *g, graft_err *e)
{
    fuser f = {g, NULL, NULL};
    bool changed = true;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < g->n_nodes && !st;) {
        /* Views that a fusion adds make these tables too short: they are made anew. */
        if (changed) {
            graft_free(f.uses);
            graft_free(f.producer);
            f.uses = graft_pass_count_uses(g);
            f.producer = graft_pass_producers(g);
            if (!f.uses || !f.producer) {
                st = graft_fail_nomem(e, "fusion");
                break;
            }
        }
        changed = !graft_pass_removed(&g->node[i]) &&
                  (fuse_add(&f, i) || fuse_act(&f, i) || fuse_geglu(&f, i) || fuse_upsample(&f, i));
        if (!changed) i++;
        st = graft_graph_status(g, e);
    }
    graft_free(f.uses);
    graft_free(f.producer);
    return st;
}

static void move_channel_add(const fuser *f, size_t i)
{
    graft_graph *g = f->g;
    graft_gnode *n = &g->node[i];
    int32_t p = n->op == GRAFT_OP_GROUP_NORM ? sole_producer(f, n->in[GRAFT_NORM_X]) : -1;
    if (p < 0 || g->node[p].op != GRAFT_OP_CONV2D || n->in[GRAFT_NORM_CHANNEL_ADD] >= 0) return;
    graft_gnode *conv = &g->node[p];
    graft_vid add = conv->in[GRAFT_CONV_CHANNEL_ADD];
    if (!is_activation(f, add) || conv->in[GRAFT_CONV_RESIDUAL] >= 0 ||
        conv->attrs.act != GRAFT_ACT_NONE || g->value[add].dtype != g->value[conv->out].dtype)
        return;
    n->in[GRAFT_NORM_CHANNEL_ADD] = add;
    conv->in[GRAFT_CONV_CHANNEL_ADD] = GRAFT_NO_VALUE;
}

graft_status graft_pass_norm_add(graft_graph *g, graft_err *e)
{
    fuser f = {g, graft_pass_count_uses(g), graft_pass_producers(g)};
    bool ok = f.uses && f.producer;
    for (size_t i = 0; i < g->n_nodes && ok; i++) move_channel_add(&f, i);
    graft_free(f.uses);
    graft_free(f.producer);
    return ok ? graft_graph_verify(g, e) : graft_fail_nomem(e, "fusion");
}
