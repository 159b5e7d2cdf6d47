/* HiDream-I1: which files it is found in, prompts of any length, its experts, which layer of Llama
 * a block reads, and what does not go with it. What the network computes is held against
 * golden/small/hidream_*. */
#include "engine/models/controls/controlnet.h"
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/hidream.h"
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/hidream_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/hidream_one.safetensors"

#define OF_TWO "double_stream_blocks.1.block."
#define OF_ONE "single_stream_blocks.0.block."

static const damage damaged[] = {
    {"x_embedder.proj.weight", {32, 15}, GRAFT_E_FORMAT},
    {"x_embedder.proj.weight", {32, 12}, GRAFT_E_FORMAT, "final_layer."},
    {"x_embedder.proj.bias", {31}, GRAFT_E_FORMAT},
    {"t_embedder.timestep_embedder.linear_1.weight",
     {32, 255},
     GRAFT_E_FORMAT,
     "do not fit together"},
    {"p_embedder.pooled_embedder.linear_2.weight", {31, 32}, GRAFT_E_FORMAT},
    {"caption_projection.1.linear.weight", {32, 19}, GRAFT_E_FORMAT},
    {"caption_projection.4.linear.weight", {31, 24}, GRAFT_E_FORMAT},
    {"double_stream_blocks.0.block.ff_i.gate.weight",
     {1, 32},
     GRAFT_E_UNSUPPORTED,
     "chooses 2 of 1 experts"},
    {"double_stream_blocks.0.block.ff_i.gate.weight",
     {65, 32},
     GRAFT_E_UNSUPPORTED,
     "of 65 experts"},
    {OF_TWO "ff_i.gate.weight", {3, 32}, GRAFT_E_FORMAT},
    {OF_TWO "ff_i.experts.3.w2.weight", {32, 39}, GRAFT_E_FORMAT},
    {OF_TWO "ff_i.shared_experts.w1.weight", {23, 32}, GRAFT_E_FORMAT},
    {OF_TWO "ff_t.w3.weight", {43, 32}, GRAFT_E_FORMAT},
    {OF_TWO "attn1.to_k_t.weight", {31, 32}, GRAFT_E_FORMAT},
    {OF_TWO "attn1.q_rms_norm_t.weight", {16}, GRAFT_E_FORMAT},
    {OF_TWO "adaLN_modulation.1.weight", {192, 32}, GRAFT_E_FORMAT},
    {OF_ONE "attn1.k_rms_norm.weight", {16}, GRAFT_E_FORMAT},
    {OF_ONE "ff_i.experts.0.w3.weight", {39, 32}, GRAFT_E_FORMAT},
    {"final_layer.adaLN_modulation.1.weight", {32, 32}, GRAFT_E_FORMAT},
    {NULL,
     {0},
     GRAFT_E_UNSUPPORTED,
     "width 32 does not divide into heads of 6",
     {NULL},
     "{\"num_heads\": 5}"},
    {NULL,
     {0},
     GRAFT_E_UNSUPPORTED,
     "chooses 5 of 4 experts",
     {NULL},
     "{\"num_heads\": 2, \"num_activated_experts\": 5}"},
    {NULL,
     {0},
     GRAFT_E_UNSUPPORTED,
     "heads of 16, of which 10 turn",
     {NULL},
     "{\"num_heads\": 2, \"rope_dim\": 10}"},
    {NULL}};

/* Each length has a graph of its own; two of the same are one batch. */
static const prompt_pair pairs[] = {
    {{5, 9}, {0, 1}}, {{7, 7}, {1, 1}}, {{9, 5}, {0, 0}}, {{1, 33}, {1, 1}}, {{0}}};

/* Its own names are diffusers'. All of y is the pooled prompts. */
static int64_t tell(const graft_model *m, const asked *a, int i, float *context, float *y)
{
    (void)context;
    for (int32_t k = 0; k < m->arch.adm_channels; k++) y[k] = fixed_value(40000 + (uint64_t)k);
    return a->words[i];
}

