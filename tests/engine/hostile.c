/* Files that are not what they should be: each is refused with a message that names file and
 * tensor, or accepted for a stated reason; nothing leaks. The files are good ones with one thing
 * changed. */
#include "base/alloc.h"
#include "base/file.h"
#include "engine/files/kinds.h"
#include "tests/engine/sample.h"

#define VAE   GRAFT_SOURCE_DIR "/golden/small/vae.safetensors"
#define CLIP  GRAFT_SOURCE_DIR "/golden/small/clip_quick_gelu.safetensors"
#define SD35M GRAFT_SOURCE_DIR "/golden/small/mmdit_sd35m.safetensors"

static graft_engine *engine;
static char path[256];

static int64_t live_blocks(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.live_blocks;
}

/* The configuration of a good file, with its tensors as float32 (free with finish_file). */
static made_file *copy_model(const char *from, char *config, size_t n)
{
    graft_safetensors *f = open_file(from);
    const char *text = graft_safetensors_metadata(f, "config");
    snprintf(config, n, "%s", text ? text : "");
    made_file *m = copy_file(f, "");
    graft_safetensors_close(f);
    return m;
}

typedef enum part { UNET_PART, VAE_PART, CLIP_PART } part;

/* Loads all that `what` says; an object is let go of at once. */
static graft_status try_load(part what, const char *file, graft_err *e)
{
    graft_model *m = NULL;
    graft_vae *v = NULL;
    graft_clip *c = NULL;
    graft_status st = GRAFT_OK;
    switch (what) {
    case UNET_PART:
        st = graft_model_load(engine, file, NULL, &m, e);
        break;
    case VAE_PART:
        st = graft_vae_load(engine, file, NULL, &v, e);
        break;
    default:
        st = graft_clip_load(engine, &file, 1, "stable_diffusion", NULL, &c, e);
    }
    CHECK((st == GRAFT_OK) == (m || v || c));
    graft_model_release(m);
    graft_vae_release(v);
    graft_clip_release(c);
    return st;
}

static void write_changed(made_file *f, const char *config)
{
    write_file(f, path, config[0] ? config : NULL);
}

/* Refused, with the file's name and `word` in the message, and nothing lost. */
static void refused(part what, const char *word, const char *why)
{
    graft_err e = GRAFT_ERR_INIT;
    int64_t live = live_blocks();
    int failures = test_failures;
    graft_status st = try_load(what, path, &e);
    CHECK(st != GRAFT_OK && st != GRAFT_E_NOMEM && st != GRAFT_E_INTERNAL);
    CHECK(strstr(e.text, path) != NULL);
    CHECK(strstr(e.text, word) != NULL);
    CHECK_INT(live_blocks(), live);
    if (test_failures != failures)
        fprintf(stderr, "%s, %s: %d \"%s\"\n", why, word, (int)st, e.text);
}

static const struct {
    part what;
    const char *file;
    size_t stride; /* tensors tried */
} models[] = {{UNET_PART, SD1, 9},
              {UNET_PART, SDXL, 23},
              {UNET_PART, SD35M, 7},
              {VAE_PART, VAE, 11},
              {CLIP_PART, CLIP, 5}};
#define N_MODELS (sizeof models / sizeof *models)

/* Tensors of the golden files that are no weights: inputs and outputs of their cases. */
static bool is_weight(const char *name)
{
    size_t n = strlen(name);
    return (n > 7 && strcmp(name + n - 7, ".weight") == 0) ||
           (n > 5 && strcmp(name + n - 5, ".bias") == 0);
}

/* Tensors that may be missing or of another size: a VAE without its encoder decodes, and a text
 * encoder's projection has any width or none. */
static bool makes_a_part(const char *name)
{
    return strstr(name, "encoder.conv_in.weight") || strstr(name, "text_projection");
}

/* With a tensor gone the file is refused. */
static void missing_tensors(void)
{
    for (size_t k = 0; k < N_MODELS; k++) {
        char config[4096];
        made_file *probe = copy_model(models[k].file, config, sizeof config);
        size_t n = probe->n;
        finish_file(probe);
        for (size_t i = 0; i < n; i += models[k].stride) {
            made_file *f = copy_model(models[k].file, config, sizeof config);
            if (!is_weight(f->tensor[i].name) || makes_a_part(f->tensor[i].name)) {
                finish_file(f);
                continue;
            }
            char why[600];
            snprintf(why, sizeof why, "without %s", f->tensor[i].name);
            free((char *)f->tensor[i].name);
            free((void *)f->tensor[i].data);
            f->tensor[i] = f->tensor[--f->n];
            write_changed(f, config);
            refused(models[k].what, "", why);
        }
    }
}

