/* Nodes by the names that ComfyUI's execution tests look for, so that those tests, in a user's own
 * checkout, and ours can be pointed at `graft serve`: constants, lazy inputs, inputs that are not
 * declared, lists, blocked outputs, results that change, errors. Never installed. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugin/graft_plugin.h"

/* Looked up once by init(), which is counted by the host. */
static const graft_job_api *job_api;
static const graft_dynamic_api *dynamic_api;
static const graft_ui_api *ui_api;

/* ---- values */

/* IMAGE (N,H,W,3) or MASK (N,H,W). */
typedef struct picture {
    graft_value value;
    atomic_int refs;
    graft_tensor tensor;
    float data[];
} picture;

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
static const graft_value_ops image_ops = {"IMAGE", picture_retain, picture_release, picture_query};
static const graft_value_ops mask_ops = {"MASK", picture_retain, picture_release, picture_query};

static size_t count_of(const graft_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= (size_t)t->shape[i];
    return n;
}

/* Sizes are at most 4096 each and the batch 64, so the product fits. */
static picture *picture_create(const graft_value_ops *ops, int32_t ndim, const int64_t *shape)
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

static const graft_tensor *tensor_of(const graft_arg *a)
{
    return a->kind == GRAFT_OBJECT ? a->u.v->ops->query(a->u.v, GRAFT_TENSOR_ID) : NULL;
}

static float at(const graft_tensor *t, size_t i)
{
    const float *data = t->data;
    int64_t where = 0;
    for (int d = t->ndim - 1; d >= 0; d--) {
        where += (int64_t)(i % (size_t)t->shape[d]) * t->stride[d];
        i /= (size_t)t->shape[d];
    }
    return data[where];
}

