/* FLUX.1: which files it is found in and under which names, what its network is told, its text
 * encoders, and what does not go with it. What the network computes is held against
 * golden/small/flux_*. */
#include "base/file.h"
#include "engine/prompts/t5.h"
#include "tests/engine/family.h"
#include "tests/engine/flux.h"

static const renaming names[] = {
#include "engine/models/parts/tensors.h"
#include "tests/engine/flux_names.def"
    {"time_in.in_layer.", {"time_text_embed.timestep_embedder.linear_1."}},
    {"time_in.out_layer.", {"time_text_embed.timestep_embedder.linear_2."}},
    {"guidance_in.in_layer.", {"time_text_embed.guidance_embedder.linear_1."}},
    {"guidance_in.out_layer.", {"time_text_embed.guidance_embedder.linear_2."}},
    {"vector_in.in_layer.", {"time_text_embed.text_embedder.linear_1."}},
    {"vector_in.out_layer.", {"time_text_embed.text_embedder.linear_2."}},
    {"final_layer.adaLN_modulation.1.", {"norm_out.linear."}, .turned = true},
    {"double_blocks.#.img_mod.lin.", {"transformer_blocks.#.norm1.linear."}},
    {"double_blocks.#.txt_mod.lin.", {"transformer_blocks.#.norm1_context.linear."}},
    {"single_blocks.#.modulation.lin.", {"single_transformer_blocks.#.norm.linear."}},
    {NULL}};

static const damage damaged[] = {
    {"img_in.weight",
     {48, 4 * (16 + 17)},
     GRAFT_E_UNSUPPORTED,
     "takes 132 numbers a token and gives 64"},
    TOO_MUCH("transformer_blocks.0.attn.norm_q.bias", "FLUX's transformer has no tensor"),
    TURNING(10),
    TURNING(5),
    {NULL}};

/* What CLIP says of the prompt, and the guidance behind it. */
static int64_t tell(const graft_model *m, const asked *a, int i, float *context, float *y)
{
    const int32_t adm = m->arch.adm_channels;
    (void)context;
    for (int32_t k = 0; k < adm; k++) y[k] = fixed_value(40000 + (uint64_t)k);
    if (m->arch.flux.guidance) y[adm - 1] = a->guidance;
    return a->words[i];
}

static const prompt_pair pairs[] = {{{5, 5}, {0, 1}}, {{7, 12}, {1, 1}}, {{0}}};

/* dev's guidance is 3.5 where nobody says otherwise, schnell has none. */
static const family tested = {
    .name = "flux",
    .title = "FLUX or a relative",
    .two = FLUX_DEV,
    .one = FLUX_SCHNELL,
    .gguf = "flux",
    .packed = FLUX_SCHNELL,
    .theirs = names,
    .in_files = true,
    .tell = tell,
    .guidance = 3.5f,
    .scale = 0.3611,
    .shift = 0.1159,
    .error = 5e-5,
    .prompts = pairs,
    .tensors = 92,
    .their_tensors = 92 + 2 * 2 * 2 * 2 + 3 * 3 * 2,
    .losses = {{GRAFT_FLUX_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"transformer_blocks.0.attn.add_k_proj.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"},
               {"single_transformer_blocks.0.proj_mlp.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"}},
    .damaged = damaged,
    .told_guidance = true,
    .takes_references = true,
    .half = true,
    .any_length = true,
    .loras = 2 * (10 + 2 * 3 + 10) + 2 * 2 + 2 * 3,
    .lora_error = 5e-5,
    .untried = {"_blocks.0."},
    .lora_names = {{"lora_unet_single_blocks_1_linear1", KOHYA_PLAIN, 7 * 48, 48},
                   {"single_blocks.1.linear1", PEFT},
                   {"diffusion_model.single_blocks.1.linear1", PEFT},
                   {"lycoris_single_blocks_1_linear1", KOHYA_PLAIN},
                   {"lora_unet_double_blocks_0_txt_attn_qkv", KOHYA_PLAIN, 3 * 48, 48},
                   {"double_blocks.0.txt_attn.qkv", PEFT}},
    .kept = {"img_in", "time_in", "guidance_in", "vector_in", "final_layer"},
    .attentions = 5,
    .linears = 2 * 10 + 3 * 3 + 10,
};

