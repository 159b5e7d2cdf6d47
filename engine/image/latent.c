#include "engine/image/latent.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/image/image.h"
#include "engine/image/resize.h"
#include "engine/sampling/noise.h"

#define ALIGN     64
#define MAX_BATCH 65536

struct graft_latent {
    atomic_int refs;
    int64_t shape[4]; /* [1]: of all layers */
    int64_t layers;
    graft_latent *owner; /* retained: holds the samples when they are not here */
    graft_image *mask;
    int64_t *batch_index;
    _Alignas(ALIGN) float data[];
};

static int64_t elements(const int64_t shape[4])
{
    return shape[0] * shape[1] * shape[2] * shape[3];
}

static graft_status check_shape(const int64_t shape[4], int64_t *n, graft_err *e)
{
    bool ok = shape[0] >= 1 && shape[0] <= MAX_BATCH && shape[1] >= 1;
    for (int d = 2; d < 4; d++) ok = ok && shape[d] >= 1 && shape[d] <= GRAFT_IMAGE_MAX_SIDE;
    if (ok && graft_size_product(shape, 4, n) && *n <= PTRDIFF_MAX / 8) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "a latent of %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                      " (batch, channels, height, width): sizes out of range",
                      shape[0], shape[1], shape[2], shape[3]);
}

static graft_latent *allocate(const int64_t shape[4], int64_t n)
{
    graft_latent *l = graft_malloc_aligned(ALIGN, sizeof *l + (size_t)n * sizeof(float));
    if (!l) return NULL;
    atomic_init(&l->refs, 1);
    memcpy(l->shape, shape, sizeof l->shape);
    l->layers = 1;
    l->owner = NULL;
    l->mask = NULL;
    l->batch_index = NULL;
    return l;
}

graft_status graft_latent_create(const int64_t shape[4], graft_latent **out, graft_err *e)
{
    int64_t n = 0;
    *out = NULL;
    graft_status st = check_shape(shape, &n, e);
    if (st) return st;
    *out = allocate(shape, n);
    if (*out) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_NOMEM, "out of memory: a latent of %lldx%lldx%lldx%lld",
                      (long long)shape[0], (long long)shape[1], (long long)shape[2],
                      (long long)shape[3]);
}

graft_status graft_latent_create_layers(const int64_t shape[4], int64_t layers, graft_latent **out,
                                        graft_err *e)
{
    *out = NULL;
    if (layers < 1 || shape[1] % layers)
        return graft_fail(e, GRAFT_E_ARG, "a latent of %" PRId64 " planes for %" PRId64 " layers",
                          shape[1], layers);
    graft_status st = graft_latent_create(shape, out, e);
    if (!st) (*out)->layers = layers;
    return st;
}

graft_status graft_latent_from_data(const float *data, const int64_t shape[4], graft_latent **out,
                                    graft_err *e)
{
    graft_status st = graft_latent_create(shape, out, e);
    if (!st) memcpy((*out)->data, data, (size_t)elements(shape) * sizeof *data);
    return st;
}

static graft_status set_batch_index(graft_latent *l, const int64_t *index, graft_err *e)
{
    const size_t n = (size_t)l->shape[0];
    l->batch_index = graft_malloc_array(n, sizeof *l->batch_index);
    if (!l->batch_index) return graft_fail_nomem(e, "the batch indices of a latent");
    memcpy(l->batch_index, index, n * sizeof *index);
    return GRAFT_OK;
}

graft_status graft_latent_set_index(graft_latent *l, const int64_t *index, graft_err *e)
{
    assert(!l->batch_index && atomic_load(&l->refs) == 1);
    return set_batch_index(l, index, e);
}

/* Gives a new latent the mask of `from`, and its batch indices when they fit. */
static graft_status inherit(graft_latent *l, const graft_latent *from, graft_err *e)
{
    l->mask = graft_image_retain(from->mask);
    if (!from->batch_index || from->shape[0] != l->shape[0]) return GRAFT_OK;
    return set_batch_index(l, from->batch_index, e);
}