/* The shape of tensor `i` changed while its number of elements stays, or a row less. */
static void wrong_shapes(void)
{
    for (size_t k = 0; k < N_MODELS; k++) {
        char config[4096];
        for (size_t i = 1;; i += 2 * models[k].stride) {
            made_file *f = copy_model(models[k].file, config, sizeof config);
            if (i >= f->n) {
                finish_file(f);
                break;
            }
            graft_st_tensor *t = &f->tensor[i];
            bool fits = is_weight(t->name) && t->rank == 2 && t->shape[0] != t->shape[1];
            if (!fits) {
                finish_file(f);
                continue;
            }
            int64_t rows = t->shape[0];
            t->shape[0] = t->shape[1];
            t->shape[1] = rows;
            char why[600];
            snprintf(why, sizeof why, "with %s transposed", t->name);
            write_changed(f, config);
            refused(models[k].what, "", why);
        }
    }
}

static void fewer_rows(void)
{
    char config[4096];
    for (size_t k = 0; k < N_MODELS; k++) {
        for (size_t i = 2;; i += 2 * models[k].stride) {
            made_file *f = copy_model(models[k].file, config, sizeof config);
            if (i >= f->n) {
                finish_file(f);
                break;
            }
            graft_st_tensor *t = &f->tensor[i];
            if (!is_weight(t->name) || t->shape[0] < 2 || makes_a_part(t->name)) {
                finish_file(f);
                continue;
            }
            t->bytes = t->bytes / (uint64_t)t->shape[0] * (uint64_t)(t->shape[0] - 1);
            t->shape[0]--;
            char why[600];
            snprintf(why, sizeof why, "with a row less of %s", t->name);
            write_changed(f, config);
            refused(models[k].what, "", why);
        }
    }
}

