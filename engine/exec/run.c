#include "engine/exec/run.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

/* What a run has: weights, its arena, and the memory of what does not change from run to run where
 * it is one of a series. */
typedef struct run {
    const graft_binding *binding;
    uint8_t *base, *kept; /* kept: NULL where it is none */
    bool made;            /* that memory holds what it shall */
    graft_offload_run offload;
} run;

static const void *weight(const run *r, int64_t use)
{
    const graft_offload_schedule *s = r->offload.schedule;
    return s && s->place[use] >= 0 ? r->offload.window + s->place[use]
                                   : graft_pack_data(r->binding->pack[use]);
}

/* stop: NULL, or who is asked meanwhile where the library can end a launch early. */
static graft_status launch(run *r, size_t i, const graft_stop *stop)
{
    const graft_exe *x = r->binding->exe;
    const graft_exe_step *s = &x->step[i];
    const graft_exe_kept *k = r->kept ? &x->kept[i] : NULL;
    const void *in[GRAFT_MAX_INPUTS];
    if (r->made && k->invariant) return GRAFT_OK;
    graft_status st = graft_offload_before(&r->offload, i);
    if (st) return st;
    for (int j = 0; j < GRAFT_MAX_INPUTS; j++) {
        int64_t at = s->in[j];
        in[j] = k && k->in[j] >= 0 ? r->kept + k->in[j]
                : at >= 0          ? r->base + at
                : at == -1         ? NULL
                                   : weight(r, -2 - at);
    }
    void *out = k && k->out >= 0 ? r->kept + k->out : r->base + s->out;
    void *workspace = s->workspace < 0 ? NULL : r->base + s->workspace;
    const graft_kernels_more *more = graft_backend_more(x->backend);
    if (stop && GRAFT_KERNELS_HAS(more, launch_until))
        return more->launch_until(s->kernel, in, out, workspace, stop);
    return x->backend->api->launch(s->kernel, in, out, workspace);
}

static void add_times(graft_exe_times *times, const uint64_t *ns)
{
    for (int op = 0; op < GRAFT_OP_END; op++)
        if (ns[op]) atomic_fetch_add_explicit(&times->ns[op], ns[op], memory_order_relaxed);
    atomic_fetch_add_explicit(&times->runs, 1, memory_order_relaxed);
}

static graft_status launch_all(void *ctx)
{
    run *r = ctx;
    graft_status st = GRAFT_OK;
    graft_offload_begin(&r->offload);
    for (size_t i = 0; i < r->binding->exe->graph->n_nodes && !st; i++) st = launch(r, i, NULL);
    graft_offload_end(&r->offload);
    return st;
}

/* What failed, with the library's words for it where it has any. */
static graft_status failed(const graft_exe *x, graft_status st, const char *what, size_t i,
                           const char *name, graft_err *e)
{
    char text[512] = "";
    if (!x->backend->api->wait(x->backend->device, text, sizeof text) || !text[0])
        snprintf(text, sizeof text, "%s", graft_status_text(st));
    return graft_fail(e, st, "backend %s, %s %zu (%s): %s", x->backend->name, what, i, name, text);
}

/* ------------------------------------------------------------------ time of each step */

/* On a device that works on its own, marks between the steps; elsewhere the host's clock. */
typedef struct stopwatch {
    const graft_kernels_more *more;
    graft_marks *marks; /* NULL: the host's clock */
    double *seconds;    /* of each step, by the marks */
    uint32_t n;
} stopwatch;

static void stopwatch_finish(stopwatch *w)
{
    if (w->marks) w->more->marks_free(w->marks);
    graft_free(w->seconds);
    *w = (stopwatch){0};
}

/* Without a profile, and without the device's clock or memory, nothing is marked. */
static void stopwatch_init(stopwatch *w, const graft_exe *x, const graft_exe_profile *profile)
{
    size_t n = x->graph->n_nodes;
    *w = (stopwatch){.more = graft_backend_more(x->backend), .n = (uint32_t)n};
    if (!profile || x->backend->info.host_memory || !GRAFT_KERNELS_HAS(w->more, marks_create))
        return;
    w->seconds = graft_malloc_array(n, sizeof *w->seconds);
    if (!w->seconds || w->more->marks_create(x->backend->device, w->n + 1, &w->marks)) {
        w->marks = NULL;
        stopwatch_finish(w);
    }
}

