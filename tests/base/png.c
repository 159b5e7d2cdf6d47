#include "base/png.h"

#include <png.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/alloc.h"
#include "tests/test.h"

static const graft_png_text texts[] = {{"prompt", "{\"1\": {\"seed\": 18446744073709551615}}"},
                                       {"workflow", "\xe6\xa3\xae and \xc3\xa9"},
                                       {"empty", ""},
                                       {"prompt", "the second one"}};

static void fill(uint8_t *p, size_t n)
{
    uint32_t x = 7;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = (uint8_t)(x >> 24);
    }
}

static void decodes_back(void)
{
    static const int channels[] = {1, 3, 4};
    static const uint32_t shape[][2] = {{1, 1}, {7, 5}, {64, 33}};
    static const png_uint_32 format[] = {PNG_FORMAT_GRAY, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
    uint8_t pixels[64 * 33 * 4], got[64 * 33 * 4];
    fill(pixels, sizeof pixels);
    for (int c = 0; c < 3; c++)
        for (int s = 0; s < 3; s++)
            for (int level = 0; level <= 9; level += 3) {
                graft_err e = GRAFT_ERR_INIT;
                uint8_t *file;
                size_t size, n = (size_t)shape[s][0] * shape[s][1] * (size_t)channels[c];
                CHECK_OK(graft_png_encode(pixels, shape[s][0], shape[s][1], channels[c], level,
                                          texts, 4, &file, &size, &e),
                         &e);
                png_image image = {.version = PNG_IMAGE_VERSION};
                CHECK(png_image_begin_read_from_memory(&image, file, size));
                CHECK_INT(image.width, shape[s][0]);
                CHECK_INT(image.height, shape[s][1]);
                CHECK_INT(image.format, format[c]);
                CHECK(png_image_finish_read(&image, NULL, got, 0, NULL));
                CHECK(memcmp(got, pixels, n) == 0);
                graft_free(file);
            }
}

/* Two bytes a channel, as libpng reads them. */
static void decodes_back_16_bits(void)
{
    enum { W = 7, H = 5 };
    uint16_t pixels[W * H * 3];
    graft_err e = GRAFT_ERR_INIT;
    uint8_t *file;
    size_t size;
    fill((uint8_t *)pixels, sizeof pixels);
    CHECK_OK(graft_png_encode16(pixels, W, H, 3, 4, texts, 4, &file, &size, &e), &e);
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    FILE *f = fmemopen(file, size, "rb");
    png_init_io(png, f);
    png_read_info(png, info);
    CHECK_INT(png_get_bit_depth(png, info), 16);
    CHECK_INT(png_get_color_type(png, info), PNG_COLOR_TYPE_RGB);
    for (int y = 0; y < H; y++) {
        uint8_t row[W * 6];
        png_read_row(png, row, NULL);
        for (int x = 0; x < W * 3; x++)
            CHECK_INT(row[2 * x] << 8 | row[2 * x + 1], pixels[y * W * 3 + x]);
    }
    png_destroy_read_struct(&png, &info, NULL);
    fclose(f);
    graft_free(file);
}

/* The chunks of an animation as a reader takes them: each picture alone is the PNG that went in. */
static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

enum { SIDE = 40, FRAMES = 3, FRAME = SIDE * SIDE * 3 };

/* A PNG of the header and the data of picture `which`, decoded. */
static void one_picture(const uint8_t *file, size_t size, int which, const uint8_t *want)
{
    static uint8_t data[1 << 16];
    uint8_t *pixels = NULL, header[8 + 25];
    size_t n = 0;
    int at_picture = -1;
    uint32_t expected = 0, w, h;
    graft_err e = GRAFT_ERR_INIT;
    memcpy(header, file, sizeof header);
    memcpy(data, header, n = sizeof header);
    for (size_t at = sizeof header; at + 12 <= size;) {
        const uint32_t length = big_endian(file + at);
        const uint8_t *body = file + at + 8;
        const bool later = memcmp(body - 4, "fdAT", 4) == 0;
        CHECK_INT(crc32(0, body - 4, length + 4), big_endian(body + length));
        if (memcmp(body - 4, "fcTL", 4) == 0) at_picture++;
        if (memcmp(body - 4, "fcTL", 4) == 0 || later) CHECK_INT(big_endian(body), expected++);
        if ((later || memcmp(body - 4, "IDAT", 4) == 0) && at_picture == which) {
            const uint32_t skip = later ? 4 : 0;
            uint8_t *to = data + n;
            for (int i = 0; i < 4; i++) to[i] = (uint8_t)((length - skip) >> (24 - 8 * i));
            memcpy(to + 4, "IDAT", 4);
            memcpy(to + 8, body + skip, length - skip);
            const uint32_t sum = (uint32_t)crc32(0, to + 4, length - skip + 4);
            for (int i = 0; i < 4; i++)
                to[8 + length - skip + (uint32_t)i] = (uint8_t)(sum >> (24 - 8 * i));
            n += length - skip + 12;
        }
        at += length + 12;
    }
    CHECK_INT(at_picture, FRAMES - 1);
    memcpy(data + n, file + size - 12, 12); /* IEND */
    CHECK_OK(graft_png_decode_rgb(data, n + 12, &pixels, &w, &h, &e), &e);
    CHECK(w == SIDE && h == SIDE && memcmp(pixels, want, FRAME) == 0);
    graft_free(pixels);
}

static void animations(void)
{
    static uint8_t pixels[FRAMES][FRAME];
    graft_png_bytes png[FRAMES + 1];
    graft_err e = GRAFT_ERR_INIT;
    uint8_t *file = NULL, *first = NULL, *one;
    uint32_t w, h;
    size_t size = 0;
    char *text = NULL;
    fill(&pixels[0][0], sizeof pixels);
    for (int i = 0; i < FRAMES; i++) {
        CHECK_OK(graft_png_encode(pixels[i], SIDE, SIDE, 3, 4, i ? NULL : texts, i ? 0 : 4, &one,
                                  &png[i].size, &e),
                 &e);
        png[i].data = one;
    }
    CHECK_OK(graft_png_animate(png, FRAMES, 250, &file, &size, &e), &e);
    for (int i = 0; i < FRAMES && file; i++) one_picture(file, size, i, pixels[i]);
    /* Who knows nothing of animations sees the first, and its texts. */
    CHECK_OK(graft_png_decode_rgb(file, size, &first, &w, &h, &e), &e);
    CHECK(memcmp(first, pixels[0], FRAME) == 0);
    CHECK_OK(graft_png_read_text(file, size, "workflow", &text, &e), &e);
    CHECK_STR(text, texts[1].value);
    graft_free(text);
    graft_free(first);
    graft_free(file);
    CHECK_OK(
        graft_png_encode(pixels[0], SIDE - 1, SIDE, 3, 4, NULL, 0, &one, &png[FRAMES].size, &e),
        &e);
    png[FRAMES].data = one;
    CHECK_INT(graft_png_animate(png, FRAMES + 1, 250, &file, &size, &e), GRAFT_E_ARG);
    CHECK_INT(graft_png_animate(png, 0, 250, &file, &size, &e), GRAFT_E_ARG);
    CHECK_INT(graft_png_animate(png, 1, 6553501, &file, &size, &e), GRAFT_E_ARG);
    CHECK_OK(graft_png_animate(png, 1, 100000, &file, &size, &e), &e);
    for (size_t i = 0; i + 30 < size; i++)
        if (memcmp(file + i, "fcTL", 4) == 0) /* 1000 tenths */
            CHECK(file[i + 24] == 3 && file[i + 25] == 232 && file[i + 26] == 0 &&
                  file[i + 27] == 10);
    graft_free(file);
    for (int i = 0; i <= FRAMES; i++) graft_free((void *)(uintptr_t)png[i].data);
}

static void texts_come_back(void)
{
    graft_err e = GRAFT_ERR_INIT;
    uint8_t *file, pixel[3] = {1, 2, 3};
    size_t size;
    char *text;
    CHECK_OK(graft_png_encode(pixel, 1, 1, 3, 4, texts, 4, &file, &size, &e), &e);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(graft_png_read_text(file, size, texts[i].key, &text, &e), &e);
        CHECK_STR(text, texts[i].value);
        graft_free(text);
    }
    CHECK_INT(graft_png_read_text(file, size, "absent", &text, &e), GRAFT_E_NOTFOUND);
    CHECK(!text);
    CHECK_INT(graft_png_read_text((const uint8_t *)"GIF89a....", 10, "a", &text, &e),
              GRAFT_E_FORMAT);
    CHECK_INT(graft_png_read_text(NULL, 0, "a", &text, &e), GRAFT_E_FORMAT);
    graft_free(file);
    char *big = malloc(3000001);
    memset(big, 'x', 3000000);
    big[3000000] = 0;
    const graft_png_text one = {"big", big};
    CHECK_OK(graft_png_encode(pixel, 1, 1, 3, 1, &one, 1, &file, &size, &e), &e);
    CHECK_OK(graft_png_read_text(file, size, "big", &text, &e), &e);
    CHECK(text && strcmp(text, big) == 0);
    graft_free(text), graft_free(file), free(big);
}

