/* Latents: the part of engine.h, whose rules hold here, that makes, changes, reads and writes them.
 */
#ifndef GRAFT_LATENTS_H
#define GRAFT_LATENTS_H
#include "engine/types.h"

graft_latent *graft_latent_retain(graft_latent *l);
void graft_latent_release(graft_latent *l);
/* Pixels of a picture in a place of latents with so many channels, each way: 8, but 16 with
 * FLUX.2's 128. */
int64_t graft_latent_scale(int64_t channels);
/* Zeros (batch, channels, height/scale, width/scale). Sampling takes zeros of any channels for
 * those of its model, for as many pixels. */
graft_status graft_latent_empty(int64_t channels, int64_t width, int64_t height, int64_t batch,
                                graft_latent **out, graft_err *e);
/* The same of so many layers for each of the batch, 1 or more: the pictures that
 * Qwen-Image-Layered makes of one. */
graft_status graft_latent_empty_layers(int64_t channels, int64_t width, int64_t height,
                                       int64_t layers, int64_t batch, graft_latent **out,
                                       graft_err *e);
/* Copies (N,C,h,w) floats. */
graft_status graft_latent_from_data(const float *data, const int64_t shape[4], graft_latent **out,
                                    graft_err *e);
/* shape[4] = N,C,h,w; the data lives as long as the latent. With layers they are (N,C,layers,h,w),
 * and shape[1] counts C * layers planes. */
const float *graft_latent_data(const graft_latent *l, int64_t shape[4]);
/* 1 for what is no stack of layers. */
int64_t graft_latent_layers(const graft_latent *l);
/* `method`: "nearest-exact" "bilinear" "area" "bicubic" "bislerp"; width, height in pixels (latent
 * = /scale); 0 keeps the aspect, both 0: unchanged; center: cut to the new aspect
 * first. */
graft_status graft_latent_upscale(const graft_latent *l, const char *method, int64_t width,
                                  int64_t height, bool center, graft_latent **out, graft_err *e);
graft_status graft_latent_upscale_by(const graft_latent *l, const char *method, double scale,
                                     graft_latent **out, graft_err *e);
graft_status graft_latent_repeat(const graft_latent *l, int64_t amount, graft_latent **out,
                                 graft_err *e);
graft_status graft_latent_from_batch(const graft_latent *l, int64_t index, int64_t length,
                                     graft_latent **out, graft_err *e);
graft_status graft_latent_set_mask(const graft_latent *l, const graft_image *mask,
                                   graft_latent **out, graft_err *e);
/* Positions and sizes in pixels (latent = /scale). Masks of latents are changed with them. What
 * the part would have beyond the edges is left out; GRAFT_E_ARG when nothing remains. */
graft_status graft_latent_crop(const graft_latent *l, int64_t x, int64_t y, int64_t width,
                               int64_t height, graft_latent **out, graft_err *e);
typedef enum graft_latent_axis {
    GRAFT_LATENT_LAYERS = 0,
    GRAFT_LATENT_ROWS = 1,
    GRAFT_LATENT_COLUMNS = 2
} graft_latent_axis;
/* `amount` columns, rows or layers of the latent's from `index` on, which counts from the end where
 * it is negative; the nearest that there are. GRAFT_E_ARG for amounts below 1. */
graft_status graft_latent_cut(const graft_latent *l, graft_latent_axis axis, int64_t index,
                              int64_t amount, graft_latent **out, graft_err *e);
/* All parts of `size` columns, rows or layers as samples of their own, those of a sample one behind
 * the other, with their parts of its mask; of fewer than `size` one part. What is left at the end
 * goes. GRAFT_E_ARG for sizes below 1. */
graft_status graft_latent_cut_to_batch(const graft_latent *l, graft_latent_axis axis, int64_t size,
                                       graft_latent **out, graft_err *e);
/* Upside down, or left to right. */
graft_status graft_latent_flip(const graft_latent *l, bool upside_down, graft_latent **out,
                               graft_err *e);
/* Clockwise by so many right angles, 0 to 3. */
graft_status graft_latent_rotate(const graft_latent *l, int turns, graft_latent **out,
                                 graft_err *e);
/* a * factor + b * (1 - factor); b is scaled to a's size (bicubic, cut to its aspect) and repeats
 * over its batch. With mask and batch indices of a. */
graft_status graft_latent_blend(const graft_latent *a, const graft_latent *b, double factor,
                                graft_latent **out, graft_err *e);
