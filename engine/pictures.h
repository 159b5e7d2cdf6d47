/* Pictures and masks: the part of engine.h, whose rules hold here, that knows of no model. */
#ifndef GRAFT_PICTURES_H
#define GRAFT_PICTURES_H
#include "engine/types.h"

graft_image *graft_image_retain(graft_image *i);
void graft_image_release(graft_image *i);
/* shape[4] = N,H,W,C (C = 1 for masks). */
const float *graft_image_data(const graft_image *i, int64_t shape[4]);
bool graft_image_is_mask(const graft_image *i);
/* Copies (N,H,W,C) floats; C = 1 with mask = true makes a MASK. */
graft_status graft_image_from_data(const float *data, const int64_t shape[4], bool mask,
                                   graft_image **out, graft_err *e);
/* One colour, 0xRRGGBB. */
graft_status graft_image_empty(int64_t width, int64_t height, int64_t batch, uint32_t rgb,
                               graft_image **out, graft_err *e);
#define GRAFT_IMAGE_KINDS "PNG, JPEG, WebP, BMP, GIF, TGA, PSD and PNM"
/* GRAFT_IMAGE_KINDS, turned upright by EXIF; 8 or 16 bits; every frame of an animation. *mask is
 * 1 - alpha, or 64x64 zeros when there is no alpha; NULL: not wanted. */
graft_status graft_image_load(const char *path, graft_image **out, graft_image **mask,
                              graft_err *e);
/* One channel as MASK: "red" "green" "blue" "alpha" (alpha: 1 - alpha, zeros without). */
graft_status graft_image_load_mask(const char *path, const char *channel, graft_image **out,
                                   graft_err *e);
/* The kind of a picture file that is not read ("AVIF", …), by its first bytes; else NULL. */
const char *graft_image_unread(const char *path);
/* Picture `index` of the batch as PNG bytes (graft_bytes_free): each value becomes
 * truncate(clip(255 x)). `text`: NULL, or pairs key, value, …, NULL for tEXt chunks. */
graft_status graft_image_to_png(const graft_image *i, int64_t index, int level,
                                const char *const *text, uint8_t **out, size_t *size, graft_err *e);
/* The same with 16 bits a channel, each value rounded to the nearest. */
graft_status graft_image_to_png16(const graft_image *i, int64_t index, int level,
                                  const char *const *text, uint8_t **out, size_t *size,
                                  graft_err *e);
/* All pictures of the batch as one animated PNG, each seen for so many milliseconds (png.h). The
 * task, which may be NULL, is asked before each whether it was cancelled. */
graft_status graft_image_to_apng(const graft_image *i, uint32_t milliseconds, int level,
                                 const char *const *text, const graft_task *task, uint8_t **out,
                                 size_t *size, graft_err *e);
/* The same as one animated WebP of 3 or 4 channels; grey becomes RGB. quality 0 to 100, method 0 to
 * 6 (webp.h). The texts are ASCII. */
typedef struct graft_webp_options {
    int milliseconds, quality, method;
    bool lossless;
} graft_webp_options;
graft_status graft_image_to_webp(const graft_image *i, const graft_webp_options *options,
                                 const char *const *text, const graft_task *task, uint8_t **out,
                                 size_t *size, graft_err *e);
void graft_bytes_free(uint8_t *bytes);
/* `method`: "nearest-exact" "bilinear" "area" "bicubic" "lanczos"; 0 keeps the aspect. */
graft_status graft_image_scale(const graft_image *i, const char *method, int64_t width,
                               int64_t height, bool center, graft_image **out, graft_err *e);
graft_status graft_image_scale_by(const graft_image *i, const char *method, double scale,
                                  graft_image **out, graft_err *e);
/* To so many times 1024 x 1024 pixels, as nearly as sides that are multiples of `step` (1 or more)
 * allow, in the same aspect. */
graft_status graft_image_scale_pixels(const graft_image *i, const char *method, double megapixels,
                                      int64_t step, graft_image **out, graft_err *e);
