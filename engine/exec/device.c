#include "engine/exec/device.h"

#include <pthread.h>
#include <stddef.h>

#include "base/alloc.h"

struct graft_recording {
    const graft_kernels_more *more;
    graft_device *device;
    pthread_mutex_t lock;
    const void *base; /* of the last run */
    graft_captured *captured;
    bool hopeless; /* recording failed once, so it is not tried again */
};

const graft_kernels_more *graft_backend_more(const graft_backend *b)
{
    const graft_kernels_more *more = b->lib->abi_minor >= 1 ? b->lib->more : NULL;
    /* What came later is read only by those who ask for it. */
    return more && more->size >= offsetof(graft_kernels_more, pack_rows) ? more : NULL;
}

graft_recording *graft_recording_create(const graft_backend *b)
{
    const graft_kernels_more *more = graft_backend_more(b);
    if (!more || !more->capture_begin) return NULL;
    graft_recording *r = graft_calloc(1, sizeof *r);
    if (!r) return NULL;
    r->more = more;
    r->device = b->device;
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void graft_recording_destroy(graft_recording *r)
{
    if (!r) return;
    r->more->captured_free(r->captured);
    pthread_mutex_destroy(&r->lock);
    graft_free(r);
}

static graft_status record(graft_recording *r, graft_recording_launch *launch, void *ctx)
{
    graft_status st = r->more->capture_begin(r->device);
    if (st) return st;
    st = launch(ctx);
    graft_status end = r->more->capture_end(r->device, &r->captured);
    return st ? st : end;
}

graft_status graft_recording_run(graft_recording *r, const void *base,
                                 graft_recording_launch *launch, void *ctx, bool *done)
{
    graft_status st = GRAFT_OK;
    *done = false;
    if (!r) return GRAFT_OK;
    pthread_mutex_lock(&r->lock);
    if (r->base != base) { /* a new place: this run is the ordinary one before recording */
        r->more->captured_free(r->captured);
        r->captured = NULL;
        r->base = base;
    } else if (!r->hopeless) {
        if (!r->captured && record(r, launch, ctx)) {
            r->more->captured_free(r->captured);
            r->captured = NULL;
            r->hopeless = true;
        }
        if (r->captured) {
            st = r->more->replay(r->captured);
            *done = true;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return st;
}
