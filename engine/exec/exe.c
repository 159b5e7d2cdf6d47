#include "engine/exec/exe.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/exec/crew.h"
#include "engine/plan/plan.h"

/* Work in progress of graft_exe_create(). */
typedef struct exe_builder {
    graft_exe *x;
    const graft_graph *g;
    graft_interval *interval; /* storages, then workspaces */
    int32_t *storage;         /* of each root value, -1: none */
    int32_t *last_use;        /* step at which each root is read last */
    size_t n_intervals, n_storages;
    graft_err *e;
} exe_builder;

static int64_t value_bytes(const graft_gvalue *v)
{
    return graft_gvalue_count(v) * (int64_t)graft_dtype_size(v->dtype);
}

static bool is_constant(const graft_gvalue *v)
{
    return v->kind == GRAFT_VALUE_WEIGHT || v->kind == GRAFT_VALUE_CONST;
}

static graft_status prepare_variant(const exe_builder *b, size_t i, int32_t variant, graft_err *e)
{
    graft_exe *x = b->x;
    graft_op_desc desc;
    char text[512] = "";
    graft_graph_desc(b->g, i, &desc);
    x->info[i].size = sizeof x->info[i];
    graft_status st = x->backend->api->prepare(x->backend->device, &desc, variant,
                                               &x->step[i].kernel, &x->info[i], text, sizeof text);
    if (!st) return GRAFT_OK;
    x->step[i].kernel = NULL;
    return graft_fail(e, st, "backend %s, operator %zu (%s): %s", x->backend->name, i,
                      graft_op_name(desc.op), text[0] ? text : graft_status_text(st));
}

static graft_status prepare_step(const exe_builder *b, const graft_exe_choices *choices, size_t i,
                                 graft_err *e)
{
    int32_t variant = choices && i < choices->n ? choices->variant[i] : -1;
    graft_status st = prepare_variant(b, i, variant, e);
    if (st && variant >= 0 && st != GRAFT_E_NOMEM) st = prepare_variant(b, i, -1, e);
    return st;
}

/* ------------------------------------------------------------------ preparing in parallel */

#define THREADS_MAX 4
#define THREAD_WORK 32 /* steps that are worth a thread */

typedef struct prepare_job {
    const exe_builder *b;
    const graft_exe_choices *choices;
} prepare_job;

static graft_status prepare_one(void *ctx, size_t i, const graft_task *task, graft_err *e)
{
    const prepare_job *j = ctx;
    graft_status st = prepare_step(j->b, j->choices, i, e);
    graft_task_progress(task, i, j->b->g->n_nodes);
    return st;
}

static graft_status prepare_all(exe_builder *b, const graft_exe_choices *choices,
                                const graft_task *task)
{
    prepare_job j = {b, choices};
    size_t n = b->g->n_nodes;
    int threads = b->x->backend->threads;
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    if ((size_t)threads > n / THREAD_WORK) threads = (int)(n / THREAD_WORK);
    return graft_crew_run(n, threads, prepare_one, &j, task, b->e);
}

/* Packs are shared between uses of one weight in one layout. */
static void count_weight_bytes(graft_exe *x)
{
    x->weight_bytes = 0;
    for (size_t i = 0; i < x->n_uses; i++) {
        const graft_exe_use *u = &x->use[i];
        bool again = false;
        for (size_t k = 0; k < i && !again; k++) again = graft_exe_same_weight(&x->use[k], u);
        if (!again) x->weight_bytes += u->bytes;
    }
}

static graft_status collect_uses(exe_builder *b)
{
    graft_exe *x = b->x;
    size_t cap = 0;
    for (size_t i = 0; i < b->g->n_nodes; i++) {
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
            graft_vid v = b->g->node[i].in[k];
            if (v < 0 || !is_constant(&b->g->value[v])) continue;
            const graft_gvalue *c = &b->g->value[v];
            if (graft_graph_is_view(b->g, v))
                return graft_fail(b->e, GRAFT_E_INTERNAL, "operator %zu reads part of a weight", i);
            if (graft_grow(&x->use, &cap, x->n_uses + 1, sizeof *x->use))
                return graft_fail_nomem(b->e, "weight table");
            bool literal = c->kind == GRAFT_VALUE_CONST;
            x->step[i].in[k] = -2 - (int64_t)x->n_uses;
            x->use[x->n_uses++] = (graft_exe_use){(uint32_t)i,
                                                  k,
                                                  literal ? -1 : c->index,
                                                  literal ? c->index : -1,
                                                  x->info[i].packed_bytes[k],
                                                  x->info[i].packing[k]};
        }
    }
    count_weight_bytes(x);
    return GRAFT_OK;
}

