/* Elementwise rows. The dtypes are compile-time constants in the common cases, so that the loops
 * hold no branches. */
#include "kernels/cpu/simd/functions.h"

INLINE void act_row(graft_act act, const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n)
{
    size_t i = 0;
    for (; i + VL <= n; i += VL) vf_put(y, yt, i, vf_act(act, vf_get(x, xt, i)));
    if (i < n) vf_put_tail(y, yt, i, n - i, vf_act(act, vf_get_tail(x, xt, i, n - i)));
}

INLINE void act_any(graft_act act, const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n)
{
    if (xt == GRAFT_F32 && yt == GRAFT_F32) {
        act_row(act, x, GRAFT_F32, y, GRAFT_F32, n);
    } else if (xt == GRAFT_BF16 && yt == GRAFT_BF16) {
        act_row(act, x, GRAFT_BF16, y, GRAFT_BF16, n);
    } else if (xt == GRAFT_BF16) {
        act_row(act, x, GRAFT_BF16, y, GRAFT_F32, n);
    } else {
        act_row(act, x, GRAFT_F32, y, GRAFT_BF16, n);
    }
}

void SIMD(act)(graft_act act, const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n)
{
    switch (act) {
    case GRAFT_ACT_SILU:
        act_any(GRAFT_ACT_SILU, x, xt, y, yt, n);
        break;
    case GRAFT_ACT_GELU:
        act_any(GRAFT_ACT_GELU, x, xt, y, yt, n);
        break;
    case GRAFT_ACT_QUICK_GELU:
        act_any(GRAFT_ACT_QUICK_GELU, x, xt, y, yt, n);
        break;
    case GRAFT_ACT_LEAKY:
        act_any(GRAFT_ACT_LEAKY, x, xt, y, yt, n);
        break;
    case GRAFT_ACT_RELU:
        act_any(GRAFT_ACT_RELU, x, xt, y, yt, n);
        break;
    case GRAFT_ACT_GELU_TANH:
        act_any(GRAFT_ACT_GELU_TANH, x, xt, y, yt, n);
        break;
    case GRAFT_ACT_TANH:
        act_any(GRAFT_ACT_TANH, x, xt, y, yt, n);
        break;
    default:
        act_any(GRAFT_ACT_NONE, x, xt, y, yt, n);
        break;
    }
}

INLINE void scale_row(const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n, vf scale,
                      vf shift)
{
    size_t i = 0;
    for (; i + VL <= n; i += VL) vf_put(y, yt, i, vf_get(x, xt, i) * scale + shift);
    if (i < n) vf_put_tail(y, yt, i, n - i, vf_get_tail(x, xt, i, n - i) * scale + shift);
}

void SIMD(scale)(const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n, float scale,
                 float shift)
{
    vf a = vf_set(scale), b = vf_set(shift);
    if (xt == GRAFT_F32 && yt == GRAFT_F32) {
        scale_row(x, GRAFT_F32, y, GRAFT_F32, n, a, b);
    } else if (xt == GRAFT_BF16 && yt == GRAFT_BF16) {
        scale_row(x, GRAFT_BF16, y, GRAFT_BF16, n, a, b);
    } else {
        scale_row(x, xt, y, yt, n, a, b);
    }
}

INLINE vf join(int multiply, vf a, vf b)
{
    return multiply ? a * b : a + b;
}

INLINE void join_row(int multiply, const void *a, graft_dtype at, const void *b, graft_dtype bt,
                     void *y, graft_dtype yt, size_t n)
{
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_put(y, yt, i, join(multiply, vf_get(a, at, i), vf_get(b, bt, i)));
    if (i < n)
        vf_put_tail(y, yt, i, n - i,
                    join(multiply, vf_get_tail(a, at, i, n - i), vf_get_tail(b, bt, i, n - i)));
}

