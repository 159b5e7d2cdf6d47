#include "engine/exec/recordings.h"

#include <pthread.h>

#include "base/alloc.h"

typedef struct recording {
    graft_hash key;
    graft_captured *captured; /* NULL: not yet */
    uint64_t bytes;           /* of it */
    bool hopeless;            /* recording failed once, so it is not tried again */
    struct recording *next;
} recording;

struct graft_recordings {
    graft_backend *backend;
    const graft_kernels_more *more;
    pthread_mutex_t lock;
    recording *list; /* the last used first; those in use are not in it */
};

graft_recordings *graft_recordings_create(graft_backend *b)
{
    const graft_kernels_more *more = graft_backend_more(b);
    if (!more || !more->capture_begin) return NULL;
    graft_recordings *r = graft_calloc(1, sizeof *r);
    if (!r) return NULL;
    r->more = more;
    r->backend = b;
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

static void captured_free(const graft_recordings *r, recording *k)
{
    r->more->captured_free(k->captured);
    k->captured = NULL;
    atomic_fetch_sub(&r->backend->recorded, k->bytes);
    k->bytes = 0;
}

static void recording_free(const graft_recordings *r, recording *k)
{
    captured_free(r, k);
    graft_free(k);
}

void graft_recordings_trim(graft_recordings *r)
{
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    recording *list = r->list;
    r->list = NULL;
    pthread_mutex_unlock(&r->lock);
    while (list) { /* waits for the device, so without the lock */
        recording *k = list;
        list = k->next;
        recording_free(r, k);
    }
}

void graft_recordings_destroy(graft_recordings *r)
{
    if (!r) return;
    graft_recordings_trim(r);
    pthread_mutex_destroy(&r->lock);
    graft_free(r);
}

/* The recording with this key, out of the list; NULL when there is none. */
static recording *take(graft_recordings *r, graft_hash key)
{
    recording *found = NULL;
    pthread_mutex_lock(&r->lock);
    for (recording **at = &r->list; *at && !found;) {
        if (graft_hash_equal((*at)->key, key)) {
            found = *at;
            *at = found->next;
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static void give_back(graft_recordings *r, recording *k)
{
    recording *rest = NULL;
    size_t n = 0;
    pthread_mutex_lock(&r->lock);
    k->next = r->list;
    r->list = k;
    for (recording **at = &r->list; *at; at = &(*at)->next)
        if (++n > GRAFT_RECORDINGS) {
            rest = *at;
            *at = NULL;
            break;
        }
    pthread_mutex_unlock(&r->lock);
    if (rest) recording_free(r, rest); /* waits for the device, so without the lock */
}

static bool too_many(const graft_recordings *r)
{
    uint64_t most = atomic_load(&r->backend->recorded_most);
    return most && atomic_load(&r->backend->recorded) > most;
}

/* Where memory has a limit a recording that does not fit is not kept, and the run is an ordinary
 * one from then on; the graph's other recordings go first. */
static graft_status record(graft_recordings *r, recording *k, graft_recording_launch *launch,
                           void *ctx)
{
    graft_device *d = r->backend->device;
    graft_status st = r->more->capture_begin(d);
    if (st) return st;
    st = launch(ctx);
    graft_status end = r->more->capture_end(d, &k->captured);
    if (st || end) return st ? st : end;
    if (GRAFT_KERNELS_HAS(r->more, captured_bytes)) k->bytes = r->more->captured_bytes(k->captured);
    atomic_fetch_add(&r->backend->recorded, k->bytes);
    if (too_many(r)) graft_recordings_trim(r);
    return too_many(r) ? GRAFT_E_LIMIT : GRAFT_OK;
}

graft_status graft_recordings_run(graft_recordings *r, graft_hash key,
                                  graft_recording_launch *launch, void *ctx, bool *done)
{
    graft_status st = GRAFT_OK;
    *done = false;
    if (!r) return GRAFT_OK;
    recording *k = take(r, key);
    if (!k) return GRAFT_OK;
    if (!k->captured && !k->hopeless && record(r, k, launch, ctx)) {
        captured_free(r, k);
        k->hopeless = true;
    }
    if (k->captured) {
        st = r->more->replay(k->captured);
        *done = true;
    }
    give_back(r, k);
    return st;
}

void graft_recordings_ran(graft_recordings *r, graft_hash key)
{
    if (!r) return;
    recording *k = take(r, key);
    if (!k) k = graft_calloc(1, sizeof *k);
    if (!k) return; /* it is not recorded then */
    k->key = key;
    give_back(r, k);
}