static void find_last_uses(exe_builder *b)
{
    const graft_graph *g = b->g;
    for (size_t i = 0; i < g->n_values; i++) b->last_use[i] = -1;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
            if (g->node[i].in[k] >= 0) b->last_use[g->value[g->node[i].in[k]].root] = (int32_t)i;
    for (size_t i = 0; i < g->n_outputs; i++)
        b->last_use[g->value[g->output[i]].root] = (int32_t)g->n_nodes;
}

static int32_t add_interval(exe_builder *b, int64_t bytes, int32_t first, int32_t last)
{
    b->interval[b->n_intervals] = (graft_interval){.bytes = bytes, .first = first, .last = last};
    return (int32_t)b->n_intervals++;
}

/* The storage that node i's output may take over from an input that dies there, or -1. What such a
 * storage has beyond a smaller output is free from the next node on. */
static int32_t inplace_storage(const exe_builder *b, size_t i)
{
    const graft_graph *g = b->g;
    const graft_gnode *n = &g->node[i];
    const graft_gvalue *out = &g->value[n->out];
    for (int k = 0; k < graft_op_input_count(n->op); k++) {
        graft_vid v = n->in[k];
        if (v < 0 || is_constant(&g->value[v]) || !b->x->backend->api->inplace) continue;
        const graft_gvalue *in = &g->value[v];
        const graft_gvalue *root = &g->value[in->root];
        if (root->kind != GRAFT_VALUE_TEMP || b->last_use[in->root] != (int32_t)i) continue;
        if (!graft_gvalue_dense(in) || in->offset || value_bytes(root) != value_bytes(in) ||
            value_bytes(in) < value_bytes(out))
            continue;
        if (value_bytes(in) > value_bytes(out) && b->interval[b->storage[in->root]].shrinks)
            continue;       /* the planner knows one such step */
        bool twice = false; /* another input of this node in the same memory */
        for (int j = 0; j < GRAFT_MAX_INPUTS; j++)
            if (j != k && n->in[j] >= 0 && g->value[n->in[j]].root == in->root) twice = true;
        if (!twice && b->x->backend->api->inplace(b->x->step[i].kernel, k))
            return b->storage[in->root];
    }
    return -1;
}

static void take_over(graft_interval *v, int32_t node, int32_t last, int64_t bytes)
{
    v->last = last;
    if (bytes == graft_interval_bytes(v, node) || last == node) return;
    v->shrinks = node + 1;
    v->rest = bytes;
}

/* Storages of inputs and of what nodes make, then one interval for each workspace. */
static void make_intervals(exe_builder *b)
{
    const graft_graph *g = b->g;
    for (size_t i = 0; i < g->n_values; i++) b->storage[i] = -1;
    for (size_t i = 0; i < g->n_inputs; i++) {
        graft_vid v = g->input[i];
        int32_t last = b->last_use[v] < 0 ? 0 : b->last_use[v];
        b->storage[v] = add_interval(b, value_bytes(&g->value[v]), 0, last);
    }
    for (size_t i = 0; i < g->n_nodes; i++) {
        graft_vid v = g->node[i].out;
        int32_t last = b->last_use[v] < (int32_t)i ? (int32_t)i : b->last_use[v];
        int32_t s = inplace_storage(b, i);
        if (s >= 0)
            take_over(&b->interval[s], (int32_t)i, last, value_bytes(&g->value[v]));
        else
            s = add_interval(b, value_bytes(&g->value[v]), (int32_t)i, last);
        b->storage[v] = s;
    }
    b->n_storages = b->n_intervals;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (b->x->info[i].workspace_bytes)
            add_interval(b, (int64_t)b->x->info[i].workspace_bytes, (int32_t)i, (int32_t)i);
}

static int64_t offset_of(const exe_builder *b, graft_vid v)
{
    const graft_gvalue *x = &b->g->value[v];
    return b->interval[b->storage[x->root]].offset +
           x->offset * (int64_t)graft_dtype_size(x->dtype);
}

