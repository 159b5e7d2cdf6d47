/* TextEncodeQwenImageEditPlus: a prompt for Qwen-Image-Edit from version 2509 on, and up to three
 * pictures that it speaks of. */
#include "nodes/node.h"

enum { CLIP, PROMPT, VAE, IMAGE };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "Qwen 2.5-VL: CLIPLoader with type qwen_image."),
    [PROMPT] = IN_PROMPT("prompt", "What is to become of the pictures, which it may call Picture "
                                   "1, Picture 2 and Picture 3."),
    [VAE] = IN_OBJECT("vae", "VAE",
                      "Qwen-Image's VAE: the model itself is shown the pictures, too. Without it "
                      "only the text encoder sees them.",
                      .flags = GRAFT_INPUT_OPTIONAL),
    [IMAGE] = IN_OBJECT("image1", "IMAGE",
                        "A picture of any size: the text encoder sees it at 384 x 384 pixels, the "
                        "model at 1024 x 1024, both in its own proportions.",
                        .flags = GRAFT_INPUT_OPTIONAL),
    IN_OBJECT("image2", "IMAGE", "A second one.", .flags = GRAFT_INPUT_OPTIONAL),
    IN_OBJECT("image3", "IMAGE", "A third one.", .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The encoded prompt with the pictures, for a sampler."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_edit_prompt prompt = {
        .text = graft_arg_text(c, PROMPT), .numbered = true, .vae = graft_arg_vae(c, VAE)};
    for (int i = 0; i < GRAFT_EDIT_PICTURES; i++) {
        const graft_image *image = graft_arg_image(c, IMAGE + i);
        if (image) prompt.picture[prompt.n_pictures++] = image;
    }
    graft_call_phase(c, "encode");
    graft_status st =
        graft_clip_encode_edit(graft_arg_clip(c, CLIP), &prompt, &c->task, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(text_encode_qwen_image_edit_plus, .id = "TextEncodeQwenImageEditPlus",
           .title = "TextEncodeQwenImageEditPlus", .category = "advanced/conditioning",
           .description = "Encodes a prompt for Qwen-Image-Edit 2509 and 2511 together with up to "
                          "three pictures that it speaks of.");
