/* CombineHooks4: several hooks together. */
#include "nodes/hooks/hook_inputs.h"

static const graft_input *const inputs[] = {IN_HOOKS_OF("A"), IN_HOOKS_OF("B"), IN_HOOKS_OF("C"),
                                            IN_HOOKS_OF("D"), NULL};
static const graft_output *const outputs[] = {OUT_HOOKS(), NULL};

static graft_status run(graft_call *c)
{
    return graft_hook_inputs_combine(c, 4);
}

GRAFT_NODE(combine_hooks_4, .id = "CombineHooks4", .title = "Combine Hooks [4]",
           .category = "advanced/hooks/combine", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Puts hooks together, one after the other. One that comes twice counts "
                          "once.");
