/* Chunks of PNG files put together anew; what they hold stays as it is. */
#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/png.h"

enum { SIGNATURE = 8, BESIDE = 12, HEADER_END = SIGNATURE + BESIDE + 13 };

typedef struct animation {
    uint8_t *data;
    size_t size, cap;
    uint32_t next; /* number of an fcTL or fdAT */
    bool failed;
} animation;

static uint32_t number_at(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_number(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void put(animation *a, const void *data, size_t n)
{
    if (a->failed || n > (size_t)-1 - a->size || graft_grow(&a->data, &a->cap, a->size + n, 1)) {
        a->failed = true;
        return;
    }
    memcpy(a->data + a->size, data, n);
    a->size += n;
}

/* A chunk of `first`, then `rest`. */
static void put_chunk(animation *a, const char *type, const uint8_t *first, size_t n_first,
                      const uint8_t *rest, size_t n_rest)
{
    uint8_t word[4];
    uLong sum = crc32(0, (const Bytef *)type, 4);
    if (n_first) sum = crc32_z(sum, first, n_first);
    if (n_rest) sum = crc32_z(sum, rest, n_rest);
    put_number(word, (uint32_t)(n_first + n_rest));
    put(a, word, 4);
    put(a, type, 4);
    if (n_first) put(a, first, n_first);
    if (n_rest) put(a, rest, n_rest);
    put_number(word, (uint32_t)sum);
    put(a, word, 4);
}

/* How long the picture is seen; all of it takes the place of the one before. */
static void put_control(animation *a, const uint8_t *header, uint32_t milliseconds)
{
    const bool long_ones = milliseconds > UINT16_MAX;
    const uint32_t delay = long_ones ? milliseconds / 100 : milliseconds;
    uint8_t data[26] = {0};
    put_number(data, a->next++);
    memcpy(data + 4, header, 8); /* width, height */
    data[20] = (uint8_t)(delay >> 8);
    data[21] = (uint8_t)delay;
    data[22] = long_ones ? 0 : 1000 >> 8;
    data[23] = long_ones ? 10 : 1000 & 0xff;
    put_chunk(a, "fcTL", data, sizeof data, NULL, 0);
}

/* The chunks of a picture behind its header. Texts are the first picture's. */
static bool put_picture(animation *a, const graft_png_bytes *png, bool first, uint32_t pictures,
                        uint32_t milliseconds)
{
    const uint8_t *header = png->data + SIGNATURE + 8;
    uint8_t word[8] = {0};
    bool begun = false;
    for (size_t at = HEADER_END, n; png->size - at >= BESIDE; at += BESIDE + n) {
        const uint8_t *chunk = png->data + at;
        n = number_at(chunk);
        if (n > png->size - at - BESIDE) return false;
        if (memcmp(chunk + 4, "IEND", 4) == 0) return begun;
        if (memcmp(chunk + 4, "IDAT", 4) != 0) {
            if (first) put(a, chunk, BESIDE + n);
            continue;
        }
        if (!begun && first) {
            put_number(word, pictures);
            put_chunk(a, "acTL", word, 8, NULL, 0); /* without end */
        }
        if (!begun) put_control(a, header, milliseconds);
        begun = true;
        put_number(word, a->next);
        if (first) {
            put(a, chunk, BESIDE + n);
        } else {
            a->next++;
            put_chunk(a, "fdAT", word, 4, chunk + 8, n);
        }
    }
    return false;
}

graft_status graft_png_animate(const graft_png_bytes *pictures, size_t n, uint32_t milliseconds,
                               uint8_t **out, size_t *size, graft_err *e)
{
    animation a = {0};
    bool sound = n > 0 && n <= INT32_MAX && milliseconds <= 6553500;
    for (size_t i = 0; i < n && sound; i++)
        sound = pictures[i].size >= HEADER_END &&
                memcmp(pictures[i].data, pictures[0].data, HEADER_END) == 0;
    if (sound) put(&a, pictures[0].data, HEADER_END);
    for (size_t i = 0; i < n && sound; i++)
        sound = put_picture(&a, &pictures[i], i == 0, (uint32_t)n, milliseconds);
    put_chunk(&a, "IEND", NULL, 0, NULL, 0);
    if (sound && !a.failed) {
        *out = a.data;
        *size = a.size;
        return GRAFT_OK;
    }
    graft_free(a.data);
    if (a.failed) return graft_fail_nomem(e, "an animated PNG");
    return graft_fail(e, GRAFT_E_ARG, "an animated PNG is of pictures of one size and kind");
}
