/* FLUX.2: which files it is found in and under which names, what its network is told and shown, and
 * what does not go with it. What the network computes is held against golden/small/flux2_*. */
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/flux2.h"
#include "tests/engine/family.h"

#define KLEIN GRAFT_SOURCE_DIR "/golden/small/flux2_klein.safetensors"
#define DEV   GRAFT_SOURCE_DIR "/golden/small/flux2_dev.safetensors"

static const renaming names[] = {
    {"img_in.", {"x_embedder."}},
    {"txt_in.", {"context_embedder."}},
    {"time_in.in_layer.", {"time_guidance_embed.timestep_embedder.linear_1."}},
    {"time_in.out_layer.", {"time_guidance_embed.timestep_embedder.linear_2."}},
    {"guidance_in.in_layer.", {"time_guidance_embed.guidance_embedder.linear_1."}},
    {"guidance_in.out_layer.", {"time_guidance_embed.guidance_embedder.linear_2."}},
    {"_img.lin.", {"_img.linear."}},
    {"_txt.lin.", {"_txt.linear."}},
    {"single_stream_modulation.lin.", {"single_stream_modulation.linear."}},
    {"final_layer.adaLN_modulation.1.", {"norm_out.linear."}, .turned = true},
    {"final_layer.linear.", {"proj_out."}},
    {"double_blocks.", {"transformer_blocks."}},
    {"single_blocks.", {"single_transformer_blocks."}},
    {".img_attn.norm.query_norm.scale", {".attn.norm_q.weight"}},
    {".img_attn.norm.key_norm.scale", {".attn.norm_k.weight"}},
    {".txt_attn.norm.query_norm.scale", {".attn.norm_added_q.weight"}},
    {".txt_attn.norm.key_norm.scale", {".attn.norm_added_k.weight"}},
    {".img_attn.qkv.", {".attn.to_q.", ".attn.to_k.", ".attn.to_v."}},
    {".txt_attn.qkv.", {".attn.add_q_proj.", ".attn.add_k_proj.", ".attn.add_v_proj."}},
    {".img_attn.proj.", {".attn.to_out.0."}},
    {".txt_attn.proj.", {".attn.to_add_out."}},
    {".img_mlp.0.", {".ff.linear_in."}},
    {".img_mlp.2.", {".ff.linear_out."}},
    {".txt_mlp.0.", {".ff_context.linear_in."}},
    {".txt_mlp.2.", {".ff_context.linear_out."}},
    {".linear1.", {".attn.to_qkv_mlp_proj."}},
    {".linear2.", {".attn.to_out."}},
    {".norm.query_norm.scale", {".attn.norm_q.weight"}},
    {".norm.key_norm.scale", {".attn.norm_k.weight"}},
    {NULL}};

static const damage damaged[] = {
    {"double_blocks.0.img_attn.norm.query_norm.scale", {15}, GRAFT_E_UNSUPPORTED, "heads of 15"},
    {"double_blocks.0.img_attn.norm.query_norm.scale", {12}, GRAFT_E_UNSUPPORTED, "heads of 12"},
    {"double_blocks.0.img_attn.norm.query_norm.scale", {0}, GRAFT_E_FORMAT},
    {"img_in.weight", {48, 132}, GRAFT_E_UNSUPPORTED, "takes 132 numbers a token"},
    {"img_in.weight", {48}, GRAFT_E_FORMAT},
    {"double_blocks.0.img_mlp.0.weight", {159, 48}, GRAFT_E_UNSUPPORTED, "159 in its MLPs"},
    {"double_blocks.1.txt_mlp.0.weight", {80, 48}, GRAFT_E_FORMAT},
    {"single_blocks.0.linear1.weight", {3 * 48 + 80, 48}, GRAFT_E_FORMAT},
    {"single_stream_modulation.lin.weight", {6 * 48, 48}, GRAFT_E_FORMAT},
    {"txt_in.weight", {47, 24}, GRAFT_E_FORMAT},
    TOO_MUCH("transformer_blocks.0.attn.norm_q.bias",
             "FLUX.2's transformer has no tensor transformer_blocks.0"),
    TOO_MUCH("single_transformer_blocks.70000.norm",
             "FLUX.2's transformer has no tensor single_transformer"),
    {NULL}};

static int64_t tell(const graft_model *m, const asked *a, int i, float *context, float *y)
{
    (void)m, (void)context;
    y[0] = a->guidance;
    return a->words[i];
}

/* With equal lengths a negative prompt is computed beside the other, with others after it. */
static const prompt_pair pairs[] = {{{5, 5}, {0, 1}}, {{33, 40}, {1, 1}}, {{1, 12}, {1, 1}}, {{0}}};

