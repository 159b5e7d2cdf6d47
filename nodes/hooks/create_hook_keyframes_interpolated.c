/* CreateHookKeyframesInterpolated: keyframes along a curve. */
#include "nodes/hooks/hook_inputs.h"

enum {
    STRENGTH_START,
    STRENGTH_END,
    INTERPOLATION,
    START_PERCENT,
    END_PERCENT,
    KEYFRAMES_COUNT,
    PRINT_KEYFRAMES,
    PREV_HOOK_KF
};
static const graft_input *const inputs[] = {
    [STRENGTH_START] = IN_FLOAT("strength_start", 1.0, 0.0, 10.0, 0.001,
                                "What the first keyframe multiplies strengths by."),
    [STRENGTH_END] = IN_FLOAT("strength_end", 1.0, 0.0, 10.0, 0.001,
                              "What the last keyframe multiplies strengths by."),
    [INTERPOLATION] = IN_CHOICE("interpolation", CHOICES(GRAFT_INTERPOLATIONS),
                                "The way between: linear evenly, ease_in slowly at first, ease_out "
                                "slowly at last, ease_in_out slowly at both ends."),
    [START_PERCENT] = IN_START_PERCENT("start_percent", "Where the first keyframe begins."),
    [END_PERCENT] = IN_END_PERCENT("end_percent", "Where the last keyframe begins."),
    [KEYFRAMES_COUNT] =
        IN_INT("keyframes_count", 5, 2, 100, 1,
               "How many keyframes. Each strength is a set of weights more to make and keep: as "
               "many as there are steps between the two ends are enough."),
    [PRINT_KEYFRAMES] = IN_PRINT_KEYFRAMES(),
    [PREV_HOOK_KF] = IN_PREV_KEYFRAMES(),
    NULL};
static const graft_output *const outputs[] = {OUT_KEYFRAMES(), NULL};

static graft_status run(graft_call *c)
{
    const graft_keyframe_curve curve = {
        .from = {graft_arg_f64(c, START_PERCENT), graft_arg_f64(c, STRENGTH_START)},
        .to = {graft_arg_f64(c, END_PERCENT), graft_arg_f64(c, STRENGTH_END)},
        .n = (size_t)graft_arg_i64(c, KEYFRAMES_COUNT),
        .interpolation = graft_arg_text(c, INTERPOLATION)};
    return graft_hook_inputs_curve(c, &curve, NULL, PREV_HOOK_KF,
                                   graft_arg_bool(c, PRINT_KEYFRAMES));
}

GRAFT_NODE(create_hook_keyframes_interpolated, .id = "CreateHookKeyframesInterpolated",
           .title = "Create Hook Keyframes Interp.", .category = "advanced/hooks/scheduling",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Several keyframes, from one strength to another, for Set Hook "
                          "Keyframes.");
