#include "engine/image/image.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/png.h"
#include "base/webp.h"
#include "base/size.h"
#include "engine/task.h"

#define ALIGN 64

struct graft_image {
    atomic_int refs;
    bool mask;
    int64_t shape[4];
    _Alignas(ALIGN) float data[];
};

static int64_t elements(const graft_image *i)
{
    return i->shape[0] * i->shape[1] * i->shape[2] * i->shape[3];
}

graft_status graft_image_create(const int64_t shape[4], bool mask, graft_image **out, graft_err *e)
{
    *out = NULL;
    for (int d = 0; d < 4; d++)
        if (shape[d] < 1)
            return graft_fail(e, GRAFT_E_ARG,
                              "a picture of %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                              " (batch, height, width, channels): each must be at least 1",
                              shape[0], shape[1], shape[2], shape[3]);
    if (shape[1] > GRAFT_IMAGE_MAX_SIDE || shape[2] > GRAFT_IMAGE_MAX_SIDE)
        return graft_fail(e, GRAFT_E_LIMIT,
                          "a picture of %" PRId64 " x %" PRId64 " pixels: at most %d per side",
                          shape[2], shape[1], GRAFT_IMAGE_MAX_SIDE);
    if (mask && shape[3] != 1)
        return graft_fail(e, GRAFT_E_ARG, "a mask has 1 channel, not %" PRId64, shape[3]);
    int64_t n;
    size_t bytes;
    if (!graft_size_product(shape, 4, &n) || !graft_size_mul((size_t)n, sizeof(float), &bytes) ||
        !graft_size_add(bytes, sizeof(graft_image), &bytes))
        return graft_fail(e, GRAFT_E_LIMIT, "a batch of %" PRId64 " pictures is too large",
                          shape[0]);
    graft_image *i = graft_malloc_aligned(ALIGN, bytes);
    if (!i) return graft_fail_nomem(e, "a picture");
    atomic_init(&i->refs, 1);
    i->mask = mask;
    memcpy(i->shape, shape, sizeof i->shape);
    *out = i;
    return GRAFT_OK;
}

float *graft_image_writable(graft_image *i)
{
    assert(atomic_load(&i->refs) == 1);
    return i->data;
}

graft_image *graft_image_retain(graft_image *i)
{
    if (i) atomic_fetch_add_explicit(&i->refs, 1, memory_order_relaxed);
    return i;
}

void graft_image_release(graft_image *i)
{
    if (i && atomic_fetch_sub_explicit(&i->refs, 1, memory_order_acq_rel) == 1) graft_free(i);
}

const float *graft_image_data(const graft_image *i, int64_t shape[4])
{
    if (shape) memcpy(shape, i->shape, sizeof i->shape);
    return i->data;
}

bool graft_image_is_mask(const graft_image *i)
{
    return i->mask;
}

graft_status graft_image_want_mask(const graft_image *i, graft_err *e)
{
    return i->mask ? GRAFT_OK : graft_fail(e, GRAFT_E_ARG, "this is a picture, not a mask");
}

graft_status graft_image_from_data(const float *data, const int64_t shape[4], bool mask,
                                   graft_image **out, graft_err *e)
{
    graft_status st = graft_image_create(shape, mask, out, e);
    if (st) return st;
    memcpy((*out)->data, data, (size_t)elements(*out) * sizeof(float));
    return GRAFT_OK;
}

graft_status graft_image_empty(int64_t width, int64_t height, int64_t batch, uint32_t rgb,
                               graft_image **out, graft_err *e)
{
    const int64_t shape[4] = {batch, height, width, 3};
    graft_status st = graft_image_create(shape, false, out, e);
    if (st) return st;
    const float colour[3] = {(float)(rgb >> 16 & 255) / 255.0f, (float)(rgb >> 8 & 255) / 255.0f,
                             (float)(rgb & 255) / 255.0f};
    int64_t n = elements(*out);
    for (int64_t k = 0; k < n; k++) (*out)->data[k] = colour[k % 3];
    return GRAFT_OK;
}

graft_status graft_image_invert(const graft_image *i, graft_image **out, graft_err *e)
{
    graft_status st = graft_image_create(i->shape, i->mask, out, e);
    if (st) return st;
    int64_t n = elements(i);
    for (int64_t k = 0; k < n; k++) (*out)->data[k] = 1.0f - i->data[k];
    return GRAFT_OK;
}

