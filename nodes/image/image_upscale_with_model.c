/* ImageUpscaleWithModel: pictures enlarged by a model. */
#include "nodes/node.h"

enum { UPSCALE_MODEL, IMAGE };
static const graft_input *const inputs[] = {
    [UPSCALE_MODEL] = IN_OBJECT("upscale_model", "UPSCALE_MODEL",
                                "The model. It says how many times larger pictures become."),
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to enlarge."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The enlarged pictures."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_call_phase(c, "upscale");
    graft_status st = graft_image_upscale(graft_arg_upscaler(c, UPSCALE_MODEL),
                                          graft_arg_image(c, IMAGE), &c->task, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_upscale_with_model, .id = "ImageUpscaleWithModel",
           .title = "Upscale Image (using Model)", .category = "image/upscaling",
           .description = "Enlarges pictures with a model that has learned what details look like. "
                          "Large pictures are worked on piece by piece.");
