/* Picture files built here byte by byte, so that every field of theirs can be wrong. */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "engine/image/decode.h"
#include "engine/image/exif.h"
#include "tests/test.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image_write.h>

typedef struct blob {
    uint8_t b[8192];
    size_t n;
} blob;

static void put(blob *f, const void *p, size_t n)
{
    if (f->n + n > sizeof f->b) abort();
    if (n) memcpy(f->b + f->n, p, n);
    f->n += n;
}

static void put8(blob *f, unsigned v)
{
    put(f, &(uint8_t){(uint8_t)v}, 1);
}
static void put16(blob *f, bool big, unsigned v)
{
    put8(f, big ? v >> 8 : v);
    put8(f, big ? v : v >> 8);
}
static void put32(blob *f, bool big, uint32_t v)
{
    put16(f, big, big ? v >> 16 : v & 0xffff);
    put16(f, big, big ? v & 0xffff : v >> 16);
}

static void sink(void *f, void *p, int n)
{
    put(f, p, (size_t)n);
}

/* EXIF: one unrelated entry, then the orientation. */
static blob tiff(bool big, unsigned orientation)
{
    blob t = {.n = 0};
    put(&t, big ? "MM" : "II", 2);
    put16(&t, big, 42);
    put32(&t, big, 8);
    put16(&t, big, 2);
    put16(&t, big, 0x010f), put16(&t, big, 2), put32(&t, big, 4), put(&t, "abc", 4);
    put16(&t, big, 0x0112), put16(&t, big, 3), put32(&t, big, 1);
    put16(&t, big, orientation), put16(&t, big, 0);
    put32(&t, big, 0);
    return t;
}

static void chunk(blob *f, const char *type, const void *p, size_t n)
{
    put32(f, true, (uint32_t)n);
    put(f, type, 4);
    put(f, p, n);
    put32(f, true, 0); /* the decoder does not look at checksums */
}

typedef struct png {
    uint32_t w, h;
    int depth, colour;     /* as in IHDR */
    const uint8_t *pixels; /* rows, without filter bytes */
    size_t row;            /* bytes */
    const blob *exif;
    const char *palette, *alpha; /* PLTE of `colours` entries, tRNS */
    int colours;
} png;

static blob make_png(const png *p)
{
    blob f = {.n = 0}, head = {.n = 0}, data = {.n = 0};
    put(&f, "\x89PNG\r\n\x1a\n", 8);
    put32(&head, true, p->w), put32(&head, true, p->h);
    put8(&head, (unsigned)p->depth), put8(&head, (unsigned)p->colour), put(&head, "\0\0\0", 3);
    chunk(&f, "IHDR", head.b, head.n);
    if (p->exif) chunk(&f, "eXIf", p->exif->b, p->exif->n);
    if (p->palette) chunk(&f, "PLTE", p->palette, (size_t)p->colours * 3);
    if (p->alpha) chunk(&f, "tRNS", p->alpha, (size_t)p->colours);
    size_t n = p->pixels ? (p->row + 1) * p->h : 0;
    put(&data, "\x78\x01\x01", 3); /* zlib, one stored block */
    put16(&data, false, (unsigned)n), put16(&data, false, (unsigned)~n);
    for (uint32_t y = 0; n && y < p->h; y++)
        put8(&data, 0), put(&data, p->pixels + y * p->row, p->row);
    put32(&data, true, 0);
    chunk(&f, "IDAT", data.b, data.n);
    chunk(&f, "IEND", NULL, 0);
    return f;
}

static const char *path_of(const blob *f)
{
    static char path[64];
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "/tmp/graft_load_%ld.img", (long)getpid());
    CHECK_OK(graft_file_write(path, f->b, f->n, &e), &e);
    return path;
}

static graft_status load(const blob *f, graft_image **out, graft_image **mask, graft_err *e)
{
    const char *path = path_of(f);
    graft_status st = graft_image_load(path, out, mask, e);
    unlink(path);
    return st;
}

