/* Pictures as encoders of pictures are given them: brought to the size that the encoder was trained
 * with, in steps of 8 bits, and normalized. */
#ifndef GRAFT_IMAGE_PIXELS_H
#define GRAFT_IMAGE_PIXELS_H
#include "engine/image/image.h"

typedef struct graft_pixels {
    int64_t size; /* height and width */
    float mean[3], deviation[3];
    /* The shorter side is brought to `size`, the longer one in proportion, rounded down, and the
     * middle is taken; else both sides are brought to it. */
    bool center;
} graft_pixels;

/* Picture `index` of a batch, bicubic with antialias (resize.h), as out (size,size,3). Grey counts
 * as three equal channels, transparency does not count. Fails only for lack of memory. Any thread.
 */
graft_status graft_pixels_of(const graft_pixels *s, const graft_image *i, int64_t index, float *out,
                             graft_err *e);
#endif
