/* How far a kernel library may be off: each operator has limits for each dtype, NMSE (squared error
 * over squared reference) and the largest error over the largest reference value. */
#ifndef GRAFT_TESTS_KERNELS_LIMITS_H
#define GRAFT_TESTS_KERNELS_LIMITS_H
#include <math.h>

#include "tests/kernels/harness.h"

typedef struct limit {
    double nmse, max; /* 0: equal values */
} limit;

/* Rounding of results: float32 2^-24, float16 2^-11, bfloat16 2^-8 of a value, thus an NMSE of
 * about a third of the square; the limits leave room for what is said beside them. */
static const struct {
    graft_op op;
    limit f32, f16, bf16;
} limits[] = {
    /* Sums of up to 12,000 products in another order; fused inputs may be rounded one by one. */
    {GRAFT_OP_CONV2D, {1e-11, 1e-5}, {2e-6, 4e-3}, {2e-5, 2e-2}},
    {GRAFT_OP_LINEAR, {1e-11, 1e-5}, {2e-6, 4e-3}, {2e-5, 2e-2}},
    /* Statistics in float32; the normalized value may be rounded before gamma and act. */
    {GRAFT_OP_GROUP_NORM, {1e-11, 1e-5}, {1e-6, 2e-3}, {2e-5, 1e-2}},
    {GRAFT_OP_LAYER_NORM, {1e-11, 1e-5}, {1e-6, 2e-3}, {2e-5, 1e-2}},
    {GRAFT_OP_RMS_NORM, {1e-11, 1e-5}, {1e-6, 2e-3}, {2e-5, 1e-2}},
    /* Another order and an approximated exp; probabilities rounded to the dtype. */
    {GRAFT_OP_ATTENTION, {1e-10, 2e-5}, {2e-6, 4e-3}, {5e-5, 2e-2}},
    /* An approximated exp or erf, one rounding of the result. */
    {GRAFT_OP_ACT, {1e-11, 2e-6}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    {GRAFT_OP_GEGLU, {1e-11, 2e-6}, {4e-7, 2e-3}, {2e-5, 1e-2}},
    /* One rounding of the result. */
    {GRAFT_OP_ADD, {1e-14, 2e-7}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    {GRAFT_OP_MUL, {1e-14, 2e-7}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    {GRAFT_OP_SCALE, {1e-13, 5e-7}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    {GRAFT_OP_PRELU, {1e-14, 2e-7}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    /* Sums over channels or pixels in another order, then one rounding of the result. */
    {GRAFT_OP_MEAN_SCALE, {1e-12, 1e-6}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    /* Of pictures of a few pixels a small factor leaves next to nothing, as a difference. */
    {GRAFT_OP_LOW_SCALE, {5e-11, 1e-5}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    /* Two products of a value, and their sum. */
    {GRAFT_OP_ROPE, {1e-13, 5e-7}, {4e-7, 1e-3}, {2e-5, 5e-3}},
    /* Angles up to 1000 in float32 are off by 1e-4. */
    {GRAFT_OP_TIMESTEP, {1e-9, 3e-4}, {4e-7, 1e-3}, {1e-5, 5e-3}},
    /* An approximated exp, and a sum of a few. */
    {GRAFT_OP_ROUTE, {1e-11, 2e-6}, {2e-7, 1e-3}, {1e-5, 5e-3}},
    /* Values are moved, not computed. */
    {GRAFT_OP_CONCAT, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_JOIN, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_COPY, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_UPSAMPLE, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_EMBEDDING, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_GATHER_ROW, {0, 0}, {0, 0}, {0, 0}},
    {GRAFT_OP_SPREAD_TOKENS, {0, 0}, {0, 0}, {0, 0}},
    /* Which tokens are alike: cosines of random ones are further apart than rounding. */
    {GRAFT_OP_MATCH_TOKENS, {0, 0}, {0, 0}, {0, 0}},
    /* A sum of up to 600 tokens in float32, a product, one rounding of the result. */
    {GRAFT_OP_MERGE_TOKENS, {1e-11, 1e-5}, {2e-7, 1e-3}, {1e-5, 5e-3}},
};
enum { LIMITS = sizeof limits / sizeof *limits };

static inline limit limit_of(graft_op op, graft_dtype dtype)
{
    for (size_t i = 0; i < LIMITS; i++)
        if (limits[i].op == op)
            return dtype == GRAFT_F32   ? limits[i].f32
                   : dtype == GRAFT_F16 ? limits[i].f16
                                        : limits[i].bf16;
    return (limit){0, 0};
}

/* Scores of up to 300, where attention's scale is far above the usual, are rounded by 2e-5 before
 * their exp, which is so much of a weight. */
static inline limit limit_for(const graft_op_desc *d, graft_dtype dtype)
{
    limit l = limit_of(d->op, dtype);
    if (d->op != GRAFT_OP_ATTENTION || dtype != GRAFT_F32 || d->attrs.heads < 1) return l;
    double width = (double)d->in[0].dim[2] / d->attrs.heads;
    if ((double)d->attrs.scale * sqrt(width) > 2) l.max = 5e-5;
    return l;
}

typedef struct error_sum {
    double error, reference, worst, top;
    int64_t n;
} error_sum;

/* A value that is not finite where the other is, or is another one, counts as infinitely wrong. */
static inline void error_add(error_sum *s, double got, double want)
{
    double off = got == want || (isnan(got) && isnan(want)) ? 0 : fabs(got - want);
    if (isnan(off)) off = INFINITY;
    s->error += off * off;
    s->reference += want * want;
    if (off > s->worst) s->worst = off;
    if (fabs(want) > s->top) s->top = fabs(want);
    s->n++;
}

/* Of a few values the mean says no more than the largest error does. */
static inline bool error_within(const error_sum *s, limit l, double *nmse, double *max)
{
    *nmse = s->error > 0 ? s->error / (s->reference > 0 ? s->reference : 1e-300) : 0;
    *max = s->worst > 0 ? s->worst / (s->top > 0 ? s->top : 1e-300) : 0;
    return (s->n < 8 || *nmse <= l.nmse) && *max <= l.max;
}
#endif
