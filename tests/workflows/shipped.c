/* Every workflow of workflows/, on small models, as a user would run it. */
#include "tests/test.h"

#include "tests/workflows/pictures.h"
#include "tests/workflows/process.h"

#define TINY(kind)    "1.ckpt_name=tiny-" kind ".safetensors"
#define CONTROL(kind) "9.control_net_name=tiny-" kind "-control.safetensors"
#define SEEING(name)                                                                               \
    "7.clip_name=tiny-clip-vision.safetensors", "8.ipadapter_file=tiny-" name ".safetensors"
#define UNION "9.control_net_name=tiny-sdxl-union.safetensors"
#define FLUX(kind)                                                                                 \
    "1.unet_name=tiny-" kind ".safetensors", "2.clip_name1=tiny-clip-l.safetensors",               \
        "2.clip_name2=tiny-t5.safetensors", "3.vae_name=tiny-flux-vae.safetensors"
#define FLUX_CONTROL(kind) "14.control_net_name=tiny-flux-" kind ".safetensors"
#define SIZED(node)        node ".width=72", node ".height=104" /* half a patch more either way */
#define LORA(kind)         "8.lora_name=tiny-" kind "-lora.safetensors"

static const struct workflow {
    const char *file;
    size_t pictures;
    int64_t width, height; /* 0: they differ, and so do the runs */
    const char *set[14];
} workflows[] = {
    {"txt2img.json", 1, 64, 64, {TINY("sd1"), "5.steps=2"}},
    {"txt2img.json", 1, 72, 48, {TINY("sd2"), "5.steps=2", "4.width=72", "4.height=48"}},
    {"txt2img.editor.json", 1, 64, 64, {TINY("sd1"), "5.steps=2"}},
    {"custom-sampling.json", 1, 64, 64, {TINY("sd1"), "11.steps=2"}},
    {"img2img.json", 1, 64, 64, {TINY("sd1"), "5.steps=3"}},
    {"inpaint.json", 1, 64, 64, {TINY("sd1"), "5.steps=3"}},
    {"hires-fix.json", 1, 96, 96, {TINY("sd1"), "5.steps=2", "9.steps=3"}},
    {"batch.json", 4, 64, 64, {TINY("sd1"), "5.steps=2"}},
    {"sdxl-txt2img.json", 1, 64, 64, {TINY("sdxl"), "5.steps=2", "4.width=64", "4.height=64"}},
    {"sd3.json",
     1,
     64,
     96,
     {TINY("sd3"), "7.steps=2", "4.width=64", "4.height=96", "6.width=64", "6.height=96"}},
    {"flux.json", 1, 72, 104, {FLUX("flux"), "10.steps=2", SIZED("7"), SIZED("8"), SIZED("9")}},
    {"flux-fill.json", 1, 64, 64, {FLUX("flux-fill"), "10.steps=2"}},
    {"flux-kontext.json", 1, 1024, 1024, {FLUX("flux"), "11.steps=1"}},
    {"flux-controlnet.json",
     1,
     72,
     104,
     {FLUX("flux"), FLUX_CONTROL("control"), "10.steps=2", SIZED("7"), SIZED("8"), SIZED("9")}},
    {"flux-controlnet-inpaint.json",
     1,
     72,
     104,
     {FLUX("flux"), FLUX_CONTROL("inpaint"), "10.steps=2", SIZED("7"), SIZED("8"), SIZED("9")}},
    {"flux-redux.json",
     1,
     64,
     96,
     {FLUX("flux"), "4.clip_name=tiny-siglip.safetensors",
      "5.style_model_name=tiny-redux.safetensors", "12.width=64", "12.height=96", "13.steps=2"}},
    {"chroma.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-chroma.safetensors", "2.clip_name=tiny-t5.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "9.steps=2", SIZED("6"), SIZED("8")}},
    {"z-image.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-z-image.safetensors", "2.clip_name=tiny-qwen3.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "9.steps=2", SIZED("6"), SIZED("8")}},
    {"z-image-controlnet.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-z-image.safetensors", "2.clip_name=tiny-qwen3.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "13.name=tiny-z-image-control.safetensors",
      "9.steps=2", SIZED("6"), SIZED("8")}},
    {"z-image-controlnet.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-z-image.safetensors", "2.clip_name=tiny-qwen3.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "13.name=tiny-z-image-union.safetensors", "9.steps=2",
      SIZED("6"), SIZED("8")}},
    {"flux2-klein.json",
     1,
     80,
     112,
     {"1.unet_name=tiny-flux2.safetensors", "2.clip_name=tiny-qwen3-deep.safetensors",
      "3.vae_name=tiny-flux2-vae.safetensors", "7.steps=2", "7.width=80", "7.height=112",
      "6.width=80", "6.height=112", "8.width=80", "8.height=112"}},
    {"flux2-klein.json",
     1,
     80,
     112,
     {"1.unet_name=tiny-flux2.safetensors", "2.clip_name=tiny-qwen3-deep.safetensors",
      "3.vae_name=tiny-taef2.safetensors", "7.steps=2", "7.width=80", "7.height=112", "6.width=80",
      "6.height=112", "8.width=80", "8.height=112"}},
    {"flux2-dev.json",
     1,
     80,
     112,
     {"1.unet_name=tiny-flux2-dev.safetensors", "2.clip_name=tiny-mistral.safetensors",
      "3.vae_name=tiny-flux2-vae.safetensors", "7.steps=2", "7.width=80", "7.height=112",
      "6.width=80", "6.height=112", "8.width=80", "8.height=112"}},
    {"qwen-image.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-qwen-image.safetensors", "2.clip_name=tiny-qwen25.safetensors",
      "3.vae_name=tiny-qwen-image-vae.safetensors", "9.steps=2", SIZED("6"), SIZED("8")}},
    {"longcat-image.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-longcat-image.safetensors", "2.clip_name=tiny-qwen25.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "9.steps=2", SIZED("6"), SIZED("8")}},
    {"longcat-image-edit.json",
     1,
     128,
     128,
     {"1.unet_name=tiny-longcat-image.safetensors", "2.clip_name=tiny-qwen25.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "9.steps=1", "5.megapixels=0.01",
      "5.resolution_steps=64"}},
    {"ovis-image.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-ovis-image.safetensors", "2.clip_name=tiny-qwen3.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "9.steps=2", SIZED("6"), SIZED("8")}},
    {"qwen-image-controlnet.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-qwen-image.safetensors", "2.clip_name=tiny-qwen25.safetensors",
      "3.vae_name=tiny-qwen-image-vae.safetensors", "13.name=tiny-qwen-image-control.safetensors",
      "9.steps=2", SIZED("6"), SIZED("8")}},
    {"anima.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-anima.safetensors", "2.clip_name=tiny-anima-qwen3.safetensors",
      "3.vae_name=tiny-qwen-image-vae.safetensors", "8.steps=2", SIZED("6"), SIZED("7")}},
    {"qwen-image-edit.json",
     1,
     1024,
     1024,
     {"1.unet_name=tiny-qwen-image.safetensors", "2.clip_name=tiny-qwen25.safetensors",
      "3.vae_name=tiny-qwen-image-vae.safetensors", "11.steps=1"}},
    {"qwen-image-layered.json",
     2,
     104,
     104,
     {"1.unet_name=tiny-qwen-image-layered.safetensors", "2.clip_name=tiny-qwen25.safetensors",
      "3.vae_name=tiny-qwen-image-layered-vae.safetensors", "14.steps=2", "5.largest_size=104"}},
    {"qwen-image-21.json",
     1,
     64, /* whole places of 16 pixels */
     96,
     {"1.unet_name=tiny-qwen-image21.safetensors", "2.clip_name=tiny-qwen3-vl-8b.safetensors",
      "3.vae_name=tiny-qwen-image21-vae.safetensors", "7.steps=2", SIZED("5"), SIZED("6")}},
    {"qwen-image-21-edit.json",
     1,
     64,
     64,
     {"1.unet_name=tiny-qwen-image21.safetensors", "2.clip_name=tiny-qwen3-vl-8b.safetensors",
      "3.vae_name=tiny-qwen-image21-vae.safetensors", "6.steps=2", "5.resolution=64"}},
    {"krea2.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-krea2.safetensors", "2.clip_name=tiny-qwen3-vl.safetensors",
      "3.vae_name=tiny-qwen-image-vae.safetensors", "8.steps=2", SIZED("6"), SIZED("7")}},
    {"krea2.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-krea2.safetensors", "2.clip_name=tiny-qwen3-vl.safetensors",
      "3.vae_name=tiny-taew.safetensors", "8.steps=2", SIZED("6"), SIZED("7")}},
    {"ideogram4.json",
     1,
     64,
     96,
     {"1.unet_name=tiny-ideogram4.safetensors",
      "2.unet_name=tiny-ideogram4-unconditional.safetensors",
      "3.clip_name=tiny-qwen3-vl-deep.safetensors", "4.vae_name=tiny-flux2-vae.safetensors",
      "8.steps=2", "7.width=64", "7.height=96"}},
    {"ernie-image.json",
     1,
     80, /* whole places of 16 pixels */
     112,
     {"1.unet_name=tiny-ernie-image.safetensors", "2.clip_name=tiny-ministral.safetensors",
      "3.vae_name=tiny-flux2-vae.safetensors", "8.steps=2", "6.width=80", "6.height=112",
      "7.width=80", "7.height=112"}},
    {"auraflow.json",
     1,
     80, /* odd numbers of squares of the latent */
     112,
     {TINY("auraflow"), "7.steps=2", "4.width=80", "4.height=112", "6.width=80", "6.height=112"}},
    {"hidream.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-hidream.safetensors", "2.clip_name1=tiny-clip-l.safetensors",
      "2.clip_name2=tiny-clip-g.safetensors", "2.clip_name3=tiny-t5.safetensors",
      "2.clip_name4=tiny-llama.safetensors", "3.vae_name=tiny-flux-vae.safetensors", "9.steps=2",
      SIZED("6"), SIZED("8")}},
    {"lumina2.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-lumina2.safetensors", "2.clip_name=tiny-gemma2.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "9.steps=2", SIZED("6"), SIZED("8")}},
    {"omnigen2.json",
     1,
     72,
     104,
     {"1.unet_name=tiny-omnigen2.safetensors", "2.clip_name=tiny-qwen25.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "8.steps=2", SIZED("6"), SIZED("7")}},
    {"omnigen2-edit.json",
     1,
     96,
     96,
     {"1.unet_name=tiny-omnigen2.safetensors", "2.clip_name=tiny-qwen25.safetensors",
      "3.vae_name=tiny-flux-vae.safetensors", "16.steps=1", "5.megapixels=0.01"}},
    {"unclip.json", 1, 64, 64, {TINY("unclip"), "5.steps=2", "4.width=64", "4.height=64"}},
    {"gligen.json",
     1,
     64,
     64,
     {TINY("sd1"), "6.gligen_name=tiny-gligen.safetensors", "5.steps=2", "4.width=64",
      "4.height=64"}},
    {"ip-adapter.json",
     1,
     64,
     64,
     {TINY("sd1"), SEEING("sd1-ip"), "5.steps=2", "4.width=64", "4.height=64"}},
    {"ip-adapter.json",
     1,
     64,
     64,
     {TINY("sdxl"), SEEING("sdxl-ip-plus"), "5.steps=2", "4.width=64", "4.height=64"}},
    {"compile.json", 1, 64, 64, {TINY("sd1"), "5.steps=2"}},
    {"deepcache.json", 1, 64, 64, {TINY("sd1"), "5.steps=4"}},
    {"quantize.json", 1, 64, 64, {TINY("sd1"), "5.steps=2", "8.steps=3"}},
    {"quantize-deepcache.json", 1, 64, 64, {TINY("sd1"), "5.steps=4", "9.steps=3"}},
    {"lora.json", 1, 64, 64, {TINY("sd1"), LORA("sd1"), "5.steps=2"}},
    {"lora.json", 1, 64, 64, {TINY("sd3"), LORA("sd3"), "5.steps=2"}},
    {"controlnet.json", 1, 64, 64, {TINY("sd1"), CONTROL("sd1"), "5.steps=2"}},
    {"controlnet.json", 1, 64, 64, {TINY("sdxl"), CONTROL("sdxl"), "5.steps=2"}},
    {"controlnet-union.json",
     1,
     64,
     64,
     {TINY("sdxl"), UNION, "5.steps=2", "4.width=64", "4.height=64"}},
    {"freeu.json", 1, 64, 64, {TINY("sd1"), "5.steps=2"}},
    {"easycache.json", 1, 64, 64, {TINY("sd1"), "5.steps=4", "8.reuse_threshold=3"}},
    {"perturbed-attention.json", 1, 64, 64, {TINY("sd1"), "5.steps=2"}},
    {"upscale.json", 1, 256, 256, {TINY("sd1"), "8.model_name=tiny-x4.safetensors", "5.steps=2"}},
    {"taesd.json", 2, 64, 64, {TINY("sd1"), "8.vae_name=tiny-taesd.safetensors", "5.steps=2"}},
    {"regions.json", 1, 128, 64, {TINY("sd1"), "5.steps=2"}},
    {"hooks.json", 1, 128, 64, {TINY("sd1"), "8.lora_name=tiny-sd1-lora.safetensors", "5.steps=2"}},
    {"report.json", 2, 0, 0, {TINY("sd1"), "5.steps=2"}},
    {"swap-weights.json",
     1,
     64,
     64,
     {TINY("sd1"), "9.ckpt_name=tiny-sd1-b.safetensors", "5.steps=2"}},
    {"merge.json", 1, 64, 64, {TINY("sd1"), "8.ckpt_name=tiny-sd1-b.safetensors", "5.steps=2"}},
    {"ab-test.json",
     2,
     64,
     64,
     {TINY("sd1"), "9.ckpt_name=tiny-sd1-b.safetensors", "5.steps=2", "10.steps=2"}},
};
#define N_WORKFLOWS (sizeof workflows / sizeof *workflows)

/* A build without network has no vocabulary of Qwen. */
static bool lacks_vocabulary(const struct workflow *w, const process *p)
{
    if (!p->status || !strstr(p->text, "without its tokenizer, which this build could not fetch"))
        return false;
    printf("skipped: %s: this build has no vocabulary of Qwen\n", w->file);
    return true;
}

/* `ref` would take half a minute. LongCat's text encoder is shown its picture at 1024 x 1024. */
static bool sees_much(const struct workflow *w)
{
    return w->width > 256 || strcmp(w->file, "longcat-image-edit.json") == 0;
}

static void check_one(const struct workflow *w)
{
    char file[256];
    const char *backend = sees_much(w) ? "cpu" : "ref";
    process first = {.output = "shipped/first", .backend = backend};
    process again = {.output = "shipped/again", .backend = backend};
    if (!WORKFLOW_TWICE && sees_much(w)) { /* engine.flux and qwen_edit do, in small */
        printf("skipped: %s: long under sanitizers\n", w->file);
        return;
    }
    snprintf(file, sizeof file, "workflows/%s", w->file);
    process_workflow(&first, file, w->set);
    if (lacks_vocabulary(w, &first)) {
        process_finish(&first);
        return;
    }
    if (WORKFLOW_TWICE) process_workflow(&again, file, w->set);
    CHECK_INT(first.status, 0);
    CHECK_INT(again.status, 0);
    CHECK_INT(output_count(&first), w->pictures);
    for (size_t i = 0; i < w->pictures; i++) {
        picture_facts f = picture_read(output_file(&first, i));
        CHECK(!w->width || (f.width == w->width && f.height == w->height));
        CHECK(f.spread > 0.01); /* a picture of one colour is what NaN would give */
        if (WORKFLOW_TWICE && w->width)
            CHECK(same_bytes(output_file(&first, i), output_file(&again, i)));
    }
    if (first.status) fprintf(stderr, "%s:\n%s\n", w->file, first.text);
    process_finish(&first);
    process_finish(&again);
}

static void each_runs_and_repeats(void)
{
    for (size_t i = 0; i < N_WORKFLOWS; i++) check_one(&workflows[i]);
}

static void both_formats_give_the_same_picture(void)
{
    const char *const set[] = {TINY("sd1"), "5.steps=2", NULL};
    process api = {.output = "shipped/api"}, editor = {.output = "shipped/editor"};
    process_workflow(&api, "workflows/txt2img.json", set);
    process_workflow(&editor, "workflows/txt2img.editor.json", set);
    CHECK_INT(api.status, 0);
    CHECK_INT(editor.status, 0);
    CHECK_NEAR(picture_psnr(output_file(&api, 0), output_file(&editor, 0)), 999, 0);
    process_finish(&api);
    process_finish(&editor);
}

/* Sampling put together from nodes is what KSampler does. */
static void custom_sampling_gives_ksamplers_picture(void)
{
    static const char *const sampler[][2] = {
        {"5.sampler_name=euler", "10.sampler_name=euler"},
        {"5.sampler_name=dpmpp_2m_sde", "10.sampler_name=dpmpp_2m_sde"}};
    for (int i = 0; i < 2; i++) {
        const char *const plain[] = {TINY("sd1"), "5.steps=3",   "5.scheduler=karras",
                                     "5.seed=9",  sampler[i][0], NULL};
        const char *const custom[] = {TINY("sd1"),      "11.steps=3",  "11.scheduler=karras",
                                      "8.noise_seed=9", sampler[i][1], NULL};
        process a = {.output = "shipped/plain"}, b = {.output = "shipped/custom"};
        process_workflow(&a, "workflows/txt2img.json", plain);
        process_workflow(&b, "workflows/custom-sampling.json", custom);
        CHECK_INT(a.status, 0);
        CHECK_INT(b.status, 0);
        CHECK_NEAR(picture_psnr(output_file(&a, 0), output_file(&b, 0)), 999, 0);
        process_finish(&a);
        process_finish(&b);
    }
}

/* Workflows with OneDiff's names run, and give what Graft's own nodes give. */
static void onediff_names_work(void)
{
    static const char *const name[] = {"speedup",          "loader",       "deepcache-loader",
                                       "deepcache-module", "quantization", "quantization-loader"};
    const char *const set[] = {TINY("sd1"), "5.steps=4", NULL};
    process own = {.output = "shipped/own"};
    process_workflow(&own, "workflows/deepcache.json", set);
    CHECK_INT(own.status, 0);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char file[128];
        process p = {.output = "shipped/onediff"};
        snprintf(file, sizeof file, "tests/workflows/onediff/%s.json", name[i]);
        process_workflow(&p, file, set);
        CHECK_INT(p.status, 0);
        if (p.status) fprintf(stderr, "%s:\n%s\n", file, p.text);
        CHECK_INT(output_count(&p), 1);
        /* These compile with the fastest precision, deepcache.json with the default one. */
        if (!p.status) CHECK(picture_psnr(output_file(&own, 0), output_file(&p, 0)) > 35);
        process_finish(&p);
    }
    process_finish(&own);
}

/* OneDiff's two nodes for ControlNets change nothing; the ControlNet itself does. */
static void controlnets_steer(void)
{
    static const char *const sets[][6] = {
        {TINY("sd1"), CONTROL("sd1"), "5.steps=2", "5.seed=1", NULL},
        {TINY("sd1"), CONTROL("sd1"), "5.steps=2", "5.seed=1", "10.strength=0.0", NULL}};
    static const char *const bare[] = {TINY("sd1"), "5.steps=2", "5.seed=1", "2.text=pear, 3d",
                                       NULL};
    process on = {.output = "shipped/steered"}, off = {.output = "shipped/off"};
    process theirs = {.output = "shipped/theirs"}, plain = {.output = "shipped/unsteered"};
    process_workflow(&on, "workflows/controlnet.json", sets[0]);
    process_workflow(&off, "workflows/controlnet.json", sets[1]);
    process_workflow(&theirs, "tests/workflows/onediff/controlnet.json", sets[0]);
    process_workflow(&plain, "workflows/txt2img.json", bare);
    CHECK(!on.status && !off.status && !theirs.status && !plain.status);
    if (theirs.status) fprintf(stderr, "%s\n", theirs.text);
    if (!on.status && !off.status && !theirs.status && !plain.status) {
        CHECK(picture_psnr(output_file(&on, 0), output_file(&theirs, 0)) == 999);
        CHECK(picture_psnr(output_file(&off, 0), output_file(&plain, 0)) == 999);
        CHECK(picture_psnr(output_file(&on, 0), output_file(&off, 0)) < 900);
    }
    process_finish(&on);
    process_finish(&off);
    process_finish(&theirs);
    process_finish(&plain);
}

/* The type of a union ControlNet counts; one with a single type says that it does not. */
static void types_of_a_union_controlnet_matter(void)
{
    static const char *const types[] = {"auto", "depth", "repaint"};
    process p[3] = {
        {.output = "shipped/auto"}, {.output = "shipped/depth"}, {.output = "shipped/repaint"}};
    for (int i = 0; i < 3; i++) {
        char type[32];
        snprintf(type, sizeof type, "11.type=%s", types[i]);
        const char *const set[] = {TINY("sdxl"),  UNION, "5.steps=2", "4.width=64",
                                   "4.height=64", type,  NULL};
        process_workflow(&p[i], "workflows/controlnet-union.json", set);
        CHECK_INT(p[i].status, 0);
        for (int k = 0; k < i; k++)
            CHECK(picture_psnr(output_file(&p[k], 0), output_file(&p[i], 0)) < 900);
    }
    for (int i = 0; i < 3; i++) process_finish(&p[i]);
    process plain = {.output = "shipped/ordinary"};
    const char *const set[] = {TINY("sdxl"), CONTROL("sdxl"), "5.steps=2",
                               "4.width=64", "4.height=64",   NULL};
    process_workflow(&plain, "workflows/controlnet-union.json", set);
    CHECK_INT(plain.status, 0);
    CHECK(strstr(plain.text, "not a union ControlNet") != NULL);
    process_finish(&plain);
}

static void seeds_prompts_and_weights_matter(void)
{
    static const char *const change[] = {"5.seed=2",
                                         "5.seed=18446744073709551615",
                                         "5.seed=18446744073709551614",
                                         "2.text=rocket, flat",
                                         "1.ckpt_name=tiny-sd1-b.safetensors",
                                         "5.cfg=7"};
    const char *const set[] = {TINY("sd1"), "5.steps=2", NULL};
    process plain = {.output = "shipped/plain"};
    process_workflow(&plain, "workflows/txt2img.json", set);
    char before[1200];
    snprintf(before, sizeof before, "%s", output_file(&plain, 0) ? output_file(&plain, 0) : "");
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        const char *const with[] = {TINY("sd1"), "5.steps=2", change[i], NULL};
        process p = {.output = i % 2 ? "shipped/odd" : "shipped/even"};
        process_workflow(&p, "workflows/txt2img.json", with);
        double psnr = picture_psnr(before, output_file(&p, 0));
        CHECK(psnr >= 0 && psnr < 60);
        snprintf(before, sizeof before, "%s", output_file(&p, 0) ? output_file(&p, 0) : "");
        process_finish(&p);
    }
    process_finish(&plain);
}

