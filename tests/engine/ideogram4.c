/* Ideogram 4: which files it is found in and under which names, prompts of any length and none, and
 * what does not go with it. What the network computes is held against golden/small/ideogram4_*; its
 * two models together are two_models.c's. */
#include "engine/models/ideogram4.h"
#include "tests/engine/network_changes.h"

static graft_engine *engine;

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TWO      GRAFT_SOURCE_DIR "/golden/small/ideogram4_two.safetensors"
#define ONE      GRAFT_SOURCE_DIR "/golden/small/ideogram4_one.safetensors"

enum { VALUES = 12 * SIDE * SIDE, WORDS_MAX = 96, WIDTH_MAX = 65 };

/* words 0: none of the tokens is the prompt's. */
static void evaluate(const graft_model *m, uint64_t seed, int words, const float *x, float t,
                     float out[VALUES])
{
    static float context[WORDS_MAX * WIDTH_MAX];
    const float y = (float)words;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.context_dim <= WIDTH_MAX && words <= WORDS_MAX);
    for (int64_t i = 0; i < (words ? words : 3) * m->arch.context_dim; i++)
        context[i] = fixed_value(seed + (uint64_t)i);
    memset(out, 0, answer_values(m) * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, words ? words : 3, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, &y},
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

/* What diffusers calls the parts of an attention, written down here once more. */
static const char *theirs(const char *ours)
{
    static char text[8][256];
    static int turn;
    char *p = text[turn++ & 7];
    const char *at = strstr(ours, ".attention.o.");
    snprintf(p, sizeof text[0], "%s", ours);
    if (at)
        snprintf(p, sizeof text[0], "%.*s.attention.to_out.0.%s", (int)(at - ours), ours,
                 at + strlen(".attention.o."));
    return p;
}

/* The network in diffusers' names: what computes queries, keys and values is three matrices. */
static made_file *diffusers_ideogram4(const char *path)
{
    made_file *own = part_of_file(path, UNET), *d = calloc(1, sizeof *d);
    for (size_t i = 0; i < own->n; i++) {
        const graft_st_tensor *t = &own->tensor[i];
        const char *at = strstr(t->name, ".qkv.");
        const int64_t rows = t->shape[0] / 3, columns = t->shape[1];
        for (int k = 0; at && k < 3; k++) {
            char name[200];
            snprintf(name, sizeof name, "%.*s.to_%c.weight", (int)(at - t->name), t->name,
                     "qkv"[k]);
            add_tensor(d, name, 2, (int64_t[]){rows, columns},
                       (const float *)t->data + k * rows * columns, 0);
        }
        if (!at) add_tensor(d, theirs(t->name), t->rank, t->shape, t->data, 0);
    }
    finish_file(own);
    return d;
}

static const char *written(const char *checkpoint, const char *name)
{
    const char *path = temp_path(name);
    write_file(diffusers_ideogram4(checkpoint), path, config_of(checkpoint));
    return path;
}

/* ------------------------------------------------------------------ loading */

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_ideogram4_arch *a = &two->arch.ideogram4, *b = &one->arch.ideogram4;
    CHECK(a->depth == 2 && a->heads == 3 && a->hidden == 96 && a->mlp == 80 && a->told == 20);
    CHECK(a->rope_dim == 10 && a->channels == 12 && two->arch.context_dim == 65);
    CHECK(b->depth == 1 && b->heads == 2 && b->hidden == 40 && b->mlp == 56 && b->told == 12);
    CHECK(b->rope_dim == 4 && b->channels == 8 && one->arch.context_dim == 39);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_IDEOGRAM4 && !m->arch.adm_channels && !m->arch.beside);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == (i ? 8 : 12));
        CHECK(m->flow_shift == 1 && m->flow_steps == 1000 && !m->promptless);
        CHECK(!m->planes && m->scale_factor == 1 && m->latent_shift == 0 && !m->preview.channels);
        CHECK_INT(graft_net_cell(&m->arch), GRAFT_IDEOGRAM4_CELL);
        CHECK_STR(graft_net_kind_name(&m->arch), "ideogram4");
    }
    RELEASE_ALL(two, one);
}

