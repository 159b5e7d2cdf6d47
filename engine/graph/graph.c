#include "engine/graph/graph.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

graft_graph *graft_graph_create(void)
{
    return graft_calloc(1, sizeof(graft_graph));
}

static void slot_finish(graft_gslot *s)
{
    for (size_t i = 0; s->source && i < s->n_sources; i++) graft_free(s->source[i]);
    graft_free(s->source);
    graft_free(s->rows);
}

void graft_graph_destroy(graft_graph *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->n_slots; i++) slot_finish(&g->slot[i]);
    for (size_t i = 0; i < g->n_literals; i++) graft_free(g->literal[i].data);
    graft_free(g->value);
    graft_free(g->node);
    graft_free(g->slot);
    graft_free(g->literal);
    graft_free(g->input);
    graft_free(g->output);
    graft_free(g);
}

graft_status graft_graph_status(const graft_graph *g, graft_err *e)
{
    return g->status ? graft_fail(e, g->status, "%s", g->err.text) : GRAFT_OK;
}

graft_vid graft_graph_fail(graft_graph *g, graft_status st, const char *fmt, ...)
{
    if (g->status) return GRAFT_NO_VALUE;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->err.text, sizeof g->err.text, fmt, ap);
    va_end(ap);
    g->status = st;
    return GRAFT_NO_VALUE;
}

static graft_vid fail_nomem(graft_graph *g)
{
    return graft_graph_fail(g, GRAFT_E_NOMEM, "out of memory while building a graph");
}

static void set_dense(graft_gvalue *v)
{
    int64_t s = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        v->stride[i] = s;
        s *= v->dim[i];
    }
}

/* Appends a dense value that is its own root. */
static graft_vid add_value(graft_graph *g, graft_graph_value_kind kind, int32_t index,
                           graft_dtype dtype, int rank, const int64_t *dim)
{
    int64_t count;
    if (g->status) return GRAFT_NO_VALUE;
    if (rank < 0 || rank > GRAFT_MAX_RANK || !graft_size_product(dim, rank, &count) ||
        count > INT64_MAX / 16)
        return graft_graph_fail(g, GRAFT_E_ARG, "a tensor's shape is out of range");
    if (graft_grow(&g->value, &g->cap_values, g->n_values + 1, sizeof *g->value))
        return fail_nomem(g);
    graft_gvalue *v = &g->value[g->n_values];
    memset(v, 0, sizeof *v);
    v->kind = kind;
    v->index = index;
    v->dtype = dtype;
    v->rank = rank;
    memcpy(v->dim, dim, (size_t)rank * sizeof *dim);
    set_dense(v);
    v->root = (graft_vid)g->n_values;
    return (graft_vid)g->n_values++;
}

graft_vid graft_graph_input(graft_graph *g, graft_dtype dtype, int rank, const int64_t *dim)
{
    graft_vid v = add_value(g, GRAFT_VALUE_INPUT, (int32_t)g->n_inputs, dtype, rank, dim);
    if (v < 0) return v;
    if (graft_grow(&g->input, &g->cap_inputs, g->n_inputs + 1, sizeof *g->input))
        return fail_nomem(g);
    g->input[g->n_inputs++] = v;
    return v;
}

/* Adds a slot with room for n sources; NULL (and the failure kept) when memory is short. */
static graft_gslot *add_slot(graft_graph *g, graft_slot_kind kind, int rank, const int64_t *dim,
                             size_t n)
{
    if (g->status) return NULL;
    if (rank < 1 || rank > GRAFT_MAX_RANK) {
        graft_graph_fail(g, GRAFT_E_ARG, "a weight's rank is out of range");
        return NULL;
    }
    if (graft_grow(&g->slot, &g->cap_slots, g->n_slots + 1, sizeof *g->slot)) {
        fail_nomem(g);
        return NULL;
    }
    graft_gslot *s = &g->slot[g->n_slots];
    memset(s, 0, sizeof *s);
    s->kind = kind;
    s->rank = rank;
    memcpy(s->dim, dim, (size_t)rank * sizeof *dim);
    s->source = graft_calloc(n, sizeof *s->source);
    s->rows = graft_calloc(n, sizeof *s->rows);
    g->n_slots++;
    if (!s->source || !s->rows) {
        fail_nomem(g);
        return NULL;
    }
    s->n_sources = n;
    return s;
}

static bool slot_is(const graft_gslot *s, graft_slot_kind kind, const char *name, int rank,
                    const int64_t *dim)
{
    return s->kind == kind && s->n_sources == 1 && s->rank == rank &&
           memcmp(s->dim, dim, (size_t)rank * sizeof *dim) == 0 && strcmp(s->source[0], name) == 0;
}

