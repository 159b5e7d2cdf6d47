/* Nodes that work on models, with models that only write down how they were called: arguments
 * arrive where they belong, and references balance. */
#include "tests/nodes/connected.h"

/* Runs a connected node after `edit` and compares what the engine was asked. */
static void expect(const char *id, void (*edit)(const graft_node *n, graft_arg *in),
                   const char *want, const char *phases)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[80], out[4];
    int live = fake_live;
    connect(n, in);
    if (edit) edit(n, in);
    CHECK_INT(run_with(id, in, out), GRAFT_OK);
    CHECK_STR(fake_trace, want);
    CHECK_STR(host.phases, phases);
    CHECK_INT(host.fails, 0);
    for (int i = 0; n->outputs[i]; i++) {
        CHECK(out[i].kind != GRAFT_NONE);
        if (out[i].kind == GRAFT_OBJECT) CHECK_STR(out[i].u.v->ops->type, n->outputs[i]->type);
    }
    fake_host_release(out, 4);
    CHECK_INT(fake_live, live);
}

static void edit_share(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "start_percent", 0.25), set_f(n, in, "end_percent", 0.75);
}
static void edit_no_share(const graft_node *n, graft_arg *in)
{
    in[fake_host_input(n, "start_percent")] = (graft_arg){.kind = GRAFT_NONE};
    in[fake_host_input(n, "end_percent")] = (graft_arg){.kind = GRAFT_NONE};
}
static void edit_save(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "filename_prefix", "models/small");
}
static void edit_loaders(const graft_node *n, graft_arg *in)
{
    set_s(n, in, n->inputs[0]->name, "sub/other.safetensors");
}
static void edit_cut(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "cut", "outermost");
}
static void edit_lora(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength_model", 0.75);
    if (fake_host_input(n, "strength_clip") >= 0) set_f(n, in, "strength_clip", -2);
}
static void edit_lumina2(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "type", "lumina2");
}
static void edit_flux2(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "type", "flux2");
}
static void edit_krea2(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "type", "krea2");
}
static void edit_ideogram4(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "type", "ideogram4");
}
static void edit_qwen_image(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "type", "qwen_image");
}

static void edit_sd3(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "type", "sd3");
}

static void edit_whole(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "crop", "none");
}

static void loaders_pass_files_on(void)
{
    expect("CheckpointLoaderSimple", edit_loaders, "checkpoint other.safetensors\n", "load ");
    expect("UNETLoader", NULL, "model file.safetensors\n", "load ");
    expect("CLIPLoader", NULL, "clip stable_diffusion file.safetensors\n", "load ");
    expect("DualCLIPLoader", NULL, "clip sdxl file.safetensors file.safetensors\n", "load ");
    expect("CLIPLoader", edit_sd3, "clip sd3 file.safetensors\n", "load ");
    expect("CLIPLoader", edit_lumina2, "clip lumina2 file.safetensors\n", "load ");
    expect("CLIPLoader", edit_flux2, "clip flux2 file.safetensors\n", "load ");
    expect("CLIPLoader", edit_krea2, "clip krea2 file.safetensors\n", "load ");
    expect("CLIPLoader", edit_ideogram4, "clip ideogram4 file.safetensors\n", "load ");
    expect("CLIPLoader", edit_qwen_image, "clip qwen_image file.safetensors\n", "load ");
    expect("DualCLIPLoader", edit_sd3, "clip sd3 file.safetensors file.safetensors\n", "load ");
    expect("TripleCLIPLoader", NULL,
           "clip sd3 file.safetensors file.safetensors file.safetensors\n", "load ");
    expect("QuadrupleCLIPLoader", NULL,
           "clip hidream file.safetensors file.safetensors file.safetensors file.safetensors\n",
           "load ");
    expect("VAELoader", NULL, "vae file.safetensors\n", "load ");
    expect("ControlNetLoader", NULL, "controlnet file.safetensors\n", "load ");
    expect("OneDiffControlNetLoader", NULL, "controlnet file.safetensors\n", "load ");
    expect("UpscaleModelLoader", NULL, "upscaler file.safetensors\n", "load ");
    expect("CLIPVisionLoader", NULL, "vision file.safetensors\n", "load ");
    expect("CLIPVisionEncode", NULL, "see 32x16 center\n", "encode ");
    expect("CLIPVisionEncode", edit_whole, "see 32x16\n", "encode ");
    expect("unCLIPCheckpointLoader", NULL, "vision file.safetensors\ncheckpoint file.safetensors\n",
           "load ");
    expect("StyleModelLoader", NULL, "style file.safetensors\n", "load ");
    expect("ModelPatchLoader", NULL, "model patch file.safetensors\n", "load ");
    expect("IPAdapterModelLoader", NULL, "ip_adapter file.safetensors\n", "load ");
    expect("GLIGENLoader", NULL, "gligen file.safetensors\n", "load ");
    expect("ControlnetSpeedup", NULL, "", "");
    expect("ImageUpscaleWithModel", NULL, "upscale 32x16\n", "upscale ");
    expect("LoraLoader", edit_lora, "lora file.safetensors 0.75 -2 clip=1\n", "load ");
    expect("HypernetworkLoader", NULL, "hypernetwork file.safetensors 1\n", "load ");
    expect("LoraLoaderModelOnly", edit_lora, "lora file.safetensors 0.75 0 clip=0\n", "load ");
    expect("SaveQuantizedModel", edit_save, "save_quantized small_00001_.safetensors\n", "save ");
    host.reserve_races = 2; /* other processes were first to write under these names */
    expect("SaveQuantizedModel", edit_save, "save_quantized small_00003_.safetensors\n", "save ");
    expect("DeepCache", NULL, "deepcache 3 0.1 [0,1000) uniform 0\n", "");
    expect("DeepCache", edit_cut, "deepcache 3 0.1 [0,1000) uniform 0 outermost\n", "");
    expect("SwapWeights", NULL, "swap file.safetensors keep=1\n", "load ");
}