/* In a head of 64 values 10 turn with the row where the file does not say how many. */
static void heads_of_the_published(void)
{
    const char *path = temp_path("plain.safetensors");
    made_file *f = part_of_file(TWO, UNET);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%d.attention.norm_%c.weight", i, "qk"[k]);
            drop_tensor(f, name);
            add_tensor(f, name, 1, (int64_t[]){k ? 48 : 64}, NULL, 1);
        }
    write_file(f, path, NULL);
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = NULL;
    CHECK_INT(graft_model_load(engine, path, NULL, &m, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!m && strstr(e.text, "width 96 with heads of 64, of which 10 turn with the row"));
    unlink(path);
}

/* What guidance and its VAE's normalization take from it: 128 planes, of which four are a channel's
 * in the cells of a square. */
static void planes(void)
{
    const graft_latent_planes *p = &graft_ideogram4_planes;
    const char *path = temp_path("wide.safetensors");
    made_file *f = part_of_file(TWO, UNET);
    CHECK_INT(p->n, 128);
    CHECK_NEAR(p->mean[0], 0.0485138, 1e-6);
    CHECK_NEAR(p->deviation[0], 0.909297, 1e-5);
    CHECK_NEAR(p->mean[4], 0.0447118, 1e-6);
    CHECK_NEAR(p->deviation[4], 0.960671, 1e-5);
    for (int i = 0; i < p->n; i++) CHECK(fabsf(p->mean[i]) < 0.3f && p->deviation[i] > 0.7f);
    drop_tensor(f, "input_proj.weight"), drop_tensor(f, "final_layer.linear.weight");
    drop_tensor(f, "final_layer.linear.bias");
    add_tensor(f, "input_proj.weight", 2, (int64_t[]){96, 128}, NULL, 0.1f);
    add_tensor(f, "final_layer.linear.weight", 2, (int64_t[]){128, 96}, NULL, 0.1f);
    add_tensor(f, "final_layer.linear.bias", 1, (int64_t[]){128}, NULL, 0.1f);
    write_file(f, path, config_of(TWO));
    graft_model *m = load_model(engine, path);
    CHECK(m->planes == p);
    float latent[2 * 128], seen[2 * 128], back[2 * 128];
    for (size_t i = 0; i < COUNT(latent); i++) latent[i] = fixed_value(i);
    graft_model_scale_latent(m, latent, COUNT(latent), 2, seen);
    CHECK_NEAR(seen[9], (latent[9] - 0.0447118f) / 0.960671f, 1e-5);
    graft_model_unscale_latent(m, seen, COUNT(latent), 2, back);
    CHECK(difference(latent, back, COUNT(latent)) < 1e-6);
    graft_model_release(m);
    unlink(path);
}

/* As its authors publish it: without a prefix. */
static void as_published(void)
{
    const char *path = temp_path("plain.safetensors");
    write_file(part_of_file(TWO, UNET), path, config_of(TWO));
    same_in_file(engine, TWO, path, run_some);
}

static void same_in_diffusers_names(void)
{
    same_in_file(engine, TWO, written(TWO, "transformer.safetensors"), run_some);
    same_in_file(engine, ONE, written(ONE, "transformer.safetensors"), run_some);
}

static void saved(void)
{
    const char *path = temp_path("plain.safetensors");
    write_file(part_of_file(TWO, UNET), path, config_of(TWO));
    saved_like(engine, path, TWO);
    unlink(path);
}

static void no_memory_for_names(void)
{
    const char *path = written(ONE, "oom.safetensors");
    adopt_short_of_memory(path, graft_diffusers_adopt_net);
    unlink(path);
}

static void gguf(void)
{
    same_in_gguf(engine, TWO, "ideogram4", config_of(TWO), run_some);
}

/* ------------------------------------------------------------------ damage */

static void refused(made_file *f, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, config_of(TWO), status, words, &e);
}

