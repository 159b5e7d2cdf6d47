/* Changes of guidance (engine/cfg.h) and guidance by three prompts (engine.h's graft_third), for
 * one value: the same operations on double in the same order on the host and on devices, none of
 * them fused. P, N and T are the denoised latents of the positive, negative and third prompts, x
 * the state, D the guided latent. Sums are over the values of a picture, from the first to the
 * last. */
#ifndef GRAFT_KERNELS_CHANGES_H
#define GRAFT_KERNELS_CHANGES_H
#include <math.h>

#include "kernels/guidance.h"

#if defined(__CUDACC__)
#define GRAFT_PRODUCT(a, b) __dmul_rn(a, b)
#else
#define GRAFT_PRODUCT(a, b) ((a) * (b))
#endif

/* Those of graft_cfg_kind, by its numbers, then guidance by three prompts. */
enum {
    GRAFT_CHANGE_PROJECTED = 0,
    GRAFT_CHANGE_TANGENTIAL = 1,
    GRAFT_CHANGE_RENORMED = 2,
    GRAFT_CHANGE_ZERO_STAR = 3,
    GRAFT_CHANGE_NORMED = 4,
    GRAFT_CHANGE_SIMILAR = 5,
    GRAFT_CHANGE_PERPENDICULAR = 6, /* T + cfg (P - T - strength Q) */
    GRAFT_CHANGE_THREE = 7,         /* N + strength (T - N) + cfg (P - T) */
    GRAFT_CHANGE_DISTANCE = 8 /* sums alone: of |x - P|, and of |N - T|; NULL counts as zeros */
};
#define GRAFT_CHANGE_SUMS 3
#define GRAFT_CHANGE_TINY 1e-8 /* what norms are at least divided by */

/* One change of n values, `per` a picture and `area` a channel. What its kind does not read may be
 * NULL. work: GRAFT_CHANGE_SUMS doubles a picture, then for SIMILAR `area` a picture. */
typedef struct graft_change {
    const float *x;
    float *positive, *negative; /* PROJECTED changes the former, TANGENTIAL the latter, in place */
    const float *third;
    float *out;     /* D, in place; of three prompts the result */
    float *average; /* PROJECTED's with momentum; NULL: without */
    double *work;
    uint64_t n, per, area;
    double cfg, strength, limit, momentum;
    int32_t kind;
    int32_t begun; /* the average has something of earlier calls */
} graft_change;

/* PROJECTED: P - N joins the average. */
GRAFT_GUIDANCE void graft_change_remember(const graft_change *c, uint64_t i)
{
    const double before = c->begun ? GRAFT_PRODUCT(c->momentum, (double)c->average[i]) : 0;
    c->average[i] = (float)(before + ((double)c->positive[i] - (double)c->negative[i]));
}

/* PROJECTED's guidance. */
GRAFT_GUIDANCE double graft_change_way(const graft_change *c, uint64_t i)
{
    return c->average ? (double)c->average[i] : (double)c->positive[i] - (double)c->negative[i];
}

/* Terms of a picture's sums. */
GRAFT_GUIDANCE uint64_t graft_change_terms(const graft_change *c)
{
    if (c->kind == GRAFT_CHANGE_SIMILAR) return c->area;
    return c->kind == GRAFT_CHANGE_NORMED || c->kind == GRAFT_CHANGE_THREE ? 0 : c->per;
}

