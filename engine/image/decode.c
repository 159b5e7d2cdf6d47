#include "engine/image/decode.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/jpeg.h"
#include "base/webp.h"
#include "engine/image/image.h"

/* stb_image forgets here and there that an allocation failed, and then reports a damaged file or
 * tries the next format. It passes no context along, so the note is kept per thread; each call of
 * graft_decode() begins with a clean one. */
static _Thread_local bool memory_short;

static void *noted(void *p)
{
    if (!p) memory_short = true;
    return p;
}

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_PIC
#define STBI_MAX_DIMENSIONS GRAFT_IMAGE_MAX_SIDE
/* Its JPEG decoder looks into tables that a damaged file never filled, and asserts what such a file
 * may well violate. */
#define STBI_ASSERT(x)                   ((void)0)
#define STBI_MALLOC(size)                noted(graft_calloc(1, (size)))
#define STBI_REALLOC_SIZED(p, old, size) noted(graft_realloc((p), 1, (size)))
#define STBI_REALLOC(p, size)            noted(graft_realloc((p), 1, (size)))
#define STBI_FREE(p)                     graft_free(p)
/* GCC reports unused functions at the end of the file, so this is not popped. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>

/* What begins like this is one of those; `at` bytes into the file. */
static const struct kind {
    const char *begins, *name;
    size_t at;
    bool read;
} kinds[] = {{"\x89PNG", "PNG", 0, true},
             {"\xff\xd8\xff", "JPEG", 0, true},
             {"GIF8", "GIF", 0, true},
             {"8BPS", "PSD", 0, true},
             {"P5", "PNM", 0, true},
             {"P6", "PNM", 0, true},
             {"BM", "BMP", 0, true},
             {"ftypavif", "AVIF", 4, false},
             {"ftypavis", "AVIF", 4, false},
             {"ftyphe", "HEIC", 4, false},
             {"ftypmif1", "HEIF", 4, false},
             {"ftypmsf1", "HEIF", 4, false},
             {"JXL \r\n\x87\n", "JPEG XL", 4, false},
             {"\xff\x0a", "JPEG XL", 0, false},
             {"II*", "TIFF", 0, false},
             {"MM\0*", "TIFF", 0, false},
             {"<svg", "SVG", 0, false},
             {"<?xml", "SVG or XML", 0, false}};

static const struct kind *kind_of(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct kind *k = &kinds[i];
        size_t n = k->begins[0] == 'M' ? 4 : strlen(k->begins); /* one holds a zero byte */
        if (size >= k->at + n && memcmp(bytes + k->at, k->begins, n) == 0) return k;
    }
    return NULL;
}

const char *graft_decode_unread(const uint8_t *bytes, size_t size)
{
    const struct kind *kind = kind_of(bytes, size);
    return kind && !kind->read ? kind->name : NULL;
}

/* What a whole file may have that is not read; all other reasons are damage. */
static const char *not_read(const char *reason)
{
    static const struct {
        const char *reason, *plain;
    } known[] = {{"1/2/4/8/16-bit only", "with this number of bits"},
                 {"bad bits_per_channel", "with this number of bits"},
                 {"unsupported bit depth", "with this number of bits"},
                 {"only 8-bit", "with more than 8 bits"},
                 {"max value > 65535", "with more than 16 bits"},
                 {"no header height", "whose height comes late"},
                 {"BMP RLE", "that is compressed"},
                 {"BMP JPEG/PNG", "that is compressed"},
                 {"unknown BMP", "of this version"},
                 {"wrong version", "of this version"},
                 {"wrong channel count", "with so many channels"},
                 {"wrong color format", "whose colours are not RGB"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(reason, known[i].reason) == 0) return known[i].plain;
    return strstr(reason, "chunk not known") ? "with chunks that must be known" : NULL;
}

static graft_status too_wide(const char *what, graft_err *e)
{
    return graft_fail(e, GRAFT_E_LIMIT, "%s: wider or taller than %d pixels", what,
                      GRAFT_IMAGE_MAX_SIDE);
}

static graft_status too_many(const char *what, graft_err *e)
{
    return graft_fail(e, GRAFT_E_LIMIT, "%s: more than %" PRId64 " pixels in all frames", what,
                      GRAFT_IMAGE_MAX_PIXELS);
}

static graft_status stb_failed(const stbi__context *s, const char *what, graft_err *e)
{
    const uint8_t *bytes = s->img_buffer_original;
    const char *reason = stbi_failure_reason();
    const struct kind *kind = kind_of(bytes, (size_t)(s->img_buffer_original_end - bytes));
    if (!reason) reason = "";
    if (memory_short) return graft_fail_nomem(e, what);
    if (strcmp(reason, "too large") == 0) return too_wide(what, e);
    if (kind && !kind->read)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: %s files are not read, only " GRAFT_IMAGE_KINDS,
                          what, kind->name);
    if (kind && not_read(reason))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: a %s picture %s, which is not read", what,
                          kind->name, not_read(reason));
    if (kind)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: this %s picture is damaged or cut off", what,
                          kind->name);
    if (strcmp(reason, "unknown image type") == 0)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: not a picture of a known kind", what);
    return graft_fail(e, GRAFT_E_FORMAT, "%s: damaged, or not a picture of a known kind", what);
}