/* A model that lacks what its blocks are counted and told by: the message names it. */
static void gaps(void)
{
    static const struct {
        part what;
        const char *file, *gone;
    } cases[] = {{UNET_PART, SD35M, "joint_blocks.2.x_block.attn.qkv.weight"},
                 {UNET_PART, SD35M, "joint_blocks.2.x_block.mlp.fc1.weight"},
                 {UNET_PART, SD35M, "joint_blocks.1.x_block.attn.qkv.weight"},
                 {UNET_PART, SD35M, "joint_blocks.0.x_block.attn.ln_q.weight"},
                 {UNET_PART, SD35M, "joint_blocks.0.x_block.attn.ln_k.weight"},
                 {UNET_PART, SDXL, "label_emb.0.0.weight"},
                 {VAE_PART, VAE, "decoder.up.2.block.0.conv1.weight"},
                 {VAE_PART, VAE, "decoder.up.1.block.0.conv1.weight"},
                 {VAE_PART, VAE, "decoder.up.0.block.2.conv1.weight"},
                 {VAE_PART, VAE, "decoder.conv_out.weight"},
                 {CLIP_PART, CLIP, "text_model.encoder.layers.2.layer_norm1.weight"},
                 {CLIP_PART, CLIP, "text_model.encoder.layers.1.layer_norm1.weight"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[4096];
        made_file *f = copy_model(cases[i].file, config, sizeof config);
        graft_st_tensor *t = f->tensor;
        while (t < f->tensor + f->n && !strstr(t->name, cases[i].gone)) t++;
        CHECK(t < f->tensor + f->n);
        free((char *)t->name);
        free((void *)t->data);
        *t = f->tensor[--f->n];
        write_changed(f, config);
        refused(cases[i].what, cases[i].gone, "a gap");
    }
}

/* Tables of places, sizes of patches and heads that make no transformer. */
static void transformers_that_do_not_fit(void)
{
    static const struct {
        const char *tensor;
        int rank;
        int64_t dim[4];
    } odd[] = {{"pos_embed", 3, {1, 0, 32}},
               {"pos_embed", 3, {1, 2, 32}},
               {"pos_embed", 3, {2, 16, 32}},
               {"pos_embed", 1, {16}},
               {"x_embedder.proj.weight", 4, {32, 16, 2, 1}},
               {"x_embedder.proj.weight", 4, {32, 16, 3, 3}},
               {"x_embedder.proj.weight", 4, {32, 4, 2, 2}},
               {"x_embedder.proj.weight", 2, {32, 64}},
               {"t_embedder.mlp.0.weight", 2, {32, 7}},
               {"joint_blocks.0.x_block.attn.ln_q.weight", 1, {7}},
               {"joint_blocks.0.x_block.attn.ln_q.weight", 1, {0}}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char config[4096], name[128];
        made_file *f = copy_model(SD35M, config, sizeof config);
        snprintf(name, sizeof name, "model.diffusion_model.%s", odd[i].tensor);
        graft_st_tensor *t = made_find(f, name);
        const size_t n = (size_t)shape_count(odd[i].dim, odd[i].rank);
        free((void *)t->data);
        t->data = calloc(n + 1, sizeof(float));
        t->bytes = n * sizeof(float);
        t->rank = odd[i].rank;
        memcpy(t->shape, odd[i].dim, sizeof odd[i].dim);
        write_changed(f, config);
        refused(UNET_PART, "", odd[i].tensor);
    }
}

/* A UNet of other channels than latents have, in or out: one that sees a depth (5) or a small
 * picture (7), and worse. */
static void channels_that_do_not_match(void)
{
    static const int64_t count[][2] = {{0, 4}, {3, 4}, {5, 4}, {7, 4}, {10, 4}, {4, 3}, {4, 8}};
    for (size_t i = 0; i < sizeof count / sizeof *count; i++) {
        char config[4096], why[64];
        made_file *f = copy_model(SD1, config, sizeof config);
        for (int last = 0; last < 2; last++) {
            graft_st_tensor *t =
                made_find(f, last ? "model.diffusion_model.out.2.weight"
                                  : "model.diffusion_model.input_blocks.0.0.weight");
            t->shape[!last] = count[i][last];
            size_t n = (size_t)shape_count(t->shape, t->rank);
            free((void *)t->data);
            t->data = calloc(n + 1, sizeof(float));
            t->bytes = n * sizeof(float);
        }
        graft_st_tensor *bias = made_find(f, "model.diffusion_model.out.2.bias");
        bias->shape[0] = count[i][1];
        free((void *)bias->data);
        bias->data = calloc((size_t)count[i][1], sizeof(float));
        bias->bytes = (uint64_t)count[i][1] * sizeof(float);
        snprintf(why, sizeof why, "%d channels in, %d out", (int)count[i][0], (int)count[i][1]);
        write_changed(f, config);
        refused(UNET_PART, "channels", why);
    }
}

/* Stable Video Diffusion's UNet has the tensors of one that sees a picture, and more. */
static void unets_for_video(void)
{
    char config[4096];
    made_file *f = copy_model(SD1, config, sizeof config);
    add_tensor(f, "model.diffusion_model.input_blocks.1.0.time_stack.in_layers.2.weight", 5,
               (int64_t[]){32, 32, 3, 1, 1}, NULL, 1);
    write_changed(widened_file(f, 4, 0.5f), config);
    refused(UNET_PART, "video", "a UNet for video");
}

static void whole_numbers_for_weights(void)
{
    char config[4096];
    made_file *f = copy_model(SD1, config, sizeof config);
    graft_st_tensor *t = made_find(f, f->tensor[7].name);
    for (size_t i = 0; i < f->n; i++)
        if (is_weight(f->tensor[i].name)) t = &f->tensor[i];
    char name[512];
    snprintf(name, sizeof name, "%s", t->name);
    t->dtype = GRAFT_I32;
    write_changed(f, config);
    refused(UNET_PART, name, "int32");
}

/* Extra tensors are no fault. */
static void extra_tensors(void)
{
    char config[4096];
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = copy_model(SD1, config, sizeof config);
    add_tensor(f, "model.diffusion_model.extra", 1, (int64_t[]){4}, NULL, 1);
    add_tensor(f, "state.of.training", 2, (int64_t[]){0, 4}, NULL, 1);
    write_changed(f, config);
    CHECK_OK(try_load(UNET_PART, path, &e), &e);
}

/* Not refused, but told with file and tensor; the run ends well. */
static void not_a_number(void)
{
    char config[4096], name[512] = "";
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = copy_model(SD1, config, sizeof config);
    for (size_t i = 0; i < f->n; i++) {
        if (!is_weight(f->tensor[i].name)) continue;
        ((float *)f->tensor[i].data)[0] = NAN;
        snprintf(name, sizeof name, "%s", f->tensor[i].name);
        break;
    }
    write_changed(f, config);
    graft_model *m = load_model(engine, path);
    graft_cond *c = NULL;
    graft_latent *l = NULL, *out = NULL;
    graft_task task = {.log = {NULL, keep_line}};
    last_log[0] = '\0';
    CHECK_OK(sample_cond(m, &c, &e), &e);
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &l, &e), &e);
    CHECK_OK(sample_latent(m, c, l, "euler", 1, &task, &out, &e), &e);
    CHECK(strstr(last_log, name) != NULL);
    CHECK(strstr(last_log, path) != NULL);
    graft_cond_release(c);
    graft_latent_release(l);
    graft_latent_release(out);
    graft_model_release(m);
}

