/* TextEncodeQwenImage21: what Qwen-Image 2.1 is to draw and what not, and where it begins. */
#include "nodes/node.h"

enum {
    CLIP,
    PROMPT,
    NEGATIVE_PROMPT,
    VAE,
    RESOLUTION,
    IMAGE,
    IMAGES = 16,
    CHANNELS = 64,
    WHOLE = 1024, /* pixels a side where nothing says how many */
    SLOT_FLAGS = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_SERIES
};
#define PICTURE(number_)                                                                           \
    IN_OBJECT("images.image_" #number_, "IMAGE",                                                   \
              "Number " #number_ " of them. Pictures are not supported yet.", .flags = SLOT_FLAGS)
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "Qwen 3-VL-8B: CLIPLoader with type qwen_image."),
    [PROMPT] = IN_PROMPT("prompt", "What the picture is to show."),
    [NEGATIVE_PROMPT] =
        IN_PROMPT("negative_prompt", "What it is not to show. With a cfg of 1 it does not count."),
    [VAE] = IN_OBJECT("vae", "VAE",
                      "For pictures that the prompt speaks of, which are not supported yet.",
                      .flags = GRAFT_INPUT_OPTIONAL),
    [RESOLUTION] = IN_INT("resolution", WHOLE, 0, 4096, 32,
                          "Width and height of the empty latent in pixels. 0: 1024."),
    [IMAGE] = IN_OBJECT("images.image_1", "IMAGE",
                        "A picture that the prompt speaks of. Pictures are not supported yet.",
                        .flags = GRAFT_INPUT_OPTIONAL),
    PICTURE(2),
    PICTURE(3),
    PICTURE(4),
    PICTURE(5),
    PICTURE(6),
    PICTURE(7),
    PICTURE(8),
    PICTURE(9),
    PICTURE(10),
    PICTURE(11),
    PICTURE(12),
    PICTURE(13),
    PICTURE(14),
    PICTURE(15),
    PICTURE(16),
    NULL};
static const graft_output *const outputs[] = {
    OUT("positive", "CONDITIONING", "The encoded prompt, for a sampler."),
    OUT("negative", "CONDITIONING", "The encoded negative prompt, likewise."),
    OUT("latent", "LATENT", "An empty latent with 64 channels, of the resolution."), NULL};

static graft_status encode(graft_call *c, int input)
{
    graft_cond *cond = NULL;
    graft_status st = graft_clip_encode(graft_arg_clip(c, CLIP), graft_arg_text(c, input), &c->task,
                                        &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, input - PROMPT, cond);
}

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    const int64_t given = graft_arg_i64(c, RESOLUTION), side = given ? given : WHOLE;
    for (int i = 0; i < IMAGES; i++)
        if (graft_arg_image(c, IMAGE + i))
            return graft_call_fail(
                c, IMAGE + i, GRAFT_E_UNSUPPORTED,
                "prompts with pictures are not supported for Qwen-Image 2.1 yet");
    graft_call_phase(c, "encode");
    graft_status st = encode(c, PROMPT);
    if (!st) st = encode(c, NEGATIVE_PROMPT);
    if (!st) st = graft_latent_empty(CHANNELS, side, side, 1, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 2, latent);
}

GRAFT_NODE(text_encode_qwen_image21, .id = "TextEncodeQwenImage21",
           .title = "Text Encode Qwen Image 2.1", .category = "advanced/conditioning",
           .description = "Encodes a prompt and a negative prompt for Qwen-Image 2.1, and makes an "
                          "empty latent for it.");
