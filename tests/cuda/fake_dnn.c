/* libcudnn.so.9 without a device: descriptors keep what is set, plans run convolutions with
 * additions, and attention, by loops. Two plans for each graph; the second has a workspace. */
#include <cudnn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda/fake_driver.h"
#include "tests/cuda/fake_value.h"

#define EXPORT __attribute__((visibility("default")))

enum { WORKSPACE = 1024, ATTRIBUTES = 16, STEPS = 4 };

typedef struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t n;
    char data[64];
} attribute;

typedef struct desc {
    cudnnBackendDescriptorType_t type;
    attribute attribute[ATTRIBUTES];
    int n;
    bool final;
    int64_t number;            /* of an engine's configuration */
    char *text;                /* of a plan that is to be restored */
    struct desc *restored[64]; /* what such a plan came from */
    int restored_n;
} desc;

EXPORT size_t cudnnGetVersion(void)
{
    const char *version = getenv("FAKE_CUDNN_VERSION");
    return version ? (size_t)atoi(version) : 91900;
}

EXPORT const char *cudnnGetErrorString(cudnnStatus_t s)
{
    return s ? "made up" : "success";
}

EXPORT void cudnnGetLastErrorString(char *text, size_t n)
{
    snprintf(text, n, "made up");
}

/* Handles are numbers that are not used again, so that one which was destroyed shows. */
enum { HANDLES = 1 << 16 };
static unsigned char alive[HANDLES];
static cudaStream_t stream_of[HANDLES];
static unsigned made;

static bool is_alive(uint64_t handle)
{
    return handle && handle < HANDLES && __atomic_load_n(&alive[handle], __ATOMIC_RELAXED);
}

EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
    unsigned number = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    if (number >= HANDLES) abort();
    if (!fake_cuda_context()) return CUDNN_STATUS_NOT_INITIALIZED;
    __atomic_store_n(&alive[number], 1, __ATOMIC_RELAXED);
    *h = (cudnnHandle_t)(uintptr_t)number;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    if (!is_alive((uintptr_t)h)) abort();
    __atomic_store_n(&alive[(uintptr_t)h], 0, __ATOMIC_RELAXED);
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
    if (!is_alive((uintptr_t)h)) return CUDNN_STATUS_BAD_PARAM;
    stream_of[(uintptr_t)h] = s;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  cudnnBackendDescriptor_t *out)
{
    desc *d = calloc(1, sizeof *d);
    if (!d) abort();
    d->type = type;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t p)
{
    desc *d = p;
    for (int i = 0; i < d->restored_n; i++) free(d->restored[i]);
    free(d->text);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t p,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t n,
                                              const void *value)
{
    desc *d = p;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
        d->text = strndup(value, (size_t)n);
        return CUDNN_STATUS_SUCCESS;
    }
    size_t size = type == CUDNN_TYPE_BOOLEAN ? 1
                  : type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_BACKEND_DESCRIPTOR ||
                          type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE
                      ? 8
                      : 4;
    if (d->final || d->n == ATTRIBUTES || size * (size_t)n > sizeof d->attribute[0].data)
        return CUDNN_STATUS_BAD_PARAM;
    attribute *a = &d->attribute[d->n++];
    a->name = name;
    a->type = type;
    a->n = n;
    memcpy(a->data, value, size * (size_t)n);
    return CUDNN_STATUS_SUCCESS;
}

static const attribute *find(const desc *d, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < d->n; i++)
        if (d->attribute[i].name == name) return &d->attribute[i];
    return NULL;
}

static int64_t number(const desc *d, cudnnBackendAttributeName_t name, int i)
{
    const attribute *a = find(d, name);
    int64_t v = 0;
    if (a) memcpy(&v, a->data + 8 * i, sizeof v);
    return v;
}

static const desc *link_of(const desc *d, cudnnBackendAttributeName_t name, int i)
{
    const attribute *a = find(d, name);
    const desc *to = NULL;
    if (a && i < a->n) memcpy(&to, a->data + 8 * i, sizeof(desc *));
    return to;
}

/* ------------------------------------------------------------------ plans as text
 *
 * "fake VERSION", then a line a descriptor, those that it refers to first: type, number, count of
 * attributes; of each its name, type, count, and its bytes or the numbers of descriptors. */

