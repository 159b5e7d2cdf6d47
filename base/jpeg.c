#include "base/jpeg.h"

enum { MARK = 0xff, SOI = 0xd8, DHT = 0xc4, SOS = 0xda, CODES = 256 };

/* The tables of one segment, whose length stands at data[at]. What is missing counts as zeros. */
static bool tables_are_safe(const uint8_t *data, size_t size, size_t at)
{
    if (size - at < 2) return true;
    size_t left = (size_t)(data[at] << 8 | data[at + 1]);
    for (at += 2, left -= left < 2 ? left : 2; left > 0;) {
        size_t codes = 0;
        for (size_t i = 1; i <= 16 && at + i < size; i++) codes += data[at + i];
        if (codes > CODES) return false;
        if (left < 17 + codes || at >= size) return true;
        left -= 17 + codes;
        at += 17 + codes;
    }
    return true;
}

/* The first byte that is no whole segment before the picture's data. */
static size_t head_end(const uint8_t *data, size_t size)
{
    size_t at = 2;
    while (size - at >= 4 && data[at] == MARK && data[at + 1] >= 0xc0 && data[at + 1] != MARK &&
           data[at + 1] != SOS) {
        size_t n = (size_t)(data[at + 2] << 8 | data[at + 3]);
        if (n < 2 || n > size - at - 2) break;
        at += 2 + n;
    }
    return at;
}

bool graft_jpeg_is_safe(const uint8_t *data, size_t size)
{
    if (size < 4 || data[0] != MARK) return true;
    size_t from = data[1] == SOI ? head_end(data, size) : 1;
    for (size_t at = 2; at < from; at += 2 + (size_t)(data[at + 2] << 8 | data[at + 3]))
        if (data[at + 1] == DHT && !tables_are_safe(data, size, at + 2)) return false;
    for (size_t at = from; at + 2 < size; at++)
        if (data[at] == MARK && data[at + 1] == DHT && !tables_are_safe(data, size, at + 2))
            return false;
    return true;
}
