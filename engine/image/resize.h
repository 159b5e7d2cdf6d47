/* Resampling of float pictures: the rules of PyTorch's interpolate() (align_corners false, no
 * antialias), of Pillow's 8-bit Lanczos, and spherical interpolation of channel vectors.
 *
 * Data is (outer, h, w, inner), the last index fastest: pictures are (N,H,W,C), latents
 * (N*C,h,w,1). All functions: any thread. */
#ifndef GRAFT_IMAGE_RESIZE_H
#define GRAFT_IMAGE_RESIZE_H
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef enum graft_resize_method {
    GRAFT_RESIZE_NEAREST_EXACT,
    GRAFT_RESIZE_BILINEAR,
    GRAFT_RESIZE_AREA,
    GRAFT_RESIZE_BICUBIC, /* Keys' kernel with a = -0.75 */
    GRAFT_RESIZE_LANCZOS, /* 8 bits per value: clipped to 0..1 and truncated; 4 values: RGBA */
    GRAFT_RESIZE_BISLERP, /* the `inner` values of one place are one vector */
    GRAFT_RESIZE_METHODS
} graft_resize_method;

/* Every method but bislerp for pictures, every one but lanczos for latents; else GRAFT_E_ARG with
 * the names allowed. */
graft_status graft_resize_method_parse(const char *name, bool latent, graft_resize_method *out,
                                       graft_err *e);

/* src (shape[0],shape[1],shape[2],shape[3]) to dst (shape[0],h,w,shape[3]), which does not overlap
 * it. Every size is at least 1. center: src is first cut to the aspect of the result. Fails only
 * for lack of memory. */
graft_status graft_resize(graft_resize_method method, const float *src, const int64_t shape[4],
                          float *dst, int64_t h, int64_t w, bool center, graft_err *e);

/* One method each, without the cut; sizes as above. */
graft_status graft_resize_lanczos(const float *src, const int64_t shape[4], float *dst, int64_t h,
                                  int64_t w, graft_err *e);
graft_status graft_resize_bislerp(const float *src, const int64_t shape[4], float *dst, int64_t h,
                                  int64_t w, graft_err *e);

/* Filters that widen as pictures shrink, so that every place of the source counts ("antialias"), as
 * Pillow has them, and PyTorch's interpolate() with antialias. */
typedef struct graft_resize_kernel {
    double (*weight)(double x);
    double support; /* how far from 0 it reaches */
} graft_resize_kernel;
/* The places that one place of the result is made of. */
typedef struct graft_resize_window {
    int64_t first, count;
} graft_resize_window;
/* The most places of any window. */
int64_t graft_resize_taps(const graft_resize_kernel *k, int64_t in, int64_t out);
/* The window of place i of `out`, and its weights, whose sum is 1. */
graft_resize_window graft_resize_window_at(const graft_resize_kernel *k, int64_t in, int64_t out,
                                           int64_t i, double *weight);

/* Bicubic so, Keys' kernel with a = -0.5: of the picture resized to whole[0] rows and whole[1]
 * columns the part (h,w) that begins at row y and column x. */
typedef struct graft_resize_part {
    int64_t whole[2], y, x, h, w;
} graft_resize_part;
graft_status graft_resize_smooth(const float *src, const int64_t shape[4], float *dst,
                                 const graft_resize_part *part, graft_err *e);

/* Where PyTorch's linear interpolation from `in` to `out` places looks: two neighbours, and the
 * weight of the second. */
typedef struct graft_resize_pair {
    int64_t first, second;
    float weight;
} graft_resize_pair;
void graft_resize_linear(int64_t in, int64_t out, graft_resize_pair *pair);

/* Rows [y, y+h) and columns [x, x+w) of every picture. */
void graft_resize_cut(const float *src, const int64_t shape[4], int64_t y, int64_t x, float *dst,
                      int64_t h, int64_t w);
/* Which of n pictures stands for picture i of `batch`: the batch's own axis, resized to the nearest
 * by middles for more of them, with both ends kept for fewer, as ComfyUI does for what stands
 * beside a latent. */
int64_t graft_batch_spread(int64_t i, int64_t n, int64_t batch);
#endif