/* A noise schedule whose sigmas would be no numbers. */
static void absurd_schedules(void)
{
    static const char *const bad[] = {"\"beta_start\": -0.001", "\"beta_start\": 0",
                                      "\"beta_end\": 1", "\"beta_end\": 1e300",
                                      "\"beta_start\": 2, \"beta_end\": -3"};
    char config[4096], changed[4200];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made_file *f = copy_model(SD1, config, sizeof config);
        CHECK(config[0] == '{');
        snprintf(changed, sizeof changed, "{\"schedule\": {%s}, %s", bad[i], config + 1);
        write_changed(f, changed);
        refused(UNET_PART, "betas", bad[i]);
    }
    made_file *f = copy_model(SD1, config, sizeof config);
    snprintf(changed, sizeof changed, "{\"prediction\": \"sample\", %s", config + 1);
    write_changed(f, changed);
    refused(UNET_PART, "\"sample\"", "a prediction that is not known");
}

/* Colours for previews that are none. */
static void absurd_colours(void)
{
    static const char *const bad[] = {"5",
                                      "[]",
                                      "[[0,0,0],[0,0,0],[0,0,0],[0,0,0]]",
                                      "[[0,0],[0,0],[0,0],[0,0],[0,0]]",
                                      "[[0,0,0],[0,0,0],[0,\"1\",0],[0,0,0],[0,0,0]]",
                                      "[[0,0,0],[0,0,0],[0,0,0],[0,0,0],null]"};
    char config[4096], changed[4300];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made_file *f = copy_model(SD1, config, sizeof config);
        snprintf(changed, sizeof changed, "{\"latent_rgb\": %s, %s", bad[i], config + 1);
        write_changed(f, changed);
        refused(UNET_PART, "latent_rgb", bad[i]);
    }
}

static void cut_files(void)
{
    char *data = NULL;
    size_t size = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(SD1, 1 << 28, &data, &size, &e), &e);
    const size_t keep[] = {0, 1, 7, 8, 9, 1000, size / 3, size - 1};
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        CHECK_OK(graft_file_write(path, data, keep[i], &e), &e);
        refused(UNET_PART, "", "cut");
    }
    graft_free(data);
}

