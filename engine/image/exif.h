/* The one thing wanted from EXIF: which side is up. */
#ifndef GRAFT_IMAGE_EXIF_H
#define GRAFT_IMAGE_EXIF_H
#include <stddef.h>
#include <stdint.h>

/* The orientation (tag 0x0112 of IFD0, 1-8; CIPA DC-008) in a JPEG's first Exif APP1 segment, a
 * PNG's eXIf chunk or a WebP's EXIF chunk; 1, "upright", when there is none or anything about it is
 * damaged. Any thread. */
int graft_exif_orientation(const uint8_t *file, size_t size);

/* Orientations 5-8 exchange width and height. */
static inline int graft_exif_swaps_sides(int orientation)
{
    return orientation >= 5;
}
/* The pixel of the stored w x h picture that belongs at (x, y) of the upright one. */
void graft_exif_source(int orientation, int64_t w, int64_t h, int64_t x, int64_t y, int64_t *sx,
                       int64_t *sy);
#endif