graft_status graft_latent_create_like(const graft_latent *from, const int64_t shape[4],
                                      graft_latent **out, graft_err *e)
{
    graft_latent *l;
    *out = NULL;
    graft_status st = graft_latent_create_layers(shape, from->layers, &l, e);
    if (st) return st;
    st = inherit(l, from, e);
    if (st)
        graft_latent_release(l);
    else
        *out = l;
    return st;
}

graft_status graft_latent_create_sampled(const graft_latent *from, const int64_t shape[4],
                                         graft_latent **out, graft_err *e)
{
    const int64_t layers = from->layers;
    const int64_t own[4] = {shape[0], shape[1] * layers, shape[2] / layers, shape[3]};
    return graft_latent_create_like(from, own, out, e);
}

float *graft_latent_writable(graft_latent *l)
{
    assert(!l->owner && atomic_load(&l->refs) == 1);
    return l->data;
}

bool graft_latent_is_empty(const graft_latent *l)
{
    const float *v = graft_latent_data(l, NULL);
    const int64_t n = elements(l->shape);
    for (int64_t i = 0; i < n; i++)
        if (v[i] != 0.0f) return false;
    return true;
}

graft_status graft_latent_shape_for(const graft_latent *l, int64_t channels, int64_t shape[4],
                                    graft_err *e)
{
    const int64_t own = l->shape[1] / l->layers;
    const int64_t from = graft_latent_scale(own), to = graft_latent_scale(channels);
    memcpy(shape, l->shape, sizeof l->shape);
    if (own != channels && !graft_latent_is_empty(l))
        return graft_fail(e, GRAFT_E_ARG,
                          "the latent has %" PRId64 " channels, this model takes %" PRId64, own,
                          channels);
    shape[1] = channels;
    for (int d = 2; d < 4; d++) {
        shape[d] = shape[d] * from / to;
        if (!shape[d]) shape[d] = 1;
    }
    shape[2] *= l->layers;
    return GRAFT_OK;
}

int64_t graft_latent_layers(const graft_latent *l)
{
    return l->layers;
}

int64_t graft_latent_cell(const graft_latent *l)
{
    return graft_latent_scale(l->shape[1] / l->layers);
}

graft_status graft_latent_want_single(const graft_latent *l, const char *what, graft_err *e)
{
    if (l->layers == 1) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s takes single pictures, and this latent has %" PRId64
                      " layers: LatentCutToBatch with dim t takes them apart",
                      what, l->layers);
}

graft_status graft_latent_want_alike(const graft_latent *a, const graft_latent *b, graft_err *e)
{
    if (a->layers != b->layers)
        return graft_fail(e, GRAFT_E_ARG,
                          "latents of %" PRId64 " and %" PRId64 " layers do not go together",
                          a->layers, b->layers);
    if (a->shape[1] == b->shape[1]) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "latents of %" PRId64 " and %" PRId64 " channels do not go together",
                      a->shape[1] / a->layers, b->shape[1] / b->layers);
}

const graft_image *graft_latent_mask(const graft_latent *l)
{
    return l->mask;
}

const int64_t *graft_latent_batch_index(const graft_latent *l)
{
    return l->batch_index;
}