#define USUAL " auto fast auto memory=0 cache=1 tile=1 0x0x0\n"
#define DEEP  "compile model" USUAL "deepcache 3 0.1 [0,1000) uniform 0\n"

#define QUANTIZED(conv, linear, density)                                                           \
    "quantize 8 conv=" conv ",0.1 linear=" linear ",0.1 density=" density                          \
    " two=0 latent=0 steps=20 cfg=8 seed=0 plan=none again=0\n"
#define BOOSTED "compile model" USUAL QUANTIZED("1", "0", "100") "deepcache 5 0.1 [0,9) uniform 0\n"

static void edit_no_booster(const graft_node *n, graft_arg *in)
{
    memset(&in[fake_host_input(n, "custom_booster")], 0, sizeof *in);
}
static void edit_loader(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "vae_speedup", "enable");
}
static void onediff_names_do_what_ours_do(void)
{
    expect("ModelSpeedup", NULL, BOOSTED, "compile ");
    expect("ModelSpeedup", edit_no_booster, "compile model" USUAL, "compile ");
    expect("VaeSpeedup", NULL, "compile vae" USUAL, "compile ");
    expect("OneDiffCheckpointLoaderSimple", NULL, "checkpoint file.safetensors\n" BOOSTED, "load ");
    expect("OneDiffCheckpointLoaderSimple", edit_loader,
           "checkpoint file.safetensors\n" BOOSTED "compile vae" USUAL, "load ");
    expect("OneDiffDeepCacheCheckpointLoaderSimple", NULL, "checkpoint file.safetensors\n" DEEP,
           "load ");
    expect("ModuleDeepCacheSpeedup", NULL, DEEP, "compile ");
    expect("OneDiffQuantCheckpointLoaderSimple", NULL,
           "checkpoint file.safetensors\ncompile model" USUAL QUANTIZED("1", "1", "900"), "load ");
    expect("OneDiffOnlineQuantizationBooster", NULL, "", "");
    expect("OneDiffApplyModelBooster", NULL, "", "");
    expect("BatchSizePatcher", NULL, "", "");
}

static void edit_quantize(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "bits", 4);
    set_s(n, in, "quantize_conv", "disable");
    set_f(n, in, "conv_mse_threshold", 0.25);
    set_f(n, in, "linear_mse_threshold", 0.5);
    set_s(n, in, "quantize_attention", "disable");
    set_i(n, in, "compute_density_threshold", 77);
    set_i(n, in, "seed", -1);
    set_s(n, in, "plan_name", "mine.json");
    set_s(n, in, "recalibrate", "enable");
}
static void edit_format(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "format", "fp8_e4m3fn");
    set_f(n, in, "attention_mse_threshold", 0.75);
}
static void quantize_passes_everything_on(void)
{
    expect("QuantizeModel", NULL,
           "quantize 8 conv=1,0.1 linear=1,0.1 density=100 two=1 latent=1 steps=20 cfg=8 seed=0 "
           "plan=none again=0\nattention=0.1\n",
           "save ");
    expect("QuantizeModel", edit_quantize,
           "quantize 4 conv=0,0.25 linear=1,0.5 density=77 two=1 latent=1 steps=20 cfg=8 "
           "seed=18446744073709551615 plan=mine.json again=1\n",
           "save ");
    expect("QuantizeModel", edit_format,
           "quantize 8 conv=1,0.1 linear=1,0.1 density=100 two=1 latent=1 steps=20 cfg=8 seed=0 "
           "plan=none again=0\nformat=fp8_e4m3fn\nattention=0.75\n",
           "save ");
}

static void plan_names_are_checked(void)
{
    static const char *const bad[] = {".",    "..",  "...json", ".json", "a/b",
                                      "../a", "50%", " ",       " .json"};
    const graft_node *n = fake_host_node("QuantizeModel");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graft_arg in[80], out[4];
        connect(n, in);
        set_s(n, in, "plan_name", bad[i]);
        CHECK_INT(run_with("QuantizeModel", in, out), GRAFT_E_ARG);
    }
}