INLINE void join_any(int multiply, const void *a, graft_dtype at, const void *b, graft_dtype bt,
                     void *y, graft_dtype yt, size_t n)
{
    if (at == GRAFT_F32 && bt == GRAFT_F32 && yt == GRAFT_F32) {
        join_row(multiply, a, GRAFT_F32, b, GRAFT_F32, y, GRAFT_F32, n);
    } else if (at == GRAFT_BF16 && bt == GRAFT_BF16 && yt == GRAFT_BF16) {
        join_row(multiply, a, GRAFT_BF16, b, GRAFT_BF16, y, GRAFT_BF16, n);
    } else {
        join_row(multiply, a, at, b, bt, y, yt, n);
    }
}

void SIMD(add)(const void *a, graft_dtype at, const void *b, graft_dtype bt, void *y,
               graft_dtype yt, size_t n)
{
    join_any(0, a, at, b, bt, y, yt, n);
}

void SIMD(mul)(const void *a, graft_dtype at, const void *b, graft_dtype bt, void *y,
               graft_dtype yt, size_t n)
{
    join_any(1, a, at, b, bt, y, yt, n);
}

INLINE void gate_row(const void *a, graft_dtype at, const float *b, const void *residual,
                     graft_dtype rt, void *y, graft_dtype yt, size_t n)
{
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_put(y, yt, i, vf_get(residual, rt, i) + vf_get(a, at, i) * vf_load(b + i));
    if (i < n) {
        size_t k = n - i;
        vf v = vf_get_tail(a, at, i, k) * vf_get_tail(b, GRAFT_F32, i, k);
        vf_put_tail(y, yt, i, k, vf_get_tail(residual, rt, i, k) + v);
    }
}

void SIMD(gate)(const void *a, graft_dtype at, const float *b, const void *residual, graft_dtype rt,
                void *y, graft_dtype yt, size_t n)
{
    if (at == GRAFT_F32 && rt == GRAFT_F32 && yt == GRAFT_F32) {
        gate_row(a, GRAFT_F32, b, residual, GRAFT_F32, y, GRAFT_F32, n);
    } else if (at == GRAFT_BF16 && rt == GRAFT_BF16 && yt == GRAFT_BF16) {
        gate_row(a, GRAFT_BF16, b, residual, GRAFT_BF16, y, GRAFT_BF16, n);
    } else {
        gate_row(a, at, b, residual, rt, y, yt, n);
    }
}

/* x comes second, so that what is no number stays none. */
INLINE vf sloped(vf x, vf slope)
{
    return vf_max(vf_set(0.0f), x) + vf_min(vf_set(0.0f), x) * slope;
}

INLINE void prelu_row(const void *x, graft_dtype xt, const float *slope, void *y, graft_dtype yt,
                      size_t n)
{
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_put(y, yt, i, sloped(vf_get(x, xt, i), vf_get(slope, GRAFT_F32, i)));
    if (i < n)
        vf_put_tail(y, yt, i, n - i,
                    sloped(vf_get_tail(x, xt, i, n - i), vf_get_tail(slope, GRAFT_F32, i, n - i)));
}

void SIMD(prelu)(const void *x, graft_dtype xt, const float *slope, void *y, graft_dtype yt,
                 size_t n)
{
    if (xt == GRAFT_F32 && yt == GRAFT_F32) {
        prelu_row(x, GRAFT_F32, slope, y, GRAFT_F32, n);
    } else if (xt == GRAFT_BF16 && yt == GRAFT_BF16) {
        prelu_row(x, GRAFT_BF16, slope, y, GRAFT_BF16, n);
    } else {
        prelu_row(x, xt, slope, y, yt, n);
    }
}

INLINE void geglu_row(const void *a, const void *b, graft_dtype xt, void *y, graft_dtype yt,
                      size_t n)
{
    size_t i = 0;
    for (; i + VL <= n; i += VL) vf_put(y, yt, i, vf_get(a, xt, i) * vf_gelu(vf_get(b, xt, i)));
    if (i < n)
        vf_put_tail(y, yt, i, n - i,
                    vf_get_tail(a, xt, i, n - i) * vf_gelu(vf_get_tail(b, xt, i, n - i)));
}

