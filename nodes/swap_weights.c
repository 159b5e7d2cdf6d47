/* SwapWeights: another checkpoint in the same compiled graphs. */
#include "base/alloc.h"
#include "nodes/node.h"

enum { MODEL, CKPT_NAME, KEEP_RESIDENT };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The model whose compiled graphs are used again."),
    [CKPT_NAME] = IN_CHOICE("ckpt_name", NULL,
                            "The checkpoint whose weights to use. It must have the same "
                            "architecture as the model."),
    [KEEP_RESIDENT] = IN_CHOICE("keep_resident", CHOICES("enable", "disable"),
                                "enable keeps both sets of weights in memory, so that swapping "
                                "back is instant; disable saves the memory."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The same model with the other weights."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_files_of_input(c, CKPT_NAME, "checkpoints", &path));
    GRAFT_TRY(graft_model_swap(graft_arg_model(c, MODEL), path,
                               graft_arg_is(c, KEEP_RESIDENT, "enable"), &c->task, &model,
                               &c->err));
    GRAFT_TRY(graft_call_out_model(c, 0, model));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("checkpoints", CKPT_NAME)

GRAFT_NODE(
    swap_weights, .id = "SwapWeights", .title = "Swap Weights", .category = "graft",
    .description =
        "Runs the same compiled graphs with another checkpoint's weights; nothing is recompiled.",
    .query = query);