/* Those of number i of a picture. */
GRAFT_GUIDANCE void graft_change_term(const graft_change *c, uint64_t picture, uint64_t i,
                                      double t[GRAFT_CHANGE_SUMS])
{
    const uint64_t at = picture * c->per + i;
    double a, b;
    t[0] = t[1] = t[2] = 0;
    switch (c->kind) {
    case GRAFT_CHANGE_PROJECTED:
        a = (double)c->positive[at];
        b = graft_change_way(c, at);
        t[2] = GRAFT_PRODUCT(b, a);
        break;
    case GRAFT_CHANGE_TANGENTIAL:
        a = (double)c->x[at] - (double)c->negative[at];
        b = (double)c->x[at] - (double)c->positive[at];
        t[2] = GRAFT_PRODUCT(a, b);
        break;
    case GRAFT_CHANGE_RENORMED:
        a = (double)c->positive[at];
        b = (double)c->out[at];
        break;
    case GRAFT_CHANGE_ZERO_STAR:
        a = (double)c->x[at] - (double)c->negative[at];
        b = (double)c->x[at] - (double)c->positive[at];
        t[0] = GRAFT_PRODUCT(a, b);
        t[1] = GRAFT_PRODUCT(a, a);
        return;
    case GRAFT_CHANGE_DISTANCE:
        t[0] = fabs((double)c->x[at] - (c->positive ? (double)c->positive[at] : 0));
        if (c->negative)
            t[1] = fabs((double)c->negative[at] - (c->third ? (double)c->third[at] : 0));
        return;
    case GRAFT_CHANGE_PERPENDICULAR:
        a = (double)c->positive[at] - (double)c->third[at];
        b = (double)c->negative[at] - (double)c->third[at];
        t[0] = GRAFT_PRODUCT(a, b);
        t[1] = GRAFT_PRODUCT(a, a);
        return;
    default: /* SIMILAR */
        t[0] = c->work[c->n / c->per * GRAFT_CHANGE_SUMS + picture * c->area + i];
        return;
    }
    t[0] = GRAFT_PRODUCT(a, a);
    t[1] = GRAFT_PRODUCT(b, b);
}

/* sqrt(a^2 + b^2), rounded right but for rare cases, as a good hypot() does: squares with what
 * their rounding leaves. Neither is huge or tiny. */
GRAFT_GUIDANCE double graft_change_hypot(double a, double b)
{
    const double aa = GRAFT_PRODUCT(a, a), bb = GRAFT_PRODUCT(b, b), sum = aa + bb;
    const double root = sqrt(sum), square = GRAFT_PRODUCT(root, root);
    const double large = aa > bb ? aa : bb, small = aa > bb ? bb : aa;
    const double rest = (fma(a, a, -aa) + fma(b, b, -bb)) + (small - (sum - large));
    if (!(root > 0) || !(root < 1e150)) return root;
    return root + ((sum - square) - fma(root, root, -square) + rest) / (2 * root);
}

/* TANGENTIAL: the singular vector is u0 (x - N) + u1 (x - P), where u is the first eigenvector of
 * the two differences' products with each other; its square's length is the first eigenvalue. */
GRAFT_GUIDANCE int graft_change_vector(const double s[GRAFT_CHANGE_SUMS],
                                       double f[GRAFT_CHANGE_SUMS])
{
    const double nn = s[0], pp = s[1], np = s[2];
    const double half = (nn - pp) / 2, root = graft_change_hypot(half, np);
    const double first = (nn + pp) / 2 + root;
    if (!(first > 0)) return 0;
    /* Of the two forms of the eigenvector the one in which nothing cancels. */
    f[0] = half >= 0 ? half + root : np;
    f[1] = half >= 0 ? np : root - half;
    const double length = graft_change_hypot(f[0], f[1]);
    f[0] = length > 0 ? f[0] / length : 1;
    f[1] = length > 0 ? f[1] / length : f[1];
    f[2] = (GRAFT_PRODUCT(f[0], nn) + GRAFT_PRODUCT(f[1], np)) / first;
    return 1;
}

/* What a picture's sums come to; 0: it stays as it is. */
GRAFT_GUIDANCE int graft_change_factors(const graft_change *c, const double s[GRAFT_CHANGE_SUMS],
                                        double f[GRAFT_CHANGE_SUMS])
{
    double a, b;
    switch (c->kind) {
    case GRAFT_CHANGE_PROJECTED:
        a = sqrt(s[0]);
        b = sqrt(s[1]);
        f[0] = c->limit > 0 && b > c->limit ? c->limit / b : 1;
        f[1] = GRAFT_PRODUCT(c->strength - 1, a > 0 ? s[2] / GRAFT_PRODUCT(a, a) : 0);
        return 1;
    case GRAFT_CHANGE_TANGENTIAL:
        return graft_change_vector(s, f);
    case GRAFT_CHANGE_RENORMED:
        a = GRAFT_PRODUCT(c->strength, sqrt(s[0]));
        b = sqrt(s[1]);
        f[0] = a / b;
        return c->strength > 0 && !(b < a) && b > 0;
    case GRAFT_CHANGE_ZERO_STAR:
        f[0] = GRAFT_PRODUCT(1 - s[0] / (s[1] + GRAFT_CHANGE_TINY), c->cfg - 1);
        return 1;
    case GRAFT_CHANGE_SIMILAR:
        f[0] = (1 + s[0] / (double)c->area) / 2;
        return 1;
    case GRAFT_CHANGE_PERPENDICULAR:
        f[0] = s[1] > 0 ? s[0] / s[1] : 0; /* of P - T in N - T; nothing where P is T */
        return 1;
    default:
        return 1;
    }
}