/* Files of another kind, each asked for what it does not hold. */
static void other_kinds(void)
{
    static const struct {
        part what;
        const char *file, *word;
    } wrong[] = {{UNET_PART, VAE, "unknown architecture"},
                 {UNET_PART, CLIP, "unknown architecture"},
                 {VAE_PART, SD1, "no VAE"},
                 {VAE_PART, CLIP, "no VAE"},
                 {CLIP_PART, SD1, "text encoder"},
                 {CLIP_PART, VAE, "text encoder"},
                 {UNET_PART, GRAFT_SOURCE_DIR "/CMakeLists.txt", "CMakeLists.txt"},
                 {UNET_PART, "/nonexistent.safetensors", "/nonexistent.safetensors"},
                 {UNET_PART, "/dev/null", "/dev/null"},
                 {UNET_PART, "/tmp", "/tmp"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(path, sizeof path, "%s", wrong[i].file);
        refused(wrong[i].what, wrong[i].word, "another kind");
    }
    snprintf(path, sizeof path, "%s", temp_path("hostile.safetensors"));
}

/* What is no UNet is told by its names, where they are known. */
static void guesses(void)
{
    static const char *const guess[][2] = {
        {"lora_unet_down_blocks_0.lora_down.weight", "LoraLoader"},
        {"unet.down_blocks.0.attn.to_q.lora_A.weight", "LoraLoader"},
        {"control_model.zero_convs.0.0.weight", "ControlNetLoader"},
        {"controlnet_cond_embedding.conv_in.weight", "ControlNetLoader"},
        {"model.diffusion_model.joint_blocks.0.x_block.attn.qkv.weight", "x_embedder.proj.weight"},
        {"double_blocks.0.img_attn.qkv.weight", "img_in.weight"},
        {"single_transformer_blocks.0.attn.to_q.weight", "FLUX or a relative), but not"},
        {"transformer_blocks.0.attn.to_q.weight", "a diffusion transformer, which"},
        {"model.3.sub.0.RDB1.conv1.0.weight", "UpscaleModelLoader"},
        {"decoder.layers.0.weight", "tiny autoencoder"},
        {"first_stage_model.decoder.up.0.block.0.conv1.weight", "VAELoader"},
        {"decoder.up_blocks.0.resnets.0.conv1.weight", "VAELoader"},
        {"down_blocks.0.motion_modules.0.weight", "a UNet, but not of Stable Diffusion's kind"},
        {"text_model.encoder.layers.0.layer_norm1.weight", "CLIPLoader"},
        {"transformer.resblocks.0.ln_1.weight", "CLIPLoader"},
        {"encoder.block.0.layer.0.SelfAttention.q.weight", "T5"},
        {"something.else", "in it (tensor"}};
    for (size_t i = 0; i < sizeof guess / sizeof *guess; i++) {
        made_file *f = calloc(1, sizeof *f);
        add_tensor(f, "alpha", 1, (int64_t[]){4}, NULL, 1);
        add_tensor(f, guess[i][0], 1, (int64_t[]){4}, NULL, 1);
        write_file(f, path, NULL);
        refused(UNET_PART, guess[i][1], guess[i][0]);
    }
}

/* Parts of a checkpoint tell less than that they are together. */
static void checkpoints_are_called_so(void)
{
    static const char unet[] = "model.diffusion_model.input_blocks.0.0.weight";
    static const char vae[] = "first_stage_model.decoder.up.0.block.0.conv1.weight";
    static const char clip[] = "cond_stage_model.transformer.text_model.encoder.layers.0.a.weight";
    static const char upscaler[] = "body.0.rdb1.conv1.weight", compact[] = "body.0.weight";
    static const struct {
        const char *name[2], *loader, *words;
    } c[] = {
        {{unet, vae}, "ControlNetLoader", "a checkpoint, which CheckpointLoaderSimple opens"},
        {{unet, clip}, "UpscaleModelLoader", "a checkpoint, which CheckpointLoaderSimple opens"},
        {{unet, vae}, "LoraLoader", "a checkpoint, which CheckpointLoaderSimple opens"},
        {{unet, vae}, "CLIPLoader", "a checkpoint without one"},
        {{unet, clip}, "VAELoader", "a checkpoint without one"},
        {{unet, vae}, "UNETLoader", "a checkpoint, but not of Stable Diffusion's kind"},
        {{vae, clip}, "ControlNetLoader", "a VAE, which VAELoader opens"},
        {{unet, unet}, "ControlNetLoader", "a UNet, which UNETLoader opens"},
        {{upscaler, "a"}, "UNETLoader", "an upscale model, which UpscaleModelLoader opens"},
        {{compact, "a"}, "UNETLoader", "an upscale model, which UpscaleModelLoader opens"},
        {{"redux_up.weight", "a"}, "UNETLoader", "a style model, which StyleModelLoader opens"},
        {{"visual.conv1.weight", "a"}, "CLIPLoader", "a vision encoder, which CLIPVisionLoader"},
        {{"a.lokr_w1", "a"}, "UNETLoader", "a LoRA, which LoraLoader applies"},
        {{"a.lora_down.b", "a"}, "LoraLoader", "a LoRA for another kind of model"}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        made_file *f = calloc(1, sizeof *f);
        char text[128];
        add_tensor(f, c[i].name[0], 1, (int64_t[]){4}, NULL, 1);
        if (c[i].name[1] != c[i].name[0]) add_tensor(f, c[i].name[1], 1, (int64_t[]){4}, NULL, 1);
        write_file(f, path, NULL);
        graft_safetensors *s = open_file(path);
        graft_kind_guess(s, c[i].loader, text, sizeof text);
        if (!strstr(text, c[i].words)) CHECK_STR(text, c[i].words);
        graft_safetensors_close(s);
    }
}

/* A swap to another architecture names the first tensor that differs. */
static void swap_to_another_architecture(void)
{
    graft_model *m = load_model(engine, SD1), *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t live = live_blocks();
    CHECK_INT(graft_model_swap(m, SD2, false, NULL, &n, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, SD2) != NULL && strstr(e.text, ".weight") != NULL);
    CHECK(graft_model_swap(m, VAE, false, NULL, &n, &e) != GRAFT_OK);
    CHECK_INT(live_blocks(), live);
    CHECK(n == NULL);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ arguments */

static void odd_sizes(void)
{
    static const int64_t bad[][3] = {{0, 64, 1},
                                     {64, 0, 1},
                                     {64, 64, 0},
                                     {-8, 64, 1},
                                     {64, 64, -1},
                                     {INT64_MAX, 64, 1},
                                     {INT64_MAX, INT64_MAX, INT64_MAX},
                                     {1 << 30, 1 << 30, 64}};
    int64_t live = live_blocks();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graft_latent *l = NULL;
        graft_image *p = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK(graft_latent_empty(4, bad[i][0], bad[i][1], bad[i][2], &l, &e) != GRAFT_OK);
        CHECK(l == NULL && e.text[0]);
        CHECK(graft_image_empty(bad[i][0], bad[i][1], bad[i][2], 0, &p, &e) != GRAFT_OK);
        CHECK(p == NULL);
    }
    CHECK_INT(live_blocks(), live);
}

/* A latent that a model cannot take: too small to be halved, or far too large to hold. */
static void latents_that_do_not_fit(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_cond *c = NULL;
    graft_latent *l = NULL, *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(sample_cond(m, &c, &e), &e);
    float one[5 * 4] = {1, 2, 3, 4};
    CHECK_OK(graft_latent_from_data(one, (int64_t[]){1, 5, 2, 2}, &l, &e), &e);
    CHECK_INT(sample_latent(m, c, l, "euler", 1, NULL, &out, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "channels") != NULL);
    graft_latent_release(l);
    /* One pixel: it works, or it is refused with a reason. */
    CHECK_OK(graft_latent_from_data(one, (int64_t[]){1, 4, 1, 1}, &l, &e), &e);
    graft_status st = sample_latent(m, c, l, "euler", 1, NULL, &out, &e);
    CHECK(st == GRAFT_OK || e.text[0]);
    graft_latent_release(l);
    graft_latent_release(out);
    graft_cond_release(c);
    graft_model_release(m);
}

/* A share of the schedule so small that the whole one has no number. */
static void denoise_of_nearly_nothing(void)
{
    static const double shares[] = {1e-3, 1e-9, 1e-300, 5e-324};
    graft_model *m = load_model(engine, SD1);
    graft_cond *c = NULL;
    graft_latent *l = NULL, *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(sample_cond(m, &c, &e), &e);
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &l, &e), &e);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        graft_sample_params p = {.steps = 1000,
                                 .cfg = 1.0,
                                 .sampler = "dpm_2",
                                 .scheduler = "normal",
                                 .denoise = shares[i],
                                 .end_at_step = 1000};
        e.text[0] = 0;
        CHECK_INT(graft_sample(m, &p, c, c, l, NULL, &out, &e), GRAFT_E_ARG);
        CHECK(strstr(e.text, "steps") != NULL && out == NULL);
    }
    graft_cond_release(c);
    graft_latent_release(l);
    graft_model_release(m);
}

