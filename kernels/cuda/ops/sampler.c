#include "kernels/cuda/ops/sampler.h"

#include <string.h>

#include "kernels/cuda/device/stage.h"

struct graft_fetch {
    graft_device *d;
    void *pinned; /* of `capacity` bytes; NULL: none */
    uint64_t capacity;
    CUevent arrived;
    struct graft_fetch *next;
};

graft_status graft_cuda_copy(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    if (!st && bytes)
        st = graft_cuda_done(
            d,
            d->drv.copy((CUdeviceptr)(uintptr_t)dst, (CUdeviceptr)(uintptr_t)src, bytes, d->stream),
            "a copy on the device");
    graft_cuda_unlock(d);
    return st;
}

static graft_status launch(graft_device *d, graft_cuda_function f, uint64_t n, const void *params)
{
    if (!n) return GRAFT_OK;
    if (n > INT32_MAX) return GRAFT_E_LIMIT;
    graft_cuda_lock(d);
    graft_status st =
        graft_cuda_launch(d, f, graft_cuda_blocks(n, GRAFT_CUDA_THREADS), 1, 1, params);
    graft_cuda_unlock(d);
    return st;
}

graft_status graft_cuda_fill(graft_device *d, float *out, uint64_t n, float value)
{
    graft_cuda_mix p = {.out = out, .factor = {value}, .n = n};
    return launch(d, GRAFT_CUDA_FN_graft_mix, n, &p);
}

graft_status graft_cuda_mix_arrays(graft_device *d, float *out, uint64_t n, uint32_t count,
                                   const double *factor, const float *const *in)
{
    graft_cuda_mix p = {.out = out, .n = n, .count = count};
    if (!count || count > sizeof p.in / sizeof *p.in) return GRAFT_E_ARG;
    for (uint32_t i = 0; i < count; i++) {
        p.in[i] = in[i];
        p.factor[i] = factor[i];
    }
    return launch(d, GRAFT_CUDA_FN_graft_mix, n, &p);
}

graft_status graft_cuda_guide(graft_device *d, const graft_guidance *g)
{
    if (g->entries > GRAFT_GUIDE_ENTRIES) return GRAFT_E_ARG;
    return launch(d, GRAFT_CUDA_FN_graft_guide, g->n, g);
}

graft_status graft_cuda_blend_arrays(graft_device *d, const graft_blend *b)
{
    return launch(d, GRAFT_CUDA_FN_graft_blend_masked, b->n, b);
}

graft_status graft_cuda_rescale_guidance(graft_device *d, const graft_rescale *r)
{
    if (!r->n) return GRAFT_OK;
    if (!r->per || r->per > r->n || r->n > INT32_MAX) return GRAFT_E_ARG;
    graft_cuda_lock(d); /* or two callers' kernels could come between each other's */
    graft_status st = launch(d, GRAFT_CUDA_FN_graft_rescale_split, r->n, r);
    if (!st)
        st = graft_cuda_launch(d, GRAFT_CUDA_FN_graft_rescale_spread, (uint32_t)(r->n / r->per), 2,
                               1, r);
    if (!st) st = launch(d, GRAFT_CUDA_FN_graft_rescale_join, r->n, r);
    graft_cuda_unlock(d);
    return st;
}

static bool is_inside(uint64_t first, uint64_t count, uint64_t all)
{
    return first + count <= all;
}

/* Kernels count the whole in 32 bits. */
static graft_status launch_excerpt(graft_device *d, graft_cuda_function f, const graft_excerpt *r)
{
    const uint64_t planes = (uint64_t)r->pictures * r->channels, area = (uint64_t)r->h * r->w;
    if (!is_inside(r->y, r->height, r->h) || !is_inside(r->x, r->width, r->w)) return GRAFT_E_ARG;
    if (planes > INT32_MAX || (area && planes > INT32_MAX / area)) return GRAFT_E_LIMIT;
    return launch(d, f, planes * r->height * r->width, r);
}

graft_status graft_cuda_cut(graft_device *d, const graft_excerpt *r)
{
    return launch_excerpt(d, GRAFT_CUDA_FN_graft_excerpt_cut, r);
}

