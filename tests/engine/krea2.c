/* Krea 2: which files it is found in and under which names, prompts of any length, and what does
 * not go with it. What the network computes is held against golden/small/krea2_*. */
#include "engine/models/parts/tensors.h"
#include "tests/engine/family.h"
#include "tests/engine/wan_planes.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/krea2_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/krea2_one.safetensors"

static const renaming names[] = {{"blocks.", {"transformer_blocks."}},
                                 {"txtfusion.", {"text_fusion."}},
                                 {".prenorm.scale", {".norm1.weight"}},
                                 {".postnorm.scale", {".norm2.weight"}},
                                 {".qknorm.qnorm.scale", {".norm_q.weight"}},
                                 {".qknorm.knorm.scale", {".norm_k.weight"}},
                                 {".attn.wq.", {".attn.to_q."}},
                                 {".attn.wk.", {".attn.to_k."}},
                                 {".attn.wv.", {".attn.to_v."}},
                                 {".attn.gate.", {".attn.to_gate."}},
                                 {".attn.wo.", {".attn.to_out.0."}},
                                 {".mlp.", {".ff."}},
                                 {"last.modulation.lin", {"final_layer.scale_shift_table"}},
                                 {".mod.lin", {".scale_shift_table"}, .rows = 6},
                                 {"last.norm.scale", {"final_layer.norm.weight"}},
                                 {"last.linear.", {"final_layer.linear."}},
                                 {"first.", {"img_in."}},
                                 {"tmlp.0.", {"time_embed.linear_1."}},
                                 {"tmlp.2.", {"time_embed.linear_2."}},
                                 {"tproj.1.", {"time_mod_proj."}},
                                 {"txtmlp.0.scale", {"txt_in.norm.weight"}},
                                 {"txtmlp.1.", {"txt_in.linear_1."}},
                                 {"txtmlp.3.", {"txt_in.linear_2."}},
                                 {NULL}};

static const damage damaged[] = {
    {"blocks.0.attn.qknorm.qnorm.scale", {15}, GRAFT_E_UNSUPPORTED, "heads of 15"},
    {"blocks.0.attn.qknorm.qnorm.scale", {0}, GRAFT_E_FORMAT},
    {"blocks.0.attn.wq.weight", {32, 48}, GRAFT_E_UNSUPPORTED, "32 rows of queries"},
    {"blocks.0.attn.wk.weight", {32, 48}, GRAFT_E_UNSUPPORTED, "32 of keys"},
    {"txtfusion.layerwise_blocks.0.attn.wk.weight",
     {12, 24},
     GRAFT_E_UNSUPPORTED,
     "12 of keys, in heads of 8"},
    {"blocks.1.attn.wk.weight", {48, 48}, GRAFT_E_FORMAT},
    {"first.weight", {48, 63}, GRAFT_E_FORMAT},
    {"last.linear.weight", {128, 48}, GRAFT_E_FORMAT},
    {"last.modulation.lin", {3, 48}, GRAFT_E_FORMAT},
    {"last.modulation.lin", {5, 19}, GRAFT_E_FORMAT},
    {"blocks.1.mod.lin", {5 * 48}, GRAFT_E_FORMAT},
    {"blocks.1.prenorm.scale", {47}, GRAFT_E_FORMAT},
    TOO_MUCH("text_fusion.layerwise_blocks.0.attn.to_q.bias",
             "Krea 2's transformer has no tensor text_fusion.layerwise"),
    TOO_MUCH("transformer_blocks.70000.norm1.weight", "has no tensor transformer_blocks.70000"),
    TURNING(10),
    {NULL}};

