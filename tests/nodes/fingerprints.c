/* Fingerprints, by which a host keeps results: they follow every file that a node would read. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;

static graft_arg choice(const char *s)
{
    return (graft_arg){.kind = GRAFT_CHOICE, .u.s = s};
}

static void fingerprints_follow_the_content(void)
{
    const char *const ids[] = {"LoadImage", "LoadImageMask", "LoadLatent"};
    for (int i = 0; i < 3; i++) {
        const graft_fingerprint_api *api = fake_host_node(ids[i])->query(GRAFT_FINGERPRINT_ID);
        graft_arg in[2] = {choice("f.bin"), choice("red")};
        char a[64] = "", b[64] = "", c[64] = "";
        fake_host_put(&host, "input", "f.bin", "one", 3);
        CHECK_INT(api->get(&host.host, in, a, sizeof a), GRAFT_OK);
        CHECK_INT(api->get(&host.host, in, b, sizeof b), GRAFT_OK);
        CHECK_STR(a, b);
        CHECK_INT(strlen(a), 32);
        fake_host_put(&host, "input", "f.bin", "two", 3);
        CHECK_INT(api->get(&host.host, in, c, sizeof c), GRAFT_OK);
        CHECK(strcmp(a, c) != 0);
        in[0] = choice("gone.png");
        CHECK_INT(api->get(&host.host, in, c, sizeof c), GRAFT_E_NOTFOUND);
        in[0] = (graft_arg){.kind = GRAFT_NONE}; /* linked: any file of these folders */
        CHECK_INT(api->get(&host.host, in, a, sizeof a), GRAFT_OK);
        CHECK_INT(api->get(&host.host, in, b, sizeof b), GRAFT_OK);
        CHECK_STR(a, b);
        fake_host_put(&host, "input", "f.bin", "three", 5);
        CHECK_INT(api->get(&host.host, in, b, sizeof b), GRAFT_OK);
        CHECK(strcmp(a, b) != 0);
        fake_host_put(&host, "output", "f.bin", i % 2 ? "four" : "fourth", i % 2 ? 4 : 6);
        CHECK_INT(api->get(&host.host, in, c, sizeof c), GRAFT_OK);
        CHECK(strcmp(b, c) != 0);
    }
}

/* A server that keeps results must not go on with a model whose file was replaced. */
static void fingerprints_follow_model_files(void)
{
    static const struct {
        const char *id, *folder, *input;
    } nodes[] = {{"CheckpointLoaderSimple", "checkpoints", "ckpt_name"},
                 {"UNETLoader", "diffusion_models", "unet_name"},
                 {"CLIPLoader", "text_encoders", "clip_name"},
                 {"DualCLIPLoader", "text_encoders", "clip_name1"},
                 {"DualCLIPLoader", "text_encoders", "clip_name2"},
                 {"VAELoader", "vae", "vae_name"},
                 {"ControlNetLoader", "controlnet", "control_net_name"},
                 {"OneDiffControlNetLoader", "controlnet", "control_net_name"},
                 {"DiffControlNetLoader", "controlnet", "control_net_name"},
                 {"UpscaleModelLoader", "upscale_models", "model_name"},
                 {"CLIPVisionLoader", "clip_vision", "clip_name"},
                 {"unCLIPCheckpointLoader", "checkpoints", "ckpt_name"},
                 {"StyleModelLoader", "style_models", "style_model_name"},
                 {"ModelPatchLoader", "model_patches", "name"},
                 {"IPAdapterModelLoader", "ipadapter", "ipadapter_file"},
                 {"HypernetworkLoader", "hypernetworks", "hypernetwork_name"},
                 {"GLIGENLoader", "gligen", "gligen_name"},
                 {"LoraLoader", "loras", "lora_name"},
                 {"LoraLoaderModelOnly", "loras", "lora_name"},
                 {"CreateHookLora", "loras", "lora_name"},
                 {"CreateHookLoraModelOnly", "loras", "lora_name"},
                 {"CreateHookModelAsLora", "checkpoints", "ckpt_name"},
                 {"CreateHookModelAsLoraModelOnly", "checkpoints", "ckpt_name"},
                 {"SwapWeights", "checkpoints", "ckpt_name"},
                 {"OneDiffCheckpointLoaderSimple", "checkpoints", "ckpt_name"},
                 {"OneDiffDeepCacheCheckpointLoaderSimple", "checkpoints", "ckpt_name"},
                 {"OneDiffQuantCheckpointLoaderSimple", "checkpoints", "ckpt_name"}};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        const graft_node *node = fake_host_node(nodes[i].id);
        const graft_fingerprint_api *api = node->query(GRAFT_FINGERPRINT_ID);
        graft_arg in[24], *name = &in[fake_host_input(node, nodes[i].input)];
        char a[512] = "", b[512] = "", c[512] = "", d[512] = "";
        fake_host_defaults(node, in);
        fake_host_put(&host, nodes[i].folder, "file.safetensors", "another", 7);
        *name = choice("model.safetensors");
        fake_host_put(&host, nodes[i].folder, "model.safetensors", "one", 3);
        CHECK_INT(api ? api->get(&host.host, in, a, sizeof a) : GRAFT_E_INTERNAL, GRAFT_OK);
        if (!api) continue;
        CHECK_INT(api->get(&host.host, in, b, sizeof b), GRAFT_OK);
        CHECK_STR(a, b);
        fake_host_put(&host, nodes[i].folder, "model.safetensors", "three", 5);
        CHECK_INT(api->get(&host.host, in, c, sizeof c), GRAFT_OK);
        CHECK(strcmp(a, c) != 0);
        *name = choice("gone.safetensors");
        CHECK_INT(api->get(&host.host, in, d, sizeof d), GRAFT_E_NOTFOUND);
        *name = (graft_arg){.kind = GRAFT_NONE}; /* linked: any file of the folder */
        CHECK_INT(api->get(&host.host, in, d, sizeof d), GRAFT_OK);
        fake_host_put(&host, nodes[i].folder, "model.safetensors", "three again", 11);
        CHECK_INT(api->get(&host.host, in, c, sizeof c), GRAFT_OK);
        CHECK(strcmp(c, d) != 0);
    }
}

