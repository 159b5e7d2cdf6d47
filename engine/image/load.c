#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/image/decode.h"
#include "engine/image/exif.h"
#include "engine/image/image.h"

#define MAX_FILE   ((size_t)1 << 30)
#define EMPTY_MASK 64 /* side of the mask that stands for "no mask" */

typedef struct picture {
    graft_decoded decoded;
    int orientation;
    int64_t width, height; /* upright */
} picture;

static graft_status picture_read(const char *path, picture *p, graft_err *e)
{
    char *file;
    size_t size;
    *p = (picture){0};
    graft_status st = graft_file_read(path, MAX_FILE, &file, &size, e);
    if (st) return st;
    st = graft_decode((const uint8_t *)file, size, path, &p->decoded, e);
    if (!st) {
        p->orientation = graft_exif_orientation((const uint8_t *)file, size);
        bool swap = graft_exif_swaps_sides(p->orientation);
        p->width = swap ? p->decoded.height : p->decoded.width;
        p->height = swap ? p->decoded.width : p->decoded.height;
    }
    graft_free(file);
    return st;
}

const char *graft_image_unread(const char *path)
{
    graft_mapping file;
    if (graft_file_map(path, &file, NULL)) return NULL;
    const char *kind = graft_decode_unread(file.data, file.size);
    graft_file_unmap(&file);
    return kind;
}

static float sample(const graft_decoded *d, int64_t at)
{
    return d->bits == 16 ? (float)((const uint16_t *)d->pixels)[at] / 65535.0f
                         : (float)((const uint8_t *)d->pixels)[at] / 255.0f;
}

static bool has_alpha(const graft_decoded *d)
{
    return d->channels == 2 || d->channels == 4;
}

/* Fills (frames, height, width, n) upright: place k of a pixel is channel from[k]; `invert` gives
 * one minus the value. */
static void fill(const picture *p, int64_t frames, const int *from, int n, bool invert, float *dst)
{
    const graft_decoded *d = &p->decoded;
    for (int64_t f = 0; f < frames; f++)
        for (int64_t y = 0; y < p->height; y++)
            for (int64_t x = 0; x < p->width; x++) {
                int64_t sx, sy;
                graft_exif_source(p->orientation, d->width, d->height, x, y, &sx, &sy);
                int64_t at = ((f * d->height + sy) * d->width + sx) * d->channels;
                for (int k = 0; k < n; k++, dst++) {
                    float v = sample(d, at + from[k]);
                    *dst = invert ? 1.0f - v : v;
                }
            }
}

static graft_status zeros(int64_t n, int64_t h, int64_t w, graft_image **out, graft_err *e)
{
    const int64_t shape[4] = {n, h, w, 1};
    graft_status st = graft_image_create(shape, true, out, e);
    if (!st) memset(graft_image_writable(*out), 0, (size_t)(n * h * w) * sizeof(float));
    return st;
}

/* One channel of the first `frames` frames as a mask. */
static graft_status channel_mask(const picture *p, int64_t frames, int channel, bool invert,
                                 graft_image **out, graft_err *e)
{
    const int64_t shape[4] = {frames, p->height, p->width, 1};
    graft_status st = graft_image_create(shape, true, out, e);
    if (!st) fill(p, frames, &channel, 1, invert, graft_image_writable(*out));
    return st;
}

graft_status graft_image_load(const char *path, graft_image **out, graft_image **mask, graft_err *e)
{
    picture p;
    *out = NULL;
    if (mask) *mask = NULL;
    graft_status st = picture_read(path, &p, e);
    if (st) return st;
    const graft_decoded *d = &p.decoded;
    const int grey[3] = {0, 0, 0}, rgb[3] = {0, 1, 2};
    const int64_t shape[4] = {d->frames, p.height, p.width, 3};
    GRAFT_TRY(graft_image_create(shape, false, out, e));
    fill(&p, d->frames, d->channels < 3 ? grey : rgb, 3, false, graft_image_writable(*out));
    if (mask)
        GRAFT_TRY(has_alpha(d) ? channel_mask(&p, d->frames, d->channels - 1, true, mask, e)
                               : zeros(d->frames, EMPTY_MASK, EMPTY_MASK, mask, e));
out:
    if (st) {
        graft_image_release(*out);
        *out = NULL;
    }
    graft_decoded_finish(&p.decoded);
    return st;
}

graft_status graft_image_load_mask(const char *path, const char *channel, graft_image **out,
                                   graft_err *e)
{
    int c;
    picture p;
    *out = NULL;
    graft_status st = graft_image_channel_parse(channel, &c, e);
    if (!st) st = picture_read(path, &p, e);
    if (st) return st;
    const graft_decoded *d = &p.decoded;
    if (c < 3)
        st = channel_mask(&p, 1, d->channels < 3 ? 0 : c, false, out, e);
    else if (has_alpha(d))
        st = channel_mask(&p, 1, d->channels - 1, true, out, e);
    else
        st = zeros(1, p.height, p.width, out, e);
    graft_decoded_finish(&p.decoded);
    return st;
}
