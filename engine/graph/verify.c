#include <string.h>

#include "base/alloc.h"
#include "engine/graph/graph.h"
#include "kernels/hadamard.h"

/* Shapes whose size, zeros counted as ones, stays far from overflow: so nothing that multiplies
 * dimensions in any order needs a check. */
static bool shape_in_range(const int64_t *dim, int rank)
{
    int64_t n = 1;
    if (rank < 0 || rank > GRAFT_MAX_RANK) return false;
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(n, dim[i] ? dim[i] : 1, &n)) return false;
    return n <= INT64_MAX / 16;
}

/* The last element that v shows lies in its root. */
static bool inside_root(const graft_gvalue *v, int64_t total)
{
    int64_t last = v->offset, step;
    for (int i = 0; i < v->rank; i++)
        if (v->stride[i] < 0) return false;
    if (!graft_gvalue_count(v)) return true;
    if (last < 0) return false;
    for (int i = 0; i < v->rank; i++)
        if (__builtin_mul_overflow(v->dim[i] - 1, v->stride[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    return last < total;
}

/* What a root stands for exists and has its shape. */
static bool has_source(const graft_graph *g, graft_vid id)
{
    const graft_gvalue *v = &g->value[id];
    size_t i = (size_t)v->index;
    switch (v->kind) {
    case GRAFT_VALUE_TEMP:
        return true;
    case GRAFT_VALUE_INPUT:
        return i < g->n_inputs && g->input[i] == id;
    case GRAFT_VALUE_CONST:
        return i < g->n_literals && g->literal[i].count == graft_gvalue_count(v) &&
               g->literal[i].dtype == v->dtype;
    case GRAFT_VALUE_WEIGHT:
        return i < g->n_slots && g->slot[i].rank == v->rank &&
               memcmp(g->slot[i].dim, v->dim, (size_t)v->rank * sizeof *v->dim) == 0;
    }
    return false;
}

static graft_status verify_value(const graft_graph *g, graft_vid id, graft_err *e)
{
    const graft_gvalue *v = &g->value[id];
    if (v->root < 0 || (size_t)v->root >= g->n_values || g->value[v->root].root != v->root)
        return graft_fail(e, GRAFT_E_INTERNAL, "value %d: its root is no root", id);
    const graft_gvalue *root = &g->value[v->root];
    if (!shape_in_range(v->dim, v->rank) || !shape_in_range(root->dim, root->rank) ||
        !graft_dtype_size(v->dtype))
        return graft_fail(e, GRAFT_E_INTERNAL, "value %d: shape or dtype out of range", id);
    if (!inside_root(v, graft_gvalue_count(root)))
        return graft_fail(e, GRAFT_E_INTERNAL, "value %d leaves its root", id);
    if (v == root) {
        if (!graft_gvalue_dense(v) || v->offset)
            return graft_fail(e, GRAFT_E_INTERNAL, "value %d is a root with gaps", id);
        if (!has_source(g, id))
            return graft_fail(e, GRAFT_E_INTERNAL, "value %d: nothing of its shape fills it", id);
    } else if (v->kind != root->kind || v->index != root->index || v->dtype != root->dtype) {
        return graft_fail(e, GRAFT_E_INTERNAL, "value %d is not of its root's kind", id);
    }
    return GRAFT_OK;
}

/* Tensor names of printable characters only: those that the text form can hold. */
static bool good_name(const char *s)
{
    if (!s || !s[0]) return false;
    for (; *s; s++)
        if (*s < ' ' || *s > '~') return false;
    return true;
}

#define SLICES_MOST 64 /* of a source; published ones have 3 */

static graft_status verify_slot(const graft_graph *g, size_t i, graft_err *e)
{
    const graft_gslot *s = &g->slot[i];
    int64_t rows = 0;
    if (s->rank < 1 || !shape_in_range(s->dim, s->rank) ||
        (s->kind == GRAFT_SLOT_TRANSPOSE && s->rank != 2) ||
        (graft_gslot_crop(s) && (s->rank != 4 || s->dim[0] != 1)) ||
        (s->kind == GRAFT_SLOT_LAST && s->rank != 4) || (graft_gslot_part(s) && s->rank < 2))
        return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: shape out of range", i);
    for (int k = 0; k < s->rank; k++)
        if (s->dim[k] < 1) return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: an empty weight", i);
    for (size_t k = 0; k < s->n_sources; k++) {
        if (!good_name(s->source[k]))
            return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: source %zu has no good name", i, k);
        if (graft_gslot_crop(s)) {
            const int64_t side = s->rows[k], most = 1 << 15;
            if (side < s->dim[1] || side < s->dim[2] || side > most)
                return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: no crop of its square", i);
            rows = 1;
        } else if (s->kind == GRAFT_SLOT_LAST || graft_gslot_part(s)) {
            if (s->rows[k] < 1 || s->rows[k] > SLICES_MOST)
                return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: no one of its slices", i);
            rows = s->dim[0];
        } else if (s->rows[k] < 1 || s->rows[k] > s->dim[0] ||
                   __builtin_add_overflow(rows, s->rows[k], &rows))
            return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: rows out of range", i);
    }
    bool one = s->kind != GRAFT_SLOT_ROWS;
    if (s->hadamard &&
        (s->rank != 2 || !graft_gslot_rows(s) || !graft_hadamard_is(s->hadamard, s->dim[1])))
        return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: no rows that can be turned", i);
    if (!s->n_sources || (one && s->n_sources != 1) || rows != s->dim[0])
        return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: sources do not fill it", i);
    return GRAFT_OK;
}

static graft_status verify_input(const graft_graph *g, size_t i, graft_err *e)
{
    graft_vid v = g->input[i];
    bool ok = v >= 0 && (size_t)v < g->n_values && g->value[v].root == v &&
              g->value[v].kind == GRAFT_VALUE_INPUT && (size_t)g->value[v].index == i;
    return ok ? GRAFT_OK : graft_fail(e, GRAFT_E_INTERNAL, "input %zu is no input value", i);
}

static graft_status verify_node(const graft_graph *g, size_t i, bool *defined, graft_err *e)
{
    const graft_gnode *n = &g->node[i];
    const graft_gvalue *in[GRAFT_MAX_INPUTS] = {0};
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
        if (n->in[k] < 0) continue;
        if ((size_t)n->in[k] >= g->n_values || k >= graft_op_input_count(n->op))
            return graft_fail(e, GRAFT_E_INTERNAL, "node %zu: input %d out of range", i, k);
        in[k] = &g->value[n->in[k]];
        if (in[k]->kind == GRAFT_VALUE_TEMP && !defined[in[k]->root])
            return graft_fail(e, GRAFT_E_INTERNAL, "node %zu uses value %d before it is made", i,
                              n->in[k]);
    }
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
        const bool weight = in[k] && in[k]->kind == GRAFT_VALUE_WEIGHT;
        const bool turns = n->op == GRAFT_OP_LINEAR && k == GRAFT_LINEAR_W;
        if (in[k] && (weight ? g->slot[in[k]->index].hadamard : 0) != (turns ? n->attrs.groups : 0))
            return graft_fail(e, GRAFT_E_INTERNAL, "node %zu: its weight is turned otherwise", i);
    }
    if (n->out < 0 || (size_t)n->out >= g->n_values || graft_graph_is_view(g, n->out) ||
        defined[n->out] || g->value[n->out].kind != GRAFT_VALUE_TEMP)
        return graft_fail(e, GRAFT_E_INTERNAL, "node %zu: bad output", i);
    int64_t dim[GRAFT_MAX_RANK];
    int32_t rank;
    graft_status st = graft_op_infer(n->op, &n->attrs, in, dim, &rank, e);
    if (st) return graft_err_prefix(e, GRAFT_E_INTERNAL, "node %zu", i);
    if (rank != g->value[n->out].rank ||
        memcmp(dim, g->value[n->out].dim, (size_t)rank * sizeof *dim) != 0)
        return graft_fail(e, GRAFT_E_INTERNAL, "node %zu (%s): shape is not the inferred one", i,
                          graft_op_name(n->op));
    defined[n->out] = true;
    return GRAFT_OK;
}

graft_status graft_graph_verify(const graft_graph *g, graft_err *e)
{
    graft_status st = graft_graph_status(g, e);
    if (st) return st;
    bool *defined = graft_calloc(g->n_values, sizeof *defined);
    if (!defined) return graft_fail_nomem(e, "graph verifier");
    for (size_t i = 0; i < g->n_slots; i++) GRAFT_TRY(verify_slot(g, i, e));
    for (size_t i = 0; i < g->n_values; i++) GRAFT_TRY(verify_value(g, (graft_vid)i, e));
    for (size_t i = 0; i < g->n_inputs; i++) GRAFT_TRY(verify_input(g, i, e));
    for (size_t i = 0; i < g->n_nodes; i++) GRAFT_TRY(verify_node(g, i, defined, e));
    for (size_t i = 0; i < g->n_outputs; i++) {
        if (g->output[i] < 0 || (size_t)g->output[i] >= g->n_values) {
            st = graft_fail(e, GRAFT_E_INTERNAL, "output %zu is no value", i);
            goto out;
        }
        const graft_gvalue *v = &g->value[g->output[i]];
        if (v->kind == GRAFT_VALUE_TEMP && !defined[v->root]) {
            st = graft_fail(e, GRAFT_E_INTERNAL, "output %zu is never made", i);
            goto out;
        }
    }
out:
    graft_free(defined);
    return st;
}
