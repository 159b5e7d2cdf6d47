/* FLUX.2: which files it is found in and under which names, what its network is told and shown, and
 * what does not go with it. What the network computes is held against golden/small/flux2_*. */
#include <math.h>

#include "engine/models/flux2.h"
#include "tests/engine/network_changes.h"

static graft_engine *engine;

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define KLEIN    GRAFT_SOURCE_DIR "/golden/small/flux2_klein.safetensors"
#define DEV      GRAFT_SOURCE_DIR "/golden/small/flux2_dev.safetensors"

enum {
    AREA = SIDE * SIDE,
    MOST = 128 * AREA,
    WORDS_MAX = 40,
    WIDTH_MAX = 40,
    SHOWN_MAX = 128 * 40
};

/* The network's answer to x, behind which are the references. */
static void evaluate(const graft_model *m, uint64_t seed, int words, const float *x, float t,
                     float guidance, const graft_references *r, float *out)
{
    float context[WORDS_MAX * WIDTH_MAX];
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const int64_t n = words * m->arch.context_dim;
    CHECK(n <= (int64_t)COUNT(context));
    for (int64_t i = 0; i < n; i++) context[i] = fixed_value(seed + (uint64_t)i);
    memset(out, 0, answer_values(m) * sizeof *out);
    graft_unet_use use = {
        .pictures = 1, .entries = 1, .height = SIDE, .width = SIDE, .tokens = words};
    if (r) use.references = *r;
    graft_status st = graft_model_bind_guided(m, &use, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, &guidance},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
}

static void run_some(const graft_model *m, float *out)
{
    float x[MOST];
    for (size_t i = 0; i < MOST; i++) x[i] = fixed_value(i);
    evaluate(m, 20000, 5, x, 400, 1.5f, NULL, out);
}

/* ------------------------------------------------------------------ names */

/* What diffusers calls the layers, written down here once more. */
static const char *const renamed[][2] = {
    {"img_in.", "x_embedder."},
    {"txt_in.", "context_embedder."},
    {"time_in.in_layer.", "time_guidance_embed.timestep_embedder.linear_1."},
    {"time_in.out_layer.", "time_guidance_embed.timestep_embedder.linear_2."},
    {"guidance_in.in_layer.", "time_guidance_embed.guidance_embedder.linear_1."},
    {"guidance_in.out_layer.", "time_guidance_embed.guidance_embedder.linear_2."},
    {"_img.lin.", "_img.linear."},
    {"_txt.lin.", "_txt.linear."},
    {"single_stream_modulation.lin.", "single_stream_modulation.linear."},
    {"final_layer.adaLN_modulation.1.", "norm_out.linear."},
    {"final_layer.linear.", "proj_out."},
    {"double_blocks.", "transformer_blocks."},
    {"single_blocks.", "single_transformer_blocks."},
    {"img_attn.norm.query_norm.scale", "attn.norm_q.weight"},
    {"img_attn.norm.key_norm.scale", "attn.norm_k.weight"},
    {"txt_attn.norm.query_norm.scale", "attn.norm_added_q.weight"},
    {"txt_attn.norm.key_norm.scale", "attn.norm_added_k.weight"},
    {"img_attn.proj.", "attn.to_out.0."},
    {"txt_attn.proj.", "attn.to_add_out."},
    {"img_mlp.0.", "ff.linear_in."},
    {"img_mlp.2.", "ff.linear_out."},
    {"txt_mlp.0.", "ff_context.linear_in."},
    {"txt_mlp.2.", "ff_context.linear_out."},
    {".linear1.", ".attn.to_qkv_mlp_proj."},
    {".linear2.", ".attn.to_out."},
    {".norm.query_norm.scale", ".attn.norm_q.weight"},
    {".norm.key_norm.scale", ".attn.norm_k.weight"}};

