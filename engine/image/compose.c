/* Pictures put together, for nodes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/image/mask.h"

/* b at a's size. */
static graft_status like(const graft_image *b, const int64_t a[4], const char *method,
                         graft_image **out, graft_err *e)
{
    int64_t s[4];
    graft_image_data(b, s);
    if (s[1] != a[1] || s[2] != a[2]) return graft_image_scale(b, method, a[2], a[1], true, out, e);
    *out = graft_image_retain((graft_image *)b);
    return GRAFT_OK;
}

void graft_image_copy_channels(const float *src, int64_t from, float *dst, int64_t to,
                               int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < to; c++) *dst++ = c < from ? src[i * from + c] : 1.0f;
}

/* How many pictures there are, and of how many channels: what one has more of, all get. */
static graft_status joined_shape(const graft_image *const *images, size_t n, int64_t shape[4],
                                 graft_err *e)
{
    graft_image_data(images[0], shape);
    const int64_t channels = shape[3];
    for (size_t i = 1; i < n; i++) {
        int64_t s[4];
        graft_image_data(images[i], s);
        if (channels != s[3] && (channels < 3 || s[3] < 3))
            return graft_fail(e, GRAFT_E_ARG,
                              "pictures of %" PRId64 " and %" PRId64
                              " channels do not make a batch",
                              channels, s[3]);
        shape[0] += s[0];
        if (s[3] > shape[3]) shape[3] = s[3];
    }
    return GRAFT_OK;
}

graft_status graft_image_join(const graft_image *const *images, size_t n, graft_image **out,
                              graft_err *e)
{
    int64_t shape[4], s[4];
    graft_image *r = NULL, *scaled = NULL;
    *out = NULL;
    graft_status st = joined_shape(images, n, shape, e);
    if (!st) st = graft_image_create(shape, graft_image_is_mask(images[0]), &r, e);
    float *dst = st ? NULL : graft_image_writable(r);
    for (size_t i = 0; i < n && !st; i++) {
        st = like(images[i], shape, "bilinear", &scaled, e);
        if (st) break;
        const float *src = graft_image_data(scaled, s);
        const int64_t pixels = s[0] * s[1] * s[2];
        graft_image_copy_channels(src, s[3], dst, shape[3], pixels);
        dst += pixels * shape[3];
        graft_image_release(scaled);
    }
    if (st)
        graft_image_release(r);
    else
        *out = r;
    return st;
}

graft_status graft_image_batch(const graft_image *a, const graft_image *b, graft_image **out,
                               graft_err *e)
{
    return graft_image_join((const graft_image *const[]){a, b}, 2, out, e);
}

/* ------------------------------------------------------------------ blending */

typedef enum mode { NORMAL, MULTIPLY, SCREEN, OVERLAY, SOFT_LIGHT, DIFFERENCE, MODES } mode;

static graft_status parse(const char *name, mode *out, graft_err *e)
{
    static const char *const names[] = {"normal",  "multiply",   "screen",
                                        "overlay", "soft_light", "difference"};
    for (int i = 0; i < MODES; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (mode)i;
            return GRAFT_OK;
        }
    return graft_fail(e, GRAFT_E_ARG, "pictures cannot be blended by \"%.40s\"", name);
}

static float soft_light(float a, float b)
{
    if (b <= 0.5f) return a - (1 - 2 * b) * a * (1 - a);
    float d = a <= 0.25f ? ((16 * a - 12) * a + 4) * a : sqrtf(a);
    return a + (2 * b - 1) * (d - a);
}

static float blended(mode how, float a, float b)
{
    switch (how) {
    case MULTIPLY:
        return a * b;
    case SCREEN:
        return a + b - a * b;
    case OVERLAY:
        return a <= 0.5f ? 2 * a * b : 1 - 2 * (1 - a) * (1 - b);
    case SOFT_LIGHT:
        return soft_light(a, b);
    case DIFFERENCE:
        return a - b;
    default:
        return b;
    }
}

graft_status graft_image_blend(const graft_image *a, const graft_image *b, double factor,
                               const char *name, graft_image **out, graft_err *e)
{
    int64_t s[4], t[4];
    mode how = MODES;
    float k = (float)factor;
    graft_image *scaled = NULL;
    *out = NULL;
    const float *v = graft_image_data(a, s);
    graft_status st = parse(name, &how, e);
    if (!st) st = like(b, s, "bicubic", &scaled, e);
    if (st) return st;
    const float *w = graft_image_data(scaled, t);
    if (s[3] != t[3]) {
        st =
            graft_fail(e, GRAFT_E_ARG,
                       "pictures of %" PRId64 " and %" PRId64 " channels do not blend", s[3], t[3]);
        goto out;
    }
    GRAFT_TRY(graft_image_create(s, graft_image_is_mask(a), out, e));
    float *dst = graft_image_writable(*out);
    int64_t n = s[0] * s[1] * s[2] * s[3], other = t[0] * t[1] * t[2] * t[3];
    for (int64_t i = 0; i < n; i++) {
        float x = v[i] * (1 - k) + blended(how, v[i], w[i % other]) * k;
        dst[i] = x > 0 ? x < 1 ? x : 1 : 0;
    }
out:
    graft_image_release(scaled);
    return st;
}

/* ------------------------------------------------------------------ laying over */

/* Pictures over pictures: (N,H,W,C) with as many channels as those below, and weights (masks,H,W),
 * at y, x. */
typedef struct layer {
    const float *data, *weight;
    int64_t shape[4], masks, y, x;
} layer;

