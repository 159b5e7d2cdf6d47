/* Pictures and masks cut, turned and taken apart, for nodes; compose.c puts them together. */
#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "engine/image/image.h"
#include "engine/image/mask.h"
#include "engine/image/resize.h"
#include "engine/image/turn.h"

graft_status graft_image_crop(const graft_image *i, int64_t x, int64_t y, int64_t width,
                              int64_t height, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    const float *src = graft_image_data(i, shape);
    *out = NULL;
    if (x < 0 || y < 0 || width < 1 || height < 1 || x >= shape[2] || y >= shape[1])
        return graft_fail(e, GRAFT_E_ARG,
                          "nothing remains of %" PRId64 " x %" PRId64
                          " pixels: the part of %" PRId64 " x %" PRId64 " at %" PRId64 ", %" PRId64
                          " is outside",
                          shape[2], shape[1], width, height, x, y);
    if (width > shape[2] - x) width = shape[2] - x;
    if (height > shape[1] - y) height = shape[1] - y;
    const int64_t part[4] = {shape[0], height, width, shape[3]};
    graft_status st = graft_image_create(part, graft_image_is_mask(i), out, e);
    if (st) return st;
    graft_resize_cut(src, shape, y, x, graft_image_writable(*out), height, width);
    return GRAFT_OK;
}

static graft_status turned(const graft_image *i, const graft_turn *t, graft_image **out,
                           graft_err *e)
{
    int64_t shape[4], after[4];
    const float *src = graft_image_data(i, shape);
    graft_turn_shape(t, shape, after);
    graft_status st = graft_image_create(after, graft_image_is_mask(i), out, e);
    if (!st) graft_turn_apply(t, src, shape, graft_image_writable(*out));
    return st;
}

graft_status graft_image_flip(const graft_image *i, bool upside_down, graft_image **out,
                              graft_err *e)
{
    const graft_turn t = {upside_down, !upside_down, 0};
    return turned(i, &t, out, e);
}

graft_status graft_image_rotate(const graft_image *i, int turns, graft_image **out, graft_err *e)
{
    const graft_turn t = {false, false, turns};
    *out = NULL;
    if (turns < 0 || turns > 3) return graft_fail(e, GRAFT_E_ARG, "%d right angles", turns);
    return turned(i, &t, out, e);
}

/* ------------------------------------------------------------------ batches */

graft_status graft_image_from_batch(const graft_image *i, int64_t index, int64_t length,
                                    graft_image **out, graft_err *e)
{
    int64_t shape[4];
    const float *src = graft_image_data(i, shape);
    *out = NULL;
    if (index < 0 || length < 1)
        return graft_fail(e, GRAFT_E_ARG, "%" PRId64 " pictures from number %" PRId64 " of a batch",
                          length, index);
    if (index > shape[0] - 1) index = shape[0] - 1;
    if (length > shape[0] - index) length = shape[0] - index;
    const int64_t part[4] = {length, shape[1], shape[2], shape[3]};
    const size_t one = (size_t)(shape[1] * shape[2] * shape[3]);
    return graft_image_from_data(src + (size_t)index * one, part, graft_image_is_mask(i), out, e);
}

graft_status graft_image_repeat(const graft_image *i, int64_t amount, graft_image **out,
                                graft_err *e)
{
    int64_t shape[4], n;
    const float *src = graft_image_data(i, shape);
    *out = NULL;
    if (amount < 1 || !graft_size_product((const int64_t[]){shape[0], amount}, 2, &n))
        return graft_fail(e, GRAFT_E_ARG, "%" PRId64 " copies of a batch of %" PRId64 " pictures",
                          amount, shape[0]);
    const int64_t all[4] = {n, shape[1], shape[2], shape[3]};
    const size_t batch = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    graft_status st = graft_image_create(all, graft_image_is_mask(i), out, e);
    float *dst = st ? NULL : graft_image_writable(*out);
    for (int64_t k = 0; k < amount && !st; k++, dst += batch) memcpy(dst, src, batch * sizeof *dst);
    return st;
}

/* ------------------------------------------------------------------ transparency */

graft_status graft_image_split_alpha(const graft_image *i, graft_image **out, graft_image **mask,
                                     graft_err *e)
{
    int64_t s[4];
    const float *src = graft_image_data(i, s);
    *out = *mask = NULL;
    if (s[3] < 3)
        return graft_fail(e, GRAFT_E_ARG, "a picture with fewer than 3 channels has no colours");
    const int64_t rgb[4] = {s[0], s[1], s[2], 3}, plane[4] = {s[0], s[1], s[2], 1};
    graft_status st = graft_image_create(rgb, false, out, e);
    if (!st) st = graft_image_create(plane, true, mask, e);
    if (st) {
        graft_image_release(*out);
        *out = NULL;
        return st;
    }
    float *colour = graft_image_writable(*out), *clear = graft_image_writable(*mask);
    for (int64_t k = 0; k < s[0] * s[1] * s[2]; k++, src += s[3], colour += 3) {
        memcpy(colour, src, 3 * sizeof *colour);
        clear[k] = s[3] > 3 ? 1.0f - src[3] : 0.0f;
    }
    return GRAFT_OK;
}

graft_status graft_image_join_alpha(const graft_image *i, const graft_image *mask,
                                    graft_image **out, graft_err *e)
{
    int64_t s[4];
    graft_image *sized = NULL;
    const float *src = graft_image_data(i, s);
    *out = NULL;
    if (s[3] < 3)
        return graft_fail(e, GRAFT_E_ARG, "a picture with fewer than 3 channels has no colours");
    const int64_t rgba[4] = {s[0], s[1], s[2], 4};
    graft_status st = graft_image_resize_mask(mask, s[1], s[2], s[0], &sized, e);
    if (!st) st = graft_image_create(rgba, false, out, e);
    const float *clear = st ? NULL : graft_image_data(sized, NULL);
    float *dst = st ? NULL : graft_image_writable(*out);
    for (int64_t k = 0; k < s[0] * s[1] * s[2] && !st; k++, src += s[3], dst += 4) {
        memcpy(dst, src, 3 * sizeof *dst);
        dst[3] = 1.0f - clear[k];
    }
    graft_image_release(sized);
    return st;
}
