/* Chroma: which files it is found in and under which names, its prompts, and what does not go with
 * it. What the network computes is held against golden/small/chroma_*. */
#include <math.h>

#include "engine/prompts/t5.h"
#include "tests/engine/flow_run.h"
#include "tests/engine/flux.h"

static graft_engine *engine;

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TWO      GRAFT_SOURCE_DIR "/golden/small/chroma_two.safetensors"
#define ONE      GRAFT_SOURCE_DIR "/golden/small/chroma_one.safetensors"
#define PART     "distilled_guidance_layer."

static void run_it(const graft_model *m, float out[FLUX_OUT])
{
    run_flux(m, 0, out);
}

/* ------------------------------------------------------------------ loading */

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_flux_arch *a = &two->arch.flux, *b = &one->arch.flux;
    CHECK(a->depth == 2 && a->single_depth == 3 && a->heads == 2 && a->hidden == 32);
    CHECK(a->approximator == 40 && a->approximator_layers == 3 && a->time_dim == 8);
    CHECK(b->approximator == 24 && b->approximator_layers == 1 && b->time_dim == 16);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_FLUX && m->arch.adm_channels == 0);
        CHECK(!m->arch.flux.guidance && !m->arch.flux.pooled_dim && m->arch.latent_channels == 16);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->flow_shift == 1 && m->flow_steps == 1000);
        CHECK(m->scale_factor == 0.3611 && m->latent_shift == 0.1159);
        CHECK(memcmp(&m->preview, &graft_preview_flux, sizeof m->preview) == 0);
    }
    RELEASE_ALL(two, one);
}

/* As diffusers calls a tensor of the approximator. */
static void add_theirs(made_file *d, const graft_st_tensor *t)
{
    static const char *const changes[][2] = {
        {"in_layer", "linear_1"}, {"out_layer", "linear_2"}, {".scale", ".weight"}};
    char name[300];
    snprintf(name, sizeof name, "%s", t->name);
    for (size_t i = 0; i < COUNT(changes); i++) {
        const char *at = strstr(t->name, changes[i][0]);
        if (at)
            snprintf(name, sizeof name, "%.*s%s%s", (int)(at - t->name), t->name, changes[i][1],
                     at + strlen(changes[i][0]));
    }
    add_tensor(d, name, t->rank, t->shape, t->data, 0);
}

static made_file *in_diffusers_names(const char *path)
{
    made_file *own = part_of_file(path, UNET), *d = calloc(1, sizeof *d);
    for (size_t i = 0; i < own->n; i++)
        if (!add_flux_tensor(d, &own->tensor[i])) add_theirs(d, &own->tensor[i]);
    finish_file(own);
    return d;
}

static const char *written(const char *checkpoint, const char *name)
{
    const char *path = temp_path(name);
    write_file(in_diffusers_names(checkpoint), path, config_of(checkpoint));
    return path;
}

static void same_in_diffusers_names(void)
{
    same_in_file(engine, TWO, written(TWO, "transformer.safetensors"), run_it);
    same_in_file(engine, ONE, written(ONE, "transformer.safetensors"), run_it);
}

static void saved(void)
{
    const char *path = written(TWO, "theirs.safetensors");
    saved_like(engine, path, TWO);
    unlink(path);
}

static void no_memory_for_names(void)
{
    const char *path = written(TWO, "oom.safetensors");
    adopt_short_of_memory(path, graft_diffusers_adopt_net);
    unlink(path);
}