/* Any of them, in either's names. */
static void without_tensors(void)
{
    for (int other = 0; other < 2; other++) {
        made_file *all = other ? diffusers_ideogram4(TWO) : part_of_file(TWO, UNET);
        CHECK_INT(all->n, 2 * (other ? 15 : 13) + 16);
        for (size_t i = 0; i < all->n; i++) {
            made_file *f = other ? diffusers_ideogram4(TWO) : part_of_file(TWO, UNET);
            const char *name = all->tensor[i].name;
            const bool tells = strcmp(name, GRAFT_IDEOGRAM4_TENSOR) == 0;
            drop_tensor(f, name);
            /* by which it is told */
            if (tells || (other && strcmp(name, "layers.0.attention.to_q.weight") == 0)) {
                graft_err e = GRAFT_ERR_INIT;
                check_refused(engine, f, config_of(TWO),
                              tells ? GRAFT_E_UNSUPPORTED : GRAFT_E_FORMAT,
                              tells ? "unknown architecture" : "layers.0.attention.", &e);
            } else {
                refused(f, GRAFT_E_FORMAT, name);
            }
        }
        finish_file(all);
    }
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
    static const char norm[] = "layers.0.attention.norm_q.weight";
    graft_err e = GRAFT_ERR_INIT;
    other_shape(norm, 1, 31, 0, GRAFT_E_UNSUPPORTED, "heads of 31");
    other_shape(norm, 1, 0, 0, GRAFT_E_FORMAT, norm);
    other_shape("layers.0.attention.qkv.weight", 2, 287, 96, GRAFT_E_UNSUPPORTED, "287 rows of");
    other_shape("layers.1.attention.qkv.weight", 2, 96, 96, GRAFT_E_FORMAT, "layers.1.attention");
    other_shape("input_proj.weight", 2, 96, 13, GRAFT_E_FORMAT, "input_proj.weight");
    other_shape("input_proj.weight", 2, 96, 16, GRAFT_E_FORMAT, "final_layer.linear.");
    other_shape("llm_cond_proj.weight", 2, 96, 66, GRAFT_E_FORMAT, "llm_cond_proj.weight");
    other_shape("llm_cond_proj.weight", 2, 96, 52, GRAFT_E_FORMAT, "llm_cond_norm.weight");
    other_shape("embed_image_indicator.weight", 2, 3, 96, GRAFT_E_FORMAT, "embed_image_indicator");
    other_shape("layers.1.adaln_modulation.weight", 2, 288, 20, GRAFT_E_FORMAT, "layers.1.adaln");
    other_shape("final_layer.adaln_modulation.bias", 1, 95, 0, GRAFT_E_FORMAT, "final_layer.adaln");
    other_shape("adaln_proj.bias", 1, 21, 0, GRAFT_E_FORMAT, "adaln_proj.bias");
    other_shape("t_embedding.mlp_in.weight", 2, 96, 95, GRAFT_E_FORMAT, "t_embedding.mlp_in");
    made_file *f = diffusers_ideogram4(TWO);
    add_tensor(f, "layers.0.attention.to_q.bias", 1, (int64_t[]){96}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "Ideogram 4's transformer has no tensor layers.0.attention");
    f = diffusers_ideogram4(TWO);
    add_tensor(f, "layers.70000.attention_norm1.weight", 1, (int64_t[]){96}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "has no tensor layers.70000");
    f = part_of_file(TWO, UNET);
    check_refused(engine, f, "{\"rope_dim\": 12}", GRAFT_E_UNSUPPORTED, "of which 12 turn", &e);
}

/* By a loader of something else it is told by its name. */
static void told_by_its_name(void)
{
    const char *path = temp_path("transformer.safetensors");
    for (int i = 0; i < 2; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_clip *c = NULL;
        write_file(i ? diffusers_ideogram4(TWO) : part_of_file(TWO, UNET), path, NULL);
        CHECK_INT(graft_clip_load(engine, &path, 1, "ideogram4", NULL, &c, &e),
                  GRAFT_E_UNSUPPORTED);
        CHECK(!c && strstr(e.text, "no Qwen 3 text encoder in it"));
        CHECK(strstr(e.text, "a diffusion transformer (Ideogram 4)"));
        CHECK(strstr(e.text, "UNETLoader"));
        unlink(path);
    }
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
        .batch = 1, .height = 8, .width = 7, .tokens = 32, .act_dtype = GRAFT_F16};
    graft_graph *g = NULL;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape.act_dtype = GRAFT_F32;
    shape.control = 1;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape.control = 0;
    shape.references.n = 1;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
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