static void conditioning_of_another_encoder(void)
{
    graft_model *m = load_model(engine, SD1);
    int64_t width = m->arch.context_dim + 8;
    graft_cond *c = NULL;
    graft_latent *l = NULL, *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float *data = graft_calloc((size_t)(TOKENS * width), sizeof *data);
    CHECK_OK(graft_cond_create(TOKENS, width, data, 0, NULL, NULL, &c, &e), &e);
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &l, &e), &e);
    CHECK_INT(sample_latent(m, c, l, "euler", 1, NULL, &out, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "positive conditioning") != NULL);
    CHECK(out == NULL);
    graft_cond_release(c);
    graft_latent_release(l);
    graft_model_release(m);
}

static void unreadable_pictures(void)
{
    graft_image *i = NULL, *mask = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_write(path, "\x89PNG\r\n\x1a\n and no more", 21, &e), &e);
    CHECK(graft_image_load(path, &i, &mask, &e) != GRAFT_OK);
    CHECK(strstr(e.text, path) != NULL);
    CHECK(graft_image_load("/nonexistent.png", &i, &mask, &e) != GRAFT_OK);
    CHECK(strstr(e.text, "/nonexistent.png") != NULL);
    CHECK(i == NULL && mask == NULL);
}

/* Numbers at the ends of their types are refused, or stand for the nearest that makes sense. */
static void numbers_at_the_ends(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, SD1), *compiled = NULL;
    const graft_compile_options large[] = {
        {.width = 64, .height = 64, .batch_size = INT64_MAX},
        {.width = INT64_MAX, .height = INT64_MAX, .batch_size = 1},
        {.width = 64, .height = INT64_MAX, .batch_size = INT64_MAX / 2 + 1}};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        CHECK_INT(graft_model_compile(m, &large[i], NULL, &compiled, &e), GRAFT_E_ARG);
        CHECK(compiled == NULL && e.text[0]);
    }
    graft_model_release(m);
    const char *file = CLIP;
    graft_clip *c = NULL, *last = NULL;
    CHECK_OK(graft_clip_load(engine, &file, 1, "stable_diffusion", NULL, &c, &e), &e);
    CHECK_OK(graft_clip_set_last_layer(c, INT64_MIN, &last, &e), &e);
    CHECK(last && last->encoder[0].layer == 1);
    graft_clip_release(last);
    graft_clip_release(c);
}

