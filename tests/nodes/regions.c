/* The nodes that place prompts in a picture hand their inputs on. */
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static graft_arg model[4], prompt[4], picture[4], mask[4];

static graft_status run_with(const char *id, const graft_arg *in, graft_arg *out)
{
    fake_engine_reset();
    fake_host_clear(&host);
    return fake_host_run(&host, fake_host_node(id), in, out, NULL, 0);
}

/* A prompt and a mask. */
static void make_inputs(void)
{
    graft_arg in[24];
    fake_host_defaults(fake_host_node("CheckpointLoaderSimple"), in);
    CHECK_INT(run_with("CheckpointLoaderSimple", in, model), GRAFT_OK);
    const graft_node *n = fake_host_node("CLIPTextEncode");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "clip")] = model[1];
    CHECK_INT(run_with("CLIPTextEncode", in, prompt), GRAFT_OK);
    fake_host_defaults(fake_host_node("EmptyImage"), in);
    CHECK_INT(run_with("EmptyImage", in, picture), GRAFT_OK);
    n = fake_host_node("ImageToMask");
    fake_host_defaults(n, in);
    in[fake_host_input(n, "image")] = picture[0];
    CHECK_INT(run_with("ImageToMask", in, mask), GRAFT_OK);
}

/* Numbers for the node's inputs after the conditioning and the mask, in their order. */
static void expect(const char *id, const double *numbers, const char *choice, const char *want)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[24], out[4];
    int live = fake_live, next = 0;
    fake_host_defaults(n, in);
    for (int i = 0; n->inputs[i]; i++) {
        if (strcmp(n->inputs[i]->type, "CONDITIONING") == 0) in[i] = prompt[0];
        if (strcmp(n->inputs[i]->type, "MASK") == 0) in[i] = mask[0];
        if (in[i].kind == GRAFT_INT) in[i].u.i = (int64_t)numbers[next++];
        if (in[i].kind == GRAFT_FLOAT) in[i].u.f = numbers[next++];
        if (in[i].kind == GRAFT_CHOICE) in[i].u.s = choice;
    }
    CHECK_INT(run_with(id, in, out), GRAFT_OK);
    CHECK_STR(fake_trace, want);
    CHECK_INT(host.fails, 0);
    CHECK_STR(out[0].u.v->ops->type, "CONDITIONING");
    fake_host_release(out, 4);
    CHECK_INT(fake_live, live);
}

static void numbers_arrive(void)
{
    static const double pixels[] = {128, 72, 8, 16, 2.5}, shares[] = {0.5, 0.25, 0.125, 0.75, 2.5};
    expect("ConditioningSetArea", pixels, NULL, "area 128 x 72 at 8, 16 pixels 2.5\n");
    expect("ConditioningSetAreaPercentage", shares, NULL,
           "area 0.5 x 0.25 at 0.125, 0.75 shares 2.5\n");
    expect("ConditioningSetAreaStrength", pixels + 4, NULL, "strength 2.5\n");
    expect("ConditioningSetMask", pixels + 4, "default", "mask 1 2.5 bounds=0\n");
    expect("ConditioningSetMask", pixels + 4, "mask bounds", "mask 1 2.5 bounds=1\n");
}

int main(void)
{
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    make_inputs();
    RUN(numbers_arrive);
    fake_host_release(model, 4), fake_host_release(prompt, 4);
    fake_host_release(picture, 4), fake_host_release(mask, 4);
    graft_plugin_entry.deinit();
    CHECK_INT(fake_live, 0);
    CHECK_INT(fake_engines, 0);
    fake_host_finish(&host);
    return test_end();
}