/* The top left, top right, bottom left and bottom right quarters of the upright picture, where
 * those of the stored one are A, B, C, D. */
static const char *const upright[9] = {"ABCD", "ABCD", "BADC", "DCBA", "CDAB",
                                       "ACBD", "CADB", "DBCA", "BDAC"};
enum { W = 32, H = 16 };

static void check_upright(const blob *f, int orientation, int line)
{
    graft_image *i;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(load(f, &i, NULL, &e), &e);
    if (!i) return;
    const float *d = graft_image_data(i, s);
    int before = test_failures;
    CHECK_INT(s[2], orientation >= 5 ? H : W);
    CHECK_INT(s[1], orientation >= 5 ? W : H);
    for (int q = 0; q < 4; q++) {
        int64_t y = q / 2 ? s[1] - 3 : 2, x = q % 2 ? s[2] - 3 : 2;
        CHECK_NEAR(d[(y * s[2] + x) * 3], (upright[orientation][q] - 'A') * 60 / 255.0, 0.02);
    }
    if (test_failures != before) fprintf(stderr, "  orientation %d, line %d\n", orientation, line);
    graft_image_release(i);
}

static void orientations(void)
{
    uint8_t px[H * W * 3];
    for (int i = 0; i < H * W * 3; i++)
        px[i] = (uint8_t)((i / 3 / W >= H / 2 ? 120 : 0) + (i / 3 % W >= W / 2 ? 60 : 0));
    blob jpeg = {.n = 0};
    CHECK(stbi_write_jpg_to_func(sink, &jpeg, W, H, 3, px, 95));
    check_upright(&jpeg, 1, __LINE__);
    for (int o = 0; o < 20; o++) {
        blob t = tiff(o & 1, (unsigned)(o / 2)), f = {.n = 0};
        int want = o / 2 >= 1 && o / 2 <= 8 ? o / 2 : 1;
        put(&f, jpeg.b, 2);
        put(&f, "\xff\xe1", 2), put16(&f, true, 2 + 4), put(&f, "http", 4); /* an XMP-like APP1 */
        put(&f, "\xff\xe1", 2), put16(&f, true, (unsigned)(2 + 6 + t.n));
        put(&f, "Exif\0", 6), put(&f, t.b, t.n);
        put(&f, jpeg.b + 2, jpeg.n - 2);
        check_upright(&f, want, __LINE__);
        blob g = make_png(&(png){W, H, 8, 2, px, W * 3, &t, NULL, NULL, 0});
        check_upright(&g, want, __LINE__);
    }
}

/* Damaged EXIF means upright; nothing is read past the end (the sanitizers would tell). */
static void damaged_exif(void)
{
    blob t = tiff(true, 6), f = {.n = 0};
    put(&f, "\xff\xd8\xff\xe1", 4), put16(&f, true, (unsigned)(2 + 6 + t.n));
    put(&f, "Exif\0", 6), put(&f, t.b, t.n);
    CHECK_INT(graft_exif_orientation(f.b, f.n), 6);
    for (size_t n = 0; n < f.n; n++) {
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, f.b, n);
        CHECK_INT(graft_exif_orientation(cut, n), 1);
        free(cut);
    }
    uint32_t r = 1;
    for (int k = 0; k < 20000; k++) {
        uint8_t *changed = malloc(f.n);
        memcpy(changed, f.b, f.n);
        for (int j = 0; j < 3; j++) {
            r = r * 1664525u + 1013904223u;
            changed[(r >> 8) % f.n] = (uint8_t)(r >> 24);
        }
        int o = graft_exif_orientation(changed, f.n);
        CHECK(o >= 1 && o <= 8);
        free(changed);
    }
    t.b[8 + 2 + 12 + 3] = 4; /* LONG instead of SHORT */
    CHECK_INT(graft_exif_orientation(f.b, f.n), 6);
    blob p = make_png(&(png){1, 1, 8, 0, NULL, 1, &t, NULL, NULL, 0});
    CHECK_INT(graft_exif_orientation(p.b, p.n), 1);
}

