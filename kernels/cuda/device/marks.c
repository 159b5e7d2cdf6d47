#include "kernels/cuda/device/marks.h"

#include <string.h>

struct graft_marks {
    graft_device *d;
    uint32_t n;
    CUevent event[]; /* those behind the first that could not be made are NULL */
};

graft_status graft_cuda_marks_create(graft_device *d, uint32_t n, graft_marks **out)
{
    *out = NULL;
    if (n < 2) return GRAFT_E_ARG;
    size_t bytes = sizeof **out + n * sizeof(CUevent);
    graft_marks *m = d->host.alloc(GRAFT_CUDA_ALIGN, bytes);
    if (!m) return GRAFT_E_NOMEM;
    memset(m, 0, bytes);
    m->d = d;
    m->n = n;
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    for (uint32_t i = 0; i < n && !st; i++) /* with times */
        st = graft_cuda_done(d, d->drv.event_create(&m->event[i], CU_EVENT_DEFAULT), "an event");
    graft_cuda_unlock(d);
    if (st)
        graft_cuda_marks_free(m);
    else
        *out = m;
    return st;
}

graft_status graft_cuda_mark(graft_marks *m, uint32_t index)
{
    graft_device *d = m->d;
    if (index >= m->n) return GRAFT_E_ARG;
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : d->capturing ? GRAFT_E_ARG : GRAFT_OK;
    if (!st) st = graft_cuda_done(d, d->drv.event_record(m->event[index], d->stream), "a mark");
    graft_cuda_unlock(d);
    return st;
}

graft_status graft_cuda_marks_read(graft_marks *m, double *seconds)
{
    graft_device *d = m->d;
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    if (!st) st = graft_cuda_done(d, d->drv.event_wait(m->event[m->n - 1]), "the last mark");
    for (uint32_t i = 0; i + 1 < m->n && !st; i++) {
        float ms = 0;
        st = graft_cuda_done(d, d->drv.event_elapsed(&ms, m->event[i], m->event[i + 1]),
                             "the time between marks");
        seconds[i] = 1e-3 * (double)ms;
    }
    graft_cuda_unlock(d);
    return st;
}

void graft_cuda_marks_free(graft_marks *m)
{
    if (!m) return;
    graft_device *d = m->d;
    graft_cuda_lock(d);
    for (uint32_t i = 0; i < m->n && m->event[i]; i++) d->drv.event_destroy(m->event[i]);
    graft_cuda_unlock(d);
    d->host.free(m);
}
