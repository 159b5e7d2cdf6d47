/* Latents cut, turned, mixed and laid over each other, for nodes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "engine/image/mask.h"
#include "engine/image/resize.h"
#include "engine/image/turn.h"
#include "engine/image/weight.h"

/* Gives *l another mask; both are let go of on failure, and *l is NULL then. */
static graft_status take_mask(graft_latent **l, graft_image *mask, graft_err *e)
{
    graft_latent *with = NULL;
    graft_status st = graft_latent_set_mask(*l, mask, &with, e);
    graft_image_release(mask);
    graft_latent_release(*l);
    *l = with;
    return st;
}

/* ------------------------------------------------------------------ cutting, turning */

graft_status graft_latent_crop(const graft_latent *l, int64_t x, int64_t y, int64_t width,
                               int64_t height, graft_latent **out, graft_err *e)
{
    int64_t s[4];
    const float *data = graft_latent_data(l, s);
    const int64_t scale = graft_latent_cell(l), left = x / scale, top = y / scale;
    int64_t w = width / scale, h = height / scale;
    graft_latent *r = NULL;
    graft_image *all = NULL, *part = NULL;
    *out = NULL;
    if (x < 0 || y < 0 || w < 1 || h < 1 || left >= s[3] || top >= s[2])
        return graft_fail(e, GRAFT_E_ARG,
                          "nothing remains of a latent of %" PRId64 " x %" PRId64
                          " pixels: the part of %" PRId64 " x %" PRId64 " at %" PRId64 ", %" PRId64
                          " is outside",
                          s[3] * scale, s[2] * scale, width, height, x, y);
    if (w > s[3] - left) w = s[3] - left;
    if (h > s[2] - top) h = s[2] - top;
    const int64_t planes[4] = {s[0] * s[1], s[2], s[3], 1}, shape[4] = {s[0], s[1], h, w};
    graft_status st = graft_latent_create_like(l, shape, &r, e);
    if (st) return st;
    graft_resize_cut(data, planes, top, left, graft_latent_writable(r), h, w);
    if (graft_latent_mask(l)) {
        GRAFT_TRY(graft_image_resize_mask(graft_latent_mask(l), s[2], s[3], 0, &all, e));
        GRAFT_TRY(graft_image_crop(all, left, top, w, h, &part, e));
        GRAFT_TRY(take_mask(&r, part, e));
    }
    *out = r;
    r = NULL;
out:
    graft_image_release(all);
    graft_latent_release(r);
    return st;
}

static graft_status turned(const graft_latent *l, const graft_turn *t, graft_latent **out,
                           graft_err *e)
{
    int64_t s[4], planes[4], sized[4], m[4];
    const float *data = graft_latent_data(l, s);
    const graft_image *mask = graft_latent_mask(l);
    graft_latent *r = NULL;
    graft_image *other = NULL;
    *out = NULL;
    graft_turn_shape(t, (const int64_t[]){s[0] * s[1], s[2], s[3], 1}, planes);
    const int64_t shape[4] = {s[0], s[1], planes[1], planes[2]};
    graft_status st = graft_latent_create_like(l, shape, &r, e);
    if (st) return st;
    graft_turn_apply(t, data, (const int64_t[]){s[0] * s[1], s[2], s[3], 1},
                     graft_latent_writable(r));
    if (mask) {
        const float *v = graft_image_data(mask, m);
        graft_turn_shape(t, m, sized);
        GRAFT_TRY(graft_image_create(sized, true, &other, e));
        graft_turn_apply(t, v, m, graft_image_writable(other));
        GRAFT_TRY(take_mask(&r, other, e));
    }
    *out = r;
    r = NULL;
out:
    graft_latent_release(r);
    return st;
}

graft_status graft_latent_flip(const graft_latent *l, bool upside_down, graft_latent **out,
                               graft_err *e)
{
    const graft_turn t = {upside_down, !upside_down, 0};
    return turned(l, &t, out, e);
}

graft_status graft_latent_rotate(const graft_latent *l, int turns, graft_latent **out, graft_err *e)
{
    const graft_turn t = {false, false, turns};
    *out = NULL;
    if (turns < 0 || turns > 3) return graft_fail(e, GRAFT_E_ARG, "%d right angles", turns);
    return turned(l, &t, out, e);
}

/* ------------------------------------------------------------------ two of them */