/* The UNet of B with the text encoder and VAE of A, as SwapWeights leaves them, nothing compiled
 * ahead and nothing swapped. */
static const char b_alone[] =
    "{\"1\":{\"class_type\":\"CheckpointLoaderSimple\",\"inputs\":"
    "{\"ckpt_name\":\"tiny-sd1.safetensors\"}},"
    "\"9\":{\"class_type\":\"CheckpointLoaderSimple\",\"inputs\":"
    "{\"ckpt_name\":\"tiny-sd1-b.safetensors\"}},"
    "\"2\":{\"class_type\":\"CLIPTextEncode\",\"inputs\":"
    "{\"text\":\"red apple, 3d\",\"clip\":[\"1\",1]}},"
    "\"3\":{\"class_type\":\"CLIPTextEncode\",\"inputs\":{\"text\":\"\",\"clip\":[\"1\",1]}},"
    "\"4\":{\"class_type\":\"EmptyLatentImage\",\"inputs\":"
    "{\"width\":64,\"height\":64,\"batch_size\":1}},"
    "\"5\":{\"class_type\":\"KSampler\",\"inputs\":{\"seed\":1,\"steps\":2,\"cfg\":4.0,"
    "\"sampler_name\":\"ddim\",\"scheduler\":\"ddim_uniform\",\"denoise\":1.0,\"model\":[\"9\",0],"
    "\"positive\":[\"2\",0],\"negative\":[\"3\",0],\"latent_image\":[\"4\",0]}},"
    "\"6\":{\"class_type\":\"VAEDecode\",\"inputs\":{\"samples\":[\"5\",0],\"vae\":[\"1\",2]}},"
    "\"7\":{\"class_type\":\"SaveImage\",\"inputs\":"
    "{\"filename_prefix\":\"b\",\"images\":[\"6\",0]}}}";