/* ------------------------------------------------------------------ devices */

static int devices, mute; /* open devices; calls of info() that still fail */

static graft_status fake_create(const graft_kernels_host *host, int32_t index, graft_device **out,
                                char *text, uint64_t n)
{
    (void)host, (void)index, (void)text, (void)n;
    devices++;
    *out = (graft_device *)&devices;
    return GRAFT_OK;
}

static void fake_destroy(graft_device *d)
{
    (void)d;
    devices--;
}

static graft_status fake_info(graft_device *d, graft_device_info *out)
{
    (void)d;
    snprintf(out->identity, sizeof out->identity, "fake");
    return mute-- > 0 ? GRAFT_E_DEVICE : GRAFT_OK;
}

/* A device that does not say what it is has no keys in caches: it is not used, and asked again. */
static void device_without_information(void)
{
    static const graft_kernels_api api = {
        .create = fake_create, .destroy = fake_destroy, .info = fake_info};
    static const graft_kernels lib = {.name = "fake", .version = "1", .api = &api};
    static graft_backends all;
    graft_backend *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    all.list[0] = (graft_backend){.lib = &lib, .api = &api, .name = "fake"};
    all.count = 1;
    mute = 2;
    for (int i = 0; i < 2; i++) {
        CHECK_INT(graft_backends_get(&all, "fake", &b, &e), GRAFT_E_DEVICE);
        CHECK(b == NULL && devices == 0);
    }
    CHECK_OK(graft_backends_get(&all, "fake", &b, &e), &e);
    CHECK(b && devices == 1 && strcmp(b->info.identity, "fake") == 0);
    graft_backends_finish(&all);
    CHECK_INT(devices, 0);
}

int main(void)
{
    snprintf(path, sizeof path, "%s", temp_path("hostile.safetensors"));
    engine = make_engine("ref");
    RUN(missing_tensors);
    RUN(wrong_shapes);
    RUN(fewer_rows);
    RUN(gaps);
    RUN(transformers_that_do_not_fit);
    RUN(channels_that_do_not_match);
    RUN(unets_for_video);
    RUN(whole_numbers_for_weights);
    RUN(extra_tensors);
    RUN(not_a_number);
    RUN(absurd_schedules);
    RUN(absurd_colours);
    RUN(cut_files);
    RUN(other_kinds);
    RUN(guesses);
    RUN(checkpoints_are_called_so);
    RUN(swap_to_another_architecture);
    RUN(odd_sizes);
    RUN(latents_that_do_not_fit);
    RUN(denoise_of_nearly_nothing);
    RUN(conditioning_of_another_encoder);
    RUN(unreadable_pictures);
    RUN(numbers_at_the_ends);
    RUN(device_without_information);
    unlink(path);
    graft_engine_destroy(engine);
    return test_end();
}
