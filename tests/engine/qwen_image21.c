/* Qwen-Image 2.1: which files it is found in and under which names, prompts of any length, what is
 * computed once, and what does not go with it. What the network computes is held against
 * golden/small/qwen_image21_one and _two. */
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/qwen_image21.h"
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/qwen_image21_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/qwen_image21_one.safetensors"

/* The layers in front of a gate are apart. */
static const renaming names[] = {{".gate_up.", {".gate_layer.", ".proj."}}, {NULL}};

static const damage damaged[] = {
    {"transformer_blocks.0.attn.norm_q.weight", {15}, GRAFT_E_UNSUPPORTED, "heads of 15"},
    {"transformer_blocks.0.attn.norm_q.weight", {0}, GRAFT_E_FORMAT},
    {"transformer_blocks.1.img_mlp.gate_up.weight", {80, 48}, GRAFT_E_FORMAT},
    {"modulation.1.weight", {6 * 48, 48}, GRAFT_E_FORMAT},
    {"proj_out.weight", {63, 48}, GRAFT_E_FORMAT},
    {"txt_in.text_norm.weight", {23}, GRAFT_E_FORMAT, "txt_in.in_layer.weight"},
    TOO_MUCH("transformer_blocks.70000.attn.to_q.weight", "has no tensor transformer_blocks.70000"),
    TURNING(10),
    {NULL}};

/* Without a config, as ComfyUI's files are, 7 of 16 of a head turn with the row. A layer of the
 * prompt and of the picture is one. */
static const family tested = {
    .name = "qwen_image21",
    .title = "Qwen-Image 2.1",
    .two = TWO,
    .one = ONE,
    .plain = ONE,
    .gguf = "qwen_image21",
    .packed = ONE,
    .theirs = names,
    .in_files = true,
    .error = 2e-3,
    .prompts = prompts_by_64,
    .attended = 3,
    .attended_once = 1, /* behind the last block's nobody reads the prompt */
    .tensors = 9 + 2 * 8,
    .their_tensors = 9 + 2 * 9,
    .losses = {{GRAFT_QWEN_IMAGE21_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"}},
    .damaged = damaged,
    .takes_references = true,
    .unbuilt = {{{.control = 1}, GRAFT_E_UNSUPPORTED}, {{.references.n = 1}, GRAFT_E_ARG}},
    .loras = 2 * (6 + 8) + 1,
    .lora_error = 5e-5,
    .untried = {"transformer_blocks.1."},
    .lora_names = {{"diffusion_model.transformer_blocks.1.attn.to_k", PEFT, 48, 48},
                   {"transformer_blocks.1.attn.to_k", PEFT},
                   {"diffusion_model.transformer_blocks.1.attn.to_k", KOHYA},
                   {"transformer.transformer_blocks.1.attn.to_k", PEFT},
                   {"transformer_blocks.1.attn.to_k", PEFT_DEFAULT},
                   {"lora_unet_transformer_blocks_1_attn_to_k", KOHYA}},
    .kept = {"img_in", "proj_out", "modulation.1", "norm_out.linear", "time_text_embed."},
    .attentions = 2,
    .linears = 2 * 6 + 8,
};

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

/* In diffusers' names, as part of a checkpoint. */
static void below_a_prefix(void)
{
    same_in_file(engine, TWO,
                 written(renamed_file(TWO, names, UNET), "whole.safetensors", config_of(TWO)),
                 run_some);
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

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(below_a_prefix);
    RUN(empty_latents);
    graft_engine_destroy(engine);
    return test_end();
}