static void put_chunk(uint8_t *file, size_t *size, const char *type, const void *data, size_t n)
{
    uint8_t *p = file + *size;
    uint32_t length = (uint32_t)n;
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(length >> (24 - 8 * i));
    memcpy(p + 4, type, 4);
    if (n) memcpy(p + 8, data, n);
    uint32_t crc = (uint32_t)crc32(0, p + 4, (uInt)(n + 4));
    for (int i = 0; i < 4; i++) p[8 + n + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
    *size += 12 + n;
}

/* A file as other programs write it: compressed and Latin-1 text, a broken colour profile, and text
 * behind the picture. `bomb`: bytes of text in a zTXt chunk. */
static uint8_t *foreign_file(size_t bomb, size_t *size)
{
    static const uint8_t signature[] = {137, 'P', 'N', 'G', 13, 10, 26, 10};
    static const uint8_t head[] = {0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0};
    const char row[] = "\0\x80", key[] = "zip\0";
    uint8_t *file = calloc(1, 1 << 20), *packed = malloc(1 << 20);
    char *text = malloc(bomb + 1);
    uLongf n = (1 << 20) - 5;
    memset(text, 'z', bomb);
    memcpy(packed, key, 5);
    CHECK(compress2(packed + 5, &n, (uint8_t *)text, bomb, 9) == Z_OK);
    memcpy(file, signature, 8);
    *size = 8;
    put_chunk(file, size, "IHDR", head, 13);
    put_chunk(file, size, "iCCP", "broken\0\0not a profile", 21);
    put_chunk(file, size, "tEXt", "latin\0caf\xe9", 10);
    put_chunk(file, size, "zTXt", packed, n + 5);
    n = 1000;
    CHECK(compress2(packed, &n, (const uint8_t *)row, 2, 9) == Z_OK);
    put_chunk(file, size, "IDAT", packed, n);
    put_chunk(file, size, "tEXt", "late\0here", 9);
    put_chunk(file, size, "IEND", NULL, 0);
    free(text), free(packed);
    return file;
}

static void reads_foreign_files(void)
{
    graft_err e = GRAFT_ERR_INIT;
    size_t size;
    char *text;
    uint8_t *file = foreign_file(100000, &size);
    CHECK_OK(graft_png_read_text(file, size, "latin", &text, &e), &e);
    CHECK_STR(text, "caf\xc3\xa9");
    graft_free(text);
    CHECK_OK(graft_png_read_text(file, size, "late", &text, &e), &e);
    CHECK_STR(text, "here");
    graft_free(text);
    CHECK_OK(graft_png_read_text(file, size, "zip", &text, &e), &e);
    CHECK(text && strlen(text) == 100000 && text[99999] == 'z');
    graft_free(text);
    free(file);
    file = foreign_file((size_t)65 << 20, &size); /* a small file that unpacks to 65 MiB */
    CHECK(graft_png_read_text(file, size, "zip", &text, &e) != GRAFT_OK);
    CHECK(!text);
    free(file);
}

/* A text that lost a bit is no text that is not there; what libpng calls it is left out. */
static void damaged_texts(void)
{
    static const uint8_t pixel[3] = {1, 2, 3};
    uint8_t *file;
    size_t size, at = 0;
    char *text;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_png_encode(pixel, 1, 1, 3, 6, texts, 1, &file, &size, &e), &e);
    while (at + 6 < size && memcmp(file + at, "prompt", 6) != 0) at++;
    file[at + 10] ^= 1;
    CHECK_INT(graft_png_read_text(file, size, "prompt", &text, &e), GRAFT_E_FORMAT);
    CHECK_STR(e.text, "damaged PNG file: a text in it cannot be read");
    file[at + 10] ^= 1;
    file[20] ^= 1; /* of the head */
    CHECK_INT(graft_png_read_text(file, size, "prompt", &text, &e), GRAFT_E_FORMAT);
    CHECK_STR(e.text, "damaged PNG file");
    graft_free(file);
}

