/* CombineHooks8: several hooks together. */
#include "nodes/hooks/hook_inputs.h"

#define IN_HOOKS(letter_)                                                                          \
    IN_OBJECT("hooks_" letter_, "HOOKS",                                                           \
              "The hooks that come in place " letter_ "; nothing is no hooks.",                    \
              .flags = GRAFT_INPUT_OPTIONAL)
static const graft_input *const inputs[] = {IN_HOOKS("A"), IN_HOOKS("B"), IN_HOOKS("C"),
                                            IN_HOOKS("D"), IN_HOOKS("E"), IN_HOOKS("F"),
                                            IN_HOOKS("G"), IN_HOOKS("H"), NULL};
static const graft_output *const outputs[] = {OUT_HOOKS(), NULL};

static graft_status run(graft_call *c)
{
    return graft_hook_inputs_combine(c, 8);
}

GRAFT_NODE(combine_hooks_8, .id = "CombineHooks8", .title = "Combine Hooks [8]",
           .category = "advanced/hooks/combine", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Puts hooks together, one after the other. One that comes twice counts "
                          "once.");
