/* Z-Image: which files it is found in and under which names, prompts of any length, and what does
 * not go with it. What the network computes is held against golden/small/zimage_*. */
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/zimage.h"
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/zimage_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/zimage_one.safetensors"

enum { MARKS = GRAFT_ZIMAGE_TOKENS };

static const renaming names[] = {
    {"x_embedder.", {"all_x_embedder.2-1."}},
    {"final_layer.", {"all_final_layer.2-1."}},
    {".attention.out.", {".attention.to_out.0."}},
    {".attention.q_norm.", {".attention.norm_q."}},
    {".attention.k_norm.", {".attention.norm_k."}},
    {".attention.qkv.", {".attention.to_q.", ".attention.to_k.", ".attention.to_v."}},
    {NULL}};

static const damage damaged[] = {
    {NULL,
     {0},
     GRAFT_E_UNSUPPORTED,
     "without its padding tokens",
     {"cap_pad_token", "x_pad_token"}},
    /* Fewer heads of keys and values than of queries. */
    {"layers.0.attention.qkv.weight", {48 + 2 * 16, 48}, GRAFT_E_UNSUPPORTED, "80 rows of queries"},
    {"layers.1.attention.qkv.weight", {48 + 2 * 16, 48}, GRAFT_E_FORMAT},
    {"layers.0.attention.q_norm.weight", {15}, GRAFT_E_UNSUPPORTED, "heads of 15"},
    {"layers.0.attention.q_norm.weight", {0}, GRAFT_E_FORMAT},
    {"x_embedder.weight", {48, 63}, GRAFT_E_FORMAT},
    {"x_embedder.weight", {48}, GRAFT_E_FORMAT},
    {"final_layer.linear.weight", {128, 48}, GRAFT_E_FORMAT},
    {"cap_embedder.1.weight", {47, 24}, GRAFT_E_FORMAT},
    {"t_embedder.mlp.2.weight", {21, 36}, GRAFT_E_FORMAT, "t_embedder.mlp.2"},
    {"t_embedder.mlp.0.weight", {36, 255}, GRAFT_E_FORMAT, "do not fit together"},
    {"cap_pad_token", {1, 47}, GRAFT_E_FORMAT},
    TOO_MUCH("siglip_refiner.0.attention.to_q.weight",
             "Z-Image's transformer has no tensor siglip_refiner.0"),
    TOO_MUCH("layers.70000.ffn_norm1.weight", "Z-Image's transformer has no tensor layers.70000"),
    TURNING(10),
    TURNING(5),
    {NULL}};

/* Prompts are filled up to whole blocks of tokens, with what the network must not see. */
static int64_t tell(const graft_model *m, const asked *a, int i, float *context, float *y)
{
    const int64_t words = a->words[i], all = graft_zimage_tokens(words),
                  width = m->arch.context_dim;
    for (int64_t k = words * width; k < all * width; k++) context[k] = 1e6f;
    for (int64_t k = 0; k < MARKS; k++) y[k] = MARKS - k <= all - words;
    return all;
}

/* One graph serves all prompts that come to as many blocks, side by side with others or not. */
static const prompt_pair pairs[] = {{{5, 9}, {0, 1}},
                                    {{32, 1}, {0, 0}},
                                    {{17, 32}, {0, 0}},
                                    {{33, 64}, {1, 1}},
                                    {{5, 70}, {0, 1}},
                                    {{96, 31}, {0, 0}},
                                    {{0}}};

/* Without a config three eighths of a head turn with the row. */
static const family tested = {
    .name = "zimage",
    .title = "Z-Image or a relative",
    .two = TWO,
    .one = ONE,
    .plain = TWO,
    .gguf = "lumina2", /* as stable-diffusion.cpp and ComfyUI-GGUF */
    .packed = ONE,
    .theirs = names,
    .in_files = true,
    .tell = tell,
    .scale = 0.3611,
    .shift = 0.1159,
    .error = 1e-4,
    .prompts = pairs,
    .tensors = 89,
    .their_tensors = 89 + 6 * 2,
    .losses = {{GRAFT_ZIMAGE_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"layers.0.attention.to_q.weight", GRAFT_E_FORMAT, "x_embedder.weight"}},
    .damaged = damaged,
    .bad_tokens = 5,
    .unbuilt = {{{.adapted = 1}, GRAFT_E_UNSUPPORTED},
                {{.control = 1}, GRAFT_E_ARG}}, /* no block of it takes any residual */
    .loras = 2 * (6 * 3 + 4 + 3 * 2 + 6) + 3 * 2,
    .lora_error = 5e-5,
    .untried = {"pad_token", ".0.attention."},
    .lora_names = {{"lora_unet_layers_1_feed_forward_w1", KOHYA_PLAIN, 112, 48},
                   {"diffusion_model.layers.1.feed_forward.w1", PEFT},
                   {"transformer.layers.1.feed_forward.w1", PEFT},
                   {"layers.1.feed_forward.w1", PEFT},
                   {"lycoris_layers_1_feed_forward_w1", KOHYA_PLAIN},
                   {"diffusion_model.layers.1.attention.qkv", PEFT, 144, 48},
                   {"lora_unet_layers_1_attention_qkv", KOHYA_PLAIN},
                   {"diffusion_model.layers.1.attention.to_k", PEFT, 48, 48},
                   {"lora_unet_layers_1_attention_to_k", KOHYA_PLAIN}},
    .kept = {"x_embedder", "t_embedder", "final_layer"},
    .attentions = 6,
    .linears = 6 * 5 + 4 + 6,
};

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

/* What ConditioningZeroOut leaves are words, too. */
static void zeros_are_words(void)
{
    float one[ANSWER], two[ANSWER];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, ONE);
    graft_cond *c[4] = {prompt_of(m, 20000, 7), prompt_of(m, 20000, 8)};
    for (int i = 0; i < 2; i++) CHECK_OK(graft_cond_zero_out(c[i], &c[2 + i], &e), &e);
    sampled(m, c[2], c[2], 1, one);
    sampled(m, c[3], c[3], 1, two);
    CHECK(difference(one, two, answer_values(m)) > 1e-4);
    for (int i = 0; i < 4; i++) graft_cond_release(c[i]);
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(zeros_are_words);
    graft_engine_destroy(engine);
    return test_end();
}