graft_status graft_mask_to_image(const graft_image *mask, graft_image **out, graft_err *e)
{
    *out = NULL;
    const int64_t shape[4] = {mask->shape[0], mask->shape[1], mask->shape[2], 3};
    graft_status st = graft_image_want_mask(mask, e);
    if (!st) st = graft_image_create(shape, false, out, e);
    if (st) return st;
    int64_t n = elements(mask);
    for (int64_t k = 0; k < n; k++)
        for (int c = 0; c < 3; c++) (*out)->data[3 * k + c] = mask->data[k];
    return GRAFT_OK;
}

graft_status graft_image_channel_parse(const char *name, int *out, graft_err *e)
{
    static const char *const names[] = {"red", "green", "blue", "alpha"};
    for (*out = 0; *out < 4; ++*out)
        if (strcmp(names[*out], name) == 0) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "channel \"%.40s\" is not one of \"red\", \"green\", \"blue\", \"alpha\"",
                      name);
}

graft_status graft_image_to_mask(const graft_image *i, const char *channel, graft_image **out,
                                 graft_err *e)
{
    int64_t channels = i->shape[3];
    int c;
    *out = NULL;
    graft_status st = graft_image_channel_parse(channel, &c, e);
    if (st) return st;
    if (c >= channels)
        return graft_fail(e, GRAFT_E_ARG, "the picture has %" PRId64 " channels and no %s",
                          channels, channel);
    const int64_t shape[4] = {i->shape[0], i->shape[1], i->shape[2], 1};
    st = graft_image_create(shape, true, out, e);
    if (st) return st;
    int64_t n = elements(*out);
    for (int64_t k = 0; k < n; k++) (*out)->data[k] = i->data[k * channels + c];
    return GRAFT_OK;
}

/* Not a number becomes 0. */
static uint8_t to_byte(float x)
{
    float v = 255.0f * x;
    return v >= 255.0f ? 255 : v > 0.0f ? (uint8_t)v : 0;
}

static uint16_t to_16_bits(float x)
{
    float v = 65535.0f * x;
    return v >= 65535.0f ? 65535 : v > 0.0f ? (uint16_t)lrintf(v) : 0;
}

static graft_status to_png(const graft_image *i, int64_t index, int bits, int level,
                           const char *const *text, uint8_t **out, size_t *size, graft_err *e)
{
    uint8_t *pixels = NULL;
    uint16_t *wide = NULL;
    graft_png_text *chunk = NULL;
    size_t n_text = 0, n = (size_t)(i->shape[1] * i->shape[2] * i->shape[3]);
    graft_status st = GRAFT_OK;
    *out = NULL;
    *size = 0;
    if (index < 0 || index >= i->shape[0])
        return graft_fail(e, GRAFT_E_ARG, "picture %" PRId64 " of a batch of %" PRId64, index,
                          i->shape[0]);
    if (i->shape[3] != 1 && i->shape[3] != 3 && i->shape[3] != 4)
        return graft_fail(e, GRAFT_E_ARG, "PNG holds 1, 3 or 4 channels, not %" PRId64,
                          i->shape[3]);
    while (text && text[2 * n_text]) n_text++;
    if (bits == 16)
        wide = graft_malloc_array(n, sizeof *wide);
    else
        pixels = graft_malloc(n);
    chunk = graft_malloc_array(n_text, sizeof *chunk);
    if ((!pixels && !wide) || !chunk) {
        st = graft_fail_nomem(e, "the pixels of a PNG file");
        goto out;
    }
    const float *from = i->data + (size_t)index * n;
    for (size_t k = 0; k < n && pixels; k++) pixels[k] = to_byte(from[k]);
    for (size_t k = 0; k < n && wide; k++) wide[k] = to_16_bits(from[k]);
    for (size_t k = 0; k < n_text; k++) chunk[k] = (graft_png_text){text[2 * k], text[2 * k + 1]};
    const uint32_t w = (uint32_t)i->shape[2], h = (uint32_t)i->shape[1];
    const int channels = (int)i->shape[3];
    if (wide)
        st = graft_png_encode16(wide, w, h, channels, level, chunk, n_text, out, size, e);
    else
        st = graft_png_encode(pixels, w, h, channels, level, chunk, n_text, out, size, e);
out:
    graft_free(chunk);
    graft_free(wide);
    graft_free(pixels);
    return st;
}

