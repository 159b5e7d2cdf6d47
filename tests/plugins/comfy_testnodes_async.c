/* Nodes that wait, fail or show progress (in whole seconds, where it counts seconds), beside others
 * or in their turn. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/plugins/comfy_testnodes.h"

static graft_status run_sleep(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    uint64_t whole = (uint64_t)in[1].u.f;
    graft_status st = nap(j, in[1].u.f, whole + ((double)whole < in[1].u.f));
    if (!st) pass(out, in);
    return st;
}
/* The same with progress from 0 to 1. */
static graft_status run_update(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    graft_status st = nap(j, in[1].u.f, 1);
    if (!st) pass(out, in);
    return st;
}
static graft_status run_sync_error(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)in, (void)out;
    return fail(j, "Sync error from the test node");
}
static graft_status run_async_error(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)out;
    graft_status st = nap(j, in[1].u.f, 0);
    return st ? st : fail(j, "Async error from the test node");
}
static graft_status run_timeout(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    char text[80];
    (void)self;
    graft_status st = nap(j, in[1].u.f < in[2].u.f ? in[1].u.f : in[2].u.f, 0);
    if (st) return st;
    snprintf(text, sizeof text, "Operation timed out after %g seconds", in[1].u.f);
    if (in[2].u.f > in[1].u.f) return fail(j, text);
    pass(out, in);
    return GRAFT_OK;
}
static graft_status draw(graft_job *j, graft_arg *out, double value)
{
    graft_status st = nap(j, 0.05, 0);
    return st ? st : give_image(j, out, (float)value, 1, 512, 512);
}
static graft_status run_tenth(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    return draw(j, out, in[0].u.f / 10);
}
static graft_status run_share(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    return draw(j, out, in[0].u.f / in[1].u.f);
}
static graft_status check_value(const graft_host *h, const graft_arg *in, const char **input,
                                char *text, uint64_t n)
{
    (void)h;
    if (in[0].kind != GRAFT_FLOAT || in[1].kind != GRAFT_FLOAT || in[0].u.f <= in[1].u.f)
        return GRAFT_OK;
    *input = "value";
    snprintf(text, n, "Value %g exceeds %g", in[0].u.f, in[1].u.f);
    return GRAFT_E_ARG;
}
static const void *value_query(const char *id)
{
    static const graft_validate_api api = {check_value};
    return strcmp(id, GRAFT_VALIDATE_ID) == 0 ? &api : NULL;
}

static graft_status choose_needed(void *self, const graft_arg *in, uint64_t *needed)
{
    (void)self;
    *needed = in[2].u.i ? 1 : 2;
    return GRAFT_OK;
}
static const void *choose_query(const char *id)
{
    static const graft_lazy_api api = {choose_needed};
    return strcmp(id, GRAFT_LAZY_ID) == 0 ? &api : NULL;
}
static graft_status run_choose(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)in;
    return give_image(j, out, 1, 1, 512, 512);
}

/* The opposite of each picture, one after the other. */
static graft_status run_batch(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_tensor *t = tensor_of(&in[0]);
    (void)self;
    if (!t || t->ndim != 4) return fail(j, "images are no pictures");
    for (int64_t i = 0; i < t->shape[0]; i++) {
        graft_status st = nap(j, in[1].u.f, 0);
        if (st) return st;
        job_api->progress(j, (uint64_t)i + 1, (uint64_t)t->shape[0]);
    }
    picture *p = picture_create(&image_ops, 4, t->shape);
    if (!p) return no_memory(j);
    for (size_t i = 0, n = count_of(t); i < n; i++) p->data[i] = 1 - at(t, i);
    give(out, &p->value);
    return GRAFT_OK;
}

/* At most two of these at once, in all prompts. */
static atomic_int places = 2;
static graft_status run_limited(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    while (atomic_fetch_sub(&places, 1) <= 0) {
        atomic_fetch_add(&places, 1);
        graft_status st = nap(j, 0.01, 0);
        if (st) return st;
    }
    graft_status st = nap(j, in[1].u.f, 0);
    atomic_fetch_add(&places, 1);
    if (!st) pass(out, in);
    return st;
}

