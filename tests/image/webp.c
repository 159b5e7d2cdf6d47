/* WebP files, made by libwebp's encoder and put into containers here, so that each part of them can
 * be wrong. */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include <webp/encode.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/webp.h"
#include "engine/engine.h"
#include "engine/image/decode.h"
#include "engine/image/exif.h"
#include "engine/image/image.h"
#include "host/serve/picture.h"
#include "tests/test.h"

#define HOW(ms, lossless, quality, method)                                                         \
    {                                                                                              \
        ms, lossless, quality, method, NULL, NULL                                                  \
    }
enum { ANIMATED = 2, EXIF = 8, ALPHA = 16 }; /* flags of the first chunk */

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

static void put_le(blob *f, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) put(f, &(uint8_t){(uint8_t)(v >> 8 * i)}, 1);
}

static void chunk(blob *f, const char *name, const void *p, size_t n)
{
    put(f, name, 4);
    put_le(f, (uint32_t)n, 4);
    put(f, p, n);
    if (n % 2) put(f, "", 1);
}

/* The pixels of a test: all different, with alphas from 0 on. */
static void paint(uint8_t *rgba, int pixels)
{
    for (int i = 0; i < 4 * pixels; i++)
        rgba[i] = (uint8_t)(i % 4 == 3 ? i / 4 * 51 % 256 : i * 37 + 1);
}

/* quality: that of a lossy picture, or -1. */
static blob encode(const uint8_t *rgba, int w, int h, bool alpha, int quality)
{
    blob f = {.n = 0};
    uint8_t *bytes = NULL, *rgb = malloc((size_t)(3 * w * h));
    for (int i = 0; i < w * h; i++) memcpy(rgb + 3 * i, rgba + 4 * i, 3);
    size_t n = quality < 0 && alpha ? WebPEncodeLosslessRGBA(rgba, w, h, 4 * w, &bytes)
               : quality < 0        ? WebPEncodeLosslessRGB(rgb, w, h, 3 * w, &bytes)
               : alpha              ? WebPEncodeRGBA(rgba, w, h, 4 * w, (float)quality, &bytes)
                                    : WebPEncodeRGB(rgb, w, h, 3 * w, (float)quality, &bytes);
    CHECK(n > 12);
    put(&f, bytes, n);
    WebPFree(bytes);
    free(rgb);
    return f;
}

static blob begin(int w, int h, int flags)
{
    blob f = {.n = 0};
    put(&f, "RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0", 20);
    put_le(&f, (uint32_t)flags, 4);
    put_le(&f, (uint32_t)w - 1, 3), put_le(&f, (uint32_t)h - 1, 3);
    return f;
}

static void end(blob *f)
{
    blob size = {.n = 0};
    put_le(&size, (uint32_t)f->n - 8, 4);
    memcpy(f->b + 4, size.b, 4);
}

static blob with_exif(const blob *still, int w, int h, int flags, const void *exif, size_t n)
{
    blob f = begin(w, h, flags);
    put(&f, still->b + 12, still->n - 12);
    chunk(&f, "note", "odd", 3);
    chunk(&f, "EXIF", exif, n);
    end(&f);
    return f;
}

/* One frame of an animation; drawn over what was there, or in place of it. */
static void put_frame(blob *f, const blob *still, int x, int y, int w, int h, bool over)
{
    blob a = {.n = 0};
    put_le(&a, (uint32_t)x / 2, 3), put_le(&a, (uint32_t)y / 2, 3);
    put_le(&a, (uint32_t)w - 1, 3), put_le(&a, (uint32_t)h - 1, 3);
    put_le(&a, 100, 3), put_le(&a, over ? 0 : 2, 1);
    put(&a, still->b + 12, still->n - 12);
    chunk(f, "ANMF", a.b, a.n);
}