/* Each text is within the limit, all of them are not. */
static void stops_unpacking(void)
{
    enum { TEXT = 48 << 20, MANY = 40 };
    static const uint8_t signature[] = {137, 'P', 'N', 'G', 13, 10, 26, 10};
    static const uint8_t head[] = {0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0};
    graft_err e = GRAFT_ERR_INIT;
    uint8_t *file = calloc(1, 8 << 20), *packed = malloc(1 << 20);
    char *text = calloc(1, TEXT), *found;
    uLongf n = (1 << 20) - 5;
    size_t size = 8;
    memset(text, 'z', TEXT);
    memcpy(packed, "zip\0", 5);
    CHECK(compress2(packed + 5, &n, (uint8_t *)text, TEXT, 9) == Z_OK);
    memcpy(file, signature, 8);
    put_chunk(file, &size, "IHDR", head, 13);
    for (int i = 0; i < MANY; i++) put_chunk(file, &size, "zTXt", packed, n + 5);
    put_chunk(file, &size, "tEXt", "late\0here", 9);
    put_chunk(file, &size, "IEND", NULL, 0);
    CHECK(graft_png_read_text(file, size, "late", &found, &e) == GRAFT_E_FORMAT);
    CHECK(!found && strstr(e.text, "too long"));
    free(file), free(packed), free(text);
}