/* b's samples at the size of `to`; graft_free(). */
static graft_status scaled(const graft_latent *b, const graft_latent *to,
                           graft_resize_method method, bool center, float **out, graft_err *e)
{
    int64_t s[4], a[4];
    const float *data = graft_latent_data(b, s);
    const int64_t planes[4] = {s[0] * s[1], s[2], s[3], 1};
    graft_status st = graft_latent_want_alike(to, b, e);
    if (st) return st;
    graft_latent_data(to, a);
    *out = graft_malloc_array((size_t)(s[0] * s[1]), (size_t)(a[2] * a[3]) * sizeof **out);
    if (!*out) return graft_fail_nomem(e, "a latent");
    if (s[2] != a[2] || s[3] != a[3])
        return graft_resize(method, data, planes, *out, a[2], a[3], center, e);
    memcpy(*out, data, (size_t)(s[0] * s[1] * s[2] * s[3]) * sizeof **out);
    return GRAFT_OK;
}

graft_status graft_latent_blend(const graft_latent *a, const graft_latent *b, double factor,
                                graft_latent **out, graft_err *e)
{
    int64_t s[4], t[4];
    const float *v = graft_latent_data(a, s);
    float *other = NULL, k = (float)factor;
    graft_latent *r = NULL;
    *out = NULL;
    graft_latent_data(b, t);
    graft_status st = scaled(b, a, GRAFT_RESIZE_BICUBIC, true, &other, e);
    if (!st) st = graft_latent_create_like(a, s, &r, e);
    int64_t one = s[1] * s[2] * s[3];
    float *dst = st ? NULL : graft_latent_writable(r);
    for (int64_t i = 0; i < s[0] * one && !st; i++)
        dst[i] = v[i] * k + other[i % (t[0] * one)] * (1.0f - k);
    graft_free(other);
    if (!st) *out = r;
    return st;
}

graft_status graft_latent_sum(const graft_latent *a, double factor_a, const graft_latent *b,
                              double factor_b, graft_latent **out, graft_err *e)
{
    int64_t s[4], t[4] = {1};
    const float *v = graft_latent_data(a, s);
    float *other = NULL, k = (float)factor_a, m = (float)factor_b;
    graft_latent *r = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    if (!isfinite(k) || !isfinite(m))
        return graft_fail(e, GRAFT_E_ARG, "latents cannot have the factors %g and %g", factor_a,
                          factor_b);
    if (b) {
        graft_latent_data(b, t);
        st = scaled(b, a, GRAFT_RESIZE_BILINEAR, true, &other, e);
    }
    if (!st) st = graft_latent_create_like(a, s, &r, e);
    int64_t one = s[1] * s[2] * s[3];
    float *dst = st ? NULL : graft_latent_writable(r);
    for (int64_t i = 0; i < s[0] * one && !st; i++)
        dst[i] = v[i] * k + (other ? other[i % (t[0] * one)] * m : 0.0f);
    graft_free(other);
    if (!st) *out = r;
    return st;
}

/* v / n, or 0 for what has no length. */
static float share(float v, float n)
{
    return n > 0 ? v / n : 0;
}

/* The length of the vector of `channels` values that lie `plane` apart. */
static float length(const float *v, int64_t channels, int64_t plane)
{
    double sum = 0;
    for (int64_t c = 0; c < channels; c++) sum += (double)v[c * plane] * (double)v[c * plane];
    return (float)sqrt(sum);
}

/* One place: directions mixed, then lengths. */
static void interpolate(const float *v, const float *w, float k, int64_t channels, int64_t plane,
                        float *dst)
{
    const float m = length(v, channels, plane), n = length(w, channels, plane);
    for (int64_t c = 0; c < channels * plane; c += plane)
        dst[c] = share(v[c], m) * k + share(w[c], n) * (1 - k);
    const float mixed = length(dst, channels, plane);
    for (int64_t c = 0; c < channels * plane; c += plane)
        dst[c] = share(dst[c], mixed) * (m * k + n * (1 - k));
}

