#include "kernels/cuda/libs/dnn.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/libs/dnn_plans.h"
#include "kernels/cuda/device/open.h"

/* For threads that make plans: of one thread at a time. It stays until the end, since graphs and
 * plans may refer to it. */
typedef struct spare_handle {
    cudnnHandle_t handle;
    struct spare_handle *next;
} spare_handle;

struct graft_cuda_dnn {
    graft_device *d;
    graft_dnn_table f;
    cudnnHandle_t handle;      /* NULL when deviceless */
    graft_dnn_desc properties; /* of the described device */
    pthread_mutex_t lock;      /* guards what follows; nothing is made under it */
    pthread_cond_t changed;    /* a set became ready */
    graft_dnn_plans *sets;
    spare_handle *spare;
    bool told; /* that plans on disk were no good */
};

#define INT8_LEAST 16 /* pixels of a result: below, compiling a plan costs more than it gains */
/* With one descriptor for the whole of attention. What is known of 9.14.0 is a fault of sliding
 * windows, which nothing here uses. */
#define SDPA_SINCE 91301

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
    /* Without it compiled plans drop out by themselves. */
    if (graft_cuda_open(nvrtc, &dl, NULL))
        graft_cuda_log(dnn->d, GRAFT_LOG_DEBUG, "no NVRTC, so cuDNN compiles no plans");
    else
        graft_cuda_log_path(dnn->d, "NVRTC", 0, graft_cuda_path(&dl));
    for (size_t i = 0; i < sizeof files / sizeof *files && !st; i++)
        st = graft_cuda_open(files[i], &dl, e);
    if (!st) st = graft_cuda_symbols(&dl, names, &dnn->f, "cuDNN", e);
    if (!st) graft_cuda_log_path(dnn->d, "cuDNN", dnn->f.version(), graft_cuda_path(&dl));
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
    pthread_cond_init(&dnn->changed, NULL);
    graft_status st = load(dnn, e);
    if (!st && dnn->f.version() / 10000 != 9)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "cuDNN %zu, expected 9", dnn->f.version());
    if (st) {
        pthread_cond_destroy(&dnn->changed);
        pthread_mutex_destroy(&dnn->lock);
        d->host.free(dnn);
    } else {
        *out = dnn;
    }
    return st;
}

/* On the device's stream, as some engines launch into that of the handle that their plan was made
 * with, whichever executes it. */
static cudnnStatus_t make_handle(const graft_cuda_dnn *dnn, cudnnHandle_t *out)
{
    cudnnStatus_t s = dnn->f.create(out);
    if (!s && (s = dnn->f.set_stream(*out, (cudaStream_t)dnn->d->stream))) {
        dnn->f.destroy(*out);
        *out = NULL;
    }
    return s;
}

graft_status graft_cuda_dnn_open(graft_device *d, graft_cuda_dnn **out, graft_err *e)
{
    graft_status st = start(d, out, e);
    if (st) return st;
    graft_cuda_dnn *dnn = *out;
    cudnnStatus_t s = make_handle(dnn, &dnn->handle);
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
        graft_dnn_plans *s = dnn->sets;
        dnn->sets = s->next;
        graft_dnn_plans_finish(&dnn->f, s);
        d->host.free(s);
    }
    if (dnn->properties) dnn->f.drop(dnn->properties);
    while (dnn->spare) {
        spare_handle *h = dnn->spare;
        dnn->spare = h->next;
        dnn->f.destroy(h->handle);
        d->host.free(h);
    }
    if (dnn->handle) dnn->f.destroy(dnn->handle);
    pthread_cond_destroy(&dnn->changed);
    pthread_mutex_destroy(&dnn->lock);
    d->host.free(dnn);
}

size_t graft_cuda_dnn_version(const graft_cuda_dnn *dnn)
{
    return dnn->f.version();
}

/* ------------------------------------------------------------------ plans by shape */

