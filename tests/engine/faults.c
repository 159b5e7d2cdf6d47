/* Every allocation of making an engine, loading, compiling, binding and running fails once: the
 * caller gets GRAFT_E_NOMEM and a message, nothing leaks, and the same engine then does the same
 * call with the same result. Something that is only nice to have (a disk cache entry, a preview)
 * may be left out instead, if the result is right.
 *
 * What is tried: of each site, which is an allocation and the calls that led to it, one allocation
 * in the first scenario that comes there; and some of each scenario at equal distances. With
 * GRAFT_TEST_FAULTS=all in the environment every allocation is tried, with the name of a scenario
 * every one of that. What goes wrong on such ways is mostly seen by AddressSanitizer, so that a
 * build without it tries fewer. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "tests/engine/control.h"
#include "tests/engine/fault_sites.h"
#include "tests/engine/sample.h"

#define CLIP         GRAFT_SOURCE_DIR "/golden/small/clip_quick_gelu.safetensors"
#define VAE          GRAFT_SOURCE_DIR "/golden/small/vae.safetensors"
#define MMDIT        GRAFT_SOURCE_DIR "/golden/small/mmdit_sd35m.safetensors"
#define T5           GRAFT_SOURCE_DIR "/golden/small/t5.safetensors"
#define QWEN3        GRAFT_SOURCE_DIR "/golden/small/qwen3.safetensors"
#define TOKENS_MODEL GRAFT_SOURCE_DIR "/golden/small/unigram/odd.model"
#define X2           GRAFT_SOURCE_DIR "/golden/small/upscale_rrdb_x2.safetensors"

/* All that a scenario may hold; one step of it adds something. */
typedef struct world {
    const char *backend, *cache_dir;
    graft_engine *engine;
    graft_model *model, *changed;
    graft_clip *clip, *changed_clip;
    graft_vae *vae;
    graft_controlnet *net;
    graft_upscaler *upscaler;
    graft_cond *cond, *steered[2];
    graft_latent *latent, *sampled, *denoised;
    graft_image *image;
    char *text;
} world;

typedef graft_status step_fn(world *w, graft_err *e);

static void finish(world *w)
{
    graft_model_release(w->model);
    graft_model_release(w->changed);
    graft_clip_release(w->clip);
    graft_clip_release(w->changed_clip);
    graft_vae_release(w->vae);
    graft_controlnet_release(w->net);
    graft_upscaler_release(w->upscaler);
    graft_cond_release(w->cond);
    graft_cond_release(w->steered[0]);
    graft_cond_release(w->steered[1]);
    graft_latent_release(w->latent);
    graft_latent_release(w->sampled);
    graft_latent_release(w->denoised);
    graft_image_release(w->image);
    graft_text_free(w->text);
    graft_engine_destroy(w->engine);
    *w = (world){.backend = w->backend, .cache_dir = w->cache_dir};
}

/* ------------------------------------------------------------------ steps */

static graft_status engine_step(world *w, graft_err *e)
{
    graft_engine_config c = {.kernel_dir = GRAFT_LIB_DIR,
                             .backend = w->backend,
                             .threads = 1,
                             .cache_dir = w->cache_dir};
    return graft_engine_create(&c, &w->engine, e);
}

static graft_status load_demo(world *w, graft_err *e)
{
    return graft_checkpoint_load(w->engine, DEMO, NULL, &w->model, &w->clip, &w->vae, e);
}

static graft_status load_unet(world *w, graft_err *e)
{
    return graft_model_load(w->engine, SD1, NULL, &w->model, e);
}

static graft_status load_xl(world *w, graft_err *e)
{
    return graft_model_load(w->engine, SDXL, NULL, &w->model, e);
}

static graft_status load_clip(world *w, graft_err *e)
{
    const char *path = CLIP;
    return graft_clip_load(w->engine, &path, 1, "stable_diffusion", NULL, &w->clip, e);
}

static graft_status load_vae(world *w, graft_err *e)
{
    return graft_vae_load(w->engine, VAE, NULL, &w->vae, e);
}

static graft_status encode_text(world *w, graft_err *e)
{
    return graft_clip_encode(w->clip, "a (red:1.3) apple", NULL, &w->cond, e);
}

static graft_status empty_latent(world *w, graft_err *e)
{
    return graft_latent_empty(4, 64, 64, 1, &w->latent, e);
}

