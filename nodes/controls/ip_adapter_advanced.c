/* IPAdapterAdvanced: pictures as prompts, also against others. */
#include "nodes/controls/ip_adapter.h"

enum {
    MODEL,
    IPADAPTER,
    IMAGE,
    WEIGHT,
    WEIGHT_TYPE,
    COMBINE_EMBEDS,
    START_AT,
    END_AT,
    EMBEDS_SCALING,
    IMAGE_NEGATIVE,
    ATTN_MASK,
    CLIP_VISION
};
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that is to see the pictures."),
    [IPADAPTER] = IN_OBJECT("ipadapter", "IPADAPTER", "The adapter, made for such models."),
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures, of which the middle square is seen."),
    [WEIGHT] =
        IN_FLOAT("weight", 1.0, -1.0, 5.0, 0.05, "How much the pictures count; 0: not at all."),
    [WEIGHT_TYPE] = IN_CHOICE("weight_type", CHOICES("linear"),
                              "linear: the weight is the same in all of the model."),
    [COMBINE_EMBEDS] = IN_CHOICE("combine_embeds", CHOICES("concat"),
                                 "concat: the model sees each picture of a batch."),
    [START_AT] =
        IN_FLOAT("start_at", 0.0, 0.0, 1.0, 0.001, "Share of the steps at which they begin to."),
    [END_AT] =
        IN_FLOAT("end_at", 1.0, 0.0, 1.0, 0.001, "Share of the steps at which they cease to."),
    [EMBEDS_SCALING] =
        IN_CHOICE("embeds_scaling", CHOICES("V only"), "V only: the weight is of what they add."),
    [IMAGE_NEGATIVE] = IN_OBJECT("image_negative", "IMAGE",
                                 "What negative prompts see: one picture, or as many as there are.",
                                 .flags = GRAFT_INPUT_OPTIONAL),
    [ATTN_MASK] =
        IN_OBJECT("attn_mask", "MASK", "Where in the picture they count: white. It is scaled.",
                  .flags = GRAFT_INPUT_OPTIONAL),
    [CLIP_VISION] = IN_OBJECT("clip_vision", "CLIP_VISION", "The encoder that the adapter is for.",
                              .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model that sees the pictures."), NULL};

static graft_status run(graft_call *c)
{
    static const graft_ip_adapter_inputs in = {
        MODEL, IPADAPTER, IMAGE, IMAGE_NEGATIVE, CLIP_VISION, ATTN_MASK, WEIGHT, START_AT, END_AT};
    return graft_ip_adapter_apply(c, &in);
}

GRAFT_NODE(ip_adapter_advanced, .id = "IPAdapterAdvanced", .title = "IPAdapter Advanced",
           .category = "ipadapter",
           .description = "Shows pictures to a model, and others to its negative prompts.");
