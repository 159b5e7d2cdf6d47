#include "kernels/cuda/device/lane.h"

#include <string.h>

/* Of each load: what it comes behind, and that it came. */
typedef struct load {
    CUevent from, there;
} load;

struct graft_lane {
    graft_device *d;
    uint32_t n;
    load load[];
};

/* That there is none is an answer, and harms nothing: of a device that is lost the next call says
 * so. */
void *graft_cuda_host_alloc(graft_device *d, uint64_t bytes)
{
    void *p = NULL;
    graft_cuda_lock(d);
    if (d->lost[0] || d->drv.pinned_alloc(&p, bytes, 0)) p = NULL;
    d->no_pinned = !p;
    graft_cuda_unlock(d);
    return p;
}

void graft_cuda_lanes_wait(graft_device *d)
{
    if (!d->lost[0])
        d->drv.stream_wait(d->stream);
    else if (d->beside)
        d->drv.stream_wait(d->beside);
}

void graft_cuda_host_free(graft_device *d, void *p)
{
    if (!p) return;
    graft_cuda_lock(d);
    graft_cuda_lanes_wait(d);
    d->drv.pinned_free(p);
    d->no_pinned = false;
    graft_cuda_unlock(d);
}

static graft_status make_events(graft_device *d, graft_lane *l)
{
    const unsigned flags = CU_EVENT_DISABLE_TIMING;
    graft_status st = GRAFT_OK;
    if (!d->beside)
        st = graft_cuda_done(d, d->drv.stream_create(&d->beside, CU_STREAM_NON_BLOCKING),
                             "a stream for copies");
    for (uint32_t i = 0; i < l->n && !st; i++) {
        st = graft_cuda_done(d, d->drv.event_create(&l->load[i].from, flags), "an event");
        if (!st) st = graft_cuda_done(d, d->drv.event_create(&l->load[i].there, flags), "an event");
    }
    return st;
}

graft_status graft_cuda_lane_create(graft_device *d, uint32_t n, graft_lane **out)
{
    *out = NULL;
    const size_t bytes = sizeof **out + n * sizeof(load);
    graft_lane *l = d->host.alloc(GRAFT_CUDA_ALIGN, bytes);
    if (!l) return GRAFT_E_NOMEM;
    memset(l, 0, bytes);
    l->d = d;
    l->n = n;
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : make_events(d, l);
    graft_cuda_unlock(d);
    if (st)
        graft_cuda_lane_free(l);
    else
        *out = l;
    return st;
}

graft_status graft_cuda_lane_load(graft_lane *l, uint32_t index, void *dst, const void *src,
                                  uint64_t bytes)
{
    graft_device *d = l->d;
    if (index >= l->n) return GRAFT_E_ARG;
    const load *e = &l->load[index];
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    if (!st) st = graft_cuda_done(d, d->drv.event_record(e->from, d->stream), "a load");
    if (!st) st = graft_cuda_done(d, d->drv.stream_follow(d->beside, e->from, 0), "a load");
    if (!st)
        st = graft_cuda_done(d, d->drv.upload((CUdeviceptr)(uintptr_t)dst, src, bytes, d->beside),
                             "a weight's way to the device");
    if (!st) st = graft_cuda_done(d, d->drv.event_record(e->there, d->beside), "a load");
    graft_cuda_unlock(d);
    return st;
}

graft_status graft_cuda_lane_need(graft_lane *l, uint32_t index)
{
    graft_device *d = l->d;
    if (index >= l->n) return GRAFT_E_ARG;
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    if (!st)
        st = graft_cuda_done(d, d->drv.stream_follow(d->stream, l->load[index].there, 0), "a load");
    d->follows = true;
    graft_cuda_unlock(d);
    return st;
}

void graft_cuda_lane_free(graft_lane *l)
{
    if (!l) return;
    graft_device *d = l->d;
    graft_cuda_lock(d);
    graft_cuda_lanes_wait(d);
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->load[i].from) d->drv.event_destroy(l->load[i].from);
        if (l->load[i].there) d->drv.event_destroy(l->load[i].there);
    }
    graft_cuda_unlock(d);
    d->host.free(l);
}
