/* Z-Image: which files it is found in and under which names, prompts of any length, and what does
 * not go with it. What the network computes is held against golden/small/zimage_*. */
#include <math.h>

#include "engine/models/zimage.h"
#include "tests/engine/network_changes.h"

static graft_engine *engine;

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TWO      GRAFT_SOURCE_DIR "/golden/small/zimage_two.safetensors"
#define ONE      GRAFT_SOURCE_DIR "/golden/small/zimage_one.safetensors"

enum { VALUES = 16 * SIDE * SIDE, MARKS = GRAFT_ZIMAGE_TOKENS, WORDS_MAX = 96, WIDTH_MAX = 40 };

/* A prompt of so many words, the seed's, filled up with what the network must not see. */
static void fill(const graft_model *m, uint64_t seed, int words, float *context, float *y)
{
    const int64_t all = graft_zimage_tokens(words), width = m->arch.context_dim;
    CHECK(width <= WIDTH_MAX && all <= WORDS_MAX);
    for (int64_t i = 0; i < all * width; i++)
        context[i] = i < words * width ? fixed_value(seed + (uint64_t)i) : 1e6f;
    for (int64_t i = 0; i < MARKS; i++) y[i] = MARKS - i <= all - words;
}

static void evaluate(const graft_model *m, uint64_t seed, int words, const float *x, float t,
                     float out[VALUES])
{
    float context[WORDS_MAX * WIDTH_MAX], y[MARKS];
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    fill(m, seed, words, context, y);
    memset(out, 0, VALUES * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, graft_zimage_tokens(words), NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
}

static void run_some(const graft_model *m, float out[VALUES])
{
    float x[VALUES];
    for (size_t i = 0; i < VALUES; i++) x[i] = fixed_value(i);
    evaluate(m, 20000, 5, x, 400, out);
}

/* ------------------------------------------------------------------ names */

/* What diffusers calls the layers, written down here once more. */
static const char *const renamed[][2] = {{"x_embedder.", "all_x_embedder.2-1."},
                                         {"final_layer.", "all_final_layer.2-1."},
                                         {".attention.out.", ".attention.to_out.0."},
                                         {".attention.q_norm.", ".attention.norm_q."},
                                         {".attention.k_norm.", ".attention.norm_k."}};

static const char *theirs(const char *ours)
{
    static char text[8][256];
    static int turn;
    char *p = text[turn++ & 7];
    snprintf(p, sizeof text[0], "%s", ours);
    for (size_t i = 0; i < COUNT(renamed); i++) {
        const char *at = strstr(ours, renamed[i][0]);
        if (at)
            snprintf(p, sizeof text[0], "%.*s%s%s", (int)(at - ours), ours, renamed[i][1],
                     at + strlen(renamed[i][0]));
    }
    return p;
}

/* "layers.0.attention.qkv…" with another layer in the place of qkv. */
static const char *piece_name(const char *ours, int piece)
{
    static char text[8][256];
    static int turn;
    char *p = text[turn++ & 7];
    const char *at = strstr(ours, ".qkv");
    snprintf(p, sizeof text[0], "%.*s.to_%c%s", (int)(at - ours), ours, "qkv"[piece], at + 4);
    return p;
}

/* The network in diffusers' names. */
static made_file *diffusers_zimage(const char *path)
{
    made_file *own = part_of_file(path, UNET), *d = calloc(1, sizeof *d);
    for (size_t n = 0; n < own->n; n++) {
        const graft_st_tensor *t = &own->tensor[n];
        const float *from = t->data;
        int64_t shape[GRAFT_MAX_RANK];
        memcpy(shape, t->shape, sizeof shape);
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
    write_file(diffusers_zimage(checkpoint), path, config_of(checkpoint));
    return path;
}

/* ------------------------------------------------------------------ loading */

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_zimage_arch *a = &two->arch.zimage, *b = &one->arch.zimage;
    CHECK(a->depth == 2 && a->noise_depth == 2 && a->context_depth == 2 && a->heads == 3);
    CHECK(a->hidden == 48 && a->mlp == 112 && a->rope_dim == 6 && a->told == 20);
    CHECK(a->time_mlp == 36 && a->time_dim == 256 && a->context_dim == 24);
    CHECK(b->depth == 1 && b->noise_depth == 1 && b->context_depth == 1 && b->heads == 2);
    CHECK(b->rope_dim == 8);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_ZIMAGE && m->arch.adm_channels == MARKS);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == 16);
        CHECK(m->flow_shift == 3 && m->flow_steps == 1000);
        CHECK(m->scale_factor == 0.3611 && m->latent_shift == 0.1159);
        CHECK(memcmp(&m->preview, &graft_preview_flux, sizeof m->preview) == 0);
    }
    RELEASE_ALL(two, one);
}

