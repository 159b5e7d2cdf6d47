/* CLIPTextEncodeSDXL: a prompt and the picture sizes that SDXL was trained with. */
#include "nodes/node.h"

enum { CLIP, WIDTH, HEIGHT, CROP_W, CROP_H, TARGET_WIDTH, TARGET_HEIGHT, TEXT_G, TEXT_L };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "SDXL's pair of text encoders."),
    [WIDTH] = IN_INT("width", 1024, 0, 16384, 0,
                     "Width that the picture pretends to have had before it was cropped. Small "
                     "values give a soft, low-resolution look."),
    [HEIGHT] = IN_INT("height", 1024, 0, 16384, 0,
                      "Height that the picture pretends to have had before it was cropped."),
    [CROP_W] = IN_INT("crop_w", 0, 0, 16384, 0,
                      "Pixels that were cut off at the left. 0 keeps the subject centred."),
    [CROP_H] = IN_INT("crop_h", 0, 0, 16384, 0,
                      "Pixels that were cut off at the top. 0 keeps the subject centred."),
    [TARGET_WIDTH] = IN_INT("target_width", 1024, 0, 16384, 0,
                            "Width of the final picture; use the width of the latent."),
    [TARGET_HEIGHT] = IN_INT("target_height", 1024, 0, 16384, 0,
                             "Height of the final picture; use the height of the latent."),
    [TEXT_G] = IN_PROMPT("text_g", "The prompt for the large encoder, CLIP-G. Usually the same "
                                   "text as text_l."),
    [TEXT_L] = IN_PROMPT("text_l", "The prompt for the small encoder, CLIP-L."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The encoded prompt with the sizes, for a sampler."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_sdxl_size size = {
        .width = graft_arg_i64(c, WIDTH),
        .height = graft_arg_i64(c, HEIGHT),
        .crop_w = graft_arg_i64(c, CROP_W),
        .crop_h = graft_arg_i64(c, CROP_H),
        .target_width = graft_arg_i64(c, TARGET_WIDTH),
        .target_height = graft_arg_i64(c, TARGET_HEIGHT),
    };
    graft_call_phase(c, "encode");
    graft_status st =
        graft_clip_encode_sdxl(graft_arg_clip(c, CLIP), graft_arg_text(c, TEXT_G),
                               graft_arg_text(c, TEXT_L), &size, &c->task, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

QUERY_PROMPTS(TEXT_G, 2)

GRAFT_NODE(clip_text_encode_sdxl, .id = "CLIPTextEncodeSDXL", .title = "CLIPTextEncodeSDXL",
           .category = "advanced/conditioning",
           .description = "Encodes a prompt for SDXL, with a text for each encoder and the sizes "
                          "that SDXL takes as a hint.",
           .query = query);