/* One of the same size, whose time of writing was set back. */
static void fingerprints_follow_what_was_overwritten(void)
{
    const graft_node *node = fake_host_node("LoraLoader");
    const graft_fingerprint_api *api = node->query(GRAFT_FINGERPRINT_ID);
    graft_arg in[24];
    char path[1024], a[64] = "", b[64] = "";
    struct stat was;
    fake_host_defaults(node, in);
    fake_host_put(&host, "loras", "file.safetensors", "one", 3);
    fake_host_path(&host, "loras", "file.safetensors", path, sizeof path);
    CHECK_INT(api->get(&host.host, in, a, sizeof a), GRAFT_OK);
    CHECK(stat(path, &was) == 0);
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, "two", 3) == 3);
    CHECK(futimens(fd, (struct timespec[]){was.st_atim, was.st_mtim}) == 0);
    close(fd);
    CHECK_INT(api->get(&host.host, in, b, sizeof b), GRAFT_OK);
    CHECK(strcmp(a, b) != 0);
}

/* T5's words are in a file of their own, beside the encoder's or with the text encoders, as are
 * Llama's; Qwen's and Mistral's may be beside it. */
static void fingerprints_follow_the_tokenizer(void)
{
    static const struct {
        const char *id, *folder, *input;
    } nodes[] = {{"CLIPLoader", "text_encoders", "clip_name"},
                 {"DualCLIPLoader", "text_encoders", "clip_name2"},
                 {"TripleCLIPLoader", "text_encoders", "clip_name3"},
                 {"QuadrupleCLIPLoader", "text_encoders", "clip_name4"},
                 {"CheckpointLoaderSimple", "checkpoints", "ckpt_name"}};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        const char *const own = nodes[i].folder;
        const char *const files[][2] = {
            {own, "spiece.model"},         {"text_encoders", "spiece.model"},
            {own, "llama_tokenizer.json"}, {"text_encoders", "llama_tokenizer.json"},
            {own, "tokenizer.json"},       {"text_encoders", "tokenizer.json"},
            {own, "vocab.json"},           {own, "merges.txt"},
            {own, "tekken.json"}};
        const graft_node *node = fake_host_node(nodes[i].id);
        const graft_fingerprint_api *api = node->query(GRAFT_FINGERPRINT_ID);
        graft_arg in[24], linked[24];
        fake_host_defaults(node, in);
        fake_host_defaults(node, linked);
        linked[fake_host_input(node, nodes[i].input)] = (graft_arg){.kind = GRAFT_NONE};
        fake_host_put(&host, own, "file.safetensors", "one", 3);
        for (int k = 0; k < (int)(sizeof files / sizeof *files); k++) {
            char a[64] = "", b[64] = "", c[64] = "", d[64] = "";
            CHECK_INT(api->get(&host.host, in, a, sizeof a), GRAFT_OK);
            CHECK_INT(api->get(&host.host, linked, c, sizeof c), GRAFT_OK);
            fake_host_put(&host, files[k][0], files[k][1], "words", 1 + i % 5);
            CHECK_INT(api->get(&host.host, in, b, sizeof b), GRAFT_OK);
            CHECK_INT(api->get(&host.host, linked, d, sizeof d), GRAFT_OK);
            CHECK(strcmp(a, b) != 0);
            CHECK(strcmp(c, d) != 0);
        }
    }
}

