/* What tests of nodes that work on models share: the fake host, a value of each type that inputs
 * take, and nodes connected to them. */
#ifndef GRAFT_TESTS_NODES_CONNECTED_H
#define GRAFT_TESTS_NODES_CONNECTED_H
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "nodes/call/list.h"
#include "tests/nodes/fake_engine.h"
#include "tests/nodes/fake_host.h"
#include "tests/test.h"

static fake_host host;
static graft_arg model[4], controlnet[4], upscaler[4], prompt_a[4], prompt_b[4], latent[4],
    image[4], mask[4];
static graft_arg patch[4];
static graft_arg vision[4], seen[4], style[4], adapter[4], gligen[4], operation[4];
static graft_arg hooks[4], keyframes[4], range[4];
static graft_arg deepcache[4], quantizer[4], booster[4]; /* OneDiff's */
static graft_arg sigmas[4], sampler[4], noise[4], guider[4];
static graft_arg images[4], latents[4]; /* lists */

static inline graft_status run_with(const char *id, const graft_arg *in, graft_arg *out)
{
    fake_engine_reset();
    fake_host_clear(&host);
    return fake_host_run(&host, fake_host_node(id), in, out, NULL, 0);
}

/* Connects every object input to a value of its type; two prompts differ. */
static inline void connect(const graft_node *node, graft_arg *in)
{
    int prompts = 0;
    fake_host_defaults(node, in);
    for (int i = 0; node->inputs[i]; i++) {
        const char *t = node->inputs[i]->type;
        if (strcmp(t, "MODEL") == 0 || strcmp(t, "*") == 0) in[i] = model[0];
        if (strcmp(t, "CLIP") == 0) in[i] = model[1];
        if (strcmp(t, "VAE") == 0) in[i] = model[2];
        if (strcmp(t, "CONTROL_NET") == 0) in[i] = controlnet[0];
        if (strcmp(t, "MODEL_PATCH") == 0) in[i] = patch[0];
        if (strcmp(t, "UPSCALE_MODEL") == 0) in[i] = upscaler[0];
        if (strcmp(t, "CLIP_VISION") == 0) in[i] = vision[0];
        if (strcmp(t, "CLIP_VISION_OUTPUT") == 0) in[i] = seen[0];
        if (strcmp(t, "STYLE_MODEL") == 0) in[i] = style[0];
        if (strcmp(t, "CONDITIONING") == 0) in[i] = prompts++ ? prompt_b[0] : prompt_a[0];
        if (strcmp(t, "LATENT") == 0) in[i] = latent[0];
        if (strcmp(t, "IMAGE") == 0) in[i] = image[0];
        if (strcmp(t, "IPADAPTER") == 0) in[i] = adapter[0];
        if (strcmp(t, "GLIGEN") == 0) in[i] = gligen[0];
        if (strcmp(t, "LATENT_OPERATION") == 0) in[i] = operation[0];
        if (strcmp(t, "HOOKS") == 0) in[i] = hooks[0];
        if (strcmp(t, "HOOK_KEYFRAMES") == 0) in[i] = keyframes[0];
        if (strcmp(t, "TIMESTEPS_RANGE") == 0) in[i] = range[0];
        if (strcmp(t, "FLOATS,FLOAT") == 0) in[i] = (graft_arg){.kind = GRAFT_FLOAT, .u.f = 0.5};
        if (strcmp(t, "IMAGE,MASK") == 0) in[i] = image[0];
        if (strstr(t, "INT,")) in[i] = (graft_arg){.kind = GRAFT_INT, .u.i = 3};
        /* What is there to be refused. */
        if (strcmp(t, "MASK") == 0 && strcmp(node->inputs[i]->name, "attn_mask") != 0)
            in[i] = mask[0];
        if (strcmp(t, "SIGMAS") == 0) in[i] = sigmas[0];
        if (strcmp(t, "SAMPLER") == 0) in[i] = sampler[0];
        if (strcmp(t, "NOISE") == 0) in[i] = noise[0];
        if (strcmp(t, "GUIDER") == 0) in[i] = guider[0];
        if (strcmp(t, "DeepCacheBooster") == 0) in[i] = deepcache[0];
        if (strcmp(t, "QuantizationBooster") == 0) in[i] = quantizer[0];
        if (strcmp(t, "CUSTOM_BOOSTER") == 0) in[i] = booster[0];
        if (node->inputs[i]->flags & GRAFT_INPUT_LIST)
            in[i] = strcmp(t, "IMAGE") == 0 ? images[0] : latents[0];
    }
}

