/* The nodes of hooks hand their inputs on, in the right order and to both sides. */
#include "tests/nodes/connected.h"

/* Runs a node with everything connected, but for what `edit` changes; lets go of its results. */
static void expect(const char *id, void (*edit)(const graft_node *n, graft_arg *in),
                   const char *want)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[24], out[4];
    int live = fake_live;
    connect(n, in);
    if (edit) edit(n, in);
    CHECK_INT(run_with(id, in, out), GRAFT_OK);
    CHECK_STR(fake_trace, want);
    for (int i = 0; n->outputs[i]; i++)
        CHECK(out[i].kind == GRAFT_OBJECT &&
              strcmp(out[i].u.v->ops->type, n->outputs[i]->type) == 0);
    fake_host_release(out, 4);
    CHECK_INT(fake_live, live);
}

static void drop(const graft_node *n, graft_arg *in, const char *name)
{
    in[fake_host_input(n, name)] = (graft_arg){.kind = GRAFT_NONE};
}

static void edit_strengths(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength_model", 0.75);
    if (fake_host_input(n, "strength_clip") >= 0) set_f(n, in, "strength_clip", -0.5);
}
static void edit_strength(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength_model", 0.75);
    drop(n, in, "prev_hooks");
}

static void hooks_are_made(void)
{
    expect("CreateHookLora", edit_strengths, "hook lora file.safetensors 0.75 -0.5 behind 1\n");
    CHECK_STR(host.phases, "load ");
    expect("CreateHookLoraModelOnly", edit_strength,
           "hook lora file.safetensors 0.75 0 behind 0\n");
    expect("CreateHookModelAsLora", edit_strengths,
           "hook checkpoint file.safetensors 0.75 -0.5 behind 1\n");
    expect("CreateHookModelAsLoraModelOnly", edit_strength,
           "hook checkpoint file.safetensors 0.75 0 behind 0\n");
}

static void edit_some(const graft_node *n, graft_arg *in)
{
    drop(n, in, "hooks_A");
    drop(n, in, "hooks_C");
}
static void edit_none(const graft_node *n, graft_arg *in)
{
    drop(n, in, "hooks_A");
    drop(n, in, "hooks_B");
}

static void hooks_are_combined(void)
{
    expect("CombineHooks2", NULL, "hooks 0 and 0\nhooks 0 and 1\nhooks 1 and 1\n");
    expect("CombineHooks2", edit_none, "hooks 0 and 0\n");
    expect("CombineHooks4", edit_some, "hooks 0 and 0\nhooks 0 and 1\nhooks 1 and 1\n");
    expect("CombineHooks8", NULL,
           "hooks 0 and 0\nhooks 0 and 1\nhooks 1 and 1\nhooks 2 and 1\nhooks 3 and 1\n"
           "hooks 4 and 1\nhooks 5 and 1\nhooks 6 and 1\nhooks 7 and 1\n");
}

static void edit_keyframe(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength_mult", -2);
    set_f(n, in, "start_percent", 0.25);
}
static void edit_curve(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength_start", 0.5), set_f(n, in, "strength_end", 2);
    set_f(n, in, "start_percent", 0.125), set_f(n, in, "end_percent", 0.75);
    set_i(n, in, "keyframes_count", 3), set_s(n, in, "interpolation", "ease_out");
    set_i(n, in, "print_keyframes", 1);
}
static void edit_number(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "start_percent", 0.125), set_f(n, in, "end_percent", 0.75);
}
static void edit_no_keyframes(const graft_node *n, graft_arg *in)
{
    drop(n, in, "hook_kf");
}

static void keyframes_are_made(void)
{
    expect("CreateHookKeyframe", edit_keyframe, "keyframe 0.25 -2\n");
    expect("CreateHookKeyframesInterpolated", edit_curve,
           "curve ease_out of 3\nkeyframe 0.125 0.5\nkeyframe 0.125 0.5\nkeyframe 0.75 2\n");
    CHECK(strstr(host.log, "keyframe 3: from 0.750 on 2") != NULL);
    expect("CreateHookKeyframesFromFloats", edit_number, "curve linear of 1\nkeyframe 0.75 0.5\n");
    CHECK_STR(host.log, "");
    expect("SetHookKeyframes", NULL, "schedule 1 by 1\n");
    expect("SetHookKeyframes", edit_no_keyframes, "");
}

/* ------------------------------------------------------------------ lists of another plugin */

static graft_tensor numbers;

static void count(graft_value *v)
{
    (void)v;
}
static const void *query(const graft_value *v, const char *id)
{
    (void)v;
    return strcmp(id, GRAFT_TENSOR_ID) == 0 ? &numbers : NULL;
}