static void check_picture(const png *p, const float *rgb, const float *alpha, int line)
{
    blob f = make_png(p);
    graft_image *i, *m;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    int before = test_failures;
    CHECK_OK(load(&f, &i, &m, &e), &e);
    if (!i) return;
    const float *d = graft_image_data(i, s);
    CHECK(s[0] == 1 && s[1] == p->h && s[2] == p->w && s[3] == 3 && !graft_image_is_mask(i));
    for (uint32_t k = 0; k < p->w * p->h * 3; k++) CHECK_NEAR(d[k], rgb[k], 1e-6);
    d = graft_image_data(m, s);
    CHECK(graft_image_is_mask(m) && s[1] == (alpha ? p->h : 64) && s[2] == (alpha ? p->w : 64));
    for (int k = 0; k < s[1] * s[2]; k++) CHECK_NEAR(d[k], alpha ? 1.0f - alpha[k] : 0.0f, 1e-6);
    graft_image_release(i);
    graft_image_release(m);
    static const char *const names[] = {"red", "green", "blue", "alpha"};
    const char *path = path_of(&f);
    for (int c = 0; c < 4; c++) {
        CHECK_OK(graft_image_load_mask(path, names[c], &m, &e), &e);
        d = graft_image_data(m, s);
        CHECK(graft_image_is_mask(m) && s[1] == p->h && s[2] == p->w);
        for (uint32_t k = 0; k < p->w * p->h; k++)
            CHECK_NEAR(d[k],
                       c < 3   ? rgb[3 * k + (uint32_t)c]
                       : alpha ? 1.0f - alpha[k]
                               : 0.0f,
                       1e-6);
        graft_image_release(m);
    }
    CHECK_INT(graft_image_load_mask(path, "Alpha", &m, &e), GRAFT_E_ARG);
    unlink(path);
    if (test_failures != before) fprintf(stderr, "  case of line %d\n", line);
}
#define PICTURE(...) check_picture(__VA_ARGS__, __LINE__)

static void colour_types(void)
{
    const uint8_t a[] = {0, 51, 102, 153, 204, 255, 10, 20};
    float v[8];
    for (int k = 0; k < 8; k++) v[k] = a[k] / 255.0f;
    PICTURE((&(png){2, 1, 8, 0, a, 2, 0, 0, 0, 0}),
            ((const float[]){v[0], v[0], v[0], v[1], v[1], v[1]}), NULL);
    PICTURE((&(png){2, 1, 8, 4, a, 4, 0, 0, 0, 0}),
            ((const float[]){v[0], v[0], v[0], v[2], v[2], v[2]}), ((const float[]){v[1], v[3]}));
    PICTURE((&(png){2, 1, 8, 2, a, 6, 0, 0, 0, 0}), v, NULL);
    PICTURE((&(png){1, 2, 8, 6, a, 4, 0, 0, 0, 0}),
            ((const float[]){v[0], v[1], v[2], v[4], v[5], v[6]}), ((const float[]){v[3], v[7]}));
    PICTURE((&(png){1, 1, 8, 6, (const uint8_t *)"\1\2\3\377", 4, 0, 0, 0, 0}),
            ((const float[]){1 / 255.f, 2 / 255.f, 3 / 255.f}), ((const float[]){1}));
    const uint8_t deep[] = {0x80, 0x01, 0xff, 0xff, 0x00, 0x02, 0x12, 0x34};
    const float w[] = {0x8001 / 65535.f, 1, 2 / 65535.f, 0x1234 / 65535.f};
    PICTURE((&(png){1, 1, 16, 2, deep, 6, 0, 0, 0, 0}), w, NULL);
    PICTURE((&(png){1, 1, 16, 6, deep, 8, 0, 0, 0, 0}), w, w + 3);
    PICTURE((&(png){1, 2, 16, 0, deep, 2, 0, 0, 0, 0}),
            ((const float[]){w[0], w[0], w[0], 1, 1, 1}), NULL);
    PICTURE((&(png){2, 1, 8, 3, (const uint8_t *)"\1\0", 2, 0, "\377\0\0\0\377\0", 0, 2}),
            ((const float[]){0, 1, 0, 1, 0, 0}), NULL);
    PICTURE((&(png){2, 1, 8, 3, (const uint8_t *)"\1\0", 2, 0, "\377\0\0\0\377\0", "\0\63", 2}),
            ((const float[]){0, 1, 0, 1, 0, 0}), ((const float[]){0.2f, 0}));
}

