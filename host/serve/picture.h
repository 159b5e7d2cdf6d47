/* Small pictures for previews, and other forms of stored ones. Any thread. */
#ifndef GRAFT_HOST_SERVE_PICTURE_H
#define GRAFT_HOST_SERVE_PICTURE_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "plugin/graft_plugin.h"

#define GRAFT_PICTURE_MAX_PIXELS ((int64_t)1 << 28)

/* JPEG of an (H,W,3) uint8 tensor, its longest edge at most 512; *out: graft_free. */
graft_status graft_picture_preview(const graft_tensor *rgb, uint8_t **out, size_t *size,
                                   graft_err *e);

typedef struct graft_picture {
    uint8_t *rgba; /* 4 bytes a pixel, top first */
    int width, height;
} graft_picture;
/* PNG, JPEG, WebP, BMP, GIF and what else stb_image reads; the first frame of an animation;
 * orientation tags are not followed. */
graft_status graft_picture_read(const uint8_t *data, size_t size, graft_picture *out, graft_err *e);
void graft_picture_finish(graft_picture *p);
/* Transparency is dropped. quality: 1-100. */
graft_status graft_picture_jpeg(const graft_picture *p, int quality, uint8_t **out, size_t *size,
                                graft_err *e);
/* channels: 3 drops the alpha, 4 keeps it. */
graft_status graft_picture_png(const graft_picture *p, int channels, uint8_t **out, size_t *size,
                               graft_err *e);
#endif
