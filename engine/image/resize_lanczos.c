#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/image/resize.h"

/* Pillow's arithmetic: weights become fixed-point numbers with PRECISION bits, sums are rounded to
 * 8 bits after each of the two passes (columns, then rows), and a pass that changes no size is left
 * out. Pictures with alpha are resized with colours multiplied by it. */
#define PRECISION 22
#define SUPPORT   3.0

typedef struct filter {
    int64_t taps; /* places of `weight` for each window */
    graft_resize_window *at;
    int32_t *weight;
} filter;

static void filter_finish(filter *f)
{
    graft_free(f->at);
    graft_free(f->weight);
}

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(M_PI * x) / (M_PI * x);
}

static double lanczos(double x)
{
    return x >= -SUPPORT && x < SUPPORT ? sinc(x) * sinc(x / SUPPORT) : 0.0;
}

static graft_status filter_init(filter *f, int64_t in, int64_t out, graft_err *e)
{
    const graft_resize_kernel kernel = {lanczos, SUPPORT};
    size_t n;
    f->taps = graft_resize_taps(&kernel, in, out);
    f->at = graft_malloc_array((size_t)out, sizeof *f->at);
    f->weight = graft_size_mul((size_t)out, (size_t)f->taps, &n)
                    ? graft_malloc_array(n, sizeof *f->weight)
                    : NULL;
    double *real = graft_malloc_array((size_t)f->taps, sizeof *real);
    if (!f->at || !f->weight || !real) {
        graft_free(real);
        return graft_fail_nomem(e, "the weights of a Lanczos filter");
    }
    for (int64_t i = 0; i < out; i++) {
        f->at[i] = graft_resize_window_at(&kernel, in, out, i, real);
        for (int64_t k = 0; k < f->at[i].count; k++) {
            double w = real[k] * (1 << PRECISION);
            f->weight[i * f->taps + k] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
        }
    }
    graft_free(real);
    return GRAFT_OK;
}

static uint8_t clip(int64_t sum)
{
    int64_t v = sum >> PRECISION;
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

/* Places `step` bytes apart. */
static uint8_t weigh(const uint8_t *src, int64_t step, const filter *f, int64_t i)
{
    const int32_t *weight = f->weight + i * f->taps;
    int64_t sum = (int64_t)1 << (PRECISION - 1);
    src += f->at[i].first * step;
    for (int64_t k = 0; k < f->at[i].count; k++) sum += (int64_t)weight[k] * src[k * step];
    return clip(sum);
}

/* a*b/255, rounded. */
static uint8_t mul_255(unsigned a, unsigned b)
{
    unsigned t = a * b + 128;
    return (uint8_t)(((t >> 8) + t) >> 8);
}

static void multiply_alpha(uint8_t *p, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++, p += 4)
        for (int c = 0; c < 3; c++) p[c] = mul_255(p[c], p[3]);
}

static void divide_alpha(uint8_t *p, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++, p += 4)
        for (int c = 0; c < 3 && p[3] != 0 && p[3] != 255; c++) {
            unsigned v = 255u * p[c] / p[3];
            p[c] = v > 255 ? 255 : (uint8_t)v;
        }
}

static void to_bytes(const float *src, uint8_t *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float v = 255.0f * src[i];
        dst[i] = v >= 255.0f ? 255 : v > 0.0f ? (uint8_t)v : 0;
    }
}

/* The three stages of one picture's bytes; passes without a change of size share a buffer. */
typedef struct work {
    uint8_t *in, *middle, *out;
} work;

static void resize_one(const work *b, const int64_t shape[4], int64_t h, int64_t w,
                       const filter *fx, const filter *fy)
{
    const int64_t in_h = shape[1], in_w = shape[2], c = shape[3];
    const bool changed = h != in_h || w != in_w;
    if (c == 4 && changed) multiply_alpha(b->in, in_h * in_w);
    for (int64_t y = 0; y < in_h && w != in_w; y++)
        for (int64_t x = 0; x < w; x++)
            for (int64_t k = 0; k < c; k++)
                b->middle[(y * w + x) * c + k] = weigh(b->in + y * in_w * c + k, c, fx, x);
    for (int64_t y = 0; y < h && h != in_h; y++)
        for (int64_t k = 0; k < w * c; k++)
            b->out[y * w * c + k] = weigh(b->middle + k, w * c, fy, y);
    if (c == 4 && changed) divide_alpha(b->out, h * w);
}

graft_status graft_resize_lanczos(const float *src, const int64_t shape[4], float *dst, int64_t h,
                                  int64_t w, graft_err *e)
{
    const int64_t in_h = shape[1], in_w = shape[2], c = shape[3];
    const int64_t n_in = in_h * in_w * c, n_out = h * w * c;
    filter fx = {0}, fy = {0};
    work b = {0};
    graft_status st = GRAFT_OK;
    GRAFT_TRY(filter_init(&fx, in_w, w, e));
    GRAFT_TRY(filter_init(&fy, in_h, h, e));
    b.in = graft_malloc((size_t)n_in);
    b.middle = w != in_w ? graft_malloc((size_t)(in_h * w * c)) : b.in;
    b.out = h != in_h ? graft_malloc((size_t)n_out) : b.middle;
    if (!b.in || !b.middle || !b.out) {
        st = graft_fail_nomem(e, "resizing");
        goto out;
    }
    for (int64_t n = 0; n < shape[0]; n++) {
        to_bytes(src + n * n_in, b.in, n_in);
        resize_one(&b, shape, h, w, &fx, &fy);
        for (int64_t k = 0; k < n_out; k++) dst[n * n_out + k] = (float)b.out[k] / 255.0f;
    }
out:
    if (b.out != b.middle) graft_free(b.out);
    if (b.middle != b.in) graft_free(b.middle);
    graft_free(b.in);
    filter_finish(&fy);
    filter_finish(&fx);
    return st;
}
