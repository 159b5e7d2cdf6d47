/* SkipLayerGuidanceSD3: away from what the transformer makes without some of its blocks. */
#include "nodes/node.h"

enum { MODEL, LAYERS, SCALE, START_PERCENT, END_PERCENT };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change: SD 3 or 3.5."),
    [LAYERS] = IN_TEXT("layers", "7, 8, 9",
                       "The blocks that are left out, counted from 0. SD 3.5 medium wants 7, 8 "
                       "and 9."),
    [SCALE] = IN_FLOAT("scale", 3.0, 0.0, 10.0, 0.1,
                       "How far away from the picture without these blocks; 0 turns it off."),
    [START_PERCENT] = IN_FLOAT("start_percent", 0.01, 0.0, 1.0, 0.001,
                               "Where it begins: 0 is the start of the schedule."),
    [END_PERCENT] = IN_FLOAT("end_percent", 0.15, 0.0, 1.0, 0.001,
                             "Where it ends: 1 is the end of the schedule."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st = graft_model_skip_layers(
        graft_arg_model(c, MODEL), graft_arg_text(c, LAYERS), graft_arg_f64(c, SCALE),
        graft_arg_f64(c, START_PERCENT), graft_arg_f64(c, END_PERCENT), &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(skip_layer_guidance_sd3, .id = "SkipLayerGuidanceSD3", .title = "SkipLayerGuidanceSD3",
           .category = "advanced/guidance",
           .description = "Makes structures of Stable Diffusion 3.5 medium firmer: in some steps "
                          "the picture is led away from what the network makes without a few of "
                          "its blocks. Those steps take half as long again.");
