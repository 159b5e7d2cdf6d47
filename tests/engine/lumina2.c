/* Lumina-Image 2.0: which files it is found in and under which names, prompts of any length, and
 * what does not go with it. What the network computes is held against golden/small/lumina2_*. */
#include "engine/models/controls/controlnet.h"
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/zimage.h"
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/lumina2_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/lumina2_one.safetensors"

static const renaming names[] = {
    {"final_layer.adaLN_modulation.1.", {"norm_out.linear_1."}},
    {"final_layer.linear.", {"norm_out.linear_2."}},
    {"t_embedder.mlp.0.", {"time_caption_embed.timestep_embedder.linear_1."}},
    {"t_embedder.mlp.2.", {"time_caption_embed.timestep_embedder.linear_2."}},
    {"cap_embedder.", {"time_caption_embed.caption_embedder."}},
    {"context_refiner.#.attention_norm1.", {"context_refiner.#.norm1."}},
    {".attention_norm1.", {".norm1.norm."}},
    {".attention_norm2.", {".norm2."}},
    {".adaLN_modulation.1.", {".norm1.linear."}},
    {".attention.out.", {".attn.to_out.0."}},
    {".attention.q_norm.", {".attn.norm_q."}},
    {".attention.k_norm.", {".attn.norm_k."}},
    {".attention.qkv.", {".attn.to_q.", ".attn.to_k.", ".attn.to_v."}, {3, 1, 1}},
    {".feed_forward.w1.", {".feed_forward.linear_1."}},
    {".feed_forward.w2.", {".feed_forward.linear_2."}},
    {".feed_forward.w3.", {".feed_forward.linear_3."}},
    {NULL}};

static const damage damaged[] = {
    /* Neither so many rows are whole heads, nor do so many heads share the queries'. */
    {"layers.0.attention.qkv.weight", {72 + 2 * 30, 72}, GRAFT_E_UNSUPPORTED, "132 rows of"},
    {"layers.0.attention.qkv.weight", {72 + 2 * 48, 72}, GRAFT_E_UNSUPPORTED, "168 rows of"},
    {"layers.0.attention.qkv.weight", {72, 72}, GRAFT_E_UNSUPPORTED, "72 rows of"},
    {"layers.1.attention.qkv.weight", {72 + 2 * 12, 72}, GRAFT_E_FORMAT},
    {"layers.0.attention.q_norm.weight", {15}, GRAFT_E_UNSUPPORTED, "heads of 15"},
    {"layers.0.attention.q_norm.weight", {0}, GRAFT_E_FORMAT},
    {"x_embedder.weight", {72, 63}, GRAFT_E_FORMAT},
    {"x_embedder.weight", {72}, GRAFT_E_FORMAT},
    {"final_layer.linear.weight", {128, 72}, GRAFT_E_FORMAT},
    {"cap_embedder.1.weight", {71, 24}, GRAFT_E_FORMAT},
    {"t_embedder.mlp.2.weight", {21, 36}, GRAFT_E_FORMAT, "t_embedder.mlp.2"},
    {"layers.1.adaLN_modulation.1.weight", {288, 21}, GRAFT_E_FORMAT},
    /* What only relatives have. */
    {"cap_pad_token", {1, 72}, GRAFT_E_UNSUPPORTED, "120 rows of", {NULL}, NULL, true},
    {"time_text_embed.1.weight", {72}, GRAFT_E_UNSUPPORTED, "NewBie-Image", {NULL}, NULL, true},
    {"ref_image_refiner.0.ffn_norm1.weight",
     {72},
     GRAFT_E_UNSUPPORTED,
     "a relative of OmniGen2 in other names",
     {NULL},
     NULL,
     true},
    TOO_MUCH("layers.0.attn.norm_added_q.weight",
             "Lumina-Image 2.0's transformer has no tensor layers.0.attn.norm_added_q"),
    TOO_MUCH("layers.70000.ffn_norm1.weight",
             "Lumina-Image 2.0's transformer has no tensor layers.70000"),
    TURNING(10),
    TURNING(5),
    {NULL}};