/* What a file does not say: of a head three eighths turn with the row. */
static void without_config(void)
{
    const char *path = temp_path("plain.safetensors");
    write_file(part_of_file(TWO, UNET), path, NULL);
    graft_model *a = load_model(engine, TWO), *b = load_model(engine, path);
    CHECK(memcmp(&a->arch, &b->arch, sizeof a->arch) == 0);
    RELEASE_ALL(a, b);
    unlink(path);
}

static void same_in_diffusers_names(void)
{
    same_in_file(engine, TWO, written(TWO, "transformer.safetensors"), run_some);
    same_in_file(engine, ONE, written(ONE, "transformer.safetensors"), run_some);
}

static void saved(void)
{
    const char *path = written(TWO, "theirs.safetensors");
    saved_like(engine, path, TWO);
    unlink(path);
}

static void no_memory_for_names(void)
{
    const char *path = written(ONE, "oom.safetensors");
    adopt_short_of_memory(path, graft_diffusers_adopt_net);
    unlink(path);
}

/* As stable-diffusion.cpp and ComfyUI-GGUF name it. */
static void gguf(void)
{
    same_in_gguf(engine, ONE, "lumina2", config_of(ONE), run_some);
}

/* ------------------------------------------------------------------ damage */

static void refused(made_file *f, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, config_of(TWO), status, words, &e);
}

static void without_tensors(void)
{
    static const char *const ours[] = {"layers.1.attention.qkv.weight",
                                       "layers.0.attention.q_norm.weight",
                                       "layers.1.attention.k_norm.weight",
                                       "layers.0.adaLN_modulation.0.bias",
                                       "layers.0.feed_forward.w1.weight",
                                       "layers.1.ffn_norm2.weight",
                                       "noise_refiner.1.attention.out.weight",
                                       "noise_refiner.0.feed_forward.w1.weight",
                                       "context_refiner.1.attention.qkv.weight",
                                       "context_refiner.0.attention_norm1.weight",
                                       "t_embedder.mlp.0.weight",
                                       "t_embedder.mlp.2.bias",
                                       "cap_embedder.0.weight",
                                       "cap_embedder.1.bias",
                                       "x_embedder.weight",
                                       "cap_pad_token",
                                       "x_pad_token",
                                       "final_layer.adaLN_modulation.1.weight",
                                       "final_layer.linear.weight"};
    for (size_t i = 0; i < COUNT(ours); i++) {
        made_file *f = part_of_file(TWO, UNET);
        drop_tensor(f, ours[i]);
        refused(f, GRAFT_E_FORMAT, ours[i]);
        if (strstr(ours[i], ".qkv.")) continue;
        f = diffusers_zimage(TWO);
        drop_tensor(f, theirs(ours[i]));
        refused(f, GRAFT_E_FORMAT, theirs(ours[i]));
    }
    made_file *f = diffusers_zimage(TWO);
    drop_tensor(f, "noise_refiner.0.attention.to_k.weight");
    refused(f, GRAFT_E_FORMAT, "noise_refiner.0.attention.to_k.weight");
}

static void other_shape(const char *name, int rank, int64_t a, int64_t b, graft_status status,
                        const char *words)
{
    made_file *f = part_of_file(TWO, UNET);
    drop_tensor(f, name);
    add_tensor(f, name, rank, (int64_t[]){a, b}, NULL, 0.1f);
    refused(f, status, words);
}