/* Of a GGUF file in parts all of them count. */
static void fingerprints_follow_all_parts(void)
{
    const graft_node *node = fake_host_node("CLIPLoaderGGUF");
    const graft_fingerprint_api *api = node->query(GRAFT_FINGERPRINT_ID);
    graft_arg in[24];
    char a[64] = "", b[64] = "";
    fake_host_defaults(node, in);
    in[fake_host_input(node, "clip_name")] = choice("big-00001-of-00002.gguf");
    fake_host_put(&host, "text_encoders", "big-00001-of-00002.gguf", "one", 3);
    CHECK(api->get(&host.host, in, a, sizeof a) != GRAFT_OK);
    fake_host_put(&host, "text_encoders", "big-00002-of-00002.gguf", "two", 3);
    CHECK_INT(api->get(&host.host, in, a, sizeof a), GRAFT_OK);
    fake_host_put(&host, "text_encoders", "big-00002-of-00002.gguf", "other", 5);
    CHECK_INT(api->get(&host.host, in, b, sizeof b), GRAFT_OK);
    CHECK(strcmp(a, b) != 0);
}

static void fingerprints_follow_the_plan(void)
{
    const graft_node *node = fake_host_node("QuantizeModel");
    const graft_fingerprint_api *api = node->query(GRAFT_FINGERPRINT_ID);
    graft_arg in[24];
    char nameless[64] = "x", absent[64] = "x", one[64] = "", two[64] = "", again[64] = "x";
    fake_host_defaults(node, in);
    graft_arg *name = &in[fake_host_input(node, "plan_name")],
              *recalibrate = &in[fake_host_input(node, "recalibrate")];
    CHECK_INT(api->get(&host.host, in, nameless, sizeof nameless), GRAFT_OK);
    name->u.s = "mine";
    CHECK_INT(api->get(&host.host, in, absent, sizeof absent), GRAFT_OK);
    CHECK(!*nameless && !*absent);
    fake_host_put(&host, "output", "quantization/mine.json", "one", 3);
    CHECK_INT(api->get(&host.host, in, one, sizeof one), GRAFT_OK);
    fake_host_put(&host, "output", "quantization/mine.json", "two", 3);
    name->u.s = "mine.json"; /* the same file */
    CHECK_INT(api->get(&host.host, in, two, sizeof two), GRAFT_OK);
    CHECK(*one && *two && strcmp(one, two) != 0);
    *recalibrate = choice("enable");
    CHECK_INT(api->get(&host.host, in, again, sizeof again), GRAFT_OK);
    CHECK_STR(again, "");
    *name = (graft_arg){.kind = GRAFT_NONE};
    CHECK_INT(api->get(&host.host, in, again, sizeof again), GRAFT_OK);
}

int main(void)
{
    graft_alloc_stats stats;
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(fingerprints_follow_the_content);
    RUN(fingerprints_follow_model_files);
    RUN(fingerprints_follow_what_was_overwritten);
    RUN(fingerprints_follow_the_tokenizer);
    RUN(fingerprints_follow_all_parts);
    RUN(fingerprints_follow_the_plan);
    graft_plugin_entry.deinit();
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    fake_host_finish(&host);
    return test_end();
}