static void edit_text(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "text", "a (cat:1.2)");
}
/* Without a text for CLIP-G, which is then left out or reads an empty one. */
static void edit_texts(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "clip_l", "l");
    set_s(n, in, "clip_g", "");
    set_s(n, in, "t5xxl", "t5");
}

static void edit_four_texts(const graft_node *n, graft_arg *in)
{
    edit_texts(n, in);
    set_s(n, in, "llama", "llama");
}

static void edit_t5_alone(const graft_node *n, graft_arg *in)
{
    edit_texts(n, in);
    set_s(n, in, "clip_l", "");
}

static void edit_padded(const graft_node *n, graft_arg *in)
{
    edit_texts(n, in);
    set_s(n, in, "empty_padding", "empty_prompt");
}

static void edit_sdxl(const graft_node *n, graft_arg *in)
{
    static const char *const names[] = {"width",  "height",       "crop_w",
                                        "crop_h", "target_width", "target_height"};
    for (int i = 0; i < 6; i++) set_i(n, in, names[i], i + 1);
    set_s(n, in, "text_g", "g"), set_s(n, in, "text_l", "l");
}
static void edit_average(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "conditioning_to_strength", 0.25);
}
static void edit_range(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "start", 0.125), set_f(n, in, "end", 0.5);
}
static void edit_layer(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "stop_at_clip_layer", -2);
}
static void edit_control(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength", 0.75);
    if (fake_host_input(n, "end_percent") < 0) return;
    set_f(n, in, "start_percent", 0.125), set_f(n, in, "end_percent", 0.5);
}
static void edit_alignment(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "system_prompt", "alignment"), set_s(n, in, "user_prompt", "a cat");
}
static void edit_two_texts(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "clip_l", "l"), set_s(n, in, "t5xxl", "t5");
}
static void unconnect(const graft_node *n, graft_arg *in, const char *name)
{
    in[fake_host_input(n, name)] = (graft_arg){.kind = GRAFT_NONE};
}
static void edit_one_picture(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "prompt", "blue");
    unconnect(n, in, "vae");
    if (fake_host_input(n, "image1") < 0) return;
    unconnect(n, in, "image1");
    unconnect(n, in, "image3");
}
static void edit_no_picture(const graft_node *n, graft_arg *in)
{
    static const char *const names[] = {"image", "image1", "image2", "image3"};
    for (int i = 0; i < 4; i++)
        if (fake_host_input(n, names[i]) >= 0) unconnect(n, in, names[i]);
}
static void edit_no_pictures(const graft_node *n, graft_arg *in)
{
    edit_no_images(n, in);
    set_s(n, in, "prompt", "blue");
    set_s(n, in, "negative_prompt", "red");
}
static void edit_eight_pictures(const graft_node *n, graft_arg *in)
{
    for (int i = 3; i <= 10; i++) {
        char name[32];
        snprintf(name, sizeof name, "images.image_%d", i);
        unconnect(n, in, name);
    }
    set_s(n, in, "prompt", "blue");
    set_s(n, in, "negative_prompt", "red");
}
static void edit_guidance(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "guidance", 2.25);
}
static void edit_places(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "reference_latents_method", "uxo/uno");
}
static void edit_clean_places(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "reference_latents_method", "index_timestep_zero");
}
static void edit_style(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength", 0.25);
}
static void edit_shown(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength", -0.5), set_f(n, in, "noise_augmentation", 0.25);
}
static void edit_unshown(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength", 0);
}
static void edit_bias(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "strength_type", "attn_bias");
}
/* Without an effect it is as good as the other; else it would weigh attention. */
static void attention_is_not_weighed(void)
{
    const graft_node *n = fake_host_node("StyleModelApply");
    graft_arg in[80], out[4];
    expect("StyleModelApply", edit_bias, "style x 1\n", "");
    connect(n, in);
    edit_bias(n, in);
    edit_style(n, in);
    CHECK_INT(run_with("StyleModelApply", in, out), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(host.fail_text, "attn_bias with a strength of 0.25") != NULL);
    CHECK_STR(fake_trace, "");
}
static void edit_weight(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "weight", -0.5), set_f(n, in, "start_at", 0.125), set_f(n, in, "end_at", 0.5);
}
static void edit_no_others(const graft_node *n, graft_arg *in)
{
    in[fake_host_input(n, "image_negative")] = (graft_arg){0};
}
static void pictures_are_shown(void)
{
    static const char *const ids[] = {"IPAdapter", "IPAdapterAdvanced"};
    graft_arg in[80], out[4];
    expect("IPAdapter", NULL, "show 32 against 0 x 1 [0,1]\n", "encode ");
    expect("IPAdapter", edit_weight, "show 32 against 0 x -0.5 [0.125,0.5]\n", "encode ");
    expect("IPAdapterAdvanced", edit_weight, "show 32 against 32 x -0.5 [0.125,0.5]\n", "encode ");
    expect("IPAdapterAdvanced", edit_no_others, "show 32 against 0 x 1 [0,1]\n", "encode ");
    for (int i = 0; i < 2; i++) {
        const graft_node *n = fake_host_node(ids[i]);
        connect(n, in);
        in[fake_host_input(n, "attn_mask")] = mask[0];
        CHECK_INT(run_with(ids[i], in, out), GRAFT_OK);
        CHECK(strstr(fake_trace, "masked\n") != NULL);
        fake_host_release(out, 4);
    }
    connect(fake_host_node("IPAdapterAdvanced"), in);
    in[fake_host_input(fake_host_node("IPAdapterAdvanced"), "clip_vision")] = (graft_arg){0};
    CHECK_INT(run_with("IPAdapterAdvanced", in, out), GRAFT_E_ARG);
    CHECK_STR(host.fail_input, "clip_vision");
}
static void edit_patch_mask(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "strength", -0.5);
    in[fake_host_input(n, "mask")] = (graft_arg){0};
}
static void edit_patch_hint(const graft_node *n, graft_arg *in)
{
    in[fake_host_input(n, "image")] = (graft_arg){0};
}
static void models_are_steered(void)
{
    expect("QwenImageDiffsynthControlnet", NULL,
           "model control 1 hint=32 inpaint=0 mask=32 net=1 vae=1\n", "");
    expect("QwenImageDiffsynthControlnet", edit_patch_mask,
           "model control -0.5 hint=32 inpaint=0 mask=0 net=1 vae=1\n", "");
    expect("ZImageFunControlnet", NULL, "model control 1 hint=32 inpaint=32 mask=32 net=1 vae=1\n",
           "");
    expect("ZImageFunControlnet", edit_patch_hint,
           "model control 1 hint=0 inpaint=32 mask=32 net=1 vae=1\n", "");
}
/* Qwen-Image 2.1's prompts show up to eight pictures, by a VAE; the input that is one too many or
 * missing is named, and the latent is as large as the last one is seen. */
