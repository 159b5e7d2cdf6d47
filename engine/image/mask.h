/* Masks and pictures made ready for latents: what inpainting and the VAE need. Any thread. */
#ifndef GRAFT_IMAGE_MASK_H
#define GRAFT_IMAGE_MASK_H
#include "engine/engine.h"

/* The mask (N,H,W) at height x width (bilinear, as PyTorch's interpolate) for `batch` pictures:
 * masks repeat in turn, surplus ones are left out. batch 0: as many as there are. */
graft_status graft_image_resize_mask(const graft_image *mask, int64_t height, int64_t width,
                                     int64_t batch, graft_image **out, graft_err *e);
/* First cut to the aspect of the result, the middle of it; masks are spread over the batch
 * (resize.h). */
graft_status graft_image_fit_mask(const graft_image *mask, int64_t height, int64_t width,
                                  int64_t batch, graft_image **out, graft_err *e);

/* The mask rounded to 0 or 1 (half to even), then spread: a pixel becomes 1 when any within the
 * grow x grow box around it is 1. An even box reaches one further up and left. grow 0 or 1: rounded
 * only; GRAFT_E_ARG below 0. */
graft_status graft_mask_grow(const graft_image *mask, int64_t grow, graft_image **out,
                             graft_err *e);

/* The picture with its first three channels pulled to 0.5 where the rounded mask is 1. Mask and
 * picture have the same height and width, else GRAFT_E_ARG; masks repeat in turn. */
graft_status graft_mask_fill_grey(const graft_image *picture, const graft_image *mask,
                                  graft_image **out, graft_err *e);

/* The middle of a picture or mask whose sides are multiples of `multiple`; a side that is too short
 * is GRAFT_E_ARG. What is cut splits evenly, the odd pixel goes at the right and bottom. */
graft_status graft_image_crop_to_multiple(const graft_image *i, int64_t multiple, graft_image **out,
                                          graft_err *e);
#endif
