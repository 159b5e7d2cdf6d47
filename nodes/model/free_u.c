/* FreeU: features against skip connections. */
#include "nodes/model/free_u.h"

static const graft_input *const inputs[] = {
    [FREE_U_MODEL] = IN_FREE_U_MODEL(),
    [FREE_U_B1] =
        IN_FREE_U("b1", 1.1,
                  "How much half of the widest features count: more draws clearer shapes, too much "
                  "overdoes contrast. 1 changes nothing."),
    [FREE_U_B2] = IN_FREE_U("b2", 1.2, "The same for the features half as wide."),
    [FREE_U_S1] = IN_FREE_U_S1(),
    [FREE_U_S2] = IN_FREE_U_S2(),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The model with FreeU."), NULL};

static graft_status run(graft_call *c)
{
    return free_u_run(c, 1);
}

GRAFT_NODE(free_u, .id = "FreeU", .title = "FreeU", .category = "model_patches/unet",
           .description =
               "Weighs what the model has worked out against what its shortcuts bring along: "
               "clearer shapes without any training. The last FreeU "
               "of a model counts.");
