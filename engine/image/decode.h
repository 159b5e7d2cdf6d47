/* Picture files to rows of pixels, through stb_image and libwebp. */
#ifndef GRAFT_IMAGE_DECODE_H
#define GRAFT_IMAGE_DECODE_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct graft_decoded {
    int width, height;
    int channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA */
    int bits;     /* 8 or 16 */
    int64_t frames;
    void *pixels; /* (frames, height, width, channels) uint8_t, or uint16_t of this machine */
} graft_decoded;

/* PNG, JPEG, WebP, BMP, GIF, TGA, PSD, PNM; of WebP and GIF every frame, drawn over those before.
 * `what` names the bytes in messages. GRAFT_E_LIMIT beyond GRAFT_IMAGE_MAX_SIDE or
 * GRAFT_IMAGE_MAX_PIXELS, GRAFT_E_FORMAT for damaged files and what is no picture. Any thread. */
graft_status graft_decode(const uint8_t *bytes, size_t size, const char *what, graft_decoded *out,
                          graft_err *e);
/* The kind of a picture that is not read ("AVIF", …), by its first bytes; NULL for all else. */
const char *graft_decode_unread(const uint8_t *bytes, size_t size);
void graft_decoded_finish(graft_decoded *d);
#endif