/* The names of what is in use. */
#define RESOURCES 64
static struct {
    pthread_mutex_t lock;
    char name[RESOURCES][64]; /* "": free */
} used = {.lock = PTHREAD_MUTEX_INITIALIZER};
/* The place of a name, now in use; -1: it is already, or there are too many. */
static int take_resource(const char *name)
{
    int place = -1;
    pthread_mutex_lock(&used.lock);
    for (int i = 0; i < RESOURCES; i++) {
        if (!used.name[i][0] && place < 0) place = i;
        if (strncmp(used.name[i], name, sizeof used.name[i] - 1) != 0 || !used.name[i][0]) continue;
        place = -1;
        break;
    }
    if (place >= 0) snprintf(used.name[place], sizeof used.name[place], "%s", name);
    pthread_mutex_unlock(&used.lock);
    return place;
}
static graft_status run_resource(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    int place = *in[1].u.s ? take_resource(in[1].u.s) : -1;
    (void)self;
    if (place < 0) return fail(j, "the resource is in use already");
    graft_status st = nap(j, in[2].u.f, 0);
    pthread_mutex_lock(&used.lock);
    used.name[place][0] = 0;
    pthread_mutex_unlock(&used.lock);
    if (!st) pass(out, in);
    return st;
}

#define SECONDS(least, most) .kind = GRAFT_FLOAT, .min = least, .max = most
IN(in_any, "value", "*", .kind = GRAFT_OBJECT);
IN(in_seconds, "seconds", "FLOAT", SECONDS(0, 9999), .initial.f = 1, .step = 0.01);
IN(in_after, "error_after", "FLOAT", SECONDS(0, 10), .initial.f = 1);
IN(in_timeout, "timeout", "FLOAT", SECONDS(0.1, 10), .initial.f = 1);
IN(in_operation, "operation_time", "FLOAT", SECONDS(0.1, 10), .initial.f = 2);
IN(in_sleep, "sleep_seconds", "FLOAT", SECONDS(0, 60), .initial.f = 1);
IN(in_duration, "duration", "FLOAT", SECONDS(0.1, 2), .initial.f = 0.5);
IN(in_hold, "duration", "FLOAT", SECONDS(0, 1), .initial.f = 0.1);
IN(in_per_item, "process_time_per_item", "FLOAT", SECONDS(0.01, 1), .initial.f = 0.1);
IN(in_value, "value", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 5);
IN(in_threshold, "threshold", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 10);
IN(in_max, "max_value", "FLOAT", .kind = GRAFT_FLOAT, .initial.f = 10);
IN(in_lazy1, "input1", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_LAZY);
IN(in_lazy2, "input2", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_LAZY);
IN(in_condition, "condition", "BOOLEAN", .kind = GRAFT_BOOL, .initial.i = 1);
IN(in_images, "images", "IMAGE", .kind = GRAFT_OBJECT);
IN(in_resource, "resource_id", "STRING", .kind = GRAFT_STRING, .initial.s = "resource_0");
IN(in_number, "node_id", "INT", .kind = GRAFT_INT);
OUT(out_any, "*", 0);
OUT(out_image, "IMAGE", 0);

#define ASYNC GRAFT_NODE_ASYNC
/* Those that show progress know their ids. */
#define TOLD GRAFT_NODE_OWN_ID
static const graft_node nodes[] = {
    NODE("TestSleep", ASYNC | TOLD, INS(&in_any, &in_seconds), OUTS(&out_any), run_sleep, NULL),
    NODE("TestSyncError", 0, INS(&in_any), OUTS(&out_any), run_sync_error, NULL),
    NODE("TestAsyncError", ASYNC, INS(&in_any, &in_after), OUTS(&out_any), run_async_error, NULL),
    NODE("TestAsyncTimeout", ASYNC, INS(&in_any, &in_timeout, &in_operation), OUTS(&out_any),
         run_timeout, NULL),
    NODE("TestAsyncValidation", ASYNC, INS(&in_value, &in_threshold), OUTS(&out_image), run_tenth,
         value_query),
    NODE("TestAsyncValidationError", ASYNC, INS(&in_value, &in_max), OUTS(&out_image), run_share,
         value_query),
    NODE("TestAsyncLazyCheck", ASYNC, INS(&in_lazy1, &in_lazy2, &in_condition), OUTS(&out_image),
         run_choose, choose_query),
    NODE("TestAsyncBatchProcessing", ASYNC | TOLD, INS(&in_images, &in_per_item), OUTS(&out_image),
         run_batch, NULL),
    NODE("TestAsyncConcurrentLimit", ASYNC, INS(&in_any, &in_duration, &in_number), OUTS(&out_any),
         run_limited, NULL),
    NODE("TestAsyncResourceUser", ASYNC, INS(&in_any, &in_resource, &in_hold), OUTS(&out_any),
         run_resource, NULL),
    NODE("TestAsyncProgressUpdate", ASYNC | TOLD, INS(&in_any, &in_sleep), OUTS(&out_any),
         run_update, NULL),
    NODE("TestSyncProgressUpdate", TOLD, INS(&in_any, &in_sleep), OUTS(&out_any), run_update, NULL),
};
NODE_LIST(async_nodes, nodes)