static graft_status deep_latent(world *w, graft_err *e)
{
    return graft_latent_empty(16, 64, 64, 1, &w->latent, e);
}

static graft_status plain_cond(world *w, graft_err *e)
{
    return sample_cond(w->model, &w->cond, e);
}

static graft_status sample_with(world *w, const graft_model *m, const char *sampler, int64_t steps,
                                graft_err *e)
{
    return sample_latent(m, w->cond, w->latent, sampler, steps, NULL, &w->sampled, e);
}

static graft_status sample_euler(world *w, graft_err *e)
{
    return sample_with(w, w->model, "euler", 1, e);
}

static graft_status sample_sde(world *w, graft_err *e)
{
    return sample_with(w, w->model, "dpmpp_2m_sde", 2, e);
}

static graft_status sample_parts(world *w, graft_err *e)
{
    graft_sigmas *all = NULL, *high = NULL, *low = NULL;
    graft_status st = graft_sigmas_from_model(w->model, "karras", 2, 1, &all, e);
    if (!st) st = graft_sigmas_split(all, 1, &high, &low, e);
    const graft_sampling s = {.model = w->model,
                              .positive = w->cond,
                              .sampler = "euler_ancestral",
                              .sigmas = high,
                              .add_noise = true,
                              .seed = 3};
    if (!st) st = graft_sample_custom(&s, w->latent, NULL, &w->sampled, &w->denoised, e);
    graft_sigmas_release(all);
    graft_sigmas_release(high);
    graft_sigmas_release(low);
    return st;
}

static graft_status sample_changed(world *w, graft_err *e)
{
    return sample_with(w, w->changed, "euler", 1, e);
}

static graft_status compile_with(world *w, const char *tuning, graft_err *e)
{
    graft_compile_options o = {
        .tuning = tuning, .cache = true, .width = 64, .height = 64, .batch_size = 1};
    return graft_model_compile(w->model, &o, NULL, &w->changed, e);
}

static graft_status compile_model(world *w, graft_err *e)
{
    return compile_with(w, "off", e);
}

static graft_status tune_model(world *w, graft_err *e)
{
    return compile_with(w, "fast", e);
}

static graft_status swap_model(world *w, graft_err *e)
{
    return graft_model_swap(w->model, SD1, false, NULL, &w->changed, e);
}

static graft_status decode(world *w, graft_err *e)
{
    return graft_vae_decode(w->vae, w->sampled ? w->sampled : w->latent, NULL, NULL, &w->image, e);
}

static graft_status decode_tiled(world *w, graft_err *e)
{
    graft_tiling t = {64, 16};
    return graft_vae_decode(w->vae, w->latent, &t, NULL, &w->image, e);
}

/* A budget that leads to segments in one piece and in strips. */
static graft_status decode_strips(world *w, graft_err *e)
{
    graft_compile_options o = {.tuning = "off", .max_memory_mb = 8, .tile = true};
    graft_vae *tight = NULL;
    graft_status st = graft_vae_compile(w->vae, &o, NULL, &tight, e);
    if (!st) st = graft_vae_decode(tight, w->latent, NULL, NULL, &w->image, e);
    graft_vae_release(tight);
    return st;
}

static graft_status encode_image(world *w, graft_err *e)
{
    return graft_vae_encode(w->vae, w->image, NULL, NULL, &w->sampled, e);
}

static graft_status large_latent(world *w, graft_err *e)
{
    return graft_latent_empty(4, 128, 96, 1, &w->latent, e);
}

static graft_status grey_image(world *w, graft_err *e)
{
    return graft_image_empty(64, 64, 1, 0x808080, &w->image, e);
}

static graft_status odd_image(world *w, graft_err *e)
{
    return graft_image_empty(75, 61, 1, 0x8040c0, &w->image, e);
}

static graft_status load_upscaler(world *w, graft_err *e)
{
    return graft_upscaler_load(w->engine, X2, NULL, &w->upscaler, e);
}

/* With so little room that it takes tiles. */
static graft_status upscale(world *w, graft_err *e)
{
    graft_image *large = NULL;
    w->upscaler->options.max_bytes = 1 << 20;
    graft_status st = graft_image_upscale(w->upscaler, w->image, NULL, &large, e);
    if (st) return st;
    graft_image_release(w->image);
    w->image = large;
    return GRAFT_OK;
}

static const char *lora_path;
static graft_status apply_lora(world *w, graft_err *e)
{
    return graft_lora_apply(w->model, NULL, lora_path, 0.75, 0, NULL, &w->changed, NULL, e);
}

