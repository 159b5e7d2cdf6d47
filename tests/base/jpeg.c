#include "base/jpeg.h"

#include <string.h>

#include "tests/test.h"

/* SOI, a segment with one Huffman table of so many codes, its values, and `tail`. */
static size_t with_table(uint8_t *out, int marker, int codes, const char *tail, size_t n_tail)
{
    size_t n = 0, length = 19 + (size_t)codes;
    out[n++] = 0xff, out[n++] = 0xd8, out[n++] = 0xff, out[n++] = (uint8_t)marker;
    out[n++] = (uint8_t)(length >> 8), out[n++] = (uint8_t)length, out[n++] = 0;
    for (int left = codes, i = 0; i < 16; i++) {
        int here = left < 255 ? left : 255;
        out[n++] = (uint8_t)here;
        left -= here;
    }
    memset(out + n, 0, (size_t)codes);
    n += (size_t)codes;
    memcpy(out + n, tail, n_tail);
    return n + n_tail;
}

static void tables_are_counted(void)
{
    uint8_t file[1000];
    CHECK(graft_jpeg_is_safe(file, with_table(file, 0xc4, 0, "", 0)));
    CHECK(graft_jpeg_is_safe(file, with_table(file, 0xc4, 256, "\xff\xd9", 2)));
    CHECK(!graft_jpeg_is_safe(file, with_table(file, 0xc4, 257, "\xff\xd9", 2)));
    CHECK(!graft_jpeg_is_safe(file, with_table(file, 0xc4, 300, "", 0) - 290)); /* cut short */
    /* What is no table, such as a thumbnail's in EXIF, is of no harm. */
    CHECK(graft_jpeg_is_safe(file, with_table(file, 0xe1, 300, "\xff\xd9", 2)));
}

static void all_places_count(void)
{
    uint8_t file[2000], bad[1000];
    size_t n_bad = with_table(bad, 0xc4, 257, "", 0) - 2; /* without SOI */
    const char scan[] = "\xff\xda\0\x08\1\1\0\0\x3f\0 some data ";
    size_t n = with_table(file, 0xc4, 4, scan, sizeof scan - 1);
    CHECK(graft_jpeg_is_safe(file, n));
    memcpy(file + n, bad + 2, n_bad);
    CHECK(!graft_jpeg_is_safe(file, n + n_bad)); /* behind the data of a scan */
    memcpy(file + n, "\xff\xe1\0\6\xff\xd9\0\0", 8);
    memcpy(file + n + 8, bad + 2, n_bad);
    CHECK(!graft_jpeg_is_safe(file, n + 8 + n_bad)); /* the end in a segment is none */
    memcpy(file + n, "\xff\xd9", 2);
    memcpy(file + n + 2, bad + 2, n_bad);
    CHECK(
        graft_jpeg_is_safe(file, n + 2 + n_bad)); /* a film behind a picture is nobody's business */
    n = with_table(file, 0xc4, 4, "damage", 6);
    memcpy(file + n, bad + 2, n_bad);
    CHECK(!graft_jpeg_is_safe(file, n + n_bad)); /* where a segment should begin */
    memcpy(file, "\x89PNG", 4);
    CHECK(graft_jpeg_is_safe(file, n + n_bad)); /* no JPEG file */
    CHECK(graft_jpeg_is_safe(file, 0));
}

int main(void)
{
    RUN(tables_are_counted);
    RUN(all_places_count);
    return test_end();
}
