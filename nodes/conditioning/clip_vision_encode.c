/* CLIPVisionEncode: what an encoder sees in pictures. */
#include "nodes/node.h"

enum { CLIP_VISION, IMAGE, CROP };
static const graft_input *const inputs[] = {
    [CLIP_VISION] = IN_OBJECT("clip_vision", "CLIP_VISION", "The encoder."),
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures, of any size."),
    [CROP] = IN_CHOICE("crop", CHOICES("center", "none"),
                       "The encoder sees a square: the middle of the picture, or (none) all of it, "
                       "squeezed."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP_VISION_OUTPUT", "CLIP_VISION_OUTPUT", "For Apply Style Model."), NULL};

static graft_status run(graft_call *c)
{
    graft_vision_output *seen = NULL;
    graft_call_phase(c, "encode");
    graft_status st =
        graft_vision_encode(graft_arg_vision(c, CLIP_VISION), graft_arg_image(c, IMAGE),
                            graft_arg_is(c, CROP, "center"), &c->task, &seen, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_vision_output(c, 0, seen);
}

GRAFT_NODE(clip_vision_encode, .id = "CLIPVisionEncode", .title = "CLIP Vision Encode",
           .category = "conditioning",
           .description = "Lets an encoder look at pictures, so that they can be prompts.");