/* Without a config a third of a head turns with the row. */
static const family tested = {
    .name = "lumina2",
    .title = "Lumina-Image 2.0 or a relative",
    .two = TWO,
    .one = ONE,
    .plain = TWO,
    .gguf = "lumina2", /* as stable-diffusion.cpp and ComfyUI-GGUF */
    .packed = ONE,
    .theirs = names,
    .in_files = true,
    .scale = 0.3611,
    .shift = 0.1159,
    .error = 1e-4,
    .prompts = prompts_by_64,
    .attended = 6,
    .attended_once = 2,
    .tensors = 87,
    .their_tensors = 87 + 6 * 2,
    .losses = {{GRAFT_ZIMAGE_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"time_caption_embed.caption_embedder.1.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"}},
    .damaged = damaged,
    .unbuilt = {{{.adapted = 1}, GRAFT_E_UNSUPPORTED}, {{.control = 1}, GRAFT_E_UNSUPPORTED}},
    .loras = 3 * (4 + 2) + 6 * 3 * 2 + 4 * 2 + 6 * 2,
    .lora_error = 5e-5,
    .untried = {".0.attention."},
    .lora_names = {{"lora_unet_layers_1_feed_forward_w1", KOHYA_PLAIN, 112, 72},
                   {"diffusion_model.layers.1.feed_forward.w1", PEFT},
                   {"transformer.layers.1.feed_forward.linear_1", PEFT},
                   {"lora_unet_layers_1_feed_forward_linear_1", KOHYA_PLAIN},
                   {"layers.1.feed_forward.w1", PEFT},
                   {"lycoris_layers_1_feed_forward_w1", KOHYA_PLAIN},
                   {"diffusion_model.layers.1.attention.qkv", PEFT, 120, 72},
                   {"lora_unet_layers_1_attention_qkv", KOHYA_PLAIN},
                   {"transformer.layers.1.attn.to_k", PEFT, 24, 72},
                   {"lora_unet_layers_1_attn_to_k", KOHYA_PLAIN}},
    .kept = {"x_embedder", "t_embedder", "final_layer"},
    .attentions = 6,
    .linears = 6 * 5 + 4 + 6,
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_zimage_arch *a = &two->arch.zimage, *b = &one->arch.zimage;
    CHECK(a->depth == 2 && a->noise_depth == 2 && a->context_depth == 2 && a->heads == 6);
    CHECK(a->hidden == 72 && a->mlp == 112 && a->rope_dim == 4 && a->told == 20);
    CHECK(a->time_mlp == 36 && a->time_dim == 256 && a->context_dim == 24 && a->key_heads == 2);
    CHECK(b->depth == 1 && b->noise_depth == 1 && b->context_depth == 1 && b->heads == 3);
    CHECK(b->rope_dim == 8 && b->key_heads == 1);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_ZIMAGE && m->arch.adm_channels == 0);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == 16);
        CHECK(m->flow_shift == 6 && m->flow_steps == 1000);
        CHECK(m->scale_factor == 0.3611 && m->latent_shift == 0.1159);
        CHECK(memcmp(&m->preview, &graft_preview_flux, sizeof m->preview) == 0);
    }
    RELEASE_ALL(two, one);
}

/* Published files have a norm more, which nothing is computed by. */
static void a_norm_that_is_not_read(void)
{
    made_file *f = part_of_file(TWO, UNET);
    add_tensor(f, "norm_final.weight", 1, (int64_t[]){72}, NULL, 0.1f);
    same_in_file(engine, TWO, written(f, "more.safetensors", config_of(TWO)), run_some);
}

/* The prompt's order counts, though all of its places are told from its end. */
static void order(void)
{
    CHECK(turned_around(TWO) > 1e-3);
    CHECK(turned_around(ONE) > 1e-3);
}

/* Z-Image's ControlNets, of which one fits in all its widths, are for Z-Image. */
static void no_controlnets(void)
{
    graft_model *m = load_model(engine, TWO);
    graft_control_arch a = {.kind = GRAFT_NET_ZIMAGE, .zimage = m->arch.zimage};
    graft_err e = GRAFT_ERR_INIT;
    a.zimage.key_heads = 0;
    CHECK_INT(graft_control_fits(&a, &m->arch, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "it is for Z-Image, the model is Lumina-Image 2.0"));
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(a_norm_that_is_not_read);
    RUN(order);
    RUN(no_controlnets);
    graft_engine_destroy(engine);
    return test_end();
}