static void lists_of_numbers(void)
{
    static float data[] = {1, 9, -0.5f, 9, 2, 9};
    static const graft_value_ops ops = {"FLOATS", count, count, query};
    graft_value floats = {&ops};
    const graft_node *n = fake_host_node("CreateHookKeyframesFromFloats");
    graft_arg in[24], out[4];
    numbers = (graft_tensor){.data = data, .ndim = 1, .shape = {3}, .stride = {2}};
    numbers.dtype_code = 2, numbers.dtype_bits = 32, numbers.dtype_lanes = 1;
    numbers.device_type = 1;
    connect(n, in);
    in[0] = (graft_arg){.kind = GRAFT_OBJECT, .u.v = &floats};
    CHECK_INT(run_with(n->id, in, out), GRAFT_OK);
    CHECK_STR(host.fail_text, "");
    CHECK_STR(fake_trace, "curve linear of 3\nkeyframe 0 1\nkeyframe 0 -0.5\nkeyframe 1 2\n");
    fake_host_release(out, 4);
    numbers.ndim = 2;
    CHECK_INT(run_with(n->id, in, out), GRAFT_E_UNSUPPORTED);
    CHECK_STR(host.fail_input, "floats_strength");
}

/* ------------------------------------------------------------------ prompts */

static void edit_no_hooks(const graft_node *n, graft_arg *in)
{
    drop(n, in, "hooks");
}
static void edit_scheduled(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "apply_to_conds", 0);
    set_i(n, in, "schedule_clip", 1);
}

static void text_encoders(void)
{
    expect("SetClipHooks", NULL, "clip with 1 on_prompts=1 scheduled=0\n");
    expect("SetClipHooks", edit_scheduled, "clip with 1 on_prompts=0 scheduled=1\n");
    expect("SetClipHooks", edit_no_hooks, "");
}

static void edit_props(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength", 2.5);
    set_s(n, in, "set_cond_area", "mask bounds");
}
static void edit_bare(const graft_node *n, graft_arg *in)
{
    drop(n, in, "hooks");
    drop(n, in, "mask");
    drop(n, in, "timesteps");
}
static void edit_strong(const graft_node *n, graft_arg *in)
{
    edit_bare(n, in);
    set_f(n, in, "strength", 0.5);
}

#define PROPS "prompt with 1\nmask 1 2.5 bounds=1\nrange 0.25 0.75\n"

static void prompts(void)
{
    expect("ConditioningSetProperties", edit_props, PROPS);
    expect("ConditioningSetProperties", NULL,
           "prompt with 1\nmask 1 1 bounds=0\nrange 0.25 0.75\n");
    expect("ConditioningSetProperties", edit_bare, "");
    expect("ConditioningSetProperties", edit_strong, "strength 0.5\n");
    expect("ConditioningSetPropertiesAndCombine", edit_props, PROPS "combine 1\n");
    expect("ConditioningSetPropertiesAndCombine", edit_bare, "combine 1\n");
    expect("PairConditioningSetProperties", edit_props, PROPS PROPS);
    expect("PairConditioningSetPropertiesAndCombine", edit_props,
           PROPS "combine 1\n" PROPS "combine 1\n");
    expect("PairConditioningCombine", NULL, "combine 1\ncombine 0\n");
    expect("ConditioningSetDefaultCombine", NULL, "default 1 with 1\n");
    expect("ConditioningSetDefaultCombine", edit_no_hooks, "default 1 with 0\n");
    expect("PairConditioningSetDefaultCombine", NULL, "default 1 with 1\ndefault 0 with 1\n");
}

static void ranges(void)
{
    const graft_node *n = fake_host_node("ConditioningTimestepsRange");
    static const double want[][2] = {{0.25, 0.75}, {0, 0.25}, {0.75, 1}};
    graft_arg in[24], out[4];
    fake_host_defaults(n, in);
    set_f(n, in, "start_percent", 0.25), set_f(n, in, "end_percent", 0.75);
    CHECK_INT(run_with(n->id, in, out), GRAFT_OK);
    for (int i = 0; i < 3; i++) {
        const graft_steps_range *r = graft_value_object(out[i].u.v, GRAFT_VALUE_TIMESTEPS_RANGE);
        CHECK(r->start == want[i][0] && r->end == want[i][1]);
    }
    fake_host_release(out, 4);
}

int main(void)
{
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(make_inputs);
    RUN(hooks_are_made);
    RUN(hooks_are_combined);
    RUN(keyframes_are_made);
    RUN(lists_of_numbers);
    RUN(text_encoders);
    RUN(prompts);
    RUN(ranges);
    check_nothing_is_left();
    return test_end();
}