/* A then B in one graph must be what A alone and B alone give. */
static void swapped_weights_are_the_other_checkpoint(void)
{
    const char *const both[] = {TINY("sd1"), "9.ckpt_name=tiny-sd1-b.safetensors", "5.steps=2",
                                "10.steps=2", NULL};
    const char *const set_a[] = {TINY("sd1"), "5.steps=2", NULL};
    process ab = {.output = "shipped/ab"}, a = {.output = "shipped/a"}, b = {.output = "shipped/b"};
    process_workflow(&ab, "workflows/ab-test.json", both);
    process_workflow(&a, "workflows/txt2img.json", set_a);
    CHECK(scratch_write("b-alone.json", b_alone));
    process_workflow(&b, scratch("b-alone.json"), NULL);
    CHECK_INT(ab.status, 0);
    CHECK_INT(b.status, 0);
    CHECK_NEAR(picture_psnr(output_file(&ab, 0), output_file(&a, 0)), 999, 0);
    CHECK_NEAR(picture_psnr(output_file(&ab, 1), output_file(&b, 0)), 999, 0);
    double psnr = picture_psnr(output_file(&ab, 0), output_file(&ab, 1));
    CHECK(psnr >= 0 && psnr < 60);
    process_finish(&ab);
    process_finish(&a);
    process_finish(&b);
}

