/* TextEncodeQwenImage21: what Qwen-Image 2.1 is to draw and what not, the pictures that this speaks
 * of, and where it begins. */
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
    IN_OBJECT("images.image_" #number_, "IMAGE", "Number " #number_ " of them.",                   \
              .flags = SLOT_FLAGS)
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "Qwen 3-VL-8B: CLIPLoader with type qwen_image."),
    [PROMPT] = IN_PROMPT("prompt", "What the picture is to show."),
    [NEGATIVE_PROMPT] =
        IN_PROMPT("negative_prompt", "What it is not to show. With a cfg of 1 it does not count."),
    [VAE] = IN_OBJECT("vae", "VAE",
                      "Qwen-Image 2.1's VAE, which shows the model the pictures. Needed with them.",
                      .flags = GRAFT_INPUT_OPTIONAL),
    [RESOLUTION] = IN_INT("resolution", WHOLE, 0, 4096, 32,
                          "Width and height of the empty latent in pixels. 0: 1024. With pictures "
                          "this is the area that they are seen at, and the latent has the last "
                          "one's proportions."),
    [IMAGE] = IN_OBJECT("images.image_1", "IMAGE",
                        "A picture of any size that the prompt may speak of as <image1>, the "
                        "next as <image2> and so on: up to 8.",
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

static graft_status take_pictures(graft_call *c, graft_analyzed_prompt *p)
{
    for (int i = 0; i < IMAGES; i++) {
        const graft_image *image = graft_arg_image(c, IMAGE + i);
        if (!image) continue;
        if (p->n_pictures == GRAFT_ANALYZED_PICTURES)
            return graft_call_fail(c, IMAGE + i, GRAFT_E_LIMIT,
                                   "a prompt shows at most %d pictures", GRAFT_ANALYZED_PICTURES);
        p->picture[p->n_pictures++] = image;
    }
    return p->n_pictures && !p->vae
               ? graft_call_fail(c, VAE, GRAFT_E_ARG,
                                 "pictures need a VAE to be shown to the model")
               : GRAFT_OK;
}

/* As large as the last picture is seen. */
static graft_status empty_latent(graft_call *c, const graft_analyzed_prompt *p)
{
    int64_t width = p->side, height = p->side;
    graft_latent *latent = NULL;
    graft_status st = GRAFT_OK;
    if (p->n_pictures)
        st = graft_analyzed_size(p->picture[p->n_pictures - 1], p->side, &width, &height, &c->err);
    if (!st) st = graft_latent_empty(CHANNELS, width, height, 1, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 2, latent);
}

static graft_status run(graft_call *c)
{
    graft_cond *cond[2] = {NULL};
    const int64_t given = graft_arg_i64(c, RESOLUTION);
    graft_analyzed_prompt prompt = {
        .text = {graft_arg_text(c, PROMPT), graft_arg_text(c, NEGATIVE_PROMPT)},
        .vae = graft_arg_vae(c, VAE),
        .side = given ? given : WHOLE};
    graft_status st = take_pictures(c, &prompt);
    if (st) return st;
    graft_call_phase(c, "encode");
    st = graft_clip_encode_analyzed(graft_arg_clip(c, CLIP), &prompt, &c->task, cond, &c->err);
    for (int i = 0; i < 2 && !st; i++) {
        st = graft_call_out_cond(c, i, cond[i]);
        cond[i] = NULL;
    }
    graft_cond_release(cond[1]);
    return st ? st : empty_latent(c, &prompt);
}

GRAFT_NODE(text_encode_qwen_image21, .id = "TextEncodeQwenImage21",
           .title = "Text Encode Qwen Image 2.1", .category = "advanced/conditioning",
           .description = "Encodes a prompt and a negative prompt for Qwen-Image 2.1, with the "
                          "pictures that they speak of, and makes an empty latent for it.");