/* A GIF of 2x1 pixels; frame k draws `pixels[k]` ('.': transparent). Codes are 3 bits wide; a clear
 * code in front of each pixel keeps them so. */
static blob make_gif(const char *const *pixels, const int *dispose, int frames)
{
    blob f = {.n = 0};
    put(&f, "GIF89a\2\0\1\0\x81\0\0", 13); /* 4 colours: black, red, green, transparent */
    put(&f, "\0\0\0\377\0\0\0\377\0\0\0\377", 12);
    for (int k = 0; k < frames; k++) {
        put(&f, "\x21\xf9\4", 3), put8(&f, (unsigned)(dispose[k] << 2 | 1)), put(&f, "\0\0\3\0", 4);
        put(&f, "\x2c\0\0\0\0\2\0\1\0\0\2", 11);
        unsigned bits = 0, at = 0;
        for (int x = 0; x < 2; x++) {
            unsigned colour = (unsigned)(strchr("KRG.", pixels[k][x]) - "KRG.");
            bits |= 4u << at, at += 3, bits |= colour << at, at += 3;
        }
        bits |= 5u << at; /* end */
        put8(&f, 2), put8(&f, bits), put8(&f, bits >> 8), put8(&f, 0);
    }
    put8(&f, 0x3b);
    return f;
}

static void animation(void)
{
    /* 1: keep; 3: back to the frame before, which once read outside of its memory. */
    static const char *const pixels[] = {"RG", "G.", ".R", "K.", ".K"};
    static const int dispose[] = {1, 1, 3, 3, 1};
    blob f = make_gif(pixels, dispose, 5);
    graft_image *i, *m;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(load(&f, &i, &m, &e), &e);
    const float *d = graft_image_data(i, s);
    CHECK(s[0] == 5 && s[1] == 1 && s[2] == 2 && s[3] == 3);
    CHECK(d[0] == 1 && d[1] == 0 && d[3] == 0 && d[4] == 1); /* R G */
    CHECK(d[6] == 0 && d[7] == 1 && d[10] == 1);             /* G G */
    CHECK(d[12] == 0 && d[13] == 1 && d[15] == 1);           /* G R */
    graft_image_data(m, s);
    CHECK(s[0] == 5 && s[1] == 64 && s[2] == 64); /* opaque everywhere */
    graft_image_release(i);
    graft_image_release(m);
    static const char *const holes[] = {"R."};
    f = make_gif(holes, dispose, 1);
    CHECK_OK(load(&f, &i, &m, &e), &e);
    d = graft_image_data(m, s);
    CHECK(s[0] == 1 && s[1] == 1 && s[2] == 2 && d[0] == 0 && d[1] == 1);
    graft_image_release(i);
    graft_image_release(m);
    f = make_gif(pixels, dispose, 0);
    CHECK_INT(load(&f, &i, &m, &e), GRAFT_E_FORMAT);
}

static void other_kinds(void)
{
    uint8_t px[4 * 3 * 3];
    for (int k = 0; k < 36; k++) px[k] = (uint8_t)(k * 7);
    for (int kind = 0; kind < 3; kind++) {
        blob f = {.n = 0};
        graft_image *i;
        graft_err e = GRAFT_ERR_INIT;
        if (kind == 0) stbi_write_bmp_to_func(sink, &f, 4, 3, 3, px);
        if (kind == 1) stbi_write_tga_to_func(sink, &f, 4, 3, 3, px);
        if (kind == 2) put(&f, "P6 4 3 255\n", 11), put(&f, px, sizeof px);
        CHECK_OK(load(&f, &i, NULL, &e), &e);
        int64_t s[4];
        const float *d = graft_image_data(i, s);
        CHECK(s[1] == 3 && s[2] == 4);
        for (int k = 0; k < 36; k++) CHECK_NEAR(d[k], px[k] / 255.0, 1e-6);
        graft_image_release(i);
    }
}