/* a * factor_a + b * factor_b; b is scaled to a's size (bilinear, cut to its aspect) and repeats
 * over its batch. With mask and batch indices of a. b NULL: a * factor_a. GRAFT_E_ARG for factors
 * that are not finite. */
graft_status graft_latent_sum(const graft_latent *a, double factor_a, const graft_latent *b,
                              double factor_b, graft_latent **out, graft_err *e);
/* The mixture a * ratio + b * (1 - ratio) of directions, with that mixture of lengths: the channels
 * of a place are a vector; both are brought to the length 1, mixed, brought to it again, and get
 * the mixed length. A vector of length 0 has no direction and counts as 0. b is scaled to a's size
 * (bilinear, cut to its aspect) and repeats over its batch. With mask and batch indices of a. */
graft_status graft_latent_interpolate(const graft_latent *a, const graft_latent *b, double ratio,
                                      graft_latent **out, graft_err *e);
/* What is done to all samples of a latent, each by itself. The channels of a place are a vector, m
 * its length. */
typedef enum graft_latent_operation_kind {
    /* Reinhard's curve: the vector gets the length m top / (m + top), where top is `multiplier`
     * times the mean of all lengths and five of their standard deviations (with n - 1; of one
     * place 0). A multiplier of 0 leaves zeros. */
    GRAFT_OPERATION_TONEMAP = 0,
    /* (1 + 10 alpha) times the vector less 10 alpha m times what a blur makes of the vectors of
     * length 1: a bell exp(-(x^2 + y^2) / (2 sigma^2)), with x and y from -1 to 1, over 2 radius +
     * 1 places each way, beyond the edges of the mirror image. */
    GRAFT_OPERATION_SHARPEN = 1
} graft_latent_operation_kind;
#define GRAFT_OPERATION_RADIUS 31 /* at most */
typedef struct graft_latent_operation {
    graft_latent_operation_kind kind;
    double multiplier;   /* TONEMAP, from 0 on */
    int64_t radius;      /* SHARPEN, from 1 on */
    double sigma, alpha; /* SHARPEN: above 0; from 0 on */
} graft_latent_operation;
/* With mask and batch indices. GRAFT_E_ARG for numbers out of range, and where height or width are
 * not larger than the radius. */
graft_status graft_latent_operate(const graft_latent *l, const graft_latent_operation *o,
                                  graft_latent **out, graft_err *e);
/* same: every sample is sampled with the noise of the first; else each with that of its place. */
graft_status graft_latent_same_noise(const graft_latent *l, bool same, graft_latent **out,
                                     graft_err *e);
/* One batch behind the other; b is scaled to a's size (bilinear, cut to its aspect). Where one has
 * a mask, samples without are all white. */
graft_status graft_latent_batch(const graft_latent *a, const graft_latent *b, graft_latent **out,
                                graft_err *e);
/* The samples of n batches, one behind the other, in batches of `size`, 1 or more: a batch ends
 * before that where channels, height or width change. Each sample keeps its batch index; without
 * any it has its number among all samples. Masks go with their samples, and repeat in turn where a
 * batch has fewer. Where only some of a batch have one, the others are all white; where they are of
 * unlike sizes, all are brought to that of the pictures, 8h x 8w (bilinear). Masks of a batch that
 * are all white are left out. *out as in graft_image_rebatch(). */
graft_status graft_latent_rebatch(const graft_latent *const *latents, size_t n, int64_t size,
                                  graft_latent ***out, size_t *count, graft_err *e);
/* `from` laid over `to` at x, y, repeated over its batch; feather: over so many pixels it fades in
 * at those of its edges that lie inside. With mask and batch indices of `to`. */
graft_status graft_latent_composite(const graft_latent *to, const graft_latent *from, int64_t x,
                                    int64_t y, int64_t feather, graft_latent **out, graft_err *e);
/* The same as much as a mask says, which is scaled to `from` (bilinear); NULL: all of it. resize:
 * `from` is scaled to the size of `to` first. */
graft_status graft_latent_composite_masked(const graft_latent *to, const graft_latent *from,
                                           int64_t x, int64_t y, bool resize,
                                           const graft_image *mask, graft_latent **out,
                                           graft_err *e);
/* ComfyUI's .latent files: safetensors with latent_tensor and latent_format_version_0. `metadata`:
 * NULL, or pairs key, value, …, NULL stored in the file. Fails when `path` exists. */
graft_status graft_latent_save(const graft_latent *l, const char *path, const char *const *metadata,
                               graft_err *e);
graft_status graft_latent_load(const char *path, graft_latent **out, graft_err *e);
#endif
