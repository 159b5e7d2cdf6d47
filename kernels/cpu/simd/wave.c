/* The rows of LOW_SCALE. */
#include "kernels/cpu/simd/functions.h"

/* `lanes` vectors of channels at `c`. */
INLINE void sums_lanes(int lanes, const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                       int64_t channels, int64_t c, const float *cosines, const float *sines,
                       float *sum)
{
    vf plain[2], even[2], odd[2];
    for (int j = 0; j < lanes; j++) plain[j] = even[j] = odd[j] = (vf){0};
    for (int64_t p = 0; p < pixels; p++) {
        vf cosine = vf_set(cosines[p]), sine = vf_set(sines[p]);
        for (int j = 0; j < lanes; j++) {
            vf v = vf_get(x, xt, (size_t)(p * stride + c + j * VL));
            plain[j] += v;
            even[j] += v * cosine;
            odd[j] += v * sine;
        }
    }
    for (int j = 0; j < lanes; j++) {
        vf_store(sum + c + j * VL, plain[j]);
        vf_store(sum + channels + c + j * VL, even[j]);
        vf_store(sum + 2 * channels + c + j * VL, odd[j]);
    }
}

/* The last channels, fewer than a vector. */
INLINE void sums_tail(const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                      int64_t channels, int64_t c, const float *cosines, const float *sines,
                      float *sum)
{
    size_t n = (size_t)(channels - c);
    vf plain = {0}, even = {0}, odd = {0};
    for (int64_t p = 0; p < pixels; p++) {
        vf v = vf_get_tail(x, xt, (size_t)(p * stride + c), n);
        plain += v;
        even += v * vf_set(cosines[p]);
        odd += v * vf_set(sines[p]);
    }
    vf_put_tail(sum, GRAFT_F32, (size_t)c, n, plain);
    vf_put_tail(sum, GRAFT_F32, (size_t)(channels + c), n, even);
    vf_put_tail(sum, GRAFT_F32, (size_t)(2 * channels + c), n, odd);
}

INLINE void sums_typed(const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                       int64_t channels, const float *cosines, const float *sines, float *sum)
{
    int64_t c = 0;
    for (; c + 2 * VL <= channels; c += 2 * VL)
        sums_lanes(2, x, xt, pixels, stride, channels, c, cosines, sines, sum);
    for (; c + VL <= channels; c += VL)
        sums_lanes(1, x, xt, pixels, stride, channels, c, cosines, sines, sum);
    if (c < channels) sums_tail(x, xt, pixels, stride, channels, c, cosines, sines, sum);
}

void SIMD(wave_sums)(const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                     int64_t channels, const float *cosines, const float *sines, float *sum)
{
    if (xt == GRAFT_F32) {
        sums_typed(x, GRAFT_F32, pixels, stride, channels, cosines, sines, sum);
    } else {
        sums_typed(x, GRAFT_BF16, pixels, stride, channels, cosines, sines, sum);
    }
}

INLINE void add_row(const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n, float cosine,
                    float sine, const float *wave)
{
    size_t i = 0;
    vf a = vf_set(cosine), b = vf_set(sine);
    for (; i + VL <= n; i += VL) {
        vf low = vf_load(wave + i) + a * vf_load(wave + n + i) + b * vf_load(wave + 2 * n + i);
        vf_put(y, yt, i, vf_get(x, xt, i) + low);
    }
    if (i < n) {
        size_t k = n - i;
        vf low = vf_get_tail(wave, GRAFT_F32, i, k) + a * vf_get_tail(wave, GRAFT_F32, n + i, k) +
                 b * vf_get_tail(wave, GRAFT_F32, 2 * n + i, k);
        vf_put_tail(y, yt, i, k, vf_get_tail(x, xt, i, k) + low);
    }
}

void SIMD(wave_add)(const void *x, graft_dtype xt, int64_t x_stride, void *y, graft_dtype yt,
                    int64_t y_stride, int64_t pixels, int64_t channels, const float *cosines,
                    const float *sines, const float *wave)
{
    size_t n = (size_t)channels;
    for (int64_t p = 0; p < pixels; p++) {
        const void *from = (const char *)x + p * x_stride * (xt == GRAFT_F32 ? 4 : 2);
        void *to = (char *)y + p * y_stride * (yt == GRAFT_F32 ? 4 : 2);
        if (xt == GRAFT_F32 && yt == GRAFT_F32) {
            add_row(from, GRAFT_F32, to, GRAFT_F32, n, cosines[p], sines[p], wave);
        } else if (xt == GRAFT_BF16 && yt == GRAFT_BF16) {
            add_row(from, GRAFT_BF16, to, GRAFT_BF16, n, cosines[p], sines[p], wave);
        } else {
            add_row(from, xt, to, yt, n, cosines[p], sines[p], wave);
        }
    }
}