static void refused(void)
{
    graft_image *i, *m;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(graft_image_load("/nonexistent/x.png", &i, &m, &e) != 0);
    CHECK(strstr(e.text, "/nonexistent/x.png") && !i && !m);
    CHECK(graft_image_load("/tmp", &i, &m, &e) != 0 && !i);
    blob f = {.n = 0};
    CHECK_INT(load(&f, &i, &m, &e), GRAFT_E_FORMAT);
    put(&f, "This is a text, and no picture at all.", 38);
    CHECK_INT(load(&f, &i, &m, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "graft_load_") && !i && !m);
    static const uint32_t sizes[][2] = {
        {16385, 1}, {1, 16385}, {0x7fffffff, 0x7fffffff}, {1u << 30, 4}};
    for (int k = 0; k < 4; k++) {
        f = make_png(&(png){sizes[k][0], sizes[k][1], 8, 2, NULL, 3, 0, 0, 0, 0});
        CHECK_INT(load(&f, &i, &m, &e), GRAFT_E_LIMIT);
        CHECK(strstr(e.text, "16384") && strstr(e.text, "graft_load_") && !i);
    }
    f = make_png(&(png){0, 5, 8, 2, NULL, 3, 0, 0, 0, 0});
    CHECK_INT(load(&f, &i, &m, &e), GRAFT_E_FORMAT);
    f = make_png(&(png){4000, 4000, 8, 2, NULL, 3, 0, 0, 0, 0}); /* promises what it lacks */
    CHECK_INT(load(&f, &i, &m, &e), GRAFT_E_FORMAT);
}

static int sample_files(blob out[5])
{
    static const char *const pixels[] = {"RG", "G.", ".R", "K."};
    static const int dispose[] = {1, 3, 2, 3};
    uint8_t px[8 * 8 * 4];
    for (int k = 0; k < 256; k++) px[k] = (uint8_t)(k * 37);
    blob t = tiff(false, 7);
    for (int k = 0; k < 5; k++) out[k].n = 0;
    stbi_write_jpg_to_func(sink, &out[0], 8, 8, 3, px, 80);
    out[1] = make_png(&(png){4, 3, 8, 6, px, 16, &t, NULL, NULL, 0});
    out[2] = make_gif(pixels, dispose, 4);
    out[3] =
        make_png(&(png){2, 2, 8, 3, (const uint8_t *)"\0\1\1\0", 2, 0, "\1\2\3\4\5\6", "\0\1", 2});
    stbi_write_bmp_to_func(sink, &out[4], 5, 5, 4, px);
    return 5;
}

/* What is wrong is said once, and in words that need no library's source. */
static void plain_words(void)
{
    static const struct {
        const char *bytes, *text;
        size_t size;
    } bad[] = {{"", "x: the file is empty", 0},
               {"hello", "x: not a picture of a known kind", 5},
               {"\x89PNG\r\n\x1a\n", "x: this PNG picture is damaged or cut off", 8},
               {"\xff\xd8\xff\xe0\0\x10JFIF", "x: this JPEG picture is damaged or cut off", 10},
               {"GIF89a", "x: this GIF picture is damaged or cut off", 6},
               {"8BPS\0\2\0\0\0\0\0\0", "x: a PSD picture of this version, which is not read", 12},
               {"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\1\0\0\0\1\7\0\0\0\0",
                "x: a PNG picture with this number of bits, which is not read", 29},
               {"RIFF\x10\0\0\0WEBPVP8 ", "x: this WebP picture is damaged or cut off", 16},
               {"\0\0\0\34ftypavif",
                "x: AVIF files are not read, only PNG, JPEG, WebP, BMP, GIF, TGA, PSD and PNM",
                12}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graft_decoded d;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(graft_decode((const uint8_t *)bad[i].bytes, bad[i].size, "x", &d, &e),
                  GRAFT_E_FORMAT);
        CHECK_STR(e.text, bad[i].text);
    }
}

