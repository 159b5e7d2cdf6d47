#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tests/plugins/comfy_testnodes.h"

static void picture_retain(graft_value *v)
{
    atomic_fetch_add(&((picture *)(void *)v)->refs, 1);
}
static void picture_release(graft_value *v)
{
    if (atomic_fetch_sub(&((picture *)(void *)v)->refs, 1) == 1) free(v);
}
static const void *picture_query(const graft_value *v, const char *id)
{
    return strcmp(id, GRAFT_TENSOR_ID) == 0 ? &((const picture *)(const void *)v)->tensor : NULL;
}
const graft_value_ops image_ops = {"IMAGE", picture_retain, picture_release, picture_query};
const graft_value_ops mask_ops = {"MASK", picture_retain, picture_release, picture_query};

size_t count_of(const graft_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= (size_t)t->shape[i];
    return n;
}

picture *picture_create(const graft_value_ops *ops, int32_t ndim, const int64_t *shape)
{
    graft_tensor t = {.ndim = ndim, .dtype_code = 2, .dtype_bits = 32, .dtype_lanes = 1};
    int64_t stride = 1;
    t.device_type = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        t.shape[i] = shape[i];
        t.stride[i] = stride;
        stride *= shape[i];
    }
    picture *p = calloc(1, sizeof *p + (size_t)stride * sizeof(float));
    if (!p) return NULL;
    p->value.ops = ops;
    atomic_init(&p->refs, 1);
    p->tensor = t;
    p->tensor.data = p->data;
    return p;
}

const graft_tensor *tensor_of(const graft_arg *a)
{
    return a->kind == GRAFT_OBJECT ? a->u.v->ops->query(a->u.v, GRAFT_TENSOR_ID) : NULL;
}

float at(const graft_tensor *t, size_t i)
{
    const float *data = t->data;
    int64_t where = 0;
    for (int d = t->ndim - 1; d >= 0; d--) {
        where += (int64_t)(i % (size_t)t->shape[d]) * t->stride[d];
        i /= (size_t)t->shape[d];
    }
    return data[where];
}