static inline void set_i(const graft_node *n, graft_arg *in, const char *name, int64_t v)
{
    in[fake_host_input(n, name)].u.i = v;
}
static inline void set_f(const graft_node *n, graft_arg *in, const char *name, double v)
{
    in[fake_host_input(n, name)].u.f = v;
}
static inline void set_s(const graft_node *n, graft_arg *in, const char *name, const char *v)
{
    in[fake_host_input(n, name)].u.s = v;
}

static inline void edit_no_parts(const graft_node *n, graft_arg *in)
{
    memset(&in[fake_host_input(n, "deepcache_booster")], 0, sizeof *in);
    memset(&in[fake_host_input(n, "quantization_booster")], 0, sizeof *in);
}
/* For nodes that refuse pictures. */
static inline void edit_no_images(const graft_node *n, graft_arg *in)
{
    for (int i = 0; n->inputs[i]; i++)
        if (strcmp(n->inputs[i]->type, "IMAGE") == 0) in[i] = (graft_arg){.kind = GRAFT_NONE};
}
static inline void edit_select(const graft_node *n, graft_arg *in)
{
    set_s(n, in, "sampler_name", "euler");
}

/* The parts of custom sampling. */
static inline void make_parts(void)
{
    graft_arg in[24];
    const graft_node *n = fake_host_node("KSamplerSelect");
    fake_host_defaults(n, in);
    set_s(n, in, "sampler_name", "heun");
    CHECK_INT(run_with("KSamplerSelect", in, sampler), GRAFT_OK);
    n = fake_host_node("RandomNoise");
    fake_host_defaults(n, in);
    set_i(n, in, "noise_seed", 21);
    CHECK_INT(run_with("RandomNoise", in, noise), GRAFT_OK);
    n = fake_host_node("ExponentialScheduler");
    fake_host_defaults(n, in);
    set_i(n, in, "steps", 3), set_f(n, in, "sigma_max", 16), set_f(n, in, "sigma_min", 1);
    CHECK_INT(run_with("ExponentialScheduler", in, sigmas), GRAFT_OK);
    n = fake_host_node("CFGGuider");
    connect(n, in);
    set_f(n, in, "cfg", 5.5);
    CHECK_INT(run_with("CFGGuider", in, guider), GRAFT_OK);
}

static inline void make_hooks(void)
{
    graft_arg in[24];
    connect(fake_host_node("CreateHookLora"), in);
    CHECK_INT(run_with("CreateHookLora", in, hooks), GRAFT_OK);
    connect(fake_host_node("CreateHookKeyframe"), in);
    CHECK_INT(run_with("CreateHookKeyframe", in, keyframes), GRAFT_OK);
    const graft_node *n = fake_host_node("ConditioningTimestepsRange");
    fake_host_defaults(n, in);
    set_f(n, in, "start_percent", 0.25), set_f(n, in, "end_percent", 0.75);
    CHECK_INT(run_with("ConditioningTimestepsRange", in, range), GRAFT_OK);
}

/* Lists of the same thing twice. */
static inline void make_lists(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_value *i = NULL, *l = NULL;
    CHECK_OK(graft_list_create(2, &i, &e), &e);
    CHECK_OK(graft_list_create(2, &l, &e), &e);
    for (int k = 0; k < 2; k++) {
        graft_image *one = graft_value_object(image[0].u.v, GRAFT_VALUE_IMAGE);
        graft_latent *other = graft_value_object(latent[0].u.v, GRAFT_VALUE_LATENT);
        CHECK_OK(graft_list_push(i, GRAFT_VALUE_IMAGE, graft_image_retain(one), &e), &e);
        CHECK_OK(graft_list_push(l, GRAFT_VALUE_LATENT, graft_latent_retain(other), &e), &e);
    }
    images[0] = (graft_arg){.kind = GRAFT_OBJECT, .u.v = i};
    latents[0] = (graft_arg){.kind = GRAFT_OBJECT, .u.v = l};
}

