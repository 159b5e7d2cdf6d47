/* Which steps of a sampling run compute the whole UNet and which reuse a deep feature (DeepCache,
 * Ma et al. 2023, arXiv:2312.00858). Pure functions, any thread. */
#ifndef GRAFT_SAMPLING_DEEPCACHE_H
#define GRAFT_SAMPLING_DEEPCACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plain data without padding that differs. */
typedef struct graft_deepcache {
    int64_t interval;   /* 0: off; 1: every step is full */
    int64_t start, end; /* steps of the sampler: outside [start,end) nothing is reused */
    int32_t cut;        /* the last input block that fast steps compute */
    int32_t quadratic;
    double max_error; /* 0: off */
} graft_deepcache;

typedef enum graft_deepcache_step {
    GRAFT_STEP_FAST = 0,    /* reuses the feature of the last refresh */
    GRAFT_STEP_REFRESH = 1, /* the first call computes everything and renews the feature */
    GRAFT_STEP_FULL = 2     /* every call computes everything */
} graft_deepcache_step;

/* Fills step[0..total) for a run of `total` steps. The first step of the window refreshes, so that
 * no fast step ever comes without a feature. Uniform: every interval-th step of the window.
 * Quadratic: as many refreshes as uniform, at center + sign(u) |u|^1.4 with u equally spaced, which
 * is densest at 0.3 of the window (the paper's section 3.3), where features change most. */
void graft_deepcache_plan(const graft_deepcache *d, size_t total, uint8_t *step);
#endif
