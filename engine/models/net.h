/* The network that denoises, whichever it is: a UNet (unet.h) or a transformer (mmdit.h, flux.h,
 * zimage.h, flux2.h, qwen_image.h, qwen_image21.h, krea2.h, anima.h, ideogram4.h,
 * ernie_image.h, auraflow.h, omnigen2.h, hidream.h).
 * Pure functions, any thread. */
#ifndef GRAFT_MODELS_NET_H
#define GRAFT_MODELS_NET_H
#include "engine/models/unets/unet.h"

/* What is below `prefix`; as graft_unet_detect(). */
graft_status graft_net_detect(const graft_safetensors *f, const char *prefix, const char *config,
                              graft_net_arch *out, graft_err *e);
/* A UNet as a network. */
void graft_net_of_unet(const graft_unet_arch *a, graft_net_arch *out);
/* graft_unet_build_guided(); a transformer computes all rows, whatever `pictures` says. */
graft_status graft_net_build(const graft_net_arch *a, const graft_net_shape *shape,
                             int64_t pictures, graft_graph **out, graft_err *e);
/* graft_unet_residuals() and graft_unet_residual_shape() of any network; height and width are those
 * of the latent. */
#define GRAFT_NET_RESIDUALS                                                                        \
    ((int)GRAFT_STEERED_MOST > GRAFT_UNET_RESIDUALS ? (int)GRAFT_STEERED_MOST                      \
                                                    : GRAFT_UNET_RESIDUALS)
int graft_net_residuals(const graft_net_arch *a, const graft_net_shape *shape);
void graft_net_residual_shape(const graft_net_arch *a, const graft_net_shape *shape, int i,
                              int64_t dim[4]);
/* What a ControlNet's hint becomes: as its first residual, but for the latent's tokens alone. */
void graft_net_features_shape(const graft_net_arch *a, const graft_net_shape *shape,
                              int64_t dim[4]);
/* A shape that any network of its kind takes, with float32 activations: for graphs of which only
 * names and structure count. */
graft_net_shape graft_net_some_shape(const graft_net_arch *a);
/* A shape of which all weights are read: OmniGen2's, whose references have some of their own, gets
 * one where it has none, as small as can be. */
void graft_net_read_all(const graft_net_arch *a, graft_net_shape *shape);
/* Names the architecture in files. A UNet's is that of its own structure: plans that were saved
 * before there were other networks stay good. */
graft_hash graft_net_hash(const graft_net_arch *a);
static inline bool graft_net_is_unet(const graft_net_arch *a)
{
    return a->kind == GRAFT_NET_UNET;
}
/* Whether it can be shown further pictures as tokens of their own (net_shape.h). */
bool graft_net_takes_references(const graft_net_arch *a);
/* Whether latents of several layers are for it (net_shape.h). */
bool graft_net_makes_layers(const graft_net_arch *a);
/* Numbers of one row of x, for latents of height x width. */
int64_t graft_net_x_values(const graft_net_arch *a, int64_t height, int64_t width,
                           const graft_references *r);
/* Whether it is told a guidance scale, by the last number of y. */
bool graft_net_told_guidance(const graft_net_arch *a);
/* Pixels of the picture on a side of the latent's cells, as the VAEs of its kind have it. */
int64_t graft_net_cell(const graft_net_arch *a);
/* Of how many cells the height and width of what it sees are multiples. */
int64_t graft_net_patch(const graft_net_arch *a);
/* Whether of prompts of so many tokens it is told how many are their own, by the last number of y,
 * and sees no others: so those of other lengths run in the same graph. */
bool graft_net_counts_tokens(const graft_net_arch *a, int64_t tokens);
/* Of y, then; 0: it takes none. */
int64_t graft_net_y_width(const graft_net_arch *a, int64_t tokens);
/* Such prompts are filled up to a multiple of this. */
#define GRAFT_NET_TOKENS 64
/* How many tokens it is given for so many of a prompt: more where it wants a prompt filled up, or
 * is told how many count. */
int64_t graft_net_tokens(const graft_net_arch *a, int64_t tokens);
/* How many it sees for so many of a latent's: whole patches (denoise/known.h). */
int64_t graft_net_side(const graft_net_arch *a, int64_t cells);
/* The same of the rows of so many layers, one below the other, each by itself; 0 and 1: of one. */
int64_t graft_net_stacked(const graft_net_arch *a, int64_t cells, int64_t layers);
#endif