static const char *control_path;
static graft_status load_net(world *w, graft_err *e)
{
    return graft_controlnet_load(w->engine, control_path, NULL, &w->net, e);
}

/* As if it were one of differences: all of its norms' scales are 0. */
static const char *diff_path;
static graft_status load_diff(world *w, graft_err *e)
{
    return graft_controlnet_load_diff(w->engine, diff_path, w->model, NULL, &w->net, e);
}

/* A union ControlNet twice, once told a type, and a model with DeepCache, which keeps residuals. */
static graft_status steer(world *w, graft_err *e)
{
    const graft_deepcache_options cache = {2, 0, 0, 0, 1000, "uniform", 0, false};
    graft_control_options o = {.net = w->net, .hint = w->image, .strength = 0.5, .end = 1};
    graft_cond *once[2] = {NULL, NULL};
    graft_controlnet *told = NULL;
    graft_status st = graft_cond_control(w->cond, w->cond, &o, &once[0], &once[1], e);
    if (!st) st = graft_controlnet_with_type(w->net, "depth", NULL, &told, e);
    o.net = told;
    if (!st) st = graft_cond_control(once[0], once[1], &o, &w->steered[0], &w->steered[1], e);
    graft_controlnet_release(told);
    graft_cond_release(once[0]);
    graft_cond_release(once[1]);
    return st ? st : graft_model_deepcache(w->model, &cache, &w->changed, e);
}

/* A prompt for an area and one under a mask, with a background, for a model with DeepCache. */
static graft_status place(world *w, graft_err *e)
{
    static const float half[4] = {1, 0.5f, 0, 0};
    const graft_deepcache_options cache = {2, 0, 0, 0, 1000, "uniform", 0, false};
    const graft_area corner = {.width = 0.5, .height = 0.5, .shares = true};
    graft_image *mask = NULL;
    graft_cond *area = NULL, *under = NULL;
    graft_status st = graft_image_from_data(half, (int64_t[]){1, 2, 2, 1}, true, &mask, e);
    if (!st) st = graft_cond_area(w->cond, &corner, 2, &area, e);
    if (!st) st = graft_cond_mask(w->cond, mask, 1, true, &under, e);
    if (!st) st = graft_cond_combine(area, under, &w->steered[0], e);
    if (!st) st = graft_cond_combine(w->cond, area, &w->steered[1], e);
    if (!st) st = graft_model_deepcache(w->model, &cache, &w->changed, e);
    graft_cond_release(area);
    graft_cond_release(under);
    graft_image_release(mask);
    return st;
}

/* With a limit of memory, which makes compiling ahead hold what the run will hold. */
static graft_status prepare_placed(world *w, graft_err *e)
{
    const graft_compile_options o = {.tuning = "off", .max_memory_mb = 1000};
    const graft_task ahead = {.compile_only = true};
    graft_model *limited = NULL;
    graft_latent *same = NULL;
    graft_status st = graft_model_compile(w->changed, &o, NULL, &limited, e);
    const graft_sample_params p = {
        .steps = 2, .cfg = 4.0, .sampler = "euler", .scheduler = "normal", .denoise = 1.0};
    if (!st)
        st = graft_sample(limited, &p, w->steered[0], w->steered[1], w->latent, &ahead, &same, e);
    graft_latent_release(same);
    graft_model_release(limited);
    return st;
}

static graft_status sample_steered(world *w, graft_err *e)
{
    const graft_sample_params p = {.seed = 7,
                                   .add_noise = true,
                                   .steps = 2,
                                   .cfg = 4.0,
                                   .sampler = "euler",
                                   .scheduler = "normal",
                                   .denoise = 1.0,
                                   .end_at_step = 10000};
    return graft_sample(w->changed, &p, w->steered[0], w->steered[1], w->latent, NULL, &w->sampled,
                        e);
}

static const char *inpaint_path;
static graft_status load_inpainting(world *w, graft_err *e)
{
    graft_status st = graft_model_load(w->engine, inpaint_path, NULL, &w->model, e);
    return st ? st : graft_model_load(w->engine, inpaint_path, NULL, &w->changed, e);
}