static void pictures_are_shown_within(void)
{
    static const char id[] = "TextEncodeQwenImage21";
    const graft_node *n = fake_host_node(id);
    graft_arg in[80], out[4];
    int64_t shape[4];
    connect(n, in);
    CHECK_INT(run_with(id, in, out), GRAFT_E_LIMIT);
    CHECK_INT(host.fails, 1);
    CHECK_STR(host.fail_input, "images.image_9");
    CHECK_STR(fake_trace, "");
    edit_eight_pictures(n, in);
    CHECK_INT(run_with(id, in, out), GRAFT_OK);
    CHECK_STR(fake_trace, "encode_analyzed 'blue' 'red' 8 vae 1024\n");
    graft_latent_data(graft_value_object(out[2].u.v, GRAFT_VALUE_LATENT), shape);
    CHECK(shape[1] == 64 && shape[2] == 32 && shape[3] == 128);
    fake_host_release(out, 4);
    unconnect(n, in, "vae");
    CHECK_INT(run_with(id, in, out), GRAFT_E_ARG);
    CHECK_STR(host.fail_input, "vae");
    CHECK_STR(fake_trace, "");
}

/* The latent is a square of the resolution, or of 1024 pixels. */
static void a_latent_of_the_resolution(void)
{
    const graft_node *n = fake_host_node("TextEncodeQwenImage21");
    for (int i = 0; i < 2; i++) {
        graft_arg in[80], out[4];
        int64_t shape[4];
        connect(n, in);
        edit_no_pictures(n, in);
        set_i(n, in, "resolution", i ? 512 : 0);
        CHECK_INT(run_with("TextEncodeQwenImage21", in, out), GRAFT_OK);
        graft_latent_data(graft_value_object(out[2].u.v, GRAFT_VALUE_LATENT), shape);
        CHECK(shape[0] == 1 && shape[1] == 64 && shape[2] == (i ? 32 : 64) && shape[3] == shape[2]);
        fake_host_release(out, 4);
    }
}