int same_shape(const graft_tensor *a, const graft_tensor *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

static void list_retain(graft_value *v)
{
    atomic_fetch_add(&((list *)(void *)v)->refs, 1);
}
void list_release(graft_value *v)
{
    list *l = (list *)(void *)v;
    if (atomic_fetch_sub(&l->refs, 1) != 1) return;
    for (uint64_t i = 0; i < l->n; i++) {
        if (l->item[i].kind == GRAFT_STRING) free((void *)(uintptr_t)l->item[i].u.s);
        if (l->item[i].kind == GRAFT_OBJECT) l->item[i].u.v->ops->release(l->item[i].u.v);
    }
    free(l);
}
static uint64_t list_count(const graft_value *v)
{
    return ((const list *)(const void *)v)->n;
}
static graft_status list_at(const graft_value *v, uint64_t i, graft_arg *out)
{
    const list *l = (const list *)(const void *)v;
    if (i >= l->n) return GRAFT_E_ARG;
    *out = l->item[i];
    return GRAFT_OK;
}
static const void *list_query(const graft_value *v, const char *id)
{
    static const graft_list_api api = {list_count, list_at};
    (void)v;
    return strcmp(id, GRAFT_LIST_ID) == 0 ? &api : NULL;
}
const graft_value_ops list_ops = {"LIST", list_retain, list_release, list_query};

const graft_value_ops accumulation_ops = {"ACCUMULATION", list_retain, list_release, list_query};

list *list_create(const graft_value_ops *ops, uint64_t room)
{
    list *l = calloc(1, sizeof *l + room * sizeof l->item[0]);
    if (!l) return NULL;
    l->value.ops = ops;
    atomic_init(&l->refs, 1);
    return l;
}
int list_push(list *l, const graft_arg *item)
{
    graft_arg own;
    pass(&own, item);
    if (own.kind == GRAFT_CHOICE) own.kind = GRAFT_STRING;
    if (own.kind == GRAFT_STRING && !(own.u.s = strdup(own.u.s))) return 0;
    l->item[l->n++] = own;
    return 1;
}
const list *accumulation_of(const graft_arg *a)
{
    bool is = a->kind == GRAFT_OBJECT && a->u.v->ops == &accumulation_ops;
    return is ? (const list *)(const void *)a->u.v : NULL;
}

/* BLOCK, with a message or without. */
static void block_count(graft_value *v)
{
    (void)v;
}
static const char *loud_message(const graft_value *v)
{
    (void)v;
    return "Blocked Execution";
}
static const char *silent_message(const graft_value *v)
{
    (void)v;
    return NULL;
}
static const void *loud_query(const graft_value *v, const char *id)
{
    static const graft_block_api api = {loud_message};
    (void)v;
    return strcmp(id, GRAFT_BLOCK_ID) == 0 ? &api : NULL;
}
static const void *silent_query(const graft_value *v, const char *id)
{
    static const graft_block_api api = {silent_message};
    (void)v;
    return strcmp(id, GRAFT_BLOCK_ID) == 0 ? &api : NULL;
}
static const graft_value_ops loud_ops = {"BLOCK", block_count, block_count, loud_query};
static const graft_value_ops silent_ops = {"BLOCK", block_count, block_count, silent_query};

const graft_value loud_block = {&loud_ops}, silent_block = {&silent_ops};

static const void *nothing(const graft_value *v, const char *id)
{
    (void)v, (void)id;
    return NULL;
}
static const graft_value_ops flow_ops = {"FLOW_CONTROL", block_count, block_count, nothing};
const graft_value flow_control = {&flow_ops};

/* ---- what nodes share */

graft_status create(const graft_host *h, void **self)
{
    (void)h;
    *self = NULL;
    return GRAFT_OK;
}
void destroy(void *self)
{
    (void)self;
}
/* Clients see a RuntimeError. */
graft_status fail(graft_job *j, const char *text)
{
    job_api->fail(j, GRAFT_E_INTERNAL, NULL, text);
    return GRAFT_E_INTERNAL;
}
graft_status no_memory(graft_job *j)
{
    job_api->fail(j, GRAFT_E_NOMEM, NULL, "out of memory");
    return GRAFT_E_NOMEM;
}
void give(graft_arg *out, graft_value *v)
{
    out->kind = GRAFT_OBJECT;
    out->u.v = v;
}
/* The same value once more; a string lasts, because it is the input's. */
void pass(graft_arg *out, const graft_arg *in)
{
    *out = *in;
    if (out->kind == GRAFT_OBJECT) out->u.v->ops->retain(out->u.v);
}
void give_constant(graft_arg *out, const graft_value *v)
{
    give(out, (graft_value *)(uintptr_t)v);
}
graft_status run_same(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    pass(out, in);
    return GRAFT_OK;
}
graft_status give_image(graft_job *j, graft_arg *out, float value, int64_t batch, int64_t height,
                        int64_t width)
{
    const int64_t shape[4] = {batch, height, width, 3};
    picture *p = picture_create(&image_ops, 4, shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(&p->tensor); i < n; i++) p->data[i] = value;
    give(out, &p->value);
    return GRAFT_OK;
}
graft_status nap(graft_job *j, double seconds, uint64_t max)
{
    const double begun = graft_clock_now();
    uint64_t told = 0;
    if (max) job_api->progress(j, 0, max);
    for (double slept = 0; slept < seconds;) {
        struct timespec t = {0, 10000000};
        nanosleep(&t, NULL);
        slept = graft_clock_now() - begun; /* a busy machine wakes nobody in time */
        uint64_t now = slept < seconds ? (uint64_t)((double)max * slept / seconds) : max;
        if (now > told) job_api->progress(j, now, max);
        told = now;
        if (!job_api->cancelled(j)) continue;
        job_api->fail(j, GRAFT_E_CANCEL, NULL, "interrupted");
        return GRAFT_E_CANCEL;
    }
    return GRAFT_OK;
}