/* One prompt brings the picture; the other takes it from the latent. */
static graft_status show_picture(world *w, graft_err *e)
{
    graft_image *mask = NULL;
    graft_latent *known = NULL;
    const float half[2] = {1, 0};
    graft_status st = graft_image_from_data(half, (int64_t[]){1, 1, 2, 1}, true, &mask, e);
    if (!st) st = graft_vae_encode_known(w->vae, w->image, mask, true, NULL, &w->latent, &known, e);
    if (!st) st = graft_cond_inpaint(w->cond, known, &w->steered[0], e);
    if (!st) st = graft_cond_zero_out(w->cond, &w->steered[1], e);
    graft_latent_release(known);
    graft_image_release(mask);
    return st;
}

/* All that changes how the UNet is run. */
static graft_status patch(world *w, graft_err *e)
{
    const graft_freeu_options freeu = {2, 1.3, 1.4, 0.9, 0.2};
    const graft_hypertile_options tiles = {32, 2, 1, false};
    const graft_deepcache_options cache = {2, 0, 0, 0, 1000, "uniform", 0, false};
    const graft_easycache_options easy = {3, 0, 1, true};
    graft_model *m[5] = {NULL};
    graft_status st = graft_model_freeu(w->model, &freeu, &m[0], e);
    if (!st) st = graft_model_hypertile(m[0], &tiles, &m[1], e);
    if (!st) st = graft_model_merge_tokens(m[1], 0.5, &m[2], e);
    if (!st) st = graft_model_perturbed_attention(m[2], 3, &m[3], e);
    if (!st) st = graft_model_easycache(m[3], &easy, &m[4], e);
    if (!st) st = graft_model_deepcache(m[4], &cache, &w->changed, e);
    for (int i = 0; i < 5; i++) graft_model_release(m[i]);
    return st;
}

/* A transformer that leaves a block out, with prompts of its own kind, in a state of another form.
 */
static graft_status load_transformer(world *w, graft_err *e)
{
    graft_status st = graft_model_load(w->engine, MMDIT, NULL, &w->model, e);
    return st ? st : graft_model_skip_layers(w->model, "1", 3, 0, 1, &w->changed, e);
}

static graft_status sample_flow(world *w, graft_err *e)
{
    return sample_with(w, w->changed, "dpmpp_2m_sde", 2, e);
}

static const char *t5_path;
static graft_status load_t5(world *w, graft_err *e)
{
    return graft_clip_load(w->engine, &t5_path, 1, "sd3", NULL, &w->clip, e);
}

static const char *qwen3_path;
static graft_status load_qwen3(world *w, graft_err *e)
{
    return graft_clip_load(w->engine, &qwen3_path, 1, "lumina2", NULL, &w->clip, e);
}

static graft_status shrink(world *w, graft_err *e)
{
    const graft_downscale_options o = {2, 2, 0, 1, false, "bicubic", "area"};
    return graft_model_downscale(w->model, &o, &w->changed, e);
}

#define HYPERNETWORK GRAFT_SOURCE_DIR "/golden/hypernetwork/relu.pt"
static const char *net_path;
static graft_status guide_by_itself(world *w, graft_err *e)
{
    graft_model *a = NULL;
    graft_status st = graft_model_hypernetwork(w->model, net_path, 1, NULL, &a, e);
    if (!st) st = graft_model_self_attention(a, 1, 2, &w->changed, e);
    graft_model_release(a);
    return st;
}

static graft_status sample_patched(world *w, graft_err *e)
{
    return sample_with(w, w->changed, "euler", 2, e);
}

static graft_status report(world *w, graft_err *e)
{
    return graft_model_report(w->model, NULL, NULL, &w->text, &w->image, e);
}