typedef struct text {
    char data[16384];
    int n;
    const desc *written[64];
    int written_n;
} text;

static int write_desc(text *t, const desc *d)
{
    int links[ATTRIBUTES][8];
    for (int i = 0; i < t->written_n; i++)
        if (t->written[i] == d) return i;
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->attribute[i].n && k < 8; k++)
            if (d->attribute[i].type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
                links[i][k] = write_desc(t, link_of(d, d->attribute[i].name, k));
#define ADD(...)                                                                                   \
    t->n += snprintf(t->data + t->n, sizeof t->data - (size_t)t->n, __VA_ARGS__);                  \
    if (t->n >= (int)sizeof t->data) abort()
    ADD("%d %lld %d", (int)d->type, (long long)d->number, d->n);
    for (int i = 0; i < d->n; i++) {
        const attribute *a = &d->attribute[i];
        ADD(" %d %d %lld", (int)a->name, (int)a->type, (long long)a->n);
        if (a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
            for (int k = 0; k < a->n; k++) {
                ADD(" %d", links[i][k]);
            }
        else
            for (size_t k = 0; k < sizeof a->data; k++) {
                ADD("%s%02x", k ? "" : " ", (unsigned char)a->data[k]);
            }
    }
    ADD("\n");
#undef ADD
    if (t->written_n == 64) abort();
    t->written[t->written_n] = d;
    return t->written_n++;
}

static cudnnStatus_t plan_text(const desc *plan, int64_t most, int64_t *count, void *out)
{
    text t = {.n = 0};
    t.n = snprintf(t.data, sizeof t.data, "fake %zu\n", cudnnGetVersion());
    write_desc(&t, link_of(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0));
    *count = t.n;
    if (most) memcpy(out, t.data, (size_t)(most < t.n ? most : t.n));
    return CUDNN_STATUS_SUCCESS;
}

static bool read_attribute(const desc *plan, attribute *a, char **at)
{
    a->name = (cudnnBackendAttributeName_t)strtol(*at, at, 10);
    a->type = (cudnnBackendAttributeType_t)strtol(*at, at, 10);
    a->n = strtol(*at, at, 10);
    if (a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        for (int64_t i = 0; i < a->n && i < 8; i++) {
            long link = strtol(*at, at, 10);
            if (link < 0 || link >= plan->restored_n) return false;
            memcpy(a->data + 8 * i, &plan->restored[link], sizeof(desc *));
        }
        return a->n >= 0 && a->n <= 8;
    }
    for (size_t i = 0; i < sizeof a->data; i++) {
        unsigned byte;
        if (sscanf(*at + (i ? 0 : 1), "%2x", &byte) != 1) return false;
        a->data[i] = (char)byte;
        *at += i ? 2 : 3;
    }
    return true;
}

static cudnnStatus_t restore_plan(desc *plan)
{
    char first[32], *at = plan->text;
    snprintf(first, sizeof first, "fake %zu\n", cudnnGetVersion());
    if (strncmp(at, first, strlen(first)) != 0) return CUDNN_STATUS_NOT_SUPPORTED;
    at += strlen(first);
    while (*at) {
        desc *d = calloc(1, sizeof *d);
        if (!d || plan->restored_n == 64) abort();
        plan->restored[plan->restored_n++] = d;
        d->type = (cudnnBackendDescriptorType_t)strtol(at, &at, 10);
        d->number = strtol(at, &at, 10);
        d->n = (int)strtol(at, &at, 10);
        d->final = true;
        if (d->n < 0 || d->n > ATTRIBUTES) return CUDNN_STATUS_BAD_PARAM;
        for (int i = 0; i < d->n; i++)
            if (!read_attribute(plan, &d->attribute[i], &at)) return CUDNN_STATUS_BAD_PARAM;
        if (*at++ != '\n') return CUDNN_STATUS_BAD_PARAM;
    }
    if (!plan->restored_n) return CUDNN_STATUS_BAD_PARAM;
    attribute *a = &plan->attribute[plan->n++];
    *a = (attribute){CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, ""};
    memcpy(a->data, &plan->restored[plan->restored_n - 1], sizeof(desc *));
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t p)
{
    desc *d = p;
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;
    d->final = true;
    if (d->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return s;
    if (!fake_cuda_context() || !is_alive((uint64_t)number(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 0)))
        return CUDNN_STATUS_BAD_PARAM;
    if (fake_cuda.slow_plans) usleep((useconds_t)fake_cuda.slow_plans);
    if (d->text) s = restore_plan(d);
    if (!s)
        __atomic_fetch_add(d->text ? &fake_cuda.plans_restored : &fake_cuda.plans_made, 1,
                           __ATOMIC_RELAXED);
    return s;
}

EXPORT cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t p,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t most,
                                              int64_t *count, void *out)
{
    const desc *d = p;
    int64_t value = 0;
    (void)type;
    *count = 1;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        const desc *graph = link_of(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
        /* For a graph of no device nothing is proposed. */
        bool device = is_alive((uint64_t)number(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 0));
        *count = !device ? 0 : most < 2 ? most : 2;
        for (int64_t i = 0; i < *count; i++) {
            desc *config = ((desc **)out)[i];
            attribute *a = &config->attribute[config->n++];
            a->name = CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH;
            a->type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
            a->n = 1;
            memcpy(a->data, &graph, sizeof graph);
            config->number = i;
        }
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)
        return plan_text(d, most, count, out);
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
        (*(desc **)out)->number = d->number;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
        *count = 0;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) value = 100 + d->number;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        value = link_of(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0)->number ? WORKSPACE : 0;
    memcpy(out, &value, sizeof value);
    return CUDNN_STATUS_SUCCESS;
}