/* The same network with other weights runs in the graph that there is. */
static void swapped(void)
{
    const char *path = temp_path("other.safetensors");
    float got[FLUX_OUT], want[FLUX_OUT], plain[FLUX_OUT];
    made_file *f = part_of_file(TWO, UNET);
    for (size_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < shape_count(f->tensor[i].shape, f->tensor[i].rank); k++)
            ((float *)(uintptr_t)f->tensor[i].data)[k] *= 0.75f;
    write_file(f, path, config_of(TWO));
    graft_model *m = load_model(engine, TWO), *other = load_model(engine, path);
    run_it(m, plain);
    const uint64_t built = graphs_built(engine);
    graft_model *to = swap_weights(m, path, true), *back = swap_weights(to, TWO, true);
    run_it(to, got);
    CHECK_INT(graphs_built(engine), built);
    run_it(other, want);
    CHECK(same_flux_bits(got, want) && difference(got, plain, FLUX_OUT) > 1e-3);
    run_it(back, got);
    CHECK(same_flux_bits(got, plain));
    RELEASE_ALL(m, other, to, back);
    unlink(path);
}

static void gguf(void)
{
    same_in_gguf(engine, TWO, "flux", config_of(TWO), run_it);
}

/* ------------------------------------------------------------------ damage */

static void refused(made_file *f, graft_status status, const char *words)
{
    graft_err e = GRAFT_ERR_INIT;
    check_refused(engine, f, config_of(TWO), status, words, &e);
}

static void without_tensors(void)
{
    static const char *const ours[] = {PART "in_proj.bias",
                                       PART "layers.1.in_layer.weight",
                                       PART "layers.2.out_layer.bias",
                                       PART "norms.0.scale",
                                       PART "norms.2.scale",
                                       PART "out_proj.weight",
                                       PART "out_proj.bias",
                                       "double_blocks.1.img_attn.qkv.weight",
                                       "double_blocks.0.img_attn.norm.query_norm.scale",
                                       "double_blocks.0.img_mlp.0.weight",
                                       "single_blocks.2.linear1.weight",
                                       "txt_in.weight",
                                       "img_in.weight",
                                       "final_layer.linear.weight"};
    static const char *const theirs[] = {PART "in_proj.weight", PART "layers.0.linear_2.bias",
                                         PART "norms.1.weight", "proj_out.bias",
                                         "transformer_blocks.1.attn.to_k.weight"};
    for (size_t i = 0; i < COUNT(ours); i++) {
        made_file *f = part_of_file(TWO, UNET);
        drop_tensor(f, ours[i]);
        refused(f, GRAFT_E_FORMAT, ours[i]);
    }
    for (size_t i = 1; i < COUNT(theirs); i++) {
        made_file *f = in_diffusers_names(TWO);
        drop_tensor(f, theirs[i]);
        refused(f, GRAFT_E_FORMAT, theirs[i]);
    }
    /* What tells Chroma is gone: a FLUX.1 that is told no time. */
    made_file *f = part_of_file(TWO, UNET);
    drop_tensor(f, PART "in_proj.weight");
    refused(f, GRAFT_E_FORMAT, "time_in.in_layer.weight");
}

static void replaced(const char *name, int64_t rows, int64_t columns, const char *words)
{
    made_file *f = part_of_file(TWO, UNET);
    drop_tensor(f, name);
    add_tensor(f, name, 2, (int64_t[]){rows, columns}, NULL, 0.1f);
    refused(f, GRAFT_E_FORMAT, words);
}

static void of_another_kind(void)
{
    replaced(PART "in_proj.weight", 40, 36, PART "in_proj.weight"); /* no waves of four numbers */
    replaced(PART "out_proj.weight", 33, 40, PART "out_proj.weight");
    replaced(PART "layers.0.in_layer.weight", 40, 41, PART "layers.0.in_layer.weight");
    made_file *f = part_of_file(TWO, UNET);
    drop_tensor(f, "img_in.weight");
    add_tensor(f, "img_in_patch.weight", 4, (int64_t[]){32, 3, 16, 16}, NULL, 0.1f);
    refused(f, GRAFT_E_UNSUPPORTED, "Chroma Radiance");
    f = in_diffusers_names(TWO);
    add_tensor(f, "transformer_blocks.0.norm1.linear.weight", 2, (int64_t[]){192, 32}, NULL, 1);
    refused(f, GRAFT_E_UNSUPPORTED, "Chroma's transformer has no tensor");
}

