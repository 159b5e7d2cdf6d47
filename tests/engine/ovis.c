/* Ovis-Image: which files it is found in and under which names, prompts of any length, and what
 * does not go with it. What the network computes is held against golden/small/ovis_*; its prompts:
 * ovis_prompts.c. */
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/ovis_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/ovis_one.safetensors"

#define FLUX_GATED
static const renaming names[] = {
#include "engine/models/parts/tensors.h"
#include "tests/engine/flux_names.def"
    {"double_blocks.#.img_mod.lin.", {"transformer_blocks.#.norm1.linear."}},
    {"double_blocks.#.txt_mod.lin.", {"transformer_blocks.#.norm1_context.linear."}},
    {"single_blocks.#.modulation.lin.", {"single_transformer_blocks.#.norm.linear."}},
    {"txt_norm.scale", {"context_embedder_norm.weight"}},
    {"time_in.in_layer.", {"timestep_embedder.linear_1."}},
    {"time_in.out_layer.", {"timestep_embedder.linear_2."}},
    {"final_layer.adaLN_modulation.1.", {"norm_out.linear."}, .turned = true},
    {NULL}};

static const damage damaged[] = {
    {"img_in.weight", {48, 4 * (16 + 16)}, GRAFT_E_UNSUPPORTED, "sees a picture beside its latent"},
    TOO_MUCH("transformer_blocks.0.attn.norm_q.bias", "Ovis-Image's transformer has no tensor"),
    {"txt_norm.scale", {23}, GRAFT_E_FORMAT},
    {"double_blocks.0.img_mlp.gate_proj.weight", {191, 48}, GRAFT_E_FORMAT},
    TURNING(10),
    TURNING(5),
    {NULL}};

static const prompt_pair pairs[] = {{{5, 5}, {0, 1}}, {{7, 12}, {1, 1}}, {{70, 70}, {1, 1}}, {{0}}};

static int64_t tell(const graft_model *m, const asked *a, int i, float *context, float *y)
{
    (void)m, (void)context, (void)y;
    return a->words[i];
}

/* Layers that are halves of one in diffusers' names are tried with loras_of_halves() below. */
static const family tested = {
    .name = "ovis",
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
    .tensors = 93,
    .their_tensors = 93 - 2 * 2 * 2 + 2 * 2 * 2 * 2 + 3 * 3 * 2,
    .losses = {{GRAFT_FLUX_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"transformer_blocks.0.attn.add_k_proj.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"},
               {"single_transformer_blocks.0.proj_mlp.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"}},
    .damaged = damaged,
    .any_length = true,
    .loras = 2 * (8 + 2 * 3 + 6) + 2 * 2 + 2 * 3,
    .lora_error = 5e-5,
    .untried = {"_blocks.0.", "gate_proj", "up_proj"},
    .lora_names = {{"lora_unet_single_blocks_1_linear1", KOHYA_PLAIN, 11 * 48, 48},
                   {"diffusion_model.single_blocks.1.linear1", PEFT},
                   {"lora_unet_double_blocks_0_img_mlp_down_proj", KOHYA_PLAIN, 48, 4 * 48},
                   {"transformer.transformer_blocks.0.ff.net.2", PEFT}},
    .kept = {"img_in", "time_in", "final_layer"},
    .attentions = 5,
    .linears = 2 * 12 + 3 * 3 + 6,
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_flux_arch *a = &two->arch.flux, *b = &one->arch.flux;
    CHECK(a->depth == 2 && a->single_depth == 3 && a->heads == 3 && a->hidden == 48);
    CHECK(a->mlp == 192 && b->mlp == 128 && a->rope_dim == 6 && b->rope_dim == 14);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_FLUX && m->arch.adm_channels == 0);
        CHECK(m->arch.flux.words == 256 && !m->arch.flux.apart && m->arch.flux.gated);
        CHECK(!m->arch.flux.guidance && !m->arch.flux.pooled_dim && m->arch.latent_channels == 16);
        CHECK_NEAR(m->flow_shift, exp(1.15), 1e-12);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->flow_steps == 10000);
        CHECK(m->scale_factor == 0.3611 && m->latent_shift == 0.1159);
    }
    RELEASE_ALL(two, one);
}

/* Its authors', and those of newer programs. */
static void other_names(void)
{
    static const renaming authors[] = {{".query_norm.scale", {".query_norm.weight"}},
                                       {".key_norm.scale", {".key_norm.weight"}},
                                       {"txt_norm.scale", {"semantic_txt_norm.weight"}},
                                       {"txt_in.", {"semantic_txt_in."}},
                                       {NULL}};
    static const renaming newer[] = {{".query_norm.scale", {".query_norm.weight"}},
                                     {".key_norm.scale", {".key_norm.weight"}},
                                     {"txt_norm.scale", {"txt_norm.weight"}},
                                     {NULL}};
    for (int i = 0; i < 4; i++)
        same_in_file(engine, TWO,
                     written(renamed_file(TWO, i % 2 ? newer : authors,
                                          i / 2 ? "model.diffusion_model." : ""),
                             "other.safetensors", config_of(TWO)),
                     run_some);
}

/* Of a LoRA for one layer there, the upper half of which is a layer here, the lower another. */
static void loras_of_halves(void)
{
    enum { WIDE = 192, WIDTH = 48 };
    static const char layer[] = "double_blocks.1.txt_mlp.";
    const char *path = temp_path("lora.safetensors"), *whole = temp_path("merged.safetensors");
    float got[ANSWER], want[ANSWER], plain[ANSWER];
    made_file *f = calloc(1, sizeof *f), *merged = part_of_file(TWO, UNET);
    random_state = 21;
    const float *up =
        matrix(f, "transformer.transformer_blocks.1.ff_context.net.0.proj", "lora_B", 2 * WIDE, 2);
    const float *down =
        matrix(f, "transformer.transformer_blocks.1.ff_context.net.0.proj", "lora_A", 2, WIDTH);
    for (int half = 0; half < 2; half++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s.weight", layer, half ? "gate_proj" : "up_proj");
        float *w = (float *)(uintptr_t)made_find(merged, name)->data;
        for (int r = 0; r < WIDE; r++)
            for (int c = 0; c < WIDTH; c++)
                for (int k = 0; k < 2; k++)
                    w[r * WIDTH + c] += up[2 * (half * WIDE + r) + k] * down[k * WIDTH + c];
    }
    write_file(f, path, NULL);
    write_file(merged, whole, config_of(TWO));
    last_log[0] = 0;
    graft_model *m = load_model(engine, TWO), *w = load_model(engine, whole);
    graft_model *x = with_lora(m, path, 1);
    CHECK_STR(last_log, "");
    run_some(m, plain);
    run_some(w, want);
    run_some(x, got);
    CHECK(difference(got, want, answer_values(m)) < 5e-5);
    CHECK(difference(plain, want, answer_values(m)) > 1e-3);
    RELEASE_ALL(m, w, x);
    unlink(path);
    unlink(whole);
}

/* What cannot be divided: an odd number of rows, and what other programs quantized. */
static void halves_that_are_none(void)
{
    made_file *f = their_file(TWO);
    graft_st_tensor *t = made_find(f, "transformer_blocks.1.ff.net.0.proj.bias");
    t->shape[0]--;
    t->bytes -= sizeof(float);
    refused(f, config_of(TWO), GRAFT_E_FORMAT, "transformer_blocks.1.ff.net.0.proj.bias");
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(other_names);
    RUN(loras_of_halves);
    RUN(halves_that_are_none);
    graft_engine_destroy(engine);
    return test_end();
}
