/* Qwen-Image: which files it is found in and under which names, prompts of any length, its latents,
 * and what does not go with it. What the network computes is held against
 * golden/small/qwen_image_*.
 */
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/qwen_image.h"
#include "tests/engine/family.h"
#include "tests/engine/wan_planes.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/qwen_image_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/qwen_image_one.safetensors"

static const damage damaged[] = {
    {"transformer_blocks.0.attn.norm_q.weight", {15}, GRAFT_E_UNSUPPORTED, "heads of 15"},
    {"transformer_blocks.0.attn.norm_q.weight", {0}, GRAFT_E_FORMAT},
    {"img_in.weight", {48, 63}, GRAFT_E_FORMAT},
    {"img_in.weight", {48}, GRAFT_E_FORMAT},
    {"proj_out.weight", {128, 48}, GRAFT_E_FORMAT},
    {"txt_in.weight", {47, 24}, GRAFT_E_FORMAT},
    {"txt_norm.weight", {25}, GRAFT_E_FORMAT},
    {"transformer_blocks.1.txt_mod.1.weight", {5 * 48, 48}, GRAFT_E_FORMAT},
    {"transformer_blocks.1.txt_mlp.net.2.weight", {48, 81}, GRAFT_E_FORMAT},
    TURNING(10),
    TURNING(5),
    {NULL}};

/* Its own names are diffusers'. As published, seven sixteenths of a head turn with the row. Behind
 * the last attention nobody reads the prompt. */
static const family tested = {
    .name = "qwen_image",
    .title = "Qwen-Image",
    .two = TWO,
    .one = ONE,
    .plain = ONE,
    .gguf = "qwen_image", /* as ComfyUI-GGUF */
    .packed = ONE,
    .mean = wan_mean,
    .deviation = wan_deviation,
    .error = 2e-4,
    .prompts = prompts_by_64,
    .tensors = 77,
    .losses = {{GRAFT_QWEN_IMAGE_TENSOR, GRAFT_E_UNSUPPORTED, "unknown architecture"}},
    .damaged = damaged,
    .takes_references = true,
    .unbuilt = {{{.control = 1}, GRAFT_E_ARG}, {{.width = 7}, GRAFT_E_ARG}},
    .loras = 2 * (2 * 14 - 3 + 6),
    .lora_error = 5e-5,
    .untried = {"_blocks.0.img_m"},
    .unread = {"blocks.1.txt_mlp", "blocks.1.attn.to_add_out", "blocks.1.attn.add_q_proj"},
    .lora_names = {{"transformer.transformer_blocks.1.attn.add_k_proj", PEFT, 48, 48},
                   {"transformer_blocks.1.attn.add_k_proj", PEFT},
                   {"transformer_blocks.1.attn.add_k_proj", PEFT_DEFAULT},
                   {"diffusion_model.transformer_blocks.1.attn.add_k_proj", PEFT},
                   {"transformer_blocks.1.attn.add_k_proj", KOHYA}, /* Lightning files */
                   {"lora_unet_transformer_blocks_1_attn_add_k_proj", KOHYA},
                   {"lycoris_transformer_blocks_1_attn_add_k_proj", KOHYA},
                   {"transformer_blocks.1.attn.to_out.0", KOHYA, 48, 48},
                   {"diffusion_model.transformer_blocks.1.attn.to_out.0", PEFT},
                   {"lora_unet_transformer_blocks_1_attn_to_out_0", KOHYA}},
    .kept = {"img_in", "time_text_embed", "norm_out", "proj_out"},
    .attentions = 2,
    .linears = 2 * 14 - 3 + 6, /* of the last block three are not computed */
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_qwen_image_arch *a = &two->arch.qwen_image, *b = &one->arch.qwen_image;
    CHECK(a->depth == 2 && a->heads == 3 && a->hidden == 48 && a->mlp == 80 && a->rope_dim == 6);
    CHECK(a->patch == 2 && a->channels == 16 && a->time_dim == 256 && a->context_dim == 24);
    CHECK(b->depth == 1 && b->heads == 2 && b->hidden == 64 && b->rope_dim == 14);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_QWEN_IMAGE && !m->arch.adm_channels && !m->arch.beside);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->arch.latent_channels == 16);
        CHECK_NEAR(m->flow_shift, 3.158193, 1e-6);
        CHECK(m->planes == &graft_wan_planes);
        CHECK(memcmp(&m->preview, &graft_preview_wan, sizeof m->preview) == 0);
        CHECK_STR(graft_net_kind_name(&m->arch), "qwen_image");
    }
    RELEASE_ALL(two, one);
}