/* ------------------------------------------------------------------ running */

typedef struct view {
    void *data;
    graft_dtype t;
    int32_t dim[4];
    int64_t stride[4];
} view;

typedef struct job {
    view x, w, y, add[STEPS]; /* q, k, y, v and how many keys count of attention */
    void *workspace;
    int32_t adds, multiply[STEPS], stride[2], pad[2];
    float scale;
    int32_t workspace_bytes;
} job;

static view view_of(const desc *t, const desc *pack)
{
    view v = {.data = NULL};
    cudnnDataType_t type;
    int64_t id = number(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    memcpy(&type, find(t, CUDNN_ATTR_TENSOR_DATA_TYPE)->data, sizeof type);
    v.t = type == CUDNN_DATA_FLOAT      ? GRAFT_F32
          : type == CUDNN_DATA_HALF     ? GRAFT_F16
          : type == CUDNN_DATA_INT8     ? GRAFT_I8
          : type == CUDNN_DATA_FP8_E4M3 ? GRAFT_F8_E4M3
          : type == CUDNN_DATA_INT32    ? GRAFT_I32
                                        : GRAFT_BF16;
    for (int i = 0; i < 4; i++) {
        v.dim[i] = (int32_t)number(t, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        v.stride[i] = number(t, CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    int64_t n = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->n;
    for (int i = 0; i < n; i++)
        if (number(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i) == id)
            v.data = (void *)(uintptr_t)number(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    /* What was promised of the address; plans are made for it. */
    if ((int64_t)((uintptr_t)v.data % 1024) % number(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0))
        v.data = NULL;
    return v;
}

static int64_t at(const view *v, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (v->dim[0] > 1 ? a * v->stride[0] : 0) + (v->dim[1] > 1 ? b * v->stride[1] : 0) +
           (v->dim[2] > 1 ? c * v->stride[2] : 0) + (v->dim[3] > 1 ? d * v->stride[3] : 0);
}

/* sum[o] += sum over b of x[b] * w[b * n + o], added in the order of b. */
FAKE_FAST static void add_products(double *restrict sum, const float *x, const float *restrict w,
                                   int64_t channels, int64_t n)
{
    for (int64_t b = 0; b < channels; b++)
        for (int64_t o = 0; o < n; o++) sum[o] += (double)x[b] * (double)w[b * n + o];
}

/* All outputs of one pixel, with the picture as [row][column][channel] and the weights as
 * [tap][channel][output]. Sums are exact for integers. */
static void conv_pixel(const job *j, const float *x, const float *w, int n, int r, int c,
                       double *sums)
{
    int64_t outputs = j->y.dim[1], channels = j->x.dim[1];
    memset(sums, 0, (size_t)outputs * sizeof *sums);
    for (int i = 0; i < j->w.dim[2]; i++)
        for (int k = 0; k < j->w.dim[3]; k++) {
            int row = r * j->stride[0] - j->pad[0] + i, column = c * j->stride[1] - j->pad[1] + k;
            if (row < 0 || row >= j->x.dim[2] || column < 0 || column >= j->x.dim[3]) continue;
            add_products(sums, x + ((int64_t)row * j->x.dim[3] + column) * channels,
                         w + ((int64_t)i * j->w.dim[3] + k) * channels * outputs, channels,
                         outputs);
        }
    for (int o = 0; o < outputs; o++) {
        float sum = (float)sums[o];
        for (int a = 0; a < j->adds; a++) {
            float v = fake_load(j->add[a].t, j->add[a].data, at(&j->add[a], n, o, r, c));
            sum = j->multiply[a] ? sum * v : sum + v;
        }
        fake_store(j->y.t, j->y.data, at(&j->y, n, o, r, c), sum);
    }
}

static void run_conv(const void *args)
{
    job j;
    memcpy(&j, args, sizeof j);
    int32_t *dx = j.x.dim, *dw = j.w.dim, area = dx[2] * dx[3], taps = dw[2] * dw[3];
    float *x = fake_alloc((int64_t)area * dx[1], sizeof *x);
    float *w = fake_alloc((int64_t)taps * dw[1] * dw[0], sizeof *w);
    double *sums = fake_alloc(dw[0], sizeof *sums);
    if (dw[1] != dx[1] || dw[0] != j.y.dim[1]) abort();
    if (j.workspace_bytes) memset(j.workspace, 0x22, (size_t)j.workspace_bytes);
    for (int o = 0; o < dw[0]; o++)
        for (int b = 0; b < dw[1]; b++)
            for (int i = 0; i < taps; i++)
                w[((int64_t)i * dw[1] + b) * dw[0] + o] =
                    fake_load(j.w.t, j.w.data, at(&j.w, o, b, i / dw[3], i % dw[3]));
    for (int n = 0; n < j.y.dim[0]; n++) {
        for (int i = 0; i < area; i++)
            for (int b = 0; b < dx[1]; b++)
                x[(int64_t)i * dx[1] + b] =
                    fake_load(j.x.t, j.x.data, at(&j.x, n, b, i / dx[3], i % dx[3]));
        for (int r = 0; r < j.y.dim[2]; r++)
            for (int c = 0; c < j.y.dim[3]; c++) conv_pixel(&j, x, w, n, r, c, sums);
    }
    free(x);
    free(w);
    free(sums);
}

/* Keys and values of one head as [row][column] of `out`, or transposed. */
static void load_head(const view *v, int n, int h, bool transposed, float *out)
{
    int rows = v->dim[2], d = v->dim[3];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < d; c++)
            out[transposed ? c * rows + r : r * d + c] =
                fake_load(v->t, v->data, at(v, n, h, r, c));
}

typedef struct head {
    const float *keys, *values; /* (d, keys), (keys, d) */
    float *query, *weights, *sums;
} head;

static void attend(const job *j, const head *to, int n, int h, int row)
{
    const int32_t *count = j->add[1].data;
    int all = j->w.dim[2], keys = count ? count[n] : all, d = j->x.dim[3];
    float *p = to->weights, top = -INFINITY, sum = 0;
    for (int c = 0; c < d; c++)
        to->query[c] = fake_load(j->x.t, j->x.data, at(&j->x, n, h, row, c));
    fake_sum_rows(p, to->keys, to->query, all, d);
    for (int k = 0; k < keys; k++) top = fmaxf(top, p[k] *= j->scale);
    for (int k = 0; k < keys; k++) sum += p[k] = expf(p[k] - top);
    fake_sum_rows(to->sums, to->values, p, d, keys);
    for (int c = 0; c < d; c++)
        fake_store(j->y.t, j->y.data, at(&j->y, n, h, row, c), to->sums[c] / sum);
}

static void run_attention(const void *args)
{
    job j;
    memcpy(&j, args, sizeof j);
    int64_t keys = j.w.dim[2], d = j.x.dim[3];
    float *k = fake_alloc(keys * d, sizeof *k), *v = fake_alloc(keys * d, sizeof *v);
    float *row = fake_alloc(keys + 2 * d, sizeof *row);
    const head to = {k, v, row, row + d, row + d + keys};
    if (j.workspace_bytes) memset(j.workspace, 0x22, (size_t)j.workspace_bytes);
    for (int n = 0; n < j.y.dim[0]; n++)
        for (int h = 0; h < j.y.dim[1]; h++) {
            load_head(&j.w, n, h, true, k);
            load_head(&j.add[0], n, h, false, v);
            for (int r = 0; r < j.y.dim[2]; r++) attend(&j, &to, n, h, r);
        }
    free(k);
    free(v);
    free(row);
}

static bool fill_attention(const desc *op, const desc *pack, job *j)
{
    j->x = view_of(link_of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, 0), pack);
    j->w = view_of(link_of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, 0), pack);
    j->add[0] = view_of(link_of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, 0), pack);
    j->y = view_of(link_of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, 0), pack);
    const desc *count = link_of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC, 0);
    if (count) j->add[1] = view_of(count, pack);
    view scale = view_of(link_of(op, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, 0), pack);
    if (!scale.data || !j->add[0].data || (count && !j->add[1].data)) return false;
    memcpy(&j->scale, scale.data, sizeof j->scale);
    return true;
}