static void survives_cuts(void)
{
    graft_err e = GRAFT_ERR_INIT;
    uint8_t *file, pixels[300];
    size_t size;
    char *text;
    fill(pixels, sizeof pixels);
    CHECK_OK(graft_png_encode(pixels, 10, 10, 3, 4, texts, 4, &file, &size, &e), &e);
    for (size_t n = 0; n < size; n++) {
        uint8_t *cut = malloc(n ? n : 1); /* exact size: a sanitizer sees reads behind it */
        memcpy(cut, file, n);
        graft_status st = graft_png_read_text(cut, n, "absent", &text, &e);
        CHECK(st == GRAFT_E_FORMAT && !text);
        st = graft_png_read_text(cut, n, "workflow", &text, &e);
        CHECK(st == GRAFT_E_FORMAT || (st == GRAFT_OK && strcmp(text, texts[1].value) == 0));
        graft_free(text);
        free(cut);
    }
    for (size_t n = 0; n < size; n++) { /* a changed byte */
        file[n] ^= 0x55;
        if (graft_png_read_text(file, size, "workflow", &text, &e) == GRAFT_OK) graft_free(text);
        file[n] ^= 0x55;
    }
    graft_free(file);
}

static void survives_no_memory(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_alloc_stats before, after;
    uint8_t pixels[300], *file;
    size_t size;
    char *text;
    int failed_writes = 0, failed_reads = 0;
    fill(pixels, sizeof pixels);
    graft_alloc_stats_get(&before);
    for (int n = 1; n < 60; n++) {
        graft_alloc_fail_at(n);
        graft_status st = graft_png_encode(pixels, 10, 10, 3, 4, texts, 4, &file, &size, &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK ? file != NULL : st == GRAFT_E_NOMEM && !file);
        failed_writes += st != GRAFT_OK;
        graft_free(file);
    }
    CHECK_OK(graft_png_encode(pixels, 10, 10, 3, 4, texts, 4, &file, &size, &e), &e);
    for (int n = 1; n < 60; n++) {
        graft_alloc_fail_at(n);
        graft_status st = graft_png_read_text(file, size, "workflow", &text, &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK ? text != NULL : st == GRAFT_E_NOMEM && !text);
        failed_reads += st != GRAFT_OK;
        graft_free(text);
    }
    graft_free(file);
    graft_alloc_stats_get(&after);
    CHECK(failed_writes > 3 && failed_reads > 3);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

static void refuses_arguments(void)
{
    graft_err e = GRAFT_ERR_INIT;
    uint8_t pixel[4] = {0}, *file;
    size_t size;
    char key[81];
    memset(key, 'k', 80);
    key[80] = 0;
    const graft_png_text bad[] = {{"", "v"}, {key, "v"}, {" a", "v"}, {"a ", "v"}, {"a\nb", "v"}};
#define ENCODE(w, h, c, level, text, n)                                                            \
    CHECK_INT(graft_png_encode(pixel, w, h, c, level, text, n, &file, &size, &e), GRAFT_E_ARG)
    ENCODE(0, 1, 3, 4, NULL, 0);
    ENCODE(1, 0, 3, 4, NULL, 0);
    ENCODE(0x80000000u, 1, 3, 4, NULL, 0);
    ENCODE(1, 1, 2, 4, NULL, 0);
    ENCODE(1, 1, 5, 4, NULL, 0);
    ENCODE(1, 1, 3, 10, NULL, 0);
    ENCODE(1, 1, 3, -1, NULL, 0);
    for (int i = 0; i < 5; i++) ENCODE(1, 1, 3, 4, &bad[i], 1);
    CHECK_OK(graft_png_encode(pixel, 1, 1, 4, 4, NULL, 0, &file, &size, &e), &e);
    graft_free(file);
}

/* Grey, colour and transparency become RGB; cut or damaged files are refused. */
static void pixels_come_back(void)
{
    static const int channels[] = {1, 3, 4};
    uint8_t pixels[7 * 5 * 4], *file, *got;
    uint32_t width, height;
    size_t size;
    graft_err e = GRAFT_ERR_INIT;
    fill(pixels, sizeof pixels);
    for (int c = 0; c < 3; c++) {
        int n = channels[c];
        for (int i = 0; n == 4 && i < 7 * 5; i++) pixels[i * 4 + 3] = i % 2 ? 255 : 0;
        CHECK_OK(graft_png_encode(pixels, 7, 5, n, 4, NULL, 0, &file, &size, &e), &e);
        CHECK_OK(graft_png_decode_rgb(file, size, &got, &width, &height, &e), &e);
        CHECK(width == 7 && height == 5);
        for (int i = 0; i < 7 * 5 * 3; i++) {
            int from = n == 1 ? i / 3 : i / 3 * n + i % 3;
            CHECK_INT(got[i], n == 4 && i / 3 % 2 == 0 ? 0 : pixels[from]);
        }
        graft_free(got);
        for (size_t cut = 0; cut + 20 < size; cut++)
            CHECK(graft_png_decode_rgb(file, cut, &got, &width, &height, &e) == GRAFT_E_FORMAT);
        graft_alloc_fail_at(1);
        CHECK(graft_png_decode_rgb(file, size, &got, &width, &height, &e) == GRAFT_E_NOMEM);
        graft_alloc_fail_at(0);
        graft_free(file);
    }
}

int main(void)
{
    RUN(pixels_come_back);
    RUN(decodes_back);
    RUN(decodes_back_16_bits);
    RUN(texts_come_back);
    RUN(animations);
    RUN(reads_foreign_files);
    RUN(damaged_texts);
    RUN(stops_unpacking);
    RUN(survives_cuts);
    RUN(survives_no_memory);
    RUN(refuses_arguments);
    return test_end();
}
