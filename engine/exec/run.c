/* Arenas and runs. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/exec/exe.h"

typedef struct arena {
    graft_backend *backend;
    void *data;
    uint64_t bytes;
    struct arena *next;
} arena;

struct graft_arenas {
    pthread_mutex_t lock;
    arena *idle;
    uint64_t bytes; /* of all blocks, also those in use */
};

graft_status graft_arenas_create(graft_arenas **out, graft_err *e)
{
    graft_arenas *a = graft_calloc(1, sizeof *a);
    if (!a) return graft_fail_nomem(e, "arenas");
    pthread_mutex_init(&a->lock, NULL);
    *out = a;
    return GRAFT_OK;
}

static void arena_free(graft_arenas *a, arena *k)
{
    a->bytes -= k->bytes;
    if (k->data) k->backend->api->free(k->backend->device, k->data);
    graft_free(k);
}

void graft_arenas_trim(graft_arenas *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->idle) {
        arena *k = a->idle;
        a->idle = k->next;
        arena_free(a, k);
    }
    pthread_mutex_unlock(&a->lock);
}

void graft_arenas_destroy(graft_arenas *a)
{
    if (!a) return;
    graft_arenas_trim(a);
    pthread_mutex_destroy(&a->lock);
    graft_free(a);
}

uint64_t graft_arenas_bytes(graft_arenas *a)
{
    pthread_mutex_lock(&a->lock);
    uint64_t n = a->bytes;
    pthread_mutex_unlock(&a->lock);
    return n;
}

/* The idle block that fits best: the smallest that is large enough, else the largest, which grows.
 */
static arena *take_idle(graft_arenas *a, graft_backend *backend, uint64_t bytes)
{
    arena **best = NULL;
    for (arena **at = &a->idle; *at; at = &(*at)->next) {
        if ((*at)->backend != backend) continue;
        bool fits = (*at)->bytes >= bytes, best_fits = best && (*best)->bytes >= bytes;
        if (!best || (fits && (!best_fits || (*at)->bytes < (*best)->bytes)) ||
            (!fits && !best_fits && (*at)->bytes > (*best)->bytes))
            best = at;
    }
    if (!best) return NULL;
    arena *k = *best;
    *best = k->next;
    return k;
}

static arena *acquire(graft_arenas *a, graft_backend *backend, uint64_t bytes, graft_err *e)
{
    pthread_mutex_lock(&a->lock);
    arena *k = take_idle(a, backend, bytes);
    if (!k) {
        k = graft_calloc(1, sizeof *k);
        if (k) k->backend = backend;
    }
    if (k && (!k->data || k->bytes < bytes)) {
        if (k->data) {
            backend->api->free(backend->device, k->data);
            /* Or the old block would lie beside the new one. */
            if (backend->info.host_memory) graft_alloc_trim();
        }
        a->bytes -= k->bytes;
        k->bytes = 0;
        k->data = backend->api->alloc(backend->device, bytes ? bytes : 1);
        if (k->data) {
            k->bytes = bytes;
            a->bytes += bytes;
        } else {
            graft_free(k);
            k = NULL;
        }
    }
    pthread_mutex_unlock(&a->lock);
    if (!k)
        graft_fail(e, GRAFT_E_NOMEM, "out of memory: %llu bytes for activations",
                   (unsigned long long)bytes);
    return k;
}

static void give_back(graft_arenas *a, arena *k)
{
    pthread_mutex_lock(&a->lock);
    k->next = a->idle;
    a->idle = k;
    pthread_mutex_unlock(&a->lock);
}

static graft_status launch(const graft_binding *b, size_t i, uint8_t *base)
{
    const graft_exe_step *s = &b->exe->step[i];
    const void *in[GRAFT_MAX_INPUTS];
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++) {
        int64_t at = s->in[k];
        in[k] = at >= 0 ? base + at : at == -1 ? NULL : graft_pack_data(b->pack[-2 - at]);
    }
    return b->exe->backend->api->launch(s->kernel, in, base + s->out,
                                        s->workspace < 0 ? NULL : base + s->workspace);
}

static void add_times(graft_exe_times *times, const uint64_t *ns)
{
    for (int op = 0; op < GRAFT_OP_END; op++)
        if (ns[op]) atomic_fetch_add_explicit(&times->ns[op], ns[op], memory_order_relaxed);
    atomic_fetch_add_explicit(&times->runs, 1, memory_order_relaxed);
}