/* A convolution, then additions and multiplications, each of what the one before gave. */
static bool fill_conv(const desc *graph, const desc *pack, job *j)
{
    const desc *op = link_of(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0), *next;
    const desc *c = link_of(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 0);
    const desc *y = link_of(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 0);
    cudnnDataType_t compute;
    memcpy(&compute, find(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE)->data, sizeof compute);
    j->x = view_of(link_of(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 0), pack);
    j->w = view_of(link_of(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 0), pack);
    for (int i = 0; i < 2; i++) {
        j->stride[i] = (int32_t)number(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        j->pad[i] = (int32_t)number(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
    }
    for (int i = 1; (next = link_of(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i)) != NULL; i++) {
        if (link_of(next, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0) != y) return false;
        view b = view_of(link_of(next, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 0), pack);
        const desc *how = link_of(next, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
        cudnnPointwiseMode_t mode;
        memcpy(&mode, find(how, CUDNN_ATTR_POINTWISE_MODE)->data, sizeof mode);
        if (!b.data || j->adds == STEPS) return false;
        j->multiply[j->adds] = mode == CUDNN_POINTWISE_MUL;
        j->add[j->adds++] = b;
        y = link_of(next, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 0);
    }
    j->y = view_of(y, pack);
    /* Sums of integers are integers. */
    return (j->x.t == GRAFT_I8) == (compute == CUDNN_DATA_INT32) && j->x.t == j->w.t;
}

EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t pack)
{
    const desc *config = link_of(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    const desc *graph = link_of(config, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    const desc *op = link_of(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0);
    bool attention = op->type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR;
    job j = {.workspace_bytes = config->number ? WORKSPACE : 0};
    uint64_t own = (uint64_t)number(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 0);
    if (!is_alive((uintptr_t)h) || !fake_cuda_context() || !((const desc *)plan)->final ||
        !is_alive(own) || !((const desc *)pack)->final)
        return CUDNN_STATUS_BAD_PARAM;
    /* Some engines launch into the stream of the handle that the plan was made with. */
    if (stream_of[own] != stream_of[(uintptr_t)h]) return CUDNN_STATUS_BAD_PARAM;
    j.workspace = (void *)(uintptr_t)number(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0);
    bool good = attention ? fill_attention(op, pack, &j) : fill_conv(graph, pack, &j);
    if (fake_cuda_refuses()) return CUDNN_STATUS_NOT_SUPPORTED;
    if (!good || !j.x.data || !j.w.data || !j.y.data || (j.workspace_bytes && !j.workspace))
        return CUDNN_STATUS_BAD_PARAM;
    return fake_cuda_enqueue(attention ? run_attention : run_conv, &j, sizeof j)
               ? CUDNN_STATUS_EXECUTION_FAILED
               : CUDNN_STATUS_SUCCESS;
}
