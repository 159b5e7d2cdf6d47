/* Guidance by two models: one predicts what the positive prompts give, another what the negative
 * ones do, and their denoised latents are combined as those of one model are: N + cfg (P - N). Each
 * is a guided denoiser of its own, without a side to be guided away from. On the run's thread. */
#ifndef GRAFT_DENOISE_TWO_MODELS_H
#define GRAFT_DENOISE_TWO_MODELS_H
#include "engine/denoise/guided_config.h"

typedef struct graft_two_models graft_two_models;

/* Whether models go together so. GRAFT_E_ARG for other architectures and latents,
 * GRAFT_E_UNSUPPORTED for what of a model needs both predictions of it, or a third one. */
graft_status graft_two_models_check(const graft_sampling *s, graft_err *e);
/* `config` with its prompts, of the run; of its model and cfg is the guidance. The negative prompts
 * are those of `other`, with a table of sigmas of its own. All is borrowed, as by
 * graft_guided_create(). */
graft_status graft_two_models_create(const graft_guided_config *config, const graft_model *other,
                                     graft_two_models **out, graft_err *e);
void graft_two_models_destroy(graft_two_models *t); /* NULL is fine */
graft_denoiser graft_two_models_denoiser(graft_two_models *t);
/* graft_guided_step() and graft_guided_tell() of both. */
void graft_two_models_step(graft_two_models *t, size_t step);
void graft_two_models_tell(const graft_two_models *t);
#endif
