#include "engine/image/exif.h"

#include <stdbool.h>
#include <string.h>

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT      3
#define ENTRY_BYTES     12

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

static int jpeg_orientation(const uint8_t *p, size_t size)
{
    static const uint8_t name[6] = "Exif\0";
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
        if (marker == 0xe1 && length >= 2 + sizeof name && !memcmp(p + at + 2, name, sizeof name))
            return tiff_orientation(p + at + 2 + sizeof name, length - 2 - sizeof name);
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

int graft_exif_orientation(const uint8_t *file, size_t size)
{
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