static const char *theirs(const char *ours)
{
    static char text[8][256];
    static int turn;
    char *p = text[turn++ & 7], before[256];
    snprintf(p, sizeof text[0], "%s", ours);
    for (size_t i = 0; i < COUNT(renamed); i++) {
        snprintf(before, sizeof before, "%s", p);
        const char *at = strstr(before, renamed[i][0]);
        if (at)
            snprintf(p, sizeof text[0], "%.*s%.60s%s", (int)(at - before), before, renamed[i][1],
                     at + strlen(renamed[i][0]));
    }
    return p;
}

/* "double_blocks.0.img_attn.qkv.weight" as three. */
static const char *piece_name(const char *ours, int piece)
{
    static char text[8][256];
    static int turn;
    static const char *const pieces[2][3] = {{"to_q", "to_k", "to_v"},
                                             {"add_q_proj", "add_k_proj", "add_v_proj"}};
    char *p = text[turn++ & 7];
    int block = 0;
    CHECK(sscanf(ours, "double_blocks.%d.", &block) == 1);
    snprintf(p, sizeof text[0], "transformer_blocks.%d.attn.%s.weight", block,
             pieces[strstr(ours, "txt_") != NULL][piece]);
    return p;
}

/* The one layer whose halves change places. */
static bool exchanged(const char *ours)
{
    return strstr(ours, "adaLN_modulation") != NULL;
}

/* The network in diffusers' names. */
static made_file *diffusers_flux2(const char *path)
{
    made_file *own = part_of_file(path, UNET), *d = calloc(1, sizeof *d);
    for (size_t n = 0; n < own->n; n++) {
        const graft_st_tensor *t = &own->tensor[n];
        const float *from = t->data;
        const size_t all = (size_t)shape_count(t->shape, t->rank), half = all / 2;
        int64_t shape[GRAFT_MAX_RANK];
        memcpy(shape, t->shape, sizeof shape);
        if (exchanged(t->name)) {
            float *turned = malloc(all * sizeof *turned);
            memcpy(turned, from + half, half * sizeof *turned);
            memcpy(turned + half, from, half * sizeof *turned);
            add_tensor(d, theirs(t->name), t->rank, shape, turned, 0);
            free(turned);
            continue;
        }
        if (!strstr(t->name, ".qkv.")) {
            add_tensor(d, theirs(t->name), t->rank, shape, from, 0);
            continue;
        }
        shape[0] /= 3;
        for (int i = 0; i < 3; i++, from += shape[0] * shape[1])
            add_tensor(d, piece_name(t->name, i), t->rank, shape, from, 0);
    }
    finish_file(own);
    return d;
}

static const char *written(const char *checkpoint, const char *name)
{
    const char *path = temp_path(name);
    write_file(diffusers_flux2(checkpoint), path, NULL);
    return path;
}

/* ------------------------------------------------------------------ loading */

static void kinds(void)
{
    graft_model *klein = load_model(engine, KLEIN), *dev = load_model(engine, DEV);
    const graft_flux2_arch *a = &klein->arch.flux2, *b = &dev->arch.flux2;
    CHECK(a->channels == 128 && a->hidden == 48 && a->heads == 3 && a->mlp == 80);
    CHECK(a->depth == 2 && a->single_depth == 3 && a->time_dim == 256 && a->context_dim == 24);
    CHECK(b->channels == 32 && b->hidden == 64 && b->heads == 2 && b->mlp == 96);
    CHECK(b->depth == 1 && b->single_depth == 2 && b->context_dim == 40);
    CHECK(!a->guidance && klein->arch.adm_channels == 0);
    CHECK(b->guidance && dev->arch.adm_channels == 1);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? dev : klein;
        CHECK(m->arch.kind == GRAFT_NET_FLUX2 && m->arch.in_channels == m->arch.latent_channels);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->flow_steps == 10000);
        CHECK_NEAR(m->flow_shift, 7.538, 1e-3);
        CHECK(m->scale_factor == 1 && m->latent_shift == 0);
        CHECK(memcmp(&m->preview, &graft_preview_flux2, sizeof m->preview) == 0);
    }
    RELEASE_ALL(klein, dev);
}