static void write_inpainting(const char *path)
{
    graft_safetensors *f = open_file(SD1);
    write_file(widened_file(copy_file(f, ""), 5, 0.2f), path,
               graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
}

/* A text encoder with its tokenizer in one file. */
static void write_encoder(const char *path, const char *from, const char *name, const char *text,
                          size_t n)
{
    graft_safetensors *f = open_file(from);
    made_file *m = copy_file(f, "");
    graft_safetensors_close(f);
    const int64_t count = ((int64_t)n + 3) / 4 * 4;
    void *bytes = add_tensor(m, name, 1, (int64_t[]){count / 4}, NULL, 0);
    graft_st_tensor *t = &m->tensor[m->n - 1];
    memcpy(bytes, text, n);
    t->dtype = GRAFT_U8;
    t->shape[0] = (int64_t)n;
    t->bytes = n;
    write_file(m, path, NULL);
}

static void write_encoders(void)
{
    static const char merges[] = "t h\nth e\n";
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    size_t n = 0;
    CHECK_OK(graft_file_read(TOKENS_MODEL, 1 << 20, &text, &n, &e), &e);
    write_encoder(t5_path, T5, "spiece_model", text, n);
    write_encoder(qwen3_path, QWEN3, "merges_txt", merges, sizeof merges - 1);
    graft_free(text);
}

static void write_control(const char *path, const char *diff)
{
    graft_engine *g = make_engine("ref");
    graft_model *m = load_model(g, SD1);
    made_file *f = make_control(m, 1);
    add_union(f, m, 6);
    write_file(f, path, control_config(m));
    f = make_control(m, 1);
    for (size_t i = 0; i < f->n; i++)
        if (f->tensor[i].rank == 1)
            memset((void *)(uintptr_t)f->tensor[i].data, 0, f->tensor[i].bytes);
    write_file(f, diff, control_config(m));
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ scenarios */

typedef struct scenario {
    const char *name;
    step_fn *step[8]; /* those before `first` run undisturbed */
    int first;
    bool timed; /* what comes out depends on the clock */
    bool large; /* too slow for the plain kernels */
} scenario;

static const scenario scenarios[] = {
    {"engine", {engine_step}, 0, false, false},
    {"load a checkpoint", {engine_step, load_demo}, 1, false, false},
    {"load a text encoder", {engine_step, load_clip}, 1, false, false},
    {"encode a prompt", {engine_step, load_demo, encode_text}, 2, false, true},
    {"sample", {engine_step, load_unet, plain_cond, empty_latent, sample_euler}, 1, false, false},
    {"sample SDXL", {engine_step, load_xl, plain_cond, empty_latent, sample_sde}, 4, false, false},
    {"sample from parts",
     {engine_step, load_unet, plain_cond, empty_latent, sample_parts},
     4,
     false,
     false},
    {"decode", {engine_step, load_vae, empty_latent, decode}, 1, false, false},
    {"decode in tiles", {engine_step, load_vae, large_latent, decode_tiled}, 3, false, false},
    {"decode in strips", {engine_step, load_vae, large_latent, decode_strips}, 3, false, true},
    {"encode a picture", {engine_step, load_vae, grey_image, encode_image}, 2, false, false},
    {"compile ahead",
     {engine_step, load_unet, plain_cond, empty_latent, compile_model, sample_changed},
     4,
     false,
     false},
    {"tune",
     {engine_step, load_unet, plain_cond, empty_latent, tune_model, sample_changed},
     4,
     true,
     false},
    {"swap",
     {engine_step, load_unet, plain_cond, empty_latent, swap_model, sample_changed},
     4,
     false,
     false},
    {"LoRA",
     {engine_step, load_unet, plain_cond, empty_latent, apply_lora, sample_changed},
     4,
     false,
     false},
    {"ControlNet",
     {engine_step, load_unet, plain_cond, empty_latent, grey_image, load_net, steer,
      sample_steered},
     5,
     false,
     true},
    {"ControlNet of differences", {engine_step, load_unet, load_diff}, 2, false, false},
    {"upscale", {engine_step, odd_image, load_upscaler, upscale}, 2, false, false},
    {"areas and masks",
     {engine_step, load_unet, plain_cond, empty_latent, place, prepare_placed, sample_steered},
     4,
     false,
     true},
    {"inpainting",
     {engine_step, load_inpainting, load_vae, plain_cond, grey_image, show_picture, sample_steered},
     5,
     false,
     true},
    {"smaller inside",
     {engine_step, load_unet, plain_cond, empty_latent, shrink, sample_patched},
     4,
     false,
     true},
    {"hypernetwork, self-attention guidance",
     {engine_step, load_unet, plain_cond, empty_latent, guide_by_itself, sample_patched},
     4,
     false,
     true},
    {"sample a flow",
     {engine_step, load_transformer, plain_cond, deep_latent, sample_flow},
     1,
     false,
     false},
    {"encode a prompt with T5", {engine_step, load_t5, encode_text}, 1, false, false},
    {"encode a prompt with Qwen 3", {engine_step, load_qwen3, encode_text}, 1, false, false},
    {"FreeU, tiles, perturbed attention",
     {engine_step, load_unet, plain_cond, empty_latent, patch, sample_patched},
     4,
     false,
     true},
    {"report",
     {engine_step, load_unet, plain_cond, empty_latent, sample_euler, report},
     5,
     true,
     false},
    {"picture from text",
     {engine_step, load_demo, encode_text, empty_latent, sample_euler, decode},
     2,
     false,
     true},
};

static graft_status run_steps(world *w, const scenario *s, int from, int to, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (int i = from; i < to && s->step[i] && !st; i++) st = s->step[i](w, e);
    return st;
}

static uint64_t digest(const world *w)
{
    graft_hash h = {0, 0};
    int64_t shape[4];
    if (w->cond) {
        const graft_cond_entry *k = w->cond->entry[0];
        h = graft_hash_mix(h, k->data, (size_t)(k->tokens * k->width) * sizeof(float));
    }
    if (w->sampled) {
        const float *x = graft_latent_data(w->sampled, shape);
        h = graft_hash_mix(h, x, (size_t)shape_count(shape, 4) * sizeof *x);
    }
    if (w->denoised) {
        const float *x = graft_latent_data(w->denoised, shape);
        h = graft_hash_mix(h, x, (size_t)shape_count(shape, 4) * sizeof *x);
    }
    if (w->image) {
        const float *x = graft_image_data(w->image, shape);
        h = graft_hash_mix(h, x, (size_t)shape_count(shape, 4) * sizeof *x);
    }
    return h.lo ^ h.hi;
}

/* ------------------------------------------------------------------ sites */

/* Marks the blocks to try. Of a site with many it is not always the first: what was made before is
 * to be given back as well. */
static void choose_blocks(bool *chosen, bool all)
{
    int64_t seen[SITES] = {0}, stride = sites.count / SPREAD + 1;
    memset(chosen, 0, BLOCKS * sizeof *chosen);
    for (int64_t n = 1; n <= sites.count; n++) {
        size_t site = sites.of[n];
        bool turn =
            site >= sites.earlier && seen[site]++ == (int64_t)(7 * (site + 1)) % sites.blocks[site];
        chosen[n] = all || turn || n % stride == 0;
    }
}

/* ------------------------------------------------------------------ faults */

static int64_t live_blocks(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.live_blocks;
}

static void empty_cache(const char *folder)
{
    char command[512];
    if (!folder) return;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0);
}

/* Drops what the failed steps left, but keeps the engine and what came before. */
static void again(world *w, const scenario *s)
{
    graft_err e = GRAFT_ERR_INIT;
    world kept = *w;
    w->engine = NULL;
    if (s->first == 0) {
        graft_engine_destroy(kept.engine);
        kept.engine = NULL;
    }
    finish(w);
    w->engine = kept.engine;
    CHECK_OK(run_steps(w, s, s->first ? 1 : 0, 8, &e), &e);
}

typedef struct tally {
    int64_t tried, failed, absorbed;
} tally;

/* One failure, at allocation n from the first disturbed step on. False when something went wrong.
 */
static bool fail_once(world *w, const scenario *s, int64_t n, uint64_t expected, tally *t)
{
    graft_err e = GRAFT_ERR_INIT;
    int64_t live = live_blocks(), before;
    int failures = test_failures;
    empty_cache(w->cache_dir);
    CHECK_OK(run_steps(w, s, 0, s->first, &e), &e);
    before = total_blocks();
    graft_alloc_fail_at(n);
    graft_status st = run_steps(w, s, s->first, 8, &e);
    graft_alloc_fail_at(0);
    bool reached = st || total_blocks() - before >= n;
    t->tried++;
    if (st) {
        t->failed++;
        CHECK_INT(st, GRAFT_E_NOMEM);
        CHECK(e.text[0] != '\0');
        again(w, s);
    } else if (reached) {
        t->absorbed++;
    }
    if (!s->timed) CHECK(digest(w) == expected);
    finish(w);
    CHECK_INT(live_blocks(), live);
    if (test_failures != failures)
        fprintf(stderr, "%s, %s: allocation %lld failed: %s (%s)\n", w->backend, s->name,
                (long long)n, graft_status_text(st), e.text);
    return test_failures == failures;
}

static void run_scenario(world *w, const scenario *s, bool all)
{
    static bool chosen[BLOCKS];
    graft_err e = GRAFT_ERR_INIT;
    tally t = {0};
    empty_cache(w->cache_dir);
    CHECK_OK(run_steps(w, s, 0, s->first, &e), &e);
    begin_recording();
    CHECK_OK(run_steps(w, s, s->first, 8, &e), &e);
    sites.recording = false;
    uint64_t expected = digest(w);
    finish(w);
    choose_blocks(chosen, all);
    for (int64_t n = 1; n <= sites.count; n++)
        if (chosen[n] && !fail_once(w, s, n, expected, &t)) break;
    printf("%s, %s: %lld allocations, %zu new sites, %lld tried, %lld refused, "
           "%lld done without\n",
           w->backend, s->name, (long long)sites.count, sites.n - sites.earlier, (long long)t.tried,
           (long long)t.failed, (long long)t.absorbed);
    CHECK(t.failed > 0);
}

static void run_all(const char *backend, const char *cache_dir)
{
    world w = {.backend = backend, .cache_dir = cache_dir};
    const char *which = getenv("GRAFT_TEST_FAULTS");
    bool all = which && strcmp(which, "all") == 0, ref = strcmp(backend, "ref") == 0;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        const scenario *s = &scenarios[i];
        bool named = which && strcmp(which, s->name) == 0;
        if (named || all || (!which && !(ref && s->large))) run_scenario(&w, s, named || all);
    }
}

