#include "kernels/cuda/dnn.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/dnn_graph.h"
#include "kernels/cuda/open.h"

struct graft_cuda_dnn_plan {
    graft_cuda_dnn *dnn;
    graft_dnn_desc plan;
    int64_t engine, workspace;
    bool compiled, attention;
    float scale; /* of the scores; the plan reads it when it runs */
};

/* The plans of one shape; none: cuDNN cannot do it. */
typedef struct plan_set {
    graft_op_desc key;
    graft_dnn_builder graph, heuristics; /* what the plans came from: they may refer to it */
    int32_t count;
    graft_cuda_dnn_plan plan[GRAFT_CUDA_DNN_PLANS];
    struct plan_set *next;
} plan_set;

struct graft_cuda_dnn {
    graft_device *d;
    graft_dnn_table f;
    cudnnHandle_t handle;      /* NULL when deviceless */
    graft_dnn_desc properties; /* of the described device */
    pthread_mutex_t lock;      /* guards the list */
    plan_set *sets;
};

#define WORKSPACE_MOST ((int64_t)256 << 20)
#define INT8_LEAST     16 /* pixels of a result: below, compiling a plan costs more than it gains */
#define SDPA_SINCE     91301 /* with one descriptor for the whole of attention */
#define SDPA_NOT       91400 /* has a known fault in it */

/* libcudnn.so aborts the process when one of its parts is missing, so they are tried first. */
static graft_status load(graft_cuda_dnn *dnn, graft_err *e)
{
#define DNN_NAME(field, function) #function,
    static const char *const names[] = {GRAFT_DNN_FUNCTIONS(DNN_NAME) NULL};
    static const char *const nvrtc[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    static const char *const files[][2] = {{"libcudnn_graph.so.9", NULL},
                                           {"libcudnn_engines_precompiled.so.9", NULL},
                                           {"libcudnn_engines_runtime_compiled.so.9", NULL},
                                           {"libcudnn_heuristic.so.9", NULL},
                                           {"libcudnn.so.9", NULL}};
    graft_dl dl = {NULL};
    graft_status st = GRAFT_OK;
    graft_cuda_open(nvrtc, &dl, NULL); /* without it compiled plans drop out by themselves */
    for (size_t i = 0; i < sizeof files / sizeof *files && !st; i++)
        st = graft_cuda_open(files[i], &dl, e);
    if (!st) st = graft_cuda_symbols(&dl, names, &dnn->f, "cuDNN", e);
    return st ? graft_err_prefix(e, st, "no cuDNN, so convolutions and attention use own kernels")
              : GRAFT_OK;
}

static graft_status start(graft_device *d, graft_cuda_dnn **out, graft_err *e)
{
    *out = NULL;
    graft_cuda_dnn *dnn = d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *dnn);
    if (!dnn) return graft_fail_nomem(e, "cuDNN");
    memset(dnn, 0, sizeof *dnn);
    dnn->d = d;
    pthread_mutex_init(&dnn->lock, NULL);
    graft_status st = load(dnn, e);
    if (!st && dnn->f.version() / 10000 != 9)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "cuDNN %zu, expected 9", dnn->f.version());
    if (st) {
        pthread_mutex_destroy(&dnn->lock);
        d->host.free(dnn);
    } else {
        *out = dnn;
    }
    return st;
}

graft_status graft_cuda_dnn_open(graft_device *d, graft_cuda_dnn **out, graft_err *e)
{
    graft_status st = start(d, out, e);
    if (st) return st;
    graft_cuda_dnn *dnn = *out;
    cudnnStatus_t s = dnn->f.create(&dnn->handle);
    if (!s) s = dnn->f.set_stream(dnn->handle, (cudaStream_t)d->stream);
    if (!s) return GRAFT_OK;
    st = graft_fail(e, GRAFT_E_DEVICE, "cuDNN %zu does not open: %s", dnn->f.version(),
                    dnn->f.status_text(s));
    graft_cuda_dnn_close(d, dnn);
    *out = NULL;
    return st;
}

