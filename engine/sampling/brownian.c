/* A Brownian path as a binary tree over [sigma_min, sigma_max]: each node halves its interval and
 * draws the increment of its left half by the Brownian bridge, with a generator that only the
 * seed and the node's place decide. Values depend on no order of queries. */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/sampling/noise.h"
#include "engine/sampling/seed_sequence.h"

/* Halvings until two points are 1e-6 apart, the resolution of the path: for any pair of float32
 * sigmas that a schedule holds. */
#define MAX_LEVELS 52
#define WIDEST     5e8 /* what so many halvings bring down to that */

typedef struct level {
    float *increment; /* of the node that `key` names, at this depth */
    uint64_t key;
    bool filled;
} level;

struct graft_brownian {
    double start, end; /* rounded to the resolution */
    uint64_t seed;
    size_t n;
    int levels;
    float *values; /* levels + 1 rows of n; the last row is scratch */
    level level[MAX_LEVELS];
};

typedef struct node {
    double start, end;
    uint64_t key; /* 2 * parent's + 1 for a right half */
    int depth;
} node;

/* To six decimals, exactly as decimal rounding of the binary value gives them. */
static double round_time(double t)
{
    char text[400];
    snprintf(text, sizeof text, "%.6f", t);
    return strtod(text, NULL);
}

static void node_noise(const graft_brownian *b, const node *at, float *out)
{
    uint32_t seed;
    graft_rng r;
    graft_seed_sequence(b->seed, at->key, at->depth, &seed, 1);
    graft_rng_seed(&r, seed);
    graft_rng_randn(&r, out, b->n);
}

static void fill_root(graft_brownian *b)
{
    uint32_t seed;
    graft_rng r;
    graft_seed_sequence(b->seed, 0, -1, &seed, 1);
    graft_rng_seed(&r, seed);
    float *w = b->level[0].increment, scale = (float)sqrt(b->end - b->start);
    graft_rng_randn(&r, w, b->n);
    for (size_t i = 0; i < b->n; i++) w[i] *= scale;
    b->level[0].filled = true;
}

/* Left half given the whole: mean by its share of the time, variance of the bridge. */
static void fill_left(graft_brownian *b, const node *parent, double middle)
{
    level *child = &b->level[parent->depth + 1];
    if (child->filled && child->key == 2 * parent->key) return;
    const float *whole = b->level[parent->depth].increment;
    float *noise = b->values + (size_t)b->levels * b->n;
    node_noise(b, parent, noise);
    double left = middle - parent->start, right = parent->end - middle;
    double per_time = 1 / (parent->end - parent->start);
    float share = (float)left, rate = (float)per_time;
    float deviation = (float)sqrt(left * right * per_time);
    for (size_t i = 0; i < b->n; i++) {
        float mean = share * whole[i] * rate, bridge = deviation * noise[i];
        child->increment[i] = mean + bridge;
    }
    child->key = 2 * parent->key;
    child->filled = true;
}

static void fill_right(graft_brownian *b, const node *parent, double middle)
{
    level *child = &b->level[parent->depth + 1];
    if (child->filled && child->key == 2 * parent->key + 1) return;
    fill_left(b, parent, middle);
    const float *whole = b->level[parent->depth].increment;
    for (size_t i = 0; i < b->n; i++) child->increment[i] = whole[i] - child->increment[i];
    child->key = 2 * parent->key + 1;
}

/* Adds the path's increment over [from, to] within the node, whose own is in its level. */
static void add_increment(graft_brownian *b, const node *at, double from, double to, float *sum)
{
    if ((from <= at->start && to >= at->end) || at->depth + 1 >= b->levels) {
        const float *w = b->level[at->depth].increment;
        for (size_t i = 0; i < b->n; i++) sum[i] += w[i];
        return;
    }
    double middle = round_time(0.5 * (at->end + at->start));
    int below = at->depth + 1;
    if (from < middle) {
        node left = {at->start, middle, 2 * at->key, below};
        fill_left(b, at, middle);
        add_increment(b, &left, from, to, sum);
    }
    if (to > middle) {
        node right = {middle, at->end, 2 * at->key + 1, below};
        fill_right(b, at, middle);
        add_increment(b, &right, from, to, sum);
    }
}

graft_status graft_brownian_create(double sigma_min, double sigma_max, uint64_t seed, size_t n,
                                   graft_brownian **out, graft_err *e)
{
    *out = NULL;
    double low = fmin(sigma_min, sigma_max), high = fmax(sigma_min, sigma_max);
    if (!isfinite(sigma_min) || !isfinite(sigma_max) || high > WIDEST || high - low > WIDEST)
        return graft_fail(e, GRAFT_E_ARG, "no Brownian path between sigma %g and %g", sigma_min,
                          sigma_max);
    graft_brownian *b = graft_calloc(1, sizeof *b);
    if (!b) return graft_fail_nomem(e, "a Brownian path");
    b->start = round_time(low);
    b->end = round_time(high);
    b->seed = seed;
    b->n = n;
    b->levels = 3 + (int)ceil(log2(fmax(1, (b->end - b->start) * 1e6)));
    assert(b->levels <= MAX_LEVELS);
    size_t count;
    if (!graft_size_mul(n, (size_t)b->levels + 1, &count) ||
        !(b->values = graft_malloc_array(count, sizeof(float)))) {
        graft_free(b);
        return graft_fail_nomem(e, "a Brownian path");
    }
    for (int i = 0; i < b->levels; i++) b->level[i].increment = b->values + (size_t)i * n;
    fill_root(b);
    *out = b;
    return GRAFT_OK;
}

void graft_brownian_destroy(graft_brownian *b)
{
    if (!b) return;
    graft_free(b->values);
    graft_free(b);
}

static double clamp(double t, double low, double high)
{
    return fmin(fmax(t, low), high);
}

static graft_status draw_brownian(void *ctx, double sigma, double sigma_next, float *out, size_t n,
                                  graft_err *e)
{
    graft_brownian *b = ctx;
    if (n != b->n)
        return graft_fail(e, GRAFT_E_ARG, "the Brownian path has %zu values, not %zu", b->n, n);
    if (!isfinite(sigma) || !isfinite(sigma_next))
        return graft_fail(e, GRAFT_E_ARG, "no Brownian increment from sigma %g to %g", sigma,
                          sigma_next);
    double from = round_time(clamp(fmin(sigma, sigma_next), b->start, b->end));
    double to = round_time(clamp(fmax(sigma, sigma_next), b->start, b->end));
    memset(out, 0, n * sizeof *out);
    if (from < to) add_increment(b, &(node){b->start, b->end, 0, 0}, from, to, out);
    float length = sqrtf(fabsf((float)sigma_next - (float)sigma));
    float sign = sigma < sigma_next ? 1.0f : -1.0f;
    for (size_t i = 0; i < n; i++) out[i] = length > 0 ? sign * out[i] / length : 0;
    return GRAFT_OK;
}

graft_noise_source graft_brownian_source(graft_brownian *b)
{
    assert(b);
    return (graft_noise_source){.ctx = b, .draw = draw_brownian};
}
