#include "engine/image/mask.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/image/resize.h"

graft_status graft_image_resize_mask(const graft_image *mask, int64_t height, int64_t width,
                                     int64_t batch, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    graft_image *r = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    GRAFT_TRY(graft_image_want_mask(mask, e));
    const float *src = graft_image_data(mask, shape);
    if (batch == 0) batch = shape[0];
    const int64_t sized[4] = {batch, height, width, 1};
    GRAFT_TRY(graft_image_create(sized, true, &r, e));
    float *dst = graft_image_writable(r);
    const int64_t part[4] = {shape[0] < batch ? shape[0] : batch, shape[1], shape[2], 1};
    GRAFT_TRY(graft_resize(GRAFT_RESIZE_BILINEAR, src, part, dst, height, width, false, e));
    const size_t plane = (size_t)(height * width);
    for (int64_t n = part[0]; n < batch; n++)
        memcpy(dst + (size_t)n * plane, dst + (size_t)(n - part[0]) * plane, plane * sizeof *dst);
    *out = r;
    r = NULL;
out:
    graft_image_release(r);
    return st;
}

graft_status graft_image_fit_mask(const graft_image *mask, int64_t height, int64_t width,
                                  int64_t batch, graft_image **out, graft_err *e)
{
    int64_t shape[4], last = -1;
    graft_image *r = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    GRAFT_TRY(graft_image_want_mask(mask, e));
    const float *src = graft_image_data(mask, shape);
    const int64_t sized[4] = {batch, height, width, 1}, one[4] = {1, shape[1], shape[2], 1};
    GRAFT_TRY(graft_image_create(sized, true, &r, e));
    const size_t plane = (size_t)(height * width);
    float *dst = graft_image_writable(r);
    for (int64_t i = 0; i < batch; i++, dst += plane) {
        const int64_t k = graft_batch_spread(i, shape[0], batch);
        if (k == last)
            memcpy(dst, dst - plane, plane * sizeof *dst);
        else
            GRAFT_TRY(graft_resize(GRAFT_RESIZE_BILINEAR, src + k * shape[1] * shape[2], one, dst,
                                   height, width, true, e));
        last = k;
    }
    *out = r;
    r = NULL;
out:
    graft_image_release(r);
    return st;
}

/* Counts of ones before each place give the ones in any window of a line by one subtraction. The
 * window of place i is [i - before, i - before + grow). */
static void spread_line(const float *src, float *dst, int64_t n, int64_t step, int64_t grow,
                        int64_t before, int32_t *count)
{
    count[0] = 0;
    for (int64_t i = 0; i < n; i++) count[i + 1] = count[i] + (src[i * step] > 0.0f);
    for (int64_t i = 0; i < n; i++) {
        int64_t first = i - before, last = first + grow;
        first = first < 0 ? 0 : first;
        last = last > n ? n : last;
        dst[i * step] = last > first && count[last] > count[first] ? 1.0f : 0.0f;
    }
}

graft_status graft_mask_grow(const graft_image *mask, int64_t grow, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    int32_t *count = NULL;
    graft_image *r = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    GRAFT_TRY(graft_image_want_mask(mask, e));
    const float *src = graft_image_data(mask, shape);
    const int64_t n = shape[0], h = shape[1], w = shape[2];
    if (grow < 0 || grow > GRAFT_IMAGE_MAX_SIDE)
        return graft_fail(e, GRAFT_E_ARG, "a mask cannot grow by %" PRId64 " pixels", grow);
    GRAFT_TRY(graft_image_create(shape, true, &r, e));
    count = graft_malloc_array((size_t)(h > w ? h : w) + 1, sizeof *count);
    if (!count) {
        st = graft_fail_nomem(e, "a mask");
        goto out;
    }
    float *dst = graft_image_writable(r);
    for (int64_t i = 0; i < n * h * w; i++) dst[i] = rintf(src[i]);
    const int64_t before = grow / 2; /* ceil((grow - 1) / 2) */
    if (grow > 1) {
        for (int64_t y = 0; y < n * h; y++)
            spread_line(dst + y * w, dst + y * w, w, 1, grow, before, count);
        for (int64_t i = 0; i < n; i++)
            for (int64_t x = 0; x < w; x++)
                spread_line(dst + i * h * w + x, dst + i * h * w + x, h, w, grow, before, count);
    }
    *out = r;
    r = NULL;
out:
    graft_free(count);
    graft_image_release(r);
    return st;
}

graft_status graft_mask_fill_grey(const graft_image *picture, const graft_image *mask,
                                  graft_image **out, graft_err *e)
{
    int64_t shape[4], m_shape[4];
    graft_status st = graft_image_want_mask(mask, e);
    *out = NULL;
    if (st) return st;
    const float *src = graft_image_data(picture, shape), *m = graft_image_data(mask, m_shape);
    if (shape[1] != m_shape[1] || shape[2] != m_shape[2])
        return graft_fail(e, GRAFT_E_ARG,
                          "a mask of %" PRId64 " x %" PRId64 " for a picture of %" PRId64
                          " x %" PRId64 " pixels",
                          m_shape[2], m_shape[1], shape[2], shape[1]);
    st = graft_image_create(shape, graft_image_is_mask(picture), out, e);
    if (st) return st;
    float *dst = graft_image_writable(*out);
    const int64_t plane = shape[1] * shape[2], channels = shape[3];
    for (int64_t n = 0; n < shape[0]; n++)
        for (int64_t i = 0; i < plane; i++) {
            float keep = 1.0f - rintf(m[(n % m_shape[0]) * plane + i]);
            for (int64_t c = 0; c < channels; c++, src++, dst++)
                *dst = c < 3 ? (*src - 0.5f) * keep + 0.5f : *src;
        }
    return GRAFT_OK;
}

graft_status graft_image_crop_to_multiple(const graft_image *i, int64_t multiple, graft_image **out,
                                          graft_err *e)
{
    int64_t shape[4];
    assert(multiple > 0);
    const float *src = graft_image_data(i, shape);
    const int64_t h = shape[1] / multiple * multiple, w = shape[2] / multiple * multiple;
    *out = NULL;
    if (h == 0 || w == 0)
        return graft_fail(e, GRAFT_E_ARG,
                          "a picture of %" PRId64 " x %" PRId64 " pixels: at least %" PRId64
                          " per side",
                          shape[2], shape[1], multiple);
    if (h == shape[1] && w == shape[2]) {
        *out = graft_image_retain((graft_image *)i);
        return GRAFT_OK;
    }
    const int64_t part[4] = {shape[0], h, w, shape[3]};
    graft_status st = graft_image_create(part, graft_image_is_mask(i), out, e);
    if (st) return st;
    graft_resize_cut(src, shape, (shape[1] - h) / 2, (shape[2] - w) / 2, graft_image_writable(*out),
                     h, w);
    return GRAFT_OK;
}