/* Frames are decoded as RGBA; those of a GIF that is opaque everywhere become RGB, in place. */
static int drop_opaque_alpha(stbi_uc *p, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++)
        if (p[4 * i + 3] != 255) return 4;
    for (int64_t i = 0; i < pixels; i++) memmove(p + 3 * i, p + 4 * i, 3);
    return 3;
}

/* A frame may be a gigabyte, and most files have one: room for no more than that at first. */
static bool room_for_frame(stbi_uc **frames, size_t *cap, size_t n, size_t stride)
{
    size_t count = n ? 2 * n : 1;
    stbi_uc *grown;
    if (n < *cap) return true;
    if (!(grown = graft_realloc(*frames, count, stride))) return false;
    *frames = grown;
    *cap = count;
    return true;
}

/* stb_image's own loop over frames reads before its buffer when a frame asks to restore the one
 * before the last (dispose 3), so the frames are stepped through here. */
static graft_status decode_gif(stbi__context *s, const char *what, graft_decoded *out, graft_err *e)
{
    stbi__gif *gif = graft_calloc(1, sizeof *gif);
    stbi_uc *frames = NULL;
    size_t stride = 0, cap = 0;
    int64_t n = 0;
    int channels;
    graft_status st = gif ? GRAFT_OK : graft_fail_nomem(e, what);
    while (!st) {
        stbi_uc *two_back = n >= 2 ? frames + (size_t)(n - 2) * stride : NULL;
        stbi__g_failure_reason = NULL;
        stbi_uc *u = stbi__gif_load_next(s, gif, &channels, 4, two_back);
        if (u == (stbi_uc *)s) break; /* the end mark */
        if (!u) {
            /* A cut file still shows the frames before the cut. */
            if (n == 0 || memory_short) st = stb_failed(s, what, e);
            break;
        }
        stride = (size_t)gif->w * (size_t)gif->h * 4;
        if ((int64_t)(stride / 4) * (n + 1) > GRAFT_IMAGE_MAX_PIXELS)
            st = too_many(what, e);
        else if (!room_for_frame(&frames, &cap, (size_t)n, stride))
            st = graft_fail_nomem(e, what);
        else
            memcpy(frames + (size_t)n++ * stride, u, stride);
    }
    if (!st && n == 0) st = graft_fail(e, GRAFT_E_FORMAT, "%s: a GIF file without a picture", what);
    if (!st) {
        channels = drop_opaque_alpha(frames, n * gif->w * gif->h);
        *out = (graft_decoded){gif->w, gif->h, channels, 8, n, frames};
    }
    if (st) graft_free(frames);
    if (gif) {
        graft_free(gif->out);
        graft_free(gif->background);
        graft_free(gif->history);
    }
    graft_free(gif);
    return st;
}

static graft_status decode_webp(const uint8_t *bytes, size_t size, const char *what,
                                graft_decoded *out, graft_err *e)
{
    graft_webp w;
    graft_status st = graft_webp_read(bytes, size, what, &w, e);
    if (st) return st;
    if (w.width > GRAFT_IMAGE_MAX_SIDE || w.height > GRAFT_IMAGE_MAX_SIDE) return too_wide(what, e);
    const int64_t pixels = (int64_t)w.width * w.height;
    if (w.frames > GRAFT_IMAGE_MAX_PIXELS / pixels) return too_many(what, e);
    uint8_t *p = graft_malloc_array((size_t)(pixels * w.frames), (size_t)w.channels);
    if (!p) return graft_fail_nomem(e, what);
    st = graft_webp_decode(bytes, size, what, &w, p, e);
    if (st)
        graft_free(p);
    else
        *out = (graft_decoded){w.width, w.height, w.channels, 8, w.frames, p};
    return st;
}

graft_status graft_decode(const uint8_t *bytes, size_t size, const char *what, graft_decoded *out,
                          graft_err *e)
{
    *out = (graft_decoded){0};
    if (!size) return graft_fail(e, GRAFT_E_FORMAT, "%s: the file is empty", what);
    if (size > INT_MAX) return graft_fail(e, GRAFT_E_LIMIT, "%s: a file of over 2 GiB", what);
    if (graft_webp_is(bytes, size)) return decode_webp(bytes, size, what, out, e);
    if (!graft_jpeg_is_safe(bytes, size))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: a JPEG file with an impossible table", what);
    const int n = (int)size;
    stbi__context s;
    memory_short = false;
    stbi__start_mem(&s, bytes, n);
    if (stbi__gif_test(&s)) return decode_gif(&s, what, out, e);
    int w, h, c;
    stbi__g_failure_reason = NULL;
    const bool deep = stbi_is_16_bit_from_memory(bytes, n);
    void *p = deep ? (void *)stbi_load_16_from_memory(bytes, n, &w, &h, &c, 0)
                   : (void *)stbi_load_from_memory(bytes, n, &w, &h, &c, 0);
    if (!p || memory_short) { /* a whole picture could still have been taken for a shallow one */
        graft_free(p);
        return stb_failed(&s, what, e);
    }
    *out = (graft_decoded){w, h, c, deep ? 16 : 8, 1, p};
    return GRAFT_OK;
}

void graft_decoded_finish(graft_decoded *d)
{
    graft_free(d->pixels);
    *d = (graft_decoded){0};
}
