/* CreateHookKeyframe: how strong hooks are from one moment of sampling on. */
#include "nodes/hooks/hook_inputs.h"

enum { STRENGTH_MULT, START_PERCENT, PREV_HOOK_KF };
static const graft_input *const inputs[] = {
    [STRENGTH_MULT] = IN_FLOAT("strength_mult", 1.0, -20.0, 20.0, 0.01,
                               "What the hooks' strengths are multiplied by from here on; 0 turns "
                               "them off."),
    [START_PERCENT] = IN_START_PERCENT(
        "start_percent", "Where it begins to count: 0 is the start of sampling. The first "
                         "keyframe counts from the start in any case."),
    [PREV_HOOK_KF] = IN_PREV_KEYFRAMES(),
    NULL};
static const graft_output *const outputs[] = {OUT_KEYFRAMES(), NULL};

static graft_status run(graft_call *c)
{
    const graft_keyframe one = {graft_arg_f64(c, START_PERCENT), graft_arg_f64(c, STRENGTH_MULT)};
    graft_keyframes *k = NULL;
    graft_status st =
        graft_keyframes_add(graft_arg_keyframes(c, PREV_HOOK_KF), &one, 1, &k, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_keyframes(c, 0, k);
}

GRAFT_NODE(create_hook_keyframe, .id = "CreateHookKeyframe", .title = "Create Hook Keyframe",
           .category = "advanced/hooks/scheduling", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "A keyframe for Set Hook Keyframes: it counts from its start until "
                          "another one starts.");