static void of_another_kind(void)
{
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = part_of_file(TWO, UNET);
    drop_tensor(f, "cap_pad_token");
    drop_tensor(f, "x_pad_token");
    refused(f, GRAFT_E_UNSUPPORTED, "Lumina-Image 2.0");
    /* Fewer heads of keys and values than of queries. */
    other_shape("layers.0.attention.qkv.weight", 2, 48 + 2 * 16, 48, GRAFT_E_UNSUPPORTED,
                "80 rows of queries");
    other_shape("layers.1.attention.qkv.weight", 2, 48 + 2 * 16, 48, GRAFT_E_FORMAT,
                "layers.1.attention.qkv.weight");
    other_shape("layers.0.attention.q_norm.weight", 1, 15, 0, GRAFT_E_UNSUPPORTED, "heads of 15");
    other_shape("layers.0.attention.q_norm.weight", 1, 0, 0, GRAFT_E_FORMAT, "q_norm");
    other_shape("x_embedder.weight", 2, 48, 63, GRAFT_E_FORMAT, "x_embedder.weight");
    other_shape("x_embedder.weight", 1, 48, 0, GRAFT_E_FORMAT, "x_embedder.weight");
    other_shape("final_layer.linear.weight", 2, 128, 48, GRAFT_E_FORMAT, "final_layer.linear");
    other_shape("cap_embedder.1.weight", 2, 47, 24, GRAFT_E_FORMAT, "cap_embedder.1.weight");
    other_shape("t_embedder.mlp.2.weight", 2, 21, 36, GRAFT_E_FORMAT, "t_embedder.mlp.2");
    other_shape("t_embedder.mlp.0.weight", 2, 36, 255, GRAFT_E_FORMAT, "do not fit together");
    other_shape("cap_pad_token", 2, 1, 47, GRAFT_E_FORMAT, "cap_pad_token");
    f = diffusers_zimage(TWO);
    add_tensor(f, "siglip_refiner.0.attention.to_q.weight", 1, (int64_t[]){16}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "Z-Image's transformer has no tensor siglip_refiner.0");
    f = diffusers_zimage(TWO);
    add_tensor(f, "layers.70000.ffn_norm1.weight", 1, (int64_t[]){16}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "Z-Image's transformer has no tensor layers.70000");
    f = part_of_file(TWO, UNET);
    check_refused(engine, f, "{\"rope_dim\": 10}", GRAFT_E_UNSUPPORTED, "of which 10 turn", &e);
    f = part_of_file(TWO, UNET);
    check_refused(engine, f, "{\"rope_dim\": 5}", GRAFT_E_UNSUPPORTED, "of which 5 turn", &e);
}

