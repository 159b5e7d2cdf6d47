/* Nodes that work on models, where something goes wrong: failures name the input, memory may end
 * anywhere; and what nodes take from the machine they are on. */
#include "tests/nodes/connected.h"

static void expect_failure(const char *id, void (*edit)(const graft_node *n, graft_arg *in),
                           graft_status want, const char *input, const char *text)
{
    graft_arg in[80], out[4];
    int live = fake_live;
    connect(fake_host_node(id), in);
    if (edit) edit(fake_host_node(id), in);
    graft_status planned = fake_fail;
    fake_host_clear(&host);
    fake_trace[0] = 0;
    fake_fail = planned;
    CHECK_INT(fake_host_run(&host, fake_host_node(id), in, out, NULL, 0), want);
    CHECK_INT(host.fails, 1);
    CHECK_INT(host.fail_code, want);
    CHECK_STR(host.fail_input, input);
    if (!strstr(host.fail_text, text)) fprintf(stderr, "%s: %s\n", id, host.fail_text);
    CHECK(strstr(host.fail_text, text) != NULL);
    for (int i = 0; i < 4; i++) CHECK_INT(out[i].kind, GRAFT_NONE);
    CHECK_INT(fake_live, live);
}

static void edit_no_file(const graft_node *n, graft_arg *in)
{
    for (int i = 0; n->inputs[i]; i++)
        if (n->inputs[i]->kind == GRAFT_CHOICE && in[i].u.s &&
            strcmp(in[i].u.s, "file.safetensors") == 0) {
            in[i].u.s = "missing.safetensors";
            return;
        }
}
static void edit_hunyuan(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "type", "hunyuan_image");
}
static void edit_playground(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "sampling", "edm_playground_v2.5");
}
static void edit_img_to_img(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "sampling", "img_to_img");
}
static void edit_no_rho(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "rho", 0);
}
static void edit_much(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "beta_d", 5000);
}
static void edit_missing(const graft_node *n, graft_arg *in)
{
    (void)n;
    in[0] = (graft_arg){.kind = GRAFT_NONE};
}
static void edit_wrong_kind(const graft_node *n, graft_arg *in)
{
    in[fake_host_input(n, "steps")] = (graft_arg){.kind = GRAFT_FLOAT, .u.f = 1};
}
static void edit_null_text(const graft_node *n, graft_arg *in)
{
    in[fake_host_input(n, "text")] = (graft_arg){.kind = GRAFT_STRING};
}
static void edit_wrong_object(const graft_node *n, graft_arg *in)
{
    in[fake_host_input(n, "vae")] = model[0];
}
static void edit_wrong_part(const graft_node *n, graft_arg *in)
{
    in[fake_host_input(n, "guider")] = noise[0];
}
static void edit_no_sigmas(const graft_node *n, graft_arg *in)
{
    in[fake_host_input(n, "sigmas")] = (graft_arg){.kind = GRAFT_NONE};
}

static void failures_name_the_input(void)
{
    static const char *const loaders[][2] = {{"CheckpointLoaderSimple", "ckpt_name"},
                                             {"UNETLoader", "unet_name"},
                                             {"CLIPLoader", "clip_name"},
                                             {"DualCLIPLoader", "clip_name1"},
                                             {"VAELoader", "vae_name"},
                                             {"ControlNetLoader", "control_net_name"},
                                             {"UpscaleModelLoader", "model_name"},
                                             {"LoraLoader", "lora_name"},
                                             {"LoraLoaderModelOnly", "lora_name"},
                                             {"CreateHookLora", "lora_name"},
                                             {"CreateHookLoraModelOnly", "lora_name"},
                                             {"CreateHookModelAsLora", "ckpt_name"},
                                             {"CreateHookModelAsLoraModelOnly", "ckpt_name"},
                                             {"SwapWeights", "ckpt_name"}};
    for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
        expect_failure(loaders[i][0], edit_no_file, GRAFT_E_NOTFOUND, loaders[i][1],
                       "missing.safetensors");
        fake_fail = GRAFT_E_FORMAT;
        expect_failure(loaders[i][0], NULL, GRAFT_E_FORMAT, loaders[i][1], "planned failure");
    }
    expect_failure("CLIPLoader", edit_hunyuan, GRAFT_E_UNSUPPORTED, "type", "hunyuan_image");
    expect_failure("DualCLIPLoader", edit_hunyuan, GRAFT_E_UNSUPPORTED, "type", "hunyuan_image");
    expect_failure("ModelSamplingContinuousEDM", edit_playground, GRAFT_E_UNSUPPORTED, "sampling",
                   "edm_playground_v2.5");
    expect_failure("ModelSamplingDiscrete", edit_img_to_img, GRAFT_E_UNSUPPORTED, "sampling",
                   "img_to_img");
    expect_failure("OneDiffModelBooster", edit_no_parts, GRAFT_E_ARG, "deepcache_booster",
                   "at least one");
    fake_fail = GRAFT_E_DEVICE;
    expect_failure("KSampler", NULL, GRAFT_E_DEVICE, "", "planned failure");
    fake_fail = GRAFT_E_DEVICE;
    expect_failure("SamplerCustomAdvanced", NULL, GRAFT_E_DEVICE, "", "planned failure");
    expect_failure("KarrasScheduler", edit_no_rho, GRAFT_E_ARG, "", "rho must be above 0");
    expect_failure("VPScheduler", edit_much, GRAFT_E_ARG, "", "finite");
    expect_failure("KSamplerSelect", NULL, GRAFT_E_ARG, "sampler_name", "unknown sampler");
}