/* As published, three eighths of a head turn with the row. */
static const family tested = {
    .name = "krea2",
    .title = "Krea 2",
    .two = TWO,
    .one = ONE,
    .plain = TWO,
    .gguf = "krea2", /* as ComfyUI-GGUF */
    .packed = ONE,
    .theirs = names,
    .in_files = true,
    .mean = wan_mean,
    .deviation = wan_deviation,
    .error = 2e-4,
    .prompts = prompts_by_64,
    .attended = 5,
    .attended_once = 3, /* the prompt's blocks */
    .tensors = 5 * 12 + 2 + 18,
    .their_tensors = 5 * 12 + 2 + 18,
    .losses = {{GRAFT_KREA2_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"text_fusion.projector.weight", GRAFT_E_UNSUPPORTED, "unknown architecture"}},
    .damaged = damaged,
    .unbuilt = {{{.control = 1}, GRAFT_E_UNSUPPORTED},
                {{.references.n = 1}, GRAFT_E_UNSUPPORTED},
                {{.width = 7}, GRAFT_E_ARG}},
    .loras = 2 * (3 * 8 + 8 - 1),
    .lora_error = 5e-5,
    .untried = {".lin", "layerwise_blocks.1.", "blocks.1."},
    .lora_names = {{"diffusion_model.blocks.1.attn.wk", PEFT, 16, 48},
                   {"blocks.1.attn.wk", PEFT},
                   {"diffusion_model.blocks.1.attn.wk", KOHYA},
                   {"lora_unet_blocks_1_attn_wk", KOHYA},
                   {"transformer.transformer_blocks.1.attn.to_k", PEFT},
                   {"transformer_blocks.1.attn.to_k", PEFT_DEFAULT},
                   {"lora_unet_transformer_blocks_1_attn_to_k", KOHYA}},
    .kept = {"first", "last.linear", "tmlp.", "tproj.1", "txtfusion.projector"},
    .attentions = 5,
    .linears = 5 * 8 + 8,
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_krea2_arch *a = &two->arch.krea2, *b = &one->arch.krea2;
    CHECK(a->depth == 2 && a->heads == 3 && a->key_heads == 1 && a->hidden == 48 && a->mlp == 80);
    CHECK(a->rope_dim == 6 && a->patch == 2 && a->channels == 16 && a->time_dim == 256);
    CHECK(a->text_layers == 5 && a->text_width == 24 && a->text_heads == 3);
    CHECK(a->text_key_heads == 3 && a->text_mlp == 40 && a->layer_depth == 2);
    CHECK(a->token_depth == 1 && two->arch.context_dim == 120);
    CHECK(b->depth == 1 && b->heads == 4 && b->key_heads == 2 && b->rope_dim == 2);
    CHECK(b->text_layers == 12 && b->text_heads == 4 && b->text_key_heads == 2);
    CHECK(b->layer_depth == 1 && b->token_depth == 2 && one->arch.context_dim == 192);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_KREA2 && !m->arch.adm_channels && !m->arch.beside);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == 16);
        CHECK_NEAR(m->flow_shift, 3.158193, 1e-6);
        CHECK(m->planes == &graft_wan_planes);
        CHECK(memcmp(&m->preview, &graft_preview_wan, sizeof m->preview) == 0);
        CHECK_STR(graft_net_kind_name(&m->arch), "krea2");
    }
    RELEASE_ALL(two, one);
}

/* Some files carry two matrices more, which no published network reads. */
static void with_more_than_it_reads(void)
{
    const char *path = temp_path("more.safetensors");
    made_file *f = part_of_file(TWO, UNET);
    add_tensor(f, "last.down.weight", 2, (int64_t[]){48, 48}, NULL, 1);
    add_tensor(f, "last.up.weight", 2, (int64_t[]){48, 48}, NULL, 1);
    write_file(f, path, config_of(TWO));
    graft_model *a = load_model(engine, TWO), *b = load_model(engine, path);
    answer_alike(a, b, run_some);
    RELEASE_ALL(a, b);
    unlink(path);
}

/* The prompt's tokens have no places: in another order they are the same prompt. */
static void order_of_words(void)
{
    CHECK(turned_around(ONE) < 1e-4);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(with_more_than_it_reads);
    RUN(order_of_words);
    graft_engine_destroy(engine);
    return test_end();
}