INLINE void turn_part(const void *x, graft_dtype xt, size_t at, const float *cosine,
                      const float *sine, void *y, graft_dtype yt, size_t n)
{
    const size_t whole = n - n % VL, rest = n % VL;
    for (size_t i = 0; i < whole; i += VL) {
        vf v = vf_get(x, xt, at + i);
        vf_put(y, yt, at + i, v * vf_load(cosine + i) + vf_exchange(v) * vf_load(sine + i));
    }
    if (!rest) return;
    vf v = vf_get_tail(x, xt, at + whole, rest);
    vf_put_tail(y, yt, at + whole, rest,
                v * vf_get_tail(cosine, GRAFT_F32, whole, rest) +
                    vf_exchange(v) * vf_get_tail(sine, GRAFT_F32, whole, rest));
}

INLINE void copy_part(const void *x, graft_dtype xt, size_t at, void *y, graft_dtype yt, size_t n)
{
    const size_t whole = n - n % VL, rest = n % VL;
    if (x == y) return;
    for (size_t i = 0; i < whole; i += VL) vf_put(y, yt, at + i, vf_get(x, xt, at + i));
    if (rest) vf_put_tail(y, yt, at + whole, rest, vf_get_tail(x, xt, at + whole, rest));
}

INLINE void turn_heads(const void *x, graft_dtype xt, const float *cosine, const float *sine,
                       void *y, graft_dtype yt, size_t heads, size_t still, size_t n, size_t last)
{
    for (size_t at = 0; heads--; at += still + n + last) {
        copy_part(x, xt, at, y, yt, still);
        turn_part(x, xt, at + still, cosine, sine, y, yt, n);
        copy_part(x, xt, at + still + n, y, yt, last);
    }
}

void SIMD(turn)(const void *x, graft_dtype xt, const float *cosine, const float *sine, void *y,
                graft_dtype yt, size_t heads, size_t still, size_t n, size_t last)
{
    if (xt == GRAFT_F32 && yt == GRAFT_F32) {
        turn_heads(x, GRAFT_F32, cosine, sine, y, GRAFT_F32, heads, still, n, last);
    } else if (xt == GRAFT_BF16 && yt == GRAFT_BF16) {
        turn_heads(x, GRAFT_BF16, cosine, sine, y, GRAFT_BF16, heads, still, n, last);
    } else {
        turn_heads(x, xt, cosine, sine, y, yt, heads, still, n, last);
    }
}

void SIMD(geglu)(const void *a, const void *b, graft_dtype xt, void *y, graft_dtype yt, size_t n)
{
    if (xt == GRAFT_F32 && yt == GRAFT_F32) {
        geglu_row(a, b, GRAFT_F32, y, GRAFT_F32, n);
    } else if (xt == GRAFT_BF16 && yt == GRAFT_BF16) {
        geglu_row(a, b, GRAFT_BF16, y, GRAFT_BF16, n);
    } else {
        geglu_row(a, b, xt, y, yt, n);
    }
}

INLINE void epilogue_row(graft_act act, void *y, graft_dtype yt, const float *channel,
                         const void *residual, graft_dtype rt, size_t n)
{
    size_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf v = vf_get(y, yt, i);
        if (channel) v += vf_load(channel + i);
        if (residual) v += vf_get(residual, rt, i);
        vf_put(y, yt, i, vf_act(act, v));
    }
    if (i < n) {
        vf v = vf_get_tail(y, yt, i, n - i);
        if (channel) v += vf_get_tail(channel, GRAFT_F32, i, n - i);
        if (residual) v += vf_get_tail(residual, rt, i, n - i);
        vf_put_tail(y, yt, i, n - i, vf_act(act, v));
    }
}

void SIMD(epilogue)(graft_act act, void *y, graft_dtype yt, const float *channel,
                    const void *residual, graft_dtype rt, size_t n)
{
    if (act == GRAFT_ACT_NONE) {
        epilogue_row(GRAFT_ACT_NONE, y, yt, channel, residual, rt, n);
    } else {
        epilogue_row(act, y, yt, channel, residual, rt, n);
    }
}