/* What distinguishes shapes for cuDNN, the rest zeroed, so that bytes can be compared. */
static void make_key(const graft_op_desc *op, graft_op_desc *key)
{
    memset(key, 0, sizeof *key);
    memcpy(key, op, sizeof *key);
    key->attrs.act = 0;
    if (!graft_dnn_of_levels(op)) key->attrs.quant = 0;
    if (op->op == GRAFT_OP_CONV2D) memset(&key->in[GRAFT_CONV_CHANNEL_ADD], 0, sizeof key->in[0]);
    for (int i = 0; i < GRAFT_MAX_INPUTS; i++)
        if (!graft_cuda_present(&op->in[i])) memset(&key->in[i], 0, sizeof key->in[i]);
}

static graft_status take_handle(graft_cuda_dnn *dnn, spare_handle **out, graft_err *e)
{
    pthread_mutex_lock(&dnn->lock);
    spare_handle *h = dnn->spare;
    if (h) dnn->spare = h->next;
    pthread_mutex_unlock(&dnn->lock);
    *out = h;
    if (h) return GRAFT_OK;
    h = dnn->d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *h);
    if (!h) return graft_fail_nomem(e, "a handle of cuDNN");
    graft_cuda_lock(dnn->d); /* not while a run is recorded */
    cudnnStatus_t s = make_handle(dnn, &h->handle);
    graft_cuda_unlock(dnn->d);
    if (!s) {
        *out = h;
        return GRAFT_OK;
    }
    dnn->d->host.free(h);
    return graft_fail(e, GRAFT_E_DEVICE, "cuDNN: a handle: %s", dnn->f.status_text(s));
}

static void give_handle(graft_cuda_dnn *dnn, spare_handle *h)
{
    pthread_mutex_lock(&dnn->lock);
    h->next = dnn->spare;
    dnn->spare = h;
    pthread_mutex_unlock(&dnn->lock);
}

/* What the calling thread makes plans with; *own is given back. */
static graft_status begin_making(graft_cuda_dnn *dnn, graft_dnn_maker *m, spare_handle **own,
                                 graft_err *e)
{
    *m = (graft_dnn_maker){dnn->d, dnn, &dnn->f, NULL, dnn->properties};
    *own = NULL;
    graft_cuda_lock(dnn->d); /* for the context, which this thread has from now on */
    graft_cuda_unlock(dnn->d);
    if (dnn->properties) return GRAFT_OK;
    graft_status st = take_handle(dnn, own, e);
    if (!st) m->handle = (*own)->handle;
    return st;
}

/* From disk where it is there, else made and kept. No lock is held. */
static void fill_set(graft_cuda_dnn *dnn, graft_dnn_plans *set, graft_err *e)
{
    graft_dnn_maker m;
    spare_handle *own;
    if (begin_making(dnn, &m, &own, e)) return;
    graft_status st = graft_dnn_plans_restore(&m, set);
    if (st == GRAFT_E_FORMAT) {
        pthread_mutex_lock(&dnn->lock);
        bool told = dnn->told;
        dnn->told = true;
        pthread_mutex_unlock(&dnn->lock);
        if (!told)
            graft_cuda_log(dnn->d, GRAFT_LOG_WARN,
                           "cuDNN does not take plans that were kept on disk; they are made anew");
    }
    if (st) {
        graft_dnn_plans_make(&m, set, e);
        graft_dnn_plans_keep(&m, set);
    }
    if (own) give_handle(dnn, own);
}

static void set_is_ready(graft_cuda_dnn *dnn, graft_dnn_plans *set)
{
    pthread_mutex_lock(&dnn->lock);
    set->ready = true;
    pthread_cond_broadcast(&dnn->changed);
    pthread_mutex_unlock(&dnn->lock);
}

/* The set of this shape, filled by the first that asks while others wait; NULL without memory. */
static graft_dnn_plans *find_set(graft_cuda_dnn *dnn, const graft_op_desc *op, graft_err *e)
{
    graft_op_desc key;
    graft_dnn_plans *set;
    make_key(op, &key);
    pthread_mutex_lock(&dnn->lock);
    for (set = dnn->sets; set; set = set->next)
        if (memcmp(&set->key, &key, sizeof key) == 0) break;
    while (set && !set->ready) pthread_cond_wait(&dnn->changed, &dnn->lock);
    bool mine = !set;
    if (mine && (set = dnn->d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *set)) != NULL) {
        memset(set, 0, sizeof *set);
        set->key = key;
        set->next = dnn->sets;
        dnn->sets = set;
    }
    pthread_mutex_unlock(&dnn->lock);
    if (!mine || !set) return set;
    fill_set(dnn, set, e);
    set_is_ready(dnn, set);
    return set;
}