/* With the longer side `side` pixels, 1 or more, in the same aspect. */
graft_status graft_image_scale_longer(const graft_image *i, const char *method, int64_t side,
                                      graft_image **out, graft_err *e);
/* The same with the shorter side. */
graft_status graft_image_scale_shorter(const graft_image *i, const char *method, int64_t side,
                                       graft_image **out, graft_err *e);
/* With sides that are multiples of `multiple`, 1 or more: those next below, of its middle.
 * The picture itself where it has fewer pixels than one of them. */
graft_status graft_image_scale_to_multiple(const graft_image *i, const char *method,
                                           int64_t multiple, graft_image **out, graft_err *e);
/* The size of about so many times 1024 x 1024 pixels that has this aspect: each side is the nearest
 * multiple of `multiple` (a half: the even one), and at least one of it. All are above 0. */
graft_status graft_image_resolution(int64_t across, int64_t down, double megapixels,
                                    int64_t multiple, int64_t *width, int64_t *height,
                                    graft_err *e);
/* Each colour + strength times a number that PyTorch's CPU generator, seeded so, draws from the
 * normal distribution, clipped to 0..1. One is drawn for each value, also of transparency, which
 * stays as it is. GRAFT_E_ARG for a strength that is not finite. */
graft_status graft_image_noise(const graft_image *i, uint64_t seed, double strength,
                               graft_image **out, graft_err *e);
graft_status graft_image_invert(const graft_image *i, graft_image **out, graft_err *e);
graft_status graft_mask_to_image(const graft_image *mask, graft_image **out, graft_err *e);
graft_status graft_image_to_mask(const graft_image *i, const char *channel, graft_image **out,
                                 graft_err *e);
/* The part of a picture or mask that begins at x, y; what it would have beyond the edges is left
 * out. GRAFT_E_ARG when nothing remains. */
graft_status graft_image_crop(const graft_image *i, int64_t x, int64_t y, int64_t width,
                              int64_t height, graft_image **out, graft_err *e);
/* Upside down, or left to right; clockwise by so many right angles, 0 to 3. Masks, too. */
graft_status graft_image_flip(const graft_image *i, bool upside_down, graft_image **out,
                              graft_err *e);
graft_status graft_image_rotate(const graft_image *i, int turns, graft_image **out, graft_err *e);
/* Pictures or masks index … index + length - 1 of a batch: an index beyond the end means the last,
 * and what the batch does not have is left out. */
graft_status graft_image_from_batch(const graft_image *i, int64_t index, int64_t length,
                                    graft_image **out, graft_err *e);
/* The whole batch so many times. */
graft_status graft_image_repeat(const graft_image *i, int64_t amount, graft_image **out,
                                graft_err *e);
/* Colours and transparency apart, and together again. The mask is 1 - alpha, as loading a picture
 * gives it: white is transparent; black where there is no alpha. Joining takes the first three
 * channels, scales the mask to the picture (bilinear), and repeats it over a batch. */
graft_status graft_image_split_alpha(const graft_image *i, graft_image **out, graft_image **mask,
                                     graft_err *e);
graft_status graft_image_join_alpha(const graft_image *i, const graft_image *mask,
                                    graft_image **out, graft_err *e);

/* One batch behind the other; b is scaled to a's size (bilinear, cut to its aspect). Pictures
 * without transparency are opaque beside others. */
graft_status graft_image_batch(const graft_image *a, const graft_image *b, graft_image **out,
                               graft_err *e);
/* The same of n batches, 1 or more, all at the size of the first. */
graft_status graft_image_join(const graft_image *const *images, size_t n, graft_image **out,
                              graft_err *e);
/* The pictures of n batches, one behind the other, in batches of `size`, 1 or more: a batch ends
 * before that where height, width or channels change. *out: *count batches in graft_malloc'ed
 * memory, each of them the caller's; both are empty when n is 0 and after a failure. */