static void edit_other_clips(const graft_node *n, graft_arg *in)
{
    static const char *const input[] = {"clip_name2", "clip_name3"};
    static const char *const file[] = {"second.safetensors", "third.safetensors"};
    for (int i = 0; i < 2; i++)
        if (fake_host_input(n, input[i]) >= 0) set_s(n, in, input[i], file[i]);
}

/* Of several files the one that the message is about. */
static void the_file_at_fault_is_named(void)
{
    static const char *const bad[][3] = {{"DualCLIPLoader", "file.safetensors", "clip_name1"},
                                         {"DualCLIPLoader", "second.safetensors", "clip_name2"},
                                         {"TripleCLIPLoader", "second.safetensors", "clip_name2"},
                                         {"TripleCLIPLoader", "third.safetensors", "clip_name3"}};
    fake_host_put(&host, "text_encoders", "second.safetensors", "x", 1);
    fake_host_put(&host, "text_encoders", "third.safetensors", "x", 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fake_bad_clip = bad[i][1];
        expect_failure(bad[i][0], edit_other_clips, GRAFT_E_FORMAT, bad[i][2], bad[i][1]);
    }
}

static void bad_arguments_are_refused(void)
{
    expect_failure("KSampler", edit_missing, GRAFT_E_ARG, "model", "missing");
    expect_failure("KSampler", edit_wrong_kind, GRAFT_E_ARG, "steps", "INT");
    expect_failure("CLIPTextEncode", edit_null_text, GRAFT_E_ARG, "text", "STRING");
    expect_failure("VAEDecode", edit_wrong_object, GRAFT_E_ARG, "vae", "VAE");
    expect_failure("SamplerCustomAdvanced", edit_wrong_part, GRAFT_E_ARG, "guider", "NOISE");
    expect_failure("SamplerCustom", edit_no_sigmas, GRAFT_E_ARG, "sigmas", "missing");
}

static void sampling_stops_when_cancelled(void)
{
    graft_arg in[80], out[4];
    const graft_node *n = fake_host_node("KSampler");
    connect(n, in);
    set_s(n, in, "sampler_name", "euler"), set_s(n, in, "scheduler", "normal");
    fake_engine_reset(), fake_host_clear(&host);
    fake_wait_for_cancel = true;
    host.cancel_after = 5;
    CHECK_INT(fake_host_run(&host, n, in, out, NULL, 0), GRAFT_E_CANCEL);
    CHECK_INT(host.fail_code, GRAFT_E_CANCEL);
    fake_wait_for_cancel = false;
}

/* Each allocation of each node fails in turn: an error, nothing lost, and success in the end. */
static void memory_may_end_anywhere(void)
{
    const graft_node *n;
    for (uint32_t k = 0; (n = graft_plugin_entry.node(k)); k++) {
        if (strncmp(n->id, "Load", 4) == 0 && strncmp(n->id, "Lora", 4) != 0)
            continue; /* files.c */
        if (strncmp(n->id, "Save", 4) == 0 || strcmp(n->id, "PreviewImage") == 0) continue;
        graft_arg in[80], out[4];
        graft_alloc_stats before, after;
        graft_status st = GRAFT_E_NOMEM;
        connect(n, in);
        if (strcmp(n->id, "ImageScale") == 0 || strcmp(n->id, "LatentUpscale") == 0)
            set_i(n, in, "width", 64), set_i(n, in, "height", 64);
        if (strcmp(n->id, "EmptyLatentImage") == 0 || strcmp(n->id, "EmptyImage") == 0)
            set_i(n, in, "width", 16), set_i(n, in, "height", 16);
        if (strcmp(n->id, "KSamplerSelect") == 0) edit_select(n, in);
        if (strcmp(n->id, "TextEncodeQwenImage21") == 0) edit_no_images(n, in);
        if (strcmp(n->id, "ImageMergeTileList") == 0)
            set_i(n, in, "final_width", 64), set_i(n, in, "final_height", 16),
                set_i(n, in, "overlap", 0);
        graft_alloc_stats_get(&before);
        for (int fail_at = 1; st != GRAFT_OK && fail_at < 500; fail_at++) {
            fake_host_clear(&host), fake_engine_reset();
            graft_alloc_fail_at(fail_at);
            st = fake_host_run(&host, n, in, out, NULL, 0);
            graft_alloc_fail_at(0);
            if (st != GRAFT_OK) CHECK(out[0].kind == GRAFT_NONE && host.fails <= 1);
            fake_host_release(out, 4);
        }
        CHECK_INT(st, GRAFT_OK);
        graft_alloc_stats_get(&after);
        if (after.live_blocks != before.live_blocks) fprintf(stderr, "%s loses memory\n", n->id);
        CHECK_INT(after.live_blocks, before.live_blocks);
    }
}

