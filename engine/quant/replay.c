#include "engine/quant/replay.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/half.h"
#include "base/metrics.h"
#include "base/size.h"
#include "engine/quant/layers.h"

/* What is short is timed more often: the first turns wake threads and fill caches. */
enum { TURNS = 2 };
#define RUN_SECONDS 0.02
#define NO_NODE     SIZE_MAX

struct graft_replay {
    graft_binding *binding, *quantized;
    size_t *twin;   /* of each node: its twin in the quantized graph, or NO_NODE */
    void *block[2]; /* device memory: clean and changed values */
    void *workspace;
    void *weight;     /* device memory for one that is not there (offload.h); NULL: all are */
    uint64_t *offset; /* of each root value in a block */
    bool *changed;    /* of each root value */
    double *seconds;  /* of each node, then of each node's twin */
    float *values;    /* host memory for the largest value, twice */
    size_t largest;
};

static const graft_graph *graph_of(const graft_replay *r)
{
    return r->binding->exe->graph;
}

static const graft_gvalue *root_of(const graft_replay *r, size_t node)
{
    const graft_graph *g = graph_of(r);
    return &g->value[g->value[g->node[node].out].root];
}

static uint8_t *address(const graft_replay *r, int copy, graft_vid root)
{
    return (uint8_t *)r->block[copy] + r->offset[root];
}

/* ------------------------------------------------------------------ memory */

static bool is_activation(const graft_graph *g, graft_vid v)
{
    const graft_gvalue *x = &g->value[v];
    return x->root == v && (x->kind == GRAFT_VALUE_TEMP || x->kind == GRAFT_VALUE_INPUT);
}

static graft_status lay_out(graft_replay *r, uint64_t *bytes, graft_err *e)
{
    const graft_graph *g = graph_of(r);
    uint64_t align = r->binding->exe->backend->info.alignment, at = 0;
    if (align < 64) align = 64;
    for (size_t v = 0; v < g->n_values; v++) {
        if (!is_activation(g, (graft_vid)v)) continue;
        size_t count = (size_t)graft_gvalue_count(&g->value[v]);
        uint64_t size = (uint64_t)count * graft_dtype_size(g->value[v].dtype);
        r->offset[v] = at;
        at += (size + align - 1) / align * align;
        if (count > r->largest) r->largest = count;
        if (at > (uint64_t)INT64_MAX / 2)
            return graft_fail(e, GRAFT_E_LIMIT, "the UNet's values are too many");
    }
    *bytes = at;
    return GRAFT_OK;
}

/* Of the binding's weights that are not on the device, the largest one's bytes; an operator has one
 * such at most. */
static uint64_t largest_away(const graft_binding *b)
{
    uint64_t bytes = 0;
    for (size_t i = 0; b->offload && i < b->exe->n_uses; i++)
        if (b->offload->all.place[i] >= 0 && b->exe->use[i].bytes > bytes)
            bytes = b->exe->use[i].bytes;
    return bytes;
}

static graft_status allocate(graft_replay *r, graft_err *e)
{
    const graft_exe *x = r->binding->exe;
    const graft_graph *g = x->graph;
    const graft_exe *quantized = r->quantized->exe;
    uint64_t bytes = 0, workspace = 64;
    const uint64_t away[] = {largest_away(r->binding), largest_away(r->quantized)};
    const uint64_t weight = away[0] > away[1] ? away[0] : away[1];
    r->offset = graft_calloc(g->n_values, sizeof *r->offset);
    r->changed = graft_calloc(g->n_values, sizeof *r->changed);
    r->seconds = graft_calloc(2 * g->n_nodes, sizeof *r->seconds);
    r->twin = graft_malloc_array(g->n_nodes, sizeof *r->twin);
    if (!r->offset || !r->changed || !r->seconds || !r->twin)
        return graft_fail_nomem(e, "calibration");
    graft_status st = lay_out(r, &bytes, e);
    if (st) return st;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (x->info[i].workspace_bytes > workspace) workspace = x->info[i].workspace_bytes;
    for (size_t i = 0; i < quantized->graph->n_nodes; i++)
        if (quantized->info[i].workspace_bytes > workspace)
            workspace = quantized->info[i].workspace_bytes;
    r->values = graft_malloc_array(2 * r->largest, sizeof *r->values);
    for (int k = 0; k < 2; k++)
        r->block[k] = x->backend->api->alloc(x->backend->device, bytes ? bytes : 1);
    r->workspace = x->backend->api->alloc(x->backend->device, workspace);
    if (weight) r->weight = x->backend->api->alloc(x->backend->device, weight);
    bool ok = r->values && r->block[0] && r->block[1] && r->workspace && (r->weight || !weight);
    return ok ? GRAFT_OK
              : graft_fail(e, GRAFT_E_NOMEM, "out of memory: calibration needs %llu MiB",
                           (unsigned long long)graft_size_mib(2 * bytes));
}