static void same_in_diffusers_names(void)
{
    same_in_file(engine, KLEIN, written(KLEIN, "transformer.safetensors"), run_some);
    same_in_file(engine, DEV, written(DEV, "transformer.safetensors"), run_some);
}

static void saved(void)
{
    const char *path = written(DEV, "theirs.safetensors");
    saved_like(engine, path, DEV);
    unlink(path);
}

static void no_memory_for_names(void)
{
    const char *path = written(KLEIN, "oom.safetensors");
    adopt_short_of_memory(path, graft_diffusers_adopt_net);
    unlink(path);
}

/* As ComfyUI-GGUF names it, which is as FLUX.1. */
static void gguf(void)
{
    same_in_gguf(engine, DEV, "flux", NULL, run_some);
}

/* ------------------------------------------------------------------ damage */

static void refused(made_file *f, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, NULL, status, words, &e);
}

static void without_tensors(void)
{
    static const char *const ours[] = {"double_blocks.1.img_attn.qkv.weight",
                                       "double_blocks.0.img_attn.norm.query_norm.scale",
                                       "double_blocks.1.txt_attn.norm.key_norm.scale",
                                       "double_blocks.0.txt_attn.proj.weight",
                                       "double_blocks.0.img_mlp.0.weight",
                                       "double_blocks.1.img_mlp.2.weight",
                                       "double_blocks.1.txt_mlp.0.weight",
                                       "single_blocks.2.linear1.weight",
                                       "single_blocks.1.linear2.weight",
                                       "single_blocks.0.norm.key_norm.scale",
                                       "double_stream_modulation_txt.lin.weight",
                                       "single_stream_modulation.lin.weight",
                                       "time_in.in_layer.weight",
                                       "time_in.out_layer.weight",
                                       "txt_in.weight",
                                       "img_in.weight",
                                       "final_layer.adaLN_modulation.1.weight",
                                       "final_layer.linear.weight"};
    for (size_t i = 0; i < COUNT(ours); i++) {
        made_file *f = part_of_file(KLEIN, UNET);
        drop_tensor(f, ours[i]);
        refused(f, GRAFT_E_FORMAT, ours[i]);
        if (strstr(ours[i], ".qkv.")) continue;
        f = diffusers_flux2(KLEIN);
        drop_tensor(f, theirs(ours[i]));
        refused(f, GRAFT_E_FORMAT, theirs(ours[i]));
    }
    made_file *f = diffusers_flux2(KLEIN);
    drop_tensor(f, "transformer_blocks.1.attn.add_v_proj.weight");
    refused(f, GRAFT_E_FORMAT, "transformer_blocks.1.attn.add_v_proj.weight");
    f = part_of_file(DEV, UNET);
    drop_tensor(f, "guidance_in.out_layer.weight");
    refused(f, GRAFT_E_FORMAT, "guidance_in.out_layer.weight");
}

static void other_shape(const char *name, int rank, int64_t a, int64_t b, graft_status status,
                        const char *words)
{
    made_file *f = part_of_file(KLEIN, UNET);
    drop_tensor(f, name);
    add_tensor(f, name, rank, (int64_t[]){a, b}, NULL, 0.1f);
    refused(f, status, words);
}

