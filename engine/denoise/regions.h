/* Where in the picture each prompt of a sampling run counts, and how much (MultiDiffusion, Bar-Tal
 * et al. 2023, arXiv:2302.08113): predictions are weighted and summed, and the sum is divided by
 * the sum of the weights, for the prompts of each side apart. Where no prompt weighs
 * anything the denoised latent is 0. Belongs to one run, on one thread. */
#ifndef GRAFT_DENOISE_REGIONS_H
#define GRAFT_DENOISE_REGIONS_H
#include "engine/objects/objects.h"
#include "kernels/guidance.h"

/* Whom a prompt speaks for. */
typedef enum graft_side {
    GRAFT_POSITIVE = 0,
    GRAFT_NEGATIVE = 1,
    GRAFT_THIRD = 2, /* engine.h's graft_third */
    GRAFT_SIDES
} graft_side;

/* A part of a latent, in its cells. */
typedef struct graft_box {
    int64_t y, x, height, width;
} graft_box;

bool graft_box_same_size(const graft_box *a, const graft_box *b);
bool graft_box_equal(const graft_box *a, const graft_box *b);

/* The area of a prompt, in whole cells and cut to the latent; without one the whole latent. */
graft_box graft_regions_area(const graft_cond_entry *k, const int64_t shape[4]);

typedef struct graft_cond_region {
    graft_box box;  /* what the network sees of the latent; empty where idle */
    bool idle;      /* weighs nothing anywhere, so that nobody computes it */
    bool rest;      /* weighs what the others of its side leave in a call */
    float *weight;  /* (pictures, box.height, box.width); NULL: 1 in the whole latent */
    float strength; /* of the rest */
} graft_cond_region;

typedef struct graft_regions {
    graft_cond_region *list; /* of each slot: positive, negative, then third prompts */
    size_t n;
    int64_t shape[4];
    bool any;                  /* one is not simply the whole latent */
    bool rest;                 /* one is for what others leave */
    float *left;               /* (pictures, h, w) of one side, for those; or NULL */
    float *total[GRAFT_SIDES]; /* summed weights of one call, (pictures, h, w) each; NULL unless
                                * any; of the third side unless that has any, too */
} graft_regions;

/* A prompt's area is brought to whole cells and cut to the latent. Towards the inside of the
 * picture its weight falls off over an eighth of its side at either end, GRAFT_FEATHER_MAX cells at
 * most, so that no seam shows where others lie below it; with a mask it does not, since the mask
 * says what counts. What the network sees is that, widened to multiples of `step` cells, in which
 * the prompt weighs nothing. What is outside the latent, or has no weight, is idle, and the task's
 * log says so. third and task may be NULL; shape: of the latent. */
#define GRAFT_FEATHER_MAX 8
graft_status graft_regions_create(const graft_cond *positive, const graft_cond *negative,
                                  const graft_cond *third, const int64_t shape[4], int64_t step,
                                  const graft_task *task, graft_regions *out, graft_err *e);
/* Takes what is zero, and what creating left when it failed. */
void graft_regions_finish(graft_regions *r);

/* The prompts of one call and side, where some are for the rest, one by one: before the first of
 * them all is left, and those for the rest come when all others have. Whether the slot weighs
 * anything; what it weighs is not left for those that are for the rest. */
void graft_regions_leave_all(graft_regions *r);
bool graft_regions_begin(graft_regions *r, size_t slot);

/* The slot's part of x, which has the run's shape: (N, C, box.height, box.width). */
void graft_regions_cut(const graft_regions *r, size_t slot, const float *x, float *out);
/* The slot's part as devices take it, without arrays. */
graft_excerpt graft_regions_part(const graft_regions *r, size_t slot);
/* Values of its weights; 0: it counts as 1 in the whole latent, or nowhere. */
size_t graft_regions_weights(const graft_regions *r, size_t slot);
/* Before the first graft_regions_count() of a call. */
void graft_regions_clear(graft_regions *r);
/* Adds a slot's prediction (N, C, box.height, box.width), weighted, to sum (N,C,h,w). Only where
 * `any`. */
void graft_regions_add(const graft_regions *r, size_t slot, const float *prediction, float *sum);
/* Adds its weights to those of its side. */
void graft_regions_count(graft_regions *r, size_t slot, graft_side side);
#endif
