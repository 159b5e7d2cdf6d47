/* ERNIE-Image: which files it is found in and under which names, prompts of any length, and what
 * does not go with it. What the network computes is held against golden/small/ernie_image_*. */
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/ernie_image.h"
#include "engine/models/transformers/flux2.h"
#include "tests/engine/family.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/ernie_image_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/ernie_image_one.safetensors"

static const damage damaged[] = {
    {"layers.0.self_attention.norm_q.weight", {31}, GRAFT_E_UNSUPPORTED, "heads of 31"},
    {"layers.0.self_attention.norm_q.weight", {0}, GRAFT_E_FORMAT},
    {"layers.0.self_attention.to_q.weight", {95, 96}, GRAFT_E_UNSUPPORTED, "95 rows of queries"},
    {"layers.1.self_attention.to_q.weight", {95, 96}, GRAFT_E_FORMAT},
    {"layers.1.self_attention.norm_k.weight", {31}, GRAFT_E_FORMAT},
    {"layers.1.mlp.linear_fc2.weight", {96, 159}, GRAFT_E_FORMAT},
    {"layers.0.mlp.gate_proj.weight", {150, 96}, GRAFT_E_FORMAT, "layers.0.mlp.up_proj."},
    {"x_embedder.proj.weight", {96, 3, 2, 2}, GRAFT_E_UNSUPPORTED, "are 2x2 cells"},
    {"x_embedder.proj.weight", {96, 13, 1, 1}, GRAFT_E_FORMAT, "final_linear."},
    {"x_embedder.proj.bias", {95}, GRAFT_E_FORMAT},
    {"text_proj.weight", {95, 64}, GRAFT_E_FORMAT},
    {"adaLN_modulation.1.weight", {480, 96}, GRAFT_E_FORMAT},
    {"final_norm.linear.bias", {96}, GRAFT_E_FORMAT},
    {"time_embedding.linear_1.weight", {96, 95}, GRAFT_E_FORMAT},
    TURNING(18),
    TURNING(5),
    {NULL}};

/* Its own names are diffusers'. Without its layer the prompt's tokens are as wide as the network.
 */
static const family tested = {
    .name = "ernie_image",
    .title = "ERNIE-Image",
    .two = TWO,
    .one = ONE,
    .plain = TWO,
    .gguf = "ernie_image",
    .packed = TWO,
    .scale = 1,
    .error = 2e-4,
    .prompts = prompts_by_64,
    .tensors = 2 * 11 + 13,
    .losses = {{GRAFT_ERNIE_IMAGE_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"},
               {"text_proj.weight", GRAFT_OK}},
    .damaged = damaged,
    .unbuilt = {{{.control = 1}, GRAFT_E_UNSUPPORTED}, {{.references.n = 1}, GRAFT_E_UNSUPPORTED}},
    .loras = 2 * (7 + 6),
    .lora_error = 1e-4,
    .untried = {"layers.1."},
    .lora_names = {{"transformer.layers.1.self_attention.to_out.0", PEFT, 96, 96},
                   {"layers.1.self_attention.to_out.0", PEFT_DEFAULT},
                   {"diffusion_model.layers.1.self_attention.to_out.0", PEFT},
                   {"diffusion_model.layers.1.self_attention.to_out.0", KOHYA},
                   {"lora_unet_layers_1_self_attention_to_out_0", KOHYA},
                   {"transformer.layers.1.mlp.gate_proj", PEFT, 160, 96},
                   {"lora_unet_layers_1_mlp_gate_proj", KOHYA}},
    .kept = {"x_embedder.", "time_embedding.", "adaLN_modulation.", "final_"},
    .attentions = 2,
    .linears = 2 * 7 + 7,
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_ernie_image_arch *a = &two->arch.ernie_image, *b = &one->arch.ernie_image;
    CHECK(a->depth == 2 && a->heads == 3 && a->hidden == 96 && a->mlp == 160 && a->own_text == 1);
    CHECK(a->rope_dim == 12 && a->channels == 12 && two->arch.context_dim == 64);
    CHECK(b->depth == 1 && b->heads == 2 && b->hidden == 40 && b->mlp == 56 && !b->own_text);
    CHECK(b->rope_dim == 6 && b->channels == 8 && one->arch.context_dim == 40);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_ERNIE_IMAGE && !m->arch.adm_channels && !m->arch.beside);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == (i ? 8 : 12));
        CHECK(m->flow_shift == 4 && m->flow_steps == 1000 && !m->promptless);
        CHECK(!m->planes && m->scale_factor == 1 && m->latent_shift == 0);
        CHECK(memcmp(&m->preview, &graft_preview_flux2, sizeof m->preview) == 0);
        CHECK_INT(graft_net_cell(&m->arch), GRAFT_FLUX2_CELL);
        CHECK_INT(graft_net_patch(&m->arch), 1);
        CHECK_STR(graft_net_kind_name(&m->arch), "ernie_image");
    }
    RELEASE_ALL(two, one);
}

/* Of a head of 128 values 48 are for the row where the file does not say how many. */
static void heads_of_the_published(void)
{
    const char *path = temp_path("published.safetensors");
    made_file *f = part_of_file(TWO, UNET);
    char name[64];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "layers.%d.self_attention.norm_q.weight", i);
        drop_tensor(f, name);
        add_tensor(f, name, 1, (int64_t[]){96}, NULL, 1);
        snprintf(name, sizeof name, "layers.%d.self_attention.norm_k.weight", i);
        drop_tensor(f, name);
        add_tensor(f, name, 1, (int64_t[]){96}, NULL, 1);
    }
    write_file(f, path, NULL);
    graft_model *m = load_model(engine, path);
    CHECK(m && m->arch.ernie_image.heads == 1 && m->arch.ernie_image.rope_dim == 36);
    graft_model_release(m);
    unlink(path);
}

/* All of a head may be for rows and columns: then no word has a place. */
static void places_of_the_picture_alone(void)
{
    const char *path = temp_path("rows.safetensors");
    float out[2][ANSWER];
    write_file(part_of_file(TWO, UNET), path, "{\"rope_dim\": 16}");
    graft_model *m = load_model(engine, path), *own = load_model(engine, TWO);
    run_some(m, out[0]);
    run_some(own, out[1]);
    CHECK(difference(out[0], out[1], answer_values(m)) > 1e-3);
    CHECK(turned_around(path) < 1e-5);
    RELEASE_ALL(m, own);
    unlink(path);
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
    RUN(places_of_the_picture_alone);
    run_family();
    RUN(order_of_words);
    graft_engine_destroy(engine);
    return test_end();
}
