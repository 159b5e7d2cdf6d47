/* PNG through libpng: 8-bit pictures with text chunks. Any thread. */
#ifndef GRAFT_BASE_PNG_H
#define GRAFT_BASE_PNG_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct graft_png_text {
    const char *key, *value; /* key: 1-79 Latin-1 characters; value: text without zero bytes */
} graft_png_text;

/* Encodes `height` rows of `width` pixels with `channels` (1 grey, 3 RGB, 4 RGBA) bytes each, rows
 * without gaps, top first. Text chunks stand before the picture (tEXt, or iTXt when the value is
 * not ASCII). `level` is zlib's, 0-9. *out is freed with graft_free(). */
graft_status graft_png_encode(const uint8_t *pixels, uint32_t width, uint32_t height, int channels,
                              int level, const graft_png_text *text, size_t n_text, uint8_t **out,
                              size_t *size, graft_err *e);
/* The same of two bytes each, in the host's order. */
graft_status graft_png_encode16(const uint16_t *pixels, uint32_t width, uint32_t height,
                                int channels, int level, const graft_png_text *text, size_t n_text,
                                uint8_t **out, size_t *size, graft_err *e);
typedef struct graft_png_bytes {
    const uint8_t *data;
    size_t size;
} graft_png_bytes;
/* An animated PNG (https://wiki.mozilla.org/APNG_Specification) of files that graft_png_encode()
 * made, each seen for so many milliseconds, at most 6553500, again and again. Texts are the first
 * one's. GRAFT_E_ARG for none, and unless all have the same size and channels. */
graft_status graft_png_animate(const graft_png_bytes *pictures, size_t n, uint32_t milliseconds,
                               uint8_t **out, size_t *size, graft_err *e);
/* The pixels of any PNG as RGB, alpha over black (graft_free), of at most 2^28 pixels. */
graft_status graft_png_decode_rgb(const uint8_t *data, size_t size, uint8_t **pixels,
                                  uint32_t *width, uint32_t *height, graft_err *e);
/* The value of the first text chunk (tEXt, zTXt, iTXt) with this key, as UTF-8 (graft_free);
 * GRAFT_E_NOTFOUND without one, GRAFT_E_FORMAT when this is no PNG or damaged before the key was
 * found. Text behind the picture is found, too. At most 64 MiB of text is accepted,
 * and no more than four times as much is unpacked, whatever the file holds. */
graft_status graft_png_read_text(const uint8_t *data, size_t size, const char *key, char **out,
                                 graft_err *e);
#endif