/* Whether plan `index` is there, which is made if it is offered and nobody has done so; others wait
 * meanwhile. *count: how many are offered. */
static bool reach(graft_cuda_dnn *dnn, graft_dnn_plans *set, int32_t index, int32_t *count,
                  graft_err *e)
{
    for (;;) {
        pthread_mutex_lock(&dnn->lock);
        while (!set->ready) pthread_cond_wait(&dnn->changed, &dnn->lock);
        bool there = index < set->count, mine = !there && index < set->offered;
        *count = set->offered;
        if (mine) set->ready = false;
        pthread_mutex_unlock(&dnn->lock);
        if (!mine) return there;
        graft_dnn_maker m;
        spare_handle *own;
        bool able = begin_making(dnn, &m, &own, e) == GRAFT_OK;
        if (able) {
            graft_dnn_plans_more(&m, set);
            graft_dnn_plans_keep(&m, set);
        }
        if (own) give_handle(dnn, own);
        set_is_ready(dnn, set);
        if (!able) return false;
    }
}

static graft_status choose(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                           graft_cuda_dnn_plan **out, int32_t *count, graft_err *e)
{
    *count = 0;
    graft_dnn_plans *set = find_set(dnn, op, e);
    if (!set) return GRAFT_E_NOMEM;
    if (!reach(dnn, set, index, count, e)) return GRAFT_E_UNSUPPORTED;
    if (out && index >= 0) *out = &set->plan[index];
    return GRAFT_OK;
}

/* Every row 16 bytes aligned, or nothing between the rows, as in pictures of 3 or 4 channels. */
static bool rows_fit(const graft_tensor_desc *t)
{
    if (t->dim[3] % 8 && t->stride[2] == t->dim[3] && t->stride[1] == t->dim[2] * t->stride[2])
        return true;
    return t->stride[0] % 8 == 0 && t->stride[1] % 8 == 0 && t->stride[2] % 8 == 0;
}

graft_status graft_cuda_dnn_conv(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                                 graft_cuda_dnn_plan **out, int32_t *count, graft_err *e)
{
    *count = 0;
    if (!rows_fit(&op->in[GRAFT_CONV_X]) || !rows_fit(&op->out) ||
        !rows_fit(&op->in[GRAFT_CONV_RESIDUAL]))
        return GRAFT_E_UNSUPPORTED;
    return choose(dnn, op, index, out, count, e);
}

bool graft_cuda_dnn_takes_levels(const graft_op_desc *op)
{
    const int64_t *w = op->in[GRAFT_CONV_W].dim, *y = op->out.dim;
    bool yes = w[0] % 16 == 0 && w[1] % 16 == 0 && y[0] * y[1] * y[2] >= INT8_LEAST;
    for (int i = 0; i < 3; i++)
        yes = yes && op->out.stride[i] % 8 == 0 && op->in[GRAFT_CONV_RESIDUAL].stride[i] % 8 == 0;
    return yes;
}

graft_status graft_cuda_dnn_int8(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                                 graft_cuda_dnn_plan **out, int32_t *count, graft_err *e)
{
    *count = 0;
    if (!graft_cuda_dnn_takes_levels(op)) return GRAFT_E_UNSUPPORTED;
    return choose(dnn, op, index, out, count, e);
}

graft_status graft_cuda_dnn_attention(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                                      graft_cuda_dnn_plan **out, int32_t *count, graft_err *e)
{
    size_t version = dnn->f.version();
    *count = 0;
    if (version < SDPA_SINCE) return GRAFT_E_UNSUPPORTED;
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
    if (p->request == GRAFT_CUDA_DNN_ATTENTION) {
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
        s ? graft_cuda_refused(d, p->request, b.status ? b.failed : f->status_text(s)) : GRAFT_OK;
    graft_dnn_finish(&b);
    return st;
}