graft_status graft_cuda_weigh(graft_device *d, const graft_excerpt *r)
{
    return launch_excerpt(d, GRAFT_CUDA_FN_graft_excerpt_weigh, r);
}

graft_status graft_cuda_weighed_mean(graft_device *d, const graft_weighed *w)
{
    return launch(d, GRAFT_CUDA_FN_graft_weighed_mean, w->n, w);
}

graft_status graft_cuda_change(graft_device *d, const graft_change *c)
{
    const bool places = c->kind == GRAFT_CHANGE_NORMED || c->kind == GRAFT_CHANGE_SIMILAR;
    if (!c->n) return GRAFT_OK;
    if (c->kind < 0 || c->kind > GRAFT_CHANGE_DISTANCE || !c->area || c->per < c->area ||
        c->per > c->n || c->n > INT32_MAX)
        return GRAFT_E_ARG;
    const uint64_t pictures = c->n / c->per;
    graft_status st = GRAFT_OK;
    graft_cuda_lock(d); /* or two callers' kernels could come between each other's */
    if (c->kind == GRAFT_CHANGE_PROJECTED && c->average)
        st = launch(d, GRAFT_CUDA_FN_graft_change_kept, c->n, c);
    if (!st && places) st = launch(d, GRAFT_CUDA_FN_graft_change_places, pictures * c->area, c);
    if (!st && graft_change_terms(c))
        st = graft_cuda_launch(d, GRAFT_CUDA_FN_graft_change_sums, (uint32_t)pictures, 1, 1, c);
    if (!st && c->kind != GRAFT_CHANGE_NORMED && c->kind != GRAFT_CHANGE_DISTANCE)
        st = launch(d, GRAFT_CUDA_FN_graft_change_values, c->n, c);
    graft_cuda_unlock(d);
    return st;
}

/* ------------------------------------------------------------------ fetches */

static void fetch_finish(graft_device *d, graft_fetch *f)
{
    if (f->arrived) d->drv.event_destroy(f->arrived);
    if (f->pinned) d->drv.pinned_free(f->pinned);
    d->host.free(f);
}

/* One that waits, with room for so much: pinned memory is slow to get. */
static graft_fetch *take(graft_device *d, uint64_t bytes)
{
    for (graft_fetch **at = &d->fetches; *at; at = &(*at)->next) {
        graft_fetch *f = *at;
        if (f->capacity < bytes) continue;
        *at = f->next;
        return f;
    }
    return NULL;
}

/* That there is no pinned memory is left to the caller. */
static graft_status pin(graft_device *d, uint64_t bytes, void **out)
{
    CUresult r = d->drv.pinned_alloc(out, bytes, 0);
    if (r) *out = NULL;
    d->no_pinned = r != CUDA_SUCCESS;
    return r == CUDA_ERROR_OUT_OF_MEMORY ? GRAFT_E_NOMEM : graft_cuda_done(d, r, "pinned memory");
}

static graft_status make(graft_device *d, uint64_t bytes, graft_fetch **out)
{
    graft_fetch *f = d->host.alloc(GRAFT_CUDA_ALIGN, sizeof *f);
    if (!f) return GRAFT_E_NOMEM;
    *f = (graft_fetch){.d = d, .capacity = bytes};
    graft_status st =
        graft_cuda_done(d, d->drv.event_create(&f->arrived, CU_EVENT_DISABLE_TIMING), "an event");
    if (!st && bytes) st = pin(d, bytes, &f->pinned);
    if (st)
        fetch_finish(d, f);
    else
        *out = f;
    return st;
}

graft_status graft_cuda_fetch(graft_device *d, const void *src, uint64_t bytes, graft_fetch **out)
{
    *out = NULL;
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    graft_fetch *f = st ? NULL : take(d, bytes);
    if (!st && !f) st = make(d, bytes, &f);
    if (!st && bytes)
        st = graft_cuda_done(
            d, d->drv.download(f->pinned, (CUdeviceptr)(uintptr_t)src, bytes, d->stream),
            "a copy from the device");
    if (!st)
        st = graft_cuda_done(d, d->drv.event_record(f->arrived, d->stream),
                             "a copy from the device");
    if (st && f)
        fetch_finish(d, f);
    else
        *out = f;
    graft_cuda_unlock(d);
    return st;
}

