/* CombineHooks2: several hooks together. */
#include "nodes/hooks/hook_inputs.h"

static const graft_input *const inputs[] = {IN_HOOKS_OF("A"), IN_HOOKS_OF("B"), NULL};
static const graft_output *const outputs[] = {OUT_HOOKS(), NULL};

static graft_status run(graft_call *c)
{
    return graft_hook_inputs_combine(c, 2);
}

GRAFT_NODE(combine_hooks_2, .id = "CombineHooks2", .title = "Combine Hooks [2]",
           .category = "advanced/hooks/combine", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Puts hooks together, one after the other. One that comes twice counts "
                          "once.");