static void kinds(void)
{
    graft_model *dev = load_model(engine, FLUX_DEV), *schnell = load_model(engine, FLUX_SCHNELL);
    const graft_flux_arch *a = &dev->arch.flux, *b = &schnell->arch.flux;
    CHECK(a->depth == 2 && a->single_depth == 3 && a->heads == 3 && a->hidden == 48);
    CHECK(a->rope_dim == 6 && a->guidance == 1 && dev->arch.adm_channels == 21);
    CHECK(b->rope_dim == 14 && b->guidance == 0 && schnell->arch.adm_channels == 12);
    CHECK_NEAR(dev->flow_shift, exp(1.15), 1e-12);
    CHECK(dev->flow_steps == 10000 && schnell->flow_shift == 1 && schnell->flow_steps == 1000);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? schnell : dev;
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == 16);
        CHECK(m->scale_factor == 0.3611 && m->latent_shift == 0.1159);
        CHECK(memcmp(&m->preview, &graft_preview_flux, sizeof m->preview) == 0);
    }
    RELEASE_ALL(dev, schnell);
}

/* Another node is named. */
static void skip_layers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, FLUX_DEV), *out = NULL;
    CHECK_INT(graft_model_skip_layers(m, "1", 3, 0, 1, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out && strstr(e.text, "SkipLayerGuidanceDiT"));
    graft_model_release(m);
}

static graft_cond *guided(const graft_cond *c, double guidance)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_guidance(c, guidance, &out, &e), &e);
    return out;
}

/* Without guidance: what a network makes whose guidance comes to nothing. Prompts of either kind
 * beside each other keep theirs; the last word counts. */
static void untold(const graft_model *dev, const graft_cond *c, const graft_cond *two)
{
    float got[FLUX_OUT], want[FLUX_OUT], told[FLUX_OUT];
    const char *path = temp_path("deaf.safetensors");
    made_file *f = part_of_file(FLUX_DEV, UNET);
    for (int i = 0; i < 2; i++) {
        graft_st_tensor *t =
            made_find(f, i ? "guidance_in.out_layer.bias" : "guidance_in.out_layer.weight");
        memset((void *)(uintptr_t)t->data, 0, (size_t)shape_count(t->shape, t->rank) * 4);
    }
    write_file(f, path, config_of(FLUX_DEV));
    graft_model *deaf = load_model(engine, path);
    graft_cond *none = NULL, *again = NULL, *both = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_untold(two, &none, &e), &e);
    sampled(deaf, c, c, 1, want);
    sampled(dev, none, none, 1, got);
    sampled(dev, two, two, 1, told);
    CHECK(difference(got, want, FLUX_OUT) < 5e-5 && difference(got, told, FLUX_OUT) > 1e-3);
    again = guided(none, 2);
    sampled(dev, again, again, 1, got);
    CHECK(same_flux_bits(got, told));
    CHECK_OK(graft_cond_combine(none, c, &both, &e), &e);
    sampled_in(1, dev, both, both, 1, 1, got);
    sampled_in(1, dev, none, none, 1, 1, want);
    sampled_in(1, dev, c, c, 1, 1, told);
    for (int i = 0; i < FLUX_OUT; i++) want[i] = (want[i] + told[i]) / 2;
    CHECK(difference(got, want, FLUX_OUT) < 5e-5 && difference(got, told, FLUX_OUT) > 1e-3);
    graft_cond_release(none);
    graft_cond_release(again);
    graft_cond_release(both);
    graft_model_release(deaf);
    unlink(path);
}

/* What the network is told, and its schedule: dev's guidance is 3.5 where nobody says otherwise,
 * schnell has none. */