static void prompts_pass_arguments_on(void)
{
    expect("CLIPTextEncode", edit_text, "encode 'a (cat:1.2)'\n", "encode ");
    expect("CLIPTextEncodeSDXL", edit_sdxl, "encode_sdxl 'g' 'l' 1 2 3 4 5 6\n", "encode ");
    expect("CLIPTextEncodeSDXLRefiner", edit_text, "encode_refiner 'a (cat:1.2)' 6 1024 1024\n",
           "encode ");
    expect("CLIPTextEncodeHiDream", edit_four_texts, "encode_hidream 'l' '' 't5' 'llama'\n",
           "encode ");
    expect("CLIPTextEncodeSD3", edit_texts, "encode_sd3 'l' '' 't5'\n", "encode ");
    expect("CLIPTextEncodeSD3", edit_t5_alone, "encode_sd3 '-' '-' 't5'\n", "encode ");
    expect("CLIPTextEncodeSD3", edit_padded, "encode_sd3 'l' '' 't5'\n", "encode ");
    expect("CLIPTextEncodeFlux", edit_two_texts, "encode_flux 'l' 't5'\nguidance 3.5\n", "encode ");
    expect("CLIPTextEncodeLumina2", NULL, "encode_lumina2 0 ''\n", "encode ");
    expect("CLIPTextEncodeLumina2", edit_alignment, "encode_lumina2 1 'a cat'\n", "encode ");
    expect("TextEncodeQwenImageEdit", NULL, "encode_edit '' 1 vae\n", "encode ");
    expect("TextEncodeQwenImageEdit", edit_one_picture, "encode_edit 'blue' 1\n", "encode ");
    expect("TextEncodeQwenImageEdit", edit_no_picture, "encode_edit '' 0 vae\n", "encode ");
    expect("TextEncodeQwenImageEditPlus", NULL, "encode_edit '' 3 numbered vae\n", "encode ");
    expect("TextEncodeQwenImageEditPlus", edit_one_picture, "encode_edit 'blue' 1 numbered\n",
           "encode ");
    expect("TextEncodeQwenImageEditPlus", edit_no_picture, "encode_edit '' 0 numbered vae\n",
           "encode ");
    expect("TextEncodeQwenImage21", edit_no_pictures, "encode_analyzed 'blue' 'red' 0 vae 1024\n",
           "encode ");
    expect("TextEncodeQwenImage21", edit_eight_pictures,
           "encode_analyzed 'blue' 'red' 8 vae 1024\n", "encode ");
    expect("FluxGuidance", edit_guidance, "guidance 2.25\n", "");
    expect("FluxDisableGuidance", NULL, "untold\n", "");
    expect("ReferenceLatent", NULL, "reference\n", "");
    expect("FluxKontextMultiReferenceLatentMethod", NULL, "references placed 0\n", "");
    expect("FluxKontextMultiReferenceLatentMethod", edit_places, "references placed 2\n", "");
    expect("FluxKontextMultiReferenceLatentMethod", edit_clean_places, "references placed 3\n", "");
    expect("unCLIPConditioning", NULL, "show x 1, noise 0\n", "");
    expect("unCLIPConditioning", edit_shown, "show x -0.5, noise 0.25\n", "");
    expect("unCLIPConditioning", edit_unshown, "", "");
    expect("StyleModelApply", NULL, "style x 1\n", "");
    expect("StyleModelApply", edit_style, "style x 0.25\n", "");
    expect("CLIPSetLastLayer", edit_layer, "last_layer -2\n", "");
    expect("ConditioningCombine", NULL, "combine 1\n", "");
    expect("ConditioningConcat", NULL, "concat 1\n", "");
    expect("ConditioningAverage", edit_average, "average 1 0.25\n", "");
    expect("ConditioningSetTimestepRange", edit_range, "range 0.125 0.5\n", "");
    expect("ConditioningZeroOut", NULL, "zero_out\n", "");
    expect("ControlNetApplyAdvanced", edit_control,
           "control 0.75 [0.125,0.5] hint=32 pair=1 everywhere=0 net=1 vae=1 mask=0\n", "");
    expect("ControlNetApplySD3", edit_control,
           "control 0.75 [0.125,0.5] hint=32 pair=1 everywhere=0 net=1 vae=1 mask=0\n", "");
    expect("ControlNetInpaintingAliMamaApply", edit_control,
           "control 0.75 [0.125,0.5] hint=32 pair=1 everywhere=0 net=1 vae=1 mask=1\n", "");
    expect("ControlNetApply", edit_control,
           "control 0.75 [0,1] hint=32 pair=0 everywhere=1 net=1 vae=0 mask=0\n", "");
}

static void edit_sampler(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "seed", (int64_t)UINT64_MAX);
    set_i(n, in, "steps", 7);
    set_f(n, in, "cfg", 5.5), set_f(n, in, "denoise", 0.5);
    set_s(n, in, "sampler_name", "heun"), set_s(n, in, "scheduler", "karras");
}
static void edit_advanced(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "noise_seed", 1);
    set_i(n, in, "start_at_step", 3), set_i(n, in, "end_at_step", 9);
    set_s(n, in, "add_noise", "disable");
    set_s(n, in, "return_with_leftover_noise", "enable");
    set_s(n, in, "sampler_name", "euler"), set_s(n, in, "scheduler", "normal");
}
static void edit_advanced_defaults(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "sampler_name", "euler"), set_s(n, in, "scheduler", "normal");
}
static void samplers_pass_arguments_on(void)
{
    expect("KSampler", edit_sampler,
           "sample seed=18446744073709551615 noise=1 steps=7 cfg=5.5 heun karras denoise=0.5 0-7 "
           "full=0 two=1\n",
           "sample ");
    CHECK_INT(host.done, 2);
    CHECK_INT(host.total, 2);
    CHECK_INT(host.previews, 1);
    CHECK_INT(host.preview_byte, 10);
    CHECK_INT(host.latents, 1);
    CHECK(host.latent_value == 2.5f);
    CHECK_STR(host.log, "half way\n");
    expect("KSamplerAdvanced", edit_advanced,
           "sample seed=1 noise=0 steps=20 cfg=8 euler normal denoise=1 3-9 full=0 two=1\n",
           "sample ");
    expect("KSamplerAdvanced", edit_advanced_defaults,
           "sample seed=0 noise=1 steps=20 cfg=8 euler normal denoise=1 0-10000 full=1 two=1\n",
           "sample ");
}

