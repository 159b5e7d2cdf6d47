#include "tests/cuda/fake_stream.h"

#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulator.h"
#include "tests/cuda/fake_driver.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct work_list {
    fake_work *first, **end;
    uint64_t queued, done; /* ever; of a graph: its nodes, 0 */
} work_list;

typedef struct graph {
    work_list main, lane;
    uint64_t serial, needs; /* of the lane's work: what launches from here on come behind */
    bool joined;            /* the lane takes part */
    int64_t bytes;          /* of the device */
} graph;

typedef struct stream {
    bool lane;
    uint64_t behind; /* of launches: what its next copy comes behind */
} stream;

typedef struct event {
    uint64_t before, lane; /* how much work there was */
    uint64_t time, capture;
    bool timed, set, of_lane;
} event;

/* Work that was handed over and not done: with fake_cuda.lazy everything waits until someone waits
 * for it, so that a wait that is missing shows. Its users hold the device's lock. */
static work_list launches = {.end = &launches.first}, loads = {.end = &loads.first};
static uint64_t needs;   /* of the loads: what launches from here on come behind */
static uint64_t handed;  /* kernels and copies that the stream was given, ever: its clock */
static uint64_t serials; /* of captures */
static graph *recording; /* one stream records at a time */
static bool broken;      /* what is recorded: something that cannot be was tried */

static void append(work_list *l, const fake_work *n)
{
    fake_work *copy = malloc(sizeof *copy);
    if (!copy) abort();
    *copy = *n;
    copy->next = NULL;
    *l->end = copy;
    l->end = &copy->next;
    l->queued++;
}

static fake_work *take(work_list *l)
{
    fake_work *n = l->first;
    l->first = n->next;
    if (!l->first) l->end = &l->first;
    l->done++;
    return n;
}

/* The lane's work up to this number, which may not come behind launches that are still to come. */
static void load_until(uint64_t number)
{
    while (loads.first && loads.done < number) {
        if (loads.first->behind > launches.done)
            emulator_fail("a launch waits for a copy that comes behind it");
        fake_work *n = take(&loads);
        fake_cuda_run(n);
        free(n);
    }
}

static void load_what_may(void)
{
    static uint64_t turn;
    if (fake_cuda.eager == 2 && turn++ % 29) return;
    while (fake_cuda.eager && loads.first && loads.first->behind <= launches.done) {
        load_until(loads.done + 1);
        if (fake_cuda.eager == 2) break;
    }
}

/* A kernel that may begin before the one ahead has ended does so: pairs of them, which begin at
 * other places each time. */
static void work_until(uint64_t number)
{
    static uint64_t turn;
    load_what_may();
    while (launches.first && launches.done < number) {
        load_until(launches.first->behind);
        fake_work *n = take(&launches), *next = launches.first;
        if (next && launches.done < number && next->early && next->behind <= n->behind &&
            !n->copies && turn++ % 3) {
            next = take(&launches);
            fake_cuda_run_overlapped(n, next);
            free(next);
        } else {
            fake_cuda_run(n);
        }
        free(n);
        load_what_may();
    }
}

static void hand_over(const fake_work *n)
{
    handed++;
    if (fake_cuda.skip_work) return;
    append(&launches, n);
    if (!fake_cuda.lazy) work_until(UINT64_MAX);
}

bool fake_stream_records(void)
{
    return recording != NULL;
}

bool fake_stream_busy(void)
{
    return launches.first != NULL;
}

void fake_stream_finish(void)
{
    work_until(UINT64_MAX);
}

/* Of what belongs to the capture that goes on: fine. */
static CUresult usable(bool captured)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    if (*fake_cuda_sticky()) return (CUresult)*fake_cuda_sticky();
    if (!recording || captured) return CUDA_SUCCESS;
    fake_cuda.misuse++;
    broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult fake_stream_idle(void)
{
    return usable(false);
}

