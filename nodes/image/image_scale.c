/* ImageScale: pictures of another size. */
#include "nodes/node.h"

enum { IMAGE, UPSCALE_METHOD, WIDTH, HEIGHT, CROP };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to resize."),
    [UPSCALE_METHOD] = IN_CHOICE("upscale_method",
                                 CHOICES("nearest-exact", "bilinear", "area", "bicubic", "lanczos"),
                                 "How new pixels are found between the old ones. lanczos is the "
                                 "sharpest, area suits shrinking."),
    [WIDTH] = IN_INT("width", 512, 0, 16384, 1,
                     "New width in pixels; 0 keeps the proportions of the old picture."),
    [HEIGHT] = IN_INT("height", 512, 0, 16384, 1,
                      "New height in pixels; 0 keeps the proportions of the old picture."),
    [CROP] = IN_CHOICE("crop", CHOICES("disabled", "center"),
                       "center cuts the edges off first, so that nothing is stretched."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The resized pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_scale(
        graft_arg_image(c, IMAGE), graft_arg_text(c, UPSCALE_METHOD), graft_arg_i64(c, WIDTH),
        graft_arg_i64(c, HEIGHT), graft_arg_is(c, CROP, "center"), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_scale, .id = "ImageScale", .title = "Upscale Image", .category = "image/upscaling",
           .description = "Resizes pictures to a size in pixels, up or down.");