graft_status graft_latent_interpolate(const graft_latent *a, const graft_latent *b, double ratio,
                                      graft_latent **out, graft_err *e)
{
    int64_t s[4], t[4];
    const float *v = graft_latent_data(a, s);
    float *other = NULL;
    graft_latent *r = NULL;
    *out = NULL;
    graft_latent_data(b, t);
    graft_status st = scaled(b, a, GRAFT_RESIZE_BILINEAR, true, &other, e);
    if (!st) st = graft_latent_create_like(a, s, &r, e);
    const int64_t layers = graft_latent_layers(a), channels = s[1] / layers;
    const int64_t plane = layers * s[2] * s[3], one = channels * plane;
    float *dst = st ? NULL : graft_latent_writable(r);
    for (int64_t i = 0; i < s[0] * plane && !st; i++) {
        const int64_t at = i / plane * one + i % plane;
        interpolate(v + at, other + at % (t[0] * one), (float)ratio, channels, plane, dst + at);
    }
    graft_free(other);
    if (!st) *out = r;
    return st;
}

/* Masks of a batch's samples at this size; white without one. */
static graft_status masks_of(const graft_latent *l, int64_t h, int64_t w, float *dst, graft_err *e)
{
    int64_t s[4];
    graft_image *sized = NULL;
    graft_latent_data(l, s);
    if (!graft_latent_mask(l)) {
        for (int64_t i = 0; i < s[0] * h * w; i++) dst[i] = 1;
        return GRAFT_OK;
    }
    graft_status st = graft_image_resize_mask(graft_latent_mask(l), h, w, s[0], &sized, e);
    if (st) return st;
    memcpy(dst, graft_image_data(sized, s), (size_t)(s[0] * h * w) * sizeof *dst);
    graft_image_release(sized);
    return GRAFT_OK;
}

/* In the size of the first one's mask, else of the second's. */
static graft_status batch_masks(const graft_latent *a, const graft_latent *b, graft_latent **r,
                                graft_err *e)
{
    const graft_image *first = graft_latent_mask(a) ? graft_latent_mask(a) : graft_latent_mask(b);
    int64_t s[4], t[4], m[4];
    graft_image *all = NULL;
    if (!first) return GRAFT_OK;
    graft_latent_data(a, s);
    graft_latent_data(b, t);
    graft_image_data(first, m);
    const int64_t shape[4] = {s[0] + t[0], m[1], m[2], 1};
    graft_status st = graft_image_create(shape, true, &all, e);
    if (st) return st;
    float *dst = graft_image_writable(all);
    st = masks_of(a, m[1], m[2], dst, e);
    if (!st) st = masks_of(b, m[1], m[2], dst + s[0] * m[1] * m[2], e);
    if (!st) return take_mask(r, all, e);
    graft_image_release(all);
    return st;
}

/* Those without numbers have the ones of their place in their own batch: as ComfyUI has it, and its
 * pictures with one number get one noise. */
static graft_status batch_index(const graft_latent *a, int64_t n, const graft_latent *b, int64_t m,
                                graft_latent *r, graft_err *e)
{
    const int64_t *i = graft_latent_batch_index(a), *k = graft_latent_batch_index(b);
    int64_t *all = graft_malloc_array((size_t)(n + m), sizeof *all);
    if (!all) return graft_fail_nomem(e, "the batch indices of a latent");
    for (int64_t at = 0; at < n + m; at++)
        all[at] = at < n ? (i ? i[at] : at) : (k ? k[at - n] : at - n);
    graft_status st = graft_latent_set_index(r, all, e);
    graft_free(all);
    return st;
}

graft_status graft_latent_batch(const graft_latent *a, const graft_latent *b, graft_latent **out,
                                graft_err *e)
{
    int64_t s[4], t[4];
    const float *v = graft_latent_data(a, s);
    float *other = NULL;
    graft_latent *r = NULL;
    *out = NULL;
    graft_latent_data(b, t);
    const int64_t shape[4] = {s[0] + t[0], s[1], s[2], s[3]};
    graft_status st = scaled(b, a, GRAFT_RESIZE_BILINEAR, true, &other, e);
    if (!st) st = graft_latent_create_layers(shape, graft_latent_layers(a), &r, e);
    if (!st) {
        size_t one = (size_t)(s[1] * s[2] * s[3]), n = (size_t)s[0] * one;
        memcpy(graft_latent_writable(r), v, n * sizeof *v);
        memcpy(graft_latent_writable(r) + n, other, (size_t)t[0] * one * sizeof *v);
    }
    if (!st) st = batch_index(a, s[0], b, t[0], r, e);
    if (!st) st = batch_masks(a, b, &r, e);
    graft_free(other);
    if (st)
        graft_latent_release(r);
    else
        *out = r;
    return st;
}

