#include "engine/denoise/features.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/weights/values.h"

typedef struct feature {
    void *data; /* NULL: no feature yet */
    size_t bytes;
    bool fresh;     /* made in the present step */
    bool elsewhere; /* the caller has it */
} feature;

struct graft_features {
    graft_deepcache d;
    uint8_t *plan; /* graft_deepcache_step of each step */
    size_t steps, step;
    feature *slot;
    size_t n_slots;
    bool reuse;     /* the present call may take stored features */
    bool any_fresh; /* one was made in the present step */
    bool renewed;   /* by the present call */
    size_t n;
    /* Drift: how far the input moved since the refresh, times how much a feature moved for such a
     * way between the last two refreshes. */
    float *x, *refresh_x;
    bool has_refresh;
    bool learned; /* from the present refresh */
    double moved; /* of x between the last two refreshes */
    double gain;
};

graft_status graft_features_create(const graft_deepcache *d, size_t steps, size_t slots, size_t n,
                                   graft_features **out, graft_err *e)
{
    graft_features *f = graft_calloc(1, sizeof *f);
    if (!f) return graft_fail_nomem(e, "DeepCache");
    f->d = *d;
    f->steps = steps;
    f->n_slots = slots;
    f->n = n;
    f->gain = 1;
    f->plan = graft_malloc_array(steps, sizeof *f->plan);
    f->slot = graft_calloc(slots, sizeof *f->slot);
    bool ok = f->plan && f->slot;
    if (ok && d->max_error > 0) {
        f->x = graft_malloc_array(n, sizeof *f->x);
        f->refresh_x = graft_malloc_array(n, sizeof *f->refresh_x);
        ok = f->x && f->refresh_x;
    }
    if (!ok) {
        graft_features_destroy(f);
        return graft_fail_nomem(e, "DeepCache");
    }
    graft_deepcache_plan(d, steps, f->plan);
    *out = f;
    return GRAFT_OK;
}

void graft_features_destroy(graft_features *f)
{
    if (!f) return;
    for (size_t i = 0; f->slot && i < f->n_slots; i++) graft_free(f->slot[i].data);
    graft_free(f->slot);
    graft_free(f->plan);
    graft_free(f->x);
    graft_free(f->refresh_x);
    graft_free(f);
}

void graft_features_step(graft_features *f, size_t step)
{
    f->step = step;
    f->any_fresh = false;
    for (size_t i = 0; i < f->n_slots; i++) f->slot[i].fresh = false;
}

/* sum |a - b| / sum |b| */
static double relative_change(const float *a, const float *b, size_t n)
{
    double change = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        change += fabs((double)a[i] - (double)b[i]);
        size += fabs((double)b[i]);
    }
    return size > 0 ? change / size : change > 0 ? INFINITY : 0;
}

static uint8_t planned(const graft_features *f)
{
    if (f->step < f->steps) return f->plan[f->step];
    /* Adaptive samplers take more steps than anyone planned. */
    int64_t at = (int64_t)f->step;
    if (f->d.interval <= 1 || at < f->d.start || at >= f->d.end) return GRAFT_STEP_FULL;
    return (at - f->d.start) % f->d.interval ? GRAFT_STEP_FAST : GRAFT_STEP_REFRESH;
}

void graft_features_call(graft_features *f, const float *x)
{
    uint8_t now = planned(f);
    f->reuse = now == GRAFT_STEP_FAST || (now == GRAFT_STEP_REFRESH && f->any_fresh);
    f->renewed = false;
    if (!f->x) return;
    memcpy(f->x, x, f->n * sizeof *x);
    if (f->has_refresh) {
        double drift = f->gain * relative_change(f->x, f->refresh_x, f->n);
        if (!(drift <= f->d.max_error)) f->reuse = false;
    }
}

bool graft_features_fast(const graft_features *f, size_t slot)
{
    /* In a step that refreshes, features from before it are old, whatever other slots have. */
    bool refresh = planned(f) == GRAFT_STEP_REFRESH;
    const feature *s = &f->slot[slot];
    return f->reuse && (s->data || s->elsewhere) && (!refresh || s->fresh);
}

bool graft_features_spare(const graft_features *f)
{
    return f->reuse || planned(f) == GRAFT_STEP_FULL; /* nobody reuses what a full step leaves */
}

/* What the step from the old to the new feature teaches about drift. */
static graft_status learn(graft_features *f, graft_dtype dtype, const void *old, const void *new,
                          size_t bytes, graft_err *e)
{
    size_t n = bytes / graft_dtype_size(dtype);
    float *a = graft_malloc_array(n, sizeof *a), *b = graft_malloc_array(n, sizeof *b);
    graft_status st = a && b ? GRAFT_OK : graft_fail_nomem(e, "DeepCache");
    if (!st) {
        graft_to_f32(dtype, old, a, n);
        graft_to_f32(dtype, new, b, n);
        double gain = relative_change(a, b, n) / f->moved;
        if (isfinite(gain) && (!f->learned || gain > f->gain)) { /* the largest of the slots */
            f->gain = gain;
            f->learned = true;
        }
    }
    graft_free(a);
    graft_free(b);
    return st;
}

graft_status graft_features_store(graft_features *f, size_t i, graft_dtype dtype, const void *data,
                                  size_t bytes, graft_err *e)
{
    feature *s = &f->slot[i];
    graft_status st = GRAFT_OK;
    if (f->x && !f->renewed) { /* the first slot of this call */
        f->moved = f->has_refresh ? relative_change(f->x, f->refresh_x, f->n) : 0;
        memcpy(f->refresh_x, f->x, f->n * sizeof *f->x);
        f->has_refresh = f->renewed = true;
        f->learned = false;
    }
    if (f->x && s->data && s->bytes == bytes && f->moved > 0)
        st = learn(f, dtype, s->data, data, bytes, e);
    if (st) return st;
    if (s->bytes != bytes || !s->data) {
        graft_free(s->data);
        s->bytes = 0;
        s->data = graft_malloc(bytes);
        if (!s->data) return graft_fail_nomem(e, "DeepCache");
        s->bytes = bytes;
    }
    memcpy(s->data, data, bytes);
    s->fresh = f->any_fresh = true;
    return GRAFT_OK;
}

const void *graft_features_get(const graft_features *f, size_t slot)
{
    return f->slot[slot].data;
}

void graft_features_made(graft_features *f, size_t slot)
{
    assert(!f->x);
    f->slot[slot].elsewhere = f->slot[slot].fresh = f->any_fresh = true;
}