static void of_another_kind(void)
{
    static const char norm[] = "double_blocks.0.img_attn.norm.query_norm.scale";
    other_shape(norm, 1, 15, 0, GRAFT_E_UNSUPPORTED, "heads of 15");
    other_shape(norm, 1, 12, 0, GRAFT_E_UNSUPPORTED, "heads of 12");
    other_shape(norm, 1, 0, 0, GRAFT_E_FORMAT, norm);
    other_shape("img_in.weight", 2, 48, 132, GRAFT_E_UNSUPPORTED, "takes 132 numbers a token");
    other_shape("img_in.weight", 1, 48, 0, GRAFT_E_FORMAT, "img_in.weight");
    other_shape("double_blocks.0.img_mlp.0.weight", 2, 159, 48, GRAFT_E_UNSUPPORTED,
                "159 in its MLPs");
    other_shape("double_blocks.1.txt_mlp.0.weight", 2, 80, 48, GRAFT_E_FORMAT, "1.txt_mlp.0");
    other_shape("single_blocks.0.linear1.weight", 2, 3 * 48 + 80, 48, GRAFT_E_FORMAT,
                "single_blocks.0.linear1");
    other_shape("single_stream_modulation.lin.weight", 2, 6 * 48, 48, GRAFT_E_FORMAT,
                "single_stream_modulation.lin");
    other_shape("txt_in.weight", 2, 47, 24, GRAFT_E_FORMAT, "txt_in.weight");
    made_file *f = diffusers_flux2(KLEIN);
    add_tensor(f, "transformer_blocks.0.attn.norm_q.bias", 1, (int64_t[]){16}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "FLUX.2's transformer has no tensor transformer_blocks.0");
    f = diffusers_flux2(KLEIN);
    add_tensor(f, "single_transformer_blocks.70000.norm", 1, (int64_t[]){16}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "FLUX.2's transformer has no tensor single_transformer");
}

static void unbuilt(const graft_model *m, graft_unet_shape shape, graft_status status)
{
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), status);
    CHECK(!g);
}

