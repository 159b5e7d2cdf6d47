#include "kernels/cuda/device/stage.h"

#include <string.h>

#define FIRST    2                      /* buffers */
#define LARGE    ((uint64_t)512 << 10)  /* bytes of a piece that several threads copy */
#define MANY     ((uint64_t)1 << 20)    /* bytes of a piece that is worth more buffers */
#define ALIGN    ((uint64_t)256)        /* of what lies in a buffer */
#define DOING    "a copy to the device" /* in messages */
#define DOWNLOAD "a copy from the device"

/* ------------------------------------------------------------------ buffers */

static CUresult add_buffer(graft_device *d)
{
    graft_cuda_stage *s = &d->stage;
    CUresult r = d->drv.pinned_alloc(&s->pinned[s->n], GRAFT_CUDA_BUFFER_BYTES, 0);
    if (r) {
        s->pinned[s->n] = NULL;
        return r;
    }
    r = d->drv.event_create(&s->copied[s->n], CU_EVENT_DISABLE_TIMING);
    if (r)
        s->copied[s->n] = NULL;
    else
        s->n++;
    return r;
}

graft_status graft_cuda_stage_open(graft_device *d, graft_err *e)
{
    graft_cuda_copiers_init(&d->stage.copiers, d->host.threads);
    d->stage.open = true;
    while (d->stage.n < FIRST) {
        CUresult r = add_buffer(d);
        if (r) return graft_cuda_driver_fail(&d->drv, r, "pinned memory", e);
    }
    return GRAFT_OK;
}

void graft_cuda_stage_close(graft_device *d)
{
    graft_cuda_stage *s = &d->stage;
    if (!s->open) return;
    graft_cuda_copiers_finish(&s->copiers);
    for (int i = 0; i < GRAFT_CUDA_BUFFERS; i++) {
        if (s->copied[i]) d->drv.event_destroy(s->copied[i]);
        if (s->pinned[i]) d->drv.pinned_free(s->pinned[i]);
    }
    s->open = false;
}

/* Pinned memory takes long to get, and may be short: fewer buffers do as well. */
static graft_status add_buffers(graft_device *d)
{
    graft_cuda_stage *s = &d->stage;
    CUresult r = CUDA_SUCCESS;
    if (s->complete) return GRAFT_OK;
    s->complete = true;
    while (!r && s->n < GRAFT_CUDA_BUFFERS) r = add_buffer(d);
    return r == CUDA_ERROR_OUT_OF_MEMORY ? GRAFT_OK : graft_cuda_done(d, r, "pinned memory");
}

/* The buffer in use is full, or was given to a copy of its own. */
static graft_status leave(graft_device *d, int i)
{
    return graft_cuda_done(d, d->drv.event_record(d->stage.copied[i], d->stream), DOING);
}

/* Goes on to the next buffer. Where it is read still and nobody is to wait, *entered is false. */
static graft_status enter(graft_device *d, bool wait, bool *entered)
{
    graft_cuda_stage *s = &d->stage;
    int next = (s->now + 1) % s->n;
    CUresult r = wait ? d->drv.event_wait(s->copied[next]) : d->drv.event_query(s->copied[next]);
    *entered = r == CUDA_SUCCESS;
    if (r == CUDA_ERROR_NOT_READY) return GRAFT_OK;
    if (*entered) {
        s->now = next;
        s->used = 0;
    }
    return graft_cuda_done(d, r, DOING);
}

/* ------------------------------------------------------------------ to the device */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static graft_status enqueue(graft_device *d, CUdeviceptr dst, const void *pinned, uint64_t n)
{
    return graft_cuda_done(d, d->drv.upload(dst, pinned, n, d->stream), DOING);
}

/* One behind the other in a buffer, with one event for all that are in it. */
static graft_status send_small(graft_device *d, CUdeviceptr dst, const void *src, uint64_t bytes)
{
    graft_cuda_stage *s = &d->stage;
    graft_status st = GRAFT_OK;
    bool entered;
    if (bytes > GRAFT_CUDA_BUFFER_BYTES - s->used) {
        st = leave(d, s->now);
        if (!st) st = enter(d, true, &entered);
        if (st) return st;
    }
    char *place = (char *)s->pinned[s->now] + s->used;
    memcpy(place, src, bytes);
    st = enqueue(d, dst, place, bytes);
    s->used += aligned(bytes);
    return st;
}

/* A buffer's share of a large piece; they are sent in the order in which they were posted. */
typedef struct share {
    int buffer;
    uint64_t bytes;
} share;

/* Fills as many buffers as are free, or waits for one where none is being filled. */
static graft_status send_large(graft_device *d, CUdeviceptr dst, const char *src, uint64_t bytes)
{
    graft_cuda_stage *s = &d->stage;
    graft_cuda_copiers *c = &s->copiers;
    share posted[GRAFT_CUDA_BUFFERS];
    uint64_t at = 0, sent = 0;
    int first = 0, n = 0; /* of those that are posted and not sent */
    graft_status st = bytes < MANY ? GRAFT_OK : add_buffers(d);
    if (!st) st = leave(d, s->now);
    while (sent < bytes && !st) {
        bool entered = true;
        while (at < bytes && n < s->n && entered && !st) {
            st = enter(d, n == 0, &entered);
            if (st || !entered) break;
            uint64_t part = bytes - at;
            if (part > GRAFT_CUDA_BUFFER_BYTES) part = GRAFT_CUDA_BUFFER_BYTES;
            graft_cuda_copiers_post(c, s->pinned[s->now], src + at, part);
            posted[(first + n++) % GRAFT_CUDA_BUFFERS] = (share){s->now, part};
            s->used = aligned(part);
            at += part;
        }
        if (st) break;
        const share *oldest = &posted[first];
        graft_cuda_copiers_complete(c);
        first = (first + 1) % GRAFT_CUDA_BUFFERS;
        n--;
        st = enqueue(d, dst + sent, s->pinned[oldest->buffer], oldest->bytes);
        if (!st) st = leave(d, oldest->buffer);
        sent += oldest->bytes;
    }
    while (n--) graft_cuda_copiers_complete(c); /* `src` is the caller's alone again */
    return st;
}

graft_status graft_cuda_send(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)dst;
    if (d->lost[0]) return GRAFT_E_DEVICE;
    if (!bytes) return GRAFT_OK;
    return bytes < LARGE ? send_small(d, to, src, bytes) : send_large(d, to, src, bytes);
}

graft_status graft_cuda_upload(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    graft_status st = graft_cuda_send(d, dst, src, bytes);
    return st ? st : graft_cuda_done(d, d->drv.stream_wait(d->stream), DOING);
}

/* ------------------------------------------------------------------ from the device */

graft_status graft_cuda_download(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    graft_cuda_stage *s = &d->stage;
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)src;
    for (uint64_t at = 0, n; at < bytes && !st; at += n) {
        n = bytes - at < GRAFT_CUDA_BUFFER_BYTES ? bytes - at : GRAFT_CUDA_BUFFER_BYTES;
        st = graft_cuda_done(d, d->drv.download(s->pinned[s->now], from + at, n, d->stream),
                             DOWNLOAD);
        if (!st) st = graft_cuda_done(d, d->drv.stream_wait(d->stream), DOWNLOAD);
        if (!st) memcpy((char *)dst + at, s->pinned[s->now], n);
    }
    return st;
}
