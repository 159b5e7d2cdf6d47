/* TextEncodeQwenImageEdit: a prompt for Qwen-Image-Edit, and the picture that it speaks of. */
#include "nodes/node.h"

enum { CLIP, PROMPT, VAE, IMAGE };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "Qwen 2.5-VL: CLIPLoader with type qwen_image."),
    [PROMPT] = IN_PROMPT("prompt", "What is to become of the picture."),
    [VAE] = IN_OBJECT("vae", "VAE",
                      "Qwen-Image's VAE: the model itself is shown the picture, too. Without it "
                      "only the text encoder sees it.",
                      .flags = GRAFT_INPUT_OPTIONAL),
    [IMAGE] = IN_OBJECT("image", "IMAGE",
                        "The picture, of any size: it is seen at 1024 x 1024 pixels in its own "
                        "proportions. Without one this is CLIPTextEncode.",
                        .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The encoded prompt with the picture, for a sampler."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    const graft_image *image = graft_arg_image(c, IMAGE);
    const graft_edit_prompt prompt = {.text = graft_arg_text(c, PROMPT),
                                      .picture = {image},
                                      .n_pictures = image != NULL,
                                      .vae = graft_arg_vae(c, VAE)};
    graft_call_phase(c, "encode");
    graft_status st =
        graft_clip_encode_edit(graft_arg_clip(c, CLIP), &prompt, &c->task, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(text_encode_qwen_image_edit, .id = "TextEncodeQwenImageEdit",
           .title = "TextEncodeQwenImageEdit", .category = "advanced/conditioning",
           .description = "Encodes a prompt for Qwen-Image-Edit together with the picture that it "
                          "is to change. TextEncodeQwenImageEditPlus is for versions 2509 and "
                          "2511.");
