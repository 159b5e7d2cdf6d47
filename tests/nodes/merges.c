/* Nodes that merge models and save them, with models that only write down how they were called. */
#include "base/alloc.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static graft_arg one[4], two[4]; /* MODEL, CLIP, VAE */

static graft_status run_with(const char *id, const graft_arg *in, graft_arg *out)
{
    fake_engine_reset();
    fake_host_clear(&host);
    return fake_host_run(&host, fake_host_node(id), in, out, NULL, 0);
}

/* Two inputs of a type get the two checkpoints' values; numbers behind them are 0.25, 0.5, 0.75,
 * and files are called as the node. */
static void connect(const graft_node *node, graft_arg *in)
{
    static const char *const types[] = {"MODEL", "CLIP", "VAE"};
    int seen = 0, numbers = 0;
    fake_host_defaults(node, in);
    for (int i = 0; node->inputs[i]; i++) {
        const graft_input *k = node->inputs[i];
        for (int t = 0; t < 3; t++)
            if (strcmp(k->type, types[t]) == 0)
                in[i] = seen++ && node->outputs[0] ? two[t] : one[t];
        if (k->kind == GRAFT_FLOAT) in[i].u.f = 0.25 * ++numbers;
        if (k->kind == GRAFT_STRING) in[i].u.s = node->id;
    }
}

static void expect(const char *id, const char *want)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[80], out[4];
    int live = fake_live;
    connect(n, in);
    CHECK_INT(run_with(id, in, out), GRAFT_OK);
    CHECK_STR(fake_trace, want);
    for (int i = 0; n->outputs[i]; i++)
        CHECK(out[i].kind == GRAFT_OBJECT &&
              strcmp(out[i].u.v->ops->type, n->outputs[i]->type) == 0);
    fake_host_release(out, 4);
    CHECK_INT(fake_live, live);
}

static void expect_failure(const char *id, const char *input)
{
    graft_arg in[80], out[4];
    int live = fake_live;
    connect(fake_host_node(id), in);
    fake_engine_reset();
    fake_host_clear(&host);
    fake_fail = GRAFT_E_ARG;
    CHECK_INT(fake_host_run(&host, fake_host_node(id), in, out, NULL, 0), GRAFT_E_ARG);
    CHECK_STR(host.fail_input, input);
    CHECK_STR(host.fail_text, "planned failure");
    CHECK_INT(fake_live, live);
}

static void numbers_are_passed_on(void)
{
    expect("ModelMergeSimple", "merge two=1 0.25 0.25 0.25\n");
    expect("ModelMergeBlocks", "merge two=1 0.25 0.5 0.75\n");
    expect("ModelMergeSD1", "merge_parts two=1 30, time_embed. 0.25 to out. 7.5\n");
    expect("ModelMergeSD2", "merge_parts two=1 30, time_embed. 0.25 to out. 7.5\n");
    expect("ModelMergeSDXL", "merge_parts two=1 24, time_embed. 0.25 to out. 6\n");
    expect("ModelMergeSD3_2B", "merge_parts two=1 30, pos_embed. 0.25 to final_layer. 7.5\n");
    expect("ModelMergeSD35_Large", "merge_parts two=1 44, pos_embed. 0.25 to final_layer. 11\n");
    expect("ModelMergeFlux1", "merge_parts two=1 63, img_in. 0.25 to final_layer. 15.75\n");
    expect("ModelMergeAuraflow",
           "merge_parts two=1 43, init_x_linear. 0.25 to final_linear. 10.75\n");
    expect("ModelMergeAdd", "merge_add two=1\n");
    expect("ModelMergeSubtract", "merge_subtract two=1 0.25\n");
    expect("CLIPMergeSimple", "merge_clip two=1 0.25\n");
    expect("CLIPMergeAdd", "merge_clip_add two=1\n");
    expect("CLIPMergeSubtract", "merge_clip_subtract two=1 0.25\n");
}

static void factors_are_passed_on(void)
{
    expect("CLIPAttentionMultiply", "multiply_clip 0.25 0.5 0.75 1\n");
    expect("UNetSelfAttentionMultiply", "multiply cross=0 0.25 0.5 0.75 1\n");
    expect("UNetCrossAttentionMultiply", "multiply cross=1 0.25 0.5 0.75 1\n");
    expect("UNetTemporalAttentionMultiply",
           "multiply cross=0 1 1 1 0.25\nmultiply cross=1 1 1 1 0.75\n");
}

#define SAVED(name, parts, pairs)                                                                  \
    "checkpoint_save " name ".safetensors" parts " metadata=" pairs "\n"