static void what_it_is_told(void)
{
    float got[FLUX_OUT], want[FLUX_OUT], plain[FLUX_OUT];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *dev = load_model(engine, FLUX_DEV), *schnell = load_model(engine, FLUX_SCHNELL);
    graft_cond *c = prompt_of(dev, 20000, FLUX_WORDS), *two = guided(c, 2), *none = NULL;
    sampled(dev, c, c, 1, plain);
    by_hand(dev, &(asked){.words = {FLUX_WORDS}}, want);
    CHECK(difference(plain, want, FLUX_OUT) < 5e-5);
    sampled(dev, two, two, 1, got);
    by_hand(dev, &(asked){.words = {FLUX_WORDS}, .guidance = 2}, want);
    CHECK(difference(got, want, FLUX_OUT) < 5e-5 && difference(got, plain, FLUX_OUT) > 1e-3);
    CHECK_INT(graft_cond_guidance(c, -1, &none, &e), GRAFT_E_ARG);
    CHECK_INT(graft_cond_guidance(c, 100.5, &none, &e), GRAFT_E_ARG);
    CHECK_INT(graft_cond_guidance(c, NAN, &none, &e), GRAFT_E_ARG);
    untold(dev, c, two);
    graft_cond_release(c);
    graft_cond_release(two);
    c = prompt_of(schnell, 20000, FLUX_WORDS);
    two = guided(c, 2);
    sampled(schnell, c, c, 1, plain);
    sampled(schnell, two, two, 1, got);
    by_hand(schnell, &(asked){.words = {FLUX_WORDS}}, want);
    CHECK(same_flux_bits(plain, got) && difference(got, want, FLUX_OUT) < 5e-5);
    graft_cond_release(c);
    graft_cond_release(two);
    RELEASE_ALL(dev, schnell);
}

/* ------------------------------------------------------------------ text encoders */

#define TEXT_MODELS MODELS "/../text_encoders/"

static graft_clip *load_pair(const char *a, const char *b, graft_status want)
{
    const char *const paths[] = {a, b};
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_clip_load(engine, paths, 2, "flux", NULL, &c, &e), want);
    return c;
}

static graft_cond *encode(const graft_clip *c, const char *l, const char *t5)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode_flux(c, l, t5, NULL, &out, &e), &e);
    return out;
}

static bool same_words(const graft_cond *a, const graft_cond *b)
{
    const graft_cond_entry *x = a->entry[0], *y = b->entry[0];
    return x->tokens == y->tokens &&
           !memcmp(x->data, y->data, (size_t)(x->tokens * x->width) * sizeof *x->data);
}

static bool same_pooled(const graft_cond *a, const graft_cond *b)
{
    const graft_cond_entry *x = a->entry[0], *y = b->entry[0];
    return !memcmp(x->pooled, y->pooled, (size_t)x->pooled_width * sizeof *x->pooled);
}

/* T5 reads one text, which is what the network sees; CLIP sums up the other. */
static void two_texts(void)
{
    static const char l[] = TEXT_MODELS "tiny-clip-l.safetensors";
    static const char t5[] = TEXT_MODELS "tiny-t5.safetensors";
    char longer[1400] = "";
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = load_pair(l, t5, GRAFT_OK), *turned = load_pair(t5, l, GRAFT_OK);
    for (int i = 0; i < 300; i++) strcat(longer, "ab ");
    graft_cond *a = encode(c, "red", "red"), *b = encode(c, "blue", "red");
    graft_cond *d = encode(c, "red", "abc"), *f = encode(turned, "red", "red");
    graft_cond *many = encode(c, "red", longer), *same = NULL;
    CHECK_OK(graft_clip_encode(c, "red", NULL, &same, &e), &e);
    CHECK(a->entry[0]->tokens == 256 && a->entry[0]->width == 112);
    CHECK(a->entry[0]->pooled_width == 32 && many->entry[0]->tokens > 300);
    CHECK(same_words(a, b) && !same_pooled(a, b));
    CHECK(!same_words(a, d) && same_pooled(a, d));
    CHECK(same_words(a, f) && same_pooled(a, f) && same_words(a, same) && same_pooled(a, same));
    graft_cond *const all[] = {a, b, d, f, many, same};
    for (size_t i = 0; i < COUNT(all); i++) graft_cond_release(all[i]);
    graft_clip_release(c);
    graft_clip_release(turned);
    CHECK(!load_pair(l, l, GRAFT_E_UNSUPPORTED) && !load_pair(t5, t5, GRAFT_E_UNSUPPORTED));
}

