#include <inttypes.h>
#include <math.h>

#include "engine/image/image.h"
#include "engine/image/resize.h"

static graft_status scale_to(const graft_image *i, graft_resize_method method, int64_t width,
                             int64_t height, bool center, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    const float *data = graft_image_data(i, shape);
    const int64_t scaled[4] = {shape[0], height, width, shape[3]};
    graft_image *r;
    graft_status st = graft_image_create(scaled, graft_image_is_mask(i), &r, e);
    if (st) return st;
    st = graft_resize(method, data, shape, graft_image_writable(r), height, width, center, e);
    if (st) {
        graft_image_release(r);
        return st;
    }
    *out = r;
    return GRAFT_OK;
}

/* `side` scaled as `to` is to `from`, rounded half to even, at least 1. Neither number is so large
 * that a double could not hold it. */
static int64_t in_proportion(int64_t side, int64_t to, int64_t from)
{
    double d = nearbyint((double)side * (double)to / (double)from);
    return d < 1.0 ? 1 : (int64_t)d;
}

graft_status graft_image_scale(const graft_image *i, const char *method, int64_t width,
                               int64_t height, bool center, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    graft_resize_method m;
    *out = NULL;
    graft_status st = graft_resize_method_parse(method, false, &m, e);
    if (st) return st;
    if (width < 0 || height < 0 || width > GRAFT_IMAGE_MAX_SIDE || height > GRAFT_IMAGE_MAX_SIDE)
        return graft_fail(e, GRAFT_E_ARG,
                          "a scaled picture of %" PRId64 " x %" PRId64 " pixels: 0 to %d per side",
                          width, height, GRAFT_IMAGE_MAX_SIDE);
    graft_image_data(i, shape);
    if (width == 0 && height == 0) {
        *out = graft_image_retain((graft_image *)i);
        return GRAFT_OK;
    }
    if (width == 0) width = in_proportion(shape[2], height, shape[1]);
    if (height == 0) height = in_proportion(shape[1], width, shape[2]);
    return scale_to(i, m, width, height, center, out, e);
}

static graft_status scale_side(const graft_image *i, const char *method, int64_t side, bool longer,
                               graft_image **out, graft_err *e)
{
    int64_t shape[4];
    *out = NULL;
    if (side < 1) return graft_fail(e, GRAFT_E_ARG, "a side of %" PRId64 " pixels", side);
    graft_image_data(i, shape);
    const bool is_height = (shape[1] > shape[2]) == longer;
    return graft_image_scale(i, method, is_height ? 0 : side, is_height ? side : 0, false, out, e);
}

graft_status graft_image_scale_longer(const graft_image *i, const char *method, int64_t side,
                                      graft_image **out, graft_err *e)
{
    return scale_side(i, method, side, true, out, e);
}

graft_status graft_image_scale_shorter(const graft_image *i, const char *method, int64_t side,
                                       graft_image **out, graft_err *e)
{
    return scale_side(i, method, side, false, out, e);
}

graft_status graft_image_scale_to_multiple(const graft_image *i, const char *method,
                                           int64_t multiple, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    graft_resize_method m;
    *out = NULL;
    graft_status st = graft_resize_method_parse(method, false, &m, e);
    if (st) return st;
    if (multiple < 1) return graft_fail(e, GRAFT_E_ARG, "multiples of %" PRId64, multiple);
    graft_image_data(i, shape);
    const int64_t width = shape[2] / multiple * multiple, height = shape[1] / multiple * multiple;
    if (width && height && (width != shape[2] || height != shape[1]))
        return scale_to(i, m, width, height, true, out, e);
    *out = graft_image_retain((graft_image *)i);
    return GRAFT_OK;
}

/* Sides are multiples of `step`, rounded half to even, and at least one of it. */
static graft_status scale_in_steps(const graft_image *i, const char *method, double scale,
                                   int64_t step, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    const double unit = (double)step;
    graft_resize_method m;
    *out = NULL;
    graft_status st = graft_resize_method_parse(method, false, &m, e);
    if (st) return st;
    graft_image_data(i, shape);
    double w = fmax(1.0, nearbyint((double)shape[2] * scale / unit)) * unit;
    double h = fmax(1.0, nearbyint((double)shape[1] * scale / unit)) * unit;
    if (!(scale > 0.0) || !(w <= GRAFT_IMAGE_MAX_SIDE) || !(h <= GRAFT_IMAGE_MAX_SIDE))
        return graft_fail(e, GRAFT_E_ARG,
                          "a picture of %" PRId64 " x %" PRId64
                          " pixels times %g: not between 1 and %d per side",
                          shape[2], shape[1], scale, GRAFT_IMAGE_MAX_SIDE);
    return scale_to(i, m, (int64_t)w, (int64_t)h, false, out, e);
}

graft_status graft_image_scale_by(const graft_image *i, const char *method, double scale,
                                  graft_image **out, graft_err *e)
{
    return scale_in_steps(i, method, scale, 1, out, e);
}

graft_status graft_image_scale_pixels(const graft_image *i, const char *method, double megapixels,
                                      int64_t step, graft_image **out, graft_err *e)
{
    int64_t shape[4];
    *out = NULL;
    graft_image_data(i, shape);
    if (!(megapixels > 0.0 && megapixels <= 1e6))
        return graft_fail(e, GRAFT_E_ARG, "a picture cannot have %g megapixels", megapixels);
    if (step < 1 || step > GRAFT_IMAGE_MAX_SIDE)
        return graft_fail(e, GRAFT_E_ARG, "a side in steps of %" PRId64 " pixels", step);
    double pixels = megapixels * 1024.0 * 1024.0;
    double scale = sqrt(pixels / ((double)shape[1] * (double)shape[2]));
    return scale_in_steps(i, method, scale, step, out, e);
}

graft_status graft_image_resolution(int64_t across, int64_t down, double megapixels,
                                    int64_t multiple, int64_t *width, int64_t *height, graft_err *e)
{
    const double aspect = (double)across / (double)down, unit = (double)multiple;
    const double pixels = megapixels * 1024.0 * 1024.0;
    if (across < 1 || down < 1 || multiple < 1 || !(pixels > 0))
        return graft_fail(e, GRAFT_E_ARG, "a size of %" PRId64 ":%" PRId64 " and %g megapixels",
                          across, down, megapixels);
    double w = fmax(1.0, nearbyint(sqrt(pixels * aspect) / unit)) * unit;
    double h = fmax(1.0, nearbyint(sqrt(pixels / aspect) / unit)) * unit;
    if (!(w <= GRAFT_IMAGE_MAX_SIDE && h <= GRAFT_IMAGE_MAX_SIDE))
        return graft_fail(e, GRAFT_E_ARG, "a picture of %g x %g pixels: at most %d per side", w, h,
                          GRAFT_IMAGE_MAX_SIDE);
    *width = (int64_t)w;
    *height = (int64_t)h;
    return GRAFT_OK;
}