graft_status graft_cuda_fetched(graft_fetch *f, const void **data)
{
    graft_device *d = f->d;
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : GRAFT_OK;
    if (!st) st = graft_cuda_done(d, d->drv.event_wait(f->arrived), "the work of a step");
    graft_cuda_unlock(d);
    *data = st ? NULL : f->pinned;
    return st;
}

void graft_cuda_fetch_free(graft_fetch *f)
{
    if (!f) return;
    graft_device *d = f->d;
    graft_cuda_lock(d);
    if (!d->lost[0]) /* its memory is written until then */
        graft_cuda_done(d, d->drv.event_wait(f->arrived), "a copy from the device");
    f->next = d->fetches;
    d->fetches = f;
    graft_cuda_unlock(d);
}

/* ------------------------------------------------------------------ sends */

enum { SENDS = 8 }; /* whose copies may be under way: more than samplers send in two steps */

/* Memory of sends that have arrived goes back to those that wait; from SENDS on the oldest is
 * waited for. They arrive in the order in which they were sent. */
static graft_status collect(graft_device *d)
{
    while (d->sent) {
        graft_fetch *f = d->sent;
        CUresult r = d->drv.event_query(f->arrived);
        if (r == CUDA_ERROR_NOT_READY) {
            if (d->n_sent < SENDS) return GRAFT_OK;
            r = d->drv.event_wait(f->arrived);
        }
        graft_status st = graft_cuda_done(d, r, "a copy to the device");
        if (st) return st;
        d->sent = f->next;
        d->n_sent--;
        f->next = d->fetches;
        d->fetches = f;
    }
    return GRAFT_OK;
}

static void append(graft_device *d, graft_fetch *f)
{
    graft_fetch **end = &d->sent;
    while (*end) end = &(*end)->next;
    *end = f;
    f->next = NULL;
    d->n_sent++;
}

/* What is larger than a buffer of the stage goes through that: pinned memory of its size would take
 * long to get, and stay. So does what there is no pinned memory for. */
static graft_status send_staged(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    graft_cuda_lock(d);
    graft_status st = graft_cuda_send(d, dst, src, bytes);
    graft_cuda_unlock(d);
    return st;
}

graft_status graft_cuda_send_ahead(graft_device *d, void *dst, const void *src, uint64_t bytes)
{
    if (!bytes) return GRAFT_OK;
    if (bytes > GRAFT_CUDA_BUFFER_BYTES) return send_staged(d, dst, src, bytes);
    graft_cuda_lock(d);
    graft_status st = d->lost[0] ? GRAFT_E_DEVICE : collect(d);
    graft_fetch *f = st ? NULL : take(d, bytes);
    if (!st && !f && (d->no_pinned || (st = make(d, bytes, &f)) == GRAFT_E_NOMEM)) {
        st = send_staged(d, dst, src, bytes);
        graft_cuda_unlock(d);
        return st;
    }
    if (!st) {
        memcpy(f->pinned, src, bytes);
        st = graft_cuda_done(
            d, d->drv.upload((CUdeviceptr)(uintptr_t)dst, f->pinned, bytes, d->stream),
            "a copy to the device");
    }
    if (!st)
        st = graft_cuda_done(d, d->drv.event_record(f->arrived, d->stream), "a copy to the device");
    if (f) append(d, f); /* also on failure: its copy may be under way */
    graft_cuda_unlock(d);
    return st;
}

void graft_cuda_fetches_close(graft_device *d)
{
    graft_fetch **lists[] = {&d->fetches, &d->sent};
    for (int i = 0; i < 2; i++)
        while (*lists[i]) {
            graft_fetch *f = *lists[i];
            *lists[i] = f->next;
            fetch_finish(d, f);
        }
}