/* 4x2: red; then a green pixel at (2,0); then transparent blue in place of the right half. */
static blob animation(void)
{
    uint8_t red[32], green[4] = {0, 255, 0, 255}, blue[16];
    for (int i = 0; i < 8; i++) memcpy(red + 4 * i, "\377\0\0\377", 4);
    for (int i = 0; i < 4; i++) memcpy(blue + 4 * i, "\0\0\377\63", 4);
    blob f = begin(4, 2, ANIMATED | ALPHA);
    blob a = encode(red, 4, 2, false, -1), b = encode(green, 1, 1, false, -1);
    blob c = encode(blue, 2, 2, true, -1);
    chunk(&f, "ANIM", "\xff\xff\xff\xff\0\0", 6);
    put_frame(&f, &a, 0, 0, 4, 2, false);
    put_frame(&f, &b, 2, 0, 1, 1, true);
    put_frame(&f, &c, 2, 0, 2, 2, false);
    end(&f);
    return f;
}

static graft_status load(const blob *f, graft_image **out, graft_image **mask, graft_err *e)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/graft_webp_%ld.webp", (long)getpid());
    CHECK_OK(graft_file_write(path, f->b, f->n, e), e);
    graft_status st = graft_image_load(path, out, mask, e);
    unlink(path);
    return st;
}

static void lossless_is_exact(void)
{
    uint8_t rgba[4 * 5 * 3];
    paint(rgba, 15);
    for (int alpha = 0; alpha < 2; alpha++) {
        blob f = encode(rgba, 5, 3, alpha, -1);
        graft_image *i = NULL, *m = NULL;
        graft_err e = GRAFT_ERR_INIT;
        int64_t s[4];
        CHECK_OK(load(&f, &i, &m, &e), &e);
        if (!i) continue;
        const float *d = graft_image_data(i, s);
        CHECK(s[0] == 1 && s[1] == 3 && s[2] == 5 && s[3] == 3);
        for (int k = 0; k < 15; k++) /* the encoder may change a colour that nobody sees */
            for (int c = 0; c < 3 && (!alpha || rgba[4 * k + 3]); c++)
                CHECK(d[3 * k + c] == (float)rgba[4 * k + c] / 255.0f);
        d = graft_image_data(m, s);
        CHECK(s[1] == (alpha ? 3 : 64) && s[2] == (alpha ? 5 : 64));
        for (int k = 0; k < 15; k++)
            CHECK(d[k] == (alpha ? 1.0f - (float)rgba[4 * k + 3] / 255.0f : 0));
        graft_image_release(i), graft_image_release(m);
    }
}

static void lossy_is_near(void)
{
    uint8_t rgba[4 * 16 * 16];
    for (int k = 0; k < 256; k++)
        memcpy(rgba + 4 * k, (const uint8_t[]){(uint8_t)k, 128, (uint8_t)(255 - k), (uint8_t)k}, 4);
    for (int alpha = 0; alpha < 2; alpha++) {
        blob f = encode(rgba, 16, 16, alpha, 95);
        graft_decoded d;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_decode(f.b, f.n, "x", &d, &e), &e);
        CHECK(d.width == 16 && d.height == 16 && d.frames == 1 && d.bits == 8);
        CHECK_INT(d.channels, 3 + alpha);
        const uint8_t *p = d.pixels;
        for (int k = 64; p && k < 256; k++) { /* what is nearly transparent may have any colour */
            for (int c = 0; c < 3; c++) CHECK_NEAR(p[k * d.channels + c], rgba[4 * k + c], 24);
            if (alpha) CHECK_INT(p[4 * k + 3], rgba[4 * k + 3]);
        }
        graft_decoded_finish(&d);
    }
}

