#include "engine/image/filter.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/task.h"

static double bell(double x)
{
    return exp(-x * x / 2);
}

void graft_filter_bell(int64_t radius, double step, double sigma, float *weight)
{
    double sum = 0;
    for (int64_t k = -radius; k <= radius; k++) sum += bell((double)k * step / sigma);
    for (int64_t k = -radius; k <= radius; k++)
        weight[k + radius] = (float)(bell((double)k * step / sigma) / sum);
}

/* Where place i, up to a side beyond the edges, is in the picture. */
static int64_t mirrored(int64_t i, int64_t side)
{
    if (i < 0) i = -i;
    return i < side ? i : 2 * (side - 1) - i;
}

/* dst[i] = sum over k of weight[k] * tap[k][i]; the order of additions is that of k, whatever the
 * compiler does with the lanes. */
static void add_up(const float *const *tap, const float *weight, int64_t taps, float *dst,
                   int64_t n)
{
    for (int64_t i = 0; i < n; i++) dst[i] = weight[0] * tap[0][i];
    for (int64_t k = 1; k < taps; k++) {
        const float *from = tap[k], w = weight[k];
        for (int64_t i = 0; i < n; i++) dst[i] += w * from[i];
    }
}

typedef struct work {
    const float *weight, **tap; /* taps each */
    int64_t radius, h, w, channels;
    float *row;   /* w + 2 radius pixels: a row with its mirrored ends */
    float *plane; /* one picture, filtered along its rows */
} work;

static void along_row(const work *k, const float *src, float *dst)
{
    const int64_t c = k->channels, r = k->radius;
    memcpy(k->row + r * c, src, (size_t)(k->w * c) * sizeof *src);
    for (int64_t x = 1; x <= r; x++) {
        memcpy(k->row + (r - x) * c, src + x * c, (size_t)c * sizeof *src);
        memcpy(k->row + (r + k->w - 1 + x) * c, src + (k->w - 1 - x) * c, (size_t)c * sizeof *src);
    }
    for (int64_t t = 0; t <= 2 * r; t++) k->tap[t] = k->row + t * c;
    add_up(k->tap, k->weight, 2 * r + 1, dst, k->w * c);
}

static void along_columns(const work *k, int64_t y, float *dst)
{
    const int64_t line = k->w * k->channels;
    for (int64_t t = 0; t <= 2 * k->radius; t++)
        k->tap[t] = k->plane + mirrored(y + t - k->radius, k->h) * line;
    add_up(k->tap, k->weight, 2 * k->radius + 1, dst, line);
}

static graft_status filter_one(const work *k, const float *src, const graft_task *task, float *dst,
                               graft_err *e)
{
    const int64_t line = k->w * k->channels;
    for (int64_t y = 0; y < k->h; y++) {
        if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        along_row(k, src + y * line, k->plane + y * line);
    }
    for (int64_t y = 0; y < k->h; y++) {
        if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        along_columns(k, y, dst + y * line);
    }
    return GRAFT_OK;
}

graft_status graft_filter_reflect(const float *src, const int64_t shape[4], const float *weight,
                                  int64_t radius, const graft_task *task, float *dst, graft_err *e)
{
    work k = {
        .weight = weight, .radius = radius, .h = shape[1], .w = shape[2], .channels = shape[3]};
    graft_status st = GRAFT_OK;
    if (k.h <= radius || k.w <= radius)
        return graft_fail(e, GRAFT_E_ARG,
                          "a picture of %" PRId64 " x %" PRId64
                          " pixels is too small: a radius of %" PRId64 " needs %" PRId64
                          " per side",
                          k.w, k.h, radius, radius + 1);
    const size_t pixel = (size_t)k.channels * sizeof *src;
    k.tap = graft_malloc_array((size_t)(2 * radius + 1), sizeof *k.tap);
    k.row = graft_malloc_array((size_t)(k.w + 2 * radius), pixel);
    k.plane = graft_malloc_array((size_t)(k.h * k.w), pixel);
    if (!k.tap || !k.row || !k.plane) {
        st = graft_fail_nomem(e, "a filtered picture");
        goto out;
    }
    const int64_t one = k.h * k.w * k.channels;
    for (int64_t n = 0; n < shape[0]; n++)
        GRAFT_TRY(filter_one(&k, src + n * one, task, dst + n * one, e));
out:
    graft_free(k.plane);
    graft_free(k.row);
    graft_free(k.tap);
    return st;
}

/* ------------------------------------------------------------------ blurring, sharpening */

/* The picture blurred, before anyone else has it. */
static graft_status blurred(const graft_image *i, int64_t radius, double sigma,
                            const graft_task *task, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    float weight[2 * GRAFT_IMAGE_MAX_BLUR + 1];
    graft_image *r = NULL;
    *out = NULL;
    if (radius < 1 || radius > GRAFT_IMAGE_MAX_BLUR || !(sigma > 0) || !isfinite(sigma))
        return graft_fail(e, GRAFT_E_ARG,
                          "a blur of radius %" PRId64 " and sigma %g: radii from 1 to %d, sigmas "
                          "above 0",
                          radius, sigma, GRAFT_IMAGE_MAX_BLUR);
    const float *src = graft_image_data(i, shape);
    graft_status st = graft_image_create(shape, graft_image_is_mask(i), &r, e);
    if (st) return st;
    graft_filter_bell(radius, 1.0 / (double)radius, sigma, weight);
    st = graft_filter_reflect(src, shape, weight, radius, task, graft_image_writable(r), e);
    if (st)
        graft_image_release(r);
    else
        *out = r;
    return st;
}

graft_status graft_image_blur(const graft_image *i, int64_t radius, double sigma,
                              const graft_task *task, graft_image **out, graft_err *e)
{
    return blurred(i, radius, sigma, task, out, e);
}

/* A kernel that is -10 alpha times the blur's, its middle raised until the sum is 1, takes 10 alpha
 * times the blur from 1 + 10 alpha times the picture. */
graft_status graft_image_sharpen(const graft_image *i, int64_t radius, double sigma, double alpha,
                                 const graft_task *task, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    const float *src = graft_image_data(i, shape), strength = (float)(10 * alpha);
    *out = NULL;
    if (!isfinite(strength)) return graft_fail(e, GRAFT_E_ARG, "sharpening by %g", alpha);
    graft_status st = blurred(i, radius, sigma, task, out, e);
    if (st) return st;
    float *dst = graft_image_writable(*out);
    for (int64_t k = 0; k < shape[0] * shape[1] * shape[2] * shape[3]; k++) {
        float v = src[k] + strength * (src[k] - dst[k]);
        dst[k] = v > 0 ? v < 1 ? v : 1 : 0;
    }
    return GRAFT_OK;
}
