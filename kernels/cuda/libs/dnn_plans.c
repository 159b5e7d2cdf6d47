#include "kernels/cuda/libs/dnn_plans.h"

#include <string.h>

#include "kernels/cuda/device/keep.h"

#define WORKSPACE_MOST ((int64_t)256 << 20)

static int64_t engine_of(const graft_dnn_table *f, graft_dnn_desc config, bool *compiled)
{
    graft_dnn_desc engine = NULL;
    cudnnBackendBehaviorNote_t note[8];
    int64_t n = 0, index = -1;
    *compiled = false;
    if (f->make(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine)) return -1;
    if (f->get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
               &engine) == CUDNN_STATUS_SUCCESS) {
        f->get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &index);
        n = 0;
        if (f->get(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, 8, &n,
                   note) == CUDNN_STATUS_SUCCESS)
            for (int64_t i = 0; i < n && i < 8; i++)
                *compiled |= note[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    }
    f->drop(engine);
    return index;
}

static graft_dnn_desc begin_plan(const graft_dnn_maker *m, graft_dnn_builder *b)
{
    graft_dnn_desc p = graft_dnn_make(b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (m->handle)
        graft_dnn_set(b, p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &m->handle);
    else
        graft_dnn_set_one(b, p, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, m->properties);
    return p;
}

/* Finalizes the builder's only descriptor and adds it to the set, if it is any good. */
static graft_cuda_request request_of(const graft_op_desc *op)
{
    if (op->op == GRAFT_OP_ATTENTION) return GRAFT_CUDA_DNN_ATTENTION;
    if (!graft_dnn_of_levels(op)) return GRAFT_CUDA_DNN_CONV;
    return op->attrs.quant == GRAFT_QUANT_FP8 ? GRAFT_CUDA_DNN_FP8 : GRAFT_CUDA_DNN_INT8;
}

static bool end_plan(const graft_dnn_maker *m, graft_dnn_builder *b, graft_dnn_desc p,
                     graft_dnn_plans *set, const graft_cuda_dnn_plan *what)
{
    int64_t n = 0, workspace = -1;
    graft_dnn_finalize(b, p, "a plan");
    bool good = !b->status &&
                m->f->get(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
                          &workspace) == CUDNN_STATUS_SUCCESS &&
                workspace >= 0 && workspace <= WORKSPACE_MOST;
    if (good) {
        set->plan[set->count++] = (graft_cuda_dnn_plan){.dnn = m->dnn,
                                                        .plan = p,
                                                        .engine = what->engine,
                                                        .config = what->config,
                                                        .workspace = workspace,
                                                        .compiled = what->compiled,
                                                        .request = request_of(&set->key),
                                                        .scale = set->key.attrs.scale};
        b->n = 0; /* the plan stays */
    }
    graft_dnn_finish(b);
    return good;
}

static bool plan_config(const graft_dnn_maker *m, graft_dnn_plans *set, graft_dnn_desc config,
                        const graft_cuda_dnn_plan *what)
{
    graft_dnn_builder b = {.f = m->f};
    graft_dnn_desc p = begin_plan(m, &b);
    graft_dnn_set_one(&b, p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return end_plan(m, &b, p, set, what);
}

enum { CONFIGS = 32, COMPILED_MOST = 3 };

/* Precompiled plans first; one that has to be compiled only where there are none, since that takes
 * up to seconds. For attention, which takes as long as anything in a network, more are offered.
 * first: the number of the first of these. */
static void take_configs(const graft_dnn_maker *m, graft_dnn_plans *set,
                         const graft_dnn_desc *config, int64_t n, int64_t first)
{
    const bool attention = set->key.op == GRAFT_OP_ATTENTION;
    int32_t later = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < n && set->count < GRAFT_CUDA_DNN_PLANS; i++) {
            graft_cuda_dnn_plan what = {.config = first + i};
            what.engine = engine_of(m->f, config[i], &what.compiled);
            if (what.engine < 0 || what.compiled != (pass == 1)) continue;
            if (pass == 1 && set->count)
                later += attention && set->plan[0].compiled && later < COMPILED_MOST - 1;
            else
                plan_config(m, set, config[i], &what);
        }
    set->offered = set->count + later;
}

/* Asks the heuristics; config has room for CONFIGS. How many there are. */
static int64_t propose(const graft_dnn_maker *m, graft_dnn_builder *sub, graft_dnn_desc graph,
                       cudnnBackendHeurMode_t mode, graft_dnn_desc *config)
{
    int64_t n = 0, made = 0;
    sub->f = m->f;
    graft_dnn_desc h = graft_dnn_make(sub, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    graft_dnn_set_one(sub, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    graft_dnn_set(sub, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (m->properties) graft_dnn_set_one(sub, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, m->properties);
    graft_dnn_finalize(sub, h, "heuristics");
    while (made < CONFIGS && !sub->status)
        config[made++] = graft_dnn_make(sub, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (sub->status || m->f->get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 made, &n, config) != CUDNN_STATUS_SUCCESS)
        return 0;
    return n < made ? n : made;
}

static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};

static graft_dnn_desc begin_source(const graft_dnn_maker *m, const graft_dnn_plans *set,
                                   graft_dnn_source *source)
{
    graft_dnn_builder *b = &source->graph;
    b->f = m->f;
    b->handle = m->handle;
    return set->key.op == GRAFT_OP_ATTENTION ? graft_dnn_attention_graph(b, &set->key)
                                             : graft_dnn_conv_graph(b, &set->key);
}

static void drop_source(graft_dnn_source *source)
{
    graft_dnn_finish(&source->heuristics);
    graft_dnn_finish(&source->graph);
    memset(source, 0, sizeof *source);
}

void graft_dnn_plans_make(const graft_dnn_maker *m, graft_dnn_plans *set, graft_err *e)
{
    graft_dnn_source *source = &set->source[set->sources++];
    graft_dnn_desc config[CONFIGS], graph = begin_source(m, set, source);
    for (int mode = 0; mode < 2 && graph && !set->count; mode++) {
        graft_dnn_finish(&source->heuristics);
        memset(&source->heuristics, 0, sizeof source->heuristics);
        int64_t n = propose(m, &source->heuristics, graph, modes[mode], config);
        take_configs(m, set, config, n, mode * CONFIGS);
    }
    if (source->graph.status) graft_fail(e, GRAFT_E_UNSUPPORTED, "cuDNN: %s", source->graph.failed);
    if (set->count) return;
    drop_source(source);
    set->sources--;
}

void graft_dnn_plans_more(const graft_dnn_maker *m, graft_dnn_plans *set)
{
    const int64_t last = set->plan[set->count - 1].config;
    const int32_t count = set->count;
    graft_dnn_source *source = &set->source[set->sources++];
    graft_dnn_desc config[CONFIGS], graph = begin_source(m, set, source);
    int64_t n = 0;
    if (graph) n = propose(m, &source->heuristics, graph, modes[last / CONFIGS], config);
    for (int64_t i = last % CONFIGS + 1; i < n && set->count == count; i++) {
        graft_cuda_dnn_plan what = {.config = last / CONFIGS * CONFIGS + i};
        what.engine = engine_of(m->f, config[i], &what.compiled);
        if (what.engine >= 0 && what.compiled) plan_config(m, set, config[i], &what);
    }
    if (set->count > count) return;
    set->offered = count;
    drop_source(source);
    set->sources--;
}

void graft_dnn_plans_finish(const graft_dnn_table *f, graft_dnn_plans *set)
{
    for (int32_t i = 0; i < set->count; i++) f->drop(set->plan[i].plan);
    set->count = set->offered = 0;
    while (set->sources) drop_source(&set->source[--set->sources]);
}

/* ------------------------------------------------------------------ on disk */

/* An entry: a head, and for each plan a record followed by cuDNN's text of the plan, which holds
 * its compiled kernels. */
typedef struct kept_head {
    int64_t count, offered;
} kept_head;
typedef struct kept_plan {
    int64_t engine, compiled, config, bytes;
} kept_plan;

static graft_cuda_key key_of(const graft_dnn_plans *set)
{
    return (graft_cuda_key){"cudnn plans 2", &set->key, sizeof set->key};
}

/* Whether n more bytes are there; they are copied. */
static bool take(const char **at, uint64_t *left, void *to, uint64_t n)
{
    if (n > *left) return false;
    memcpy(to, *at, n);
    *at += n;
    *left -= n;
    return true;
}

static bool restore_all(const graft_dnn_maker *m, graft_dnn_plans *set, const char *at,
                        uint64_t left)
{
    kept_head head;
    if (!take(&at, &left, &head, sizeof head)) return false;
    if (head.count < 1 || head.count > head.offered || head.offered > GRAFT_CUDA_DNN_PLANS)
        return false;
    for (int64_t i = 0; i < head.count; i++) {
        kept_plan k;
        if (!take(&at, &left, &k, sizeof k)) return false;
        if (k.bytes < 1 || (uint64_t)k.bytes > left || k.engine < 0) return false;
        if (k.config < 0 || k.config >= 2 * CONFIGS) return false;
        const graft_cuda_dnn_plan what = {
            .engine = k.engine, .config = k.config, .compiled = k.compiled == 1};
        graft_dnn_builder b = {.f = m->f};
        graft_dnn_desc p = begin_plan(m, &b);
        graft_dnn_set(&b, p, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                      k.bytes, at);
        if (!end_plan(m, &b, p, set, &what)) return false;
        at += k.bytes;
        left -= (uint64_t)k.bytes;
    }
    set->offered = (int32_t)head.offered;
    return left == 0;
}

graft_status graft_dnn_plans_restore(const graft_dnn_maker *m, graft_dnn_plans *set)
{
    graft_cuda_key key = key_of(set);
    uint64_t bytes;
    char *data = graft_cuda_keep_read(m->d, &key, &bytes);
    if (!data) return GRAFT_E_NOTFOUND;
    bool good = restore_all(m, set, data, bytes);
    if (!good) graft_dnn_plans_finish(m->f, set);
    m->d->host.free(data);
    return good ? GRAFT_OK : GRAFT_E_FORMAT;
}

/* The length of the plan's text, and the text where `to` has room for it; 0: it has none. */
static int64_t text_of(const graft_dnn_table *f, graft_dnn_desc plan, int64_t room, char *to)
{
    int64_t n = 0;
    if (f->get(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, room, &n, to))
        return 0;
    return n;
}

void graft_dnn_plans_keep(const graft_dnn_maker *m, const graft_dnn_plans *set)
{
    kept_head head = {set->count, set->offered};
    kept_plan k[GRAFT_CUDA_DNN_PLANS];
    uint64_t bytes = sizeof head;
    if (!set->count || !m->d->host.kept_write) return;
    for (int32_t i = 0; i < set->count; i++) {
        const graft_cuda_dnn_plan *p = &set->plan[i];
        k[i] = (kept_plan){p->engine, p->compiled, p->config, text_of(m->f, p->plan, 0, NULL)};
        if (k[i].bytes < 1) return;
        bytes += sizeof *k + (uint64_t)k[i].bytes;
    }
    char *data = m->d->host.alloc(GRAFT_CUDA_ALIGN, bytes), *to = data;
    if (!data) return; /* it is made again, then */
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    bool good = true;
    for (int32_t i = 0; i < set->count && good; i++) {
        memcpy(to, &k[i], sizeof *k);
        to += sizeof *k;
        good = text_of(m->f, set->plan[i].plan, k[i].bytes, to) == k[i].bytes;
        to += k[i].bytes;
    }
    graft_cuda_key key = key_of(set);
    if (good) graft_cuda_keep_write(m->d, &key, data, bytes);
    m->d->host.free(data);
}