static void checkpoints_are_saved(void)
{
    expect("CheckpointSave", SAVED("CheckpointSave_00001_", " model clip vae", "0"));
    CHECK_STR(host.phases, "save ");
    CHECK(strstr(host.ui, "models") && strstr(host.ui, "CheckpointSave_00001_.safetensors"));
    host.reserve_races = 2; /* other processes were first to write under these names */
    host.prompt = "{\"1\": {}}";
    host.extra_pnginfo = "{\"workflow\": {}}";
    expect("CheckpointSave", SAVED("CheckpointSave_00003_", " model clip vae", "2"));
    host.prompt = host.extra_pnginfo = NULL;
    expect("CLIPSave", SAVED("CLIPSave_clip_l_00001_", " first", "0")
                           SAVED("CLIPSave_clip_g_00001_", " second", "0"));
    expect("ModelSave", SAVED("ModelSave_00001_", " model", "0"));
    expect("LoraSave", "lora_save LoraSave_00001_.safetensors model clip rank=8 whole=0 biases=1 "
                       "metadata=0\n");
    CHECK_STR(host.phases, "save ");
    CHECK(strstr(host.ui, "loras") && strstr(host.ui, "LoraSave_00001_.safetensors"));
    expect("VAESave", SAVED("VAESave_00001_", " vae", "0"));
}

static void names_stay_in_the_folder(void)
{
    static const char *const ids[] = {"CheckpointSave", "CLIPSave", "ModelSave", "VAESave",
                                      "LoraSave"};
    for (int i = 0; i < 5; i++) {
        const graft_node *n = fake_host_node(ids[i]);
        const graft_validate_api *api = n->query(GRAFT_VALIDATE_ID);
        graft_arg in[80];
        const char *input = "";
        char text[256] = "";
        connect(n, in);
        in[fake_host_input(n, "filename_prefix")].u.s = "a/../../b";
        CHECK(api != NULL);
        if (!api) continue;
        CHECK_INT(api->check(&host.host, in, &input, text, sizeof text), GRAFT_E_ARG);
        CHECK_STR(input, "filename_prefix");
        CHECK(strstr(text, "leaves its folder") != NULL);
    }
}

static void failures_name_the_input(void)
{
    static const char *const merges[][2] = {{"ModelMergeSimple", "model2"},
                                            {"ModelMergeBlocks", "model2"},
                                            {"ModelMergeFlux1", "model2"},
                                            {"UNetSelfAttentionMultiply", ""},
                                            {"UNetTemporalAttentionMultiply", ""},
                                            {"CLIPAttentionMultiply", ""},
                                            {"ModelMergeAdd", "model2"},
                                            {"ModelMergeSubtract", "model2"},
                                            {"CLIPMergeSimple", "clip2"},
                                            {"CLIPMergeAdd", "clip2"},
                                            {"CLIPMergeSubtract", "clip2"},
                                            {"CheckpointSave", ""},
                                            {"CLIPSave", ""},
                                            {"ModelSave", ""},
                                            {"LoraSave", ""},
                                            {"VAESave", ""}};
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        expect_failure(merges[i][0], merges[i][1]);
}

static void memory_may_end_anywhere(void)
{
    static const char *const ids[] = {"ModelMergeBlocks", "CLIPMergeSubtract",
                                      "CheckpointSave",   "CLIPSave",
                                      "LoraSave",         "UNetTemporalAttentionMultiply"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        graft_status st = GRAFT_E_NOMEM;
        graft_arg in[80], out[4];
        int live = fake_live, n = 0;
        connect(fake_host_node(ids[i]), in);
        while (st != GRAFT_OK && n < 1000) {
            fake_engine_reset();
            fake_host_clear(&host);
            graft_alloc_fail_at(++n);
            st = fake_host_run(&host, fake_host_node(ids[i]), in, out, NULL, 0);
            graft_alloc_fail_at(0);
            fake_host_release(out, 4);
            CHECK_INT(fake_live, live);
        }
        CHECK_INT(st, GRAFT_OK);
    }
}

int main(void)
{
    graft_alloc_stats stats;
    graft_arg in[80];
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    fake_host_defaults(fake_host_node("CheckpointLoaderSimple"), in);
    CHECK_INT(run_with("CheckpointLoaderSimple", in, one), GRAFT_OK);
    CHECK_INT(run_with("CheckpointLoaderSimple", in, two), GRAFT_OK);
    if (test_failures == 0) {
        RUN(numbers_are_passed_on);
        RUN(factors_are_passed_on);
        RUN(checkpoints_are_saved);
        RUN(names_stay_in_the_folder);
        RUN(failures_name_the_input);
        RUN(memory_may_end_anywhere);
    }
    fake_host_release(one, 4), fake_host_release(two, 4);
    graft_plugin_entry.deinit();
    CHECK_INT(fake_live, 0);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    fake_host_finish(&host);
    return test_end();
}