static const family tested = {
    .name = "hidream",
    .title = "HiDream-I1",
    .two = TWO,
    .one = ONE,
    .gguf = "hidream",
    .packed = TWO,
    .tell = tell,
    .scale = 0.3611,
    .shift = 0.1159,
    .error = 2e-4,
    .prompts = pairs,
    .tensors = 157,
    .losses = {{GRAFT_HIDREAM_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"}},
    .damaged = damaged,
    .unbuilt = {{{.control = 1}, GRAFT_E_UNSUPPORTED},
                {{.references.n = 1}, GRAFT_E_UNSUPPORTED},
                {{.height = 7}, GRAFT_E_ARG},
                {{.width = 18, .height = 3}, GRAFT_E_ARG}},
    .loras = 98,
    .lora_error = 1e-4,
    .untried = {"_blocks.0.", "experts.0", "experts.2"},
    .lora_names = {{"transformer." OF_TWO "attn1.to_out_t", PEFT, 32, 32},
                   {OF_TWO "attn1.to_out_t", PEFT_DEFAULT},
                   {"diffusion_model." OF_TWO "attn1.to_out_t", PEFT},
                   {"lora_unet_double_stream_blocks_1_block_attn1_to_out_t", KOHYA},
                   {"lycoris_double_stream_blocks_1_block_attn1_to_out_t", KOHYA},
                   {"transformer." OF_ONE "ff_i.experts.3.w1", PEFT, 40, 32},
                   {"lora_unet_single_stream_blocks_0_block_ff_i_experts_3_w1", KOHYA}},
    .kept = {"x_embedder", "t_embedder.", "p_embedder.", "final_",
             "double_stream_blocks.0.block.ff_i.gate", "double_stream_blocks.1.block.ff_i.gate",
             "single_stream_blocks.0.block.ff_i.gate", "single_stream_blocks.1.block.ff_i.gate"},
    .attentions = 4,
    .linears = 110,
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_hidream_arch *a = &two->arch.hidream, *b = &one->arch.hidream;
    CHECK(a->depth == 2 && a->single_depth == 2 && a->heads == 2 && a->hidden == 32);
    CHECK(a->mlp == 40 && a->shared_mlp == 24 && a->text_mlp == 44 && a->rope_dim == 4);
    CHECK(a->experts == 4 && a->chosen == 2 && a->t5_dim == 24 && a->llama_dim == 20);
    CHECK(a->llama_layers == 3 && a->pooled_dim == 12 && a->channels == 4 && a->time_dim == 256);
    CHECK(two->arch.context_dim == 24 + 3 * 20);
    CHECK(b->depth == 1 && b->single_depth == 1 && b->heads == 3 && b->hidden == 36);
    CHECK(b->experts == 5 && b->chosen == 3 && b->llama_layers == 2 && b->channels == 6);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_HIDREAM && m->arch.adm_channels == (i ? 20 : 12));
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->flow_shift == 3 && m->flow_steps == 1000);
        CHECK(m->scale_factor == 0.3611 && m->latent_shift == 0.1159 && !m->planes);
        CHECK(memcmp(&m->preview, &graft_preview_flux, sizeof m->preview) == 0);
        CHECK(graft_net_cell(&m->arch) == 8 && graft_net_patch(&m->arch) == 2);
        CHECK(!graft_net_counts_tokens(&m->arch, 128) && !graft_net_counts_tokens(&m->arch, 300));
        CHECK_STR(graft_net_kind_name(&m->arch), "hidream");
    }
    RELEASE_ALL(two, one);
}

/* Z-Image's ControlNets are for Z-Image. */
static void no_controlnets(void)
{
    graft_model *m = load_model(engine, tested.two);
    const graft_control_arch a = {.kind = GRAFT_NET_ZIMAGE};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_control_fits(&a, &m->arch, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "it is for Z-Image, the model is HiDream-I1"));
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(no_controlnets);
    graft_engine_destroy(engine);
    return test_end();
}
