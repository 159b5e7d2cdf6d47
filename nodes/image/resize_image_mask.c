/* ResizeImageMaskNode: pictures or masks of another size, which is told in one of many ways. */
#include "nodes/node.h"

enum {
    INPUT,
    RESIZE_TYPE,
    MULTIPLIER,
    WIDTH,
    HEIGHT,
    CROP,
    LONGER_SIZE,
    SHORTER_SIZE,
    MEGAPIXELS,
    MATCH,
    MULTIPLE,
    SCALE_METHOD
};
static const graft_input *const inputs[] = {
    [INPUT] = IN_OBJECT("input", "IMAGE,MASK", "The pictures or masks to resize."),
    [RESIZE_TYPE] =
        IN_CHOICE("resize_type",
                  CHOICES("scale dimensions", "scale by multiplier", "scale longer dimension",
                          "scale shorter dimension", "scale width", "scale height",
                          "scale total pixels", "match size", "scale to multiple"),
                  "How the new size is told. All but the first and match size keep the "
                  "proportions; scale to multiple cuts off what is beyond them."),
    [MULTIPLIER] = IN_FLOAT("resize_type.multiplier", 1.0, 0.01, 8.0, 0.01,
                            "Factor for width and height: 2 makes both twice as large.",
                            .when = "resize_type=scale by multiplier"),
    [WIDTH] = IN_INT("resize_type.width", 512, 0, 16384, 1,
                     "New width in pixels; 0, beside a height, keeps the proportions.",
                     .when = "resize_type=scale dimensions|scale width"),
    [HEIGHT] = IN_INT("resize_type.height", 512, 0, 16384, 1,
                      "New height in pixels; 0, beside a width, keeps the proportions.",
                      .when = "resize_type=scale dimensions|scale height"),
    [CROP] = IN_CHOICE("resize_type.crop", CHOICES("disabled", "center"),
                       "center cuts the edges off first, so that nothing is stretched.",
                       .initial.s = "center", .when = "resize_type=scale dimensions|match size"),
    [LONGER_SIZE] = IN_INT("resize_type.longer_size", 512, 0, 16384, 1,
                           "New length of the longer side in pixels.",
                           .when = "resize_type=scale longer dimension"),
    [SHORTER_SIZE] = IN_INT("resize_type.shorter_size", 512, 0, 16384, 1,
                            "New length of the shorter side in pixels.",
                            .when = "resize_type=scale shorter dimension"),
    [MEGAPIXELS] = IN_FLOAT("resize_type.megapixels", 1.0, 0.01, 16.0, 0.01,
                            "How large the result is: 1 has as many pixels as 1024 x 1024.",
                            .when = "resize_type=scale total pixels"),
    [MATCH] = IN_OBJECT("resize_type.match", "IMAGE,MASK", "What has the size that is wanted.",
                        .when = "resize_type=match size"),
    [MULTIPLE] = IN_INT("resize_type.multiple", 8, 1, 16384, 1,
                        "Both sides become multiples of this, no larger than they were.",
                        .when = "resize_type=scale to multiple"),
    [SCALE_METHOD] = IN_CHOICE("scale_method",
                               CHOICES("nearest-exact", "bilinear", "area", "bicubic", "lanczos"),
                               "How new pixels are found between the old ones. lanczos is the "
                               "sharpest, area suits shrinking.",
                               .initial.s = "area"),
    NULL};
static const graft_output *const outputs[] = {
    OUT("resized", "IMAGE,MASK", "The resized pictures or masks."), NULL};

static graft_image *picture(const graft_call *c, int i)
{
    bool mask = c->value[i] && strcmp(c->value[i]->ops->type, "MASK") == 0;
    return mask ? graft_arg_mask(c, i) : graft_arg_image(c, i);
}

static graft_status match(graft_call *c, const graft_image *from, graft_image **out)
{
    int64_t shape[4];
    const graft_image *like = picture(c, MATCH);
    if (!like) return graft_call_fail(c, MATCH, GRAFT_E_ARG, "nothing to match");
    graft_image_data(like, shape);
    return graft_image_scale(from, graft_arg_text(c, SCALE_METHOD), shape[2], shape[1],
                             graft_arg_is(c, CROP, "center"), out, &c->err);
}

static graft_status resize(graft_call *c, const graft_image *from, graft_image **out)
{
    const char *how = graft_arg_text(c, RESIZE_TYPE), *method = graft_arg_text(c, SCALE_METHOD);
    graft_err *e = &c->err;
    if (strcmp(how, "scale by multiplier") == 0)
        return graft_image_scale_by(from, method, graft_arg_f64(c, MULTIPLIER), out, e);
    if (strcmp(how, "scale longer dimension") == 0)
        return graft_image_scale_longer(from, method, graft_arg_i64(c, LONGER_SIZE), out, e);
    if (strcmp(how, "scale shorter dimension") == 0)
        return graft_image_scale_shorter(from, method, graft_arg_i64(c, SHORTER_SIZE), out, e);
    if (strcmp(how, "scale width") == 0)
        return graft_image_scale(from, method, graft_arg_i64(c, WIDTH), 0, false, out, e);
    if (strcmp(how, "scale height") == 0)
        return graft_image_scale(from, method, 0, graft_arg_i64(c, HEIGHT), false, out, e);
    if (strcmp(how, "scale total pixels") == 0)
        return graft_image_scale_pixels(from, method, graft_arg_f64(c, MEGAPIXELS), 1, out, e);
    if (strcmp(how, "match size") == 0) return match(c, from, out);
    if (strcmp(how, "scale to multiple") == 0)
        return graft_image_scale_to_multiple(from, method, graft_arg_i64(c, MULTIPLE), out, e);
    return graft_image_scale(from, method, graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT),
                             graft_arg_is(c, CROP, "center"), out, e);
}

static graft_status run(graft_call *c)
{
    graft_image *resized = NULL;
    graft_status st = resize(c, picture(c, INPUT), &resized);
    if (st != GRAFT_OK) return st;
    return graft_image_is_mask(resized) ? graft_call_out_mask(c, 0, resized)
                                        : graft_call_out_image(c, 0, resized);
}

GRAFT_NODE(resize_image_mask, .id = "ResizeImageMaskNode", .title = "Resize Image/Mask",
           .category = "image/transform",
           .description = "Resizes pictures or masks by a factor, to a size, to that of others, to "
                          "an area or to multiples.");
