/* Changes of classifier-free guidance: the part of engine.h, whose rules hold here, that says what
 * becomes of the two predictions. */
#ifndef GRAFT_CFG_H
#define GRAFT_CFG_H
#include "engine/types.h"
#include "engine/latents.h"

/* P and N are the denoised latents of the positive and of the negative prompts, x the noisy one, D
 * = N + cfg (P - N) or what RescaleCFG or an earlier change made of it. Dots and norms are over all
 * values of a picture, unless channels are said. */
typedef enum graft_cfg_kind {
    /* Adaptive projected guidance (Sadat et al. 2024, arXiv:2410.02416): of P - N, no longer than
     * `limit` where that is above 0, the part along P counts `strength` times, and what earlier
     * steps had `momentum` times: G. P becomes N + G + (P - N) / cfg, so that D is P + cfg G; with
     * a cfg of 0 it stays, and D is N. */
    GRAFT_CFG_PROJECTED = 0,
    /* Tangential damping (Kwon et al. 2025, arXiv:2503.18137): of x - N only the part along the
     * first right singular vector of x - N and x - P is left. */
    GRAFT_CFG_TANGENTIAL = 1,
    /* D where sigma is below `limit`, no longer than `strength` times P where that is above 0; else
     * P. As Lumina-Image 2.0 samples (Qin et al. 2025, arXiv:2503.21758). */
    GRAFT_CFG_RENORMED = 2,
    /* CFG-Zero* (Fan et al. 2025, arXiv:2503.18886): D + (a - 1) N + cfg (1 - a) N, where a is (x -
     * P) (x - N) / |x - N|^2. */
    GRAFT_CFG_ZERO_STAR = 3,
    /* `strength` times D, whose channels at each place are together no longer than P's there. */
    GRAFT_CFG_NORMED = 4,
    /* Mahiro: between D and cfg P, in which the prompt alone gives the direction: with s = 1 + the
     * cosine of the angle between the roots of cfg N and of (cfg P + D) / 2 at a place, in the mean
     * over places, s / 2 D + (1 - s / 2) cfg P. Roots of numbers below 0 are -root(-v). */
    GRAFT_CFG_SIMILAR = 5,
    /* P becomes N + O(P - N), where O is an operation on latents; O(P) where there is no negative
     * prompt. Only of graft_model_operate_cfg(). */
    GRAFT_CFG_OPERATED = 16
} graft_cfg_kind;

typedef struct graft_cfg_change {
    graft_cfg_kind kind;
    double strength, limit, momentum; /* of the kinds that name them; 0 */
} graft_cfg_change;

#define GRAFT_CFG_CHANGES 8

/* A model that is sampled so, after the changes that it has. The first two kinds, and operations,
 * come before the others, and perturbed attention is added behind all. Where there is no negative
 * prompt, or cfg is 1, they change nothing, but for `strength` of GRAFT_CFG_NORMED. GRAFT_E_ARG for
 * numbers that are not finite, and a strength or limit below 0 but for GRAFT_CFG_PROJECTED's
 * strength; GRAFT_E_LIMIT for more than GRAFT_CFG_CHANGES. Guidance by three prompts is
 * GRAFT_E_UNSUPPORTED with any of them. */
graft_status graft_model_change_cfg(const graft_model *m, const graft_cfg_change *change,
                                    graft_model **out, graft_err *e);
/* The same with an operation, at sigmas between two shares of the schedule, 0 … 1. It is done where
 * cfg is 1, too. Sampling a latent that is too small for it is GRAFT_E_ARG. */
graft_status graft_model_operate_cfg(const graft_model *m, const graft_latent_operation *operation,
                                     double start, double end, graft_model **out, graft_err *e);

/* Another cfg at these shares of the schedule, from start to end: of several the one that was put
 * on last counts where they overlap. Without a negative prompt it changes nothing. GRAFT_E_ARG for
 * what is not finite, and for shares out of 0..1; GRAFT_E_LIMIT for more than GRAFT_CFG_OVERRIDES.
 */
#define GRAFT_CFG_OVERRIDES 16
typedef struct graft_cfg_override {
    double cfg, start, end;
} graft_cfg_override;
graft_status graft_model_override_cfg(const graft_model *m, const graft_cfg_override *override,
                                      graft_model **out, graft_err *e);

/* Skip-layer guidance (graft_model_skip_layers()) for the transformers of SD 3, FLUX.1 and
 * AuraFlow. Blocks are numbers in any text; those of one stream are counted apart, SD 3 has none.
 * rescale 0 … 10: the result is multiplied by 1 + rescale (d - 1), where d is the standard
 * deviation of P over that of the result, for each picture; 0: not. GRAFT_E_ARG where none of the
 * blocks is there. */
typedef struct graft_skip_options {
    const char *layers, *single_layers;
    double scale, start, end, rescale;
} graft_skip_options;
graft_status graft_model_skip_blocks(const graft_model *m, const graft_skip_options *options,
                                     graft_model **out, graft_err *e);
/* The same blocks left out of the prediction of negative prompts, at these shares of the schedule:
 * guidance leads away from that, and nothing is predicted a third time. scale and rescale are not
 * looked at. Where no negative prompt counts nothing changes. */
graft_status graft_model_skip_negative(const graft_model *m, const graft_skip_options *options,
                                       graft_model **out, graft_err *e);
#endif