/* ------------------------------------------------------------------ twins */

/* Strides, too: a twin reads what the node reads. */
static bool same_value(const graft_gvalue *a, const graft_gvalue *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, sizeof a->dim) == 0 &&
           memcmp(a->stride, b->stride, (size_t)a->rank * sizeof *a->stride) == 0;
}

/* Whether the nodes are the same layers, at least one. */
static bool same_layers(const graft_graph *g, size_t i, const graft_graph *q, size_t j)
{
    char one[128], other[128];
    size_t n = graft_quant_node_layers(g, i);
    if (!n || n != graft_quant_node_layers(q, j)) return false;
    for (size_t k = 0; k < n; k++)
        if (!graft_quant_node_layer(g, i, k, one) || !graft_quant_node_layer(q, j, k, other) ||
            strcmp(one, other) != 0)
            return false;
    return true;
}

/* Whether node j of the quantized graph computes what node i computes, on the same weights. */
static bool is_twin(const graft_graph *g, size_t i, const graft_graph *q, size_t j)
{
    const graft_gnode *a = &g->node[i], *b = &q->node[j];
    graft_attrs attrs = b->attrs;
    if (a->op != b->op || !attrs.quant) return false;
    attrs.quant = a->attrs.quant;
    if (memcmp(&attrs, &a->attrs, sizeof attrs) != 0) return false;
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
        if ((a->in[k] < 0) != (b->in[k] < 0)) return false;
        if (a->in[k] >= 0 && !same_value(&g->value[a->in[k]], &q->value[b->in[k]])) return false;
    }
    return same_value(&g->value[a->out], &q->value[b->out]) && same_layers(g, i, q, j);
}

/* The graphs are alike node by node but for passes that quantization disturbs. */
static void find_twins(graft_replay *r)
{
    const graft_graph *g = r->binding->exe->graph, *q = r->quantized->exe->graph;
    for (size_t i = 0; i < g->n_nodes; i++) {
        size_t j = i;
        if (!graft_quant_node_layers(g, i))
            j = q->n_nodes;
        else if (i >= q->n_nodes || !is_twin(g, i, q, i))
            for (j = 0; j < q->n_nodes && !is_twin(g, i, q, j); j++) continue;
        r->twin[i] = j < q->n_nodes ? j : NO_NODE;
    }
}

bool graft_replay_has_twin(const graft_replay *r, size_t node)
{
    return r->twin[node] != NO_NODE;
}

graft_status graft_replay_create(graft_binding *b, graft_binding *quantized, graft_replay **out,
                                 graft_err *e)
{
    graft_replay *r = graft_calloc(1, sizeof *r);
    if (!r) return graft_fail_nomem(e, "calibration");
    atomic_fetch_add(&b->refs, 1);
    atomic_fetch_add(&quantized->refs, 1);
    r->binding = b;
    r->quantized = quantized;
    graft_status st = allocate(r, e);
    if (st) {
        graft_replay_destroy(r);
        return st;
    }
    find_twins(r);
    *out = r;
    return GRAFT_OK;
}

void graft_replay_destroy(graft_replay *r)
{
    if (!r) return;
    const graft_backend *k = r->binding->exe->backend;
    for (int i = 0; i < 2; i++)
        if (r->block[i]) k->api->free(k->device, r->block[i]);
    if (r->workspace) k->api->free(k->device, r->workspace);
    if (r->weight) k->api->free(k->device, r->weight);
    graft_free(r->offset);
    graft_free(r->changed);
    graft_free(r->seconds);
    graft_free(r->twin);
    graft_free(r->values);
    graft_binding_release(r->quantized);
    graft_binding_release(r->binding);
    graft_free(r);
}

