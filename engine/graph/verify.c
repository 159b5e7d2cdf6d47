#include <string.h>

#include "base/alloc.h"
#include "engine/graph/graph.h"

static graft_status verify_value(const graft_graph *g, graft_vid id, graft_err *e)
{
    const graft_gvalue *v = &g->value[id];
    if (v->root < 0 || (size_t)v->root >= g->n_values || g->value[v->root].root != v->root)
        return graft_fail(e, GRAFT_E_INTERNAL, "value %d: its root is no root", id);
    if (v->rank < 0 || v->rank > GRAFT_MAX_RANK || !graft_dtype_size(v->dtype))
        return graft_fail(e, GRAFT_E_INTERNAL, "value %d: rank or dtype out of range", id);
    int64_t last = v->offset, total = graft_gvalue_count(&g->value[v->root]);
    for (int i = 0; i < v->rank; i++) {
        if (v->dim[i] < 0 || v->stride[i] < 0)
            return graft_fail(e, GRAFT_E_INTERNAL, "value %d: negative dimension", id);
        last += (v->dim[i] - 1) * v->stride[i];
    }
    if (graft_gvalue_count(v) && (v->offset < 0 || last >= total))
        return graft_fail(e, GRAFT_E_INTERNAL, "value %d leaves its root", id);
    bool ok = true;
    if (v->kind == GRAFT_VALUE_WEIGHT) ok = (size_t)v->index < g->n_slots;
    if (v->kind == GRAFT_VALUE_CONST) ok = (size_t)v->index < g->n_literals;
    if (v->kind == GRAFT_VALUE_INPUT) ok = (size_t)v->index < g->n_inputs;
    return ok ? GRAFT_OK : graft_fail(e, GRAFT_E_INTERNAL, "value %d: index out of range", id);
}

static graft_status verify_slot(const graft_graph *g, size_t i, graft_err *e)
{
    const graft_gslot *s = &g->slot[i];
    int64_t rows = 0;
    for (size_t k = 0; k < s->n_sources; k++) {
        if (!s->source[k]) return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: no source", i);
        rows += s->rows[k];
    }
    if (!s->n_sources || (s->kind == GRAFT_SLOT_ROWS && rows != s->dim[0]))
        return graft_fail(e, GRAFT_E_INTERNAL, "slot %zu: sources do not fill it", i);
    return GRAFT_OK;
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
    for (size_t i = 0; i < g->n_values; i++) GRAFT_TRY(verify_value(g, (graft_vid)i, e));
    for (size_t i = 0; i < g->n_slots; i++) GRAFT_TRY(verify_slot(g, i, e));
    for (size_t i = 0; i < g->n_nodes; i++) GRAFT_TRY(verify_node(g, i, defined, e));
    for (size_t i = 0; i < g->n_outputs; i++) {
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
