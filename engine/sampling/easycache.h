/* Which evaluations of the model are left out because their result can be told from the last one
 * (EasyCache, Zhou et al. 2025, arXiv:2507.02860). Pure functions, any thread.
 *
 * x_t is what goes into the network at evaluation t, v_t what comes out. Between neighbouring
 * evaluations the transformation rate k = |v_t - v_(t-1)| / |x_t - x_(t-1)|, with |.| the mean of
 * absolute values, hardly changes. So, after an evaluation in full, that of v from one evaluation
 * to the next is thought to be k |x_t - x_(t-1)| / |v_(t-1)|, relative to v, and as long as the sum
 * of these is below a threshold v_t is taken to be x_t + D with D = v - x of the last one in full.
 * k is measured at each evaluation in full, against the one before it, in full or not.
 *
 * x and v are the network's own: the latent in the scale in which the network sees it, and its
 * output before any conversion to a denoised latent. That is the paper's parametrisation, where the
 * network gets x_t as it is; only there are x and v of one size at all levels of noise, so that D
 * and a relative change mean the same from the first step to the last. D of a denoised latent would
 * be all of the noise, and would put back the noise of an earlier step. */
#ifndef GRAFT_SAMPLING_EASYCACHE_H
#define GRAFT_SAMPLING_EASYCACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plain data without padding that differs. */
typedef struct graft_easycache {
    double threshold;  /* of the sum of changes; 0: off */
    double start, end; /* shares of the schedule: outside of them nothing is left out */
    int64_t verbose;
} graft_easycache;

/* What is known of the run so far. */
typedef struct graft_easycache_state {
    double rate;   /* k; NaN: not known yet */
    double change; /* of v since the last evaluation in full */
} graft_easycache_state;

void graft_easycache_begin(graft_easycache_state *s);
/* Mean of |a - b|, of |a| where b is NULL; n at least 1. */
double graft_easycache_distance(const float *a, const float *b, size_t n);
/* Adds what an evaluation is thought to change, and says whether the sum stays below the threshold:
 * it can be left out. moved: |x_t - x_(t-1)|; size: |v_(t-1)|. Never without a rate, nor where the
 * change is no finite number, as for a v of zeros. */
bool graft_easycache_enough(graft_easycache_state *s, double threshold, double moved, double size);
/* There was an evaluation in full. changed: |v_t - v_(t-1)|; both NaN for the first one. Where x
 * did not move the rate stays what it was; where it is no finite number it is not known. */
void graft_easycache_evaluated(graft_easycache_state *s, double changed, double moved);
#endif