/* ------------------------------------------------------------------ running */

/* A weight of the binding, brought to the device if need be. */
static graft_status weight_of(const graft_replay *r, const graft_binding *b, size_t use,
                              const void **out)
{
    const graft_backend *k = b->exe->backend;
    *out = graft_pack_data(b->pack[use]);
    if (!b->offload || b->offload->all.place[use] < 0) return GRAFT_OK;
    graft_status st = k->api->upload(k->device, r->weight, *out, b->exe->use[use].bytes);
    *out = r->weight;
    return st;
}

/* Inputs of node i; constants are those of node `n` of the binding. */
static graft_status gather(const graft_replay *r, size_t i, const graft_binding *b, size_t n,
                           const void *in[GRAFT_MAX_INPUTS])
{
    const graft_graph *g = graph_of(r);
    graft_status st = GRAFT_OK;
    for (int k = 0; k < GRAFT_MAX_INPUTS && !st; k++) {
        graft_vid v = g->node[i].in[k];
        const graft_gvalue *x = v < 0 ? NULL : &g->value[v];
        if (!x)
            in[k] = NULL;
        else if (x->kind == GRAFT_VALUE_WEIGHT || x->kind == GRAFT_VALUE_CONST)
            st = weight_of(r, b, (size_t)(-2 - b->exe->step[n].in[k]), &in[k]);
        else
            in[k] = address(r, r->changed[x->root], x->root) +
                    x->offset * (int64_t)graft_dtype_size(x->dtype);
    }
    return st;
}

static graft_status launched(const graft_replay *r, graft_status st, graft_err *e)
{
    const graft_backend *k = r->binding->exe->backend;
    char text[256] = "";
    if (!st) st = k->api->wait(k->device, text, sizeof text);
    if (!st) return GRAFT_OK;
    return graft_fail(e, st, "backend %s: %s", k->name, text[0] ? text : graft_status_text(st));
}

/* Node i as node `n` of the binding computes it, into a copy of its result. seconds: NULL, or what
 * that took, what it reads being there. */
static graft_status launch(graft_replay *r, size_t i, const graft_binding *b, size_t n, int copy,
                           double *seconds, graft_err *e)
{
    const void *in[GRAFT_MAX_INPUTS];
    graft_status st = gather(r, i, b, n, in);
    const double start = graft_clock_now();
    if (!st)
        st = b->exe->backend->api->launch(b->exe->step[n].kernel, in,
                                          address(r, copy, graph_of(r)->node[i].out), r->workspace);
    st = launched(r, st, e);
    if (seconds) *seconds = graft_clock_now() - start;
    return st;
}

/* The same, timed; *shortest is what earlier turns took. */
static graft_status launch_timed(graft_replay *r, size_t i, bool twin, int turn, graft_err *e)
{
    double *shortest = &r->seconds[twin ? graph_of(r)->n_nodes + i : i], seconds;
    graft_status st =
        launch(r, i, twin ? r->quantized : r->binding, twin ? r->twin[i] : i, twin, &seconds, e);
    if (!turn || seconds < *shortest) *shortest = seconds;
    return st;
}

void graft_replay_reset(graft_replay *r)
{
    memset(r->changed, 0, graph_of(r)->n_values * sizeof *r->changed);
}

graft_status graft_replay_run(graft_replay *r, const void *const *in, const graft_task *task,
                              graft_err *e)
{
    const graft_graph *g = graph_of(r);
    const graft_backend *k = r->binding->exe->backend;
    graft_replay_reset(r);
    for (size_t i = 0; i < g->n_inputs; i++) {
        graft_vid v = g->input[i];
        uint64_t bytes =
            (uint64_t)graft_gvalue_count(&g->value[v]) * graft_dtype_size(g->value[v].dtype);
        graft_status st = k->api->upload(k->device, address(r, 0, v), in[i], bytes);
        if (st) return graft_fail(e, st, "backend %s: %s", k->name, graft_status_text(st));
    }
    for (int turn = 0; turn < TURNS; turn++) {
        double begun = graft_clock_now();
        for (size_t i = 0; i < g->n_nodes; i++) {
            if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
            /* Who runs second finds the inputs in the caches: they take turns. */
            bool has = graft_replay_has_twin(r, i), first = has && turn % 2;
            graft_status st = launch_timed(r, i, first, turn, e);
            if (!st && has) st = launch_timed(r, i, !first, turn, e);
            if (st) return st;
        }
        if (turn && graft_clock_now() - begun > RUN_SECONDS) break;
    }
    return GRAFT_OK;
}