static void resolve_offsets(exe_builder *b)
{
    const graft_graph *g = b->g;
    graft_exe *x = b->x;
    size_t workspace = b->n_storages;
    for (size_t i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
            graft_vid v = g->node[i].in[k];
            if (v < 0)
                x->step[i].in[k] = -1;
            else if (!is_constant(&g->value[v]))
                x->step[i].in[k] = offset_of(b, v);
        }
        x->step[i].out = offset_of(b, g->node[i].out);
        x->step[i].workspace = x->info[i].workspace_bytes ? b->interval[workspace++].offset : -1;
    }
    for (size_t i = 0; i < g->n_inputs; i++)
        x->input[i] =
            (graft_exe_io){offset_of(b, g->input[i]), value_bytes(&g->value[g->input[i]])};
    for (size_t i = 0; i < g->n_outputs; i++)
        x->output[i] =
            (graft_exe_io){offset_of(b, g->output[i]), value_bytes(&g->value[g->output[i]])};
}

/* What lives at each step: the curve of a run's memory. */
static void note_live_bytes(exe_builder *b)
{
    for (size_t k = 0; k < b->n_intervals; k++) {
        const graft_interval *v = &b->interval[k];
        for (int32_t i = v->first; i <= v->last && i < (int32_t)b->g->n_nodes; i++)
            b->x->live[i] += graft_interval_bytes(v, i);
    }
}

static graft_status plan_memory(exe_builder *b)
{
    const graft_graph *g = b->g;
    graft_exe *x = b->x;
    for (size_t i = 0; i < g->n_outputs; i++) {
        const graft_gvalue *v = &g->value[g->output[i]];
        if (v->kind != GRAFT_VALUE_TEMP || !graft_gvalue_dense(v))
            return graft_fail(b->e, GRAFT_E_INTERNAL, "output %zu is not a dense result", i);
    }
    b->interval = graft_calloc(g->n_inputs + 2 * g->n_nodes, sizeof *b->interval);
    b->storage = graft_malloc_array(g->n_values, sizeof *b->storage);
    b->last_use = graft_malloc_array(g->n_values, sizeof *b->last_use);
    if (!b->interval || !b->storage || !b->last_use) return graft_fail_nomem(b->e, "memory plan");
    int64_t align = x->backend->info.alignment < 64 ? 64 : x->backend->info.alignment;
    find_last_uses(b);
    make_intervals(b);
    graft_status st = graft_plan_offsets(b->interval, b->n_intervals, align, &x->arena_bytes,
                                         &x->arena_bound, b->e);
    if (st) return st;
    if (!graft_plan_valid(b->interval, b->n_intervals, align, x->arena_bytes))
        return graft_fail(b->e, GRAFT_E_INTERNAL, "the memory plan overlaps");
    note_live_bytes(b);
    resolve_offsets(b);
    return GRAFT_OK;
}

static graft_status allocate_tables(graft_exe *x, const graft_graph *g, graft_err *e)
{
    x->step = graft_calloc(g->n_nodes, sizeof *x->step);
    x->info = graft_calloc(g->n_nodes, sizeof *x->info);
    x->live = graft_calloc(g->n_nodes, sizeof *x->live);
    x->input = graft_calloc(g->n_inputs, sizeof *x->input);
    x->output = graft_calloc(g->n_outputs, sizeof *x->output);
    bool ok = x->step && x->info && x->live && x->input && x->output;
    return ok ? GRAFT_OK : graft_fail_nomem(e, "executable");
}

static void builder_finish(exe_builder *b)
{
    graft_free(b->interval);
    graft_free(b->storage);
    graft_free(b->last_use);
}

graft_status graft_exe_create(graft_graph *graph, graft_backend *backend,
                              const graft_exe_choices *choices, const graft_task *task,
                              graft_exe **out, graft_err *e)
{
    exe_builder b = {.g = graph, .e = e};
    graft_exe *x = graft_calloc(1, sizeof *x);
    graft_status st = GRAFT_OK;
    if (!x) return graft_fail_nomem(e, "executable");
    b.x = x;
    atomic_init(&x->refs, 1);
    x->graph = graph; /* only for release to know the number of steps; given back on failure */
    x->backend = backend;
    GRAFT_TRY(allocate_tables(x, graph, e));
    GRAFT_TRY(prepare_all(&b, choices, task));
    GRAFT_TRY(collect_uses(&b));
    GRAFT_TRY(plan_memory(&b));
    x->recordings = graft_recordings_create(backend);
    *out = x;
    x = NULL;
out:
    builder_finish(&b);
    if (x) {
        for (size_t i = 0; x->step && i < graph->n_nodes; i++)
            backend->api->release(x->step[i].kernel);
        x->graph = NULL;
        graft_exe_release(x);
    }
    return st;
}

/* ------------------------------------------------------------------ other variants */

/* A kernel of another variant for step i of x, unless the run would need too much memory with it;
 * takes what its weights add off limits->more_weights. */
