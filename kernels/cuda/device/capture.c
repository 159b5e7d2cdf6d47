#include "kernels/cuda/device/capture.h"

struct graft_captured {
    graft_device *d;
    CUgraphExec exec;
    uint64_t bytes;
};

/* The lock stays held until capture_end(): what another thread sent to the stream meanwhile would
 * be recorded too. */
graft_status graft_cuda_capture_begin(graft_device *d)
{
    graft_cuda_lock(d);
    graft_status st = d->lost[0] || d->capturing ? GRAFT_E_DEVICE : GRAFT_OK;
    if (st) {
        graft_cuda_unlock(d);
        return st;
    }
    d->capturing = true;
    d->capture_failed = false;
    st = graft_cuda_done(d, d->drv.capture_begin(d->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                         "a capture");
    if (st) {
        d->capturing = false;
        graft_cuda_unlock(d);
    }
    return st;
}

static uint64_t free_memory(graft_device *d)
{
    size_t free_bytes = 0, total = 0;
    return d->drv.memory_info(&free_bytes, &total) == CUDA_SUCCESS ? free_bytes : 0;
}

/* Of a node of a graph, its arguments included: what another process allocated meanwhile is not to
 * be taken for the graph's. */
#define NODE_BYTES ((uint64_t)64 << 10)

/* No call of the driver tells what a graph holds, so it is what less is free afterwards. Uploading
 * it takes the memory now, and not in the first run. */
static graft_status instantiate(graft_device *d, CUgraph graph, graft_captured *c)
{
    size_t nodes = 0;
    uint64_t before = free_memory(d);
    graft_status st = graft_cuda_done(d, d->drv.graph_instantiate(&c->exec, graph, 0),
                                      "making a graph of a capture");
    if (!st) st = graft_cuda_done(d, d->drv.exec_upload(c->exec, d->stream), "uploading a graph");
    if (!st) st = graft_cuda_done(d, d->drv.graph_nodes(graph, NULL, &nodes), "a graph's nodes");
    if (st && c->exec) d->drv.exec_destroy(c->exec);
    uint64_t after = free_memory(d), most = nodes * NODE_BYTES;
    c->bytes = before > after ? before - after : 0;
    if (c->bytes > most) c->bytes = most;
    return st;
}

graft_status graft_cuda_capture_end(graft_device *d, graft_captured **out)
{
    CUgraph graph = NULL;
    *out = NULL;
    CUresult r = d->drv.capture_end(d->stream, &graph);
    graft_status st = d->lost[0] || d->capture_failed ? GRAFT_E_DEVICE : GRAFT_OK;
    graft_captured *c = NULL;
    if (!st) st = graft_cuda_done(d, r, "the end of a capture");
    if (!st && !(c = d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *c))) st = GRAFT_E_NOMEM;
    if (!st) {
        *c = (graft_captured){.d = d};
        st = instantiate(d, graph, c);
    }
    d->capturing = false; /* up to here a failure costs the recording only */
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

uint64_t graft_cuda_captured_bytes(const graft_captured *c)
{
    return c->bytes;
}