double graft_replay_seconds(const graft_replay *r, size_t node)
{
    return r->seconds[node];
}

double graft_replay_twin_seconds(const graft_replay *r, size_t node)
{
    return r->seconds[graph_of(r)->n_nodes + node];
}

static bool reads_change(const graft_replay *r, size_t i)
{
    const graft_graph *g = graph_of(r);
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
        if (g->node[i].in[k] >= 0 && r->changed[g->value[g->node[i].in[k]].root]) return true;
    return false;
}

graft_status graft_replay_continue(graft_replay *r, size_t from, size_t to, const graft_task *task,
                                   graft_err *e)
{
    for (size_t i = from + 1; i <= to; i++) {
        if (!reads_change(r, i)) continue;
        if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        graft_status st = launch(r, i, r->binding, i, 1, NULL, e);
        if (st) return st;
        r->changed[graph_of(r)->node[i].out] = true;
    }
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ values */

int64_t graft_replay_count(const graft_replay *r, size_t node)
{
    return graft_gvalue_count(root_of(r, node));
}

/* A copy of a node's result as float32. */
static graft_status read_values(const graft_replay *r, size_t node, int copy, float *out,
                                graft_err *e)
{
    const graft_backend *k = r->binding->exe->backend;
    const graft_gvalue *x = root_of(r, node);
    size_t n = (size_t)graft_gvalue_count(x);
    float *raw = x->dtype == GRAFT_F32 ? out : r->values + r->largest;
    graft_status st = k->api->download(k->device, raw, address(r, copy, x->root),
                                       (uint64_t)n * graft_dtype_size(x->dtype));
    if (st) return graft_fail(e, st, "backend %s: %s", k->name, graft_status_text(st));
    if (x->dtype == GRAFT_BF16)
        graft_bf16_to_f32_array(raw, out, n);
    else if (x->dtype == GRAFT_F16)
        graft_f16_to_f32_array(raw, out, n);
    return GRAFT_OK;
}

graft_status graft_replay_square(graft_replay *r, size_t node, int64_t first, int64_t count,
                                 double *out, graft_err *e)
{
    const graft_gvalue *x = root_of(r, node);
    int64_t n = graft_replay_count(r, node), wide = count ? x->dim[x->rank - 1] : n;
    if (!count) count = n;
    graft_status st = read_values(r, node, 0, r->values, e);
    *out = 0;
    for (int64_t i = first; i + count <= n && !st; i += wide)
        *out += graft_metric_square_sum(r->values + i, (size_t)count);
    return st;
}

graft_status graft_replay_difference(graft_replay *r, size_t node, float *out, graft_err *e)
{
    int64_t n = graft_replay_count(r, node);
    graft_status st = read_values(r, node, 1, out, e);
    if (!st) st = read_values(r, node, 0, r->values, e);
    for (int64_t i = 0; i < n && !st; i++) out[i] -= r->values[i];
    return st;
}

graft_status graft_replay_disturb(graft_replay *r, size_t node, const float *difference,
                                  graft_err *e)
{
    const graft_backend *k = r->binding->exe->backend;
    const graft_gvalue *x = root_of(r, node);
    size_t n = (size_t)graft_gvalue_count(x);
    graft_status st = read_values(r, node, 0, r->values, e);
    if (st) return st;
    float *raw = r->values;
    for (size_t i = 0; i < n; i++) raw[i] += difference[i];
    if (x->dtype != GRAFT_F32) raw = r->values + r->largest;
    if (x->dtype == GRAFT_BF16)
        graft_f32_to_bf16_array(r->values, raw, n);
    else if (x->dtype == GRAFT_F16)
        graft_f32_to_f16_array(r->values, raw, n);
    st = k->api->upload(k->device, address(r, 1, x->root), raw,
                        (uint64_t)n * graft_dtype_size(x->dtype));
    if (st) return graft_fail(e, st, "backend %s: %s", k->name, graft_status_text(st));
    r->changed[x->root] = true;
    return GRAFT_OK;
}