typedef struct all_steps {
    const graft_binding *binding;
    uint8_t *base;
} all_steps;

static graft_status launch_all(void *ctx)
{
    const all_steps *a = ctx;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < a->binding->exe->graph->n_nodes && !st; i++)
        st = launch(a->binding, i, a->base);
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

/* Hands all steps over. */
static graft_status launch_steps(const graft_binding *b, uint8_t *base, const graft_task *task,
                                 graft_exe_profile *profile, graft_err *e)
{
    graft_exe *x = b->exe;
    uint64_t ns[GRAFT_OP_END] = {0};
    int64_t before = graft_clock_ns();
    bool repeated = false;
    if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
    if (!profile) {
        graft_hash key = graft_hash_mix(b->places, &base, sizeof base);
        graft_status st =
            graft_recordings_run(x->recordings, key, launch_all, &(all_steps){b, base}, &repeated);
        if (st) return failed(x, st, "operator", 0, "and those after it", e);
    }
    for (size_t i = 0; i < x->graph->n_nodes && !repeated; i++) {
        if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        graft_op op = x->graph->node[i].op;
        graft_status st = launch(b, i, base);
        if (st) return failed(x, st, "operator", i, graft_op_name(op), e);
        int64_t after = graft_clock_ns();
        ns[op] += (uint64_t)(after - before);
        if (profile && i < profile->n) profile->seconds[i] += 1e-9 * (double)(after - before);
        before = after;
    }
    if (profile) profile->runs++;
    add_times(&x->times, ns);
    return GRAFT_OK;
}

static graft_status run_steps(const graft_binding *b, uint8_t *base, const graft_task *task,
                              graft_exe_profile *profile, graft_err *e)
{
    graft_exe *x = b->exe;
    char text[512] = "";
    graft_status st = launch_steps(b, base, task, profile, e);
    if (st) return st;
    st = x->backend->api->wait(x->backend->device, text, sizeof text);
    return st ? graft_fail(e, st, "backend %s: %s", x->backend->name, text) : GRAFT_OK;
}

/* The arena may be another run's as soon as it is given back: what that one does comes later. */
graft_status graft_exe_run_there(const graft_binding *b, graft_arenas *arenas,
                                 graft_exe_place *before, graft_exe_place *after, void *ctx,
                                 const graft_task *task, graft_err *e)
{
    const graft_exe *x = b->exe;
    void *in[GRAFT_EXE_PLACES] = {NULL}, *out[GRAFT_EXE_PLACES] = {NULL};
    assert(x->graph->n_inputs <= GRAFT_EXE_PLACES && x->graph->n_outputs <= GRAFT_EXE_PLACES);
    arena *a = acquire(arenas, x->backend, (uint64_t)x->arena_bytes, e);
    if (!a) return GRAFT_E_NOMEM;
    uint8_t *base = a->data;
    for (size_t i = 0; i < x->graph->n_inputs; i++) in[i] = base + x->input[i].offset;
    for (size_t i = 0; i < x->graph->n_outputs; i++) out[i] = base + x->output[i].offset;
    graft_status st = before(ctx, in);
    if (st) failed(x, st, "input", 0, "on the device", e);
    if (!st) st = launch_steps(b, base, task, NULL, e);
    if (!st) {
        st = after(ctx, out);
        if (st) failed(x, st, "output", 0, "on the device", e);
    }
    give_back(arenas, a);
    return st;
}

graft_status graft_exe_run(const graft_binding *b, graft_arenas *arenas, const void *const *in,
                           void *const *out, const graft_task *task, graft_exe_profile *profile,
                           graft_err *e)
{
    const graft_exe *x = b->exe;
    const graft_kernels_api *api = x->backend->api;
    graft_device *d = x->backend->device;
    arena *a = acquire(arenas, x->backend, (uint64_t)x->arena_bytes, e);
    if (!a) return GRAFT_E_NOMEM;
    uint8_t *base = a->data;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < x->graph->n_inputs && !st; i++) {
        st = api->upload(d, base + x->input[i].offset, in[i], (uint64_t)x->input[i].bytes);
        if (st) failed(x, st, "input", i, "upload", e);
    }
    if (!st) st = run_steps(b, base, task, profile, e);
    for (size_t i = 0; i < x->graph->n_outputs && !st; i++) {
        st = api->download(d, out[i], base + x->output[i].offset, (uint64_t)x->output[i].bytes);
        if (st) failed(x, st, "output", i, "download", e);
    }
    give_back(arenas, a);
    return st;
}
