/* What the nodes that make hooks and keyframes have in common. */
#ifndef GRAFT_NODES_HOOK_INPUTS_H
#define GRAFT_NODES_HOOK_INPUTS_H
#include "nodes/node.h"

#define IN_HOOK_STRENGTH(name_, what_)                                                             \
    IN_FLOAT(name_, 1.0, -20.0, 20.0, 0.01,                                                        \
             "How strongly the " what_                                                             \
             " changes; keyframes multiply it. 0 is no change, negative values push the other "    \
             "way.")
#define IN_PREV_HOOKS()                                                                            \
    IN_OBJECT("prev_hooks", "HOOKS", "Hooks that come before this one.",                           \
              .flags = GRAFT_INPUT_OPTIONAL)
#define IN_HOOKS_OF(letter_)                                                                       \
    IN_OBJECT("hooks_" letter_, "HOOKS",                                                           \
              "The hooks that come in place " letter_ "; nothing is no hooks.",                    \
              .flags = GRAFT_INPUT_OPTIONAL)
#define OUT_HOOKS()                                                                                \
    OUT("HOOKS", "HOOKS", "All hooks, for prompts (Cond Set Props) or text encoders.")

#define IN_START_PERCENT(name_, tooltip_) IN_FLOAT(name_, 0.0, 0.0, 1.0, 0.001, tooltip_)
#define IN_END_PERCENT(name_, tooltip_)   IN_FLOAT(name_, 1.0, 0.0, 1.0, 0.001, tooltip_)

#define IN_PRINT_KEYFRAMES() IN_BOOL("print_keyframes", false, "Writes the keyframes into the log.")
#define IN_PREV_KEYFRAMES()                                                                        \
    IN_OBJECT("prev_hook_kf", "HOOK_KEYFRAMES", "Keyframes to add these to.",                      \
              .flags = GRAFT_INPUT_OPTIONAL)
#define OUT_KEYFRAMES() OUT("HOOK_KF", "HOOK_KEYFRAMES", "All keyframes, for Set Hook Keyframes.")

/* Makes a hook of a file, behind those of input `before`. clip: the strength for text encoders, a
 * number of an input as `model` is, or GRAFT_HOOK_ALONE: they are left alone. */
#define GRAFT_HOOK_ALONE (-1)
typedef struct graft_hook_inputs {
    int name, model, clip, before;
} graft_hook_inputs;
graft_status graft_hook_inputs_lora(graft_call *c, const graft_hook_inputs *in);
graft_status graft_hook_inputs_checkpoint(graft_call *c, const graft_hook_inputs *in);

/* Combines what inputs 0 … n - 1 have. */
graft_status graft_hook_inputs_combine(graft_call *c, int n);
/* The curve behind the keyframes of input `before`, told in the log where `print` says so.
 * strength: NULL, or the strengths themselves. */
graft_status graft_hook_inputs_curve(graft_call *c, const graft_keyframe_curve *curve,
                                     const float *strength, int before, bool print);
#endif