static void every_frame_is_loaded(void)
{
    blob f = animation();
    graft_image *i = NULL, *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(load(&f, &i, &m, &e), &e);
    if (!i) return;
    const float *d = graft_image_data(i, s);
    CHECK(s[0] == 3 && s[1] == 2 && s[2] == 4 && s[3] == 3);
    CHECK(d[0] == 1 && d[1] == 0 && d[2] == 0);
    d += 24;
    CHECK(d[3] == 1 && d[6] == 0 && d[7] == 1 && d[9] == 1 && d[18] == 1);
    d += 24;
    CHECK(d[3] == 1 && d[6] == 0 && d[7] == 0 && d[8] == 1 && d[21] == 0 && d[23] == 1);
    d = graft_image_data(m, s);
    CHECK(s[0] == 3 && s[1] == 2 && s[2] == 4);
    CHECK(d[0] == 0 && d[8 + 2] == 0 && d[16 + 1] == 0);
    CHECK_NEAR(d[16 + 2], 0.8, 1e-6);
    graft_image_release(i), graft_image_release(m);
    f.b[20] = ANIMATED; /* says that it is opaque */
    CHECK_OK(load(&f, &i, &m, &e), &e);
    graft_image_data(m, s);
    CHECK(s[0] == 3 && s[1] == 64);
    graft_image_release(i), graft_image_release(m);
}

static void exif_turns_it_upright(void)
{
    static const uint8_t little[] = "II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0";
    static const uint8_t big[] = "Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0";
    uint8_t rgba[4 * 3];
    paint(rgba, 3);
    blob still = encode(rgba, 3, 1, false, -1);
    CHECK_INT(graft_exif_orientation(still.b, still.n), 1);
    for (int k = 0; k < 2; k++) {
        blob f = with_exif(&still, 3, 1, EXIF, k ? big : little, k ? sizeof big : sizeof little);
        CHECK_INT(graft_exif_orientation(f.b, f.n), 6);
        for (size_t n = 0; n < f.n; n++) {
            uint8_t *cut = malloc(n + 1);
            memcpy(cut, f.b, n);
            CHECK_INT(graft_exif_orientation(cut, n), 1);
            free(cut);
        }
        graft_image *i = NULL;
        graft_err e = GRAFT_ERR_INIT;
        int64_t s[4];
        CHECK_OK(load(&f, &i, NULL, &e), &e);
        const float *d = i ? graft_image_data(i, s) : NULL;
        CHECK(d && s[1] == 3 && s[2] == 1 && d[3] == (float)rgba[4] / 255.0f);
        graft_image_release(i);
        f.b[20] = 0; /* the decoder does not look for a chunk that is not announced */
        CHECK_INT(graft_exif_orientation(f.b, f.n), 1);
    }
}

static int sample_files(blob out[5])
{
    uint8_t rgba[4 * 8 * 8];
    paint(rgba, 64);
    out[0] = encode(rgba, 8, 8, true, -1);
    out[1] = encode(rgba, 8, 8, false, 80);
    out[2] = encode(rgba, 8, 8, true, 80);
    out[3] = animation();
    out[4] = with_exif(&out[0], 8, 8, EXIF | ALPHA, "MM\0*", 4);
    return 5;
}

static void decode_both(const uint8_t *bytes, size_t size, bool whole)
{
    graft_decoded d;
    graft_picture p;
    graft_err e = GRAFT_ERR_INIT;
    uint8_t *copy = malloc(size + !size);
    memcpy(copy, bytes, size);
    graft_status st = graft_decode(copy, size, "damaged", &d, &e);
    CHECK((st == 0) == (d.pixels != NULL) && (whole || st == GRAFT_E_FORMAT));
    CHECK(!st || strstr(e.text, "damaged"));
    graft_decoded_finish(&d);
    st = graft_picture_read(copy, size, &p, &e);
    CHECK((st == 0) == (p.rgba != NULL) && (whole || st == GRAFT_E_FORMAT));
    graft_picture_finish(&p);
    free(copy);
}

