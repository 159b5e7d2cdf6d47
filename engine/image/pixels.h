/* Pictures as encoders of pictures are given them: brought to the size that the encoder was trained
 * with, in steps of 8 bits, and normalized. */
#ifndef GRAFT_IMAGE_PIXELS_H
#define GRAFT_IMAGE_PIXELS_H
#include "engine/image/image.h"

/* What CLIP's encoders, and others after them, were trained with. */
#define GRAFT_PIXELS_CLIP_MEAN                                                                     \
    {                                                                                              \
        0.48145466f, 0.4578275f, 0.40821073f                                                       \
    }
#define GRAFT_PIXELS_CLIP_DEVIATION                                                                \
    {                                                                                              \
        0.26862954f, 0.26130258f, 0.27577711f                                                      \
    }

typedef struct graft_pixels {
    int64_t height, width;
    float mean[3], deviation[3];
    /* Of a square: the shorter side is brought to it, the longer one in proportion, rounded down,
     * and the middle is taken; else both sides are brought to height and width. */
    bool center;
} graft_pixels;

/* Picture `index` of a batch, bicubic with antialias (resize.h), as out (height,width,3). Grey
 * counts as three equal channels, transparency does not count. Fails only for lack of memory. Any
 * thread.
 */
graft_status graft_pixels_of(const graft_pixels *s, const graft_image *i, int64_t index, float *out,
                             graft_err *e);
#endif
