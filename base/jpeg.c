#include "base/jpeg.h"

enum { MARK = 0xff, SOI = 0xd8, EOI = 0xd9, DHT = 0xc4, RST0 = 0xd0, RST7 = 0xd7, CODES = 256 };

/* The tables of one segment, whose length stands at data[at]. What is missing counts as zeros. */
static bool tables_are_safe(const uint8_t *data, size_t size, size_t at, size_t length)
{
    size_t left = length < 2 ? 0 : length - 2;
    for (at += 2; left > 0;) {
        size_t codes = 0;
        for (size_t i = 1; i <= 16 && at + i < size; i++) codes += data[at + i];
        if (codes > CODES) return false;
        if (left < 17 + codes || at >= size) return true;
        left -= 17 + codes;
        at += 17 + codes;
    }
    return true;
}

/* Goes from marker to marker as stb_image does. It gives up at what may stand in none of its
 * places; here the next marker is looked for, which finds what it would find and more. */
bool graft_jpeg_is_safe(const uint8_t *data, size_t size)
{
    size_t at = 0;
    if (size < 2 || data[0] != MARK) return true;
    for (;;) {
        while (at < size && data[at] != MARK) at++;
        while (at < size && data[at] == MARK) at++; /* fill bytes */
        if (at >= size || data[at] == EOI) return true;
        uint8_t marker = data[at++];
        if (!marker || marker == SOI || (marker >= RST0 && marker <= RST7)) continue;
        if (size - at < 2) return true;
        size_t length = (size_t)(data[at] << 8 | data[at + 1]);
        if (marker == DHT && !tables_are_safe(data, size, at, length)) return false;
        if (length > size - at) return true;
        at += length;
    }
}