static inline void make_inputs(void)
{
    graft_arg in[24], m;
    fake_host_defaults(fake_host_node("CheckpointLoaderSimple"), in);
    CHECK_INT(run_with("CheckpointLoaderSimple", in, model), GRAFT_OK);
    CHECK_STR(host.phases, "load ");
    CHECK(strstr(fake_trace, "checkpoint file.safetensors\n") != NULL);
    fake_host_defaults(fake_host_node("ControlNetLoader"), in);
    CHECK_INT(run_with("ControlNetLoader", in, controlnet), GRAFT_OK);
    fake_host_defaults(fake_host_node("ModelPatchLoader"), in);
    CHECK_INT(run_with("ModelPatchLoader", in, patch), GRAFT_OK);
    fake_host_defaults(fake_host_node("UpscaleModelLoader"), in);
    CHECK_INT(run_with("UpscaleModelLoader", in, upscaler), GRAFT_OK);
    fake_host_defaults(fake_host_node("CLIPVisionLoader"), in);
    CHECK_INT(run_with("CLIPVisionLoader", in, vision), GRAFT_OK);
    fake_host_defaults(fake_host_node("StyleModelLoader"), in);
    CHECK_INT(run_with("StyleModelLoader", in, style), GRAFT_OK);
    fake_host_defaults(fake_host_node("IPAdapterModelLoader"), in);
    CHECK_INT(run_with("IPAdapterModelLoader", in, adapter), GRAFT_OK);
    fake_host_defaults(fake_host_node("GLIGENLoader"), in);
    CHECK_INT(run_with("GLIGENLoader", in, gligen), GRAFT_OK);
    const graft_node *n = fake_host_node("LatentOperationSharpen");
    fake_host_defaults(n, in);
    set_i(n, in, "sharpen_radius", 1), set_f(n, in, "alpha", 0.25);
    CHECK_INT(run_with("LatentOperationSharpen", in, operation), GRAFT_OK);
    make_hooks();
    connect(fake_host_node("CLIPTextEncode"), in);
    CHECK_INT(run_with("CLIPTextEncode", in, prompt_a), GRAFT_OK);
    CHECK_INT(run_with("CLIPTextEncode", in, prompt_b), GRAFT_OK);
    n = fake_host_node("EmptyLatentImage");
    fake_host_defaults(n, in);
    set_i(n, in, "width", 32), set_i(n, in, "height", 16), set_i(n, in, "batch_size", 2);
    CHECK_INT(run_with("EmptyLatentImage", in, latent), GRAFT_OK);
    n = fake_host_node("EmptyImage");
    fake_host_defaults(n, in);
    set_i(n, in, "width", 32), set_i(n, in, "height", 16);
    CHECK_INT(run_with("EmptyImage", in, image), GRAFT_OK);
    connect(fake_host_node("CLIPVisionEncode"), in);
    CHECK_INT(run_with("CLIPVisionEncode", in, seen), GRAFT_OK);
    n = fake_host_node("ImageToMask");
    connect(n, in);
    CHECK_INT(run_with("ImageToMask", in, mask), GRAFT_OK);
    n = fake_host_node("OneFlowDeepcacheBooster");
    fake_host_defaults(n, in);
    set_i(n, in, "cache_interval", 5), set_i(n, in, "end_step", 9);
    CHECK_INT(run_with("OneFlowDeepcacheBooster", in, deepcache), GRAFT_OK);
    n = fake_host_node("OneDiffOnlineQuantizationBooster");
    fake_host_defaults(n, in);
    set_i(n, in, "quantized_linear_percentage", 0);
    CHECK_INT(run_with("OneDiffOnlineQuantizationBooster", in, quantizer), GRAFT_OK);
    connect(fake_host_node("OneDiffModelBooster"), in);
    CHECK_INT(run_with("OneDiffModelBooster", in, booster), GRAFT_OK);
    m = mask[0];
    CHECK(m.kind == GRAFT_OBJECT && strcmp(m.u.v->ops->type, "MASK") == 0);
    make_parts();
    make_lists();
}

static inline void release_inputs(void)
{
    graft_arg *const all[] = {model,  controlnet, upscaler,  prompt_a,  prompt_b, latent,  image,
                              mask,   deepcache,  quantizer, booster,   sigmas,   sampler, noise,
                              guider, images,     latents,   vision,    seen,     style,   adapter,
                              patch,  operation,  hooks,     keyframes, range,    gligen};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fake_host_release(all[i], 4);
}

/* After the last test: everything is given back. */
static inline void check_nothing_is_left(void)
{
    graft_alloc_stats stats;
    release_inputs();
    graft_plugin_entry.deinit();
    CHECK_INT(fake_live, 0);
    CHECK_INT(fake_engines, 0);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    fake_host_finish(&host);
}
#endif