/* ------------------------------------------------------------------ laying over */

/* What lies over a latent: samples (N,C,h,w) and weights (masks,h,w), at a cell. */
typedef struct layer {
    const float *data, *weight;
    int64_t shape[4], masks, y, x;
} layer;

static graft_status lay(const graft_latent *to, const layer *k, graft_latent **out, graft_err *e)
{
    int64_t s[4], h = k->shape[2], w = k->shape[3];
    const float *base = graft_latent_data(to, s);
    graft_latent *r = NULL;
    graft_status st = graft_latent_create_like(to, s, &r, e);
    if (st) return st;
    float *dst = graft_latent_writable(r);
    memcpy(dst, base, (size_t)(s[0] * s[1] * s[2] * s[3]) * sizeof *dst);
    for (int64_t p = 0; p < s[0] * s[1]; p++) {
        int64_t sample = p / s[1], plane = sample % k->shape[0] * s[1] + p % s[1];
        for (int64_t y = 0; y < h && k->y < s[2] - y; y++)
            for (int64_t x = 0; x < w && k->x < s[3] - x; x++) {
                float *at = &dst[(p * s[2] + k->y + y) * s[3] + k->x + x];
                float m = k->weight[(sample % k->masks * h + y) * w + x];
                *at = k->data[(plane * h + y) * w + x] * m + *at * (1.0f - m);
            }
    }
    *out = r;
    return GRAFT_OK;
}

static graft_status check_place(int64_t x, int64_t y, graft_err *e)
{
    return x >= 0 && y >= 0
               ? GRAFT_OK
               : graft_fail(e, GRAFT_E_ARG, "%" PRId64 ", %" PRId64 " is outside", x, y);
}

graft_status graft_latent_composite(const graft_latent *to, const graft_latent *from, int64_t x,
                                    int64_t y, int64_t feather, graft_latent **out, graft_err *e)
{
    int64_t s[4];
    *out = NULL;
    graft_latent_data(to, s);
    const int64_t scale = graft_latent_cell(to), n = feather / scale;
    layer k = {.masks = 1, .y = y / scale, .x = x / scale};
    k.data = graft_latent_data(from, k.shape);
    graft_status st = graft_latent_want_alike(to, from, e);
    if (!st) st = check_place(x, y, e);
    if (st) return st;
    int64_t h = k.shape[2], w = k.shape[3];
    float *weight = graft_malloc_array((size_t)(h * w), sizeof *weight);
    if (!weight) return graft_fail_nomem(e, "a latent");
    for (int64_t i = 0; i < h * w; i++)
        weight[i] = (float)(graft_weight_fade(i / w, h, k.y > 0 ? n : 0, k.y < s[2] - h ? n : 0) *
                            graft_weight_fade(i % w, w, k.x > 0 ? n : 0, k.x < s[3] - w ? n : 0));
    k.weight = weight;
    st = lay(to, &k, out, e);
    graft_free(weight);
    return st;
}

graft_status graft_latent_composite_masked(const graft_latent *to, const graft_latent *from,
                                           int64_t x, int64_t y, bool resize,
                                           const graft_image *mask, graft_latent **out,
                                           graft_err *e)
{
    int64_t s[4], m[4] = {1, 0, 0, 1};
    graft_image *sized = NULL;
    float *other = NULL;
    *out = NULL;
    graft_latent_data(to, s);
    const int64_t scale = graft_latent_cell(to);
    layer k = {.y = y / scale, .x = x / scale};
    k.data = graft_latent_data(from, k.shape);
    graft_status st = graft_latent_want_alike(to, from, e);
    if (!st) st = check_place(x, y, e);
    if (!st && resize) st = scaled(from, to, GRAFT_RESIZE_BILINEAR, false, &other, e);
    if (!st && resize) {
        k.data = other;
        k.shape[2] = s[2];
        k.shape[3] = s[3];
    }
    if (!st)
        st = mask ? graft_image_resize_mask(mask, k.shape[2], k.shape[3], 0, &sized, e)
                  : graft_mask_solid(k.shape[3], k.shape[2], 1, &sized, e);
    if (!st) {
        k.weight = graft_image_data(sized, m);
        k.masks = m[0];
        st = lay(to, &k, out, e);
    }
    graft_image_release(sized);
    graft_free(other);
    return st;
}