graft_latent *graft_latent_retain(graft_latent *l)
{
    if (l) atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

void graft_latent_release(graft_latent *l)
{
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
    graft_latent_release(l->owner);
    graft_image_release(l->mask);
    graft_free(l->batch_index);
    graft_free(l);
}

static const float *samples(const graft_latent *l)
{
    return l->owner ? l->owner->data : l->data;
}

const float *graft_latent_data(const graft_latent *l, int64_t shape[4])
{
    if (shape) memcpy(shape, l->shape, sizeof l->shape);
    return samples(l);
}

int64_t graft_latent_scale(int64_t channels)
{
    return channels == GRAFT_LATENT_FOLDED_CHANNELS || channels == GRAFT_LATENT_FINE_CHANNELS
               ? GRAFT_LATENT_COARSE_SCALE
               : GRAFT_LATENT_SCALE;
}

graft_status graft_latent_empty(int64_t channels, int64_t width, int64_t height, int64_t batch,
                                graft_latent **out, graft_err *e)
{
    return graft_latent_empty_layers(channels, width, height, 1, batch, out, e);
}

graft_status graft_latent_empty_layers(int64_t channels, int64_t width, int64_t height,
                                       int64_t layers, int64_t batch, graft_latent **out,
                                       graft_err *e)
{
    const int64_t scale = graft_latent_scale(channels);
    int64_t shape[4] = {batch, 0, height / scale, width / scale};
    if (!graft_size_product((const int64_t[]){channels, layers}, 2, &shape[1])) shape[1] = 0;
    graft_status st = graft_latent_create_layers(shape, layers, out, e);
    if (!st) memset((*out)->data, 0, (size_t)elements(shape) * sizeof(float));
    return st;
}

graft_status graft_latent_set_mask(const graft_latent *l, const graft_image *mask,
                                   graft_latent **out, graft_err *e)
{
    *out = NULL;
    graft_status st = graft_image_want_mask(mask, e);
    if (st) return st;
    graft_latent *r = allocate(l->shape, 0);
    if (!r) return graft_fail_nomem(e, "a latent");
    r->owner = graft_latent_retain(l->owner ? l->owner : (graft_latent *)l);
    r->layers = l->layers;
    r->mask = graft_image_retain((graft_image *)mask);
    if (l->batch_index) {
        st = set_batch_index(r, l->batch_index, e);
        if (st) {
            graft_latent_release(r);
            return st;
        }
    }
    *out = r;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ size */

/* (N,C,h,w) <-> (N,h,w,C): `rows` and `columns` of each of `n` matrices change places. */
static void transpose(const float *src, float *dst, int64_t n, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < n; i++, src += rows * columns, dst += rows * columns)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) dst[c * rows + r] = src[r * columns + c];
}

/* Turns a vector of all channels at each place, so it wants the channels last. */
static graft_status upscale_bislerp(const graft_latent *l, int64_t h, int64_t w, bool center,
                                    float *dst, graft_err *e)
{
    const int64_t n = l->shape[0], c = l->shape[1], in = l->shape[2] * l->shape[3];
    const int64_t shape[4] = {n, l->shape[2], l->shape[3], c};
    float *from = graft_malloc_array((size_t)(n * c * in), sizeof *from);
    float *to = graft_malloc_array((size_t)(n * c * h * w), sizeof *to);
    graft_status st = from && to ? GRAFT_OK : graft_fail_nomem(e, "resizing");
    GRAFT_TRY(st);
    transpose(samples(l), from, n, c, in);
    GRAFT_TRY(graft_resize(GRAFT_RESIZE_BISLERP, from, shape, to, h, w, center, e));
    transpose(to, dst, n, h * w, c);
out:
    graft_free(to);
    graft_free(from);
    return st;
}

static graft_status upscale_to(const graft_latent *l, const char *method, int64_t w, int64_t h,
                               bool center, graft_latent **out, graft_err *e)
{
    const int64_t shape[4] = {l->shape[0], l->shape[1], h, w};
    const int64_t planes[4] = {l->shape[0] * l->shape[1], l->shape[2], l->shape[3], 1};
    graft_latent *r = NULL;
    graft_resize_method m;
    graft_status st = GRAFT_OK;
    GRAFT_TRY(graft_resize_method_parse(method, true, &m, e));
    if (m == GRAFT_RESIZE_BISLERP) GRAFT_TRY(graft_latent_want_single(l, "bislerp", e));
    GRAFT_TRY(graft_latent_create_like(l, shape, &r, e));
    GRAFT_TRY(m == GRAFT_RESIZE_BISLERP
                  ? upscale_bislerp(l, h, w, center, r->data, e)
                  : graft_resize(m, samples(l), planes, r->data, h, w, center, e));
    *out = r;
    r = NULL;
out:
    graft_latent_release(r);
    return st;
}

/* Pixels, at least 64; `to` and `from` are the other side of the result and of the latent. */
static int64_t in_proportion(int64_t side, int64_t to, int64_t from)
{
    double d = nearbyint((double)side * (double)to / (double)from);
    return d < 64.0 ? 64 : (int64_t)d;
}