/* dev is told a guidance, and so has the layers for it; klein has no place for it. */
static const family tested = {
    .name = "flux2",
    .title = "FLUX.2",
    .two = KLEIN,
    .one = DEV,
    .tuned = DEV,
    .gguf = "flux", /* as ComfyUI-GGUF, like FLUX.1 */
    .packed = DEV,
    .theirs = names,
    .in_files = true,
    .tell = tell,
    .guidance = 3.5f,
    .scale = 1,
    .error = 2e-4,
    .prompts = pairs,
    .tensors = 45,
    .their_tensors = 45 + 2 * 2 * 2,
    .losses = {{GRAFT_FLUX2_TENSOR, GRAFT_E_FORMAT, "vector_in.in_layer.weight"},
               {"transformer_blocks.0.attn.add_k_proj.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"},
               {"single_transformer_blocks.0.attn.to_qkv_mlp_proj.weight", GRAFT_E_UNSUPPORTED,
                "unknown architecture"}},
    .damaged = damaged,
    .takes_references = true,
    .unbuilt = {{{.height = 1 << 20}, GRAFT_E_LIMIT},
                {{.tokens = 1 << 20}, GRAFT_E_LIMIT},
                {{.control = 1}, GRAFT_E_UNSUPPORTED},
                {{.references = {.n = 1, .of = {{2, 2}}, .placing = GRAFT_PLACE_DIAGONAL}},
                 GRAFT_E_UNSUPPORTED},
                {{.references = {.n = 1, .of = {{2, 0}}}}, GRAFT_E_ARG}},
    .loras = 2 * (8 + 2 * 2 + 3 + 2 + 2 + 2 + 2) + 2 * 2,
    .lora_error = 1e-4,
    .lora_names = {{"lora_unet_single_blocks_1_linear1", KOHYA_PLAIN, 384, 64},
                   {"diffusion_model.single_blocks.1.linear1", PEFT},
                   {"transformer.single_blocks.1.linear1", PEFT},
                   {"single_blocks.1.linear1", PEFT},
                   {"lycoris_single_blocks_1_linear1", KOHYA_PLAIN},
                   {"diffusion_model.double_blocks.0.img_attn.qkv", PEFT, 192, 64},
                   {"lora_unet_double_blocks_0_img_attn_qkv", KOHYA_PLAIN},
                   {"diffusion_model.transformer_blocks.0.attn.to_k", PEFT, 64, 64},
                   {"lora_unet_transformer_blocks_0_attn_to_k", KOHYA_PLAIN}},
    .kept = {"img_in", "time_in", "final_layer"},
    .attentions = 2 + 3,
    .linears = 2 * 8 + 3 * 2 + 2 + 2 + 3 + 2,
};

static void kinds(void)
{
    graft_model *klein = load_model(engine, KLEIN), *dev = load_model(engine, DEV);
    const graft_flux2_arch *a = &klein->arch.flux2, *b = &dev->arch.flux2;
    CHECK(a->channels == 128 && a->hidden == 48 && a->heads == 3 && a->mlp == 80);
    CHECK(a->depth == 2 && a->single_depth == 3 && a->time_dim == 256 && a->context_dim == 24);
    CHECK(b->channels == 32 && b->hidden == 64 && b->heads == 2 && b->mlp == 96);
    CHECK(b->depth == 1 && b->single_depth == 2 && b->context_dim == 40);
    CHECK(!a->guidance && klein->arch.adm_channels == 0);
    CHECK(b->guidance && dev->arch.adm_channels == 1);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? dev : klein;
        CHECK(m->arch.kind == GRAFT_NET_FLUX2 && m->arch.in_channels == m->arch.latent_channels);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->flow_steps == 10000);
        CHECK_NEAR(m->flow_shift, 7.538, 1e-3);
        CHECK(m->scale_factor == 1 && m->latent_shift == 0);
        CHECK(memcmp(&m->preview, &graft_preview_flux2, sizeof m->preview) == 0);
    }
    RELEASE_ALL(klein, dev);
}

/* Both networks on batches of two. */
static void two_pictures(void)
{
    static const char *const of[] = {KLEIN, DEV};
    float got[ANSWER], want[ANSWER];
    for (size_t k = 0; k < 2 * COUNT(of) * (COUNT(pairs) - 1); k++) {
        const int *words = pairs[k / 2 / COUNT(of)].words;
        const asked a = {.words = {words[0], words[1]}, .cfg = k % 2 ? 3 : 1};
        graft_model *m = load_model(engine, of[k / 2 % COUNT(of)]);
        graft_cond *yes = prompt_of(m, 20000, words[0]), *no = prompt_of(m, 60000, words[1]);
        sampled_in(STEPS, m, yes, no, a.cfg, 2, got);
        by_hand(m, &a, want);
        CHECK(difference(got, want, answer_values(m)) < 2e-4);
        graft_cond_release(yes);
        graft_cond_release(no);
        graft_model_release(m);
    }
}