#if defined(__SANITIZE_ADDRESS__)
enum { LARGE_PARTS = 0 }; /* it marks each byte of a gigabyte that nobody touches */
#else
enum { LARGE_PARTS = 1 };
#endif

/* Whether this byte makes a PNG's part far longer than the file: stb_image gets memory for it. */
static bool is_large_part(const blob *f, size_t at)
{
    for (size_t k = 8, n; f->b[0] == 0x89 && k + 12 <= f->n; k += 12 + n) {
        if (at == k || at == k + 1) return true;
        n = (size_t)f->b[k + 2] << 8 | f->b[k + 3];
    }
    return false;
}

/* Whether this byte says how large the picture is. */
static bool is_size(const blob *f, size_t at)
{
    bool jpeg = f->b[0] == 0xff;
    if (!LARGE_PARTS && is_large_part(f, at)) return true;
    for (size_t k = 0; jpeg && k + 9 <= at + 5 && k + 9 <= f->n; k++)
        if (f->b[k] == 0xff && f->b[k + 1] == 0xc0) return at >= k + 5 && at <= k + 8;
    return !jpeg && at >= 4 && at <= 24;
}

/* Every prefix, and random changes: an answer, no leak, nothing read outside. */
static void damaged_files(void)
{
    static blob files[5];
    int n = sample_files(files);
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    uint32_t r = 99;
    for (int k = 0; k < n; k++)
        for (size_t round = 0; round < files[k].n + 3000; round++) {
            size_t size = round < files[k].n ? round : files[k].n;
            uint8_t *copy = malloc(size ? size : 1);
            memcpy(copy, files[k].b, size);
            for (int j = 0; round >= files[k].n && j < 4; j++) {
                r = r * 1664525u + 1013904223u;
                /* Sizes stay small: a large picture is legal and only slow here. */
                size_t at = (r >> 8) % size;
                if (!is_size(&files[k], at)) copy[at] = (uint8_t)(r >> 24);
            }
            graft_decoded d;
            graft_err e = GRAFT_ERR_INIT;
            graft_status st = graft_decode(copy, size, "damaged", &d, &e);
            CHECK((st == 0) == (d.pixels != NULL));
            CHECK(!st || (strstr(e.text, "damaged") && !strstr(e.text, "stb")));
            graft_decoded_finish(&d);
            free(copy);
        }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

static void every_allocation_fails(void)
{
    static blob files[5];
    int n_files = sample_files(files);
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    for (int k = 0; k < 2 * n_files; k++) {
        const char *path = path_of(&files[k / 2]);
        graft_status st = GRAFT_E_NOMEM;
        for (int n = 1; n < 300 && st; n++) {
            graft_image *i = NULL, *m = NULL;
            graft_err e = GRAFT_ERR_INIT;
            graft_alloc_fail_at(n);
            st = k % 2 ? graft_image_load_mask(path, "alpha", &m, &e)
                       : graft_image_load(path, &i, &m, &e);
            graft_alloc_fail_at(0);
            CHECK(!st || (st == GRAFT_E_NOMEM && e.text[0] && !i && !m));
            if (st && st != GRAFT_E_NOMEM)
                fprintf(stderr, "  file %d, allocation %d: %s\n", k / 2, n, e.text);
            if (st && st != GRAFT_E_NOMEM) st = GRAFT_E_NOMEM;
            graft_image_release(i);
            graft_image_release(m);
        }
        CHECK_INT(st, 0);
        unlink(path);
    }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    RUN(orientations);
    RUN(damaged_exif);
    RUN(colour_types);
    RUN(animation);
    RUN(other_kinds);
    RUN(refused);
    RUN(plain_words);
    RUN(damaged_files);
    RUN(every_allocation_fails);
    return test_end();
}