graft_status graft_latent_upscale(const graft_latent *l, const char *method, int64_t width,
                                  int64_t height, bool center, graft_latent **out, graft_err *e)
{
    const int64_t scale = graft_latent_cell(l), max = GRAFT_IMAGE_MAX_SIDE * scale;
    *out = NULL;
    if (width < 0 || height < 0 || width > max || height > max)
        return graft_fail(e, GRAFT_E_ARG,
                          "a latent for %" PRId64 " x %" PRId64 " pixels: 0 to %" PRId64
                          " per side",
                          width, height, max);
    if (width == 0 && height == 0) {
        graft_resize_method m;
        graft_status st = graft_resize_method_parse(method, true, &m, e);
        if (!st) *out = graft_latent_retain((graft_latent *)l);
        return st;
    }
    if (width && width < 64) width = 64;
    if (height && height < 64) height = 64;
    if (width == 0) width = in_proportion(l->shape[3], height, l->shape[2]);
    if (height == 0) height = in_proportion(l->shape[2], width, l->shape[3]);
    return upscale_to(l, method, width / scale, height / scale, center, out, e);
}

graft_status graft_latent_upscale_by(const graft_latent *l, const char *method, double scale,
                                     graft_latent **out, graft_err *e)
{
    *out = NULL;
    double w = nearbyint((double)l->shape[3] * scale), h = nearbyint((double)l->shape[2] * scale);
    if (!(scale > 0.0) || !(w <= GRAFT_IMAGE_MAX_SIDE) || !(h <= GRAFT_IMAGE_MAX_SIDE))
        return graft_fail(e, GRAFT_E_ARG,
                          "a latent of %" PRId64 " x %" PRId64 " times %g: not between 1 and %d",
                          l->shape[3], l->shape[2], scale, GRAFT_IMAGE_MAX_SIDE);
    return upscale_to(l, method, w < 1.0 ? 1 : (int64_t)w, h < 1.0 ? 1 : (int64_t)h, false, out, e);
}

/* ------------------------------------------------------------------ batch */

/* `copies` times: masks first ... first+n-1 of the endless repetition of those there are. */
static graft_status repeat_mask(const graft_image *mask, int64_t first, int64_t n, int64_t copies,
                                graft_image **out, graft_err *e)
{
    int64_t shape[4];
    const float *src = graft_image_data(mask, shape);
    const int64_t repeated[4] = {n * copies, shape[1], shape[2], 1};
    graft_status st = graft_image_create(repeated, true, out, e);
    if (st) return st;
    float *dst = graft_image_writable(*out);
    const size_t plane = (size_t)(shape[1] * shape[2]);
    for (int64_t i = 0; i < n * copies; i++)
        memcpy(dst + (size_t)i * plane, src + (size_t)((first + i % n) % shape[0]) * plane,
               plane * sizeof *dst);
    return GRAFT_OK;
}

/* One mask serves every sample; more than one go with their samples. */
static graft_status mask_for(const graft_latent *l, int64_t first, int64_t n, int64_t copies,
                             graft_latent *r, graft_err *e)
{
    int64_t shape[4];
    if (!l->mask) return GRAFT_OK;
    graft_image_data(l->mask, shape);
    if (shape[0] > 1) return repeat_mask(l->mask, first, n, copies, &r->mask, e);
    r->mask = graft_image_retain(l->mask);
    return GRAFT_OK;
}