static void what_does_not_go_with_it(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *out = NULL, *half = NULL;
    const graft_deepcache_options cache = {.schedule = "uniform", .cache_interval = 3};
    const graft_compile_options f16 = {
        .precision = "f16", .tuning = "off", .width = 64, .height = 64};
    CHECK_INT(graft_model_deepcache(m, &cache, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_perturbed_attention(m, 3, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_model_compile(m, &f16, NULL, &half, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out && !half && !graft_net_takes_references(&m->arch));
    graft_model_release(m);
}

/* ------------------------------------------------------------------ LoRAs */

/* The same LoRA in kohya's, the author's and diffusers' names. */
static void loras(void)
{
    static const char *const names[][2] = {
        {"lora_unet_single_blocks_1_linear1.lora_up.weight",
         "lora_unet_single_blocks_1_linear1.lora_down.weight"},
        {"diffusion_model.single_blocks.1.linear1.lora_B.weight",
         "diffusion_model.single_blocks.1.linear1.lora_A.weight"},
        {"lora_unet_double_blocks_0_img_mlp_0.lora_up.weight",
         "lora_unet_double_blocks_0_img_mlp_0.lora_down.weight"},
        {"transformer.transformer_blocks.0.ff.net.0.proj.lora_B.weight",
         "transformer.transformer_blocks.0.ff.net.0.proj.lora_A.weight"},
        {"lora_unet_distilled_guidance_layer_layers_1_in_layer.lora_up.weight",
         "lora_unet_distilled_guidance_layer_layers_1_in_layer.lora_down.weight"},
        {"transformer.distilled_guidance_layer.layers.1.linear_1.lora_B.weight",
         "transformer.distilled_guidance_layer.layers.1.linear_1.lora_A.weight"}};
    static const int64_t rows[] = {7 * 32, 7 * 32, 128, 128, 40, 40};
    const char *path = temp_path("lora.safetensors");
    float plain[FLUX_OUT], first[FLUX_OUT], got[FLUX_OUT];
    graft_model *m = load_model(engine, TWO);
    run_it(m, plain);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_file *f = calloc(1, sizeof *f);
        random_state = 11;
        add_tensor(f, names[i][0], 2, (int64_t[]){rows[i], 2}, NULL, 0.4f);
        add_tensor(f, names[i][1], 2, (int64_t[]){2, i < 4 ? 32 : 40}, NULL, 0.4f);
        write_file(f, path, NULL);
        last_log[0] = 0;
        graft_model *x = with_lora(m, path, 1);
        CHECK_STR(last_log, "");
        run_it(x, got);
        if (i % 2 == 0) memcpy(first, got, sizeof got);
        CHECK(same_flux_bits(first, got) && difference(got, plain, FLUX_OUT) > 1e-3);
        graft_model_release(x);
    }
    graft_model_release(m);
    unlink(path);
}

/* One of FLUX.1's layers that make a block's vectors: there is none here. */
static void lora_of_modulation(void)
{
    const char *path = temp_path("lora.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *out = NULL;
    made_file *f = calloc(1, sizeof *f);
    add_lora_pair(f, "diffusion_model.single_blocks.1.modulation.lin", 96, 32);
    write_file(f, path, NULL);
    CHECK_INT(graft_lora_apply(m, NULL, path, 1, 0, NULL, &out, NULL, &e), GRAFT_E_ARG);
    CHECK(!out && strstr(e.text, "fits no layer") != NULL);
    graft_model_release(m);
    unlink(path);
}

/* ------------------------------------------------------------------ sampling */

static void evaluate(const graft_model *m, uint64_t seed, int words, const float *x, float t,
                     float out[FLUX_OUT])
{
    float context[16 * 32], y = (float)words;
    graft_err e = GRAFT_ERR_INIT;
    graft_binding *b = NULL;
    CHECK(words <= 16 && m->arch.context_dim <= 32);
    for (size_t i = 0; i < COUNT(context); i++) context[i] = fixed_value(seed + i);
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, words, NULL, &b, &e), &e);
    if (b)
        CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x, &t, context, &y},
                               (void *[]){out}, NULL, NULL, &e),
                 &e);
    graft_binding_release(b);
}

