/* CombineHooks4: several hooks together. */
#include "nodes/hooks/hook_inputs.h"

#define IN_HOOKS(letter_)                                                                          \
    IN_OBJECT("hooks_" letter_, "HOOKS",                                                           \
              "The hooks that come in place " letter_ "; nothing is no hooks.",                    \
              .flags = GRAFT_INPUT_OPTIONAL)
static const graft_input *const inputs[] = {IN_HOOKS("A"), IN_HOOKS("B"), IN_HOOKS("C"),
                                            IN_HOOKS("D"), NULL};
static const graft_output *const outputs[] = {OUT_HOOKS(), NULL};

static graft_status run(graft_call *c)
{
    return graft_hook_inputs_combine(c, 4);
}

GRAFT_NODE(combine_hooks_4, .id = "CombineHooks4", .title = "Combine Hooks [4]",
           .category = "advanced/hooks/combine", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Puts hooks together, one after the other. One that comes twice counts "
                          "once.");