static void with_ref(void)
{
    run_all("ref", NULL);
}

static void with_cpu_and_cache(void)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s", temp_path("cache"));
    run_all("cpu", folder);
    empty_cache(folder);
}

static void write_lora(const char *path)
{
    made_file *f = calloc(1, sizeof *f);
    const char *stem = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q";
    graft_safetensors *base = open_file(SD1);
    const graft_st_tensor *t = graft_safetensors_find(
        base, "model.diffusion_model.input_blocks.1.1.transformer_blocks.0.attn1.to_q.weight");
    if (!t)
        t = graft_safetensors_find(
            base, "diffusion_model.input_blocks.1.1.transformer_blocks.0.attn1.to_q.weight");
    if (!t)
        t = graft_safetensors_find(base, "input_blocks.1.1.transformer_blocks.0.attn1.to_q.weight");
    CHECK(t != NULL);
    if (t) {
        char name[256];
        snprintf(name, sizeof name, "%s.lora_down.weight", stem);
        add_tensor(f, name, 2, (int64_t[]){2, t->shape[1]}, NULL, 0.3f);
        snprintf(name, sizeof name, "%s.lora_up.weight", stem);
        add_tensor(f, name, 2, (int64_t[]){t->shape[0], 2}, NULL, 0.3f);
    }
    graft_safetensors_close(base);
    write_file(f, path, NULL);
}