static int same_shape(const graft_tensor *a, const graft_tensor *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

/* LIST of anything. */
typedef struct list {
    graft_value value;
    atomic_int refs;
    uint64_t n;
    graft_arg item[]; /* strings are copies, objects have a reference */
} list;
static void list_retain(graft_value *v)
{
    atomic_fetch_add(&((list *)(void *)v)->refs, 1);
}
static void list_release(graft_value *v)
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
static const graft_value_ops list_ops = {"LIST", list_retain, list_release, list_query};

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

/* ---- what nodes share */

static graft_status create(const graft_host *h, void **self)
{
    (void)h;
    *self = NULL;
    return GRAFT_OK;
}
static void destroy(void *self)
{
    (void)self;
}
static graft_status fail(graft_job *j, const char *text)
{
    job_api->fail(j, GRAFT_E_ARG, NULL, text);
    return GRAFT_E_ARG;
}
static graft_status no_memory(graft_job *j)
{
    job_api->fail(j, GRAFT_E_NOMEM, NULL, "out of memory");
    return GRAFT_E_NOMEM;
}
static void give(graft_arg *out, graft_value *v)
{
    out->kind = GRAFT_OBJECT;
    out->u.v = v;
}
/* The same value once more; a string lasts, because it is the input's. */
static void pass(graft_arg *out, const graft_arg *in)
{
    *out = *in;
    if (out->kind == GRAFT_OBJECT) out->u.v->ops->retain(out->u.v);
}

/* ---- constants */

static graft_status constant(graft_job *j, graft_arg *out, const graft_arg *size, float value,
                             int noise)
{
    const int64_t shape[4] = {size[2].u.i, size[0].u.i, size[1].u.i, 3};
    picture *p = picture_create(&image_ops, 4, shape);
    if (!p) return no_memory(j);
    uint32_t state = 1;
    for (size_t i = 0, n = count_of(&p->tensor); i < n; i++) {
        state = state * 1664525u + 1013904223u;
        p->data[i] = noise ? (float)(state >> 8) / 16777216.0f : value;
    }
    give(out, &p->value);
    return GRAFT_OK;
}
static graft_status run_image(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    return constant(j, out, in + 1, strcmp(in[0].u.s, "WHITE") == 0 ? 1.0f : 0.0f,
                    strcmp(in[0].u.s, "NOISE") == 0);
}
static graft_status run_constant(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    return constant(j, out, in + 1, (float)in[0].u.f, 0);
}
static graft_status run_mask(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    const int64_t shape[3] = {in[3].u.i, in[1].u.i, in[2].u.i};
    picture *p = picture_create(&mask_ops, 3, shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(&p->tensor); i < n; i++) p->data[i] = (float)in[0].u.f;
    give(out, &p->value);
    return GRAFT_OK;
}
static graft_status run_same(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    pass(out, in);
    return GRAFT_OK;
}

/* ---- lazy */

enum { IMAGE1, IMAGE2, MASK };
static graft_status mix_needed(void *self, const graft_arg *in, uint64_t *needed)
{
    const graft_tensor *m = tensor_of(&in[MASK]);
    float least = 1, most = 0;
    (void)self;
    for (size_t i = 0; m && i < count_of(m); i++) {
        least = fminf(least, at(m, i));
        most = fmaxf(most, at(m, i));
    }
    *needed = (least < 1 ? 1u << IMAGE1 : 0) | (most > 0 ? 1u << IMAGE2 : 0);
    return GRAFT_OK;
}
static graft_status run_mix(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *a = tensor_of(&in[IMAGE1]), *b = tensor_of(&in[IMAGE2]);
    const graft_tensor *m = tensor_of(&in[MASK]);
    (void)self;
    if (!a || !b) {
        pass(out, a ? &in[IMAGE1] : &in[IMAGE2]);
        return GRAFT_OK;
    }
    if (!same_shape(a, b) || !m || count_of(m) * 3 != count_of(a))
        return fail(j, "the sizes differ");
    picture *p = picture_create(&image_ops, 4, a->shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(a); i < n; i++)
        p->data[i] = at(a, i) * (1 - at(m, i / 3)) + at(b, i) * at(m, i / 3);
    give(out, &p->value);
    return GRAFT_OK;
}
static const void *mix_query(const char *id)
{
    static const graft_lazy_api api = {mix_needed};
    return strcmp(id, GRAFT_LAZY_ID) == 0 ? &api : NULL;
}

/* ---- inputs that are not declared */

static graft_status run_average(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    uint64_t n = 1 + dynamic_api->count(j);
    const graft_tensor *first = tensor_of(&in[0]);
    (void)self;
    if (!first) return fail(j, "input1 is no picture");
    picture *p = picture_create(&image_ops, 4, first->shape);
    if (!p) return no_memory(j);
    for (uint64_t k = 0; k < n; k++) {
        const graft_tensor *t = tensor_of(&in[k]);
        const char *name = k ? dynamic_api->name(j, k - 1) : "input1";
        if (!t || strncmp(name, "input", 5) != 0 || !same_shape(first, t)) {
            picture_release(&p->value);
            return fail(j, "an input is no picture of the same size");
        }
        for (size_t i = 0, c = count_of(t); i < c; i++) p->data[i] += at(t, i) / (float)n;
    }
    give(out, &p->value);
    return GRAFT_OK;
}

/* ---- lists */

static graft_status run_list(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    uint64_t n = 1 + dynamic_api->count(j);
    (void)self;
    list *l = calloc(1, sizeof *l + n * sizeof l->item[0]);
    if (!l) return no_memory(j);
    l->value.ops = &list_ops;
    atomic_init(&l->refs, 1);
    for (uint64_t i = 0; i < n; i++) {
        pass(&l->item[l->n], &in[i]);
        if (in[i].kind == GRAFT_STRING && !(l->item[l->n].u.s = strdup(in[i].u.s))) {
            list_release(&l->value);
            return no_memory(j);
        }
        l->n++;
    }
    give(out, &l->value);
    return GRAFT_OK;
}

/* ---- results that change */

static graft_status changed_print(const graft_host *h, const graft_arg *in, char *text, uint64_t n)
{
    (void)h;
    snprintf(text, n, "same");
    return in[1].kind == GRAFT_BOOL && in[1].u.i ? GRAFT_E_ARG : GRAFT_OK; /* never the same */
}
static const void *changed_query(const char *id)
{
    static const graft_fingerprint_api api = {changed_print};
    return strcmp(id, GRAFT_FINGERPRINT_ID) == 0 ? &api : NULL;
}

/* ---- conditions and arithmetic */

static graft_status run_condition(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    int64_t a = in[0].u.i, b = in[1].u.i;
    const char *op = in[2].u.s;
    (void)self, (void)j;
    out->kind = GRAFT_BOOL;
    out->u.i = (a < b && (op[0] == '<' || op[0] == '!')) ||
               (a > b && (op[0] == '>' || op[0] == '!')) || (a == b && op[0] != '!' && op[1]);
    return GRAFT_OK;
}
static graft_status run_math(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    uint64_t a = (uint64_t)in[0].u.i, b = (uint64_t)in[1].u.i;
    const char *op = in[2].u.s;
    (void)self;
    if (strcmp(op, "divide") == 0 && !b) return fail(j, "division by zero");
    out->kind = GRAFT_INT;
    out->u.i = strcmp(op, "add") == 0        ? (int64_t)(a + b)
               : strcmp(op, "subtract") == 0 ? (int64_t)(a - b)
               : strcmp(op, "multiply") == 0 ? (int64_t)(a * b)
                                             : in[0].u.i / in[1].u.i;
    return GRAFT_OK;
}

/* ---- blocking, errors, time */

static graft_status run_block(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    static const graft_value loud = {&loud_ops}, silent = {&silent_ops};
    (void)self, (void)j;
    if (in[1].u.i)
        give(out, (graft_value *)(uintptr_t)(in[2].u.i ? &loud : &silent));
    else
        pass(out, in);
    return GRAFT_OK;
}
static graft_status run_error(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)in, (void)out;
    return fail(j, "Sync error from the test node");
}
static graft_status run_sleep(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    uint64_t steps = (uint64_t)(in[1].u.f * 100);
    (void)self;
    for (uint64_t i = 0; i < steps; i++) {
        struct timespec t = {0, 10000000};
        nanosleep(&t, NULL);
        job_api->progress(j, i + 1, steps);
        if (!job_api->cancelled(j)) continue;
        job_api->fail(j, GRAFT_E_CANCEL, NULL, "interrupted");
        return GRAFT_E_CANCEL;
    }
    pass(out, in);
    return GRAFT_OK;
}
/* Shows the mean and passes a scaled picture on. */
static graft_status run_output(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *t = tensor_of(&in[0]);
    char text[64];
    double sum = 0;
    (void)self;
    if (!t) return fail(j, "image is no picture");
    picture *p = picture_create(&image_ops, 4, t->shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(t); i < n; i++) {
        p->data[i] = at(t, i) * (float)in[1].u.f;
        sum += p->data[i] / (double)n;
    }
    snprintf(text, sizeof text, "\"%.4f\"", sum);
    ui_api->add(j, "text", text);
    give(out, &p->value);
    return GRAFT_OK;
}

