/* IPAdapter: pictures as prompts beside the words. */
#include "nodes/controls/ip_adapter.h"

enum { MODEL, IPADAPTER, IMAGE, CLIP_VISION, WEIGHT, START_AT, END_AT, WEIGHT_TYPE, ATTN_MASK };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that is to see the pictures."),
    [IPADAPTER] = IN_OBJECT("ipadapter", "IPADAPTER", "The adapter, made for such models."),
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures, of which the middle square is seen."),
    [CLIP_VISION] = IN_OBJECT("clip_vision", "CLIP_VISION", "The encoder that the adapter is for."),
    [WEIGHT] =
        IN_FLOAT("weight", 1.0, -1.0, 3.0, 0.05, "How much the pictures count; 0: not at all."),
    [START_AT] =
        IN_FLOAT("start_at", 0.0, 0.0, 1.0, 0.001, "Share of the steps at which they begin to."),
    [END_AT] =
        IN_FLOAT("end_at", 1.0, 0.0, 1.0, 0.001, "Share of the steps at which they cease to."),
    [WEIGHT_TYPE] = IN_CHOICE("weight_type", CHOICES("standard"),
                              "standard: the weight is the same in all of the model."),
    [ATTN_MASK] =
        IN_OBJECT("attn_mask", "MASK", "Where in the picture they count: white. It is scaled.",
                  .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model that sees the pictures."), NULL};

graft_status graft_ip_adapter_apply(graft_call *c, const graft_ip_adapter_inputs *in)
{
    graft_model *model = NULL;
    if (!graft_arg_vision(c, in->vision))
        return graft_call_fail(c, in->vision, GRAFT_E_ARG,
                               "clip_vision is needed: the encoder that the adapter is for, from "
                               "CLIPVisionLoader");
    const graft_show_options o = {.vision = graft_arg_vision(c, in->vision),
                                  .image = graft_arg_image(c, in->image),
                                  .negative =
                                      in->negative >= 0 ? graft_arg_image(c, in->negative) : NULL,
                                  .weight = graft_arg_f64(c, in->weight),
                                  .start = graft_arg_f64(c, in->start),
                                  .end = graft_arg_f64(c, in->end),
                                  .mask = graft_arg_mask(c, in->mask)};
    graft_call_phase(c, "encode");
    graft_status st =
        graft_model_show(graft_arg_model(c, in->model), graft_arg_ip_adapter(c, in->ipadapter), &o,
                         &c->task, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

static graft_status run(graft_call *c)
{
    static const graft_ip_adapter_inputs in = {MODEL,     IPADAPTER, IMAGE,    -1,    CLIP_VISION,
                                               ATTN_MASK, WEIGHT,    START_AT, END_AT};
    return graft_ip_adapter_apply(c, &in);
}

GRAFT_NODE(ip_adapter, .id = "IPAdapter", .title = "IPAdapter", .category = "ipadapter",
           .description =
               "Shows pictures to a model: what it makes then looks like them, as far as "
               "the prompt's words leave it open. Another picture, weight or range "
               "compiles nothing anew.");