int main(void)
{
    char path[256], net[256], diff[256], inpaint[256], t5[256], qwen3[256], hyper[256];
    graft_convert_info info;
    graft_err e = GRAFT_ERR_INIT;
    /* The JSON trees of configurations fail as well. */
    cJSON_Hooks hooks = {graft_malloc, graft_free};
    cJSON_InitHooks(&hooks);
    setenv("GRAFT_PRECISION", "f32", 1);
    snprintf(path, sizeof path, "%s", temp_path("lora.safetensors"));
    lora_path = path;
    write_lora(path);
    snprintf(net, sizeof net, "%s", temp_path("control.safetensors"));
    control_path = net;
    snprintf(diff, sizeof diff, "%s", temp_path("diff.safetensors"));
    diff_path = diff;
    write_control(net, diff);
    snprintf(inpaint, sizeof inpaint, "%s", temp_path("inpaint.safetensors"));
    inpaint_path = inpaint;
    write_inpainting(inpaint);
    snprintf(t5, sizeof t5, "%s", temp_path("t5.safetensors"));
    t5_path = t5;
    snprintf(qwen3, sizeof qwen3, "%s", temp_path("qwen3.safetensors"));
    qwen3_path = qwen3;
    write_encoders();
    snprintf(hyper, sizeof hyper, "%s", temp_path("hyper.safetensors"));
    net_path = hyper;
    unlink(hyper);
    CHECK_OK(graft_checkpoint_convert(HYPERNETWORK, hyper, &info, &e), &e);
    if (CALLS < 3) puts("skipped: most of the sites, which AddressSanitizer's build tries");
    RUN(with_ref);
    RUN(with_cpu_and_cache);
    unlink(path);
    unlink(net);
    unlink(diff);
    unlink(inpaint);
    unlink(t5);
    unlink(qwen3);
    unlink(hyper);
    return test_end();
}