CUresult fake_stream_launch(const fake_work *n)
{
    fake_work own = *n;
    if (recording && fake_cuda.fail_record && --fake_cuda.fail_record == 0) broken = true;
    if (recording && broken) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (recording) {
        own.behind = recording->needs;
        append(&recording->main, &own);
        fake_cuda.recorded++;
        return CUDA_SUCCESS;
    }
    own.behind = needs;
    fake_cuda.launches++;
    if (!fake_cuda.skip_launch || --fake_cuda.skip_launch) hand_over(&own);
    return CUDA_SUCCESS;
}

typedef struct copy_args {
    void *dst;
    const void *src;
    size_t n;
} copy_args;

static void copy_now(const void *args)
{
    copy_args a;
    memcpy(&a, args, sizeof a);
    memcpy(a.dst, a.src, a.n);
}

CUresult fake_stream_copy(CUstream to, void *dst, const void *src, size_t n)
{
    const stream *s = (const stream *)to;
    fake_work work = {.run = copy_now, .copies = true};
    CUresult r = usable(s->lane && recording && recording->joined);
    if (r) return r;
    memcpy(work.args, &(copy_args){dst, src, n}, sizeof(copy_args));
    work.behind = s->lane ? s->behind : needs;
    if (!s->lane) {
        hand_over(&work);
    } else if (recording) {
        append(&recording->lane, &work);
    } else if (!fake_cuda.skip_work) {
        append(&loads, &work);
        load_what_may();
    }
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ streams, events */

EXPORT CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    (void)flags;
    *s = (CUstream)calloc(1, sizeof(stream));
    if (!*s) abort();
    fake_cuda.live_objects++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(CUstream s)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    work_until(UINT64_MAX);
    if (((const stream *)s)->lane) load_until(UINT64_MAX);
    free(s);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream s)
{
    CUresult r = fake_stream_idle();
    fake_cuda.waits++;
    work_until(UINT64_MAX);
    if (((const stream *)s)->lane) load_until(UINT64_MAX);
    if (!r && fake_cuda.fail_wait && --fake_cuda.fail_wait == 0) r = CUDA_ERROR_LAUNCH_FAILED;
    if (r == CUDA_ERROR_LAUNCH_FAILED) *fake_cuda_sticky() = (int)r;
    return r;
}