/* Padding in place of the usual 256 tokens: some behind the end, or up to a length. */
static void padded(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = load_pair(TEXT_MODELS "tiny-clip-l.safetensors",
                              TEXT_MODELS "tiny-t5.safetensors", GRAFT_OK);
    graft_clip *bare = NULL, *more = NULL, *least = NULL, *usual = NULL, *bad = NULL;
    CHECK_OK(graft_clip_t5_options(c, 0, 0, &bare, &e), &e);
    CHECK_OK(graft_clip_t5_options(c, 3, 0, &more, &e), &e);
    CHECK_OK(graft_clip_t5_options(more, 3, 40, &least, &e), &e);
    CHECK_OK(graft_clip_t5_options(c, 0, 256, &usual, &e), &e);
    graft_cond *a = encode(bare, "red", "red"), *b = encode(more, "red", "red");
    graft_cond *d = encode(least, "red", "red"), *f = encode(usual, "red", "red");
    graft_cond *plain = encode(c, "red", "red");
    const int64_t own = a->entry[0]->tokens;
    CHECK(own > 1 && own < 40 && b->entry[0]->tokens == own + 3 && d->entry[0]->tokens == 40);
    CHECK(same_words(f, plain) && same_pooled(f, plain) && same_pooled(a, plain));
    CHECK_INT(graft_clip_t5_options(c, -1, 0, &bad, &e), GRAFT_E_ARG);
    CHECK_INT(graft_clip_t5_options(c, 0, 10001, &bad, &e), GRAFT_E_ARG);
    CHECK(!bad);
    graft_cond *const all[] = {a, b, d, f, plain};
    for (size_t i = 0; i < COUNT(all); i++) graft_cond_release(all[i]);
    graft_clip *const clips[] = {c, bare, more, least, usual};
    for (size_t i = 0; i < COUNT(clips); i++) graft_clip_release(clips[i]);
}

/* T5's file with the layers of a LoRA added by hand, and its tokenizer in it. */
static void write_merged_t5(made_file *lora, const char *const *layer, size_t n, const char *path)
{
    graft_safetensors *f = open_file(TEXT_MODELS "tiny-t5.safetensors");
    made_file *t5 = copy_file(f, "");
    char *model = NULL;
    size_t bytes = 0;
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors_close(f);
    for (size_t i = 0; i < n; i++) {
        char name[256];
        const float *up = lora->tensor[2 * i].data, *down = lora->tensor[2 * i + 1].data;
        snprintf(name, sizeof name, "encoder.block.%s.weight", layer[i]);
        graft_st_tensor *w = made_find(t5, name);
        for (int64_t k = 0; w && k < w->shape[0] * w->shape[1]; k++)
            for (int r = 0; r < 2; r++)
                ((float *)(uintptr_t)w->data)[k] +=
                    up[k / w->shape[1] * 2 + r] * down[r * w->shape[1] + k % w->shape[1]];
        CHECK(w != NULL);
    }
    CHECK_OK(graft_file_read(TEXT_MODELS "spiece.model", 1 << 24, &model, &bytes, &e), &e);
    float *room = add_tensor(t5, "spiece_model", 1, (int64_t[]){(int64_t)bytes / 4 + 1}, NULL, 0);
    graft_st_tensor *t = &t5->tensor[t5->n - 1];
    memcpy(room, model, bytes);
    t->dtype = GRAFT_I8;
    t->shape[0] = (int64_t)bytes;
    t->bytes = bytes;
    graft_free(model);
    write_file(t5, path, NULL);
}

