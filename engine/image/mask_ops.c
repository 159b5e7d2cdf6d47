/* Masks made, changed and combined, for nodes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/image/weight.h"

/* A mask of the same size; *src: what it is made of, with this shape. */
static graft_status begin(const graft_image *mask, const float **src, int64_t shape[4],
                          graft_image **out, graft_err *e)
{
    *out = NULL;
    graft_status st = graft_image_want_mask(mask, e);
    *src = graft_image_data(mask, shape);
    return st ? st : graft_image_create(shape, true, out, e);
}

graft_status graft_mask_solid(int64_t width, int64_t height, double value, graft_image **out,
                              graft_err *e)
{
    const int64_t shape[4] = {1, height, width, 1};
    graft_status st = graft_image_create(shape, true, out, e);
    if (st) return st;
    float *dst = graft_image_writable(*out);
    for (int64_t i = 0; i < height * width; i++) dst[i] = (float)value;
    return GRAFT_OK;
}

graft_status graft_mask_threshold(const graft_image *mask, double value, graft_image **out,
                                  graft_err *e)
{
    int64_t shape[4];
    const float *src;
    graft_status st = begin(mask, &src, shape, out, e);
    if (st) return st;
    float *dst = graft_image_writable(*out), limit = (float)value;
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; i++) dst[i] = src[i] > limit ? 1 : 0;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ growing */

static float extreme(float a, float b, bool largest)
{
    return largest == (b > a) ? b : a;
}

/* The extremes of three neighbours in lines of n values, `step` apart. */
static void along(const float *src, float *dst, int64_t n, int64_t step, bool largest)
{
    for (int64_t i = 0; i < n; i++) {
        float v = src[i * step];
        if (i) v = extreme(v, src[(i - 1) * step], largest);
        if (i + 1 < n) v = extreme(v, src[(i + 1) * step], largest);
        dst[i * step] = v;
    }
}

/* One pixel in each direction: rows into `part`, then columns, of which a diamond takes those of
 * the old values. Returns whether anything changed. */
static bool grow_one(const float *src, float *part, float *dst, const int64_t shape[4],
                     bool tapered, bool largest)
{
    int64_t h = shape[1], w = shape[2], n = shape[0] * h * w;
    bool changed = false;
    for (int64_t y = 0; y < shape[0] * h; y++) along(src + y * w, part + y * w, w, 1, largest);
    for (int64_t p = 0; p < shape[0]; p++)
        for (int64_t x = 0; x < w; x++)
            along((tapered ? src : part) + p * h * w + x, dst + p * h * w + x, h, w, largest);
    for (int64_t i = 0; i < n; i++) {
        if (tapered) dst[i] = extreme(dst[i], part[i], largest);
        changed = changed || dst[i] != src[i];
    }
    return changed;
}

graft_status graft_mask_expand(const graft_image *mask, int64_t pixels, bool tapered,
                               const graft_task *task, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    const float *src;
    graft_image *r = NULL;
    *out = NULL;
    if (pixels < -GRAFT_IMAGE_MAX_SIDE || pixels > GRAFT_IMAGE_MAX_SIDE)
        return graft_fail(e, GRAFT_E_ARG, "a mask cannot grow by %" PRId64 " pixels", pixels);
    graft_status st = begin(mask, &src, shape, &r, e);
    if (st) return st;
    int64_t left = pixels < 0 ? -pixels : pixels;
    size_t n = (size_t)(shape[0] * shape[1] * shape[2]);
    float *now = graft_malloc_array(n, sizeof *now), *part = graft_malloc_array(n, sizeof *part);
    float *dst = graft_image_writable(r);
    if (!now || !part) {
        st = graft_fail_nomem(e, "a mask");
        goto out;
    }
    memcpy(dst, src, n * sizeof *dst);
    for (bool changed = true; left > 0 && changed; left--) {
        if (task && task->cancelled && task->cancelled(task->ctx)) {
            st = graft_fail(e, GRAFT_E_CANCEL, "cancelled");
            goto out;
        }
        memcpy(now, dst, n * sizeof *now);
        changed = grow_one(now, part, dst, shape, tapered, pixels > 0);
    }
    *out = r;
    r = NULL;
out:
    graft_image_release(r);
    graft_free(now);
    graft_free(part);
    return st;
}

