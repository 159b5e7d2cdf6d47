/* Making pictures: the inside of graft_image, for the parts of the engine that fill one.
 *
 * A picture is written by its creator alone, then handed out and never changed again. */
#ifndef GRAFT_IMAGE_IMAGE_H
#define GRAFT_IMAGE_IMAGE_H
#include "engine/engine.h"

#define GRAFT_IMAGE_MAX_SIDE   16384 /* pixels, height or width */
#define GRAFT_IMAGE_MAX_PIXELS ((int64_t)GRAFT_IMAGE_MAX_SIDE * GRAFT_IMAGE_MAX_SIDE) /* batch */

/* A picture (N,H,W,C) or, with mask, (N,H,W,1), whose data is not set yet. Every size is at least
 * 1, H and W at most GRAFT_IMAGE_MAX_SIDE, else GRAFT_E_ARG or GRAFT_E_LIMIT. */
graft_status graft_image_create(const int64_t shape[4], bool mask, graft_image **out, graft_err *e);
/* GRAFT_E_ARG for a picture that is no mask. */
graft_status graft_image_want_mask(const graft_image *i, graft_err *e);
/* 0 to 3 for "red", "green", "blue" and "alpha"; GRAFT_E_ARG for other words. */
graft_status graft_image_channel_parse(const char *name, int *out, graft_err *e);
/* Pixels of `from` channels as pixels of `to`; those that are missing are 1. */
void graft_image_copy_channels(const float *src, int64_t from, float *dst, int64_t to,
                               int64_t pixels);
/* The data, 64-byte aligned, before anyone else has the picture. */
float *graft_image_writable(graft_image *i);
#endif
