/* Qwen-Image: which files it is found in and under which names, prompts of any length, its latents,
 * and what does not go with it. What the network computes is held against
 * golden/small/qwen_image_*.
 */
#include <math.h>

#include "engine/models/qwen_image.h"
#include "tests/engine/network_changes.h"

static graft_engine *engine;

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TWO      GRAFT_SOURCE_DIR "/golden/small/qwen_image_two.safetensors"
#define ONE      GRAFT_SOURCE_DIR "/golden/small/qwen_image_one.safetensors"

enum { VALUES = 16 * SIDE * SIDE, WORDS_MAX = 96, WIDTH_MAX = 40 };

/* What the 16 planes of its latents are normalized by, as published, written down here once more.
 */
static const double mean[16] = {-0.7571, -0.7089, -0.9113, 0.1075,  -0.1745, 0.9653,
                                -0.1517, 1.5508,  0.4134,  -0.0715, 0.5517,  -0.3632,
                                -0.1922, -0.9497, 0.2503,  -0.2921};
static const double deviation[16] = {2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708,
                                     2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579,
                                     1.6382, 1.1253, 2.8251, 1.9160};

static void evaluate(const graft_model *m, uint64_t seed, int words, const float *x, float t,
                     float out[VALUES])
{
    float context[WORDS_MAX * WIDTH_MAX], y = (float)words;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(m->arch.context_dim <= WIDTH_MAX && words <= WORDS_MAX);
    for (int64_t i = 0; i < words * m->arch.context_dim; i++)
        context[i] = fixed_value(seed + (uint64_t)i);
    memset(out, 0, VALUES * sizeof *out);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, words, NULL, &b, &e);
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

/* ------------------------------------------------------------------ loading */

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_qwen_image_arch *a = &two->arch.qwen_image, *b = &one->arch.qwen_image;
    CHECK(a->depth == 2 && a->heads == 3 && a->hidden == 48 && a->mlp == 80 && a->rope_dim == 6);
    CHECK(a->patch == 2 && a->channels == 16 && a->time_dim == 256 && a->context_dim == 24);
    CHECK(b->depth == 1 && b->heads == 2 && b->hidden == 64 && b->rope_dim == 14);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_QWEN_IMAGE && !m->arch.adm_channels && !m->arch.beside);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == 16);
        CHECK_NEAR(m->flow_shift, 3.158193, 1e-6);
        CHECK(m->planes == &graft_wan_planes);
        CHECK(memcmp(&m->preview, &graft_preview_wan, sizeof m->preview) == 0);
        CHECK_STR(graft_net_kind_name(&m->arch), "qwen_image");
    }
    RELEASE_ALL(two, one);
}

/* As published: without a prefix, and of a head seven sixteenths turn with the row. */
static void as_published(void)
{
    const char *path = temp_path("plain.safetensors");
    write_file(part_of_file(ONE, UNET), path, NULL);
    same_in_file(engine, ONE, path, run_some);
}

static void saved(void)
{
    const char *path = temp_path("plain.safetensors");
    write_file(part_of_file(TWO, UNET), path, config_of(TWO));
    saved_like(engine, path, TWO);
    unlink(path);
}

/* As ComfyUI-GGUF names it. */
static void gguf(void)
{
    same_in_gguf(engine, ONE, "qwen_image", config_of(ONE), run_some);
}

/* ------------------------------------------------------------------ damage */

static void refused(made_file *f, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, config_of(TWO), status, words, &e);
}