/* Euler's steps on the network itself, with guidance away from a negative prompt. */
static void by_hand(const graft_model *m, const int words[2], float cfg, float out[FLUX_OUT])
{
    float x[FLUX_OUT] = {0}, v[FLUX_OUT], w[FLUX_OUT];
    for (int i = 0; i < STEPS; i++) { /* "simple", and no shift */
        const double now = 1 - (double)(int)(i * 1000.0 / STEPS) / 1000;
        const double next = i + 1 < STEPS ? 1 - (double)(int)((i + 1) * 1000.0 / STEPS) / 1000 : 0;
        evaluate(m, 20000, words[0], x, (float)(1000 * now), v);
        evaluate(m, 60000, words[1], x, (float)(1000 * now), w);
        for (int k = 0; k < FLUX_OUT; k++)
            x[k] += (float)(next - now) * (w[k] + cfg * (v[k] - w[k]));
    }
    for (int k = 0; k < FLUX_OUT; k++) out[k] = x[k] / 0.3611f + 0.1159f;
}

/* Prompts of up to 64 tokens are one batch of the same graph. */
static void negative_prompts(void)
{
    static const int words[][2] = {{5, 5}, {7, 2}, {1, 16}};
    float got[FLUX_OUT], want[FLUX_OUT], before[FLUX_OUT] = {0};
    graft_model *m = load_model(engine, TWO);
    for (size_t i = 0; i < COUNT(words); i++) {
        graft_cond *a = prompt_of(m, 20000, words[i][0]), *b = prompt_of(m, 60000, words[i][1]);
        const uint64_t built = graphs_built(engine);
        sampled(m, a, b, 4, got);
        CHECK_INT(graphs_built(engine) - built, i == 0);
        by_hand(m, words[i], 4, want);
        CHECK(difference(got, want, FLUX_OUT) < 1e-4 && difference(got, before, FLUX_OUT) > 1e-3);
        memcpy(before, got, sizeof got);
        graft_cond_release(a);
        graft_cond_release(b);
    }
    graft_model_release(m);
}

/* ------------------------------------------------------------------ quantization, blocks */

/* The approximator is as small as a time embedding, and is kept like one. */
static void quantized(void)
{
    const graft_quant_limits everything = {{true, true, true}, {1, 1, 1}, 0};
    graft_unet_shape shape = {
        .batch = 1, .height = SIDE, .width = SIDE, .tokens = FLUX_WORDS, .act_dtype = GRAFT_F32};
    float plain[FLUX_OUT], got[FLUX_OUT];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO), *q = NULL;
    graft_quant_plan *p = NULL;
    size_t of[GRAFT_LAYER_KINDS] = {0}, kept = 0;
    CHECK_OK(graft_quant_plan_create(&m->arch, &shape, &p, &e), &e);
    graft_quant_plan_select(p, &everything);
    for (size_t i = 0; i < p->n; i++) {
        const graft_quant_layer *l = &p->layer[i];
        kept += l->reason == GRAFT_QUANT_KEPT;
        CHECK(l->reason == GRAFT_QUANT_KEPT || l->reason == GRAFT_QUANT_CHOSEN);
        of[l->kind]++;
    }
    CHECK_INT(of[GRAFT_LAYER_ATTENTION], 5);
    CHECK_INT(of[GRAFT_LAYER_LINEAR], 2 * 8 + 3 * 2 + 2 + 1 + 8);
    CHECK_INT(kept, 8 + 2);
    CHECK_OK(graft_model_with_plan(m, p, &q, &e), &e);
    run_it(m, plain);
    run_it(q, got);
    CHECK(!same_flux_bits(plain, got) && difference(got, plain, FLUX_OUT) < 0.2);
    graft_quant_plan_destroy(p);
    RELEASE_ALL(m, q);
}