graft_status graft_image_to_png(const graft_image *i, int64_t index, int level,
                                const char *const *text, uint8_t **out, size_t *size, graft_err *e)
{
    return to_png(i, index, 8, level, text, out, size, e);
}

graft_status graft_image_to_png16(const graft_image *i, int64_t index, int level,
                                  const char *const *text, uint8_t **out, size_t *size,
                                  graft_err *e)
{
    return to_png(i, index, 16, level, text, out, size, e);
}

graft_status graft_image_to_apng(const graft_image *i, uint32_t milliseconds, int level,
                                 const char *const *text, const graft_task *task, uint8_t **out,
                                 size_t *size, graft_err *e)
{
    const size_t n = (size_t)i->shape[0];
    graft_png_bytes *picture = graft_calloc(n, sizeof *picture);
    graft_status st = picture ? GRAFT_OK : graft_fail_nomem(e, "an animated PNG");
    *out = NULL;
    *size = 0;
    for (size_t k = 0; k < n && !st; k++) {
        uint8_t *bytes = NULL;
        if (graft_task_cancelled(task)) {
            st = graft_fail(e, GRAFT_E_CANCEL, "cancelled");
            break;
        }
        st = graft_image_to_png(i, (int64_t)k, level, k ? NULL : text, &bytes, &picture[k].size, e);
        picture[k].data = bytes;
    }
    if (!st) st = graft_png_animate(picture, n, milliseconds, out, size, e);
    for (size_t k = 0; picture && k < n; k++) graft_free((void *)(uintptr_t)picture[k].data);
    graft_free(picture);
    return st;
}

/* All pictures, of so many channels. */
static uint8_t *bytes_of(const graft_image *i, int channels)
{
    const size_t own = (size_t)i->shape[3], n = (size_t)(i->shape[0] * i->shape[1] * i->shape[2]);
    uint8_t *pixels = graft_malloc_array(n, (size_t)channels);
    for (size_t k = 0; pixels && k < n; k++)
        for (size_t c = 0; c < (size_t)channels; c++)
            pixels[k * (size_t)channels + c] = to_byte(i->data[k * own + (own == 1 ? 0 : c)]);
    return pixels;
}

static bool stopped(void *task)
{
    return graft_task_cancelled(*(const graft_task **)task);
}

graft_status graft_image_to_webp(const graft_image *i, const graft_webp_options *options,
                                 const char *const *text, const graft_task *task, uint8_t **out,
                                 size_t *size, graft_err *e)
{
    const graft_webp_how how = {options->milliseconds, options->lossless, options->quality,
                                options->method,       stopped,           &task};
    size_t n = 0;
    *out = NULL;
    *size = 0;
    while (text && text[2 * n]) n++;
    if (i->shape[3] != 1 && i->shape[3] != 3 && i->shape[3] != 4)
        return graft_fail(e, GRAFT_E_ARG, "WebP holds 1, 3 or 4 channels, not %" PRId64,
                          i->shape[3]);
    if (i->shape[1] > INT32_MAX || i->shape[2] > INT32_MAX)
        return graft_fail(e, GRAFT_E_ARG, "WebP: the pictures are too large");
    const graft_webp w = {(int)i->shape[2], (int)i->shape[1], i->shape[3] == 4 ? 4 : 3,
                          i->shape[0]};
    uint8_t *pixels = bytes_of(i, w.channels);
    graft_webp_text *texts = graft_malloc_array(n ? n : 1, sizeof *texts);
    for (size_t k = 0; texts && k < n; k++)
        texts[k] = (graft_webp_text){text[2 * k], text[2 * k + 1]};
    graft_status st = pixels && texts ? graft_webp_encode(&w, &how, pixels, texts, n, out, size, e)
                                      : graft_fail_nomem(e, "an animated WebP");
    graft_free(pixels);
    graft_free(texts);
    return st;
}

void graft_bytes_free(uint8_t *bytes)
{
    graft_free(bytes);
}
