#include "engine/sampling/noise.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

#define MT_N   624
#define MT_M   397
#define BLOCK  16
#define TWO_PI 6.283185307179586476925

void graft_rng_seed(graft_rng *r, uint64_t seed)
{
    memset(r, 0, sizeof *r);
    uint32_t v = (uint32_t)seed;
    r->state[0] = v;
    for (uint32_t i = 1; i < MT_N; i++) {
        v = 1812433253u * (v ^ v >> 30) + i;
        r->state[i] = v;
    }
}

static void refill(graft_rng *r)
{
    uint32_t *s = r->state;
    for (int i = 0; i < MT_N; i++) {
        uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % MT_N] & 0x7fffffffu);
        s[i] = s[(i + MT_M) % MT_N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    r->left = MT_N;
    r->next = 0;
}

static uint32_t next_u32(graft_rng *r)
{
    if (r->left == 0) refill(r);
    uint32_t y = r->state[r->next++];
    r->left--;
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static float uniform_float(graft_rng *r)
{
    return (float)(next_u32(r) & 0xffffffu) * 0x1p-24f;
}

static double uniform_double(graft_rng *r)
{
    uint64_t high = next_u32(r), low = next_u32(r);
    return (double)((high << 32 | low) & ((1ull << 53) - 1)) * 0x1p-53;
}

/* Moshier's Cephes logf. The calls of fmaf stand where a compiler for AVX2 fuses; the noise's last
 * bit depends on them. */
static float cephes_log(float x)
{
    static const float poly[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                 -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                 2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
    int exponent;
    float m = frexpf(fmaxf(x, 0x1p-126f), &exponent);
    if (m < 0.707106781186547524f) {
        exponent--;
        m = (m - 1.0f) + m;
    } else {
        m -= 1.0f;
    }
    float e = (float)exponent, z = m * m, y = poly[0];
    for (size_t i = 1; i < sizeof poly / sizeof *poly; i++) y = fmaf(y, m, poly[i]);
    float low = e * -2.12194440e-4f;
    y *= m;
    y = fmaf(y, z, low);
    y = fmaf(-z, 0.5f, y);
    return fmaf(e, 0.693359375f, m + y);
}

/* Cephes sinf and cosf for x >= 0: reduction to an octant, then one polynomial for each. */
static void cephes_sincos(float x, float *sine, float *cosine)
{
    int octant = ((int)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)octant;
    x = fmaf(y, -0.78515625f, x);
    x = fmaf(y, -2.4187564849853515625e-4f, x);
    x = fmaf(y, -3.77489497744594108e-8f, x);
    float z = x * x, half = z * 0.5f;
    float c = fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    c = fmaf(c, z, 4.166664568298827e-2f) * z;
    c = fmaf(c, z, -half) + 1.0f;
    float s = fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f);
    s = fmaf(s, z, -1.6666654611e-1f) * z;
    s = fmaf(s, x, x);
    bool swap = octant & 2;
    float sin_part = swap ? c : s, cos_part = swap ? s : c;
    *sine = octant & 4 ? -sin_part : sin_part;
    *cosine = (octant - 2) & 4 ? cos_part : -cos_part;
}

/* Box-Muller over 16 uniform values in place: radii from the first eight, angles from the others.
 */
static void normal_block(float *v)
{
    for (int i = 0; i < BLOCK / 2; i++) {
        float radius = sqrtf(-2.0f * cephes_log(1.0f - v[i]));
        float s, c;
        cephes_sincos((float)TWO_PI * v[i + BLOCK / 2], &s, &c);
        v[i] = radius * c;
        v[i + BLOCK / 2] = radius * s;
    }
}

static double normal_scalar(graft_rng *r)
{
    if (r->has_cached) {
        r->has_cached = 0;
        return r->cached;
    }
    double angle = TWO_PI * uniform_double(r);
    double radius = sqrt(-2.0 * log1p(-uniform_double(r)));
    r->cached = radius * sin(angle);
    r->has_cached = 1;
    return radius * cos(angle);
}

void graft_rng_randn(graft_rng *r, float *out, size_t n)
{
    if (n < BLOCK) {
        for (size_t i = 0; i < n; i++) out[i] = (float)normal_scalar(r);
        return;
    }
    for (size_t i = 0; i < n; i++) out[i] = uniform_float(r);
    for (size_t i = 0; i + BLOCK <= n; i += BLOCK) normal_block(out + i);
    if (n % BLOCK) {
        float *tail = out + n - BLOCK;
        for (int i = 0; i < BLOCK; i++) tail[i] = uniform_float(r);
        normal_block(tail);
    }
}

/* Draws pictures 0 to the largest wanted one by one; each goes to every place that wants it. */
static graft_status draw_indexed(graft_rng *r, int64_t pictures, size_t size,
                                 const int64_t *batch_index, float *out, graft_err *e)
{
    int64_t last = -1;
    for (int64_t k = 0; k < pictures; k++) {
        if (batch_index[k] < 0)
            return graft_fail(e, GRAFT_E_ARG, "batch index %lld of picture %lld is negative",
                              (long long)batch_index[k], (long long)k);
        if (batch_index[k] > GRAFT_NOISE_MOST_INDEX)
            return graft_fail(e, GRAFT_E_LIMIT, "batch index %lld of picture %lld is above %d",
                              (long long)batch_index[k], (long long)k, GRAFT_NOISE_MOST_INDEX);
        if (batch_index[k] > last) last = batch_index[k];
    }
    float *one = graft_malloc_array(size, sizeof *one);
    if (!one) return graft_fail_nomem(e, "the noise of one picture");
    for (int64_t i = 0; i <= last; i++) {
        graft_rng_randn(r, one, size);
        for (int64_t k = 0; k < pictures; k++)
            if (batch_index[k] == i) memcpy(out + (size_t)k * size, one, size * sizeof *one);
    }
    graft_free(one);
    return GRAFT_OK;
}

graft_status graft_noise_latent(uint64_t seed, const int64_t shape[4], const int64_t *batch_index,
                                float *out, graft_err *e)
{
    int64_t total, size, bytes;
    if (!graft_size_product(shape, 4, &total) || !graft_size_product(shape + 1, 3, &size) ||
        __builtin_mul_overflow(total, (int64_t)sizeof *out, &bytes))
        return graft_fail(e, GRAFT_E_ARG, "latent shape %lld,%lld,%lld,%lld is not valid",
                          (long long)shape[0], (long long)shape[1], (long long)shape[2],
                          (long long)shape[3]);
    graft_rng r;
    graft_rng_seed(&r, seed);
    if (batch_index) return draw_indexed(&r, shape[0], (size_t)size, batch_index, out, e);
    graft_rng_randn(&r, out, (size_t)total);
    return GRAFT_OK;
}

static graft_status draw_plain(void *ctx, double sigma, double sigma_next, float *out, size_t n,
                               graft_err *e)
{
    (void)sigma, (void)sigma_next, (void)e;
    graft_rng_randn(ctx, out, n);
    return GRAFT_OK;
}

graft_noise_source graft_noise_plain(graft_rng *r)
{
    assert(r);
    return (graft_noise_source){.ctx = r, .draw = draw_plain};
}
