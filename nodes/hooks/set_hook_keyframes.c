/* SetHookKeyframes: when hooks count, and how much. */
#include "nodes/hooks/hook_inputs.h"

enum { HOOKS, HOOK_KF };
static const graft_input *const inputs[] = {
    [HOOKS] = IN_OBJECT("hooks", "HOOKS", "The hooks; other keyframes that they have go."),
    [HOOK_KF] = IN_OBJECT("hook_kf", "HOOK_KEYFRAMES",
                          "Keyframes for all of them; without, the hooks stay as they are.",
                          .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {OUT_HOOKS(), NULL};

static graft_status run(graft_call *c)
{
    graft_hooks *hooks = NULL;
    if (!graft_arg_keyframes(c, HOOK_KF)) return graft_call_out_same(c, 0, HOOKS);
    graft_status st = graft_hooks_schedule(graft_arg_hooks(c, HOOKS),
                                           graft_arg_keyframes(c, HOOK_KF), &hooks, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_hooks(c, 0, hooks);
}

GRAFT_NODE(set_hook_keyframes, .id = "SetHookKeyframes", .title = "Set Hook Keyframes",
           .category = "advanced/hooks/scheduling", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Lets the strength of hooks change while a picture is sampled.");
