#include "engine/quant/replay.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/half.h"

/* What is short is timed more often: the first turns wake threads and fill caches. */
enum { TURNS = 3 };
#define RUN_SECONDS  0.02
#define TWIN_SECONDS 1e-3

struct graft_replay {
    graft_binding *binding;
    void *block[2]; /* device memory: clean and changed values */
    void *workspace;
    uint64_t *offset; /* of each root value in a block */
    bool *changed;    /* of each root value */
    double *seconds;  /* of each node */
    float *values;    /* host memory for the largest value, twice */
    size_t largest;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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

static graft_status allocate(graft_replay *r, graft_err *e)
{
    const graft_exe *x = r->binding->exe;
    const graft_graph *g = x->graph;
    uint64_t bytes = 0, workspace = 64;
    r->offset = graft_calloc(g->n_values, sizeof *r->offset);
    r->changed = graft_calloc(g->n_values, sizeof *r->changed);
    r->seconds = graft_calloc(g->n_nodes, sizeof *r->seconds);
    if (!r->offset || !r->changed || !r->seconds) return graft_fail_nomem(e, "calibration");
    graft_status st = lay_out(r, &bytes, e);
    if (st) return st;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (x->info[i].workspace_bytes > workspace) workspace = x->info[i].workspace_bytes;
    r->values = graft_malloc_array(2 * r->largest, sizeof *r->values);
    for (int k = 0; k < 2; k++)
        r->block[k] = x->backend->api->alloc(x->backend->device, bytes ? bytes : 1);
    r->workspace = x->backend->api->alloc(x->backend->device, workspace);
    bool ok = r->values && r->block[0] && r->block[1] && r->workspace;
    return ok ? GRAFT_OK
              : graft_fail(e, GRAFT_E_NOMEM, "out of memory: calibration needs %llu MB",
                           (unsigned long long)(2 * bytes >> 20));
}

graft_status graft_replay_create(graft_binding *b, graft_replay **out, graft_err *e)
{
    graft_replay *r = graft_calloc(1, sizeof *r);
    if (!r) return graft_fail_nomem(e, "calibration");
    atomic_fetch_add(&b->refs, 1);
    r->binding = b;
    graft_status st = allocate(r, e);
    if (st)
        graft_replay_destroy(r);
    else
        *out = r;
    return st;
}

void graft_replay_destroy(graft_replay *r)
{
    if (!r) return;
    const graft_backend *k = r->binding->exe->backend;
    for (int i = 0; i < 2; i++)
        if (r->block[i]) k->api->free(k->device, r->block[i]);
    if (r->workspace) k->api->free(k->device, r->workspace);
    graft_free(r->offset);
    graft_free(r->changed);
    graft_free(r->seconds);
    graft_free(r->values);
    graft_binding_release(r->binding);
    graft_free(r);
}

/* ------------------------------------------------------------------ running */

/* Inputs of node i; constants are those of `pack` (one an input) or, where that is NULL, the
 * binding's. */
static void gather(const graft_replay *r, size_t i, void *const *pack,
                   const void *in[GRAFT_MAX_INPUTS])
{
    const graft_graph *g = graph_of(r);
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
        graft_vid v = g->node[i].in[k];
        const graft_gvalue *x = v < 0 ? NULL : &g->value[v];
        if (!x)
            in[k] = NULL;
        else if (x->kind == GRAFT_VALUE_WEIGHT || x->kind == GRAFT_VALUE_CONST)
            in[k] = pack ? pack[k]
                         : graft_pack_data(r->binding->pack[-2 - r->binding->exe->step[i].in[k]]);
        else
            in[k] = address(r, r->changed[x->root], x->root) +
                    x->offset * (int64_t)graft_dtype_size(x->dtype);
    }
}

static graft_status launched(const graft_replay *r, graft_status st, graft_err *e)
{
    const graft_backend *k = r->binding->exe->backend;
    char text[256] = "";
    if (!st) st = k->api->wait(k->device, text, sizeof text);
    if (!st) return GRAFT_OK;
    return graft_fail(e, st, "backend %s: %s", k->name, text[0] ? text : graft_status_text(st));
}

static graft_status launch(graft_replay *r, size_t i, int copy, graft_err *e)
{
    const graft_exe *x = r->binding->exe;
    const void *in[GRAFT_MAX_INPUTS];
    gather(r, i, NULL, in);
    return launched(r,
                    x->backend->api->launch(x->step[i].kernel, in,
                                            address(r, copy, x->graph->node[i].out), r->workspace),
                    e);
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
        double begun = now();
        for (size_t i = 0; i < g->n_nodes; i++) {
            if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
            double start = now();
            graft_status st = launch(r, i, 0, e);
            if (st) return st;
            double seconds = now() - start;
            if (!turn || seconds < r->seconds[i]) r->seconds[i] = seconds;
        }
        if (turn && now() - begun > RUN_SECONDS) break;
    }
    return GRAFT_OK;
}