/* ---- records */

#define IN(var, nm, ty, ...)                                                                       \
    static const graft_input var = {                                                               \
        .size = sizeof(graft_input), .name = nm, .type = ty, .tooltip = "For tests.", __VA_ARGS__}
#define OUT(var, ty, fl)                                                                           \
    static const graft_output var = {                                                              \
        .size = sizeof(graft_output), .flags = fl, .name = ty, .type = ty}
#define SIZE .kind = GRAFT_INT, .initial.i = 64, .min = 1, .max = 4096, .step = 1
static const char *const contents[] = {"WHITE", "BLACK", "NOISE", NULL};
static const char *const compares[] = {"==", "!=", "<", ">", "<=", ">=", NULL};
static const char *const operations[] = {"add", "subtract", "multiply", "divide", NULL};
IN(in_content, "content", "COMBO", .kind = GRAFT_CHOICE, .choices = contents);
IN(in_height, "height", "INT", SIZE);
IN(in_width, "width", "INT", SIZE);
IN(in_batch, "batch_size", "INT", .kind = GRAFT_INT, .initial.i = 1, .min = 1, .max = 64);
IN(in_value, "value", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 0.5, .min = 0, .max = 1);
IN(in_int, "value", "INT", .kind = GRAFT_INT);
IN(in_any, "value", "*", .kind = GRAFT_OBJECT);
IN(in_value1, "value1", "*", .kind = GRAFT_OBJECT);
IN(in_blocked, "input", "*", .kind = GRAFT_OBJECT);
IN(in_block, "block", "BOOLEAN", .kind = GRAFT_BOOL, .initial.i = 1);
IN(in_verbose, "verbose", "BOOLEAN", .kind = GRAFT_BOOL);
IN(in_seconds, "seconds", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 1, .min = 0, .max = 60);
IN(in_lazy1, "image1", "IMAGE", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_LAZY);
IN(in_lazy2, "image2", "IMAGE", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_LAZY);
IN(in_mask, "mask", "MASK", .kind = GRAFT_OBJECT);
IN(in_input1, "input1", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_image, "image", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_change, "should_change", "BOOLEAN", .kind = GRAFT_BOOL, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_a, "a", "INT", .kind = GRAFT_INT);
IN(in_b, "b", "INT", .kind = GRAFT_INT);
IN(in_compare, "operation", "COMBO", .kind = GRAFT_CHOICE, .choices = compares);
IN(in_operation, "operation", "COMBO", .kind = GRAFT_CHOICE, .choices = operations);
OUT(out_image, "IMAGE", 0);
OUT(out_mask, "MASK", 0);
OUT(out_int, "INT", 0);
OUT(out_float, "FLOAT", 0);
OUT(out_bool, "BOOLEAN", 0);
OUT(out_any, "*", 0);
OUT(out_list, "*", GRAFT_OUTPUT_LIST);

