/* What a ControlNet is compiled for, and how those of transformers give their residuals. One thread
 * at a time per graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_CONTROL_RESIDUALS_H
#define GRAFT_MODELS_CONTROL_RESIDUALS_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/build.h"
#include "engine/models/parts/steered.h"

/* Several of Z-Image's, whose residuals of the first part change what those of the second begin
 * with, run in two stages: first that part of all, then the rest of all. */
typedef enum graft_control_stage {
    GRAFT_CONTROL_AT_ONCE = 0,
    GRAFT_CONTROL_FIRST_PART = 1,
    GRAFT_CONTROL_SECOND_PART = 2
} graft_control_stage;

typedef struct graft_control_shape {
    int64_t batch, height, width, tokens; /* as the UNet's */
    int64_t pictures; /* rows after which x, timesteps and hint repeat, as graft_unet_build_guided
                         has it; the hint has only so many */
    graft_dtype act_dtype;
    int32_t more; /* takes the residuals of other ControlNets, and adds its own: 1; of a
                     transformer a bit for each part of `steered` that has some, and it has too */
    /* Of a transformer's only: */
    int32_t y_width, context_dim; /* as the network's */
    int32_t counts;             /* 1: the last number of y is how many tokens of the prompt count */
    int32_t told;               /* 1: it is a union ControlNet and told a type */
    int32_t stage;              /* graft_control_stage, of Z-Image's */
    graft_steered steered, own; /* how all of its chain steer, and how it alone does */
} graft_control_shape;

/* For builders of transformers': v (rows,…) of rank 3, repeated until it has n rows. */
graft_vid graft_control_wide(const graft_build *b, graft_vid v, int64_t n);
/* The residuals on their way out of a transformer's. */
typedef struct graft_control_residuals {
    const graft_build *b;
    const graft_control_shape *s;
    int64_t dim[4];
    graft_vid strength;
    graft_vid before[GRAFT_STEERED_MOST], made[GRAFT_STEERED_MOST]; /* of `steered` */
} graft_control_residuals;
/* Makes the input `strength`; blocks are `hidden` wide. */
void graft_control_residuals_init(graft_control_residuals *r, const graft_build *b,
                                  const graft_control_shape *s, int32_t hidden, int32_t patch);
/* Makes the inputs for `more`. */
void graft_control_residuals_before(graft_control_residuals *r);
/* Block i of a part gives its latent's tokens h (N,tokens,hidden), through a linear layer of this
 * name. */
void graft_control_residual(graft_control_residuals *r, int part, int i, graft_name name,
                            graft_vid h);
void graft_control_residuals_finish(graft_control_residuals *r); /* makes the outputs */
#endif