graft_status graft_cuda_dnn_open_deviceless(graft_device *d, const char *properties,
                                            graft_cuda_dnn **out, graft_err *e)
{
    graft_status st = start(d, out, e);
    if (st) return st;
    graft_cuda_dnn *dnn = *out;
    graft_dnn_builder b = {.f = &dnn->f};
    graft_dnn_desc p = graft_dnn_make(&b, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    graft_dnn_set(&b, p, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  (int64_t)strlen(properties), properties);
    graft_dnn_finalize(&b, p, "the device's description");
    dnn->properties = p;
    if (!b.status) return GRAFT_OK;
    st = graft_fail(e, GRAFT_E_UNSUPPORTED, "cuDNN: %s", b.failed);
    dnn->properties = NULL;
    graft_dnn_finish(&b);
    graft_cuda_dnn_close(d, dnn);
    *out = NULL;
    return st;
}

void graft_cuda_dnn_close(graft_device *d, graft_cuda_dnn *dnn)
{
    if (!dnn) return;
    while (dnn->sets) {
        plan_set *s = dnn->sets;
        dnn->sets = s->next;
        for (int32_t i = 0; i < s->count; i++) dnn->f.drop(s->plan[i].plan);
        graft_dnn_finish(&s->heuristics);
        graft_dnn_finish(&s->graph);
        d->host.free(s);
    }
    if (dnn->properties) dnn->f.drop(dnn->properties);
    if (dnn->handle) dnn->f.destroy(dnn->handle);
    pthread_mutex_destroy(&dnn->lock);
    d->host.free(dnn);
}

size_t graft_cuda_dnn_version(const graft_cuda_dnn *dnn)
{
    return dnn->f.version();
}

/* ------------------------------------------------------------------ making plans */

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

static void plan_config(graft_cuda_dnn *dnn, plan_set *set, graft_dnn_desc config, int64_t engine,
                        bool compiled)
{
    const graft_dnn_table *f = &dnn->f;
    graft_dnn_builder b = {.f = f};
    int64_t n = 0, workspace = 0;
    graft_dnn_desc p = graft_dnn_make(&b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    graft_dnn_set_one(&b, p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (dnn->handle)
        graft_dnn_set(&b, p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn->handle);
    else
        graft_dnn_set_one(&b, p, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, dnn->properties);
    graft_dnn_finalize(&b, p, "a plan");
    if (!b.status &&
        f->get(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &workspace) ==
            CUDNN_STATUS_SUCCESS &&
        workspace >= 0 && workspace <= WORKSPACE_MOST) {
        set->plan[set->count++] =
            (graft_cuda_dnn_plan){.dnn = dnn,
                                  .plan = p,
                                  .engine = engine,
                                  .workspace = workspace,
                                  .compiled = compiled,
                                  .attention = set->key.op == GRAFT_OP_ATTENTION,
                                  .scale = set->key.attrs.scale};
        b.n = 0; /* the plan stays */
    }
    graft_dnn_finish(&b);
}

enum { CONFIGS = 32 };

/* Precompiled plans first; one that has to be compiled only where there are none, since that takes
 * up to seconds. */
static void take_configs(graft_cuda_dnn *dnn, plan_set *set, const graft_dnn_desc *config,
                         int64_t n)
{
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < n && set->count < GRAFT_CUDA_DNN_PLANS; i++) {
            bool compiled;
            int64_t engine = engine_of(&dnn->f, config[i], &compiled);
            if (engine < 0 || compiled != (pass == 1) || (pass == 1 && set->count)) continue;
            plan_config(dnn, set, config[i], engine, compiled);
        }
}

static void make_plans(graft_cuda_dnn *dnn, plan_set *set, graft_dnn_desc graph)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    graft_dnn_desc config[CONFIGS];
    for (int m = 0; m < 2 && !set->count; m++) {
        int64_t n = 0, made = 0;
        graft_dnn_builder sub = {.f = &dnn->f};
        graft_dnn_desc h = graft_dnn_make(&sub, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        graft_dnn_set_one(&sub, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
        graft_dnn_set(&sub, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &modes[m]);
        if (dnn->properties)
            graft_dnn_set_one(&sub, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, dnn->properties);
        graft_dnn_finalize(&sub, h, "heuristics");
        while (made < CONFIGS && !sub.status)
            config[made++] = graft_dnn_make(&sub, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if (!sub.status &&
            dnn->f.get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &n,
                       config) == CUDNN_STATUS_SUCCESS)
            take_configs(dnn, set, config, n < made ? n : made);
        if (set->count)
            set->heuristics = sub;
        else
            graft_dnn_finish(&sub);
    }
}

/* What distinguishes shapes for cuDNN, the rest zeroed, so that bytes can be compared. */
static void make_key(const graft_op_desc *op, graft_op_desc *key)
{
    memset(key, 0, sizeof *key);
    memcpy(key, op, sizeof *key);
    key->attrs.act = 0;
    if (op->attrs.quant != GRAFT_QUANT_INT8) key->attrs.quant = 0;
    if (op->op == GRAFT_OP_CONV2D) memset(&key->in[GRAFT_CONV_CHANNEL_ADD], 0, sizeof key->in[0]);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (!graft_cuda_present(&op->in[i])) memset(&key->in[i], 0, sizeof key->in[i]);
}

/* The set of this shape, made when it is not there; NULL without memory. */
static plan_set *find_set(graft_cuda_dnn *dnn, const graft_op_desc *op, graft_err *e)
{
    graft_op_desc key;
    make_key(op, &key);
    for (plan_set *s = dnn->sets; s; s = s->next)
        if (memcmp(&s->key, &key, sizeof key) == 0) return s;
    plan_set *set = dnn->d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *set);
    if (!set) return NULL;
    memset(set, 0, sizeof *set);
    set->key = key;
    graft_dnn_builder *b = &set->graph;
    b->f = &dnn->f;
    graft_dnn_desc graph = op->op == GRAFT_OP_ATTENTION ? graft_dnn_attention_graph(b, op)
                                                        : graft_dnn_conv_graph(b, op);
    if (graph) make_plans(dnn, set, graph);
    if (b->status) graft_fail(e, GRAFT_E_UNSUPPORTED, "cuDNN: %s", b->failed);
    if (!set->count) graft_dnn_finish(b);
    set->next = dnn->sets;
    dnn->sets = set;
    return set;
}

static graft_status choose(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                           graft_cuda_dnn_plan **out, int32_t *count, graft_err *e)
{
    graft_status st = GRAFT_E_NOMEM;
    *count = 0;
    graft_cuda_lock(dnn->d); /* before ours, as everywhere */
    pthread_mutex_lock(&dnn->lock);
    plan_set *set = find_set(dnn, op, e);
    if (set) {
        *count = set->count;
        st = index < set->count ? GRAFT_OK : GRAFT_E_UNSUPPORTED;
        if (!st && out && index >= 0) *out = &set->plan[index];
    }
    pthread_mutex_unlock(&dnn->lock);
    graft_cuda_unlock(dnn->d);
    return st;
}

graft_status graft_cuda_dnn_conv(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                                 graft_cuda_dnn_plan **out, int32_t *count, graft_err *e)
{
    *count = 0;
    for (int i = 0; i < 3; i++) /* every row 16 bytes aligned */
        if (op->in[GRAFT_CONV_X].stride[i] % 8 || op->out.stride[i] % 8 ||
            op->in[GRAFT_CONV_RESIDUAL].stride[i] % 8)
            return GRAFT_E_UNSUPPORTED;
    return choose(dnn, op, index, out, count, e);
}

graft_status graft_cuda_dnn_int8(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                                 graft_cuda_dnn_plan **out, int32_t *count, graft_err *e)
{
    const int64_t *w = op->in[GRAFT_CONV_W].dim, *y = op->out.dim;
    *count = 0;
    if (w[0] % 16 || w[1] % 16) return GRAFT_E_UNSUPPORTED;
    if (y[0] * y[1] * y[2] < INT8_LEAST) return GRAFT_E_UNSUPPORTED;
    for (int i = 0; i < 3; i++)
        if (op->out.stride[i] % 8 || op->in[GRAFT_CONV_RESIDUAL].stride[i] % 8)
            return GRAFT_E_UNSUPPORTED;
    return choose(dnn, op, index, out, count, e);
}

graft_status graft_cuda_dnn_attention(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                                      graft_cuda_dnn_plan **out, int32_t *count, graft_err *e)
{
    size_t version = dnn->f.version();
    *count = 0;
    if (version < SDPA_SINCE || version == SDPA_NOT) return GRAFT_E_UNSUPPORTED;
    if (op->out.dim[2] / op->attrs.heads % 8) return GRAFT_E_UNSUPPORTED;
    for (int i = 0; i < 2; i++)
        if (op->in[0].stride[i] % 8 || op->in[1].stride[i] % 8 || op->in[2].stride[i] % 8 ||
            op->out.stride[i] % 8)
            return GRAFT_E_UNSUPPORTED;
    return choose(dnn, op, index, out, count, e);
}

/* ------------------------------------------------------------------ plans */

uint64_t graft_cuda_dnn_workspace(const graft_cuda_dnn_plan *p)
{
    return (uint64_t)p->workspace;
}

void graft_cuda_dnn_name(const graft_cuda_dnn_plan *p, char *out, size_t n)
{
    snprintf(out, n, "cudnn engine %lld%s", (long long)p->engine, p->compiled ? " compiled" : "");
}

bool graft_cuda_dnn_compiled(const graft_cuda_dnn_plan *p)
{
    return p->compiled;
}

graft_status graft_cuda_dnn_run(graft_device *d, graft_cuda_dnn_plan *p, const void *const *data,
                                int n, void *workspace)
{
    const graft_dnn_table *f = &p->dnn->f;
    graft_dnn_builder b = {.f = f};
    const void *pointer[8];
    int64_t id[8], count = 0;
    if (d->lost[0]) return GRAFT_E_DEVICE;
    for (int i = 0; i < n; i++) {
        if (!data[i]) continue;
        pointer[count] = data[i];
        id[count++] = i + 1;
    }
    if (p->attention) {
        pointer[count] = &p->scale;
        id[count++] = 5;
    }
    graft_dnn_desc pack = graft_dnn_make(&b, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    graft_dnn_set(&b, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                  pointer);
    graft_dnn_set(&b, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, id);
    graft_dnn_set(&b, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    graft_dnn_finalize(&b, pack, "the pointers of a plan");
    cudnnStatus_t s = b.status ? b.status : f->execute(p->dnn->handle, p->plan, pack);
    graft_status st =
        s ? graft_cuda_lose(d, "cuDNN: a plan", b.status ? b.failed : f->status_text(s)) : GRAFT_OK;
    graft_dnn_finish(&b);
    return st;
}