/* By the factors of its picture. */
GRAFT_GUIDANCE void graft_change_value(const graft_change *c, uint64_t i,
                                       const double f[GRAFT_CHANGE_SUMS])
{
    const double p = c->positive ? (double)c->positive[i] : 0;
    const double n = c->negative ? (double)c->negative[i] : 0;
    double a, b;
    switch (c->kind) {
    case GRAFT_CHANGE_PROJECTED:
        a = GRAFT_PRODUCT(f[0], graft_change_way(c, i) + GRAFT_PRODUCT(f[1], p));
        c->positive[i] = (float)(n + a + (p - n) / c->cfg);
        break;
    case GRAFT_CHANGE_TANGENTIAL:
        a = (double)c->x[i];
        b = GRAFT_PRODUCT(f[0], a - n) + GRAFT_PRODUCT(f[1], a - p);
        c->negative[i] = (float)(a - GRAFT_PRODUCT(f[2], b));
        break;
    case GRAFT_CHANGE_RENORMED:
        c->out[i] = (float)GRAFT_PRODUCT((double)c->out[i], f[0]);
        break;
    case GRAFT_CHANGE_ZERO_STAR:
        c->out[i] = (float)((double)c->out[i] + GRAFT_PRODUCT(f[0], n));
        break;
    case GRAFT_CHANGE_SIMILAR:
        a = GRAFT_PRODUCT(c->cfg, p);
        c->out[i] = (float)(a + GRAFT_PRODUCT(f[0], (double)c->out[i] - a));
        break;
    case GRAFT_CHANGE_PERPENDICULAR:
        a = p - (double)c->third[i];
        b = n - (double)c->third[i] - GRAFT_PRODUCT(f[0], a);
        a -= GRAFT_PRODUCT(c->strength, b);
        c->out[i] = (float)((double)c->third[i] + GRAFT_PRODUCT(c->cfg, a));
        break;
    case GRAFT_CHANGE_THREE:
        a = GRAFT_PRODUCT(c->strength, (double)c->third[i] - n);
        b = GRAFT_PRODUCT(c->cfg, p - (double)c->third[i]);
        c->out[i] = (float)(n + a + b);
        break;
    default:
        break;
    }
}

GRAFT_GUIDANCE double graft_change_root(double v)
{
    return v < 0 ? -sqrt(-v) : sqrt(v);
}

/* The first kernel of kinds that look along the channels of a place: NORMED is done then, SIMILAR
 * has the cosine between the roots of cfg N and (cfg P + D) / 2 in `work`. */
GRAFT_GUIDANCE void graft_change_place(const graft_change *c, uint64_t picture, uint64_t place)
{
    const uint64_t first = picture * c->per + place, end = (picture + 1) * c->per;
    double s[GRAFT_CHANGE_SUMS] = {0, 0, 0};
    for (uint64_t i = first; i < end; i += c->area) {
        double a = (double)c->positive[i], b = (double)c->out[i];
        if (c->kind == GRAFT_CHANGE_SIMILAR) {
            b = graft_change_root((GRAFT_PRODUCT(c->cfg, a) + b) / 2);
            a = graft_change_root(GRAFT_PRODUCT(c->cfg, (double)c->negative[i]));
        }
        s[0] += GRAFT_PRODUCT(a, b);
        s[1] += GRAFT_PRODUCT(a, a);
        s[2] += GRAFT_PRODUCT(b, b);
    }
    if (c->kind == GRAFT_CHANGE_SIMILAR) {
        c->work[c->n / c->per * GRAFT_CHANGE_SUMS + picture * c->area + place] =
            s[0] / fmax(GRAFT_PRODUCT(sqrt(s[1]), sqrt(s[2])), GRAFT_CHANGE_TINY);
        return;
    }
    double scale = sqrt(s[1]) / (sqrt(s[2]) + GRAFT_CHANGE_TINY);
    scale = GRAFT_PRODUCT(c->strength, scale < 1 ? scale : 1);
    for (uint64_t i = first; i < end; i += c->area)
        c->out[i] = (float)GRAFT_PRODUCT((double)c->out[i], scale);
}
#endif