static void try_variant(const graft_exe *x, graft_exe *y, size_t i, graft_exe_choices *limits)
{
    int32_t variant = limits->variant[i];
    graft_op_desc desc;
    char text[256] = "";
    graft_kernel *kernel = NULL;
    graft_kernel_info info = {.size = sizeof info};
    graft_graph_desc(x->graph, i, &desc);
    if (x->backend->api->prepare(x->backend->device, &desc, variant, &kernel, &info, text,
                                 sizeof text))
        return;
    int64_t growth = 0;
    bool place = false; /* that only the kernel before can share with an input */
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
        place = place || (x->step[i].in[k] >= 0 && x->step[i].in[k] == x->step[i].out &&
                          !x->backend->api->inplace(kernel, k));
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
        growth += (int64_t)info.packed_bytes[k] - (int64_t)x->info[i].packed_bytes[k];
    int64_t live = x->live[i] + (int64_t)info.workspace_bytes - (int64_t)x->info[i].workspace_bytes;
    if (place || growth > limits->more_weights || live > x->arena_bytes) {
        x->backend->api->release(kernel);
        return;
    }
    if (growth > 0) limits->more_weights -= growth;
    y->step[i].kernel = kernel;
    y->info[i] = info;
}

static void swap_tables(graft_exe *x, graft_exe *y)
{
    graft_exe t = *x;
#define SWAP_FIELD(f) (x->f = y->f, y->f = t.f)
    SWAP_FIELD(step);
    SWAP_FIELD(info);
    SWAP_FIELD(use);
    SWAP_FIELD(n_uses);
    SWAP_FIELD(input);
    SWAP_FIELD(output);
    SWAP_FIELD(live);
    SWAP_FIELD(arena_bytes);
    SWAP_FIELD(arena_bound);
    SWAP_FIELD(weight_bytes);
#undef SWAP_FIELD
}

graft_status graft_exe_apply(graft_exe *x, const graft_exe_choices *choices, const graft_task *task,
                             graft_err *e)
{
    size_t n = x->graph->n_nodes;
    graft_exe_choices limits = *choices;
    graft_exe *y = graft_calloc(1, sizeof *y);
    exe_builder b = {.x = y, .g = x->graph, .e = e};
    graft_status st = GRAFT_OK;
    if (!y) return graft_fail_nomem(e, "executable");
    y->backend = x->backend;
    GRAFT_TRY(allocate_tables(y, x->graph, e));
    for (size_t i = 0; i < n; i++) {
        y->step[i].kernel = x->step[i].kernel;
        y->info[i] = x->info[i];
    }
    for (size_t i = 0; i < n && i < choices->n; i++) {
        int32_t variant = choices->variant[i];
        if (variant < 0 || variant == x->info[i].variant_index) continue;
        if (graft_task_cancelled(task)) {
            st = graft_fail(e, GRAFT_E_CANCEL, "cancelled");
            goto out;
        }
        try_variant(x, y, i, &limits);
    }
    GRAFT_TRY(collect_uses(&b));
    GRAFT_TRY(plan_memory(&b));
    if (y->arena_bytes <= x->arena_bytes)
        swap_tables(x, y);
    else if (task)
        graft_log_printf(&task->log, GRAFT_LOG_WARN,
                         "tuning changed nothing: together its choices would need %lld MiB more",
                         (long long)graft_size_mib((uint64_t)(y->arena_bytes - x->arena_bytes)));
out:
    /* y has what x let go of, or what it did not take. */
    for (size_t i = 0; y->step && i < n; i++)
        if (y->step[i].kernel && y->step[i].kernel != x->step[i].kernel)
            x->backend->api->release(y->step[i].kernel);
    atomic_init(&y->refs, 1);
    graft_exe_release(y); /* it has no graph, so no kernels go with it */
    builder_finish(&b);
    return st;
}

graft_exe *graft_exe_retain(graft_exe *x)
{
    atomic_fetch_add(&x->refs, 1);
    return x;
}

void graft_exe_release(graft_exe *x)
{
    if (!x || atomic_fetch_sub(&x->refs, 1) != 1) return;
    graft_recordings_destroy(x->recordings); /* before the kernels that are in them */
    for (size_t i = 0; x->graph && i < x->graph->n_nodes; i++)
        x->backend->api->release(x->step[i].kernel);
    graft_graph_destroy(x->graph);
    graft_free(x->step);
    graft_free(x->info);
    graft_free(x->kept);
    graft_free(x->use);
    graft_free(x->live);
    graft_free(x->input);
    graft_free(x->output);
    graft_free(x);
}