static void what_does_not_go_with_it(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, KLEIN), *out = NULL;
    const graft_deepcache_options cache = {.schedule = "uniform", .cache_interval = 3};
    CHECK_INT(graft_model_deepcache(m, &cache, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_perturbed_attention(m, 3, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_skip_layers(m, "1", 3, 0, 1, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_sampling(m, "v_prediction", false, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out);
    const graft_unet_shape fits = {
        .batch = 1, .height = 3, .width = 5, .tokens = 7, .act_dtype = GRAFT_F32};
    graft_unet_shape s = fits;
    s.height = 1 << 20;
    unbuilt(m, s, GRAFT_E_LIMIT);
    s = fits;
    s.tokens = 1 << 20;
    unbuilt(m, s, GRAFT_E_LIMIT);
    s.tokens = 0;
    unbuilt(m, s, GRAFT_E_ARG);
    s = fits;
    s.act_dtype = GRAFT_F16;
    unbuilt(m, s, GRAFT_E_UNSUPPORTED);
    s = fits;
    s.control = 1;
    unbuilt(m, s, GRAFT_E_UNSUPPORTED);
    s = fits;
    s.references = (graft_references){.n = 1, .of = {{2, 2}}, .placing = GRAFT_PLACE_DIAGONAL};
    unbuilt(m, s, GRAFT_E_UNSUPPORTED);
    s.references = (graft_references){.n = 1, .of = {{2, 0}}};
    unbuilt(m, s, GRAFT_E_ARG);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ LoRAs */

static float *matrix(made_file *f, const char *layer, const char *part, int64_t rows,
                     int64_t columns)
{
    char name[300];
    snprintf(name, sizeof name, "%s.%s.weight", layer, part);
    return add_tensor(f, name, 2, (int64_t[]){rows, columns}, NULL, 0.5f);
}

/* A LoRA by `name` of the rows from `first` on of one of our layers, and the network with it. */
static void write_lora(const char *ours, const char *name, int64_t first, int64_t rows,
                       const char *lora, const char *whole)
{
    made_file *f = calloc(1, sizeof *f), *m = part_of_file(DEV, UNET);
    graft_st_tensor *t = made_find(m, ours);
    const int64_t columns = t->shape[1], turn = exchanged(ours) ? rows / 2 : 0;
    char layer[256];
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(name) - strlen(".weight")), name);
    const float *up = matrix(f, layer, "lora_B", rows, 2);
    const float *down = matrix(f, layer, "lora_A", 2, columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            ((float *)(uintptr_t)t->data)[(first + (r + turn) % rows) * columns + c] +=
                up[2 * r] * down[c] + up[2 * r + 1] * down[columns + c];
    write_file(f, lora, NULL);
    write_file(m, whole, NULL);
}

static void check_lora(const graft_model *m, const float *plain, const char *ours, int piece)
{
    const char *lora = temp_path("lora.safetensors"), *whole = temp_path("merged.safetensors");
    made_file *f = part_of_file(DEV, UNET);
    const int64_t rows = made_find(f, ours)->shape[0] / (piece < 0 ? 1 : 3);
    float got[MOST], want[MOST];
    char name[300];
    finish_file(f);
    snprintf(name, sizeof name, "transformer.%s",
             piece < 0 ? theirs(ours) : piece_name(ours, piece));
    write_lora(ours, name, piece < 0 ? 0 : piece * rows, rows, lora, whole);
    last_log[0] = 0;
    graft_model *w = load_model(engine, whole), *x = with_lora(m, lora, 1);
    CHECK_STR(last_log, "");
    run_some(w, want);
    run_some(x, got);
    CHECK(difference(got, want, answer_values(m)) < 1e-4);
    if (difference(plain, want, answer_values(m)) < 1e-4) printf("  %s changes nothing\n", name);
    CHECK(difference(plain, want, answer_values(m)) > 1e-4);
    RELEASE_ALL(w, x);
    unlink(lora);
    unlink(whole);
}

/* Each layer alone: that none is taken for another, and that every one changes something. */
static void loras_in_diffusers_names(void)
{
    float plain[MOST];
    graft_model *m = load_model(engine, DEV);
    made_file *f = part_of_file(DEV, UNET);
    run_some(m, plain);
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        if (t->rank != 2) continue;
        bool joined = strstr(t->name, ".qkv.") != NULL;
        for (int piece = joined ? 0 : -1; piece < (joined ? 3 : 0); piece++)
            check_lora(m, plain, t->name, piece);
    }
    finish_file(f);
    graft_model_release(m);
}

/* The same LoRA in other programs' names. */
static void loras_in_other_names(void)
{
    static const char *const names[][2] = {
        {"lora_unet_single_blocks_1_linear1.lora_up.weight",
         "lora_unet_single_blocks_1_linear1.lora_down.weight"},
        {"diffusion_model.single_blocks.1.linear1.lora_B.weight",
         "diffusion_model.single_blocks.1.linear1.lora_A.weight"},
        {"transformer.single_blocks.1.linear1.lora_B.weight",
         "transformer.single_blocks.1.linear1.lora_A.weight"},
        {"single_blocks.1.linear1.lora_B.weight", "single_blocks.1.linear1.lora_A.weight"},
        {"lycoris_single_blocks_1_linear1.lora_up.weight",
         "lycoris_single_blocks_1_linear1.lora_down.weight"},
        {"diffusion_model.double_blocks.0.img_attn.qkv.lora_B.weight",
         "diffusion_model.double_blocks.0.img_attn.qkv.lora_A.weight"},
        {"lora_unet_double_blocks_0_img_attn_qkv.lora_up.weight",
         "lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight"},
        {"diffusion_model.transformer_blocks.0.attn.to_k.lora_B.weight",
         "diffusion_model.transformer_blocks.0.attn.to_k.lora_A.weight"},
        {"lora_unet_transformer_blocks_0_attn_to_k.lora_up.weight",
         "lora_unet_transformer_blocks_0_attn_to_k.lora_down.weight"}};
    static const int64_t rows[] = {384, 384, 384, 384, 384, 192, 192, 64, 64};
    const char *path = temp_path("lora.safetensors");
    float plain[MOST], first[MOST], got[MOST];
    graft_model *m = load_model(engine, DEV);
    run_some(m, plain);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_file *f = calloc(1, sizeof *f);
        random_state = 11;
        add_tensor(f, names[i][0], 2, (int64_t[]){rows[i], 2}, NULL, 0.4f);
        add_tensor(f, names[i][1], 2, (int64_t[]){2, 64}, NULL, 0.4f);
        write_file(f, path, NULL);
        last_log[0] = 0;
        graft_model *x = with_lora(m, path, 1);
        CHECK_STR(last_log, "");
        run_some(x, got);
        if (i == 0 || rows[i] != rows[i - 1]) memcpy(first, got, sizeof got);
        CHECK(same_answers(m, first, got) && difference(got, plain, answer_values(m)) > 1e-3);
        graft_model_release(x);
    }
    graft_model_release(m);
    unlink(path);
}

/* ------------------------------------------------------------------ sampling */

/* Euler's steps on the network itself; cfg 1: without a negative prompt. x: zeros, and behind them
 * the references. */
static void by_hand(const graft_model *m, const int words[2], float cfg, float guidance,
                    const graft_references *r, float *x)
{
    float v[MOST], w[MOST];
    double sigma[STEPS + 1] = {0};
    const int64_t n = (int64_t)answer_values(m);
    memset(x, 0, (size_t)n * sizeof *x);
    for (int i = 0; i < STEPS; i++) { /* "simple" */
        double share = 1 - (double)(int)(i * (double)m->flow_steps / STEPS) / m->flow_steps;
        sigma[i] = m->flow_shift * share / (1 + (m->flow_shift - 1) * share);
    }
    for (int i = 0; i < STEPS; i++) {
        const float t = (float)(1000 * sigma[i]);
        evaluate(m, 20000, words[0], x, t, guidance, r, v);
        if (cfg > 1) evaluate(m, 60000, words[1], x, t, guidance, r, w);
        for (int k = 0; k < n; k++) {
            float d = cfg > 1 ? w[k] + cfg * (v[k] - w[k]) : v[k];
            x[k] += (float)(sigma[i + 1] - sigma[i]) * d;
        }
    }
}

/* With equal lengths a negative prompt is computed beside the other, with others after it. */
static void prompts_of_any_length(void)
{
    static const int words[][2] = {{5, 5}, {33, 40}, {1, 12}};
    static const char *const of[] = {KLEIN, DEV};
    float got[MOST], want[MOST];
    for (size_t k = 0; k < COUNT(of); k++) {
        graft_model *m = load_model(engine, of[k]);
        for (size_t i = 0; i < COUNT(words); i++)
            for (int guided = 0; guided < 2; guided++) {
                graft_cond *a = prompt_of(m, 20000, words[i][0]);
                graft_cond *b = prompt_of(m, 60000, words[i][1]);
                sampled_in(STEPS, m, a, b, guided ? 3 : 1, 2, got);
                by_hand(m, words[i], guided ? 3 : 1, GRAFT_FLUX_GUIDANCE, NULL, want);
                CHECK(difference(got, want, answer_values(m)) < 2e-4);
                graft_cond_release(a);
                graft_cond_release(b);
            }
        graft_model_release(m);
    }
}

/* dev is told a prompt's guidance; klein has no place for it. */
static void guidance(void)
{
    static const char *const of[] = {KLEIN, DEV};
    float plain[MOST], got[MOST], want[MOST];
    graft_err e = GRAFT_ERR_INIT;
    for (size_t k = 0; k < COUNT(of); k++) {
        graft_model *m = load_model(engine, of[k]);
        graft_cond *c = prompt_of(m, 20000, 7), *told = NULL, *none = NULL;
        CHECK_OK(graft_cond_guidance(c, 1.25, &told, &e), &e);
        sampled(m, c, c, 1, plain);
        sampled(m, told, told, 1, got);
        by_hand(m, (const int[]){7, 7}, 1, 1.25f, NULL, want);
        CHECK(difference(got, want, answer_values(m)) < 2e-4);
        CHECK(same_answers(m, got, plain) == (k == 0));
        CHECK_OK(graft_cond_untold(told, &none, &e), &e);
        sampled(m, none, none, 1, want);
        CHECK(same_answers(m, want, plain) == (k == 0) && same_answers(m, want, got) == (k == 0));
        graft_cond_release(none);
        graft_cond_release(c);
        graft_cond_release(told);
        graft_model_release(m);
    }
}

/* ReferenceLatent: each picture counts, in its order, of any size. */
static void references(void)
{
    static const graft_unet_grid size[] = {{3, 4}, {5, 1}};
    graft_model *m = load_model(engine, KLEIN);
    graft_cond *c = prompt_of(m, 20000, 6);
    graft_err e = GRAFT_ERR_INIT;
    graft_references r = {.n = 0};
    float x[MOST + SHOWN_MAX], got[MOST], before[MOST] = {0};
    int64_t at = (int64_t)answer_values(m);
    for (; r.n < (int)COUNT(size); r.n++) {
        graft_cond *more = NULL;
        graft_latent *l = NULL;
        const int64_t shape[4] = {1, 128, size[r.n].rows, size[r.n].columns};
        const int64_t n = 128 * shape[2] * shape[3];
        CHECK(at + n <= (int64_t)COUNT(x));
        for (int64_t i = 0; i < n; i++) x[at + i] = 2 * fixed_value((uint64_t)(7 * r.n + i));
        CHECK_OK(graft_latent_from_data(x + at, shape, &l, &e), &e);
        CHECK_OK(graft_cond_reference(c, l, &more, &e), &e);
        at += n;
        r.of[r.n] = size[r.n];
        const graft_references shown = {.n = r.n + 1, .of = {r.of[0], r.of[1]}};
        sampled_in(STEPS, m, more, more, 1, 2, got);
        by_hand(m, (const int[]){6, 6}, 1, 0, &shown, x);
        CHECK(difference(got, x, answer_values(m)) < 2e-4);
        CHECK(difference(got, before, answer_values(m)) > 1e-3);
        memcpy(before, got, sizeof got);
        graft_latent_release(l);
        graft_cond_release(c);
        c = more;
    }
    graft_cond_release(c);
    graft_model_release(m);
}

/* CompileModel makes the graph that a prompt as the text encoder gives it needs, for cells of 16
 * pixels. */
static void compiled(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, KLEIN), *n = NULL;
    graft_binding *b = NULL;
    const graft_compile_options o = {.width = 16 * 6, .height = 16 * 4, .precision = "f32"};
    CHECK_OK(graft_model_compile(m, &o, NULL, &n, &e), &e);
    const uint64_t built = graphs_built(engine);
    if (n) CHECK_OK(graft_model_bind(n, 1, 4, 6, GRAFT_FLUX2_TOKENS, NULL, &b, &e), &e);
    CHECK_INT(graphs_built(engine), built);
    graft_binding_release(b);
    RELEASE_ALL(m, n);
}

static bool is_kept(const char *layer)
{
    return strstr(layer, "img_in") || strstr(layer, "time_in") || strstr(layer, "final_layer");
}

static void quantized(void)
{
    const quantized_layers want = {.kept = is_kept,
                                   .tokens = 32,
                                   .attentions = 2 + 3,
                                   .linears = 2 * 8 + 3 * 2 + 2 + 2 + 3 + 2};
    quantized_as(engine, KLEIN, &want, run_some);
}

static void measured(void)
{
    measured_on(engine, KLEIN, 12, 20);
}

static void halves(void)
{
    halves_add_up(engine, KLEIN, NULL, run_some);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(same_in_diffusers_names);
    RUN(saved);
    RUN(no_memory_for_names);
    RUN(gguf);
    RUN(without_tensors);
    RUN(of_another_kind);
    RUN(what_does_not_go_with_it);
    RUN(loras_in_diffusers_names);
    RUN(loras_in_other_names);
    RUN(prompts_of_any_length);
    RUN(guidance);
    RUN(references);
    RUN(compiled);
    RUN(quantized);
    RUN(measured);
    RUN(halves);
    graft_engine_destroy(engine);
    return test_end();
}
