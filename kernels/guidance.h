/* From a model's output to the denoised latent, guidance (Ho and Salimans 2022, arXiv:2207.12598),
 * its rescaling (arXiv:2305.08891, section 3.4), and masks, for one value: the same float32
 * operations in the same order on the host and on devices, none of them fused. */
#ifndef GRAFT_KERNELS_GUIDANCE_H
#define GRAFT_KERNELS_GUIDANCE_H
#include <stdint.h>

#if defined(__CUDACC__)
#define GRAFT_GUIDANCE    static __device__ __forceinline__
#define GRAFT_TIMES(a, b) __fmul_rn(a, b)
#define GRAFT_PLUS(a, b)  __fadd_rn(a, b)
#define GRAFT_MINUS(a, b) __fsub_rn(a, b)
#define GRAFT_OVER(a, b)  __fdiv_rn(a, b)
#else
#define GRAFT_GUIDANCE    static inline __attribute__((unused))
#define GRAFT_TIMES(a, b) ((a) * (b))
#define GRAFT_PLUS(a, b)  ((a) + (b))
#define GRAFT_MINUS(a, b) ((a) - (b))
#define GRAFT_OVER(a, b)  ((a) / (b))
#endif

enum { GRAFT_GUIDE_EPS = 0, GRAFT_GUIDE_V = 1, GRAFT_GUIDE_X0 = 2, GRAFT_GUIDE_LCM = 3 };

/* How the model's output is meant at this sigma. */
typedef struct graft_guidance_terms {
    int32_t kind;
    float sigma, s2, root; /* s2: sigma^2 + 1; root: of s2 */
    float c_skip, c_out;   /* LCM */
} graft_guidance_terms;

#define GRAFT_GUIDE_ENTRIES 64
/* One step's guidance: v has the outputs of `entries` conditionings, n values each, one after the
 * other; bit i of `negative`: entry i is of the negative prompt. out and x: n values. */
typedef struct graft_guidance {
    const float *x, *v;
    float *out;
    uint64_t n, negative;
    uint32_t entries;
    int32_t guided; /* 0: the positive prediction alone */
    float cfg;
    graft_guidance_terms terms;
} graft_guidance;

/* D from the output v at state x. */
GRAFT_GUIDANCE float graft_guidance_denoised(const graft_guidance_terms *t, float x, float v)
{
    float step = GRAFT_TIMES(v, t->sigma);
    switch (t->kind) {
    case GRAFT_GUIDE_V:
        return GRAFT_MINUS(GRAFT_OVER(x, t->s2), GRAFT_OVER(step, t->root));
    case GRAFT_GUIDE_X0:
        return v;
    case GRAFT_GUIDE_LCM:
        return GRAFT_PLUS(GRAFT_TIMES(t->c_out, GRAFT_MINUS(x, step)), GRAFT_TIMES(t->c_skip, x));
    default:
        return GRAFT_MINUS(x, step);
    }
}

GRAFT_GUIDANCE float graft_guidance_combined(float negative, float positive, float cfg)
{
    return GRAFT_PLUS(negative, GRAFT_TIMES(cfg, GRAFT_MINUS(positive, negative)));
}

/* Rescaled guidance of D, which replaces `positive`, of n values with `per` a picture. work: room
 * for n values twice, then two doubles a picture, at an address for doubles. s2: sigma^2 + 1; k:
 * sqrt(s2) / sigma; mix: how much of it is rescaled. */
typedef struct graft_rescale {
    const float *x, *negative;
    float *positive;
    void *work;
    uint64_t n, per;
    float s2, k, cfg, mix;
} graft_rescale;

/* A picture's values are summed up by lanes, value i in lane i % GRAFT_RESCALE_LANES, and then lane
 * by lane: an order that a block of threads can keep, too. */
#define GRAFT_RESCALE_LANES 256

/* D as a velocity, which is what is rescaled. */
GRAFT_GUIDANCE float graft_rescale_velocity(float x, float s2, float k, float d)
{
    return GRAFT_TIMES(GRAFT_MINUS(GRAFT_OVER(x, s2), d), k);
}

/* Back to D; ratio: the spread of the picture's positive velocities over that of its guided ones.
 */
GRAFT_GUIDANCE float graft_rescale_denoised(float x, float s2, float k, float guided, double ratio,
                                            float mix)
{
    float scaled = (float)(guided * ratio);
    float v = GRAFT_PLUS(GRAFT_TIMES(mix, scaled), GRAFT_TIMES(GRAFT_MINUS(1.0f, mix), guided));
    return GRAFT_MINUS(GRAFT_OVER(x, s2), GRAFT_OVER(v, k));
}

/* Inpainting: out = x where the mask is 1, and `kept` with its noise where it is 0. The mask has
 * `area` values a picture, for each of the channels that make up its `per` values; out may be x.
 * noise: NULL for none. */
typedef struct graft_blend {
    const float *x, *kept, *noise, *mask;
    float *out;
    uint64_t n, per, area;
    float sigma;
    uint32_t zero;
} graft_blend;

GRAFT_GUIDANCE float graft_blend_noised(float kept, float noise, float sigma)
{
    return GRAFT_PLUS(kept, GRAFT_TIMES(noise, sigma));
}

GRAFT_GUIDANCE float graft_blend_value(float mask, float x, float kept)
{
    return GRAFT_PLUS(GRAFT_TIMES(x, mask), GRAFT_TIMES(kept, GRAFT_MINUS(1.0f, mask)));
}

/* A prompt that counts in a part of the picture (arXiv:2302.08113): rows y ... y + height - 1 and
 * columns x ... x + width - 1 of planes of h rows and w columns. */
typedef struct graft_excerpt {
    float *part;         /* (pictures, channels, height, width) */
    float *whole;        /* (pictures, channels, h, w) */
    const float *weight; /* (pictures, height, width); NULL: 1 */
    float *total;        /* summed weights, (pictures, h, w); NULL: not wanted */
    uint32_t pictures, channels, h, w;
    uint32_t y, x, height, width;
} graft_excerpt;

/* What prompts predict together, n values with `per` a picture and `area` a channel: D of sum /
 * total, and 0 where no prompt counts. */
typedef struct graft_weighed {
    const float *x, *sum, *total; /* total: (pictures, area) */
    float *out;
    uint64_t n, per, area;
    graft_guidance_terms terms;
} graft_weighed;

GRAFT_GUIDANCE float graft_weighed_denoised(const graft_guidance_terms *t, float x, float sum,
                                            float total)
{
    return total > 0 ? graft_guidance_denoised(t, x, GRAFT_OVER(sum, total)) : 0.0f;
}
#endif
