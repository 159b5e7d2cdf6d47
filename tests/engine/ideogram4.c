/* Ideogram 4: which files it is found in and under which names, prompts of any length and none, and
 * what does not go with it. What the network computes is held against golden/small/ideogram4_*; its
 * two models together are two_models.c's. */
#include "engine/denoise/previews.h"
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/ideogram4.h"
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/ideogram4_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/ideogram4_one.safetensors"

static const renaming names[] = {
    {".attention.o.", {".attention.to_out.0."}},
    {".attention.qkv.", {".attention.to_q.", ".attention.to_k.", ".attention.to_v."}},
    {NULL}};

static const damage damaged[] = {
    {"layers.0.attention.norm_q.weight", {31}, GRAFT_E_UNSUPPORTED, "heads of 31"},
    {"layers.0.attention.norm_q.weight", {0}, GRAFT_E_FORMAT},
    {"layers.0.attention.qkv.weight", {287, 96}, GRAFT_E_UNSUPPORTED, "287 rows of"},
    {"layers.1.attention.qkv.weight", {96, 96}, GRAFT_E_FORMAT},
    {"input_proj.weight", {96, 13}, GRAFT_E_FORMAT},
    {"input_proj.weight", {96, 16}, GRAFT_E_FORMAT, "final_layer.linear."},
    {"llm_cond_proj.weight", {96, 66}, GRAFT_E_FORMAT},
    {"llm_cond_proj.weight", {96, 52}, GRAFT_E_FORMAT, "llm_cond_norm.weight"},
    {"embed_image_indicator.weight", {3, 96}, GRAFT_E_FORMAT},
    {"layers.1.adaln_modulation.weight", {288, 20}, GRAFT_E_FORMAT},
    {"final_layer.adaln_modulation.bias", {95}, GRAFT_E_FORMAT},
    {"adaln_proj.bias", {21}, GRAFT_E_FORMAT},
    {"t_embedding.mlp_in.weight", {96, 95}, GRAFT_E_FORMAT},
    TOO_MUCH("layers.0.attention.to_q.bias",
             "Ideogram 4's transformer has no tensor layers.0.attention"),
    TOO_MUCH("layers.70000.attention_norm1.weight", "has no tensor layers.70000"),
    TURNING(12),
    {NULL}};

/* Without words none of the tokens is the prompt's. */
static int64_t tell(const graft_model *m, const asked *a, int i, float *context, float *y)
{
    (void)m, (void)context, (void)y;
    return a->words[i] ? a->words[i] : 3;
}

static const family tested = {
    .name = "ideogram4",
    .title = "Ideogram 4",
    .two = TWO,
    .one = ONE,
    .gguf = "ideogram4",
    .packed = TWO,
    .theirs = names,
    .in_files = true,
    .tell = tell,
    .error = 2e-4,
    .prompts = prompts_by_64,
    .tensors = 2 * 13 + 16,
    .their_tensors = 2 * 15 + 16,
    .losses = {{GRAFT_IDEOGRAM4_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"layers.0.attention.to_q.weight", GRAFT_E_FORMAT, "layers.0.attention."}},
    .damaged = damaged,
    .unbuilt = {{{.control = 1}, GRAFT_E_UNSUPPORTED}, {{.references.n = 1}, GRAFT_E_UNSUPPORTED}},
    .loras = 2 * (6 + 7) + 2,
    .lora_error = 1e-4,
    .untried = {"layers.1.", "embed_image"},
    .lora_names = {{"diffusion_model.layers.1.attention.o", PEFT, 96, 96},
                   {"layers.1.attention.o", PEFT},
                   {"diffusion_model.layers.1.attention.o", KOHYA},
                   {"lora_unet_layers_1_attention_o", KOHYA},
                   {"transformer.layers.1.attention.to_out.0", PEFT},
                   {"layers.1.attention.to_out.0", PEFT_DEFAULT},
                   {"lora_unet_layers_1_attention_to_out_0", KOHYA}},
    .kept = {"input_proj", "final_layer.", "t_embedding.", "adaln_proj", "embed_image_indicator"},
    .attentions = 2,
    .linears = 2 * 6 + 7,
};

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

static void keep_preview(void *ctx, const uint8_t *rgb, int width, int height)
{
    CHECK(width == 4 && height == 2);
    memcpy(ctx, rgb, (size_t)(width * height * 3));
}

/* What is shown while it samples is FLUX.2's latent, by its colours or an autoencoder for those. */
static void previews(graft_model *m, const float latent[2 * 128])
{
    const int64_t shape[4] = {1, 128, 1, 2};
    uint8_t got[2 * 4 * 3] = {0}, want[2 * 4 * 3];
    float seen[2 * 128];
    const graft_task task = {.ctx = got, .preview = keep_preview};
    graft_previews p;
    graft_model_scale_latent(m, latent, COUNT(seen), 2, seen);
    graft_preview_draw(&graft_preview_flux2, latent, 1, 2, want);
    graft_previews_begin(&p, m, &task, shape);
    CHECK(graft_previews_wanted(&p, true));
    graft_previews_show(&p, seen, true);
    graft_previews_end(&p);
    int off = 0;
    for (size_t i = 0; i < COUNT(got); i++) off += abs(got[i] - want[i]) > 1;
    CHECK_INT(off, 0);
    graft_preview_draw(&graft_preview_flux2, seen, 1, 2, want);
    CHECK(memcmp(got, want, sizeof got) != 0);
    static const char *const files[] = {"taesd_flux2", "taesd_sd3", "taew"};
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[300];
        graft_vae *v = NULL;
        graft_err e = GRAFT_ERR_INIT;
        snprintf(path, sizeof path, GRAFT_SOURCE_DIR "/golden/small/%s.safetensors", files[i]);
        CHECK_OK(graft_vae_load(engine, path, NULL, &v, &e), &e);
        CHECK(v && graft_vae_is_for(v, m) == (i == 0));
        graft_vae_release(v);
    }
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
    previews(m, latent);
    graft_model_release(m);
    unlink(path);
}

/* A prompt that was made zeros is none, however long it was; what is put into it later is one. */
static void zeros_are_no_prompt(void)
{
    float got[ANSWER], want[ANSWER];
    const size_t n = 12 * SIDE * SIDE;
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    for (int words = 3; words < 96; words += 80) {
        graft_cond *a = prompt_of(m, 20000, 7), *b = prompt_of(m, 60000, words), *none = NULL;
        CHECK_OK(graft_cond_zero_out(b, &none, &e), &e);
        sampled(m, a, none, 4, got);
        by_hand(m, &(asked){.words = {7, 0}, .cfg = 4}, want);
        CHECK(difference(got, want, n) < 2e-4);
        sampled(m, none, none, 1, got);
        by_hand(m, &(asked){.words = {0}}, want);
        CHECK(difference(got, want, n) < 2e-4);
        /* Zeros that nobody asked for are words. */
        memset(b->entry[0]->data, 0, (size_t)(words * 65) * sizeof(float));
        sampled(m, b, b, 1, got);
        CHECK(difference(got, want, n) > 1e-3);
        graft_cond_release(a);
        graft_cond_release(b);
        graft_cond_release(none);
    }
    graft_model_release(m);
}

/* Words have places: in another order they are another prompt. */
static void order_of_words(void)
{
    CHECK(turned_around(TWO) > 1e-3);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(heads_of_the_published);
    RUN(planes);
    run_family();
    RUN(zeros_are_no_prompt);
    RUN(order_of_words);
    graft_engine_destroy(engine);
    return test_end();
}
