/* Anima: which files it is found in and under which names, prompts of any length, the words that it
 * is told of, and what does not go with it. What the network computes is held against
 * golden/small/anima_*; its text encoder: anima_prompts.c. */
#include <math.h>

#include "engine/models/anima.h"
#include "tests/engine/network_changes.h"

static graft_engine *engine;

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TWO      GRAFT_SOURCE_DIR "/golden/small/anima_two.safetensors"
#define ONE      GRAFT_SOURCE_DIR "/golden/small/anima_one.safetensors"

enum { VALUES = 16 * SIDE * SIDE, WORDS_MAX = 96, WIDTH_MAX = 20 };

/* Of the first and the last of the latent's planes, which are Qwen-Image's (qwen_image.c). */
static const double mean[2] = {-0.7571, -0.2921}, deviation[2] = {2.8184, 1.9160};

static void evaluate(const graft_model *m, uint64_t seed, int words, const float *x, float t,
                     float out[VALUES])
{
    float context[WORDS_MAX * WIDTH_MAX], y[GRAFT_ANIMA_TOLD + 1];
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.context_dim <= WIDTH_MAX && words <= WORDS_MAX);
    for (int64_t i = 0; i < words * m->arch.context_dim; i++)
        context[i] = fixed_value(seed + (uint64_t)i);
    fill_words(m, seed, words + 1, y);
    y[GRAFT_ANIMA_TOLD] = (float)words;
    memset(out, 0, VALUES * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, words, NULL, &b, &e);
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

/* ------------------------------------------------------------------ loading */

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_anima_arch *a = &two->arch.anima, *b = &one->arch.anima;
    CHECK(a->depth == 2 && a->heads == 2 && a->hidden == 32 && a->mlp == 48 && a->rope_dim == 4);
    CHECK(a->patch == 2 && a->channels == 16 && a->told == 8 && a->context_dim == 12);
    CHECK(a->adapter_width == 16 && a->adapter_heads == 2 && a->adapter_mlp == 40 &&
          a->adapter_depth == 2 && a->words == 40);
    CHECK(b->depth == 1 && b->heads == 1 && b->hidden == 32 && b->rope_dim == 10);
    CHECK(b->adapter_width == 24 && b->adapter_heads == 3 && b->adapter_depth == 1);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_ANIMA && !m->arch.beside);
        CHECK(m->arch.adm_channels == 1025 && m->arch.latent_channels == 16);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->flow_shift == 3 && m->flow_steps == 1000);
        CHECK(m->planes == &graft_wan_planes);
        CHECK(memcmp(&m->preview, &graft_preview_wan, sizeof m->preview) == 0);
        CHECK_STR(graft_net_kind_name(&m->arch), "anima");
    }
    RELEASE_ALL(two, one);
}

/* As published: below "net."; and as programs save it again, below nothing. */
static void as_published(void)
{
    static const char *const prefixes[] = {"net.", ""};
    for (size_t k = 0; k < COUNT(prefixes); k++) {
        const char *path = temp_path("published.safetensors");
        made_file *f = part_of_file(TWO, UNET);
        for (size_t i = 0; i < f->n; i++) {
            char name[300];
            snprintf(name, sizeof name, "%s%s", prefixes[k], f->tensor[i].name);
            call_tensor(&f->tensor[i], name);
        }
        write_file(f, path, NULL);
        same_in_file(engine, TWO, path, run_some);
    }
}

static void saved(void)
{
    const char *path = temp_path("plain.safetensors");
    write_file(part_of_file(TWO, UNET), path, NULL);
    saved_like(engine, path, TWO);
    unlink(path);
}

/* As ComfyUI-GGUF names it. */
static void gguf(void)
{
    same_in_gguf(engine, ONE, "cosmos", NULL, run_some);
}

/* ------------------------------------------------------------------ damage */

static void refused(made_file *f, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, NULL, status, words, &e);
}

