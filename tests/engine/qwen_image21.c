/* Qwen-Image 2.1: which files it is found in and under which names, prompts of any length, what is
 * computed once, and what does not go with it. What the network computes is held against
 * golden/small/qwen_image21_one and _two. */
#include <math.h>

#include "engine/exec/invariants.h"
#include "engine/models/qwen_image21.h"
#include "tests/engine/network_changes.h"

static graft_engine *engine;

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TWO      GRAFT_SOURCE_DIR "/golden/small/qwen_image21_two.safetensors"
#define ONE      GRAFT_SOURCE_DIR "/golden/small/qwen_image21_one.safetensors"

enum { VALUES = 64 * SIDE * SIDE, WORDS_MAX = 96, WIDTH_MAX = 40 };

static void evaluate(const graft_model *m, uint64_t seed, int words, const float *x, float t,
                     float out[VALUES])
{
    static float context[WORDS_MAX * WIDTH_MAX];
    const float y = (float)words;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.context_dim <= WIDTH_MAX && words <= WORDS_MAX);
    for (int64_t i = 0; i < words * m->arch.context_dim; i++)
        context[i] = fixed_value(seed + (uint64_t)i);
    memset(out, 0, answer_values(m) * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, words, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, &y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
}

static void run_some(const graft_model *m, float *out)
{
    static float x[VALUES];
    for (size_t i = 0; i < VALUES; i++) x[i] = fixed_value(i);
    evaluate(m, 20000, 5, x, 400, out);
}

/* ------------------------------------------------------------------ names */

/* The network in diffusers' names, below a prefix: the layers in front of a gate are apart. */
static made_file *in_pieces(const char *path, const char *prefix)
{
    made_file *own = part_of_file(path, UNET), *d = calloc(1, sizeof *d);
    for (size_t i = 0; i < own->n; i++) {
        const graft_st_tensor *t = &own->tensor[i];
        const char *at = strstr(t->name, ".gate_up.weight");
        const int64_t half[2] = {t->shape[0] / 2, t->shape[1]};
        char name[200];
        for (int k = 0; k < (at ? 2 : 1); k++) {
            snprintf(name, sizeof name, "%s%.*s%s", prefix,
                     at ? (int)(at - t->name) : (int)strlen(t->name), t->name,
                     !at ? ""
                     : k ? ".proj.weight"
                         : ".gate_layer.weight");
            add_tensor(d, name, t->rank, at ? half : t->shape,
                       (const float *)t->data + (k ? half[0] * half[1] : 0), 0);
        }
    }
    finish_file(own);
    return d;
}

static const char *written(const char *checkpoint, const char *prefix, const char *name)
{
    const char *path = temp_path(name);
    write_file(in_pieces(checkpoint, prefix), path, config_of(checkpoint));
    return path;
}

/* ------------------------------------------------------------------ loading */

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_qwen_image21_arch *a = &two->arch.qwen_image21, *b = &one->arch.qwen_image21;
    CHECK(a->depth == 2 && a->heads == 3 && a->hidden == 48 && a->mlp == 80);
    CHECK(a->rope_dim == 6 && a->channels == 64 && a->time_dim == 256 && a->context_dim == 24);
    CHECK(b->depth == 1 && b->heads == 2 && b->hidden == 64 && b->mlp == 96);
    CHECK(b->rope_dim == 14 && b->channels == 8 && b->context_dim == 40);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_QWEN_IMAGE21 && !m->arch.adm_channels && !m->arch.beside);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && !m->preview.channels);
        CHECK_NEAR(m->flow_shift, 1.993716, 1e-6);
        CHECK(graft_net_cell(&m->arch) == 16 && graft_net_patch(&m->arch) == 1);
        CHECK_STR(graft_net_kind_name(&m->arch), "qwen_image21");
    }
    CHECK(two->planes == &graft_qwen_image21_planes && !one->planes);
    RELEASE_ALL(two, one);
}

/* Without a prefix, as ComfyUI's files are, 7 of 16 of a head turn with the row. */
static void as_published(void)
{
    const char *path = temp_path("plain.safetensors");
    write_file(part_of_file(ONE, UNET), path, NULL);
    same_in_file(engine, ONE, path, run_some);
}

