#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/resize.h"

/* Between two neighbours, turn from one direction to the other and interpolate the length. */
typedef struct step {
    int64_t first, second;
    float ratio;
} step;

/* The neighbours are those of linearly interpolated index ramps, cut to whole numbers: i, and i+1
 * with the last place repeated. */
static graft_status make_steps(int64_t in, int64_t out, step **steps, graft_err *e)
{
    graft_resize_pair *pair = graft_malloc_array((size_t)out, sizeof *pair);
    *steps = graft_malloc_array((size_t)out, sizeof **steps);
    if (!pair || !*steps) {
        graft_free(pair);
        graft_free(*steps);
        *steps = NULL;
        return graft_fail_nomem(e, "resizing");
    }
    graft_resize_linear(in, out, pair);
    for (int64_t i = 0; i < out; i++) {
        float w = pair[i].weight;
        int64_t a = pair[i].first, b = pair[i].second;
        float here = (1.0f - w) * (float)a + w * (float)b;
        float next =
            (1.0f - w) * (float)(a + 1 < in ? a + 1 : a) + w * (float)(b + 1 < in ? b + 1 : b);
        (*steps)[i] = (step){(int64_t)here, (int64_t)next, here - floorf(here)};
    }
    graft_free(pair);
    return GRAFT_OK;
}

static float length(const float *v, int64_t n)
{
    double sum = 0.0;
    for (int64_t c = 0; c < n; c++) sum += (double)v[c] * v[c];
    return (float)sqrt(sum);
}

/* Shoemake, "Animating rotation with quaternion curves" (1985), on directions; vectors that point
 * the same way or oppositely have no plane to turn in. */
static void slerp(const float *a, const float *b, float r, float *out, int64_t n)
{
    const float edge = 1e-5f;
    float la = length(a, n), lb = length(b, n);
    float ia = la != 0.0f ? 1.0f / la : 0.0f, ib = lb != 0.0f ? 1.0f / lb : 0.0f;
    float dot = 0.0f;
    for (int64_t c = 0; c < n; c++) dot += a[c] * ia * (b[c] * ib);
    if (dot > 1.0f - edge) {
        memcpy(out, a, (size_t)n * sizeof *out);
    } else if (dot < edge - 1.0f) {
        for (int64_t c = 0; c < n; c++) out[c] = a[c] * (1.0f - r) + b[c] * r;
    } else {
        float omega = acosf(dot), so = sinf(omega), size = la * (1.0f - r) + lb * r;
        float wa = sinf((1.0f - r) * omega) / so, wb = sinf(r * omega) / so;
        for (int64_t c = 0; c < n; c++) out[c] = (wa * (a[c] * ia) + wb * (b[c] * ib)) * size;
    }
}

graft_status graft_resize_bislerp(const float *src, const int64_t shape[4], float *dst, int64_t h,
                                  int64_t w, graft_err *e)
{
    const int64_t n = shape[0], in_h = shape[1], in_w = shape[2], c = shape[3];
    step *sx = NULL, *sy = NULL;
    float *middle = graft_malloc_array((size_t)(in_h * w * c), sizeof *middle);
    graft_status st = middle ? GRAFT_OK : graft_fail_nomem(e, "resizing");
    GRAFT_TRY(st);
    GRAFT_TRY(make_steps(in_w, w, &sx, e));
    GRAFT_TRY(make_steps(in_h, h, &sy, e));
    for (int64_t i = 0; i < n; i++) {
        float *m = middle;
        for (int64_t y = 0; y < in_h; y++) {
            const float *row = src + (i * in_h + y) * in_w * c;
            for (int64_t x = 0; x < w; x++, m += c)
                slerp(row + sx[x].first * c, row + sx[x].second * c, sx[x].ratio, m, c);
        }
        for (int64_t y = 0; y < h; y++) {
            const float *a = middle + sy[y].first * w * c, *b = middle + sy[y].second * w * c;
            for (int64_t x = 0; x < w; x++, dst += c)
                slerp(a + x * c, b + x * c, sy[y].ratio, dst, c);
        }
    }
out:
    graft_free(sy);
    graft_free(sx);
    graft_free(middle);
    return st;
}