static void without_tensors(void)
{
    made_file *all = part_of_file(TWO, UNET);
    CHECK(all->n > 60);
    for (size_t i = 0; i < all->n; i++) {
        const char *name = all->tensor[i].name;
        made_file *f = part_of_file(TWO, UNET);
        drop_tensor(f, name);
        if (strcmp(name, GRAFT_ANIMA_TENSOR) == 0) /* by which it is told */
            refused(f, GRAFT_E_UNSUPPORTED, "it seems to be a diffusion transformer (Anima)");
        else
            refused(f, GRAFT_E_FORMAT, name);
    }
    finish_file(all);
}

/* The network that Anima was made of, which has no adapter. */
static void without_the_adapter(void)
{
    made_file *f = part_of_file(TWO, UNET);
    for (size_t i = f->n; i-- > 0;)
        if (strstr(f->tensor[i].name, "llm_adapter.")) drop_tensor(f, f->tensor[i].name);
    refused(f, GRAFT_E_UNSUPPORTED, "Cosmos-Predict2), which is not supported");
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
    static const char norm[] = "blocks.0.self_attn.q_norm.weight";
    static const char adapter[] = "llm_adapter.blocks.0.self_attn.q_norm.weight";
    other_shape(norm, 1, 15, 0, GRAFT_E_UNSUPPORTED, "heads of 15");
    other_shape(norm, 1, 0, 0, GRAFT_E_FORMAT, norm);
    other_shape(adapter, 1, 3, 0, GRAFT_E_UNSUPPORTED, "heads of 3");
    other_shape(adapter, 1, 1, 0, GRAFT_E_UNSUPPORTED, "heads of 1");
    other_shape("llm_adapter.out_proj.weight", 2, 24, 16, GRAFT_E_UNSUPPORTED,
                "words of 16 values, of which it makes 24");
    other_shape("llm_adapter.out_proj.weight", 2, 16, 15, GRAFT_E_FORMAT, "out_proj.weight");
    other_shape("x_embedder.proj.1.weight", 2, 32, 66, GRAFT_E_FORMAT, "x_embedder.proj.1.weight");
    other_shape("x_embedder.proj.1.weight", 2, 32, 4, GRAFT_E_FORMAT, "x_embedder.proj.1.weight");
    other_shape("final_layer.linear.weight", 2, 68, 32, GRAFT_E_FORMAT, "final_layer.linear");
    other_shape("t_embedder.1.linear_2.weight", 2, 64, 32, GRAFT_E_FORMAT, "linear_2.weight");
    other_shape("blocks.1.cross_attn.k_proj.weight", 2, 32, 12, GRAFT_E_FORMAT,
                "blocks.1.cross_attn.k_proj.weight");
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
    CHECK(!out && !graft_net_told_guidance(&m->arch) && !graft_net_takes_references(&m->arch));
    CHECK_INT(graft_model_bind(m, 1, 8, 1 << 20, 32, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_model_bind(m, 1, 8, 8, 1 << 20, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_model_bind(m, 1, 8, 8, 0, NULL, &b, &e), GRAFT_E_ARG);
    CHECK(!b);
    graft_unet_shape shape = {
        .batch = 1, .height = 8, .width = 8, .tokens = 32, .act_dtype = GRAFT_F16};
    graft_graph *g = NULL;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape.act_dtype = GRAFT_F32;
    shape.control = 1;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape.control = 0;
    shape.width = 7;
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

/* What diffusers calls a layer, written down here once more. */
static const char *theirs(const char *layer)
{
    static const char *const blocks[][2] = {{"adaln_modulation_self_attn.", "norm1.linear_"},
                                            {"adaln_modulation_cross_attn.", "norm2.linear_"},
                                            {"adaln_modulation_mlp.", "norm3.linear_"},
                                            {"self_attn.output_proj", "attn1.to_out.0"},
                                            {"cross_attn.output_proj", "attn2.to_out.0"},
                                            {"self_attn.q_proj", "attn1.to_q"},
                                            {"self_attn.k_proj", "attn1.to_k"},
                                            {"self_attn.v_proj", "attn1.to_v"},
                                            {"cross_attn.q_proj", "attn2.to_q"},
                                            {"cross_attn.k_proj", "attn2.to_k"},
                                            {"cross_attn.v_proj", "attn2.to_v"},
                                            {"mlp.layer1", "ff.net.0.proj"},
                                            {"mlp.layer2", "ff.net.2"}};
    static const char *const others[][2] = {{"llm_adapter.", "text_conditioner."},
                                            {"x_embedder.proj.1", "patch_embed.proj"},
                                            {"t_embedder.1.", "time_embed.t_embedder."},
                                            {"final_layer.adaln_modulation.", "norm_out.linear_"},
                                            {"final_layer.linear", "proj_out"}};
    static char out[300];
    int block, n = 0;
    if (sscanf(layer, "blocks.%d.%n", &block, &n) == 1 && n) {
        for (size_t i = 0; i < COUNT(blocks); i++)
            if (strncmp(layer + n, blocks[i][0], strlen(blocks[i][0])) == 0)
                snprintf(out, sizeof out, "transformer_blocks.%d.%s%s", block, blocks[i][1],
                         layer + n + strlen(blocks[i][0]));
        return out;
    }
    for (size_t i = 0; i < COUNT(others); i++)
        if (strncmp(layer, others[i][0], strlen(others[i][0])) == 0)
            snprintf(out, sizeof out, "%s%s", others[i][1], layer + strlen(others[i][0]));
    return out;
}

/* A LoRA of one layer, and the network with it. */
static void write_lora(const char *layer, bool diffusers, const char *lora, const char *whole)
{
    made_file *f = calloc(1, sizeof *f), *m = part_of_file(TWO, UNET);
    char name[400];
    snprintf(name, sizeof name, "%s.weight", layer);
    graft_st_tensor *t = made_find(m, name);
    const int64_t rows = t->shape[0], columns = t->shape[1];
    if (!diffusers)
        snprintf(name, sizeof name, "diffusion_model.%s", layer);
    else if (strncmp(layer, "llm_", 4) == 0)
        snprintf(name, sizeof name, "%s", theirs(layer));
    else
        snprintf(name, sizeof name, "transformer.%s", theirs(layer));
    const float *up = matrix(f, name, "lora_B", rows, 2);
    const float *down = matrix(f, name, "lora_A", 2, columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            ((float *)(uintptr_t)t->data)[r * columns + c] +=
                up[2 * r] * down[c] + up[2 * r + 1] * down[columns + c];
    write_file(f, lora, NULL);
    write_file(m, whole, NULL);
}

/* Each layer alone, in its own name and in diffusers', the adapter's and its table of words among
 * them: that none is taken for another, and that every one changes something. */
static void loras(void)
{
    const char *lora = temp_path("lora.safetensors"), *whole = temp_path("merged.safetensors");
    float plain[VALUES], got[VALUES], want[VALUES];
    graft_model *m = load_model(engine, TWO);
    made_file *f = part_of_file(TWO, UNET);
    run_some(m, plain);
    for (size_t i = 0; i < 2 * f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i / 2];
        char layer[256];
        if (t->rank != 2) continue;
        snprintf(layer, sizeof layer, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
        write_lora(layer, i % 2, lora, whole);
        last_log[0] = 0;
        graft_model *w = load_model(engine, whole), *x = with_lora(m, lora, 1);
        CHECK_STR(last_log, "");
        run_some(w, want);
        run_some(x, got);
        CHECK(difference(got, want, VALUES) < 5e-5);
        CHECK(difference(plain, want, VALUES) > 1e-4);
        if (difference(plain, want, VALUES) <= 1e-4) printf("  %s changes nothing\n", layer);
        RELEASE_ALL(w, x);
    }
    finish_file(f);
    graft_model_release(m);
    unlink(lora);
    unlink(whole);
}

/* The same LoRA in other programs' names, and one that was trained for the text encoder as well. */
static void loras_in_other_names(void)
{
    static const struct {
        const char *stem, *up, *down;
        bool alpha, more;
    } names[] = {{"diffusion_model.blocks.1.cross_attn.q_proj", "lora_B", "lora_A", false, false},
                 {"blocks.1.cross_attn.q_proj", "lora_B", "lora_A", false, false},
                 {"lora_unet_blocks_1_cross_attn_q_proj", "lora_up", "lora_down", true, false},
                 {"lycoris_blocks_1_cross_attn_q_proj", "lora_up", "lora_down", true, false},
                 {"transformer.transformer_blocks.1.attn2.to_q", "lora_B", "lora_A", false, false},
                 {"lora_unet_transformer_blocks_1_attn2_to_q", "lora_up", "lora_down", true, false},
                 {"lora_unet_blocks_1_cross_attn_q_proj", "lora_up", "lora_down", true, true}};
    const char *path = temp_path("lora.safetensors");
    float plain[VALUES], first[VALUES], got[VALUES];
    graft_model *m = load_model(engine, TWO);
    run_some(m, plain);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_file *f = calloc(1, sizeof *f);
        char alpha[200];
        random_state = 11;
        matrix(f, names[i].stem, names[i].up, 32, 2);
        matrix(f, names[i].stem, names[i].down, 2, 32);
        snprintf(alpha, sizeof alpha, "%s.alpha", names[i].stem);
        if (names[i].alpha) add_tensor(f, alpha, 1, (int64_t[]){1}, (const float[]){2}, 0);
        if (names[i].more) add_lora_pair(f, "lora_te_layers_0_self_attn_q_proj", 32, 32);
        write_file(f, path, NULL);
        last_log[0] = 0;
        graft_model *x = with_lora(m, path, 1);
        CHECK_STR(last_log, "");
        run_some(x, got);
        if (i == 0) memcpy(first, got, sizeof got);
        CHECK(same_answers(m, first, got) && difference(got, plain, VALUES) > 1e-3);
        graft_model_release(x);
    }
    graft_model_release(m);
    unlink(path);
}

/* ------------------------------------------------------------------ sampling */

/* Euler's steps on the network itself; cfg 1: without a negative prompt. The first and the last
 * plane, as they leave. */
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
    memcpy(out, x, sizeof x);
    for (int k = 0; k < 2 * SIDE * SIDE; k++) {
        const int last = k / (SIDE * SIDE), at = last ? VALUES - 2 * SIDE * SIDE + k : k;
        out[at] = (float)(x[at] * deviation[last] + mean[last]);
    }
}

/* Of the two planes that by_hand() finishes. */
static double off(const float *a, const float *b)
{
    const int last = VALUES - SIDE * SIDE;
    const double first = difference(a, b, SIDE * SIDE);
    return fmax(first, difference(a + last, b + last, SIDE * SIDE));
}

/* Prompts are seen as long as they are, and up to 64 tokens run in the same graph, side by side; 65
 * to 128 in another. */
static void prompts_of_any_length(void)
{
    static const int words[][2] = {{5, 9}, {7, 7}, {1, 33}, {64, 2}, {65, 90}, {96, 1}};
    float got[VALUES], want[VALUES], before[VALUES] = {0};
    graft_model *m = load_model(engine, TWO);
    for (size_t i = 0; i < COUNT(words); i++)
        for (int guided = 0; guided < 2; guided++) {
            graft_cond *a = prompt_of(m, 20000, words[i][0]), *b = prompt_of(m, 60000, words[i][1]);
            const uint64_t built = graphs_built(engine);
            sampled(m, a, b, guided ? 4 : 1, got);
            CHECK_INT(graphs_built(engine) - built, i == 0 || i == 4); /* alone, or two at once */
            by_hand(m, words[i], guided ? 4 : 1, want);
            CHECK(off(got, want) < 2e-4 && off(got, before) > 1e-3);
            memcpy(before, got, sizeof got);
            graft_cond_release(a);
            graft_cond_release(b);
        }
    graft_model_release(m);
}

static void other_schedules(void)
{
    float got[VALUES], want[VALUES], plain[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *n = NULL;
    graft_cond *c = prompt_of(m, 20000, 12);
    CHECK_OK(graft_model_sampling_flow(m, 5, false, &n, &e), &e);
    sampled(m, c, c, 1, plain);
    sampled(n, c, c, 1, got);
    by_hand(n, (const int[]){12, 1}, 1, want);
    CHECK(off(got, want) < 2e-4 && off(got, plain) > 1e-4);
    graft_cond_release(c);
    RELEASE_ALL(m, n);
}

/* ComfyUI's empty latents for it have four planes. */
static void empty_latents(void)
{
    const graft_sample_params p = {.seed = 5,
                                   .steps = 2,
                                   .cfg = 1,
                                   .sampler = "euler",
                                   .scheduler = "simple",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_cond *c = prompt_of(m, 20000, 3);
    graft_latent *in = NULL, *out = NULL;
    int64_t shape[4] = {0};
    CHECK_OK(graft_latent_empty(4, 8 * SIDE, 8 * SIDE, 2, &in, &e), &e);
    CHECK_OK(graft_sample(m, &p, c, c, in, NULL, &out, &e), &e);
    if (out) graft_latent_data(out, shape);
    CHECK(shape[0] == 2 && shape[1] == 16 && shape[2] == SIDE && shape[3] == SIDE);
    graft_latent_release(in);
    graft_latent_release(out);
    graft_cond_release(c);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ words */

static graft_status try_sampling(const graft_model *m, graft_cond *c, graft_err *e)
{
    const graft_sample_params p = {.steps = 1,
                                   .cfg = 1,
                                   .sampler = "euler",
                                   .scheduler = "simple",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    graft_latent *in = NULL, *out = NULL;
    CHECK_OK(graft_latent_empty(m->arch.latent_channels, 8 * SIDE, 8 * SIDE, 1, &in, e), e);
    graft_status st = graft_sample(m, &p, c, c, in, NULL, &out, e);
    graft_latent_release(in);
    graft_latent_release(out);
    return st;
}

/* Of other text encoders, for other models, and of words that the table does not have. */
static void other_prompts(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_model *other =
        load_model(engine, GRAFT_SOURCE_DIR "/golden/small/qwen_image_two.safetensors");
    graft_cond *c = prompt_of(m, 20000, 4), *d = prompt_of(other, 20000, 4);
    CHECK_OK(try_sampling(m, c, &e), &e);
    c->entry[0]->pooled[2] = 39;
    CHECK_OK(try_sampling(m, c, &e), &e);
    c->entry[0]->pooled[2] = 40;
    CHECK_INT(try_sampling(m, c, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "word 40 of the positive conditioning") && strstr(e.text, "table of 40"));
    c->entry[0]->worded = false;
    CHECK_INT(try_sampling(m, c, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "is not for Anima"));
    d->entry[0]->worded = true;
    CHECK_INT(try_sampling(other, d, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "is for Anima, and the model is another"));
    graft_cond_release(c);
    graft_cond_release(d);
    RELEASE_ALL(m, other);
}

static bool told_alike(const graft_cond *a, const graft_cond *b)
{
    const graft_cond_entry *k = a->entry[0], *l = b->entry[0];
    return k->worded && l->worded && k->pooled_width == l->pooled_width &&
           memcmp(k->pooled, l->pooled, (size_t)k->pooled_width * sizeof *k->pooled) == 0;
}

/* What changes or joins prompts changes what Qwen 3 made of them; the words are the first one's. */
static void words_stay(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_cond *a = prompt_of(m, 20000, 4), *b = prompt_of(m, 60000, 9), *c[4] = {0};
    float plain[VALUES], got[VALUES];
    CHECK(!told_alike(a, b));
    CHECK_OK(graft_cond_average(a, b, 0.25, &c[0], &e), &e);
    CHECK_OK(graft_cond_zero_out(a, &c[1], &e), &e);
    CHECK_OK(graft_cond_concat(a, b, &c[2], &e), &e);
    CHECK_OK(graft_cond_fill(a, &m->arch, &c[3], &e), &e);
    CHECK_INT(c[2]->entry[0]->tokens, 13);
    CHECK(c[3]->entry[0]->tokens == 64 && c[3]->entry[0]->filled == 60);
    sampled(m, a, a, 1, plain);
    for (size_t i = 0; i < COUNT(c); i++) {
        CHECK(told_alike(c[i], a));
        sampled(m, c[i], c[i], 1, got);
        CHECK(i == 3 ? memcmp(got, plain, sizeof got) == 0 : difference(got, plain, VALUES) > 1e-3);
        graft_cond_release(c[i]);
    }
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ changes */

static bool is_kept(const char *layer)
{
    return strncmp(layer, "llm_adapter.", 12) == 0 || strncmp(layer, "x_embedder", 10) == 0 ||
           strncmp(layer, "t_embedder", 10) == 0 || strncmp(layer, "final_layer", 11) == 0;
}

/* Of each block 6 layers of the time, 4 of each attention and 2 of the MLP; of each of the adapter
 * 4 and 4 and 2. Outside of blocks 1, 2 and 3, and the adapter's last. */
static void quantized(void)
{
    const quantized_layers want = {.kept = is_kept,
                                   .tokens = 32,
                                   .attentions = 2 * 2 + 2 * 2,
                                   .linears = 2 * (6 + 8 + 2) + 2 * 10 + 6 + 1};
    quantized_as(engine, TWO, &want, run_some);
}

static void measured(void)
{
    measured_on(engine, TWO, 12, 40);
}

static void halves(void)
{
    halves_add_up(engine, TWO, NULL, run_some);
}

/* The adapter, and what the network's blocks make of its words, is computed once in a sampling: all
 * nodes that read its weights are, the table's EMBEDDING and all attentions of it among them. */
static void once_a_sampling(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_binding *b = NULL;
    size_t of_adapter = 0, tables = 0, attentions = 0;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, 64, NULL, &b, &e), &e);
    const graft_exe *x = b->exe;
    CHECK(x->kept != NULL);
    for (size_t i = 0; x->kept && i < x->graph->n_nodes; i++) {
        const graft_gnode *n = &x->graph->node[i];
        bool reads = false;
        for (int k = 0; k < 4; k++) {
            const graft_gvalue *v = n->in[k] >= 0 ? &x->graph->value[n->in[k]] : NULL;
            reads = reads || (v && v->kind == GRAFT_VALUE_WEIGHT &&
                              strncmp(x->graph->slot[v->index].source[0], "llm_adapter.", 12) == 0);
        }
        CHECK(!reads || x->kept[i].invariant);
        of_adapter += reads;
        tables += n->op == GRAFT_OP_EMBEDDING && x->kept[i].invariant;
        attentions += n->op == GRAFT_OP_ATTENTION && x->kept[i].invariant;
    }
    CHECK(of_adapter > 20);
    CHECK_INT(tables, 1);
    CHECK_INT(attentions, 4);
    graft_binding_release(b);
    graft_model_release(m);
}

/* Compiled beforehand for short prompts, with a negative one, it runs them in that graph. */
static void compiled(void)
{
    graft_err e = GRAFT_ERR_INIT;
    float got[VALUES], want[VALUES];
    graft_model *m = load_model(engine, ONE), *n = NULL;
    const graft_compile_options o = {.precision = "f32",
                                     .tuning = "fast",
                                     .device = "cpu",
                                     .cache = false,
                                     .width = 8 * SIDE,
                                     .height = 8 * SIDE,
                                     .batch_size = 1};
    graft_cond *a = prompt_of(m, 20000, 12), *b = prompt_of(m, 60000, 3);
    CHECK_OK(graft_model_compile(m, &o, NULL, &n, &e), &e);
    const uint64_t built = graphs_built(engine);
    sampled(n, a, b, 4, got);
    CHECK_INT(graphs_built(engine), built);
    sampled(m, a, b, 4, want);
    CHECK(difference(got, want, VALUES) < 1e-5);
    graft_cond_release(a);
    graft_cond_release(b);
    RELEASE_ALL(m, n);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(as_published);
    RUN(saved);
    RUN(gguf);
    RUN(without_tensors);
    RUN(without_the_adapter);
    RUN(of_another_kind);
    RUN(what_does_not_go_with_it);
    RUN(loras);
    RUN(loras_in_other_names);
    RUN(prompts_of_any_length);
    RUN(other_schedules);
    RUN(empty_latents);
    RUN(other_prompts);
    RUN(words_stay);
    RUN(quantized);
    RUN(measured);
    RUN(halves);
    RUN(once_a_sampling);
    RUN(compiled);
    graft_engine_destroy(engine);
    return test_end();
}