/* Whether a tensor is of what a block adds to its streams. */
static bool adds(const char *name, const char *block)
{
    static const char *const last[] = {"_attn.proj.", "_mlp.2.", "linear2."};
    bool is = false;
    if (strncmp(name, block, strlen(block)) != 0) return false;
    for (size_t i = 0; i < COUNT(last); i++) is = is || strstr(name, last[i]);
    return is;
}

/* A block that adds nothing is what leaving it out comes to: in rows that are computed twice, and
 * where negative prompts leave it out. */
static void blocks_left_out(void)
{
    static const char *const block[] = {"double_blocks.1.", "single_blocks.1."};
    const char *path = temp_path("idle.safetensors");
    const graft_skip_options o = {"1", "1", 2, 0, 1, 0};
    float plain[FLUX_OUT], less[FLUX_OUT], got[FLUX_OUT];
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = part_of_file(TWO, UNET);
    for (size_t i = 0; i < f->n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        if (adds(t->name, block[0]) || adds(t->name, block[1]))
            memset((void *)(uintptr_t)t->data, 0, (size_t)shape_count(t->shape, t->rank) * 4);
    }
    write_file(f, path, config_of(TWO));
    graft_model *m = load_model(engine, TWO), *idle = load_model(engine, path), *skips = NULL;
    graft_binding *b = NULL;
    CHECK_OK(graft_model_skip_blocks(m, &o, &skips, &e), &e);
    run_it(m, plain);
    run_it(idle, less);
    const graft_unet_use use = {.pictures = 1,
                                .entries = 1,
                                .height = SIDE,
                                .width = SIDE,
                                .tokens = FLUX_WORDS,
                                .perturbed = 1};
    float x[FLUX_OUT], context[FLUX_WORDS * 64], both[2 * FLUX_OUT], t = 400;
    const float y = FLUX_WORDS;
    for (size_t i = 0; i < FLUX_OUT; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < FLUX_WORDS * 64; i++) context[i] = fixed_value(20000 + i);
    CHECK_OK(graft_model_bind_guided(skips, &use, NULL, &b, &e), &e);
    if (b)
        CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){x, &t, context, &y},
                               (void *[]){both}, NULL, NULL, &e),
                 &e);
    memcpy(got, both, sizeof got);
    CHECK(difference(got, plain, FLUX_OUT) < 1e-5);
    CHECK(difference(both + FLUX_OUT, less, FLUX_OUT) < 1e-5);
    CHECK(difference(plain, less, FLUX_OUT) > 1e-2);
    graft_binding_release(b);
    RELEASE_ALL(m, idle, skips);
    unlink(path);
}

/* ------------------------------------------------------------------ text encoder */

#define TEXT_MODELS MODELS "/../text_encoders/"

static graft_clip *load_t5(const char *path, graft_status want, graft_err *e)
{
    graft_clip *c = NULL;
    CHECK_INT(graft_clip_load(engine, &path, 1, "chroma", NULL, &c, e), want);
    return c;
}

static graft_cond *encode(const graft_clip *c, const char *text)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode(c, text, NULL, &out, &e), &e);
    return out;
}

static bool same_words(const graft_cond *a, const graft_cond *b)
{
    const graft_cond_entry *x = a->entry[0], *y = b->entry[0];
    return x->tokens == y->tokens && x->tokens > 0 &&
           !memcmp(x->data, y->data, (size_t)(x->tokens * x->width) * sizeof *x->data);
}

