/* SkipLayerGuidanceDiT: away from what a transformer makes without some of its blocks. */
#include "nodes/node.h"

enum { MODEL, DOUBLE_LAYERS, SINGLE_LAYERS, SCALE, START_PERCENT, END_PERCENT, RESCALING_SCALE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL",
                        "The diffusion model to change: SD 3, 3.5, FLUX.1 or AuraFlow."),
    [DOUBLE_LAYERS] = IN_TEXT("double_layers", "7, 8, 9",
                              "The blocks that are left out, counted from 0: those of two streams "
                              "of FLUX.1 and AuraFlow, any of SD 3."),
    [SINGLE_LAYERS] =
        IN_TEXT("single_layers", "7, 8, 9",
                "FLUX.1's and AuraFlow's blocks of one stream that are left out, counted from 0. "
                "SD 3 has none."),
    [SCALE] = IN_FLOAT("scale", 3.0, 0.0, 10.0, 0.1,
                       "How far away from the picture without these blocks; 0 turns it off."),
    [START_PERCENT] = IN_FLOAT("start_percent", 0.01, 0.0, 1.0, 0.001,
                               "Where it begins: 0 is the start of the schedule."),
    [END_PERCENT] = IN_FLOAT("end_percent", 0.15, 0.0, 1.0, 0.001,
                             "Where it ends: 1 is the end of the schedule."),
    [RESCALING_SCALE] = IN_FLOAT("rescaling_scale", 0.0, 0.0, 10.0, 0.01,
                                 "How much of the contrast that this adds is taken back: 0 "
                                 "nothing, 1 all of it."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_skip_options options = {.layers = graft_arg_text(c, DOUBLE_LAYERS),
                                        .single_layers = graft_arg_text(c, SINGLE_LAYERS),
                                        .scale = graft_arg_f64(c, SCALE),
                                        .start = graft_arg_f64(c, START_PERCENT),
                                        .end = graft_arg_f64(c, END_PERCENT),
                                        .rescale = graft_arg_f64(c, RESCALING_SCALE)};
    graft_status st = graft_model_skip_blocks(graft_arg_model(c, MODEL), &options, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(skip_layer_guidance_dit, .id = "SkipLayerGuidanceDiT", .title = "SkipLayerGuidanceDiT",
           .category = "advanced/guidance",
           .description = "Makes structures firmer: in some steps the picture is led away from "
                          "what the transformer makes without a few of its blocks.");