graft_status graft_image_rebatch(const graft_image *const *images, size_t n, int64_t size,
                                 graft_image ***out, size_t *count, graft_err *e);
/* a * (1 - factor) + mode(a, b) * factor, clipped to 0..1, where b is scaled to a's size (bicubic,
 * cut to its aspect) and repeats over its batch. mode: "normal", "multiply", "screen", "overlay",
 * "soft_light", as in W3C's Compositing and Blending, and "difference", which is a - b with its
 * sign, as ComfyUI has it. */
graft_status graft_image_blend(const graft_image *a, const graft_image *b, double factor,
                               const char *mode, graft_image **out, graft_err *e);
/* `from` laid over `to` at x, y as much as a mask says, which is scaled to `from` (bilinear); NULL:
 * all of it. resize: `from` is scaled to the size of `to` first (bilinear). Both repeat over the
 * batch of `to`, and what would be beyond its edges is left out. The result has the channels of
 * `to`: a picture without transparency counts as opaque, and transparency that `to` has no channel
 * for is left out. */
graft_status graft_image_composite(const graft_image *to, const graft_image *from, int64_t x,
                                   int64_t y, bool resize, const graft_image *mask,
                                   graft_image **out, graft_err *e);
/* Two pictures, each with a mask that is white where it is clear, as graft_image_split_alpha() has
 * it; borrowed. */
typedef struct graft_layer_pair {
    const graft_image *source, *source_mask, *destination, *destination_mask;
} graft_layer_pair;
/* The source over the destination by one of the modes of android.graphics.PorterDuff.Mode, 12 of
 * which are those of T. Porter and T. Duff, "Compositing Digital Images" (1984): with alpha = 1 -
 * mask and colours C that are multiplied by their alpha,
 *
 *     ADD       alpha_s + alpha_d, C_s + C_d, both clipped to 0..1
 *     CLEAR     0, 0
 *     SRC       alpha_s, C_s
 *     SRC_ATOP  alpha_d, alpha_d C_s + (1 - alpha_s) C_d
 *     SRC_IN    alpha_s alpha_d, alpha_d C_s
 *     SRC_OUT   (1 - alpha_d) alpha_s, (1 - alpha_d) C_s
 *     SRC_OVER  u, C_s + (1 - alpha_s) C_d
 *     DST...    likewise, the two exchanged
 *     XOR       SRC_OUT + DST_OUT
 *     DARKEN    u, the colour of XOR + min(C_s, C_d)
 *     LIGHTEN   u, the colour of XOR + max(C_s, C_d)
 *     MULTIPLY  alpha_s alpha_d, C_s C_d
 *     SCREEN    u, C_s + C_d - C_s C_d
 *     OVERLAY   u, 2 C_s C_d where 2 C_d < alpha_d,
 *               else alpha_s alpha_d - 2 (alpha_d - C_s) (alpha_s - C_d)
 *
 * where u = alpha_s + alpha_d - alpha_s alpha_d. *out has the colours divided by alpha again and
 * clipped to 0..1, black where alpha is below 1e-5; *mask is 1 - alpha. The source's mask, the
 * destination and its mask are scaled to the source's size (bicubic, cut to its aspect). As many
 * results as there are of what there are fewest. GRAFT_E_ARG for pictures of unlike channels and
 * for masks that are pictures. */
graft_status graft_image_porter_duff(const graft_layer_pair *p, const char *mode, graft_image **out,
                                     graft_image **mask, graft_err *e);
/* b on one side of a, "right", "down", "left" or "up" of it. */
typedef struct graft_stitching {
    const char *direction;
    bool match;      /* b gets a's height, or above and below its width (lanczos) */
    int64_t spacing; /* pixels between them; one more where that is odd */
    const char
        *colour; /* there, and around what is smaller: "white" "black" "red" "green" "blue" */
} graft_stitching;
/* Of batches the last picture of the shorter one goes on; a missing alpha is 1. GRAFT_E_ARG for
 * other words, for pictures of unlike channels, and for a spacing below 0. */
