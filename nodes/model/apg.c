/* APG: guidance without what burns colours in. */
#include "nodes/node.h"

enum { MODEL, ETA, NORM_THRESHOLD, MOMENTUM };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [ETA] = IN_FLOAT("eta", 1.0, -10.0, 10.0, 0.01,
                     "How much of guidance along the prediction itself is kept: that part makes "
                     "colours burn in. 1: all of it."),
    [NORM_THRESHOLD] = IN_FLOAT("norm_threshold", 5.0, 0.0, 50.0, 0.1,
                                "The most that guidance may change at once; 0: anything."),
    [MOMENTUM] = IN_FLOAT("momentum", 0.0, -5.0, 1.0, 0.01,
                          "How much of earlier steps' guidance is added; below 0 it is taken away. "
                          "0: nothing."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_cfg_change change = {.kind = GRAFT_CFG_PROJECTED,
                                     .strength = graft_arg_f64(c, ETA),
                                     .limit = graft_arg_f64(c, NORM_THRESHOLD),
                                     .momentum = graft_arg_f64(c, MOMENTUM)};
    graft_status st = graft_model_change_cfg(graft_arg_model(c, MODEL), &change, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(apg, .id = "APG", .title = "Adaptive Projected Guidance",
           .category = "sampling/custom_sampling",
           .description =
               "Lets a high cfg follow the prompt without burning colours in, by leaving out the "
               "part of guidance that only makes them stronger.");
