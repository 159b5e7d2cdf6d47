/* Chroma: which files it is found in and under which names, its prompts, and what does not go with
 * it. What the network computes is held against golden/small/chroma_*. */
#include "engine/prompts/t5.h"
#include "tests/engine/family.h"

#define TWO  GRAFT_SOURCE_DIR "/golden/small/chroma_two.safetensors"
#define ONE  GRAFT_SOURCE_DIR "/golden/small/chroma_one.safetensors"
#define PART "distilled_guidance_layer."

static const renaming names[] = {
#include "engine/models/parts/tensors.h"
#include "tests/engine/flux_names.def"
    {PART "layers.#.in_layer.", {PART "layers.#.linear_1."}},
    {PART "layers.#.out_layer.", {PART "layers.#.linear_2."}},
    {PART "norms.#.scale", {PART "norms.#.weight"}},
    {NULL}};

static const damage damaged[] = {
    {PART "in_proj.weight", {40, 36}, GRAFT_E_FORMAT}, /* no waves of four numbers */
    {PART "out_proj.weight", {33, 40}, GRAFT_E_FORMAT},
    {PART "layers.0.in_layer.weight", {40, 41}, GRAFT_E_FORMAT},
    {"img_in_patch.weight",
     {32, 3, 16, 16},
     GRAFT_E_UNSUPPORTED,
     "Chroma Radiance",
     {"img_in.weight"},
     .added = true},
    TOO_MUCH("transformer_blocks.0.norm1.linear.weight", "Chroma's transformer has no tensor"),
    {NULL}};

/* Prompts of up to 64 tokens are one batch of the same graph. */
static const prompt_pair pairs[] = {{{5, 5}, {1, 1}}, {{7, 2}, {0, 0}}, {{1, 16}, {0, 0}}, {{0}}};

/* The approximator is as small as a time embedding, and is kept like one. Without what tells Chroma
 * it is a FLUX.1 that is told no time. */
static const family tested = {
    .name = "chroma",
    .title = "Chroma",
    .two = TWO,
    .one = ONE,
    .gguf = "flux",
    .packed = TWO,
    .theirs = names,
    .in_files = true,
    .scale = 0.3611,
    .shift = 0.1159,
    .error = 1e-4,
    .prompts = pairs,
    .tensors = 83,
    .their_tensors = 83 + 2 * 2 * 2 * 2 + 3 * 3 * 2,
    .losses = {{GRAFT_CHROMA_TENSOR, GRAFT_E_FORMAT, "time_in.in_layer.weight",
                "time_text_embed.timestep_embedder.linear_1.weight"},
               {GRAFT_FLUX_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"transformer_blocks.0.attn.add_k_proj.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"},
               {"single_transformer_blocks.0.proj_mlp.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"}},
    .damaged = damaged,
    .any_length = true,
    .loras = 2 * (8 + 2 * 2 + 3 + 8) + 2 * 2 + 2 * 3,
    .lora_error = 5e-5,
    .untried = {"_blocks.0."},
    .lora_names = {{"lora_unet_single_blocks_1_linear1", KOHYA_PLAIN, 7 * 32, 32},
                   {"diffusion_model.single_blocks.1.linear1", PEFT},
                   {"lora_unet_double_blocks_0_img_mlp_0", KOHYA_PLAIN, 128, 32},
                   {"transformer.transformer_blocks.0.ff.net.0.proj", PEFT},
                   {"lora_unet_distilled_guidance_layer_layers_1_in_layer", KOHYA_PLAIN, 40, 40},
                   {"transformer.distilled_guidance_layer.layers.1.linear_1", PEFT}},
    .kept = {PART, "img_in", "final_layer"},
    .attentions = 5,
    .linears = 2 * 8 + 3 * 2 + 2 + 1 + 8,
};

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

/* Whether a tensor is of what a block adds to its streams. */
static bool adds(const char *name, const char *block)
{
    static const char *const last[] = {"_attn.proj.", "_mlp.2.", "linear2."};
    bool is = false;
    if (strncmp(name, block, strlen(block)) != 0) return false;
    for (size_t i = 0; i < COUNT(last); i++) is = is || strstr(name, last[i]);
    return is;
}

static bool is_added(const char *name)
{
    return adds(name, "double_blocks.1.") || adds(name, "single_blocks.1.");
}

static void blocks_left_out(void)
{
    left_out("1", "1", is_added);
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
    run_family();
    RUN(lora_of_modulation);
    RUN(blocks_left_out);
    RUN(prompts);
    RUN(one_file);
    graft_engine_destroy(engine);
    return test_end();
}