/* Those for T5 count, whether it is called the second or the third text encoder. */
static void loras_for_t5(void)
{
    static const char *const layer[] = {"0.layer.0.SelfAttention.q", "1.layer.1.DenseReluDense.wo"};
    static const char *const prefix[] = {"lora_te2_encoder_block_", "lora_te3_encoder_block_",
                                         "text_encoder_2.encoder.block."};
    static const char clip[] = TEXT_MODELS "tiny-clip-l.safetensors";
    const char *path = temp_path("te.safetensors"), *merged = temp_path("t5.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = load_pair(clip, TEXT_MODELS "tiny-t5.safetensors", GRAFT_OK), *l = NULL;
    graft_cond *plain = encode(c, "red", "red");
    for (size_t k = 0; k < COUNT(prefix); k++) {
        made_file *f = calloc(1, sizeof *f);
        random_state = 5;
        for (size_t i = 0; i < COUNT(layer); i++) {
            char name[256];
            snprintf(name, sizeof name, "%s%s", prefix[k], layer[i]);
            for (char *p = name; k < 2 && *p; p++)
                if (*p == '.') *p = '_';
            add_lora_pair(f, name, i ? 112 : 48, i ? 64 : 112);
        }
        write_merged_t5(f, layer, COUNT(layer), merged);
        write_file(f, path, NULL);
        last_log[0] = 0;
        CHECK_OK(graft_lora_apply(NULL, c, path, 0, 1, NULL, NULL, &l, &e), &e);
        CHECK_STR(last_log, "");
        graft_clip *by_hand_made = load_pair(clip, merged, GRAFT_OK);
        graft_cond *got = encode(l, "red", "red"), *want = encode(by_hand_made, "red", "red");
        const graft_cond_entry *x = got->entry[0], *y = want->entry[0], *z = plain->entry[0];
        const int n = (int)(x->tokens * x->width);
        CHECK(y->tokens == x->tokens && same_pooled(got, want));
        CHECK(difference(x->data, y->data, n) < 0.02 * difference(x->data, z->data, n));
        graft_cond_release(got);
        graft_cond_release(want);
        graft_clip_release(l);
        graft_clip_release(by_hand_made);
        unlink(merged);
    }
    graft_cond_release(plain);
    graft_clip_release(c);
    unlink(path);
}

/* All in one file, as CheckpointSave writes it: it comes back as it was. */
static void one_file(void)
{
    const char *out = temp_path("whole.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = load_pair(TEXT_MODELS "tiny-clip-l.safetensors",
                              TEXT_MODELS "tiny-t5.safetensors", GRAFT_OK);
    graft_clip *d = NULL;
    graft_model *m = load_model(engine, MODELS "/../diffusion_models/tiny-flux.safetensors");
    graft_model *n = NULL;
    graft_vae *v = NULL, *w = NULL;
    CHECK_OK(graft_vae_load(engine, MODELS "/../vae/tiny-flux-vae.safetensors", NULL, &v, &e), &e);
    const graft_checkpoint what = {.model = m, .clip = c, .vae = v};
    CHECK_OK(graft_checkpoint_save(&what, out, NULL, NULL, &e), &e);
    CHECK_OK(graft_checkpoint_load(engine, out, NULL, &n, &d, &w, &e), &e);
    if (n && d) {
        graft_cond *a = encode(c, "red", "ab"), *b = encode(d, "red", "ab");
        CHECK(d->kind == GRAFT_CLIP_FLUX && same_words(a, b) && same_pooled(a, b));
        CHECK(memcmp(&m->arch, &n->arch, sizeof m->arch) == 0 && n->arch.flux.guidance);
        graft_cond_release(a);
        graft_cond_release(b);
    }
    graft_clip_release(c);
    graft_clip_release(d);
    graft_vae_release(v);
    graft_vae_release(w);
    RELEASE_ALL(m, n);
    unlink(out);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(skip_layers);
    run_family();
    RUN(what_it_is_told);
    RUN(two_texts);
    RUN(padded);
    RUN(loras_for_t5);
    RUN(one_file);
    graft_engine_destroy(engine);
    return test_end();
}
