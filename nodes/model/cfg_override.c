/* CFGOverride: another cfg in a part of the steps. */
#include "nodes/node.h"

enum { MODEL, CFG, START_PERCENT, END_PERCENT };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [CFG] = IN_FLOAT("cfg", 1.0, 0.0, 100.0, 0.1,
                     "The cfg of these steps, whatever the sampler or guider says.", .round = 0.01),
    [START_PERCENT] =
        IN_FLOAT("start_percent", 0.0, 0.0, 1.0, 0.001,
                 "Where in the model's schedule this begins, 0: at most noise, 1: at none."),
    [END_PERCENT] = IN_FLOAT("end_percent", 1.0, 0.0, 1.0, 0.001, "Where it ends."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model that is sampled so."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_cfg_override override = {.cfg = graft_arg_f64(c, CFG),
                                         .start = graft_arg_f64(c, START_PERCENT),
                                         .end = graft_arg_f64(c, END_PERCENT)};
    graft_status st =
        graft_model_override_cfg(graft_arg_model(c, MODEL), &override, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(cfg_override, .id = "CFGOverride", .title = "CFG Override",
           .category = "advanced/guidance",
           .description = "Samples a part of the steps with another cfg. Of several whose parts "
                          "overlap the one nearest to the sampler counts.");