static graft_vid weight(graft_graph *g, graft_slot_kind kind, const char *name, int rank,
                        const int64_t *dim)
{
    if (g->status) return GRAFT_NO_VALUE;
    for (size_t i = 0; i < g->n_values; i++)
        if (g->value[i].kind == GRAFT_VALUE_WEIGHT && g->value[i].root == (graft_vid)i &&
            slot_is(&g->slot[g->value[i].index], kind, name, rank, dim))
            return (graft_vid)i;
    graft_gslot *s = add_slot(g, kind, rank, dim, 1);
    if (!s) return GRAFT_NO_VALUE;
    s->rows[0] = dim[0];
    s->source[0] = graft_strdup(name);
    if (!s->source[0]) return fail_nomem(g);
    return add_value(g, GRAFT_VALUE_WEIGHT, (int32_t)(g->n_slots - 1), GRAFT_F32, rank, dim);
}

graft_vid graft_graph_weight(graft_graph *g, const char *name, int rank, const int64_t *dim)
{
    return weight(g, GRAFT_SLOT_PLAIN, name, rank, dim);
}

graft_vid graft_graph_weight_more(graft_graph *g, const char *name, int rank, const int64_t *dim)
{
    return weight(g, GRAFT_SLOT_MORE, name, rank, dim);
}

graft_vid graft_graph_weight_transposed(graft_graph *g, const char *name, const int64_t dim[2])
{
    return weight(g, GRAFT_SLOT_TRANSPOSE, name, 2, dim);
}

static graft_vid weight_crop(graft_graph *g, graft_slot_kind kind, const char *name, int64_t side,
                             const int64_t dim[4])
{
    if (side < dim[1] || side < dim[2])
        return graft_graph_fail(g, GRAFT_E_ARG, "%lld x %lld cells of a square of %lld",
                                (long long)dim[1], (long long)dim[2], (long long)side);
    graft_vid v = weight(g, kind, name, 4, dim);
    if (v >= 0) g->slot[g->value[v].index].rows[0] = side;
    return v;
}

graft_vid graft_graph_weight_crop(graft_graph *g, const char *name, int64_t side,
                                  const int64_t dim[4])
{
    return weight_crop(g, GRAFT_SLOT_CROP, name, side, dim);
}

graft_vid graft_graph_weight_crop_later(graft_graph *g, const char *name, int64_t side,
                                        const int64_t dim[4])
{
    return weight_crop(g, GRAFT_SLOT_LATER, name, side, dim);
}

graft_vid graft_graph_weight_last(graft_graph *g, const char *name, int64_t slices,
                                  const int64_t dim[4])
{
    graft_vid v = weight(g, GRAFT_SLOT_LAST, name, 4, dim);
    if (v >= 0) g->slot[g->value[v].index].rows[0] = slices;
    return v;
}

static graft_vid weight_part(graft_graph *g, graft_slot_kind kind, const char *name, int64_t parts,
                             int rank, const int64_t *dim)
{
    graft_vid v = weight(g, kind, name, rank, dim);
    if (v >= 0) g->slot[g->value[v].index].rows[0] = parts;
    return v;
}

graft_vid graft_graph_weight_first(graft_graph *g, const char *name, int64_t parts, int rank,
                                   const int64_t *dim)
{
    return weight_part(g, GRAFT_SLOT_FIRST, name, parts, rank, dim);
}

graft_vid graft_graph_weight_sum(graft_graph *g, const char *name, int64_t parts, int rank,
                                 const int64_t *dim)
{
    return weight_part(g, GRAFT_SLOT_SUM, name, parts, rank, dim);
}

graft_vid graft_graph_weight_bottom(graft_graph *g, const char *name, int64_t parts, int rank,
                                    const int64_t *dim)
{
    return weight_part(g, GRAFT_SLOT_BOTTOM, name, parts, rank, dim);
}

graft_vid graft_graph_weight_rows(graft_graph *g, const graft_vid *parts, size_t n)
{
    size_t n_sources = 0;
    int64_t dim[GRAFT_MAX_RANK] = {0};
    int rank = 0;
    if (g->status) return GRAFT_NO_VALUE;
    for (size_t i = 0; i < n; i++) {
        const graft_gvalue *v = &g->value[parts[i]];
        assert(v->kind == GRAFT_VALUE_WEIGHT && v->root == parts[i]);
        assert(graft_gslot_rows(&g->slot[v->index]));
        assert(g->slot[v->index].hadamard == g->slot[g->value[parts[0]].index].hadamard);
        int64_t rows = dim[0] + v->dim[0];
        memcpy(dim, v->dim, sizeof dim);
        dim[0] = rows;
        rank = v->rank;
        n_sources += g->slot[v->index].n_sources;
    }
    graft_gslot *s = add_slot(g, GRAFT_SLOT_ROWS, rank, dim, n_sources);
    if (!s) return GRAFT_NO_VALUE;
    s->hadamard = g->slot[g->value[parts[0]].index].hadamard;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const graft_gslot *from = &g->slot[g->value[parts[i]].index];
        for (size_t j = 0; j < from->n_sources; j++, k++) {
            s->rows[k] = from->kind == GRAFT_SLOT_PLAIN ? from->dim[0] : from->rows[j];
            s->source[k] = graft_strdup(from->source[j]);
            if (!s->source[k]) return fail_nomem(g);
        }
    }
    return add_value(g, GRAFT_VALUE_WEIGHT, (int32_t)(g->n_slots - 1), GRAFT_F32, rank, dim);
}

