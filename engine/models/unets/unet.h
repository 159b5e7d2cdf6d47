/* The UNet of Stable Diffusion 1.x, 2.x and XL (Rombach et al. 2022, arXiv:2112.10752; Podell et
 * al. 2023, arXiv:2307.01952) as a graph. */
#ifndef GRAFT_MODELS_UNET_H
#define GRAFT_MODELS_UNET_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,in,h,w), timesteps (N), context (N,tokens,context_dim), y (N,adm) if the model takes
 * one, the feature if FAST, the residuals if control, T2I-Adapters' features if adapted, pictures'
 * keys and values where there are any (attended.h: those of all cross-attentions, whatever the
 * variant), and their masks, with boxes their tokens (N,GRAFT_GLIGEN_TOKENS,shape->boxes) as
 * float32, a hypernetwork's strength (1) as float32 if there is one, FreeU's factors
 * (GRAFT_FREEU_FACTORS, in their order) as float32 if graft_unet_freeu(). Output: (N +
 * perturbed,out,h,w), the feature if STORE, the queries, then the keys of watched rows, (watched,
 * T,C) float32 with heads side by side, T in the picture's order whatever tiles there are. Feature
 * (N + perturbed,H,W,C) and residuals (N,H,W,C) are of act_dtype. Residual i is added to what input
 * block i gives to the output blocks, the last to the middle block's output (controlnet.h); a FAST
 * graph takes those of its own input blocks only. */
graft_status graft_unet_build(const graft_unet_arch *a, const graft_net_shape *shape,
                              graft_graph **out, graft_err *e);
/* The same where x and timesteps repeat after so many rows, as they do when one latent is denoised
 * with several conditionings: up to the first cross-attention all is computed once for all of them.
 * Only the first `pictures` rows of x are read then. A model with y gets nothing from it: y is each
 * row's own and goes into every block. */
graft_status graft_unet_build_guided(const graft_unet_arch *a, const graft_net_shape *shape,
                                     int64_t pictures, graft_graph **out, graft_err *e);
/* The feature's shape, its batch included. */
void graft_unet_feature_shape(const graft_unet_arch *a, const graft_net_shape *shape,
                              int64_t dim[4]);
/* How many residuals a graph of this shape takes: 0 without control, else at most n_input + 1. */
#define GRAFT_UNET_RESIDUALS (GRAFT_MAX_BLOCKS + 1)
int graft_unet_residuals(const graft_unet_arch *a, const graft_net_shape *shape);
/* Residual i's shape, its batch included. */
void graft_unet_residual_shape(const graft_unet_arch *a, const graft_net_shape *shape, int i,
                               int64_t dim[4]);
/* Height and width of each block that has cross-attentions, in the order of graft_crossings.
 * Returns how many there are. */
int graft_unet_sides(const graft_unet_arch *a, const graft_net_shape *shape,
                     int64_t side[GRAFT_CROSSING_BLOCKS][2]);
/* Where T2I-Adapters' features (t2i_adapter.h) are added, in their order: behind input block
 * place[k], before it goes on and to the output blocks; n_input: behind the middle block, before
 * ControlNets' residual. Each level has a place: the last block that has a transformer, or where
 * the level's last block has none its down-sampling; the middle has the last one, which SD 1.x's
 * adapters leave alone. Returns how many places there are. */
#define GRAFT_UNET_PLACES (GRAFT_MAX_BLOCKS + 1)
int graft_unet_places(const graft_unet_arch *a, int32_t place[GRAFT_UNET_PLACES]);
/* How many features a graph of this shape takes: shape->adapted, or of a FAST one the first of them
 * that are behind its own input blocks. Feature k has the shape (N,H,W,C) of residual place[k], and
 * act_dtype. */
int graft_unet_features(const graft_unet_arch *a, const graft_net_shape *shape);
/* Whether a graph of this shape does anything for FreeU: one of its output blocks gets features of
 * a width that counts. Only then does it take the factors. */
bool graft_unet_freeu(const graft_unet_arch *a, const graft_net_shape *shape);
/* `merged` where a graph of this shape, whose own is not looked at, would merge any, else 0. */
int32_t graft_unet_merged(const graft_unet_arch *a, const graft_net_shape *shape, int32_t merged);
/* Whether the middle block has an attention to perturb, or to look at; without one a graph of
 * perturbed or watched rows is GRAFT_E_ARG, as is one of watched rows that is FAST. */
bool graft_unet_perturbs(const graft_unet_arch *a);
/* Height and width, in tokens, that the middle block's transformer sees, and its heads. */
typedef struct graft_unet_middle {
    int64_t height, width;
    int32_t channels, heads;
} graft_unet_middle;
/* False where it has none. */
bool graft_unet_middle_of(const graft_unet_arch *a, const graft_net_shape *shape,
                          graft_unet_middle *out);
/* The cut for a block of a resolution level, both from 0 and the outermost; a down-sampling block
 * is the last of its level, the first convolution (cut 0) belongs to none. GRAFT_E_ARG states the
 * range. */
graft_status graft_unet_cut(const graft_unet_arch *a, int64_t level, int64_t block, int32_t *cut,
                            graft_err *e);
#endif