double graft_replay_seconds(const graft_replay *r, size_t node)
{
    return r->seconds[node];
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
        graft_status st = launch(r, i, 1, e);
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

graft_status graft_replay_square(graft_replay *r, size_t node, double *out, graft_err *e)
{
    int64_t n = graft_replay_count(r, node);
    graft_status st = read_values(r, node, 0, r->values, e);
    *out = 0;
    for (int64_t i = 0; i < n && !st; i++) *out += (double)r->values[i] * (double)r->values[i];
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

/* ------------------------------------------------------------------ twins */

typedef struct twin {
    const graft_replay *replay;
    size_t node;
    graft_kernel *kernel;
    graft_kernel_info info;
    void *pack[GRAFT_MAX_INPUTS];
    void *workspace;
} twin;

static graft_status pack_input(twin *t, int k, graft_err *e)
{
    const graft_replay *r = t->replay;
    const graft_graph *g = graph_of(r);
    const graft_backend *b = r->binding->exe->backend;
    const graft_gvalue *x = &g->value[g->node[t->node].in[k]];
    graft_slot_data data = {0};
    graft_status st = GRAFT_OK;
    if (x->kind == GRAFT_VALUE_CONST) {
        data.dtype = g->literal[x->index].dtype;
        data.data = g->literal[x->index].data;
    } else {
        st = graft_weights_load(r->binding->weights, &g->slot[x->index], &data, e);
        if (st) return st;
    }
    uint64_t bytes = t->info.packed_bytes[k];
    t->pack[k] = b->api->alloc(b->device, bytes ? bytes : 1);
    st = t->pack[k] ? b->api->pack(t->kernel, k, data.dtype, data.data, t->pack[k]) : GRAFT_E_NOMEM;
    graft_slot_data_finish(&data);
    return st ? graft_fail(e, st, "backend %s: packing a weight: %s", b->name,
                           graft_status_text(st))
              : GRAFT_OK;
}

static graft_status twin_prepare(twin *t, graft_quant quant, graft_err *e)
{
    const graft_graph *g = graph_of(t->replay);
    const graft_backend *b = t->replay->binding->exe->backend;
    graft_op_desc desc;
    char text[256] = "";
    graft_graph_desc(g, t->node, &desc);
    desc.attrs.quant = quant;
    t->info.size = sizeof t->info;
    if (!b->api->supports(b->device, &desc)) return GRAFT_E_UNSUPPORTED;
    graft_status st =
        b->api->prepare(b->device, &desc, -1, &t->kernel, &t->info, text, sizeof text);
    if (st) return graft_fail(e, st, "backend %s: %s", b->name, text);
    for (int k = 0; k < GRAFT_MAX_INPUTS && !st; k++) {
        graft_vid v = g->node[t->node].in[k];
        if (v < 0) continue;
        const graft_gvalue *x = &g->value[v];
        if (x->kind == GRAFT_VALUE_WEIGHT || x->kind == GRAFT_VALUE_CONST) st = pack_input(t, k, e);
    }
    if (!st && t->info.workspace_bytes) {
        t->workspace = b->api->alloc(b->device, t->info.workspace_bytes);
        if (!t->workspace) st = graft_fail_nomem(e, "calibration");
    }
    return st;
}

static void twin_finish(twin *t)
{
    const graft_backend *b = t->replay->binding->exe->backend;
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
        if (t->pack[k]) b->api->free(b->device, t->pack[k]);
    if (t->workspace) b->api->free(b->device, t->workspace);
    b->api->release(t->kernel);
}

graft_status graft_replay_twin(graft_replay *r, size_t i, graft_quant quant, float *difference,
                               double *seconds, graft_err *e)
{
    twin t = {.replay = r, .node = i};
    const graft_graph *g = graph_of(r);
    const void *in[GRAFT_MAX_INPUTS];
    graft_replay_reset(r);
    graft_status st = twin_prepare(&t, quant, e);
    gather(r, i, t.pack, in);
    for (int turn = 0; turn < TURNS && !st; turn++) {
        double start = now();
        st = launched(r,
                      r->binding->exe->backend->api->launch(
                          t.kernel, in, address(r, 1, g->node[i].out), t.workspace),
                      e);
        double spent = now() - start;
        if (!turn || spent < *seconds) *seconds = spent;
        if (turn && spent > TWIN_SECONDS) break;
    }
    if (!st) st = graft_replay_difference(r, i, difference, e);
    twin_finish(&t);
    return st;
}
