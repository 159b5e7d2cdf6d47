/* Latents: samples, the mask of what to change, and which noise each sample of a batch gets.
 *
 * The mask keeps its own size and count; whoever uses it brings it to the latent's
 * (graft_image_resize_mask). batch_index says for each sample which draw of the noise it takes;
 * without one sample i takes draw i. */
#ifndef GRAFT_IMAGE_LATENT_H
#define GRAFT_IMAGE_LATENT_H
#include "engine/engine.h"

#define GRAFT_LATENT_SCALE 8 /* pixels of a picture per place of a latent, each way */
/* FLUX.2's latents, whose places have those of a square of cells, and Qwen-Image 2.1's: these
 * numbers of channels tell. */
#define GRAFT_LATENT_FOLDED_CHANNELS 128
#define GRAFT_LATENT_FINE_CHANNELS   64
#define GRAFT_LATENT_COARSE_SCALE    16

/* A latent (N,C,h,w) without mask and batch indices, whose samples are not set yet. Every size is
 * at least 1, h and w at most GRAFT_IMAGE_MAX_SIDE. */
graft_status graft_latent_create(const int64_t shape[4], graft_latent **out, graft_err *e);
/* The same of so many layers, of which C, a multiple, counts all planes. */
graft_status graft_latent_create_layers(const int64_t shape[4], int64_t layers, graft_latent **out,
                                        graft_err *e);
/* The same with the mask and the layers of `from`, and with its batch indices when N is the same.
 */
graft_status graft_latent_create_like(const graft_latent *from, const int64_t shape[4],
                                      graft_latent **out, graft_err *e);
/* The samples, 64-byte aligned, before anyone else has the latent. */
float *graft_latent_writable(graft_latent *l);

/* Numbers for each sample of a latent that has none yet, before anyone else has it. */
graft_status graft_latent_set_index(graft_latent *l, const int64_t *index, graft_err *e);

/* All samples are 0, as EmptyLatentImage makes them. */
bool graft_latent_is_empty(const graft_latent *l);
/* The shape in which a model of so many channels takes it: (N,C,layers h,w), as a layer's planes
 * lie one behind the other. An empty one becomes what it would be for that model: its channels, and
 * its places for as many pixels. GRAFT_E_ARG for another that has other channels. */
graft_status graft_latent_shape_for(const graft_latent *l, int64_t channels, int64_t shape[4],
                                    graft_err *e);
/* graft_latent_create_like() for such a shape. */
graft_status graft_latent_create_sampled(const graft_latent *from, const int64_t shape[4],
                                         graft_latent **out, graft_err *e);
/* Pixels of a picture in a place of this latent, each way. */
int64_t graft_latent_cell(const graft_latent *l);
/* GRAFT_E_UNSUPPORTED, in the name of `what`, for one of several layers. */
graft_status graft_latent_want_single(const graft_latent *l, const char *what, graft_err *e);
/* GRAFT_E_ARG unless both have as many channels and layers. */
graft_status graft_latent_want_alike(const graft_latent *a, const graft_latent *b, graft_err *e);
/* Borrowed from the latent; NULL when there is none. */
const graft_image *graft_latent_mask(const graft_latent *l);
/* N numbers, at least 0. */
const int64_t *graft_latent_batch_index(const graft_latent *l);
#endif