/* A network without half of what makes a guidance of the number that it is told. */
static void lost_guidance(void)
{
    static const char *const lost[] = {"guidance_in.in_layer.weight",
                                       "guidance_in.out_layer.weight"};
    for (size_t i = 0; i < COUNT(lost); i++) {
        made_file *f = part_of_file(DEV, UNET);
        drop_tensor(f, lost[i]);
        refused(f, NULL, GRAFT_E_FORMAT, lost[i]);
    }
}

/* dev is told a prompt's guidance; klein has no place for it. */
static void guidance(void)
{
    static const char *const of[] = {KLEIN, DEV};
    float plain[ANSWER], got[ANSWER], want[ANSWER];
    graft_err e = GRAFT_ERR_INIT;
    for (size_t k = 0; k < COUNT(of); k++) {
        graft_model *m = load_model(engine, of[k]);
        graft_cond *c = prompt_of(m, 20000, 7), *told = NULL, *none = NULL;
        CHECK_OK(graft_cond_guidance(c, 1.25, &told, &e), &e);
        sampled(m, c, c, 1, plain);
        sampled(m, told, told, 1, got);
        by_hand(m, &(asked){.words = {7}, .guidance = 1.25f}, want);
        CHECK(difference(got, want, answer_values(m)) < 2e-4);
        CHECK(same_answers(m, got, plain) == (k == 0));
        CHECK_OK(graft_cond_untold(told, &none, &e), &e);
        sampled(m, none, none, 1, want);
        CHECK(same_answers(m, want, plain) == (k == 0) && same_answers(m, want, got) == (k == 0));
        graft_cond_release(none);
        graft_cond_release(c);
        graft_cond_release(told);
        graft_model_release(m);
    }
}

/* ReferenceLatent: each picture counts, in its order, of any size. */
static void references(void)
{
    static const graft_grid size[] = {{3, 4}, {5, 1}};
    graft_model *m = load_model(engine, KLEIN);
    graft_cond *c = prompt_of(m, 20000, 6);
    graft_err e = GRAFT_ERR_INIT;
    graft_references r = {.n = 0};
    float seen[SEEN], got[ANSWER], want[ANSWER], before[ANSWER] = {0};
    int64_t at = 0;
    for (; r.n < (int)COUNT(size); r.n++) {
        graft_cond *more = NULL;
        graft_latent *l = NULL;
        const int64_t shape[4] = {1, 128, size[r.n].rows, size[r.n].columns};
        const int64_t n = 128 * shape[2] * shape[3];
        CHECK(at + n <= SEEN);
        for (int64_t i = 0; i < n; i++) seen[at + i] = 2 * fixed_value((uint64_t)(7 * r.n + i));
        CHECK_OK(graft_latent_from_data(seen + at, shape, &l, &e), &e);
        CHECK_OK(graft_cond_reference(c, l, &more, &e), &e);
        at += n;
        r.of[r.n] = size[r.n];
        const graft_references shown = {.n = r.n + 1, .of = {r.of[0], r.of[1]}};
        sampled_in(STEPS, m, more, more, 1, 2, got);
        by_hand(m, &(asked){.words = {6}, .shown = &shown, .seen = seen}, want);
        CHECK(difference(got, want, answer_values(m)) < 2e-4);
        CHECK(difference(got, before, answer_values(m)) > 1e-3);
        memcpy(before, got, sizeof got);
        graft_latent_release(l);
        graft_cond_release(c);
        c = more;
    }
    graft_cond_release(c);
    graft_model_release(m);
}

/* CompileModel makes the graph that a prompt as the text encoder gives it needs, for cells of 16
 * pixels. */
static void compiled(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, KLEIN), *n = NULL;
    graft_binding *b = NULL;
    const graft_compile_options o = {.width = 16 * 6, .height = 16 * 4, .precision = "f32"};
    CHECK_OK(graft_model_compile(m, &o, NULL, &n, &e), &e);
    const uint64_t built = graphs_built(engine);
    if (n) CHECK_OK(graft_model_bind(n, 1, 4, 6, GRAFT_FLUX2_TOKENS, NULL, &b, &e), &e);
    CHECK_INT(graphs_built(engine), built);
    graft_binding_release(b);
    RELEASE_ALL(m, n);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(lost_guidance);
    run_family();
    RUN(two_pictures);
    RUN(guidance);
    RUN(references);
    RUN(compiled);
    graft_engine_destroy(engine);
    return test_end();
}
