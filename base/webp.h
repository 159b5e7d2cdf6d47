/* WebP through libwebp: 8-bit pictures, still or animated. Any thread. */
#ifndef GRAFT_BASE_WEBP_H
#define GRAFT_BASE_WEBP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct graft_webp {
    int width, height; /* at most 2^24 each, which a caller has to limit */
    int channels;      /* 3 RGB, 4 RGBA */
    int64_t frames;    /* 1 unless animated */
} graft_webp;

/* By the first bytes. */
bool graft_webp_is(const uint8_t *data, size_t size);
/* What the file says of itself: nothing is decoded or allocated by its sizes yet. `what` names the
 * file in messages. GRAFT_E_FORMAT when it is damaged, GRAFT_E_LIMIT for more than 2^14 frames. */
graft_status graft_webp_read(const uint8_t *data, size_t size, const char *what, graft_webp *out,
                             graft_err *e);
/* Fills `pixels`, (frames, height, width, channels) bytes. `w` is what graft_webp_read() gave, but
 * may ask for the first frames only and for other channels. A frame is the whole picture that is
 * seen at that time; where no frame drew it is transparent black. libwebp's own allocations come
 * beside: up to four bytes a pixel, and eight more when animated. */
graft_status graft_webp_decode(const uint8_t *data, size_t size, const char *what,
                               const graft_webp *w, uint8_t *pixels, graft_err *e);

typedef struct graft_webp_how {
    int milliseconds; /* that each picture is seen, 1 to 2^24 - 1 */
    bool lossless;
    int quality; /* 0 to 100; of a lossless one, how hard to try */
    int method;  /* 0, fast, to 6, small */
    /* Asked before each picture whether nobody wants the file any more. NULL: somebody does. */
    bool (*stopped)(void *ctx);
    void *ctx;
} graft_webp_how;
typedef struct graft_webp_text {
    const char *key, *value; /* ASCII */
} graft_webp_text;
/* The other way: w->frames pictures, as graft_webp_decode() gives them, which follow each other
 * without end; those that are alike become one that is seen longer, and one alone is no animation.
 * Texts stand in EXIF as "key:value", where ComfyUI has them: the first as the camera's model,
 * 0x0110, the others in the tags below. *out is freed with graft_free(). GRAFT_E_CANCEL when it was
 * stopped. */
graft_status graft_webp_encode(const graft_webp *w, const graft_webp_how *how,
                               const uint8_t *pixels, const graft_webp_text *text, size_t n_text,
                               uint8_t **out, size_t *size, graft_err *e);
/* The value of the first such text with this key, in letters of either size, from either order of
 * bytes (graft_free); GRAFT_E_NOTFOUND without one, GRAFT_E_FORMAT when this is no WebP or cut off
 * before the text was found. */
graft_status graft_webp_read_text(const uint8_t *data, size_t size, const char *key, char **out,
                                  graft_err *e);
#endif