static graft_status stopwatch_mark(const stopwatch *w, size_t i)
{
    return w->marks ? w->more->mark(w->marks, (uint32_t)i) : GRAFT_OK;
}

/* Adds what the marks tell. */
static graft_status stopwatch_read(const stopwatch *w, graft_exe_profile *profile)
{
    if (!w->marks) return GRAFT_OK;
    graft_status st = w->more->marks_read(w->marks, w->seconds);
    for (size_t i = 0; i < w->n && i < profile->n && !st; i++) profile->seconds[i] += w->seconds[i];
    return st;
}

/* ------------------------------------------------------------------ handing over */

static int32_t asked(void *task)
{
    return graft_task_cancelled(task);
}

/* One by one. */
static graft_status launch_each(run *r, const graft_task *task, graft_exe_profile *profile,
                                graft_err *e)
{
    graft_exe *x = r->binding->exe;
    stopwatch w;
    uint64_t ns[GRAFT_OP_END] = {0};
    size_t i = 0;
    /* The task is only read; a launch asks no one else. */
    const graft_stop stop = {(graft_task *)(uintptr_t)task, asked};
    graft_offload_begin(&r->offload);
    stopwatch_init(&w, x, profile);
    graft_status st = stopwatch_mark(&w, 0);
    int64_t before = graft_clock_ns();
    for (; i < x->graph->n_nodes && !st; i++) {
        st = graft_task_cancelled(task) ? GRAFT_E_CANCEL : launch(r, i, task ? &stop : NULL);
        if (st == GRAFT_E_CANCEL) {
            graft_offload_end(&r->offload);
            stopwatch_finish(&w);
            return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        }
        if (!st) st = stopwatch_mark(&w, i + 1);
        if (st) break;
        int64_t after = graft_clock_ns();
        if (x->backend->info.host_memory) ns[x->graph->node[i].op] += (uint64_t)(after - before);
        if (profile && !w.marks && i < profile->n)
            profile->seconds[i] += 1e-9 * (double)(after - before);
        before = after;
    }
    if (!st) st = stopwatch_read(&w, profile);
    stopwatch_finish(&w);
    graft_offload_end(&r->offload);
    if (st && i == x->graph->n_nodes) i--;
    if (st) return failed(x, st, "operator", i, graft_op_name(x->graph->node[i].op), e);
    add_times(&x->times, ns);
    return GRAFT_OK;
}

/* What a recording of such a run is known by: the first of a series has another one than those
 * behind it. */
static graft_hash recording_key(const run *r)
{
    const uint64_t is[] = {(uintptr_t)r->base, (uintptr_t)r->kept, r->made};
    return graft_hash_mix(r->binding->places, is, sizeof is);
}

/* Hands all steps over. */
static graft_status launch_steps(run *r, const graft_task *task, graft_exe_profile *profile,
                                 graft_err *e)
{
    graft_exe *x = r->binding->exe;
    const uint64_t none[GRAFT_OP_END] = {0};
    const graft_hash key = recording_key(r);
    const graft_offload *o = r->binding->offload;
    const bool records = !profile && !(o && o->ordinary);
    bool repeated = false;
    if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
    if (records) {
        graft_status st = graft_recordings_run(x->recordings, key, launch_all, r, &repeated);
        if (st) return failed(x, st, "operator", 0, "and those after it", e);
    }
    if (repeated) {
        add_times(&x->times, none);
        return GRAFT_OK;
    }
    graft_status st = launch_each(r, task, profile, e);
    if (st) return st;
    if (profile) profile->runs++;
    if (records) graft_recordings_ran(x->recordings, key);
    return GRAFT_OK;
}