/* A LoRA by this name for so many rows of one weight from `first` on, and the network with it. */
static void write_lora(const char *weight, const char *layer, int64_t first, int64_t rows,
                       const char *lora, const char *whole)
{
    made_file *f = calloc(1, sizeof *f), *m = part_of_file(TWO, UNET);
    graft_st_tensor *t = made_find(m, weight);
    const int64_t columns = t->shape[1];
    const float *up = matrix(f, layer, "lora_B", rows, 2);
    const float *down = matrix(f, layer, "lora_A", 2, columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            ((float *)(uintptr_t)t->data)[(first + r) * columns + c] +=
                up[2 * r] * down[c] + up[2 * r + 1] * down[columns + c];
    write_file(f, lora, NULL);
    write_file(m, whole, config_of(TWO));
}

static void lora_like_merged(const graft_model *m, const char *lora, const char *whole)
{
    float plain[VALUES], got[VALUES], want[VALUES];
    last_log[0] = 0;
    graft_model *w = load_model(engine, whole), *x = with_lora(m, lora, 1);
    CHECK_STR(last_log, "");
    run_some(m, plain);
    run_some(w, want);
    run_some(x, got);
    CHECK(difference(got, want, VALUES) < 1e-4);
    CHECK(difference(plain, want, VALUES) > 1e-4);
    RELEASE_ALL(w, x);
}

/* Each layer alone, in the names of both: that none is taken for another, and that every one
 * changes something. */
static void loras(void)
{
    const char *lora = temp_path("lora.safetensors"), *whole = temp_path("merged.safetensors");
    graft_model *m = load_model(engine, TWO);
    made_file *f = part_of_file(TWO, UNET);
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        const char *ours = f->tensor[i].name;
        const int stem = (int)(strlen(ours) - strlen(".weight"));
        const int64_t rows = f->tensor[i].shape[0];
        char name[300];
        if (f->tensor[i].rank != 2 || strncmp(ours, "layers.1", 8) == 0) continue;
        if (strncmp(ours, "embed_image", 11) == 0) continue;
        for (int other = 0; other < 2; other++, n++) {
            const char *called = other ? theirs(ours) : ours;
            snprintf(name, sizeof name, "%s.%.*s", other ? "transformer" : "diffusion_model",
                     (int)(strlen(called) - strlen(".weight")), called);
            if (!other || !strstr(ours, ".qkv.")) {
                write_lora(ours, name, 0, rows, lora, whole);
                lora_like_merged(m, lora, whole);
                continue;
            }
            for (int k = 0; k < 3; k++) {
                snprintf(name, sizeof name, "transformer.%.*sto_%c", stem - 3, ours, "qkv"[k]);
                write_lora(ours, name, k * rows / 3, rows / 3, lora, whole);
                lora_like_merged(m, lora, whole);
            }
        }
    }
    CHECK_INT(n, 2 * (6 + 7));
    finish_file(f);
    graft_model_release(m);
    unlink(lora);
    unlink(whole);
}

/* The same LoRA in the names of several programs. */
static void loras_in_other_names(void)
{
    static const struct {
        const char *stem, *up, *down;
        bool alpha;
    } names[] = {
        {"diffusion_model.layers.1.attention.o", "lora_B", "lora_A", false},
        {"layers.1.attention.o", "lora_B", "lora_A", false},
        {"diffusion_model.layers.1.attention.o", "lora_up", "lora_down", true},
        {"lora_unet_layers_1_attention_o", "lora_up", "lora_down", true},
        {"transformer.layers.1.attention.to_out.0", "lora_B", "lora_A", false},
        {"layers.1.attention.to_out.0", "lora_B.default", "lora_A.default", false},
        {"lora_unet_layers_1_attention_to_out_0", "lora_up", "lora_down", true},
    };
    const char *path = temp_path("lora.safetensors");
    float plain[VALUES], first[VALUES], got[VALUES];
    graft_model *m = load_model(engine, TWO);
    run_some(m, plain);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_file *f = calloc(1, sizeof *f);
        char alpha[200];
        random_state = 11;
        matrix(f, names[i].stem, names[i].up, 96, 2);
        matrix(f, names[i].stem, names[i].down, 2, 96);
        snprintf(alpha, sizeof alpha, "%s.alpha", names[i].stem);
        if (names[i].alpha) add_tensor(f, alpha, 1, (int64_t[]){1}, (const float[]){2}, 0);
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

/* Euler's steps of "simple" on the network itself; cfg 1: without a negative prompt. */
static void by_hand(const graft_model *m, const int words[2], float cfg, float out[VALUES])
{
    float x[VALUES] = {0}, v[VALUES], w[VALUES];
    double sigma[STEPS + 1] = {0};
    for (int i = 0; i < STEPS; i++) sigma[i] = 1 - (double)(i * 1000 / STEPS) / 1000;
    for (int i = 0; i < STEPS; i++) {
        evaluate(m, 20000, words[0], x, (float)(1000 * sigma[i]), v);
        if (cfg > 1) evaluate(m, 60000, words[1], x, (float)(1000 * sigma[i]), w);
        for (int k = 0; k < VALUES; k++) {
            float d = cfg > 1 ? w[k] + cfg * (v[k] - w[k]) : v[k];
            x[k] += (float)(sigma[i + 1] - sigma[i]) * d;
        }
    }
    graft_model_unscale_latent(m, x, VALUES, SIDE * SIDE, out);
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
            CHECK(difference(got, want, VALUES) < 2e-4 && difference(got, before, VALUES) > 1e-3);
            memcpy(before, got, sizeof got);
            graft_cond_release(a);
            graft_cond_release(b);
        }
    graft_model_release(m);
}

