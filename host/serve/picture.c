#include "host/serve/picture.h"

#include <string.h>

#include "base/alloc.h"
#include "base/jpeg.h"
#include "base/png.h"
#include "base/size.h"
#include "base/str.h"
#include "base/webp.h"

#define MAX_SIDE 32768

#if defined(__GNUC__)
/* Reported at the end of the file, so it stays off. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
static void *resize(void *p, size_t size)
{
    return graft_realloc(p, size, 1);
}
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_PIC
/* It reads behind pixels of 16 bits when it is asked for other channels than a PNM file has. */
#define STBI_NO_PNM
#define STBI_MAX_DIMENSIONS MAX_SIDE
/* Its JPEG decoder looks into tables that a damaged file never filled, and asserts what such a file
 * may well violate. */
#define STBI_ASSERT(x)     ((void)0)
#define STBI_MALLOC(n)     graft_calloc(1, n)
#define STBI_REALLOC(p, n) resize(p, n)
#define STBI_FREE(p)       graft_free(p)
#include <stb/stb_image.h>
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#define STBIW_MALLOC(n)     graft_malloc(n)
#define STBIW_REALLOC(p, n) resize(p, n)
#define STBIW_FREE(p)       graft_free(p)
#include <stb/stb_image_write.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

static void append(void *ctx, void *data, int size)
{
    graft_str_append(ctx, data, (size_t)size);
}

static graft_status encode(const uint8_t *rgb, int width, int height, int channels, int quality,
                           uint8_t **out, size_t *size, graft_err *e)
{
    graft_str bytes = GRAFT_STR_INIT;
    int ok = stbi_write_jpg_to_func(append, &bytes, width, height, channels, rgb, quality);
    *size = bytes.len;
    *out = (uint8_t *)graft_str_take(&bytes);
    graft_str_finish(&bytes);
    return ok && *out ? GRAFT_OK : graft_fail_nomem(e, "a picture");
}

graft_status graft_picture_preview(const graft_tensor *t, uint8_t **out, size_t *size, graft_err *e)
{
    if (t->ndim != 3 || t->shape[2] != 3 || t->dtype_code != 1 || t->dtype_bits != 8 ||
        t->shape[0] < 1 || t->shape[1] < 1 || t->shape[0] > MAX_SIDE || t->shape[1] > MAX_SIDE)
        return graft_fail(e, GRAFT_E_ARG, "a preview must be (H,W,3) bytes");
    int64_t longest = t->shape[0] > t->shape[1] ? t->shape[0] : t->shape[1];
    int64_t every = (longest + 511) / 512;
    int64_t h = (t->shape[0] + every - 1) / every, w = (t->shape[1] + every - 1) / every;
    uint8_t *rgb = graft_malloc_array((size_t)(h * w), 3);
    if (!rgb) return graft_fail_nomem(e, "a preview");
    const uint8_t *data = t->data;
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            for (int64_t c = 0; c < 3; c++)
                rgb[(y * w + x) * 3 + c] =
                    data[y * every * t->stride[0] + x * every * t->stride[1] + c * t->stride[2]];
    graft_status st = encode(rgb, (int)w, (int)h, 3, 90, out, size, e);
    graft_free(rgb);
    return st;
}

static graft_status read_webp(const uint8_t *data, size_t size, graft_picture *out, graft_err *e)
{
    graft_webp w;
    graft_status st = graft_webp_read(data, size, "the picture", &w, e);
    if (st) return st;
    if (w.width > MAX_SIDE || w.height > MAX_SIDE ||
        (int64_t)w.width * w.height > GRAFT_PICTURE_MAX_PIXELS)
        return graft_fail(e, GRAFT_E_LIMIT, "the picture is too large");
    w.channels = 4;
    w.frames = 1;
    uint8_t *rgba = graft_malloc_array((size_t)w.width * (size_t)w.height, 4);
    if (!rgba) return graft_fail_nomem(e, "a picture");
    st = graft_webp_decode(data, size, "the picture", &w, rgba, e);
    if (st)
        graft_free(rgba);
    else
        *out = (graft_picture){rgba, w.width, w.height};
    return st;
}

graft_status graft_picture_read(const uint8_t *data, size_t size, graft_picture *out, graft_err *e)
{
    int channels;
    memset(out, 0, sizeof *out);
    if (graft_webp_is(data, size)) return read_webp(data, size, out, e);
    if (size > INT32_MAX || !graft_jpeg_is_safe(data, size) ||
        !stbi_info_from_memory(data, (int)size, &out->width, &out->height, &channels))
        return graft_fail(e, GRAFT_E_FORMAT, "this is no picture that can be read");
    if ((int64_t)out->width * out->height > GRAFT_PICTURE_MAX_PIXELS)
        return graft_fail(e, GRAFT_E_LIMIT, "the picture is too large");
    out->rgba = stbi_load_from_memory(data, (int)size, &out->width, &out->height, &channels, 4);
    if (!out->rgba) return graft_fail(e, GRAFT_E_FORMAT, "the picture cannot be decoded");
    return GRAFT_OK;
}

void graft_picture_finish(graft_picture *p)
{
    graft_free(p->rgba);
    memset(p, 0, sizeof *p);
}

graft_status graft_picture_jpeg(const graft_picture *p, int quality, uint8_t **out, size_t *size,
                                graft_err *e)
{
    quality = quality < 1 ? 1 : quality > 100 ? 100 : quality;
    return encode(p->rgba, p->width, p->height, 4, quality, out, size, e);
}

graft_status graft_picture_png(const graft_picture *p, int channels, uint8_t **out, size_t *size,
                               graft_err *e)
{
    size_t n = (size_t)p->width * (size_t)p->height;
    uint8_t *pixels = p->rgba;
    if (channels == 3) {
        pixels = graft_malloc_array(n, 3);
        if (!pixels) return graft_fail_nomem(e, "a picture");
        for (size_t i = 0; i < n; i++) memcpy(pixels + 3 * i, p->rgba + 4 * i, 3);
    }
    graft_status st = graft_png_encode(pixels, (uint32_t)p->width, (uint32_t)p->height, channels, 1,
                                       NULL, 0, out, size, e);
    if (pixels != p->rgba) graft_free(pixels);
    return st;
}