/* Every prefix, and random changes: an answer, no leak, nothing read outside. */
static void damaged_files(void)
{
    static blob files[5];
    int n = sample_files(files);
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    for (int k = 0; k < n; k++) {
        uint32_t r = 7;
        decode_both(files[k].b, files[k].n, true);
        for (size_t size = 0; size < files[k].n; size++) decode_both(files[k].b, size, false);
        for (int round = 0; round < 3000; round++) {
            blob f = files[k];
            for (int j = 0; j < 3; j++) {
                r = r * 1664525u + 1013904223u;
                /* Sizes stay small: a large picture is legal and only slow here. */
                size_t at = 30 + (r >> 8) % (f.n - 30);
                f.b[at] = (uint8_t)(r >> 24);
            }
            decode_both(f.b, f.n, true);
        }
    }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

static void large_ones_are_refused(void)
{
    static const int sides[][3] = {
        {16385, 1, 1}, {1, 16385, 1}, {1 << 24, 128, 1}, {16384, 16384, 2}};
    uint8_t rgba[4] = {1, 2, 3, 4};
    blob still = encode(rgba, 1, 1, true, -1);
    graft_decoded d;
    graft_err e = GRAFT_ERR_INIT;
    for (int k = 0; k < 4; k++) {
        blob f = begin(sides[k][0], sides[k][1], ANIMATED | ALPHA);
        chunk(&f, "ANIM", "\0\0\0\0\0\0", 6);
        for (int j = 0; j < sides[k][2]; j++) put_frame(&f, &still, 0, 0, 1, 1, false);
        end(&f);
        CHECK_INT(graft_decode(f.b, f.n, "x", &d, &e), GRAFT_E_LIMIT);
        CHECK(!d.pixels && strstr(e.text, k < 3 ? "16384" : "268435456"));
    }
    blob f = begin(1, 1, ANIMATED | ALPHA), frame = {.n = 0};
    chunk(&f, "ANIM", "\0\0\0\0\0\0", 6);
    put_frame(&frame, &still, 0, 0, 1, 1, false);
    const size_t count = 16385, size = f.n + count * frame.n;
    uint8_t *many = malloc(size);
    memcpy(many, f.b, f.n);
    for (size_t k = 0; k < count; k++) memcpy(many + f.n + k * frame.n, frame.b, frame.n);
    for (int k = 0; k < 4; k++) many[4 + k] = (uint8_t)((size - 8) >> (8 * k));
    CHECK_INT(graft_decode(many, size, "x", &d, &e), GRAFT_E_LIMIT);
    CHECK_STR(e.text, "x: more than 16384 frames");
    free(many);
}

static void every_allocation_fails(void)
{
    static blob files[5];
    int n = sample_files(files);
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    for (int k = 0; k < n; k++) {
        graft_status st = GRAFT_E_NOMEM;
        for (int at = 1; at < 10 && st; at++) {
            graft_decoded d;
            graft_err e = GRAFT_ERR_INIT;
            graft_alloc_fail_at(at);
            st = graft_decode(files[k].b, files[k].n, "x", &d, &e);
            graft_alloc_fail_at(0);
            CHECK(!st || (st == GRAFT_E_NOMEM && e.text[0] && !d.pixels));
            graft_decoded_finish(&d);
        }
        CHECK_INT(st, 0);
    }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

/* The server's other forms of a picture: with alpha always, and of an animation the first frame. */
static void the_server_reads_them(void)
{
    static blob files[5];
    graft_picture p;
    graft_err e = GRAFT_ERR_INIT;
    sample_files(files);
    for (int k = 0; k < 5; k++) {
        CHECK_OK(graft_picture_read(files[k].b, files[k].n, &p, &e), &e);
        CHECK(p.width == (k == 3 ? 4 : 8) && p.height == (k == 3 ? 2 : 8));
        if (p.rgba && k == 1) CHECK(p.rgba[3] == 255);
        if (p.rgba && k == 2) CHECK(p.rgba[3] == 0 && p.rgba[7] == 51);
        if (p.rgba && k == 3) CHECK(memcmp(p.rgba, "\377\0\0\377", 4) == 0);
        graft_picture_finish(&p);
    }
    blob f = begin(32769, 1, ANIMATED);
    chunk(&f, "ANIM", "\0\0\0\0\0\0", 6);
    put_frame(&f, &files[1], 0, 0, 8, 8, false);
    end(&f);
    CHECK(graft_picture_read(f.b, f.n, &p, &e) != GRAFT_OK && !p.rgba);
}

/* ------------------------------------------------------------------ what is written */

/* What the file says at the first chunk of this name; NULL: nothing. */
static const uint8_t *chunk_at(const uint8_t *file, size_t size, const char *name)
{
    for (size_t i = 12; i + 8 < size; i++)
        if (memcmp(file + i, name, 4) == 0) return file + i + 8;
    return NULL;
}

static uint32_t little(const uint8_t *p, int bytes)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}

/* The texts as a reader of EXIF finds them, by rising tags. */
static void check_exif(const uint8_t *exif, const uint16_t *tag, const char *const *text, int n)
{
    CHECK(exif && memcmp(exif, "II*", 4) == 0 && little(exif + 4, 4) == 8);
    if (!exif) return;
    CHECK_INT(little(exif + 8, 2), n);
    for (int i = 0; i < n; i++) {
        const uint8_t *entry = exif + 10 + 12 * i;
        const uint32_t length = little(entry + 4, 4);
        CHECK_INT(little(entry, 2), tag[i]);
        CHECK_INT(little(entry + 2, 2), 2);
        CHECK_INT(length, strlen(text[i]) + 1);
        CHECK_STR((const char *)(length > 4 ? exif + little(entry + 8, 4) : entry + 8), text[i]);
    }
}

static void written(void)
{
    enum { WIDE = 9, HIGH = 7, FRAMES = 3, ALL = FRAMES * WIDE * HIGH * 4 };
    static const graft_webp_text texts[] = {
        {"prompt", "{\"1\": {}}"}, {"workflow", "[]"}, {"a", "1"}};
    static const uint16_t tags[] = {0x10e, 0x10f, 0x110};
    static const char *const values[] = {"a:1", "workflow:[]", "prompt:{\"1\": {}}"};
    uint8_t pixels[ALL], got[ALL], *file = NULL;
    graft_webp w;
    graft_err e = GRAFT_ERR_INIT;
    size_t size = 0;
    for (int channels = 3; channels <= 4; channels++) {
        const graft_webp from = {WIDE, HIGH, channels, FRAMES};
        const graft_webp_how how = HOW(250, true, 80, 4);
        const size_t n = (size_t)(FRAMES * WIDE * HIGH * channels);
        for (size_t i = 0; i < n; i++)
            pixels[i] = channels == 4 && i % 4 == 3 ? (i / 8 % 2 ? 255 : 90) : (uint8_t)(i * i + 1);
        CHECK_OK(graft_webp_encode(&from, &how, pixels, texts, 3, &file, &size, &e), &e);
        CHECK_OK(graft_webp_read(file, size, "made", &w, &e), &e);
        CHECK(w.width == WIDE && w.height == HIGH && w.frames == FRAMES);
        w.channels = channels;
        CHECK_OK(graft_webp_decode(file, size, "made", &w, got, &e), &e);
        CHECK(memcmp(got, pixels, n) == 0);
        const uint8_t *frame = chunk_at(file, size, "ANMF");
        CHECK(frame && little(frame + 12, 3) == 250);
        check_exif(chunk_at(file, size, "EXIF"), tags, values, 3);
        graft_free(file);
    }
    const graft_webp_how lossy = HOW(1, false, 10, 0);
    CHECK_OK(graft_webp_encode(&(graft_webp){WIDE, HIGH, 3, 1}, &lossy, pixels, NULL, 0, &file,
                               &size, &e),
             &e);
    CHECK_OK(graft_webp_read(file, size, "made", &w, &e), &e);
    CHECK(w.frames == 1 && !chunk_at(file, size, "EXIF"));
    graft_free(file);
}

static void check_text(const uint8_t *file, size_t size, const char *key, const char *want)
{
    char *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_webp_read_text(file, size, key, &text, &e), &e);
    CHECK_STR(text ? text : "(none)", want);
    graft_free(text);
}