static graft_status begin(run *r, const graft_binding *b, graft_arena *a,
                          const graft_invariants *series, graft_err *e)
{
    const graft_offload *o = b->offload;
    *r = (run){.binding = b,
               .base = a->data,
               .kept = graft_invariants_data(series),
               .made = graft_invariants_made(series)};
    if (!o) return GRAFT_OK;
    r->offload = (graft_offload_run){.schedule = r->made ? &o->later : &o->all,
                                     .more = graft_backend_more(b->exe->backend),
                                     .device = b->exe->backend->device,
                                     .window = r->base + graft_binding_arena(b) - o->window,
                                     .pack = b->pack};
    return o->window ? graft_arena_lane(a, (uint32_t)o->all.n, &r->offload.lane, e) : GRAFT_OK;
}

/* The arena may be another run's as soon as it is given back: what that one does comes later. */
graft_status graft_exe_run_there(const graft_binding *b, graft_arenas *arenas,
                                 graft_invariants *series, graft_exe_place *before,
                                 graft_exe_place *after, void *ctx, const graft_task *task,
                                 graft_exe_profile *profile, graft_err *e)
{
    const graft_exe *x = b->exe;
    void *in[GRAFT_EXE_PLACES] = {NULL}, *out[GRAFT_EXE_PLACES] = {NULL};
    assert(x->graph->n_inputs <= GRAFT_EXE_PLACES && x->graph->n_outputs <= GRAFT_EXE_PLACES);
    graft_arena *a = graft_binding_take_arena(b, arenas, e);
    if (!a) return GRAFT_E_NOMEM;
    run r;
    graft_status st = begin(&r, b, a, series, e);
    if (st) goto out;
    for (size_t i = 0; i < x->graph->n_inputs; i++) in[i] = r.base + x->input[i].offset;
    for (size_t i = 0; i < x->graph->n_outputs; i++) out[i] = r.base + x->output[i].offset;
    st = before(ctx, in);
    if (st) failed(x, st, "input", 0, "on the device", e);
    if (!st) st = launch_steps(&r, task, profile, e);
    if (!st) {
        graft_invariants_make(series);
        st = after(ctx, out);
        if (st) failed(x, st, "output", 0, "on the device", e);
    }
out:
    graft_arenas_give(arenas, a);
    return st;
}

/* profile: NULL, or a run that is no part of a series. */
static graft_status run_whole(const graft_binding *b, graft_arenas *arenas,
                              graft_invariants *series, const void *const *in, void *const *out,
                              const graft_task *task, graft_exe_profile *profile, graft_err *e)
{
    const graft_exe *x = b->exe;
    const graft_kernels_api *api = x->backend->api;
    graft_device *d = x->backend->device;
    graft_arena *a = graft_binding_take_arena(b, arenas, e);
    if (!a) return GRAFT_E_NOMEM;
    run r;
    char text[512] = "";
    graft_status st = begin(&r, b, a, series, e);
    for (size_t i = 0; i < x->graph->n_inputs && !st; i++) {
        st = api->upload(d, r.base + x->input[i].offset, in[i], (uint64_t)x->input[i].bytes);
        if (st) failed(x, st, "input", i, "upload", e);
    }
    if (!st) st = launch_steps(&r, task, profile, e);
    if (!st) {
        graft_invariants_make(series);
        st = api->wait(d, text, sizeof text);
        if (st) graft_fail(e, st, "backend %s: %s", x->backend->name, text);
    }
    for (size_t i = 0; i < x->graph->n_outputs && !st; i++) {
        st = api->download(d, out[i], r.base + x->output[i].offset, (uint64_t)x->output[i].bytes);
        if (st) failed(x, st, "output", i, "download", e);
    }
    graft_arenas_give(arenas, a);
    return st;
}

graft_status graft_exe_run(const graft_binding *b, graft_arenas *arenas, const void *const *in,
                           void *const *out, const graft_task *task, graft_exe_profile *profile,
                           graft_err *e)
{
    return run_whole(b, arenas, NULL, in, out, task, profile, e);
}

graft_status graft_exe_run_again(const graft_binding *b, graft_arenas *arenas,
                                 graft_invariants *series, const void *const *in, void *const *out,
                                 const graft_task *task, graft_err *e)
{
    return run_whole(b, arenas, series, in, out, task, NULL, e);
}