#define INS(...)  ((const graft_input *const[]){__VA_ARGS__, NULL})
#define OUTS(...) ((const graft_output *const[]){__VA_ARGS__, NULL})
#define NODE(nm, fl, ins, outs, fn, q)                                                             \
    {                                                                                              \
        sizeof(graft_node), fl, nm, nm, "Testing/Nodes", "A node for tests.", ins, outs, create,   \
            destroy, fn, q                                                                         \
    }
static const graft_node nodes[] = {
    NODE("StubImage", 0, INS(&in_content, &in_height, &in_width, &in_batch), OUTS(&out_image),
         run_image, NULL),
    NODE("StubConstantImage", 0, INS(&in_value, &in_height, &in_width, &in_batch), OUTS(&out_image),
         run_constant, NULL),
    NODE("StubMask", 0, INS(&in_value, &in_height, &in_width, &in_batch), OUTS(&out_mask), run_mask,
         NULL),
    NODE("StubInt", 0, INS(&in_int), OUTS(&out_int), run_same, NULL),
    NODE("StubFloat", 0, INS(&in_value), OUTS(&out_float), run_same, NULL),
    NODE("TestLazyMixImages", 0, INS(&in_lazy1, &in_lazy2, &in_mask), OUTS(&out_image), run_mix,
         mix_query),
    NODE("TestVariadicAverage", GRAFT_NODE_DYNAMIC, INS(&in_input1), OUTS(&out_image), run_average,
         NULL),
    NODE("TestMakeListNode", GRAFT_NODE_DYNAMIC, INS(&in_value1), OUTS(&out_list), run_list, NULL),
    NODE("TestCustomIsChanged", 0, INS(&in_image, &in_change), OUTS(&out_image), run_same,
         changed_query),
    NODE("TestIntConditions", 0, INS(&in_a, &in_b, &in_compare), OUTS(&out_bool), run_condition,
         NULL),
    NODE("TestIntMathOperation", 0, INS(&in_a, &in_b, &in_operation), OUTS(&out_int), run_math,
         NULL),
    NODE("TestExecutionBlocker", 0, INS(&in_blocked, &in_block, &in_verbose), OUTS(&out_any),
         run_block, NULL),
    NODE("TestSyncError", 0, INS(&in_any), OUTS(&out_any), run_error, NULL),
    NODE("TestSleep", 0, INS(&in_any, &in_seconds), OUTS(&out_any), run_sleep, NULL),
    NODE("TestOutputNodeWithSocketOutput", GRAFT_NODE_OUTPUT, INS(&in_image, &in_value),
         OUTS(&out_image), run_output, NULL),
};

static const graft_node *node(uint32_t i)
{
    return i < sizeof nodes / sizeof *nodes ? &nodes[i] : NULL;
}
static graft_status init(const graft_host *h, const char *dir)
{
    (void)dir;
    job_api = h->query(h, GRAFT_JOB_ID);
    dynamic_api = h->query(h, GRAFT_DYNAMIC_ID);
    ui_api = h->query(h, GRAFT_UI_ID);
    return job_api && dynamic_api && ui_api ? GRAFT_OK : GRAFT_E_UNSUPPORTED;
}
static void deinit(void) {}

const graft_plugin graft_plugin_entry = {
    GRAFT_ABI_MAJOR, GRAFT_ABI_MINOR, "comfy-testnodes", "1.0", init, deinit, node, NULL};