/* ------------------------------------------------------------------ feathering, combining */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

graft_status graft_mask_feather(const graft_image *mask, const int64_t sides[4], graft_image **out,
                                graft_err *e)
{
    int64_t shape[4];
    const float *src;
    graft_status st = begin(mask, &src, shape, out, e);
    if (st) return st;
    const int64_t h = shape[1], w = shape[2];
    const int64_t fades[4] = {least(sides[0], w), least(sides[1], h), least(sides[2], w),
                              least(sides[3], h)};
    float *dst = graft_image_writable(*out);
    for (int64_t y = 0; y < shape[0] * h; y++) {
        float row = (float)graft_weight_fade(y % h, h, fades[1], fades[3]);
        for (int64_t x = 0; x < w; x++)
            *dst++ = *src++ * row * (float)graft_weight_fade(x, w, fades[0], fades[2]);
    }
    return GRAFT_OK;
}

typedef enum operation { MULTIPLY, ADD, SUBTRACT, AND, OR, XOR, OPERATIONS } operation;

static graft_status parse(const char *name, operation *out, graft_err *e)
{
    static const char *const names[] = {"multiply", "add", "subtract", "and", "or", "xor"};
    for (int i = 0; i < OPERATIONS; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (operation)i;
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_ARG, "masks cannot be combined by \"%.40s\"", name);
}

static float meet(operation how, float a, float b)
{
    bool x = rintf(a) != 0, y = rintf(b) != 0;
    switch (how) {
    case MULTIPLY:
        return graft_weight_clip((double)a * b);
    case ADD:
        return graft_weight_clip((double)a + b);
    case SUBTRACT:
        return graft_weight_clip((double)a - b);
    case AND:
        return x && y;
    case OR:
        return x || y;
    default:
        return x != y;
    }
}

graft_status graft_mask_combine(const graft_image *destination, const graft_image *source,
                                int64_t x, int64_t y, const char *name, graft_image **out,
                                graft_err *e)
{
    int64_t shape[4], from[4];
    const float *src;
    operation how = OPERATIONS;
    *out = NULL;
    graft_status st = parse(name, &how, e);
    if (!st) st = graft_image_want_mask(source, e);
    if (!st && (x < 0 || y < 0))
        st = graft_fail(e, GRAFT_E_ARG, "%" PRId64 ", %" PRId64 " is outside", x, y);
    if (!st) st = begin(destination, &src, shape, out, e);
    if (st) return st;
    const float *add = graft_image_data(source, from);
    float *dst = graft_image_writable(*out);
    int64_t h = shape[1], w = shape[2];
    memcpy(dst, src, (size_t)(shape[0] * h * w) * sizeof *dst);
    for (int64_t p = 0; p < shape[0]; p++)
        for (int64_t r = 0; r < from[1] && y < h - r; r++)
            for (int64_t c = 0; c < from[2] && x < w - c; c++) {
                float *at = &dst[(p * h + y + r) * w + x + c];
                *at = meet(how, *at, add[(p % from[0] * from[1] + r) * from[2] + c]);
            }
    return GRAFT_OK;
}

graft_status graft_image_color_to_mask(const graft_image *i, uint32_t rgb, graft_image **out,
                                       graft_err *e)
{
    int64_t shape[4];
    const float *src = graft_image_data(i, shape);
    *out = NULL;
    if (shape[3] < 3)
        return graft_fail(e, GRAFT_E_ARG, "a picture with fewer than 3 channels has no colours");
    const int64_t sized[4] = {shape[0], shape[1], shape[2], 1};
    graft_status st = graft_image_create(sized, true, out, e);
    if (st) return st;
    float *dst = graft_image_writable(*out);
    for (int64_t k = 0; k < shape[0] * shape[1] * shape[2]; k++, src += shape[3]) {
        uint32_t colour = 0;
        for (int c = 0; c < 3; c++)
            colour = colour << 8 | (uint32_t)(255.0f * graft_weight_clip(src[c]) + 0.5f);
        dst[k] = colour == rgb;
    }
    return GRAFT_OK;
}
