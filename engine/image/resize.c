#include "engine/image/resize.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

graft_status graft_resize_method_parse(const char *name, bool latent, graft_resize_method *out,
                                       graft_err *e)
{
    static const char *const names[GRAFT_RESIZE_METHODS] = {"nearest-exact", "bilinear", "area",
                                                            "bicubic",       "lanczos",  "bislerp"};
    const int other = latent ? GRAFT_RESIZE_LANCZOS : GRAFT_RESIZE_BISLERP;
    for (int m = 0; m < GRAFT_RESIZE_METHODS; m++)
        if (m != other && strcmp(names[m], name) == 0) {
            *out = (graft_resize_method)m;
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_ARG,
                      "method \"%.40s\" is not one of \"nearest-exact\", \"bilinear\", \"area\", "
                      "\"bicubic\", \"%s\"",
                      name, latent ? "bislerp" : "lanczos");
}

/* The place in the source of the middle of place `i` of the result (float32, as PyTorch). */
static float source_place(int64_t in, int64_t out, int64_t i)
{
    float scale = (float)in / (float)out;
    return scale * ((float)i + 0.5f) - 0.5f;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

void graft_resize_linear(int64_t in, int64_t out, graft_resize_pair *pair)
{
    for (int64_t i = 0; i < out; i++) {
        float place = fmaxf(source_place(in, out, i), 0.0f);
        int64_t first = clamp((int64_t)place, 0, in - 1);
        pair[i].first = first;
        pair[i].second = clamp(first + 1, 0, in - 1);
        pair[i].weight = in == out ? 0.0f : fminf(fmaxf(place - (float)first, 0.0f), 1.0f);
    }
}

/* ------------------------------------------------------------------ linear and cubic */

typedef struct tap {
    int64_t at[4];
    float weight[4];
} tap;

static void linear_taps(int64_t out, const graft_resize_pair *pair, tap *t)
{
    for (int64_t i = 0; i < out; i++)
        t[i] = (tap){{pair[i].first, pair[i].second}, {1.0f - pair[i].weight, pair[i].weight}};
}

/* Keys, "Cubic convolution interpolation for digital image processing" (1981), eq. 15 with a free
 * parameter a: x <= 1 and 1 < x < 2. */
static float cubic_near(float x)
{
    const float a = -0.75f;
    return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
}

static float cubic_far(float x)
{
    const float a = -0.75f;
    return ((a * x - 5.0f * a) * x + 8.0f * a) * x - 4.0f * a;
}

static void cubic_taps(int64_t in, int64_t out, tap *t)
{
    for (int64_t i = 0; i < out; i++) {
        float place = source_place(in, out, i), whole = floorf(place);
        float x = fminf(fmaxf(place - whole, 0.0f), 1.0f);
        for (int k = 0; k < 4; k++) t[i].at[k] = clamp((int64_t)whole - 1 + k, 0, in - 1);
        t[i].weight[0] = cubic_far(x + 1.0f);
        t[i].weight[1] = cubic_near(x);
        t[i].weight[2] = cubic_near(1.0f - x);
        t[i].weight[3] = cubic_far(2.0f - x);
    }
}

static void resample_columns(const float *src, float *dst, int64_t rows, int64_t in, int64_t out,
                             int64_t inner, const tap *t, int taps)
{
    for (int64_t y = 0; y < rows; y++, src += in * inner)
        for (int64_t x = 0; x < out; x++, dst += inner)
            for (int64_t c = 0; c < inner; c++) {
                float sum = 0.0f;
                for (int k = 0; k < taps; k++) sum += t[x].weight[k] * src[t[x].at[k] * inner + c];
                dst[c] = sum;
            }
}

static void resample_rows(const float *src, float *dst, int64_t out, int64_t row, const tap *t,
                          int taps)
{
    for (int64_t y = 0; y < out; y++, dst += row)
        for (int64_t x = 0; x < row; x++) {
            float sum = 0.0f;
            for (int k = 0; k < taps; k++) sum += t[y].weight[k] * src[t[y].at[k] * row + x];
            dst[x] = sum;
        }
}

static graft_status resize_taps(bool cubic, const float *src, const int64_t shape[4], float *dst,
                                int64_t h, int64_t w, graft_err *e)
{
    const int64_t in_h = shape[1], in_w = shape[2], inner = shape[3];
    const int taps = cubic ? 4 : 2;
    size_t row_bytes;
    float *middle = NULL;
    tap *tx = graft_malloc_array((size_t)w, sizeof *tx);
    tap *ty = graft_malloc_array((size_t)h, sizeof *ty);
    graft_resize_pair *pair = graft_malloc_array((size_t)(h > w ? h : w), sizeof *pair);
    if (graft_size_mul((size_t)(w * inner), sizeof(float), &row_bytes))
        middle = graft_malloc_array((size_t)in_h, row_bytes);
    graft_status st = tx && ty && pair && middle ? GRAFT_OK : graft_fail_nomem(e, "resizing");
    if (st) goto out;
    if (cubic) {
        cubic_taps(in_w, w, tx);
        cubic_taps(in_h, h, ty);
    } else {
        graft_resize_linear(in_w, w, pair);
        linear_taps(w, pair, tx);
        graft_resize_linear(in_h, h, pair);
        linear_taps(h, pair, ty);
    }
    for (int64_t n = 0; n < shape[0]; n++) {
        resample_columns(src + n * in_h * in_w * inner, middle, in_h, in_w, w, inner, tx, taps);
        resample_rows(middle, dst + n * h * w * inner, h, w * inner, ty, taps);
    }
out:
    graft_free(middle);
    graft_free(pair);
    graft_free(ty);
    graft_free(tx);
    return st;
}

/* ------------------------------------------------------------------ nearest and area */

static int64_t nearest(int64_t in, int64_t out, int64_t i)
{
    return clamp((int64_t)floorf(source_place(in, out, i) + 0.5f), 0, in - 1);
}

static void resize_nearest(const float *src, const int64_t shape[4], float *dst, int64_t h,
                           int64_t w)
{
    const int64_t in_h = shape[1], in_w = shape[2], inner = shape[3];
    for (int64_t n = 0; n < shape[0]; n++)
        for (int64_t y = 0; y < h; y++) {
            const float *row = src + (n * in_h + nearest(in_h, h, y)) * in_w * inner;
            for (int64_t x = 0; x < w; x++, dst += inner)
                memcpy(dst, row + nearest(in_w, w, x) * inner, (size_t)inner * sizeof *dst);
        }
}

/* The mean over all source places that the result's place touches, each counted fully. */
static void resize_area(const float *src, const int64_t shape[4], float *dst, int64_t h, int64_t w)
{
    const int64_t in_h = shape[1], in_w = shape[2], inner = shape[3];
    for (int64_t n = 0; n < shape[0]; n++, src += in_h * in_w * inner)
        for (int64_t y = 0; y < h; y++) {
            const int64_t y0 = y * in_h / h, y1 = ((y + 1) * in_h + h - 1) / h;
            for (int64_t x = 0; x < w; x++, dst += inner) {
                const int64_t x0 = x * in_w / w, x1 = ((x + 1) * in_w + w - 1) / w;
                for (int64_t c = 0; c < inner; c++) {
                    float sum = 0.0f;
                    for (int64_t sy = y0; sy < y1; sy++)
                        for (int64_t sx = x0; sx < x1; sx++)
                            sum += src[(sy * in_w + sx) * inner + c];
                    dst[c] = sum / (float)(y1 - y0) / (float)(x1 - x0);
                }
            }
        }
}

/* ------------------------------------------------------------------ all methods */

void graft_resize_cut(const float *src, const int64_t shape[4], int64_t y, int64_t x, float *dst,
                      int64_t h, int64_t w)
{
    const int64_t in_h = shape[1], in_w = shape[2], inner = shape[3];
    assert(y >= 0 && x >= 0 && y + h <= in_h && x + w <= in_w);
    for (int64_t n = 0; n < shape[0]; n++)
        for (int64_t r = 0; r < h; r++, dst += w * inner)
            memcpy(dst, src + ((n * in_h + y + r) * in_w + x) * inner,
                   (size_t)(w * inner) * sizeof *dst);
}

static graft_status resize_whole(graft_resize_method method, const float *src,
                                 const int64_t shape[4], float *dst, int64_t h, int64_t w,
                                 graft_err *e)
{
    switch (method) {
    case GRAFT_RESIZE_NEAREST_EXACT:
        resize_nearest(src, shape, dst, h, w);
        return GRAFT_OK;
    case GRAFT_RESIZE_AREA:
        resize_area(src, shape, dst, h, w);
        return GRAFT_OK;
    case GRAFT_RESIZE_BILINEAR:
        return resize_taps(false, src, shape, dst, h, w, e);
    case GRAFT_RESIZE_BICUBIC:
        return resize_taps(true, src, shape, dst, h, w, e);
    case GRAFT_RESIZE_LANCZOS:
        return graft_resize_lanczos(src, shape, dst, h, w, e);
    case GRAFT_RESIZE_BISLERP:
        return graft_resize_bislerp(src, shape, dst, h, w, e);
    default:
        break;
    }
    assert(0);
    return graft_fail(e, GRAFT_E_INTERNAL, "resize method %d", (int)method);
}

/* How much of a side of `have` goes on each end so that the rest has `share` of it; Python's
 * rounding (half to even). At least one place stays. */
static int64_t margin(int64_t have, double share)
{
    double d = nearbyint(((double)have - (double)have * share) / 2.0);
    return clamp((int64_t)d, 0, (have - 1) / 2);
}

graft_status graft_resize(graft_resize_method method, const float *src, const int64_t shape[4],
                          float *dst, int64_t h, int64_t w, bool center, graft_err *e)
{
    assert(shape[0] > 0 && shape[1] > 0 && shape[2] > 0 && shape[3] > 0 && h > 0 && w > 0);
    double old_aspect = (double)shape[2] / (double)shape[1], aspect = (double)w / (double)h;
    int64_t x = 0, y = 0;
    if (center && old_aspect > aspect) x = margin(shape[2], aspect / old_aspect);
    if (center && old_aspect < aspect) y = margin(shape[1], old_aspect / aspect);
    if (x == 0 && y == 0) return resize_whole(method, src, shape, dst, h, w, e);
    const int64_t part[4] = {shape[0], shape[1] - 2 * y, shape[2] - 2 * x, shape[3]};
    float *cut = graft_malloc_array((size_t)(part[0] * part[1] * part[2] * part[3]), sizeof *cut);
    if (!cut) return graft_fail_nomem(e, "resizing");
    graft_resize_cut(src, shape, y, x, cut, part[1], part[2]);
    graft_status st = resize_whole(method, cut, part, dst, h, w, e);
    graft_free(cut);
    return st;
}

int64_t graft_batch_spread(int64_t i, int64_t n, int64_t batch)
{
    if (n < batch) return (2 * i + 1) * n / (2 * batch);
    return batch < 2 ? 0 : (int64_t)rint((double)(i * (n - 1)) / (double)(batch - 1));
}
