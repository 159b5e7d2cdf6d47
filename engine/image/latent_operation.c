#include "engine/image/latent_operation.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/image/latent.h"

graft_status graft_latent_operation_check(const graft_latent_operation *o, graft_err *e)
{
    const double m = o->multiplier;
    if (o->kind == GRAFT_OPERATION_TONEMAP) {
        if (m >= 0 && m <= 1e6) return GRAFT_OK;
        return graft_fail(e, GRAFT_E_ARG, "tone mapping with a multiplier of %g: 0 or more", m);
    }
    if (o->radius >= 1 && o->radius <= GRAFT_OPERATION_RADIUS && o->sigma > 0 && o->sigma <= 1e6 &&
        o->alpha >= 0 && o->alpha <= 1e6)
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "sharpening with a radius of %" PRId64
                      ", sigma %g and alpha %g: radii from 1 "
                      "to %d, sigmas above 0, alphas from 0 on",
                      o->radius, o->sigma, o->alpha, GRAFT_OPERATION_RADIUS);
}

graft_status graft_latent_operation_fit(const graft_latent_operation *o, const int64_t shape[4],
                                        size_t *work, graft_err *e)
{
    const int64_t h = shape[2], w = shape[3];
    const graft_status st = graft_latent_operation_check(o, e);
    size_t area, planes;
    if (st) return st;
    if (o->kind == GRAFT_OPERATION_SHARPEN && (h <= o->radius || w <= o->radius))
        return graft_fail(e, GRAFT_E_ARG,
                          "a latent of %" PRId64 " x %" PRId64
                          " places is too small to sharpen: a radius of %" PRId64 " needs %" PRId64
                          " each way",
                          w, h, o->radius, o->radius + 1);
    if (!graft_size_mul((size_t)h, (size_t)w, &area) || !graft_size_mul(area, 3, &planes) ||
        !graft_size_add(planes, 2 * GRAFT_OPERATION_RADIUS + 1, work))
        return graft_fail(e, GRAFT_E_LIMIT, "a latent of %" PRId64 " x %" PRId64 " places", w, h);
    return GRAFT_OK;
}

/* Lengths of the vectors that the channels of a place are. */
static void measure(const float *x, int64_t channels, int64_t area, double more, double *length)
{
    memset(length, 0, (size_t)area * sizeof *length);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < area; i++) {
            const double v = (double)x[c * area + i];
            length[i] += v * v;
        }
    for (int64_t i = 0; i < area; i++) length[i] = sqrt(length[i]) + more;
}

static void tone_map(double multiplier, float *x, int64_t channels, int64_t area, double *length)
{
    double mean = 0, square = 0;
    measure(x, channels, area, 1e-10, length);
    for (int64_t i = 0; i < area; i++) mean += length[i] / (double)area;
    for (int64_t i = 0; i < area; i++) square += (length[i] - mean) * (length[i] - mean);
    const double spread = area > 1 ? sqrt(square / (double)(area - 1)) : 0;
    const double top = (mean + 5 * spread) * multiplier;
    for (int64_t i = 0; i < area; i++) length[i] = top / (length[i] + top);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < area; i++)
            x[c * area + i] = (float)((double)x[c * area + i] * length[i]);
}

/* Beyond the edges a plane is its mirror image about the outermost place. */
static int64_t mirrored(int64_t i, int64_t n)
{
    if (i < 0) return -i;
    return i < n ? i : 2 * (n - 1) - i;
}

static void bell(int64_t radius, double sigma, double *weight)
{
    double sum = 0;
    for (int64_t i = 0; i <= 2 * radius; i++) {
        const double at = (double)(i - radius) / (double)radius;
        weight[i] = exp(-at * at / (2 * sigma * sigma));
        sum += weight[i];
    }
    for (int64_t i = 0; i <= 2 * radius; i++) weight[i] /= sum;
}

/* out = a plane correlated with weight(x) along its rows; or, with step w, its columns. */
static void correlate(const double *plane, int64_t h, int64_t w, bool columns, int64_t radius,
                      const double *weight, double *out)
{
    memset(out, 0, (size_t)(h * w) * sizeof *out);
    for (int64_t y = 0; y < h; y++)
        for (int64_t t = -radius; t <= radius; t++) {
            const double k = weight[t + radius];
            const double *from = plane + (columns ? mirrored(y + t, h) : y) * w;
            double *to = out + y * w;
            for (int64_t x = 0; x < w; x++) to[x] += k * from[columns ? x : mirrored(x + t, w)];
        }
}

static void sharpen(const graft_latent_operation *o, float *x, const int64_t shape[4], double *work)
{
    const int64_t h = shape[2], w = shape[3], area = h * w;
    double *length = work, *plane = length + area, *soft = plane + area, *weight = soft + area;
    const double more = 10 * o->alpha;
    measure(x, shape[1], area, 1e-6, length);
    bell(o->radius, o->sigma, weight);
    for (int64_t c = 0; c < shape[1]; c++, x += area) {
        for (int64_t i = 0; i < area; i++) plane[i] = (double)x[i] / length[i];
        correlate(plane, h, w, false, o->radius, weight, soft);
        correlate(soft, h, w, true, o->radius, weight, plane);
        for (int64_t i = 0; i < area; i++)
            x[i] = (float)((1 + more) * (double)x[i] - more * plane[i] * length[i]);
    }
}

void graft_latent_operation_run(const graft_latent_operation *o, float *x, const int64_t shape[4],
                                double *work)
{
    const int64_t area = shape[2] * shape[3];
    for (int64_t n = 0; n < shape[0]; n++, x += shape[1] * area) {
        if (o->kind == GRAFT_OPERATION_TONEMAP)
            tone_map(o->multiplier, x, shape[1], area, work);
        else
            sharpen(o, x, shape, work);
    }
}

graft_status graft_latent_operate(const graft_latent *l, const graft_latent_operation *o,
                                  graft_latent **out, graft_err *e)
{
    int64_t shape[4];
    const float *data = graft_latent_data(l, shape);
    const size_t n = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    size_t count = 0;
    double *work = NULL;
    *out = NULL;
    graft_status st = graft_latent_want_single(l, "an operation on latents", e);
    if (!st) st = graft_latent_operation_fit(o, shape, &count, e);
    if (!st && !(work = graft_malloc_array(count, sizeof *work)))
        st = graft_fail_nomem(e, "an operation on a latent");
    if (!st) st = graft_latent_create_like(l, shape, out, e);
    if (!st) {
        memcpy(graft_latent_writable(*out), data, n * sizeof *data);
        graft_latent_operation_run(o, graft_latent_writable(*out), shape, work);
    }
    graft_free(work);
    return st;
}
