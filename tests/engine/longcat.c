/* LongCat-Image: which files it is found in and under which names, prompts of any length, pictures
 * that it is shown, and what does not go with it. What the network computes is held against
 * golden/small/longcat_*; its prompts: longcat_prompts.c. */
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/longcat_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/longcat_one.safetensors"

static const renaming names[] = {
#include "engine/models/parts/tensors.h"
#include "tests/engine/flux_names.def"
    {"time_in.in_layer.", {"time_embed.timestep_embedder.linear_1."}},
    {"time_in.out_layer.", {"time_embed.timestep_embedder.linear_2."}},
    {"final_layer.adaLN_modulation.1.", {"norm_out.linear."}, .turned = true},
    {"double_blocks.#.img_mod.lin.", {"transformer_blocks.#.norm1.linear."}},
    {"double_blocks.#.txt_mod.lin.", {"transformer_blocks.#.norm1_context.linear."}},
    {"single_blocks.#.modulation.lin.", {"single_transformer_blocks.#.norm.linear."}},
    {NULL}};

static const damage damaged[] = {
    {"img_in.weight", {48, 4 * (16 + 16)}, GRAFT_E_UNSUPPORTED, "sees a picture beside its latent"},
    TOO_MUCH("transformer_blocks.0.attn.norm_q.bias", "LongCat-Image's transformer has no tensor"),
    TURNING(10),
    TURNING(5),
    {NULL}};

/* Where pictures stand follows from the length of the prompt, so each has a graph of its own. */
static const prompt_pair pairs[] = {{{5, 5}, {0, 1}}, {{7, 12}, {1, 1}}, {{70, 70}, {1, 1}}, {{0}}};

static int64_t tell(const graft_model *m, const asked *a, int i, float *context, float *y)
{
    (void)m, (void)context, (void)y;
    return a->words[i];
}

static const family tested = {
    .name = "longcat",
    .title = "FLUX or a relative",
    .two = TWO,
    .one = ONE,
    .gguf = "flux",
    .packed = ONE,
    .theirs = names,
    .in_files = true,
    .tell = tell,
    .scale = 0.3611,
    .shift = 0.1159,
    .error = 5e-5,
    .prompts = pairs,
    .tensors = 84,
    .their_tensors = 84 + 2 * 2 * 2 * 2 + 3 * 3 * 2,
    .losses = {{GRAFT_FLUX_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"transformer_blocks.0.attn.add_k_proj.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"},
               {"single_transformer_blocks.0.proj_mlp.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"}},
    .damaged = damaged,
    .takes_references = true,
    .half = true,
    .any_length = true,
    .loras = 2 * (10 + 2 * 3 + 6) + 2 * 2 + 2 * 3,
    .lora_error = 5e-5,
    .untried = {"_blocks.0."},
    .lora_names = {{"lora_unet_single_blocks_1_linear1", KOHYA_PLAIN, 7 * 48, 48},
                   {"diffusion_model.single_blocks.1.linear1", PEFT},
                   {"lora_unet_double_blocks_0_img_mlp_0", KOHYA_PLAIN, 4 * 48, 48},
                   {"transformer.transformer_blocks.0.ff.net.0.proj", PEFT}},
    .kept = {"img_in", "time_in", "final_layer"},
    .attentions = 5,
    .linears = 2 * 10 + 3 * 3 + 6,
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_flux_arch *a = &two->arch.flux, *b = &one->arch.flux;
    CHECK(a->depth == 2 && a->single_depth == 3 && a->heads == 3 && a->hidden == 48);
    CHECK(a->rope_dim == 6 && b->rope_dim == 14 && b->heads == 1);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_FLUX && m->arch.adm_channels == 0);
        CHECK(m->arch.flux.words == 512 && m->arch.flux.apart && !m->arch.flux.gated);
        CHECK(!m->arch.flux.guidance && !m->arch.flux.pooled_dim && m->arch.latent_channels == 16);
        CHECK_NEAR(m->flow_shift, exp(1.15), 1e-12);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->flow_steps == 10000);
        CHECK(m->scale_factor == 0.3611 && m->latent_shift == 0.1159);
        CHECK(memcmp(&m->preview, &graft_preview_flux, sizeof m->preview) == 0);
    }
    RELEASE_ALL(two, one);
}

/* Newer programs call the scales of norms weights. */
static void other_names(void)
{
    static const renaming weights[] = {{".norm.query_norm.scale", {".norm.query_norm.weight"}},
                                       {".norm.key_norm.scale", {".norm.key_norm.weight"}},
                                       {NULL}};
    static const char *const prefixes[] = {"", "model.diffusion_model."};
    for (size_t i = 0; i < COUNT(prefixes); i++)
        same_in_file(
            engine, TWO,
            written(renamed_file(TWO, weights, prefixes[i]), "weights.safetensors", config_of(TWO)),
            run_some);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(other_names);
    graft_engine_destroy(engine);
    return test_end();
}
