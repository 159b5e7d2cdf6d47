/* The rows of LAYER_NORM, RMS_NORM and GROUP_NORM. */
#include <math.h>

#include "kernels/cpu/simd/functions.h"

INLINE double row_sum(const void *x, graft_dtype xt, size_t n)
{
    size_t whole = n - n % VL, i = 0;
    vf s0 = {0}, s1 = {0};
    for (; i + 2 * VL <= whole; i += 2 * VL) {
        s0 += vf_get(x, xt, i);
        s1 += vf_get(x, xt, i + VL);
    }
    for (; i < whole; i += VL) s0 += vf_get(x, xt, i);
    if (n - i) s1 += vf_get_tail(x, xt, i, n - i);
    return (double)vf_sum(s0) + (double)vf_sum(s1);
}

double SIMD(sum)(const void *x, graft_dtype xt, size_t n)
{
    return xt == GRAFT_F32 ? row_sum(x, GRAFT_F32, n) : row_sum(x, GRAFT_BF16, n);
}

/* Two passes over a row that the first one has brought into the cache: the variance is taken about
 * the true mean, so nothing cancels. Each lane adds few enough values for float32; the lanes are
 * joined in double. */
INLINE void layer_norm_row(const void *x, graft_dtype xt, const float *gamma, const float *beta,
                           void *y, graft_dtype yt, size_t n, float eps)
{
    size_t whole = n - n % VL, rest = n % VL;
    vf s0 = {0}, s1 = {0};
    size_t i = 0;
    vf m = vf_set((float)(row_sum(x, xt, n) / (double)n));
    for (; i + 2 * VL <= whole; i += 2 * VL) {
        vf a = vf_get(x, xt, i) - m, b = vf_get(x, xt, i + VL) - m;
        s0 += a * a;
        s1 += b * b;
    }
    for (; i < whole; i += VL) {
        vf a = vf_get(x, xt, i) - m;
        s0 += a * a;
    }
    double square = (double)vf_sum(s0) + (double)vf_sum(s1);
    for (; i < n; i++) {
        float v =
            xt == GRAFT_F32 ? ((const float *)x)[i] : graft_bf16_to_f32(((const uint16_t *)x)[i]);
        square += (double)(v - m[0]) * (double)(v - m[0]);
    }
    vf r = vf_set((float)(1.0 / sqrt(square / (double)n + (double)eps)));
    for (i = 0; i < whole; i += VL)
        vf_put(y, yt, i, (vf_get(x, xt, i) - m) * r * vf_load(gamma + i) + vf_load(beta + i));
    if (rest)
        vf_put_tail(y, yt, i, rest,
                    (vf_get_tail(x, xt, i, rest) - m) * r * vf_get_tail(gamma, GRAFT_F32, i, rest) +
                        vf_get_tail(beta, GRAFT_F32, i, rest));
}

void SIMD(layer_norm)(const void *x, graft_dtype xt, const float *gamma, const float *beta, void *y,
                      graft_dtype yt, size_t n, float eps)
{
    if (xt == GRAFT_F32 && yt == GRAFT_F32) {
        layer_norm_row(x, GRAFT_F32, gamma, beta, y, GRAFT_F32, n, eps);
    } else if (xt == GRAFT_BF16 && yt == GRAFT_BF16) {
        layer_norm_row(x, GRAFT_BF16, gamma, beta, y, GRAFT_BF16, n, eps);
    } else {
        layer_norm_row(x, xt, gamma, beta, y, yt, n, eps);
    }
}

/* Parts are short where there are many: lanes are added by halves, which takes few steps. */
INLINE float lanes_sum(vf a)
{
#if GRAFT_ISA_LEVEL >= 2
    return _mm512_reduce_add_ps((__m512)a);
#else
    float s[VL];
    vf_store(s, a);
    for (int w = VL / 2; w; w /= 2)
        for (int i = 0; i < w; i++) s[i] += s[i + w];
    return s[0];
#endif
}

/* One part. As many sums as hide what an addition takes; lanes have few values each. */
INLINE void rms_part(const void *x, graft_dtype xt, size_t at, const float *gamma, void *y,
                     graft_dtype yt, size_t n, float eps)
{
    size_t whole = n - n % VL, rest = n % VL, i = 0;
    vf s0 = {0}, s1 = {0};
    for (; i + 2 * VL <= whole; i += 2 * VL) {
        vf a = vf_get(x, xt, at + i), b = vf_get(x, xt, at + i + VL);
        s0 += a * a;
        s1 += b * b;
    }
    for (; i < whole; i += VL) {
        vf a = vf_get(x, xt, at + i);
        s0 += a * a;
    }
    if (rest) {
        vf a = vf_get_tail(x, xt, at + i, rest);
        s1 += a * a;
    }
    vf r = vf_set(1.0f / sqrtf(lanes_sum(s0 + s1) / (float)n + eps));
    for (i = 0; i < whole; i += VL)
        vf_put(y, yt, at + i, vf_get(x, xt, at + i) * r * vf_load(gamma + i));
    if (rest)
        vf_put_tail(y, yt, at + i, rest,
                    vf_get_tail(x, xt, at + i, rest) * r * vf_get_tail(gamma, GRAFT_F32, i, rest));
}

INLINE void rms_norm_row(const void *x, graft_dtype xt, const float *gamma, void *y, graft_dtype yt,
                         size_t heads, size_t n, float eps)
{
    for (size_t h = 0; h < heads; h++) rms_part(x, xt, h * n, gamma, y, yt, n, eps);
}