static void edit_custom(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "add_noise", 0), set_i(n, in, "noise_seed", -1), set_f(n, in, "cfg", 3);
}
static void edit_schedule(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "scheduler", "karras");
    set_i(n, in, "steps", 9), set_f(n, in, "denoise", 0.25);
}
static void custom_samplers_pass_parts_on(void)
{
    expect("SamplerCustom", NULL,
           "custom model=1 seed=0 noise=1 cfg=8 heun two=1 sigmas=4: 16 4 1 0\n", "sample ");
    CHECK_INT(host.done, 2);
    expect("SamplerCustom", edit_custom,
           "custom model=1 seed=18446744073709551615 noise=0 cfg=3 heun two=1 sigmas=4: 16 4 1 0\n",
           "sample ");
    expect("SamplerCustomAdvanced", NULL,
           "custom model=1 seed=21 noise=1 cfg=5.5 heun two=1 sigmas=4: 16 4 1 0\n", "sample ");
    expect("BasicScheduler", edit_schedule, "schedule karras steps=9 denoise=0.25\n", "");
    expect("SDTurboScheduler", NULL, "schedule turbo steps=1 denoise=1\n", "");
    expect("KSamplerSelect", edit_select, "", "");
    expect("KarrasScheduler", NULL, "", "");
    expect("Flux2Scheduler", NULL, "", "");
    expect("Ideogram4Scheduler", NULL, "", "");
    expect("PolyexponentialScheduler", NULL, "", "");
    expect("VPScheduler", NULL, "", "");
    expect("LaplaceScheduler", NULL, "", "");
    expect("DisableNoise", NULL, "", "");
}

/* The results of a node in place of the parts that every test has. */
static void advanced_with(const char *id, graft_arg *part, const char *want)
{
    graft_arg in[80], made[4], saved = part[0];
    connect(fake_host_node(id), in);
    CHECK_INT(run_with(id, in, made), GRAFT_OK);
    part[0] = made[0];
    expect("SamplerCustomAdvanced", NULL, want, "sample ");
    part[0] = saved;
    fake_host_release(made, 4);
}

static void parts_may_be_others(void)
{
    advanced_with("BasicGuider", guider,
                  "custom model=1 seed=21 noise=1 cfg=1 heun two=0 sigmas=4: 16 4 1 0\n");
    advanced_with("DisableNoise", noise,
                  "custom model=1 seed=0 noise=0 cfg=5.5 heun two=1 sigmas=4: 16 4 1 0\n");
    advanced_with("FlipSigmas", sigmas,
                  "custom model=1 seed=21 noise=1 cfg=5.5 heun two=1 sigmas=4: 0.0001 1 4 16\n");
    advanced_with("SplitSigmas", sigmas,
                  "custom model=1 seed=21 noise=1 cfg=5.5 heun two=1 sigmas=1: 16\n");
    advanced_with("SplitSigmasDenoise", sigmas,
                  "custom model=1 seed=21 noise=1 cfg=5.5 heun two=1 sigmas=1: 16\n");
}

/* What SplitSigmas gives first and second. */
static void split_into(const char *id, const char *input, double at, size_t n_high, size_t n_low)
{
    const graft_node *n = fake_host_node(id);
    graft_arg in[80], out[4];
    connect(n, in);
    if (strcmp(input, "step") == 0)
        set_i(n, in, input, (int64_t)at);
    else
        set_f(n, in, input, at);
    CHECK_INT(run_with(id, in, out), GRAFT_OK);
    const graft_tensor *high = out[0].u.v->ops->query(out[0].u.v, GRAFT_TENSOR_ID);
    const graft_tensor *low = out[1].u.v->ops->query(out[1].u.v, GRAFT_TENSOR_ID);
    CHECK(high && low && high->ndim == 1 && low->ndim == 1);
    CHECK_INT(high->shape[0], n_high);
    CHECK_INT(low->shape[0], n_low);
    fake_host_release(out, 4);
}

static void splits_give_both_parts(void)
{
    split_into("SplitSigmas", "step", 1, 2, 3);
    split_into("SplitSigmas", "step", 10000, 4, 0);
    split_into("SplitSigmasDenoise", "denoise", 0.34, 3, 2);
}