static void texts_are_found(void)
{
    static const graft_webp_text texts[] = {
        {"prompt", "{\"1\": {}}"}, {"workflow", "[]"}, {"a", "1"}};
    /* A directory of one short and one long text, highest bytes first, below a mark. */
    static const uint8_t other[] =
        "RIFF\x4a\0\0\0WEBPXYZ \x01\0\0\0..EXIF\x30\0\0\0Exif\0\0MM\0*\0\0\0\x08"
        "\0\x02\x01\x0f\0\x02\0\0\0\x04"
        "B:2\0"
        "\x01\x10\0\x02\0\0\0\x06\0\0\0\x22long:x\0\0";
    const uint8_t pixels[3 * 4 * 4] = {0};
    uint8_t *file = NULL;
    size_t size = 0;
    char *text = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_webp_how how = HOW(250, true, 80, 4);
    CHECK_OK(graft_webp_encode(&(graft_webp){4, 4, 3, 1}, &how, pixels, texts, 3, &file, &size, &e),
             &e);
    for (int i = 0; i < 3; i++) check_text(file, size, texts[i].key, texts[i].value);
    check_text(file, size, "Workflow", "[]");
    CHECK_INT(graft_webp_read_text(file, size, "work", &text, &e), GRAFT_E_NOTFOUND);
    /* The last byte only makes the size even. */
    for (size_t cut = 0; cut + 1 < size; cut++) {
        uint8_t *part = graft_malloc(cut + 1);
        memcpy(part, file, cut);
        const graft_status st = graft_webp_read_text(part, cut, "workflow", &text, &e);
        CHECK(st == GRAFT_E_FORMAT || st == GRAFT_E_NOTFOUND);
        graft_free(part);
    }
    check_text(other, sizeof other - 1, "b", "2");
    check_text(other, sizeof other - 1, "long", "x");
    CHECK_INT(graft_webp_read_text(other, sizeof other - 1, "a", &text, &e), GRAFT_E_NOTFOUND);
    CHECK_INT(graft_webp_read_text(other + 1, sizeof other - 2, "b", &text, &e), GRAFT_E_FORMAT);
    CHECK(!text);
    graft_free(file);
}