void SIMD(rms_norm)(const void *x, graft_dtype xt, const float *gamma, void *y, graft_dtype yt,
                    size_t heads, size_t n, float eps)
{
    if (xt == GRAFT_F32 && yt == GRAFT_F32) {
        rms_norm_row(x, GRAFT_F32, gamma, y, GRAFT_F32, heads, n, eps);
    } else if (xt == GRAFT_BF16 && yt == GRAFT_BF16) {
        rms_norm_row(x, GRAFT_BF16, gamma, y, GRAFT_BF16, heads, n, eps);
    } else {
        rms_norm_row(x, xt, gamma, y, yt, heads, n, eps);
    }
}

/* Sums of at most this many pixels are kept in float32 before they go to double. */
#define RUN 64

/* `lanes` vectors of channels at `c` over one run of pixels. */
INLINE void sums_lanes(int lanes, const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                       int64_t c, const float *shift, float *s, float *q)
{
    vf sum[4], square[4], about[4];
    for (int j = 0; j < lanes; j++) {
        sum[j] = square[j] = (vf){0};
        about[j] = vf_load(shift + c + j * VL);
    }
    for (int64_t p = 0; p < pixels; p++) {
        for (int j = 0; j < lanes; j++) {
            vf v = vf_get(x, xt, (size_t)(p * stride + c + j * VL)) - about[j];
            sum[j] += v;
            square[j] += v * v;
        }
    }
    for (int j = 0; j < lanes; j++) {
        vf_store(s + c + j * VL, sum[j]);
        vf_store(q + c + j * VL, square[j]);
    }
}

INLINE void sums_run(const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                     int64_t channels, const float *shift, float *s, float *q)
{
    int64_t c = 0;
    for (; c + 4 * VL <= channels; c += 4 * VL)
        sums_lanes(4, x, xt, pixels, stride, c, shift, s, q);
    for (; c + VL <= channels; c += VL) sums_lanes(1, x, xt, pixels, stride, c, shift, s, q);
    for (; c < channels; c++) {
        s[c] = q[c] = 0;
        for (int64_t p = 0; p < pixels; p++) {
            int64_t i = p * stride + c;
            float v = (xt == GRAFT_F32 ? ((const float *)x)[i]
                                       : graft_bf16_to_f32(((const uint16_t *)x)[i])) -
                      shift[c];
            s[c] += v;
            q[c] += v * v;
        }
    }
}

void SIMD(channel_sums)(const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                        int64_t channels, const float *shift, double *sum, double *square,
                        float *partial)
{
    float *s = partial, *q = partial + channels;
    for (int64_t p = 0; p < pixels; p += RUN) {
        int64_t n = pixels - p < RUN ? pixels - p : RUN;
        const void *at = (const char *)x + p * stride * (xt == GRAFT_F32 ? 4 : 2);
        if (xt == GRAFT_F32) {
            sums_run(at, GRAFT_F32, n, stride, channels, shift, s, q);
        } else {
            sums_run(at, GRAFT_BF16, n, stride, channels, shift, s, q);
        }
        for (int64_t c = 0; c < channels; c++) {
            sum[c] += (double)s[c];
            square[c] += (double)q[c];
        }
    }
}

INLINE void affine_row(graft_act act, const void *x, graft_dtype xt, void *y, graft_dtype yt,
                       size_t n, const float *mean, const float *factor, const float *beta)
{
    size_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf v = (vf_get(x, xt, i) - vf_load(mean + i)) * vf_load(factor + i) + vf_load(beta + i);
        vf_put(y, yt, i, vf_act(act, v));
    }
    if (i < n) {
        size_t k = n - i;
        vf v = (vf_get_tail(x, xt, i, k) - vf_get_tail(mean, GRAFT_F32, i, k)) *
                   vf_get_tail(factor, GRAFT_F32, i, k) +
               vf_get_tail(beta, GRAFT_F32, i, k);
        vf_put_tail(y, yt, i, k, vf_act(act, v));
    }
}

INLINE void affine_typed(graft_act act, const void *x, graft_dtype xt, void *y, graft_dtype yt,
                         size_t n, const float *mean, const float *factor, const float *beta)
{
    switch (act) {
    case GRAFT_ACT_NONE:
        affine_row(GRAFT_ACT_NONE, x, xt, y, yt, n, mean, factor, beta);
        break;
    case GRAFT_ACT_SILU:
        affine_row(GRAFT_ACT_SILU, x, xt, y, yt, n, mean, factor, beta);
        break;
    default:
        affine_row(act, x, xt, y, yt, n, mean, factor, beta);
        break;
    }
}

void SIMD(channel_affine)(graft_act act, const void *x, graft_dtype xt, int64_t x_stride, void *y,
                          graft_dtype yt, int64_t y_stride, int64_t pixels, int64_t channels,
                          const float *mean, const float *factor, const float *beta)
{
    size_t n = (size_t)channels;
    for (int64_t p = 0; p < pixels; p++) {
        const void *a = (const char *)x + p * x_stride * (xt == GRAFT_F32 ? 4 : 2);
        void *b = (char *)y + p * y_stride * (yt == GRAFT_F32 ? 4 : 2);
        if (xt == GRAFT_F32 && yt == GRAFT_F32) {
            affine_typed(act, a, GRAFT_F32, b, GRAFT_F32, n, mean, factor, beta);
        } else if (xt == GRAFT_BF16 && yt == GRAFT_BF16) {
            affine_typed(act, a, GRAFT_BF16, b, GRAFT_BF16, n, mean, factor, beta);
        } else {
            affine_row(act, a, xt, b, yt, n, mean, factor, beta);
        }
    }
}