EXPORT CUresult cuStreamWaitEvent(CUstream to, CUevent of, unsigned flags)
{
    stream *s = (stream *)to;
    const event *e = (const event *)of;
    CUresult r = usable(recording && e->capture == recording->serial);
    if (r) return r;
    if (flags || (!recording && e->capture)) {
        fake_cuda.misuse++;
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t *main = recording ? &recording->needs : &needs;
    if (!e->of_lane) { /* an event of launches makes the other stream a lane */
        s->lane = true;
        s->behind = e->before;
        if (recording) recording->joined = true;
    } else if (e->lane > *main) {
        *main = e->lane;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *e, unsigned flags)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    event *made = calloc(1, sizeof *made);
    if (!made) abort();
    made->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    *e = (CUevent)made;
    fake_cuda.live_objects++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(CUevent e)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    free(e);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream s)
{
    const bool lane = ((const stream *)s)->lane;
    CUresult r = usable(!lane || (recording && recording->joined));
    if (r) return r;
    *(event *)e = (event){.time = handed,
                          .capture = recording ? recording->serial : 0,
                          .timed = ((event *)e)->timed,
                          .set = true,
                          .of_lane = lane};
    if (lane)
        ((event *)e)->lane = recording ? recording->lane.queued : loads.queued;
    else
        ((event *)e)->before = recording ? recording->main.queued : launches.queued;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent of)
{
    const event *e = (const event *)of;
    CUresult r = fake_stream_idle();
    fake_cuda.event_waits++;
    if (e->capture) fake_cuda.misuse++;
    work_until(e->before);
    if (e->lane) load_until(e->lane);
    if (!r && fake_cuda.fail_event && --fake_cuda.fail_event == 0) r = CUDA_ERROR_LAUNCH_FAILED;
    if (r == CUDA_ERROR_LAUNCH_FAILED) *fake_cuda_sticky() = (int)r;
    return r;
}

EXPORT CUresult cuEventQuery(CUevent of)
{
    const event *e = (const event *)of;
    CUresult r = fake_stream_idle();
    if (r) return r;
    if (e->capture) fake_cuda.misuse++;
    return launches.done < e->before || loads.done < e->lane ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* A kernel takes a microsecond. */
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    const event *a = (const event *)from, *b = (const event *)to;
    CUresult r = fake_stream_idle();
    if (r) return r;
    if (!a->timed || !b->timed || !a->set || !b->set) return CUDA_ERROR_INVALID_HANDLE;
    if (launches.done < a->before || launches.done < b->before) return CUDA_ERROR_NOT_READY;
    *ms = 1e-3f * (float)(b->time - a->time);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ graphs */

static graph *graph_make(void)
{
    graph *g = calloc(1, sizeof *g);
    if (!g) abort();
    g->main.end = &g->main.first;
    g->lane.end = &g->lane.first;
    fake_cuda.live_objects++;
    return g;
}

static CUresult graph_free(graph *g)
{
    while (g->main.first) free(take(&g->main));
    while (g->lane.first) free(take(&g->lane));
    fake_cuda.live_bytes -= g->bytes;
    free(g);
    fake_cuda.live_objects--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode)
{
    (void)s, (void)mode;
    CUresult r = fake_stream_idle();
    if (r) return r;
    recording = graph_make();
    recording->serial = ++serials;
    broken = false;
    fake_cuda.captures++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream s, CUgraph *out)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    (void)s;
    if (!recording) return CUDA_ERROR_ILLEGAL_STATE;
    graph *g = recording;
    const bool joined = g->needs == g->lane.queued;
    if (!joined && !broken) fake_cuda.misuse++;
    recording = NULL;
    *out = broken || !joined ? NULL : (CUgraph)g;
    if (*out) return CUDA_SUCCESS;
    graph_free(g);
    return broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph from,
                                            unsigned long long flags)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    (void)flags;
    const graph *source = (graph *)from;
    graph *g = graph_make();
    for (const fake_work *n = source->main.first; n; n = n->next) append(&g->main, n);
    for (const fake_work *n = source->lane.first; n; n = n->next) append(&g->lane, n);
    g->bytes = (int64_t)(g->main.queued + g->lane.queued) * fake_cuda.node_bytes;
    fake_cuda.live_bytes += g->bytes;
    *out = (CUgraphExec)g;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphUpload(CUgraphExec g, CUstream s)
{
    (void)g, (void)s;
    return fake_stream_idle();
}

EXPORT CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *count)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    if (nodes) return CUDA_ERROR_INVALID_VALUE;
    *count = ((graph *)g)->main.queued + ((graph *)g)->lane.queued;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph g)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    return graph_free((graph *)g);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec g)
{
    if (fake_cuda_outside()) return CUDA_ERROR_INVALID_CONTEXT;
    return graph_free((graph *)g);
}

/* Its copies begin once all that was launched before it is over, and are over when it is. */
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream s)
{
    const graph *g = (const graph *)exec;
    (void)s;
    CUresult r = fake_stream_idle();
    if (r) return r;
    fake_cuda.replays++;
    const uint64_t before = launches.queued, lane = loads.queued;
    for (const fake_work *n = g->lane.first; n && !fake_cuda.skip_work; n = n->next) {
        fake_work load = *n;
        load.behind += before;
        append(&loads, &load);
    }
    for (const fake_work *n = g->main.first; n; n = n->next) {
        fake_work launch = *n;
        launch.behind = n->behind ? lane + n->behind : needs;
        hand_over(&launch);
    }
    if (g->lane.queued && !fake_cuda.skip_work) needs = lane + g->lane.queued;
    return CUDA_SUCCESS;
}