static void not_written(void)
{
    static const struct {
        graft_webp w;
        graft_webp_how how;
    } bad[] = {
        {{0, 4, 3, 1}, HOW(100, true, 80, 4)},        {{16384, 1, 3, 1}, HOW(100, true, 80, 4)},
        {{2, 2, 1, 1}, HOW(100, true, 80, 4)},        {{2, 2, 3, 0}, HOW(100, true, 80, 4)},
        {{2, 2, 3, 1}, HOW(0, true, 80, 4)},          {{2, 2, 3, 1}, HOW(1 << 24, true, 80, 4)},
        {{2, 2, 3, 300}, HOW(16000000, true, 80, 4)}, {{2, 2, 3, 1}, HOW(100, true, 101, 4)},
        {{2, 2, 3, 1}, HOW(100, true, 80, 7)}};
    uint8_t pixels[16384 * 3] = {0}, *file = NULL;
    size_t size = 0;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(graft_webp_encode(&bad[i].w, &bad[i].how, pixels, NULL, 0, &file, &size, &e),
                  GRAFT_E_ARG);
    CHECK(!file);
}

int main(void)
{
    RUN(lossless_is_exact);
    RUN(lossy_is_near);
    RUN(every_frame_is_loaded);
    RUN(exif_turns_it_upright);
    RUN(damaged_files);
    RUN(large_ones_are_refused);
    RUN(every_allocation_fails);
    RUN(the_server_reads_them);
    RUN(written);
    RUN(texts_are_found);
    RUN(not_written);
    return test_end();
}
