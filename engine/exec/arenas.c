#include "engine/exec/arenas.h"

#include <pthread.h>

#include "base/alloc.h"

struct graft_arenas {
    pthread_mutex_t lock;
    graft_arena *idle;
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

static void free_lane(graft_arena *k)
{
    if (k->lane) graft_backend_more(k->backend)->lane_free(k->lane);
    k->lane = NULL;
    k->loads = 0;
}

void graft_arenas_trim(graft_arenas *a)
{
    pthread_mutex_lock(&a->lock);
    graft_arena *list = a->idle;
    for (graft_arena *k = list; k; k = k->next) a->bytes -= k->bytes;
    a->idle = NULL;
    pthread_mutex_unlock(&a->lock);
    while (list) {
        graft_arena *k = list;
        list = k->next;
        free_lane(k);
        if (k->data) k->backend->api->free(k->backend->device, k->data);
        graft_free(k);
    }
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
static graft_arena *take_idle(graft_arenas *a, graft_backend *backend, uint64_t bytes)
{
    graft_arena **best = NULL;
    for (graft_arena **at = &a->idle; *at; at = &(*at)->next) {
        if ((*at)->backend != backend) continue;
        bool fits = (*at)->bytes >= bytes, best_fits = best && (*best)->bytes >= bytes;
        if (!best || (fits && (!best_fits || (*at)->bytes < (*best)->bytes)) ||
            (!fits && !best_fits && (*at)->bytes > (*best)->bytes))
            best = at;
    }
    if (!best) return NULL;
    graft_arena *k = *best;
    *best = k->next;
    return k;
}

/* A block that is too small, and that is nobody else's now, gets another size; false when there is
 * no memory, and no block then. */
static bool resize(graft_arenas *a, graft_arena *k, uint64_t bytes)
{
    const graft_backend *b = k->backend;
    if (k->data) {
        b->api->free(b->device, k->data);
        /* Or the old block would lie beside the new one. */
        if (b->info.host_memory) graft_alloc_trim();
    }
    uint64_t before = k->bytes;
    k->data = b->api->alloc(b->device, bytes ? bytes : 1);
    k->bytes = k->data ? bytes : 0;
    pthread_mutex_lock(&a->lock);
    a->bytes += k->bytes;
    a->bytes -= before;
    pthread_mutex_unlock(&a->lock);
    return k->data != NULL;
}

graft_arena *graft_arenas_take(graft_arenas *a, graft_backend *backend, uint64_t bytes,
                               graft_err *e)
{
    pthread_mutex_lock(&a->lock);
    graft_arena *k = take_idle(a, backend, bytes);
    pthread_mutex_unlock(&a->lock);
    if (!k) {
        k = graft_calloc(1, sizeof *k);
        if (k) k->backend = backend;
    }
    if (k && (!k->data || k->bytes < bytes) && !resize(a, k, bytes)) {
        free_lane(k);
        graft_free(k);
        k = NULL;
    }
    if (!k)
        graft_fail(e, GRAFT_E_NOMEM, "out of memory: %llu bytes for activations",
                   (unsigned long long)bytes);
    return k;
}

void graft_arenas_give(graft_arenas *a, graft_arena *k)
{
    pthread_mutex_lock(&a->lock);
    k->next = a->idle;
    a->idle = k;
    pthread_mutex_unlock(&a->lock);
}

graft_status graft_arena_lane(graft_arena *k, uint32_t loads, graft_lane **out, graft_err *e)
{
    const graft_backend *b = k->backend;
    *out = k->lane;
    if (k->loads >= loads) return GRAFT_OK;
    free_lane(k);
    graft_status st = graft_backend_more(b)->lane_create(b->device, loads, &k->lane);
    if (st) return graft_fail(e, st, "backend %s: a lane: %s", b->name, graft_status_text(st));
    k->loads = loads;
    *out = k->lane;
    return GRAFT_OK;
}