/* A prompt that was made zeros is none, however long it was; what is put into it later is one. */
static void zeros_are_no_prompt(void)
{
    float got[VALUES], want[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    for (int words = 3; words < 96; words += 80) {
        graft_cond *a = prompt_of(m, 20000, 7), *b = prompt_of(m, 60000, words), *none = NULL;
        CHECK_OK(graft_cond_zero_out(b, &none, &e), &e);
        sampled(m, a, none, 4, got);
        by_hand(m, (const int[]){7, 0}, 4, want);
        CHECK(difference(got, want, VALUES) < 2e-4);
        sampled(m, none, none, 1, got);
        by_hand(m, (const int[]){0, 0}, 1, want);
        CHECK(difference(got, want, VALUES) < 2e-4);
        /* Zeros that nobody asked for are words. */
        memset(b->entry[0]->data, 0, (size_t)(words * 65) * sizeof(float));
        sampled(m, b, b, 1, got);
        CHECK(difference(got, want, VALUES) > 1e-3);
        graft_cond_release(a);
        graft_cond_release(b);
        graft_cond_release(none);
    }
    graft_model_release(m);
}

/* Words have places: in another order they are another prompt. */
static void order_of_words(void)
{
    float out[2][VALUES];
    graft_model *m = load_model(engine, TWO);
    for (int i = 0; i < 2; i++) {
        graft_cond *c = prompt_of(m, 20000, 2);
        float *v = c->entry[0]->data, first[65];
        memcpy(first, v, sizeof first);
        if (i) memcpy(v, v + 65, sizeof first), memcpy(v + 65, first, sizeof first);
        sampled(m, c, c, 1, out[i]);
        graft_cond_release(c);
    }
    CHECK(difference(out[0], out[1], VALUES) > 1e-3);
    graft_model_release(m);
}

static bool is_kept(const char *layer)
{
    return strcmp(layer, "input_proj") == 0 || strncmp(layer, "final_layer.", 12) == 0 ||
           strncmp(layer, "t_embedding.", 12) == 0 || strcmp(layer, "adaln_proj") == 0 ||
           strcmp(layer, "embed_image_indicator") == 0;
}

static void quantized(void)
{
    const quantized_layers want = {
        .kept = is_kept, .tokens = 32, .attentions = 2, .linears = 2 * 6 + 7};
    quantized_as(engine, TWO, &want, run_some);
}

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
    RUN(heads_of_the_published);
    RUN(planes);
    RUN(as_published);
    RUN(same_in_diffusers_names);
    RUN(saved);
    RUN(no_memory_for_names);
    RUN(gguf);
    RUN(without_tensors);
    RUN(of_another_kind);
    RUN(told_by_its_name);
    RUN(what_does_not_go_with_it);
    RUN(loras);
    RUN(loras_in_other_names);
    RUN(prompts_of_any_length);
    RUN(zeros_are_no_prompt);
    RUN(order_of_words);
    RUN(quantized);
    RUN(measured);
    RUN(halves);
    graft_engine_destroy(engine);
    return test_end();
}
