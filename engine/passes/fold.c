/* Removes operators that change nothing and computes small operators on literals. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/passes/passes.h"

#define FOLD_MAX_COUNT 4096 /* larger literals would only bloat compiled-graph files */

/* True when node n hands its first input on as it is: same dtype, same shape, same order. */
static bool changes_nothing(const graft_graph *g, const graft_gnode *n)
{
    const graft_gvalue *x = &g->value[n->in[0]], *y = &g->value[n->out];
    if (x->dtype != y->dtype || !graft_gvalue_dense(x) || x->kind != GRAFT_VALUE_TEMP) return false;
    switch (n->op) {
    case GRAFT_OP_COPY:
        return true;
    case GRAFT_OP_SCALE:
        return n->attrs.scale == 1.0f && n->attrs.shift == 0.0f;
    case GRAFT_OP_ACT:
        return n->attrs.act == GRAFT_ACT_NONE;
    case GRAFT_OP_UPSAMPLE:
        return x->dim[1] == y->dim[1] && x->dim[2] == y->dim[2];
    default:
        return false;
    }
}

static float act(float x, graft_act a)
{
    switch (a) {
    case GRAFT_ACT_SILU:
        return x / (1.0f + expf(-x));
    case GRAFT_ACT_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case GRAFT_ACT_QUICK_GELU:
        return x / (1.0f + expf(-1.702f * x));
    case GRAFT_ACT_LEAKY:
        return x < 0 ? 0.2f * x : x;
    case GRAFT_ACT_RELU:
        return x < 0 ? 0.0f : x; /* NaN passes through */
    case GRAFT_ACT_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    case GRAFT_ACT_TANH:
        return tanhf(x);
    default:
        return x;
    }
}

static const float *literal_of(const graft_graph *g, graft_vid v, int64_t *count)
{
    if (v < 0 || g->value[v].kind != GRAFT_VALUE_CONST || graft_graph_is_view(g, v) ||
        g->value[v].dtype != GRAFT_F32)
        return NULL;
    *count = graft_gvalue_count(&g->value[v]);
    return *count <= FOLD_MAX_COUNT ? g->literal[g->value[v].index].data : NULL;
}

/* Computes node n when its inputs are literals of equal shape; out has room for the result. */
static bool compute(const graft_graph *g, const graft_gnode *n, float *out, int64_t *count)
{
    int64_t n_b = 0;
    const float *a = literal_of(g, n->in[0], count), *b = literal_of(g, n->in[1], &n_b);
    bool pair = n->op == GRAFT_OP_ADD || n->op == GRAFT_OP_MUL;
    if (!a || (pair && (!b || n_b != *count || n->in[2] >= 0)) ||
        g->value[n->out].dtype != GRAFT_F32)
        return false;
    for (size_t i = 0; i < g->n_outputs; i++) /* a result must be made by something */
        if (g->value[g->output[i]].root == n->out) return false;
    for (int64_t i = 0; i < *count; i++) {
        switch (n->op) {
        case GRAFT_OP_ADD:
            out[i] = a[i] + b[i];
            break;
        case GRAFT_OP_MUL:
            out[i] = a[i] * b[i];
            break;
        case GRAFT_OP_SCALE:
            out[i] = a[i] * n->attrs.scale + n->attrs.shift;
            break;
        case GRAFT_OP_ACT:
            out[i] = act(a[i], n->attrs.act);
            break;
        default:
            return false;
        }
    }
    return true;
}

graft_status graft_pass_fold(graft_graph *g, graft_err *e)
{
    float *buffer = graft_malloc_array(FOLD_MAX_COUNT, sizeof *buffer);
    graft_status st = GRAFT_OK;
    if (!buffer) return graft_fail_nomem(e, "constant folding");
    for (size_t i = 0; i < g->n_nodes; i++) {
        graft_gnode *n = &g->node[i];
        int64_t count = 0;
        if (graft_pass_removed(n)) continue;
        if (changes_nothing(g, n)) {
            graft_vid from = n->out, to = n->in[0];
            graft_pass_remove_node(g, i);
            graft_pass_replace(g, from, to);
        } else if (compute(g, n, buffer, &count)) {
            graft_gvalue shape = g->value[n->out];
            graft_vid c = graft_graph_const(g, GRAFT_F32, shape.rank, shape.dim, buffer);
            GRAFT_TRY(graft_graph_status(g, e));
            graft_vid from = g->node[i].out;
            graft_pass_remove_node(g, i);
            graft_pass_replace(g, from, c);
        }
    }
out:
    graft_free(buffer);
    return st;
}