graft_status graft_image_stitch(const graft_image *a, const graft_image *b,
                                const graft_stitching *how, graft_image **out, graft_err *e);
/* Brightness and the two differences of colour of the first three channels, each as a picture whose
 * channels, as many as `i` has, are alike: Y = 0.299 R + 0.587 G + 0.114 B, U = 0.564 (B - Y) +
 * 0.5, V = 0.713 (R - Y) + 0.5 (ITU-R BT.601, rounded as kornia.color.rgb_to_ycbcr() has it). */
graft_status graft_image_to_yuv(const graft_image *i, graft_image *out[3], graft_err *e);
/* The reverse, of the means of their channels: R = Y + 1.403 v, G = Y - 0.714 v - 0.344 u, B = Y +
 * 1.773 u, with u = U - 0.5 and v = V - 0.5; not clipped. GRAFT_E_ARG for pictures of unlike sizes.
 */
graft_status graft_image_from_yuv(const graft_image *const yuv[3], graft_image **out, graft_err *e);
/* Scaled to lie within these sides, in the same aspect, and in the middle of a margin, `white` or
 * black, that makes them full; a margin of an odd size is larger at the right and below. */
graft_status graft_image_fit(const graft_image *i, const char *method, int64_t width,
                             int64_t height, bool white, graft_image **out, graft_err *e);
/* Tiles of `width` x `height` from left to right and row by row, each `overlap` pixels over the one
 * before, but at least a quarter of a tile further; the last of a row, and the last row, end with
 * the picture. */
typedef struct graft_image_tiling {
    int64_t width, height, overlap;
} graft_image_tiling;
/* *out: *count pictures in graft_malloc'ed memory, each of them the caller's; both are empty after
 * a failure. */
graft_status graft_image_split_tiles(const graft_image *i, const graft_image_tiling *t,
                                     graft_image ***out, size_t *count, graft_err *e);
/* A picture of these sides of such tiles, all of the first one's size: where they overlap they
 * fade into each other. GRAFT_E_ARG unless they are as many as such a picture has, and alike. */
graft_status graft_image_merge_tiles(const graft_image *const *tiles, size_t count, int64_t overlap,
                                     int64_t width, int64_t height, graft_image **out,
                                     graft_err *e);
/* Room around a picture, grey; sides: left, top, right, bottom, in pixels. The mask is white there,
 * and fades into the picture over `feathering` pixels f: ((f - d) / f)^2 at distance d from the
 * room, where the outermost pixel is 0 away at the left and above, 1 at the right and below. Where
 * 2 f reaches a side of the picture nothing fades. All of this is ComfyUI's. */
graft_status graft_image_pad(const graft_image *i, const int64_t sides[4], int64_t feathering,
                             graft_image **out, graft_image **mask, graft_err *e);

/* ------------------------------------------------------------------ filters */
/* These take pictures (N,H,W,C) and masks, work on each channel for itself, and give the same
 * shape. The task, which may be NULL, is asked for cancellation at every row or so. */

#define GRAFT_IMAGE_MAX_BLUR 31 /* pixels */
/* The mean of the square of 2 radius + 1 pixels a side around each pixel, with the weights
 * exp(-(x^2 + y^2) / (2 sigma^2)), where x and y go from -1 to 1 across the square. So sigma is in
 * units of the radius: a large one makes the square flat. Beyond its edges a picture is mirrored
 * about the outermost pixel; GRAFT_E_ARG where a side is not larger than the radius, which is 1 to
 * GRAFT_IMAGE_MAX_BLUR. */
graft_status graft_image_blur(const graft_image *i, int64_t radius, double sigma,
                              const graft_task *task, graft_image **out, graft_err *e);
/* picture + 10 alpha (picture - the same blurred), clipped to 0..1; as in graft_image_blur(). */
graft_status graft_image_sharpen(const graft_image *i, int64_t radius, double sigma, double alpha,
                                 const graft_task *task, graft_image **out, graft_err *e);