/* Copies continue the numbering above the largest index, so that each gets noise of its own. */
static graft_status repeat_batch_index(const graft_latent *l, int64_t amount, graft_latent *r,
                                       graft_err *e)
{
    const int64_t n = l->shape[0], *index = l->batch_index;
    if (!index) return GRAFT_OK;
    r->batch_index = graft_malloc_array((size_t)(n * amount), sizeof *r->batch_index);
    if (!r->batch_index) return graft_fail_nomem(e, "the batch indices of a latent");
    int64_t low = index[0], high = index[0];
    for (int64_t i = 1; i < n; i++) {
        low = index[i] < low ? index[i] : low;
        high = index[i] > high ? index[i] : high;
    }
    int64_t most;
    if (__builtin_mul_overflow(high - low + 1, amount - 1, &most) ||
        __builtin_add_overflow(most, high, &most) || most > GRAFT_NOISE_MOST_INDEX)
        return graft_fail(e, GRAFT_E_LIMIT,
                          "batch indices above %d: the noise of all pictures before one is drawn",
                          GRAFT_NOISE_MOST_INDEX);
    for (int64_t i = 0; i < n * amount; i++)
        r->batch_index[i] = index[i % n] + i / n * (high - low + 1);
    return GRAFT_OK;
}

graft_status graft_latent_repeat(const graft_latent *l, int64_t amount, graft_latent **out,
                                 graft_err *e)
{
    graft_latent *r = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    if (amount < 1 || amount > MAX_BATCH / l->shape[0])
        return graft_fail(e, GRAFT_E_ARG,
                          "%" PRId64 " copies of a batch of %" PRId64 ": 1 to %d in all", amount,
                          l->shape[0], MAX_BATCH);
    const int64_t shape[4] = {l->shape[0] * amount, l->shape[1], l->shape[2], l->shape[3]};
    GRAFT_TRY(graft_latent_create_layers(shape, l->layers, &r, e));
    const size_t n = (size_t)elements(l->shape);
    for (int64_t i = 0; i < amount; i++)
        memcpy(r->data + (size_t)i * n, samples(l), n * sizeof(float));
    GRAFT_TRY(mask_for(l, 0, l->shape[0], amount, r, e));
    GRAFT_TRY(repeat_batch_index(l, amount, r, e));
    *out = r;
    r = NULL;
out:
    graft_latent_release(r);
    return st;
}

graft_status graft_latent_from_batch(const graft_latent *l, int64_t index, int64_t length,
                                     graft_latent **out, graft_err *e)
{
    graft_latent *r = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    if (index < 0 || length < 1)
        return graft_fail(e, GRAFT_E_ARG, "%" PRId64 " samples from number %" PRId64 " of a batch",
                          length, index);
    if (index > l->shape[0] - 1) index = l->shape[0] - 1;
    if (length > l->shape[0] - index) length = l->shape[0] - index;
    const int64_t shape[4] = {length, l->shape[1], l->shape[2], l->shape[3]};
    GRAFT_TRY(graft_latent_create_layers(shape, l->layers, &r, e));
    const size_t plane = (size_t)(shape[1] * shape[2] * shape[3]);
    memcpy(r->data, samples(l) + (size_t)index * plane, (size_t)length * plane * sizeof(float));
    GRAFT_TRY(mask_for(l, index, length, 1, r, e));
    r->batch_index = graft_malloc_array((size_t)length, sizeof *r->batch_index);
    if (!r->batch_index) {
        st = graft_fail_nomem(e, "the batch indices of a latent");
        goto out;
    }
    for (int64_t i = 0; i < length; i++)
        r->batch_index[i] = l->batch_index ? l->batch_index[index + i] : index + i;
    *out = r;
    r = NULL;
out:
    graft_latent_release(r);
    return st;
}

graft_status graft_latent_same_noise(const graft_latent *l, bool same, graft_latent **out,
                                     graft_err *e)
{
    *out = NULL;
    graft_latent *r = allocate(l->shape, 0);
    if (!r) return graft_fail_nomem(e, "a latent");
    r->owner = graft_latent_retain(l->owner ? l->owner : (graft_latent *)l);
    r->layers = l->layers;
    r->mask = graft_image_retain(l->mask);
    if (same) {
        r->batch_index = graft_malloc_array((size_t)l->shape[0], sizeof *r->batch_index);
        if (!r->batch_index) {
            graft_latent_release(r);
            return graft_fail_nomem(e, "the batch indices of a latent");
        }
        for (int64_t i = 0; i < l->shape[0]; i++)
            r->batch_index[i] = l->batch_index ? l->batch_index[0] : 0;
    }
    *out = r;
    return GRAFT_OK;
}