/* T5 alone, the words with their end and one token of padding; options take another number. */
static void prompts(void)
{
    static const char t5[] = TEXT_MODELS "tiny-t5.safetensors";
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = load_t5(t5, GRAFT_OK, &e), *bare = NULL, *one = NULL, *none = NULL;
    CHECK_OK(graft_clip_t5_options(c, 0, 0, &bare, &e), &e);
    CHECK_OK(graft_clip_t5_options(c, 1, 0, &one, &e), &e);
    graft_cond *a = encode(c, "red apple"), *b = encode(bare, "red apple");
    graft_cond *d = encode(one, "red apple"), *empty = encode(c, "");
    CHECK_INT(a->entry[0]->tokens, b->entry[0]->tokens + 1);
    CHECK_INT(empty->entry[0]->tokens, 2);
    CHECK(a->entry[0]->width == 112 && !a->entry[0]->pooled && same_words(a, d));
    none = load_t5(TEXT_MODELS "tiny-clip-l.safetensors", GRAFT_E_UNSUPPORTED, &e);
    CHECK(!none && strstr(e.text, "no T5 text encoder in it") != NULL);
    graft_cond *const all[] = {a, b, d, empty};
    for (size_t i = 0; i < COUNT(all); i++) graft_cond_release(all[i]);
    graft_clip *const clips[] = {c, bare, one};
    for (size_t i = 0; i < COUNT(clips); i++) graft_clip_release(clips[i]);
}

/* Model, T5 and VAE in one file, as CheckpointSave writes it; and model and VAE alone. */
static void one_file(void)
{
    const char *out = temp_path("whole.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = load_t5(TEXT_MODELS "tiny-t5.safetensors", GRAFT_OK, &e), *d = NULL;
    graft_model *m = load_model(engine, MODELS "/../diffusion_models/tiny-chroma.safetensors");
    graft_model *n = NULL;
    graft_vae *v = NULL, *w = NULL;
    CHECK_OK(graft_vae_load(engine, MODELS "/../vae/tiny-flux-vae.safetensors", NULL, &v, &e), &e);
    for (int with = 1; with >= 0; with--) {
        const graft_checkpoint what = {.model = m, .clip = with ? c : NULL, .vae = v};
        unlink(out);
        CHECK_OK(graft_checkpoint_save(&what, out, NULL, NULL, &e), &e);
        CHECK_OK(graft_checkpoint_load(engine, out, NULL, &n, &d, &w, &e), &e);
        CHECK(n && memcmp(&m->arch, &n->arch, sizeof m->arch) == 0);
        CHECK(d && d->kind == GRAFT_CLIP_CHROMA);
        if (with) {
            graft_cond *a = encode(c, "red"), *b = encode(d, "red");
            CHECK(same_words(a, b));
            graft_cond_release(a);
            graft_cond_release(b);
        } else {
            graft_cond *a = NULL;
            CHECK_INT(graft_clip_encode(d, "red", NULL, &a, &e), GRAFT_E_UNSUPPORTED);
            CHECK(!a && strstr(e.text, "no T5 in it; CLIPLoader opens") != NULL);
        }
        CHECK(w && w->scale_factor == v->scale_factor && w->latent_shift == v->latent_shift);
        graft_clip_release(d);
        graft_vae_release(w);
        graft_model_release(n);
    }
    graft_clip_release(c);
    graft_vae_release(v);
    graft_model_release(m);
    unlink(out);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(same_in_diffusers_names);
    RUN(saved);
    RUN(no_memory_for_names);
    RUN(swapped);
    RUN(gguf);
    RUN(without_tensors);
    RUN(of_another_kind);
    RUN(what_does_not_go_with_it);
    RUN(loras);
    RUN(lora_of_modulation);
    RUN(negative_prompts);
    RUN(quantized);
    RUN(blocks_left_out);
    RUN(prompts);
    RUN(one_file);
    graft_engine_destroy(engine);
    return test_end();
}