void graft_graph_narrow(graft_graph *g, graft_dtype dtype)
{
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gnode *n = &g->node[i];
        if (n->op != GRAFT_OP_LINEAR) continue;
        graft_gvalue *w = &g->value[n->in[GRAFT_LINEAR_W]];
        if (w->kind == GRAFT_VALUE_WEIGHT) w->dtype = dtype;
    }
}

void graft_graph_turn_rows(graft_graph *g, size_t node, int32_t group)
{
    graft_gnode *n = &g->node[node];
    const graft_gvalue *w = &g->value[n->in[GRAFT_LINEAR_W]];
    assert(n->op == GRAFT_OP_LINEAR && w->kind == GRAFT_VALUE_WEIGHT);
    n->attrs.groups = group;
    g->slot[w->index].hadamard = group;
}

graft_vid graft_graph_const(graft_graph *g, graft_dtype dtype, int rank, const int64_t *dim,
                            const void *data)
{
    graft_vid v = add_value(g, GRAFT_VALUE_CONST, (int32_t)g->n_literals, dtype, rank, dim);
    if (v < 0) return v;
    if (graft_grow(&g->literal, &g->cap_literals, g->n_literals + 1, sizeof *g->literal))
        return fail_nomem(g);
    int64_t count = graft_gvalue_count(&g->value[v]);
    size_t bytes = (size_t)count * graft_dtype_size(dtype);
    void *copy = graft_malloc(bytes);
    if (!copy) return fail_nomem(g);
    memcpy(copy, data, bytes);
    g->literal[g->n_literals++] = (graft_graph_literal){dtype, count, copy};
    return v;
}

graft_vid graft_graph_temp(graft_graph *g, graft_dtype dtype, int rank, const int64_t *dim)
{
    return add_value(g, GRAFT_VALUE_TEMP, 0, dtype, rank, dim);
}

graft_vid graft_graph_node(graft_graph *g, graft_op op, const graft_attrs *attrs,
                           const graft_vid *in, size_t n, graft_dtype out_dtype)
{
    static const graft_attrs none;
    graft_gnode node = {.op = op, .attrs = attrs ? *attrs : none, .out = GRAFT_NO_VALUE};
    const graft_gvalue *v[GRAFT_MAX_INPUTS] = {0};
    if (g->status) return GRAFT_NO_VALUE;
    assert(n <= GRAFT_MAX_INPUTS);
    for (size_t i = 0; i < GRAFT_MAX_INPUTS; i++) {
        node.in[i] = i < n ? in[i] : GRAFT_NO_VALUE;
        if (node.in[i] >= 0) v[i] = &g->value[node.in[i]];
    }
    int64_t dim[GRAFT_MAX_RANK];
    int32_t rank;
    graft_err e = GRAFT_ERR_INIT;
    if (graft_op_infer(op, &node.attrs, v, dim, &rank, &e))
        return graft_graph_fail(g, GRAFT_E_ARG, "%s", e.text);
    if (graft_grow(&g->node, &g->cap_nodes, g->n_nodes + 1, sizeof *g->node)) return fail_nomem(g);
    graft_dtype dtype = out_dtype ? out_dtype : v[0]->dtype;
    node.out = add_value(g, GRAFT_VALUE_TEMP, 0, dtype, rank, dim);
    if (node.out < 0) return node.out;
    g->node[g->n_nodes++] = node;
    return node.out;
}

/* Appends a copy of value v that is a view of v's root. */
static graft_vid add_view(graft_graph *g, graft_vid v)
{
    if (g->status || v < 0) return GRAFT_NO_VALUE;
    if (graft_grow(&g->value, &g->cap_values, g->n_values + 1, sizeof *g->value))
        return fail_nomem(g);
    g->value[g->n_values] = g->value[v];
    return (graft_vid)g->n_values++;
}