static void what_does_not_go_with_it(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *out = NULL;
    graft_binding *b = NULL;
    const graft_deepcache_options cache = {.schedule = "uniform", .cache_interval = 3};
    CHECK_INT(graft_model_deepcache(m, &cache, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_perturbed_attention(m, 3, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_skip_layers(m, "1", 3, 0, 1, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_sampling(m, "v_prediction", false, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out);
    CHECK_INT(graft_model_bind(m, 1, 8, 1 << 20, 32, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_model_bind(m, 1, 8, 8, 1 << 20, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_model_bind(m, 1, 8, 8, 5, NULL, &b, &e), GRAFT_E_ARG);
    CHECK(!b);
    graft_unet_shape shape = {
        .batch = 1, .height = 8, .width = 8, .tokens = 32, .act_dtype = GRAFT_F16};
    graft_graph *g = NULL;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape = (graft_unet_shape){
        .batch = 1, .height = 8, .width = 8, .tokens = 32, .act_dtype = GRAFT_F32, .adapted = 1};
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape.adapted = 0;
    shape.control = 1; /* and no block of it takes any residual */
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_ARG);
    CHECK(!g);
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
    made_file *f = calloc(1, sizeof *f), *m = part_of_file(TWO, UNET);
    graft_st_tensor *t = made_find(m, ours);
    const int64_t columns = t->shape[1];
    char layer[256];
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(name) - strlen(".weight")), name);
    const float *up = matrix(f, layer, "lora_B", rows, 2);
    const float *down = matrix(f, layer, "lora_A", 2, columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            ((float *)(uintptr_t)t->data)[(first + r) * columns + c] +=
                up[2 * r] * down[c] + up[2 * r + 1] * down[columns + c];
    write_file(f, lora, NULL);
    write_file(m, whole, config_of(TWO));
}

static void check_lora(const graft_model *m, const float *plain, const char *ours, int piece)
{
    const char *lora = temp_path("lora.safetensors"), *whole = temp_path("merged.safetensors");
    made_file *f = part_of_file(TWO, UNET);
    const int64_t rows = made_find(f, ours)->shape[0] / (piece < 0 ? 1 : 3);
    float got[VALUES], want[VALUES];
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
    CHECK(difference(got, want, VALUES) < 5e-5);
    if (difference(plain, want, VALUES) < 1e-4) printf("  %s changes nothing\n", name);
    CHECK(difference(plain, want, VALUES) > 1e-4);
    RELEASE_ALL(w, x);
    unlink(lora);
    unlink(whole);
}

/* Each layer alone: that none is taken for another, and that every one changes something. */
static void loras_in_diffusers_names(void)
{
    float plain[VALUES];
    graft_model *m = load_model(engine, TWO);
    made_file *f = part_of_file(TWO, UNET);
    run_some(m, plain);
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        if (t->rank != 2 || strstr(t->name, "pad_token") || strstr(t->name, ".0.attention."))
            continue;
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
        {"lora_unet_layers_1_feed_forward_w1.lora_up.weight",
         "lora_unet_layers_1_feed_forward_w1.lora_down.weight"},
        {"diffusion_model.layers.1.feed_forward.w1.lora_B.weight",
         "diffusion_model.layers.1.feed_forward.w1.lora_A.weight"},
        {"transformer.layers.1.feed_forward.w1.lora_B.weight",
         "transformer.layers.1.feed_forward.w1.lora_A.weight"},
        {"layers.1.feed_forward.w1.lora_B.weight", "layers.1.feed_forward.w1.lora_A.weight"},
        {"lycoris_layers_1_feed_forward_w1.lora_up.weight",
         "lycoris_layers_1_feed_forward_w1.lora_down.weight"},
        {"diffusion_model.layers.1.attention.qkv.lora_B.weight",
         "diffusion_model.layers.1.attention.qkv.lora_A.weight"},
        {"lora_unet_layers_1_attention_qkv.lora_up.weight",
         "lora_unet_layers_1_attention_qkv.lora_down.weight"},
        {"diffusion_model.layers.1.attention.to_k.lora_B.weight",
         "diffusion_model.layers.1.attention.to_k.lora_A.weight"},
        {"lora_unet_layers_1_attention_to_k.lora_up.weight",
         "lora_unet_layers_1_attention_to_k.lora_down.weight"}};
    static const int64_t rows[] = {112, 112, 112, 112, 112, 144, 144, 48, 48};
    const char *path = temp_path("lora.safetensors");
    float plain[VALUES], first[VALUES], got[VALUES];
    graft_model *m = load_model(engine, TWO);
    run_some(m, plain);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_file *f = calloc(1, sizeof *f);
        random_state = 11;
        add_tensor(f, names[i][0], 2, (int64_t[]){rows[i], 2}, NULL, 0.4f);
        add_tensor(f, names[i][1], 2, (int64_t[]){2, 48}, NULL, 0.4f);
        write_file(f, path, NULL);
        last_log[0] = 0;
        graft_model *x = with_lora(m, path, 1);
        CHECK_STR(last_log, "");
        run_some(x, got);
        if (i == 0 || rows[i] != rows[i - 1]) memcpy(first, got, sizeof got);
        CHECK(same_answers(m, first, got) && difference(got, plain, VALUES) > 1e-3);
        graft_model_release(x);
    }
    graft_model_release(m);
    unlink(path);
}

/* ------------------------------------------------------------------ sampling */

/* Euler's steps on the network itself; cfg 1: without a negative prompt. */
static void by_hand(const graft_model *m, const int words[2], float cfg, float out[VALUES])
{
    float x[VALUES] = {0}, v[VALUES], w[VALUES];
    double sigma[STEPS + 1] = {0};
    for (int i = 0; i < STEPS; i++) { /* "simple" */
        double share = 1 - (double)(int)(i * (double)m->flow_steps / STEPS) / m->flow_steps;
        sigma[i] = m->flow_shift * share / (1 + (m->flow_shift - 1) * share);
    }
    for (int i = 0; i < STEPS; i++) {
        evaluate(m, 20000, words[0], x, (float)(1000 * sigma[i]), v);
        if (cfg > 1) evaluate(m, 60000, words[1], x, (float)(1000 * sigma[i]), w);
        for (int k = 0; k < VALUES; k++) {
            float d = cfg > 1 ? w[k] + cfg * (v[k] - w[k]) : v[k];
            x[k] += (float)(sigma[i + 1] - sigma[i]) * d;
        }
    }
    for (int k = 0; k < VALUES; k++) out[k] = x[k] / 0.3611f + 0.1159f;
}

/* Prompts are filled up to whole blocks of tokens, so that one graph serves all that come to as
 * many, side by side with others or not. */
static void prompts_of_any_length(void)
{
    static const int words[][2] = {{5, 9}, {32, 1}, {17, 32}, {33, 64}, {5, 70}, {96, 31}};
    static const int graphs[] = {1, 0, 0, 1, 1, 1}; /* that are new with guidance */
    float got[VALUES], want[VALUES], before[VALUES] = {0};
    graft_model *m = load_model(engine, TWO);
    for (size_t i = 0; i < COUNT(words); i++)
        for (int guided = 0; guided < 2; guided++) {
            graft_cond *a = prompt_of(m, 20000, words[i][0]), *b = prompt_of(m, 60000, words[i][1]);
            const uint64_t built = graphs_built(engine);
            sampled(m, a, b, guided ? 3 : 1, got);
            const int64_t more = (int64_t)(graphs_built(engine) - built);
            if (guided && i < 3) CHECK_INT(more, graphs[i]);
            if (guided && i >= 3) CHECK(more <= 2);
            by_hand(m, words[i], guided ? 3 : 1, want);
            CHECK(difference(got, want, VALUES) < 1e-4 && difference(got, before, VALUES) > 1e-3);
            memcpy(before, got, sizeof got);
            graft_cond_release(a);
            graft_cond_release(b);
        }
    graft_model_release(m);
}

/* What ConditioningZeroOut leaves are words, too. */
static void zeros_are_words(void)
{
    float one[VALUES], two[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, ONE);
    graft_cond *c[4] = {prompt_of(m, 20000, 7), prompt_of(m, 20000, 8)};
    for (int i = 0; i < 2; i++) CHECK_OK(graft_cond_zero_out(c[i], &c[2 + i], &e), &e);
    sampled(m, c[2], c[2], 1, one);
    sampled(m, c[3], c[3], 1, two);
    CHECK(difference(one, two, VALUES) > 1e-4);
    for (int i = 0; i < 4; i++) graft_cond_release(c[i]);
    graft_model_release(m);
}

static void other_schedules(void)
{
    float got[VALUES], want[VALUES], plain[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *n = NULL;
    graft_cond *c = prompt_of(m, 20000, 12);
    CHECK_OK(graft_model_sampling_flow(m, 1.73, false, &n, &e), &e);
    CHECK(n->flow_shift == 1.73);
    sampled(m, c, c, 1, plain);
    sampled(n, c, c, 1, got);
    by_hand(n, (const int[]){12, 1}, 1, want);
    CHECK(difference(got, want, VALUES) < 1e-4 && difference(got, plain, VALUES) > 1e-3);
    graft_cond_release(c);
    RELEASE_ALL(m, n);
}

static bool is_kept(const char *layer)
{
    return strstr(layer, "x_embedder") || strstr(layer, "t_embedder") ||
           strstr(layer, "final_layer");
}

static void quantized(void)
{
    const quantized_layers want = {
        .kept = is_kept, .tokens = 32, .attentions = 6, .linears = 6 * 5 + 4 + 6};
    quantized_as(engine, TWO, &want, run_some);
}

/* Prompts that are no whole blocks. */
static void measured(void)
{
    measured_on(engine, TWO, 12, 40);
}

static void halves(void)
{
    halves_add_up(engine, TWO, config_of(TWO), run_some);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(without_config);
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
    RUN(zeros_are_words);
    RUN(other_schedules);
    RUN(quantized);
    RUN(measured);
    RUN(halves);
    graft_engine_destroy(engine);
    return test_end();
}
