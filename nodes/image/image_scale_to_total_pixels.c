/* ImageScaleToTotalPixels: pictures of a given area, whatever their proportions. */
#include "nodes/node.h"

enum { IMAGE, UPSCALE_METHOD, MEGAPIXELS, RESOLUTION_STEPS };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to resize."),
    [UPSCALE_METHOD] = IN_CHOICE("upscale_method",
                                 CHOICES("nearest-exact", "bilinear", "area", "bicubic", "lanczos"),
                                 "How new pixels are found between the old ones. lanczos is the "
                                 "sharpest, area suits shrinking."),
    [MEGAPIXELS] = IN_FLOAT("megapixels", 1.0, 0.01, 16.0, 0.01,
                            "How large the result is: 1 has as many pixels as 1024 x 1024, which "
                            "SDXL likes; 0.25 as many as 512 x 512, for SD 1.x."),
    [RESOLUTION_STEPS] =
        IN_INT("resolution_steps", 1, 1, 256, 0,
               "Both sides become multiples of this; 8 or 16 suit models that ask for it.",
               .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_ADVANCED),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The resized pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    const bool given = c->in[RESOLUTION_STEPS].kind != GRAFT_NONE;
    const int64_t steps = given ? graft_arg_i64(c, RESOLUTION_STEPS) : 1;
    graft_status st =
        graft_image_scale_pixels(graft_arg_image(c, IMAGE), graft_arg_text(c, UPSCALE_METHOD),
                                 graft_arg_f64(c, MEGAPIXELS), steps, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_scale_to_total_pixels, .id = "ImageScaleToTotalPixels",
           .title = "ImageScaleToTotalPixels", .category = "image/upscaling",
           .description = "Resizes pictures to an area in megapixels and keeps their proportions.");