/* Each picture with at most so many colours of its own, 1 to GRAFT_IMAGE_COLORS, by median cut of
 * its 8-bit values (Heckbert 1982); alpha stays. dither: "none": each pixel has the nearest of
 * them; "floyd-steinberg": its error goes to those behind it; "bayer-2", …, "bayer-16": 512 /
 * colors times a matrix of so many rows is added before. GRAFT_E_ARG for others. */
#define GRAFT_IMAGE_COLORS 256
graft_status graft_image_quantize(const graft_image *i, int64_t colors, const char *dither,
                                  const graft_task *task, graft_image **out, graft_err *e);
/* The picture's edges, white on black (N,H,W,3), by J. Canny, "A Computational Approach to Edge
 * Detection" (1986), as kornia.filters.canny() has it. Grey (0.299 R + 0.587 G + 0.114 B) is
 * blurred (sigma 1 pixel, 5 x 5, mirrored at the edges); Sobel's operator, whose weights have the
 * sum 4 on either side, gives a gradient of size sqrt(gx^2 + gy^2 + 1e-6). Kept is what is larger
 * than both its neighbours in the gradient's direction, rounded to 45 degrees. Of that what is
 * above `high` is an edge, and what is above `low` where it joins one, also by corners. GRAFT_E_ARG
 * unless 0 < low <= high and sides are at least 3. */
graft_status graft_image_canny(const graft_image *i, double low, double high,
                               const graft_task *task, graft_image **out, graft_err *e);
/* Morphology by a square of `size` pixels a side, 1 to 16384: "erode" gives the least value in the
 * square around each pixel, "dilate" the largest; "open" dilates what was eroded, "close" the other
 * way round; "gradient" is dilation - erosion, "top_hat" picture - opening, "bottom_hat" closing -
 * picture. What is beyond the edges does not count. A square of an even size reaches one pixel
 * further up and left where it erodes, and is mirrored where it dilates, as Minkowski's sums are:
 * so opening nowhere brightens, and closing nowhere darkens. */
graft_status graft_image_morphology(const graft_image *i, const char *operation, int64_t size,
                                    const graft_task *task, graft_image **out, graft_err *e);

/* ------------------------------------------------------------------ masks */

graft_status graft_mask_solid(int64_t width, int64_t height, double value, graft_image **out,
                              graft_err *e);
/* 1 where the mask is above `value`, else 0. */
graft_status graft_mask_threshold(const graft_image *mask, double value, graft_image **out,
                                  graft_err *e);
/* Each value becomes the largest within so many pixels, the smallest where `pixels` is negative: a
 * square around it, or with `tapered` a diamond (steps along rows and columns). What is beyond the
 * edges does not count. Asks the task, which may be NULL, for cancellation. */
graft_status graft_mask_expand(const graft_image *mask, int64_t pixels, bool tapered,
                               const graft_task *task, graft_image **out, graft_err *e);
/* The mask fades out towards its edges: the i-th of n columns from the left, from 1, counts i / n,
 * and so on. sides: left, top, right, bottom; more than there are: all. */
graft_status graft_mask_feather(const graft_image *mask, const int64_t sides[4], graft_image **out,
                                graft_err *e);
/* The source, its left upper corner at x, y, meets the destination: "multiply", "add", "subtract",
 * or "and", "or", "xor" of both rounded to 0 and 1; clipped to 0..1. Sources repeat over a batch.
 * Where there is no source, the destination stays. */
graft_status graft_mask_combine(const graft_image *destination, const graft_image *source,
                                int64_t x, int64_t y, const char *operation, graft_image **out,
                                graft_err *e);
/* 1 where a picture, rounded to 8 bits a channel, has this colour, 0xRRGGBB; else 0. */
graft_status graft_image_color_to_mask(const graft_image *i, uint32_t rgb, graft_image **out,
                                       graft_err *e);
#endif