static void lay(const layer *k, float *dst, const int64_t s[4])
{
    int64_t h = k->shape[1], w = k->shape[2], channels = s[3];
    for (int64_t p = 0; p < s[0]; p++)
        for (int64_t y = 0; y < h && k->y < s[1] - y; y++)
            for (int64_t x = 0; x < w && k->x < s[2] - x; x++) {
                float *at = dst + ((p * s[1] + k->y + y) * s[2] + k->x + x) * channels;
                const float *from = k->data + ((p % k->shape[0] * h + y) * w + x) * channels;
                float m = k->weight[(p % k->masks * h + y) * w + x];
                for (int64_t c = 0; c < channels; c++) at[c] = from[c] * m + at[c] * (1.0f - m);
            }
}

/* The source with so many channels: one without transparency is opaque, one too many is dropped. */
static graft_status like_channels(const graft_image *i, int64_t channels, graft_image **out,
                                  graft_err *e)
{
    int64_t s[4];
    const float *src = graft_image_data(i, s);
    *out = NULL;
    if (s[3] == channels) {
        *out = graft_image_retain((graft_image *)i);
        return GRAFT_OK;
    }
    if (s[3] < 3 || channels < 3)
        return graft_fail(e, GRAFT_E_ARG,
                          "a picture of %" PRId64 " channels does not go over one of %" PRId64,
                          s[3], channels);
    const int64_t shape[4] = {s[0], s[1], s[2], channels};
    graft_status st = graft_image_create(shape, false, out, e);
    if (!st)
        graft_image_copy_channels(src, s[3], graft_image_writable(*out), channels,
                                  s[0] * s[1] * s[2]);
    return st;
}

graft_status graft_image_composite(const graft_image *to, const graft_image *from, int64_t x,
                                   int64_t y, bool resize, const graft_image *mask,
                                   graft_image **out, graft_err *e)
{
    int64_t s[4], m[4];
    graft_image *scaled = NULL, *source = NULL, *sized = NULL;
    layer k = {.y = y, .x = x};
    graft_status st = GRAFT_OK;
    const float *base = graft_image_data(to, s);
    *out = NULL;
    if (x < 0 || y < 0)
        return graft_fail(e, GRAFT_E_ARG, "%" PRId64 ", %" PRId64 " is outside", x, y);
    if (resize) GRAFT_TRY(graft_image_scale(from, "bilinear", s[2], s[1], false, &scaled, e));
    GRAFT_TRY(like_channels(resize ? scaled : from, s[3], &source, e));
    k.data = graft_image_data(source, k.shape);
    GRAFT_TRY(mask ? graft_image_resize_mask(mask, k.shape[1], k.shape[2], 0, &sized, e)
                   : graft_mask_solid(k.shape[2], k.shape[1], 1, &sized, e));
    k.weight = graft_image_data(sized, m);
    k.masks = m[0];
    GRAFT_TRY(graft_image_from_data(base, s, graft_image_is_mask(to), out, e));
    lay(&k, graft_image_writable(*out), s);
out:
    graft_image_release(scaled);
    graft_image_release(source);
    graft_image_release(sized);
    return st;
}

/* ------------------------------------------------------------------ padding */

/* Of a pixel inside, how far it is from the nearest side that has room; `far` where none has. */
static int64_t distance(const int64_t sides[4], int64_t y, int64_t x, int64_t h, int64_t w,
                        int64_t far)
{
    const int64_t to[4] = {x, y, w - x, h - y};
    int64_t d = far;
    for (int i = 0; i < 4; i++)
        if (sides[i] > 0 && to[i] < d) d = to[i];
    return d;
}

static void pad_mask(const int64_t s[4], const int64_t sides[4], int64_t f, float *dst, int64_t w)
{
    bool fades = f > 0 && f < (s[1] + 1) / 2 && f < (s[2] + 1) / 2;
    for (int64_t y = 0; y < s[1]; y++)
        for (int64_t x = 0; x < s[2]; x++) {
            int64_t d = distance(sides, y, x, s[1], s[2], f);
            float v = fades ? (float)(f - d) / (float)f : 0;
            dst[(y + sides[1]) * w + x + sides[0]] = v * v;
        }
}

graft_status graft_image_pad(const graft_image *i, const int64_t sides[4], int64_t feathering,
                             graft_image **out, graft_image **mask, graft_err *e)
{
    int64_t s[4];
    graft_image *r = NULL;
    *out = *mask = NULL;
    const float *src = graft_image_data(i, s);
    for (int k = 0; k < 4; k++)
        if (sides[k] < 0 || sides[k] > GRAFT_IMAGE_MAX_SIDE || feathering < 0)
            return graft_fail(e, GRAFT_E_ARG, "a picture cannot get %" PRId64 " pixels more",
                              sides[k]);
    int64_t h = s[1] + sides[1] + sides[3], w = s[2] + sides[0] + sides[2];
    const int64_t shape[4] = {s[0], h, w, s[3]}, plane[4] = {1, h, w, 1};
    graft_status st = graft_image_create(shape, graft_image_is_mask(i), &r, e);
    if (!st) st = graft_image_create(plane, true, mask, e);
    if (st) {
        graft_image_release(r);
        return st;
    }
    float *dst = graft_image_writable(r), *m = graft_image_writable(*mask);
    for (int64_t k = 0; k < s[0] * h * w * s[3]; k++) dst[k] = 0.5f;
    for (int64_t k = 0; k < h * w; k++) m[k] = 1;
    for (int64_t y = 0; y < s[0] * s[1]; y++)
        memcpy(dst + ((y / s[1] * h + sides[1] + y % s[1]) * w + sides[0]) * s[3],
               src + y * s[2] * s[3], (size_t)(s[2] * s[3]) * sizeof *dst);
    pad_mask(s, sides, feathering, m, w);
    *out = r;
    return GRAFT_OK;
}
