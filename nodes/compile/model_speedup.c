/* ModelSpeedup, a name of OneDiff: CompileModel with the usual options, and a booster. */
#include "nodes/call/booster.h"
#include "nodes/node.h"

enum { MODEL, CUSTOM_BOOSTER, INPLACE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to compile."),
    [CUSTOM_BOOSTER] = IN_OBJECT("custom_booster", "CUSTOM_BOOSTER",
                                 "What to add to compiling; nothing when not connected.",
                                 .flags = GRAFT_INPUT_OPTIONAL),
    [INPLACE] = IN_BOOL("inplace", true, "Has no effect: models are never changed, only shared.",
                        .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The compiled model."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_call_phase(c, "compile");
    graft_status st = graft_booster_apply(graft_arg_booster(c, CUSTOM_BOOSTER),
                                          graft_arg_model(c, MODEL), &c->task, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(model_speedup, .id = "ModelSpeedup", .title = "Model Speedup", .category = "OneDiff",
           .flags = GRAFT_NODE_DEPRECATED,
           .description =
               "For workflows made for OneDiff. In new ones use Compile Model, which has "
               "precision, tuning and a memory budget.");
