/* CreateHookKeyframesFromFloats: a keyframe for each number of a list. */
#include "nodes/hooks/hook_inputs.h"

enum { FLOATS_STRENGTH, START_PERCENT, END_PERCENT, PRINT_KEYFRAMES, PREV_HOOK_KF };
static const graft_input *const inputs[] = {
    [FLOATS_STRENGTH] = IN_OBJECT("floats_strength", "FLOATS,FLOAT",
                                  "What the keyframes multiply strengths by, one after the other: "
                                  "a list of another plugin, or a number."),
    [START_PERCENT] = IN_START_PERCENT("start_percent", "Where the first keyframe begins."),
    [END_PERCENT] = IN_END_PERCENT("end_percent", "Where the last keyframe begins."),
    [PRINT_KEYFRAMES] = IN_PRINT_KEYFRAMES(),
    [PREV_HOOK_KF] = IN_PREV_KEYFRAMES(),
    NULL};
static const graft_output *const outputs[] = {OUT_KEYFRAMES(), NULL};

static graft_status run(graft_call *c)
{
    const graft_floats *floats = graft_arg_floats(c, FLOATS_STRENGTH);
    const graft_arg *a = &c->in[FLOATS_STRENGTH];
    const float one = a->kind == GRAFT_FLOAT ? (float)a->u.f : 0, *strength = &one;
    graft_keyframe_curve line = {.from = {graft_arg_f64(c, START_PERCENT), 0},
                                 .to = {graft_arg_f64(c, END_PERCENT), 0},
                                 .n = 1,
                                 .interpolation = "linear"};
    if (floats) {
        strength = floats->value;
        line.n = floats->n;
    }
    return graft_hook_inputs_curve(c, &line, strength, PREV_HOOK_KF,
                                   graft_arg_bool(c, PRINT_KEYFRAMES));
}

GRAFT_NODE(create_hook_keyframes_from_floats, .id = "CreateHookKeyframesFromFloats",
           .title = "Create Hook Keyframes From Floats", .category = "advanced/hooks/scheduling",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "A keyframe for each of a list of strengths, in even steps, for Set Hook "
                          "Keyframes.");