graft_vid graft_graph_reshape(graft_graph *g, graft_vid v, int rank, const int64_t *dim)
{
    int64_t count;
    if (g->status || v < 0) return GRAFT_NO_VALUE;
    if (!graft_gvalue_dense(&g->value[v]) || rank > GRAFT_MAX_RANK ||
        !graft_size_product(dim, rank, &count) || count != graft_gvalue_count(&g->value[v]))
        return graft_graph_fail(g, GRAFT_E_ARG, "reshape changes the number of elements");
    graft_vid w = add_view(g, v);
    if (w < 0) return w;
    g->value[w].rank = rank;
    memset(g->value[w].dim, 0, sizeof g->value[w].dim);
    memset(g->value[w].stride, 0, sizeof g->value[w].stride);
    memcpy(g->value[w].dim, dim, (size_t)rank * sizeof *dim);
    set_dense(&g->value[w]);
    return w;
}

static graft_vid slice(graft_graph *g, graft_vid v, int axis, int64_t begin, int64_t count)
{
    if (g->status || v < 0) return GRAFT_NO_VALUE;
    if (begin < 0 || count < 0 || begin > g->value[v].dim[axis] - count)
        return graft_graph_fail(g, GRAFT_E_ARG, "slice out of range");
    graft_vid w = add_view(g, v);
    if (w < 0) return w;
    g->value[w].dim[axis] = count;
    g->value[w].offset += begin * g->value[w].stride[axis];
    return w;
}

graft_vid graft_graph_slice(graft_graph *g, graft_vid v, int64_t begin, int64_t count)
{
    return g->status || v < 0 ? GRAFT_NO_VALUE : slice(g, v, g->value[v].rank - 1, begin, count);
}

graft_vid graft_graph_slice_rows(graft_graph *g, graft_vid v, int64_t begin, int64_t count)
{
    return slice(g, v, 0, begin, count);
}

graft_vid graft_graph_slice_tokens(graft_graph *g, graft_vid v, int64_t begin, int64_t count)
{
    return slice(g, v, 1, begin, count);
}

graft_vid graft_graph_permute(graft_graph *g, graft_vid v, const int32_t order[4])
{
    graft_vid w = add_view(g, v);
    if (w < 0) return w;
    assert(g->value[v].rank == 4);
    for (int i = 0; i < 4; i++) {
        g->value[w].dim[i] = g->value[v].dim[order[i]];
        g->value[w].stride[i] = g->value[v].stride[order[i]];
    }
    return w;
}

void graft_graph_output(graft_graph *g, graft_vid v)
{
    if (g->status || v < 0) return;
    if (graft_grow(&g->output, &g->cap_outputs, g->n_outputs + 1, sizeof *g->output)) {
        fail_nomem(g);
        return;
    }
    g->output[g->n_outputs++] = v;
}

bool graft_gvalue_dense(const graft_gvalue *v)
{
    int64_t s = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->dim[i] != 1 && v->stride[i] != s) return false;
        s *= v->dim[i];
    }
    return true;
}

int64_t graft_gvalue_count(const graft_gvalue *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++) n *= v->dim[i];
    return n;
}

static void fill_tensor(const graft_graph *g, graft_vid v, graft_tensor_desc *out)
{
    const graft_gvalue *x = &g->value[v];
    out->dtype = x->dtype;
    out->rank = x->rank;
    memcpy(out->dim, x->dim, sizeof out->dim);
    memcpy(out->stride, x->stride, sizeof out->stride);
    out->constant = x->kind == GRAFT_VALUE_WEIGHT || x->kind == GRAFT_VALUE_CONST;
}

void graft_graph_desc(const graft_graph *g, size_t i, graft_op_desc *out)
{
    const graft_gnode *n = &g->node[i];
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->op = n->op;
    out->attrs = n->attrs;
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
        if (n->in[k] >= 0) fill_tensor(g, n->in[k], &out->in[k]);
    fill_tensor(g, n->out, &out->out);
}

const char *graft_op_name(graft_op op)
{
    switch (op) {
#define GRAFT_OP(number, NAME, text)                                                               \
    case number:                                                                                   \
        return text;
#include "kernels/ops.def"
#undef GRAFT_OP
    default:
        return "?";
    }
}

int graft_op_input_count(graft_op op)
{
    switch (op) {
    case GRAFT_OP_CONV2D:
        return 5;
    case GRAFT_OP_LINEAR:
        return 6;
    case GRAFT_OP_ATTENTION:
    case GRAFT_OP_GROUP_NORM:
        return 5;
    case GRAFT_OP_LAYER_NORM:
    case GRAFT_OP_MUL:
        return 3;
    case GRAFT_OP_ADD:
    case GRAFT_OP_CONCAT:
    case GRAFT_OP_EMBEDDING:
    case GRAFT_OP_GATHER_ROW:
    case GRAFT_OP_PRELU:
    case GRAFT_OP_MEAN_SCALE:
    case GRAFT_OP_LOW_SCALE:
    case GRAFT_OP_RMS_NORM:
    case GRAFT_OP_JOIN:
    case GRAFT_OP_MERGE_TOKENS:
    case GRAFT_OP_SPREAD_TOKENS:
        return 2;
    default:
        return 1;
    }
}
