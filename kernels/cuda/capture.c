#include "kernels/cuda/capture.h"

#include <stdio.h>

#include "kernels/cuda/lt.h"

struct graft_captured {
    graft_device *d;
    CUgraphExec exec;
};

/* The lock stays held until capture_end(): what another thread sent to the stream meanwhile would
 * be recorded too. */
graft_status graft_cuda_capture_begin(graft_device *d)
{
    graft_cuda_lock(d);
    graft_status st = d->lost[0] || d->capturing ? GRAFT_E_DEVICE : GRAFT_OK;
    if (!st)
        st = graft_cuda_done(
            d, d->drv.capture_begin(d->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "a capture");
    if (st) {
        graft_cuda_unlock(d);
    } else {
        d->capturing = true;
        d->capture_failed = false;
    }
    return st;
}

graft_status graft_cuda_capture_end(graft_device *d, graft_captured **out)
{
    CUgraph graph = NULL;
    *out = NULL;
    CUresult r = d->drv.capture_end(d->stream, &graph);
    graft_status st = d->lost[0] || d->capture_failed ? GRAFT_E_DEVICE : GRAFT_OK;
    graft_captured *c = NULL;
    d->capturing = false;
    if (!st) st = graft_cuda_done(d, r, "the end of a capture");
    if (!st && !(c = d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *c))) st = GRAFT_E_NOMEM;
    if (!st) {
        c->d = d;
        c->exec = NULL;
        st = graft_cuda_done(d, d->drv.graph_instantiate(&c->exec, graph, 0),
                             "making a graph of a capture");
    }
    if (graph) d->drv.graph_destroy(graph);
    if (st && c) d->host.free(c);
    if (!st) *out = c;
    graft_cuda_unlock(d);
    return st;
}

graft_status graft_cuda_replay(graft_captured *c)
{
    graft_device *d = c->d;
    graft_cuda_lock(d);
    graft_status st = d->lost[0]
                          ? GRAFT_E_DEVICE
                          : graft_cuda_done(d, d->drv.exec_launch(c->exec, d->stream), "a graph");
    graft_cuda_unlock(d);
    return st;
}

void graft_cuda_captured_free(graft_captured *c)
{
    if (!c) return;
    graft_device *d = c->d;
    graft_cuda_lock(d);
    if (!d->lost[0]) d->drv.stream_wait(d->stream);
    d->drv.exec_destroy(c->exec);
    graft_cuda_unlock(d);
    d->host.free(c);
}

/* Only the driver is looked at: the other libraries are large and report when a device is made. */
void graft_cuda_missing(char *text, uint64_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_cuda_driver drv;
    if (!text || !n) return;
    text[0] = '\0';
    if (graft_cuda_driver_open(&drv, &e))
        snprintf(text, (size_t)n, "%s; other backends work", e.text);
}

void graft_cuda_kernel_finish(graft_kernel *k)
{
    graft_cuda_lt_plan_destroy(k->lt); /* cuDNN's plans belong to the device */
    k->d->host.free(k);
}