static void edit_sampling(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "sampling", "v_prediction");
    set_i(n, in, "zsnr", 1);
}
static void edit_compile(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "precision", "bf16"), set_s(n, in, "tuning", "full");
    set_s(n, in, "device", "cpu"), set_s(n, in, "cache", "disable");
    set_i(n, in, "max_memory_mb", 900), set_i(n, in, "width", 640);
    set_i(n, in, "height", 480), set_i(n, in, "batch_size", 3);
    if (fake_host_input(n, "tile") >= 0) set_s(n, in, "tile", "off");
}
static void edit_unconnected(const graft_node *n, graft_arg *in)
{
    for (int i = 0; n->inputs[i]; i++)
        if (n->inputs[i]->flags & GRAFT_INPUT_OPTIONAL) in[i] = (graft_arg){.kind = GRAFT_NONE};
}
static void edit_hypertile(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "tile_size", 128), set_i(n, in, "swap_size", 3);
    set_i(n, in, "max_depth", 1), set_i(n, in, "scale_depth", 1);
}
static void edit_ratio(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "ratio", 0.625);
}
static void edit_easycache(const graft_node *n, graft_arg *in)
{
    set_f(n, in, "reuse_threshold", 0.5), set_f(n, in, "start_percent", 0.25);
    set_f(n, in, "end_percent", 0.75), set_i(n, in, "verbose", 1);
}
static void edit_downscale(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "block_number", 4), set_f(n, in, "downscale_factor", 1.5);
    set_f(n, in, "start_percent", 0.125), set_f(n, in, "end_percent", 0.5);
    set_i(n, in, "downscale_after_skip", 0), set_s(n, in, "downscale_method", "area");
    set_s(n, in, "upscale_method", "bilinear");
}
static void edit_sides(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "width", 1024), set_i(n, in, "height", 256);
}
static void edit_edm(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "sampling", "edm");
    set_f(n, in, "sigma_max", 80);
}
static void edit_padding(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "min_padding", 3), set_i(n, in, "min_length", 40);
}
static void edit_single_layers(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "single_layers", "10");
}
static void options_pass_arguments_on(void)
{
    expect("ModelSamplingDiscrete", edit_sampling, "sampling v_prediction 1\n", "");
    expect("ModelSamplingContinuousEDM", NULL, "sampling continuous v_prediction 120 0.002\n", "");
    expect("ModelSamplingContinuousEDM", edit_edm, "sampling continuous edm 80 0.002\n", "");
    expect("ModelSamplingContinuousV", NULL, "sampling continuous v_prediction angle 500 0.03\n",
           "");
    expect("ModelSamplingSD3", NULL, "sampling flow 3\n", "");
    expect("ModelSamplingAuraFlow", NULL, "sampling flow 1.73\n", "");
    expect("ModelSamplingFlux", NULL, "sampling flow 3.15819 fine\n", "");       /* e^1.15 */
    expect("ModelSamplingFlux", edit_sides, "sampling flow 1.87761 fine\n", ""); /* e^0.63 */
    expect("SkipLayerGuidanceSD3", NULL, "skip '7, 8, 9' 3 0.01 0.15\n", "");
    expect("SkipLayerGuidanceDiTSimple", edit_single_layers, "skip negative '7, 8, 9' '10' 0 1\n",
           "");
    expect("SkipLayerGuidanceDiT", edit_single_layers, "skip '7, 8, 9' '10' 3 0.01 0.15 0\n", "");
    expect("T5TokenizerOptions", edit_padding, "t5 padding 3 40\n", "");
    expect("RescaleCFG", NULL, "rescale 0.7\n", "");
    expect("APG", NULL, "cfg 0 1 5 0\n", "");
    expect("TCFG", NULL, "cfg 1 0 0 0\n", "");
    expect("RenormCFG", NULL, "cfg 2 1 100 0\n", "");
    expect("CFGZeroStar", NULL, "cfg 3 0 0 0\n", "");
    expect("CFGNorm", NULL, "cfg 4 1 0 0\n", "");
    expect("LatentApplyOperationCFG", NULL, "operate 1 0 1 1 0.25 from 0 to 1\n", "");
    expect("LatentApplyOperationCFG", edit_share, "operate 1 0 1 1 0.25 from 0.25 to 0.75\n", "");
    expect("LatentApplyOperationCFG", edit_no_share, "operate 1 0 1 1 0.25 from 0 to 1\n", "");
    expect("LatentOperationTonemapReinhard", NULL, "", "");
    expect("LatentApplyOperation", NULL, "", "");
    expect("CFGOverride", NULL, "cfg 1 from 0 to 1\n", "");
    expect("Mahiro", NULL, "cfg 5 0 0 0\n", "");
    expect("DifferentialDiffusion", NULL, "differential 1\n", "");
    expect("PerturbedAttentionGuidance", NULL, "perturbed 3\n", "");
    expect("SelfAttentionGuidance", NULL, "self-attention 0.5 2\n", "");
    expect("HyperTile", NULL, "hypertile 256 2 0 0\n", "");
    expect("HyperTile", edit_hypertile, "hypertile 128 3 1 1\n", "");
    expect("TomePatchModel", NULL, "merge tokens 0.3\n", "");
    expect("TomePatchModel", edit_ratio, "merge tokens 0.625\n", "");
    expect("EasyCache", NULL, "easycache 0.2 [0.15,0.95] 0\n", "");
    expect("EasyCache", edit_easycache, "easycache 0.5 [0.25,0.75] 1\n", "");
    expect("PatchModelAddDownscale", NULL, "downscale 3 by 2 [0,0.35] 1 bicubic bicubic\n", "");
    expect("PatchModelAddDownscale", edit_downscale,
           "downscale 4 by 1.5 [0.125,0.5] 0 area bilinear\n", "");
    expect("FreeU", NULL, "freeu 1 b 1.1 1.2 s 0.9 0.2\n", "");
    expect("FreeU_V2", NULL, "freeu 2 b 1.3 1.4 s 0.9 0.2\n", "");
    expect("CompileModel", edit_compile,
           "compile model bf16 full cpu memory=900 cache=0 tile=0 640x480x3\n", "compile ");
    expect("CompileModel", edit_unconnected,
           "compile model auto fast auto memory=0 cache=1 tile=0 0x0x0\n", "compile ");
    expect("CompileVAE", edit_compile,
           "compile vae bf16 full cpu memory=900 cache=0 tile=0 640x480x3\n", "compile ");
    expect("CompileVAE", edit_unconnected,
           "compile vae auto fast auto memory=0 cache=1 tile=1 0x0x0\n", "compile ");
    expect("CLIPLoader", edit_unconnected, "clip stable_diffusion file.safetensors\n", "load ");
}

