#include "engine/image/exif.h"

#include <stdbool.h>
#include <string.h>

#include "base/webp.h"

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT      3
#define ENTRY_BYTES     12
#define WEBP_EXIF       8

typedef struct tiff {
    const uint8_t *p;
    size_t size;
    bool big; /* byte order */
} tiff;

/* The caller has checked that the bytes are there. */
static uint32_t get16(const tiff *t, size_t at)
{
    const uint8_t *p = t->p + at;
    return t->big ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t get32(const tiff *t, size_t at)
{
    uint32_t a = get16(t, at), b = get16(t, at + 2);
    return t->big ? a << 16 | b : b << 16 | a;
}

static int tiff_orientation(const uint8_t *p, size_t size)
{
    tiff t = {p, size, size >= 2 && p[0] == 'M'};
    if (size < 10 || memcmp(p, t.big ? "MM" : "II", 2) != 0 || get16(&t, 2) != 42) return 1;
    size_t ifd = get32(&t, 4);
    if (ifd > size - 2) return 1;
    size_t n = get16(&t, ifd), room = (size - ifd - 2) / ENTRY_BYTES;
    for (size_t i = 0; i < n && i < room; i++) {
        size_t entry = ifd + 2 + i * ENTRY_BYTES;
        if (get16(&t, entry) != TAG_ORIENTATION) continue;
        uint32_t v = get16(&t, entry + 8);
        bool fits = get16(&t, entry + 2) == TYPE_SHORT && get32(&t, entry + 4) == 1;
        return fits && v >= 1 && v <= 8 ? (int)v : 1;
    }
    return 1;
}

static const uint8_t jpeg_name[6] = "Exif\0"; /* what a JPEG's segment begins with */

static int jpeg_orientation(const uint8_t *p, size_t size)
{
    size_t at = 2;
    while (size - at >= 4 && p[at] == 0xff) {
        uint8_t marker = p[at + 1];
        if (marker == 0xff) { /* fill byte */
            at++;
            continue;
        }
        if (marker == 0xda || marker == 0xd9) return 1; /* scan, end */
        size_t length = (size_t)p[at + 2] << 8 | p[at + 3];
        at += 2;
        if (length < 2 || length > size - at) return 1;
        if (marker == 0xe1 && length >= 2 + sizeof jpeg_name &&
            !memcmp(p + at + 2, jpeg_name, sizeof jpeg_name))
            return tiff_orientation(p + at + 2 + sizeof jpeg_name, length - 2 - sizeof jpeg_name);
        at += length;
    }
    return 1;
}

static int png_orientation(const uint8_t *p, size_t size)
{
    const tiff t = {p, size, true};
    size_t at = 8;
    while (size - at >= 12) {
        size_t length = get32(&t, at);
        if (length > size - at - 12) return 1;
        if (memcmp(p + at + 4, "eXIf", 4) == 0) return tiff_orientation(p + at + 8, length);
        if (memcmp(p + at + 4, "IEND", 4) == 0) return 1;
        at += length + 12;
    }
    return 1;
}

/* Some writers of WebP take a JPEG's segment whole. */
static int chunk_orientation(const uint8_t *p, size_t size)
{
    bool named = size >= sizeof jpeg_name && memcmp(p, jpeg_name, sizeof jpeg_name) == 0;
    size_t skip = named ? sizeof jpeg_name : 0;
    return tiff_orientation(p + skip, size - skip);
}

/* A flag of the first chunk says whether there is one. */
static int webp_orientation(const uint8_t *p, size_t size)
{
    const tiff t = {p, size, false};
    size_t at = 12;
    if (size < 30 || memcmp(p + at, "VP8X", 4) != 0 || !(p[20] & WEBP_EXIF)) return 1;
    while (size - at >= 8) {
        size_t length = get32(&t, at + 4);
        bool found = memcmp(p + at, "EXIF", 4) == 0;
        at += 8;
        if (length > size - at) return 1;
        if (found) return chunk_orientation(p + at, length);
        if (length % 2 && length < size - at) length++;
        at += length;
    }
    return 1;
}

int graft_exif_orientation(const uint8_t *file, size_t size)
{
    if (graft_webp_is(file, size)) return webp_orientation(file, size);
    if (size >= 4 && file[0] == 0xff && file[1] == 0xd8) return jpeg_orientation(file, size);
    if (size >= 8 && memcmp(file, "\x89PNG\r\n\x1a\n", 8) == 0) return png_orientation(file, size);
    return 1;
}

void graft_exif_source(int orientation, int64_t w, int64_t h, int64_t x, int64_t y, int64_t *sx,
                       int64_t *sy)
{
    const bool swap = graft_exif_swaps_sides(orientation);
    const bool mirror_x =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool mirror_y =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    *sx = swap ? y : x;
    *sy = swap ? x : y;
    if (mirror_x) *sx = w - 1 - *sx;
    if (mirror_y) *sy = h - 1 - *sy;
}