/* Any of them, those of the last block that nobody reads, too. */
static void without_tensors(void)
{
    made_file *all = part_of_file(TWO, UNET);
    CHECK(all->n > 60);
    for (size_t i = 0; i < all->n; i++) {
        const char *name = all->tensor[i].name;
        made_file *f = part_of_file(TWO, UNET);
        drop_tensor(f, name);
        if (strcmp(name, GRAFT_QWEN_IMAGE_TENSOR) == 0) { /* by which it is told */
            graft_err e = GRAFT_ERR_INIT;
            check_refused(engine, f, NULL, GRAFT_E_UNSUPPORTED, "unknown architecture", &e);
        } else {
            refused(f, GRAFT_E_FORMAT, name);
        }
    }
    finish_file(all);
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
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = part_of_file(TWO, UNET);
    add_tensor(f, "time_text_embed.addition_t_embedding.weight", 2, (int64_t[]){2, 48}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "Qwen-Image-Layered");
    other_shape(norm, 1, 15, 0, GRAFT_E_UNSUPPORTED, "heads of 15");
    other_shape(norm, 1, 0, 0, GRAFT_E_FORMAT, norm);
    other_shape("img_in.weight", 2, 48, 63, GRAFT_E_FORMAT, "img_in.weight");
    other_shape("img_in.weight", 1, 48, 0, GRAFT_E_FORMAT, "img_in.weight");
    other_shape("proj_out.weight", 2, 128, 48, GRAFT_E_FORMAT, "proj_out.weight");
    other_shape("txt_in.weight", 2, 47, 24, GRAFT_E_FORMAT, "txt_in.weight");
    other_shape("txt_norm.weight", 1, 25, 0, GRAFT_E_FORMAT, "txt_norm.weight");
    other_shape("transformer_blocks.1.txt_mod.1.weight", 2, 5 * 48, 48, GRAFT_E_FORMAT,
                "transformer_blocks.1.txt_mod.1.weight");
    other_shape("transformer_blocks.1.txt_mlp.net.2.weight", 2, 48, 81, GRAFT_E_FORMAT,
                "transformer_blocks.1.txt_mlp.net.2.weight");
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
    CHECK(!out && !graft_net_told_guidance(&m->arch));
    CHECK_INT(graft_model_bind(m, 1, 8, 1 << 20, 32, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_model_bind(m, 1, 8, 8, 1 << 20, NULL, &b, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_model_bind(m, 1, 8, 8, 0, NULL, &b, &e), GRAFT_E_ARG);
    CHECK(!b);
    graft_unet_shape shape = {
        .batch = 1, .height = 8, .width = 8, .tokens = 32, .act_dtype = GRAFT_F16};
    graft_graph *g = NULL;
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_UNSUPPORTED);
    shape = (graft_unet_shape){
        .batch = 1, .height = 8, .width = 8, .tokens = 32, .act_dtype = GRAFT_F32, .control = 1};
    CHECK_INT(graft_net_build(&m->arch, &shape, 1, &g, &e), GRAFT_E_ARG);
    shape = (graft_unet_shape){
        .batch = 1, .height = 8, .width = 7, .tokens = 32, .act_dtype = GRAFT_F32};
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

/* A LoRA of one layer, and the network with it. */
static void write_lora(const char *layer, const char *lora, const char *whole)
{
    made_file *f = calloc(1, sizeof *f), *m = part_of_file(TWO, UNET);
    char name[300];
    snprintf(name, sizeof name, "%s.weight", layer);
    graft_st_tensor *t = made_find(m, name);
    const int64_t rows = t->shape[0], columns = t->shape[1];
    snprintf(name, sizeof name, "transformer.%s", layer);
    const float *up = matrix(f, name, "lora_B", rows, 2);
    const float *down = matrix(f, name, "lora_A", 2, columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            ((float *)(uintptr_t)t->data)[r * columns + c] +=
                up[2 * r] * down[c] + up[2 * r + 1] * down[columns + c];
    write_file(f, lora, NULL);
    write_file(m, whole, config_of(TWO));
}

/* Whether nobody reads what the layer gives: the prompt, behind the last attention. */
static bool unread(const char *layer)
{
    static const char last[] = "transformer_blocks.1.";
    return strncmp(layer, last, strlen(last)) == 0 &&
           (strstr(layer, "txt_mlp") || strstr(layer, "to_add_out") || strstr(layer, "add_q_proj"));
}

/* Each layer alone: that none is taken for another, and that every one changes something. */
static void loras(void)
{
    const char *lora = temp_path("lora.safetensors"), *whole = temp_path("merged.safetensors");
    float plain[VALUES], got[VALUES], want[VALUES];
    graft_model *m = load_model(engine, TWO);
    made_file *f = part_of_file(TWO, UNET);
    run_some(m, plain);
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        char layer[256];
        if (t->rank != 2 || strstr(t->name, "_blocks.0.img_m")) continue;
        snprintf(layer, sizeof layer, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
        write_lora(layer, lora, whole);
        last_log[0] = 0;
        graft_model *w = load_model(engine, whole), *x = with_lora(m, lora, 1);
        CHECK_STR(last_log, "");
        run_some(w, want);
        run_some(x, got);
        CHECK(difference(got, want, VALUES) < 5e-5);
        CHECK((difference(plain, want, VALUES) > 1e-4) == !unread(layer));
        if (difference(plain, want, VALUES) <= 1e-4 && !unread(layer))
            printf("  %s changes nothing\n", layer);
        RELEASE_ALL(w, x);
    }
    finish_file(f);
    graft_model_release(m);
    unlink(lora);
    unlink(whole);
}

/* The same LoRA in other programs' names: diffusers', kohya's, ComfyUI's, and those of the
 * Lightning files, which have no prefix and an alpha. */
static void loras_in_other_names(void)
{
    static const struct {
        const char *stem, *up, *down;
        bool alpha;
    } names[] = {
        {"transformer.transformer_blocks.1.attn.add_k_proj", "lora_B", "lora_A", false},
        {"transformer_blocks.1.attn.add_k_proj", "lora_B", "lora_A", false},
        {"transformer_blocks.1.attn.add_k_proj", "lora_B.default", "lora_A.default", false},
        {"diffusion_model.transformer_blocks.1.attn.add_k_proj", "lora_B", "lora_A", false},
        {"transformer_blocks.1.attn.add_k_proj", "lora_up", "lora_down", true},
        {"lora_unet_transformer_blocks_1_attn_add_k_proj", "lora_up", "lora_down", true},
        {"lycoris_transformer_blocks_1_attn_add_k_proj", "lora_up", "lora_down", true},
        {"transformer_blocks.1.attn.to_out.0", "lora_up", "lora_down", true},
        {"diffusion_model.transformer_blocks.1.attn.to_out.0", "lora_B", "lora_A", false},
        {"lora_unet_transformer_blocks_1_attn_to_out_0", "lora_up", "lora_down", true},
    };
    const char *path = temp_path("lora.safetensors");
    float plain[VALUES], first[VALUES], got[VALUES];
    graft_model *m = load_model(engine, TWO);
    run_some(m, plain);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_file *f = calloc(1, sizeof *f);
        char alpha[200];
        const bool other = strstr(names[i].stem, "to_out") != NULL;
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
        if (i == 0 || (other && !strstr(names[i - 1].stem, "to_out")))
            memcpy(first, got, sizeof got);
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
    for (int k = 0; k < VALUES; k++)
        out[k] = (float)(x[k] * deviation[k / (SIDE * SIDE)] + mean[k / (SIDE * SIDE)]);
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

/* Up to 64 tokens: by the last one again, so that no number in the network is unlike others. */
static void filled_up(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_cond *c = prompt_of(m, 20000, 5), *full = NULL, *same = NULL;
    const size_t width = (size_t)m->arch.context_dim, row = width * sizeof(float);
    CHECK_OK(graft_cond_fill(c, &m->arch, &full, &e), &e);
    const graft_cond_entry *k = full->entry[0], *own = c->entry[0];
    CHECK(k->tokens == 64 && k->filled == 59 && own->tokens == 5 && own->filled == 0);
    CHECK(memcmp(k->data, own->data, 5 * row) == 0);
    for (size_t i = 5; i < 64; i++)
        CHECK(memcmp(k->data + i * width, own->data + 4 * width, row) == 0);
    CHECK_OK(graft_cond_fill(full, &m->arch, &same, &e), &e);
    CHECK(same->entry[0] == k);
    graft_cond_release(c);
    graft_cond_release(full);
    graft_cond_release(same);
    graft_model_release(m);
}

static void other_schedules(void)
{
    float got[VALUES], want[VALUES], plain[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *n = NULL;
    graft_cond *c = prompt_of(m, 20000, 12);
    CHECK_OK(graft_model_sampling_flow(m, 3.1, false, &n, &e), &e);
    CHECK(n->flow_shift == 3.1);
    sampled(m, c, c, 1, plain);
    sampled(n, c, c, 1, got);
    by_hand(n, (const int[]){12, 1}, 1, want);
    CHECK(difference(got, want, VALUES) < 2e-4 && difference(got, plain, VALUES) > 1e-4);
    graft_cond_release(c);
    RELEASE_ALL(m, n);
}

/* Of two pictures: each plane is normalized on its way to the network, and restored behind it;
 * zeros are no picture, and stay zeros on the way in. */
static void planes(void)
{
    enum { N = 2 * VALUES };
    static float noise[N], x[N], y[N];
    const int64_t shape[4] = {2, 16, SIDE, SIDE};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, ONE);
    graft_latent *from = NULL, *to = NULL;
    graft_sigmas *s = NULL;
    for (int i = 0; i < N; i++) x[i] = fixed_value((uint64_t)i);
    graft_model_scale_latent(m, x, N, SIDE * SIDE, y);
    for (int i = 0; i < N; i++) {
        const int c = i / (SIDE * SIDE) % 16;
        CHECK_NEAR(y[i], (x[i] - mean[c]) / deviation[c], 1e-5);
    }
    graft_model_unscale_latent(m, y, N, SIDE * SIDE, y);
    CHECK(difference(x, y, N) < 1e-5);
    CHECK_OK(graft_latent_from_data(x, shape, &from, &e), &e);
    CHECK_OK(graft_sigmas_from_data((const float[]){0.75f}, 1, &s, &e), &e);
    CHECK_OK(graft_noise_latent(77, shape, NULL, noise, &e), &e);
    CHECK_OK(graft_latent_noised(m, from, s, true, 77, &to, &e), &e);
    const float *got = to ? graft_latent_data(to, NULL) : x;
    for (int i = 0; i < N; i++) {
        const int c = i / (SIDE * SIDE) % 16;
        const double normal = 0.25 * (x[i] - mean[c]) / deviation[c] + 0.75 * noise[i];
        CHECK_NEAR(got[i], normal * deviation[c] + mean[c], 1e-4);
    }
    double sum = 0;
    for (int c = 0; c < 16; c++) sum += 1 / (deviation[c] * deviation[c]);
    CHECK_NEAR(graft_model_latent_gain(m), sqrt(sum / 16), 1e-6);
    graft_latent_release(from);
    graft_latent_release(to);
    graft_sigmas_release(s);
    graft_model_release(m);
}

static bool is_kept(const char *layer)
{
    return strstr(layer, "img_in") || strstr(layer, "time_text_embed") ||
           strstr(layer, "norm_out") || strcmp(layer, "proj_out") == 0;
}

/* Of the last block three layers are not computed. */
static void quantized(void)
{
    const quantized_layers want = {
        .kept = is_kept, .tokens = 32, .attentions = 2, .linears = 2 * 14 - 3 + 6};
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
    RUN(saved);
    RUN(gguf);
    RUN(without_tensors);
    RUN(of_another_kind);
    RUN(what_does_not_go_with_it);
    RUN(loras);
    RUN(loras_in_other_names);
    RUN(prompts_of_any_length);
    RUN(filled_up);
    RUN(other_schedules);
    RUN(planes);
    RUN(quantized);
    RUN(measured);
    RUN(halves);
    graft_engine_destroy(engine);
    return test_end();
}