static void edit_tiles(const graft_node *n, graft_arg *in)
{
    set_i(n, in, "tile_size", 256), set_i(n, in, "overlap", 32);
}
static void vae_nodes_pass_arguments_on(void)
{
    expect("VAEDecode", NULL, "decode\n", "decode ");
    expect("VAEDecodeTiled", edit_tiles, "decode tiles=256,32\n", "decode ");
    expect("VAEEncode", NULL, "vae encode\n", "encode ");
    expect("VAEEncodeTiled", edit_tiles, "vae encode tiles=256,32\n", "encode ");
    expect("InpaintModelConditioning", NULL, "vae known mask=1 noise_mask=1\ninpaint\ninpaint\n",
           "encode ");
    expect("VAEEncodeForInpaint", NULL, "vae inpaint grow=6 mask=1\n", "encode ");
    expect("InstructPixToPixConditioning", NULL, "vae encode\npicture\npicture\n", "encode ");
}

static void reports_as_text_and_picture(void)
{
    graft_arg in[80], out[4];
    char text[64] = "";
    const graft_node *n = fake_host_node("ModelReport");
    connect(n, in);
    edit_unconnected(n, in);
    fake_engine_reset(), fake_host_clear(&host);
    CHECK_INT(fake_host_run(&host, n, in, out, text, sizeof text), GRAFT_OK);
    CHECK_STR(fake_trace, "report model=1 vae=0 clip=0\n");
    CHECK_STR(text, "line \"one\"\nline two");
    CHECK_STR(host.ui, "text \"line \\\"one\\\"\\nline two\"\n");
    fake_host_release(out, 4);
    expect("ModelReport", NULL, "report model=1 vae=1 clip=1\n", "");
}

static void devices_are_asked_for(void)
{
    const graft_device_api *api = graft_plugin_entry.query(GRAFT_DEVICE_ID);
    char text[64] = "";
    CHECK_INT(api->check("cpu", text, sizeof text), GRAFT_OK);
    CHECK_STR(text, "");
    CHECK_INT(api->check("cuad", text, sizeof text), GRAFT_E_NOTFOUND);
    CHECK_STR(text, "no cuad");
    graft_device_facts d = {.size = sizeof d - 1};
    CHECK_INT(api->describe(&d), GRAFT_E_ARG);
    d.size = sizeof d;
    CHECK_INT(api->describe(&d), GRAFT_OK);
    CHECK(d.own_memory && d.memory_total == 2000 && d.memory_free == 500);
    CHECK_STR(d.backend, "fake");
    CHECK_STR(d.name, "a card");
}

int main(void)
{
    if (fake_host_init(&host)) return 1;
    CHECK_INT(graft_plugin_entry.init(&host.host, "/"), GRAFT_OK);
    RUN(make_inputs);
    if (test_failures == 0) {
        RUN(loaders_pass_files_on);
        RUN(onediff_names_do_what_ours_do);
        RUN(quantize_passes_everything_on);
        RUN(plan_names_are_checked);
        RUN(prompts_pass_arguments_on);
        RUN(pictures_are_shown_within);
        RUN(a_latent_of_the_resolution);
        RUN(attention_is_not_weighed);
        RUN(pictures_are_shown);
        RUN(models_are_steered);
        RUN(samplers_pass_arguments_on);
        RUN(custom_samplers_pass_parts_on);
        RUN(parts_may_be_others);
        RUN(splits_give_both_parts);
        RUN(options_pass_arguments_on);
        RUN(vae_nodes_pass_arguments_on);
        RUN(reports_as_text_and_picture);
        RUN(devices_are_asked_for);
    }
    check_nothing_is_left();
    return test_end();
}