/* Where each heading stands in the list of nodes; -1: nowhere. */
static ptrdiff_t place_of(const char *list, const char *heading)
{
    const char *at = strstr(list, heading);
    return at ? at - list : -1;
}

static void nodes_that_have_a_successor_are_listed_last(void)
{
    process p = {0};
    process_run(&p, (const char *const[]){"nodes", NULL});
    CHECK_INT(p.status, 0);
    static const char *const order[] = {"\nloaders\n", "\nsampling\n", "\n_for_testing\n",
                                        "\nOneDiff (deprecated)\n",
                                        "\n_for_testing (deprecated)\n"};
    ptrdiff_t before = -1;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        ptrdiff_t at = place_of(p.text, order[i]);
        CHECK(at > before);
        before = at;
    }
    process_finish(&p);
}

int main(void)
{
    RUN(nodes_that_have_a_successor_are_listed_last);
    RUN(each_runs_and_repeats);
    RUN(custom_sampling_gives_ksamplers_picture);
    RUN(onediff_names_work);
    RUN(controlnets_steer);
    RUN(types_of_a_union_controlnet_matter);
    RUN(both_formats_give_the_same_picture);
    RUN(seeds_prompts_and_weights_matter);
    RUN(swapped_weights_are_the_other_checkpoint);
    return test_end();
}