/* Up to 64 tokens: by the last one again, so that no number in the network is unlike others. */
static void filled_up(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_cond *c = prompt_of(m, 20000, 5), *full = NULL, *same = NULL;
    const size_t width = (size_t)m->arch.context_dim, row = width * sizeof(float);
    CHECK_OK(graft_cond_fill(c, &m->arch, &full, &e), &e);
    const graft_cond_entry *k = full->entry[0], *own = c->entry[0];
    CHECK(k->tokens == 64 && k->filled == 59 && own->tokens == 5 && own->filled == 0);
    CHECK(memcmp(k->data, own->data, 5 * row) == 0);
    for (size_t i = 5; i < 64; i++)
        CHECK(memcmp(k->data + i * width, own->data + 4 * width, row) == 0);
    CHECK_OK(graft_cond_fill(full, &m->arch, &same, &e), &e);
    CHECK(same->entry[0] == k);
    graft_cond_release(c);
    graft_cond_release(full);
    graft_cond_release(same);
    graft_model_release(m);
}

/* Of two pictures: each plane is normalized on its way to the network, and restored behind it;
 * zeros are no picture, and stay zeros on the way in. */
static void planes(void)
{
    enum { N = 2 * 16 * SIDE * SIDE };
    static float noise[N], x[N], y[N];
    const int64_t shape[4] = {2, 16, SIDE, SIDE};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, ONE);
    graft_latent *from = NULL, *to = NULL;
    graft_sigmas *s = NULL;
    for (int i = 0; i < N; i++) x[i] = fixed_value((uint64_t)i);
    graft_model_scale_latent(m, x, N, SIDE * SIDE, y);
    for (int i = 0; i < N; i++) {
        const int c = i / (SIDE * SIDE) % 16;
        CHECK_NEAR(y[i], (x[i] - wan_mean[c]) / wan_deviation[c], 1e-5);
    }
    graft_model_unscale_latent(m, y, N, SIDE * SIDE, y);
    CHECK(difference(x, y, N) < 1e-5);
    CHECK_OK(graft_latent_from_data(x, shape, &from, &e), &e);
    CHECK_OK(graft_sigmas_from_data((const float[]){0.75f}, 1, &s, &e), &e);
    CHECK_OK(graft_noise_latent(77, shape, NULL, noise, &e), &e);
    CHECK_OK(graft_latent_noised(m, from, s, true, 77, &to, &e), &e);
    const float *got = to ? graft_latent_data(to, NULL) : x;
    for (int i = 0; i < N; i++) {
        const int c = i / (SIDE * SIDE) % 16;
        const double normal = 0.25 * (x[i] - wan_mean[c]) / wan_deviation[c] + 0.75 * noise[i];
        CHECK_NEAR(got[i], normal * wan_deviation[c] + wan_mean[c], 1e-4);
    }
    double sum = 0;
    for (int c = 0; c < 16; c++) sum += 1 / (wan_deviation[c] * wan_deviation[c]);
    CHECK_NEAR(graft_model_latent_gain(m), sqrt(sum / 16), 1e-6);
    graft_latent_release(from);
    graft_latent_release(to);
    graft_sigmas_release(s);
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    run_family();
    RUN(filled_up);
    RUN(planes);
    graft_engine_destroy(engine);
    return test_end();
}
