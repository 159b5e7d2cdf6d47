/* FreeU_V2: features against skip connections, by place. */
#include "nodes/model/free_u.h"

static const graft_input *const inputs[] = {
    [FREE_U_MODEL] = IN_FREE_U_MODEL(),
    [FREE_U_B1] =
        IN_FREE_U("b1", 1.3,
                  "How much half of the widest features count where they are strongest in the "
                  "picture: more draws clearer shapes. 1 changes nothing."),
    [FREE_U_B2] = IN_FREE_U("b2", 1.4, "The same for the features half as wide."),
    [FREE_U_S1] = IN_FREE_U_S1(),
    [FREE_U_S2] = IN_FREE_U_S2(),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The model with FreeU."), NULL};

static graft_status run(graft_call *c)
{
    return free_u_run(c, 2);
}

GRAFT_NODE(free_u_v2, .id = "FreeU_V2", .title = "FreeU_V2", .category = "model_patches/unet",
           .description =
               "FreeU that raises features only where they are strong, which overdoes less than "
               "the first version. The last FreeU of a model counts.");