static void check_choices(const char *id, const char *input, const char *const *want)
{
    const graft_choices_api *api = fake_host_node(id)->query(GRAFT_CHOICES_ID);
    char **names = api->list(&host.host, input);
    int i = 0;
    CHECK(names != NULL);
    for (; names && names[i] && want[i]; i++) CHECK_STR(names[i], want[i]);
    CHECK(names && !names[i] && !want[i]);
    api->free(names);
}

static void choices_depend_on_the_machine(void)
{
    static const char *const files[] = {"file.safetensors", "sub/other.safetensors", NULL};
    static const char *const one[] = {"file.safetensors", NULL};
    static const char *const samplers[] = {"euler", "heun", NULL};
    static const char *const schedulers[] = {"normal", "karras", NULL};
    static const char *const devices[] = {"auto", "cpu", "ref", NULL};
    check_choices("CheckpointLoaderSimple", "ckpt_name", files);
    check_choices("SwapWeights", "ckpt_name", files);
    check_choices("VAELoader", "vae_name", one);
    check_choices("LoraLoader", "lora_name", one);
    check_choices("KSampler", "sampler_name", samplers);
    check_choices("KSampler", "scheduler", schedulers);
    check_choices("KSamplerAdvanced", "sampler_name", samplers);
    check_choices("KSamplerAdvanced", "scheduler", schedulers);
    check_choices("CompileModel", "device", devices);
    check_choices("CompileVAE", "device", devices);
    CHECK(!fake_host_node("KSampler")->query("graft.unknown/1"));
}

/* The engine is made once, when something needs it, and goes with the last deinit(). */
static void engine_comes_late_and_goes(void)
{
    graft_arg in[80], out[4];
    setenv("GRAFT_CACHE", "/cache", 1);
    CHECK_INT(fake_engines, 0);
    fake_host_defaults(fake_host_node("VAELoader"), in);
    CHECK_INT(run_with("VAELoader", in, out), GRAFT_OK);
    CHECK(strstr(fake_trace, "engine cache=/cache\n") != NULL);
    fake_host_release(out, 4);
    CHECK_INT(run_with("VAELoader", in, out), GRAFT_OK);
    fake_host_release(out, 4);
    CHECK_INT(fake_engines, 1);
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    graft_plugin_entry.deinit();
    CHECK_INT(fake_engines, 1);
    graft_plugin_entry.deinit();
    CHECK_INT(fake_engines, 0);
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    unsetenv("GRAFT_CACHE");
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    CHECK_INT(run_with("VAELoader", in, out), GRAFT_OK);
    CHECK(strstr(fake_trace, "engine cache=/xdg/graft\n") != NULL);
    fake_host_release(out, 4);
    graft_plugin_entry.deinit();
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/home/u", 1);
    fake_fail = GRAFT_E_DEVICE;
    CHECK_INT(fake_host_run(&host, fake_host_node("VAELoader"), in, out, NULL, 0), GRAFT_E_DEVICE);
    CHECK_INT(run_with("VAELoader", in, out), GRAFT_OK);
    CHECK(strstr(fake_trace, "engine cache=/home/u/.cache/graft\n") != NULL);
    fake_host_release(out, 4);
}

static void a_bare_host_is_enough(void)
{
    graft_arg in[80], out[4];
    host.bare = true;
    connect(fake_host_node("CLIPTextEncode"), in);
    CHECK_INT(run_with("CLIPTextEncode", in, out), GRAFT_OK);
    fake_host_release(out, 4);
    connect(fake_host_node("ModelReport"), in);
    CHECK_INT(run_with("ModelReport", in, out), GRAFT_OK);
    fake_host_release(out, 4);
    connect(fake_host_node("SaveImage"), in);
    CHECK_INT(run_with("SaveImage", in, out), GRAFT_E_UNSUPPORTED);
    connect(fake_host_node("VAELoader"), in);
    CHECK_INT(run_with("VAELoader", in, out), GRAFT_E_UNSUPPORTED);
    CHECK_STR(host.fail_input, "vae_name");
    host.bare = false;
}

int main(void)
{
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(engine_comes_late_and_goes);
    RUN(make_inputs);
    if (test_failures == 0) {
        RUN(failures_name_the_input);
        RUN(the_file_at_fault_is_named);
        RUN(bad_arguments_are_refused);
        RUN(sampling_stops_when_cancelled);
        RUN(memory_may_end_anywhere);
        RUN(choices_depend_on_the_machine);
        RUN(a_bare_host_is_enough);
    }
    check_nothing_is_left();
    return test_end();
}