static void same_in_diffusers_names(void)
{
    same_in_file(engine, TWO, written(TWO, "", "transformer.safetensors"), run_some);
    same_in_file(engine, ONE, written(ONE, "", "transformer.safetensors"), run_some);
    same_in_file(engine, TWO, written(TWO, UNET, "transformer.safetensors"), run_some);
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
    const char *path = written(ONE, "", "oom.safetensors");
    adopt_short_of_memory(path, graft_diffusers_adopt_net);
    unlink(path);
}

static void gguf(void)
{
    same_in_gguf(engine, ONE, "qwen_image21", config_of(ONE), run_some);
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
        made_file *all = other ? in_pieces(TWO, "") : part_of_file(TWO, UNET);
        CHECK(all->n == (size_t)(9 + 2 * (8 + other)));
        for (size_t i = 0; i < all->n; i++) {
            made_file *f = other ? in_pieces(TWO, "") : part_of_file(TWO, UNET);
            const char *name = all->tensor[i].name;
            drop_tensor(f, name);
            if (strcmp(name, GRAFT_QWEN_IMAGE21_TENSOR) == 0) { /* by which it is told */
                graft_err e = GRAFT_ERR_INIT;
                check_refused(engine, f, NULL, GRAFT_E_UNSUPPORTED, "unknown architecture", &e);
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
    static const char norm[] = "transformer_blocks.0.attn.norm_q.weight";
    static const char gate[] = "transformer_blocks.1.img_mlp.gate_up.weight";
    graft_err e = GRAFT_ERR_INIT;
    other_shape(norm, 1, 15, 0, GRAFT_E_UNSUPPORTED, "heads of 15");
    other_shape(norm, 1, 0, 0, GRAFT_E_FORMAT, norm);
    other_shape(gate, 2, 80, 48, GRAFT_E_FORMAT, gate);
    other_shape("modulation.1.weight", 2, 6 * 48, 48, GRAFT_E_FORMAT, "modulation.1.weight");
    other_shape("proj_out.weight", 2, 63, 48, GRAFT_E_FORMAT, "proj_out.weight");
    other_shape("txt_in.text_norm.weight", 1, 23, 0, GRAFT_E_FORMAT, "txt_in.in_layer.weight");
    made_file *f = in_pieces(TWO, "");
    add_tensor(f, "transformer_blocks.70000.attn.to_q.weight", 1, (int64_t[]){16}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "has no tensor transformer_blocks.70000");
    f = part_of_file(TWO, UNET);
    check_refused(engine, f, "{\"rope_dim\": 10}", GRAFT_E_UNSUPPORTED, "of which 10 turn", &e);
}

/* By a loader of something else it is told by its name. */
static void told_by_its_name(void)
{
    const char *path = temp_path("transformer.safetensors");
    for (int i = 0; i < 2; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_clip *c = NULL;
        write_file(i ? in_pieces(TWO, "") : part_of_file(TWO, UNET), path, NULL);
        CHECK_INT(graft_clip_load(engine, &path, 1, "krea2", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
        CHECK(!c && strstr(e.text, "no Qwen 3 text encoder in it"));
        CHECK(strstr(e.text, "(Qwen-Image 2.1)") && strstr(e.text, "UNETLoader"));
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
        .batch = 1, .height = 8, .width = 8, .tokens = 32, .act_dtype = GRAFT_F16};
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

/* A layer of a weight, or some of its rows, by the name that a LoRA has for it. */
typedef struct lora_of {
    const char *weight, *name;
    int64_t from, rows; /* rows 0: all of them */
} lora_of;

static float *matrix(made_file *f, const char *layer, const char *part, int64_t rows,
                     int64_t columns)
{
    char name[300];
    snprintf(name, sizeof name, "%s.%s.weight", layer, part);
    return add_tensor(f, name, 2, (int64_t[]){rows, columns}, NULL, 0.5f);
}

/* Such a LoRA, and the network with it. */
static void write_lora(const lora_of *l, const char *lora, const char *whole)
{
    made_file *f = calloc(1, sizeof *f), *m = part_of_file(TWO, UNET);
    graft_st_tensor *t = made_find(m, l->weight);
    const int64_t rows = l->rows ? l->rows : t->shape[0], columns = t->shape[1];
    float *w = (float *)(uintptr_t)t->data + l->from * columns;
    const float *up = matrix(f, l->name, "lora_B", rows, 2);
    const float *down = matrix(f, l->name, "lora_A", 2, columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            w[r * columns + c] += up[2 * r] * down[c] + up[2 * r + 1] * down[columns + c];
    write_file(f, lora, NULL);
    write_file(m, whole, config_of(TWO));
}

static void one_lora(const graft_model *m, const lora_of *l, const float *plain)
{
    static float got[VALUES], want[VALUES];
    const char *lora = temp_path("lora.safetensors"), *whole = temp_path("merged.safetensors");
    write_lora(l, lora, whole);
    last_log[0] = 0;
    graft_model *w = load_model(engine, whole), *x = with_lora(m, lora, 1);
    CHECK_STR(last_log, "");
    run_some(w, want);
    run_some(x, got);
    CHECK(difference(got, want, VALUES) < 5e-5);
    CHECK(difference(plain, want, VALUES) > 1e-4);
    if (difference(plain, want, VALUES) <= 1e-4) printf("  %s changes nothing\n", l->name);
    RELEASE_ALL(w, x);
    unlink(lora);
    unlink(whole);
}

/* Each layer alone, by ComfyUI's name and by diffusers': that none is taken for another, and that
 * every one changes something. */
static void loras(void)
{
    static float plain[VALUES];
    graft_model *m = load_model(engine, TWO);
    made_file *f = part_of_file(TWO, UNET);
    size_t n = 0;
    run_some(m, plain);
    for (size_t i = 0; i < f->n; i++) {
        const char *weight = f->tensor[i].name, *gate = strstr(weight, "gate_up.weight");
        const int length = (int)(strlen(weight) - strlen(".weight"));
        char name[300];
        if (f->tensor[i].rank != 2 || strncmp(weight, "transformer_blocks.1", 20) == 0) continue;
        snprintf(name, sizeof name, "diffusion_model.%.*s", length, weight);
        one_lora(m, &(lora_of){weight, name, 0, 0}, plain);
        n++;
        for (int k = 0; k < (gate ? 2 : 1); k++, n++) {
            const int64_t half = f->tensor[i].shape[0] / 2;
            snprintf(name, sizeof name, "transformer.%.*s%s", gate ? (int)(gate - weight) : length,
                     weight,
                     !gate ? ""
                     : k   ? "proj"
                           : "gate_layer");
            one_lora(m, &(lora_of){weight, name, k * half, gate ? half : 0}, plain);
        }
    }
    CHECK_INT(n, 2 * (6 + 8) + 1);
    finish_file(f);
    graft_model_release(m);
}

/* The same LoRA in the names of several programs. */
static void loras_in_other_names(void)
{
    static const struct {
        const char *stem, *up, *down;
        bool alpha;
    } names[] = {
        {"diffusion_model.transformer_blocks.1.attn.to_k", "lora_B", "lora_A", false},
        {"transformer_blocks.1.attn.to_k", "lora_B", "lora_A", false},
        {"diffusion_model.transformer_blocks.1.attn.to_k", "lora_up", "lora_down", true},
        {"transformer.transformer_blocks.1.attn.to_k", "lora_B", "lora_A", false},
        {"transformer_blocks.1.attn.to_k", "lora_B.default", "lora_A.default", false},
        {"lora_unet_transformer_blocks_1_attn_to_k", "lora_up", "lora_down", true},
    };
    static float plain[VALUES], first[VALUES], got[VALUES];
    const char *path = temp_path("lora.safetensors");
    graft_model *m = load_model(engine, TWO);
    run_some(m, plain);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_file *f = calloc(1, sizeof *f);
        char alpha[200];
        random_state = 11;
        matrix(f, names[i].stem, names[i].up, 48, 2);
        matrix(f, names[i].stem, names[i].down, 2, 48);
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

/* Euler's steps on the network itself; cfg 1: without a negative prompt. */
static void by_hand(const graft_model *m, const int words[2], float cfg, float out[VALUES])
{
    static float x[VALUES], v[VALUES], w[VALUES];
    double sigma[STEPS + 1] = {0};
    memset(x, 0, sizeof x);
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
    graft_model_unscale_latent(m, x, VALUES, SIDE * SIDE, out);
}

/* Prompts are seen as long as they are, and up to 64 tokens run in the same graph, side by side; 65
 * to 128 in another. */
static void prompts_of_any_length(void)
{
    static const int words[][2] = {{5, 9}, {7, 7}, {1, 33}, {64, 2}, {65, 90}, {96, 1}};
    static float got[VALUES], want[VALUES], before[VALUES];
    graft_model *m = load_model(engine, TWO);
    for (size_t i = 0; i < COUNT(words); i++)
        for (int guided = 0; guided < 2; guided++) {
            graft_cond *a = prompt_of(m, 20000, words[i][0]), *b = prompt_of(m, 60000, words[i][1]);
            const uint64_t built = graphs_built(engine);
            sampled(m, a, b, guided ? 4 : 1, got);
            CHECK_INT(graphs_built(engine) - built, i == 0 || i == 4); /* alone, or two at once */
            by_hand(m, words[i], guided ? 4 : 1, want);
            CHECK(difference(got, want, VALUES) < 2e-3 && difference(got, before, VALUES) > 1e-2);
            memcpy(before, got, sizeof got);
            graft_cond_release(a);
            graft_cond_release(b);
        }
    graft_model_release(m);
}

/* What the network makes of a prompt changes neither with the time nor with the picture: it is
 * computed in the first run of a series, and later ones read no prompt. */
static void prompts_are_read_once(void)
{
    enum { WORDS = 64 };
    static float context[WORDS * WIDTH_MAX], x[2][VALUES], want[VALUES], got[VALUES];
    const float time[2] = {700, 300};
    float y = 9;
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_binding *b = NULL;
    graft_invariants *series = NULL;
    size_t attentions = 0, once = 0;
    for (size_t i = 0; i < 2 * VALUES; i++) x[i / VALUES][i % VALUES] = fixed_value(i);
    for (size_t i = 0; i < WORDS * 24; i++) context[i] = fixed_value(20000 + i);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, WORDS, NULL, &b, &e), &e);
    if (!b) return;
    for (size_t i = 0; i < b->exe->graph->n_nodes; i++) {
        const bool attends = b->exe->graph->node[i].op == GRAFT_OP_ATTENTION;
        attentions += attends;
        once += attends && b->exe->kept && b->exe->kept[i].invariant;
    }
    CHECK(attentions == 3 && once == 1); /* behind the last block's nobody reads the prompt */
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x[1], &time[1], context, &y},
                           (void *[]){want}, NULL, NULL, &e),
             &e);
    CHECK_OK(graft_invariants_create(b->exe, engine->kept, &series, &e), &e);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(graft_exe_run_again(b, engine->arenas, series,
                                     (const void *[]){x[i], &time[i], context, &y}, (void *[]){got},
                                     NULL, &e),
                 &e);
        for (size_t k = 0; k < WORDS * 24; k++) context[k] = NAN;
        y = NAN;
    }
    CHECK(same_answers(m, got, want));
    graft_invariants_destroy(series);
    graft_binding_release(b);
    graft_model_release(m);
}

/* An empty latent of other channels becomes one of these, with a place for each 16 pixels. */
static void empty_latents(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *l = NULL;
    int64_t shape[4];
    CHECK_OK(graft_latent_empty(4, 72, 104, 1, &l, &e), &e);
    CHECK_OK(graft_latent_shape_for(l, 64, shape, &e), &e);
    CHECK(shape[1] == 64 && shape[2] == 6 && shape[3] == 4);
    graft_latent_release(l);
    CHECK_OK(graft_latent_empty(64, 1024, 512, 1, &l, &e), &e);
    graft_latent_data(l, shape);
    CHECK(shape[1] == 64 && shape[2] == 32 && shape[3] == 64);
    graft_latent_release(l);
}

static bool is_kept(const char *layer)
{
    return strcmp(layer, "img_in") == 0 || strcmp(layer, "proj_out") == 0 ||
           strcmp(layer, "modulation.1") == 0 || strcmp(layer, "norm_out.linear") == 0 ||
           strncmp(layer, "time_text_embed.", 16) == 0;
}

/* A layer of the prompt and of the picture is one. */
static void quantized(void)
{
    const quantized_layers want = {
        .kept = is_kept, .tokens = 32, .attentions = 2, .linears = 2 * 6 + 8};
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
    RUN(prompts_are_read_once);
    RUN(empty_latents);
    RUN(quantized);
    RUN(measured);
    RUN(halves);
    graft_engine_destroy(engine);
    return test_end();
}
