/* Anima: which files it is found in and under which names, prompts of any length, the words that it
 * is told of, and what does not go with it. What the network computes is held against
 * golden/small/anima_*; its text encoder: anima_prompts.c. */
#include "engine/models/parts/tensors.h"
#include "engine/models/transformers/anima.h"
#include "tests/engine/family.h"
#include "tests/engine/wan_planes.h"

#define TWO GRAFT_SOURCE_DIR "/golden/small/anima_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/anima_one.safetensors"

static const renaming names[] = {
    {"blocks.#.adaln_modulation_self_attn.", {"transformer_blocks.#.norm1.linear_"}},
    {"blocks.#.adaln_modulation_cross_attn.", {"transformer_blocks.#.norm2.linear_"}},
    {"blocks.#.adaln_modulation_mlp.", {"transformer_blocks.#.norm3.linear_"}},
    {"blocks.#.self_attn.output_proj.", {"transformer_blocks.#.attn1.to_out.0."}},
    {"blocks.#.cross_attn.output_proj.", {"transformer_blocks.#.attn2.to_out.0."}},
    {"blocks.#.self_attn.q_proj.", {"transformer_blocks.#.attn1.to_q."}},
    {"blocks.#.self_attn.k_proj.", {"transformer_blocks.#.attn1.to_k."}},
    {"blocks.#.self_attn.v_proj.", {"transformer_blocks.#.attn1.to_v."}},
    {"blocks.#.cross_attn.q_proj.", {"transformer_blocks.#.attn2.to_q."}},
    {"blocks.#.cross_attn.k_proj.", {"transformer_blocks.#.attn2.to_k."}},
    {"blocks.#.cross_attn.v_proj.", {"transformer_blocks.#.attn2.to_v."}},
    {"blocks.#.mlp.layer1.", {"transformer_blocks.#.ff.net.0.proj."}},
    {"blocks.#.mlp.layer2.", {"transformer_blocks.#.ff.net.2."}},
    {"llm_adapter.", {"text_conditioner."}},
    {"x_embedder.proj.1.", {"patch_embed.proj."}},
    {"t_embedder.1.", {"time_embed.t_embedder."}},
    {"final_layer.adaln_modulation.", {"norm_out.linear_"}},
    {"final_layer.linear.", {"proj_out."}},
    {NULL}};

static const damage damaged[] = {
    {"blocks.0.self_attn.q_norm.weight", {15}, GRAFT_E_UNSUPPORTED, "heads of 15"},
    {"blocks.0.self_attn.q_norm.weight", {0}, GRAFT_E_FORMAT},
    {"llm_adapter.blocks.0.self_attn.q_norm.weight", {3}, GRAFT_E_UNSUPPORTED, "heads of 3"},
    {"llm_adapter.blocks.0.self_attn.q_norm.weight", {1}, GRAFT_E_UNSUPPORTED, "heads of 1"},
    {"llm_adapter.out_proj.weight",
     {24, 16},
     GRAFT_E_UNSUPPORTED,
     "words of 16 values, of which it makes 24"},
    {"llm_adapter.out_proj.weight", {16, 15}, GRAFT_E_FORMAT},
    {"x_embedder.proj.1.weight", {32, 66}, GRAFT_E_FORMAT},
    {"x_embedder.proj.1.weight", {32, 4}, GRAFT_E_FORMAT},
    {"final_layer.linear.weight", {68, 32}, GRAFT_E_FORMAT},
    {"t_embedder.1.linear_2.weight", {64, 32}, GRAFT_E_FORMAT},
    {"blocks.1.cross_attn.k_proj.weight", {32, 12}, GRAFT_E_FORMAT},
    {NULL}};

/* One word more than the prompt has tokens, of T5's. */
static int64_t tell(const graft_model *m, const asked *a, int i, float *context, float *y)
{
    (void)context;
    fill_words(m, i ? 60000 : 20000, a->words[i] + 1, y);
    y[GRAFT_ANIMA_TOLD] = (float)a->words[i];
    return a->words[i];
}

/* Of each block 6 layers of the time, 4 of each attention and 2 of the MLP; of each of the adapter
 * 4 and 4 and 2. Outside of blocks 1, 2 and 3, and the adapter's last; its table of words is a
 * LoRA's layer, too. */
static const family tested = {
    .name = "anima",
    .title = "Anima",
    .two = TWO,
    .one = ONE,
    .plain = ONE,
    .gguf = "cosmos", /* as ComfyUI-GGUF */
    .packed = ONE,
    .theirs = names,
    .tell = tell,
    .mean = wan_mean,
    .deviation = wan_deviation,
    .error = 2e-4,
    .prompts = prompts_by_64,
    .tensors = 89,
    .losses = {{GRAFT_ANIMA_TENSOR, GRAFT_E_UNSUPPORTED,
                "it seems to be a diffusion transformer (Anima)"}},
    .damaged = damaged,
    .unbuilt = {{{.control = 1}, GRAFT_E_UNSUPPORTED}, {{.width = 7}, GRAFT_E_ARG}},
    .loras = 2 * (2 * (6 + 8 + 2) + 2 * 10 + 6 + 2),
    .lora_error = 5e-5,
    .bare = "text_conditioner.",
    .lora_names = {{"diffusion_model.blocks.1.cross_attn.q_proj", PEFT, 32, 32},
                   {"blocks.1.cross_attn.q_proj", PEFT},
                   {"lora_unet_blocks_1_cross_attn_q_proj", KOHYA},
                   {"lycoris_blocks_1_cross_attn_q_proj", KOHYA},
                   {"transformer.transformer_blocks.1.attn2.to_q", PEFT},
                   {"lora_unet_transformer_blocks_1_attn2_to_q", KOHYA},
                   /* Trained for the text encoder as well. */
                   {"lora_unet_blocks_1_cross_attn_q_proj", KOHYA,
                    .more = "lora_te_layers_0_self_attn_q_proj"}},
    .kept = {"llm_adapter.", "x_embedder", "t_embedder", "final_layer"},
    .attentions = 2 * 2 + 2 * 2,
    .linears = 2 * (6 + 8 + 2) + 2 * 10 + 6 + 1,
};

static void kinds(void)
{
    graft_model *two = load_model(engine, TWO), *one = load_model(engine, ONE);
    const graft_anima_arch *a = &two->arch.anima, *b = &one->arch.anima;
    CHECK(a->depth == 2 && a->heads == 2 && a->hidden == 32 && a->mlp == 48 && a->rope_dim == 4);
    CHECK(a->patch == 2 && a->channels == 16 && a->told == 8 && a->context_dim == 12);
    CHECK(a->adapter_width == 16 && a->adapter_heads == 2 && a->adapter_mlp == 40 &&
          a->adapter_depth == 2 && a->words == 40);
    CHECK(b->depth == 1 && b->heads == 1 && b->hidden == 32 && b->rope_dim == 10);
    CHECK(b->adapter_width == 24 && b->adapter_heads == 3 && b->adapter_depth == 1);
    for (int i = 0; i < 2; i++) {
        const graft_model *m = i ? one : two;
        CHECK(m->arch.kind == GRAFT_NET_ANIMA && !m->arch.beside);
        CHECK(m->arch.adm_channels == 1025 && m->arch.latent_channels == 16);
        CHECK(m->prediction == GRAFT_PREDICT_FLOW && m->flow_shift == 3 && m->flow_steps == 1000);
        CHECK(m->planes == &graft_wan_planes);
        CHECK(memcmp(&m->preview, &graft_preview_wan, sizeof m->preview) == 0);
        CHECK_STR(graft_net_kind_name(&m->arch), "anima");
    }
    RELEASE_ALL(two, one);
}

/* As published: below "net.". */
static void below_net(void)
{
    made_file *f = renamed_file(TWO, NULL, "net.");
    same_in_file(engine, TWO, written(f, "published.safetensors", NULL), run_some);
}

/* The network that Anima was made of, which has no adapter. */
static void without_the_adapter(void)
{
    made_file *f = part_of_file(TWO, UNET);
    for (size_t i = f->n; i-- > 0;)
        if (strstr(f->tensor[i].name, "llm_adapter.")) drop_tensor(f, f->tensor[i].name);
    refused(f, NULL, GRAFT_E_UNSUPPORTED, "Cosmos-Predict2), which is not supported");
}

/* ComfyUI's empty latents for it have four planes. */
static void empty_latents(void)
{
    const graft_sample_params p = {.seed = 5,
                                   .steps = 2,
                                   .cfg = 1,
                                   .sampler = "euler",
                                   .scheduler = "simple",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_cond *c = prompt_of(m, 20000, 3);
    graft_latent *in = NULL, *out = NULL;
    int64_t shape[4] = {0};
    CHECK_OK(graft_latent_empty(4, 8 * SIDE, 8 * SIDE, 2, &in, &e), &e);
    CHECK_OK(graft_sample(m, &p, c, c, in, NULL, &out, &e), &e);
    if (out) graft_latent_data(out, shape);
    CHECK(shape[0] == 2 && shape[1] == 16 && shape[2] == SIDE && shape[3] == SIDE);
    graft_latent_release(in);
    graft_latent_release(out);
    graft_cond_release(c);
    graft_model_release(m);
}

static graft_status try_sampling(const graft_model *m, graft_cond *c, graft_err *e)
{
    const graft_sample_params p = {.steps = 1,
                                   .cfg = 1,
                                   .sampler = "euler",
                                   .scheduler = "simple",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    graft_latent *in = NULL, *out = NULL;
    CHECK_OK(graft_latent_empty(m->arch.latent_channels, 8 * SIDE, 8 * SIDE, 1, &in, e), e);
    graft_status st = graft_sample(m, &p, c, c, in, NULL, &out, e);
    graft_latent_release(in);
    graft_latent_release(out);
    return st;
}

/* Of other text encoders, for other models, and of words that the table does not have. */
static void other_prompts(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_model *other =
        load_model(engine, GRAFT_SOURCE_DIR "/golden/small/qwen_image_two.safetensors");
    graft_cond *c = prompt_of(m, 20000, 4), *d = prompt_of(other, 20000, 4);
    CHECK_OK(try_sampling(m, c, &e), &e);
    c->entry[0]->pooled[2] = 39;
    CHECK_OK(try_sampling(m, c, &e), &e);
    c->entry[0]->pooled[2] = 40;
    CHECK_INT(try_sampling(m, c, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "word 40 of the positive conditioning") && strstr(e.text, "table of 40"));
    c->entry[0]->worded = false;
    CHECK_INT(try_sampling(m, c, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "is not for Anima"));
    d->entry[0]->worded = true;
    CHECK_INT(try_sampling(other, d, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "is for Anima, and the model is another"));
    graft_cond_release(c);
    graft_cond_release(d);
    RELEASE_ALL(m, other);
}

static bool told_alike(const graft_cond *a, const graft_cond *b)
{
    const graft_cond_entry *k = a->entry[0], *l = b->entry[0];
    return k->worded && l->worded && k->pooled_width == l->pooled_width &&
           memcmp(k->pooled, l->pooled, (size_t)k->pooled_width * sizeof *k->pooled) == 0;
}

/* What changes or joins prompts changes what Qwen 3 made of them; the words are the first one's. */
static void words_stay(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_cond *a = prompt_of(m, 20000, 4), *b = prompt_of(m, 60000, 9), *c[4] = {0};
    float plain[ANSWER], got[ANSWER];
    const size_t n = answer_values(m);
    CHECK(!told_alike(a, b));
    CHECK_OK(graft_cond_average(a, b, 0.25, &c[0], &e), &e);
    CHECK_OK(graft_cond_zero_out(a, &c[1], &e), &e);
    CHECK_OK(graft_cond_concat(a, b, &c[2], &e), &e);
    CHECK_OK(graft_cond_fill(a, &m->arch, &c[3], &e), &e);
    CHECK_INT(c[2]->entry[0]->tokens, 13);
    CHECK(c[3]->entry[0]->tokens == 64 && c[3]->entry[0]->filled == 60);
    sampled(m, a, a, 1, plain);
    for (size_t i = 0; i < COUNT(c); i++) {
        CHECK(told_alike(c[i], a));
        sampled(m, c[i], c[i], 1, got);
        CHECK(i == 3 ? same_answers(m, got, plain) : difference(got, plain, n) > 1e-3);
        graft_cond_release(c[i]);
    }
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(m);
}

/* The adapter, and what the network's blocks make of its words, is computed once in a sampling: all
 * nodes that read its weights are, the table's EMBEDDING and all attentions of it among them. */
static void once_a_sampling(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, TWO);
    graft_binding *b = NULL;
    size_t of_adapter = 0, tables = 0, attentions = 0;
    CHECK_OK(graft_model_bind(m, 1, SIDE, SIDE, 64, NULL, &b, &e), &e);
    const graft_exe *x = b->exe;
    CHECK(x->kept != NULL);
    for (size_t i = 0; x->kept && i < x->graph->n_nodes; i++) {
        const graft_gnode *n = &x->graph->node[i];
        bool reads = false;
        for (int k = 0; k < 4; k++) {
            const graft_gvalue *v = n->in[k] >= 0 ? &x->graph->value[n->in[k]] : NULL;
            reads = reads || (v && v->kind == GRAFT_VALUE_WEIGHT &&
                              strncmp(x->graph->slot[v->index].source[0], "llm_adapter.", 12) == 0);
        }
        CHECK(!reads || x->kept[i].invariant);
        of_adapter += reads;
        tables += n->op == GRAFT_OP_EMBEDDING && x->kept[i].invariant;
        attentions += n->op == GRAFT_OP_ATTENTION && x->kept[i].invariant;
    }
    CHECK(of_adapter > 20);
    CHECK_INT(tables, 1);
    CHECK_INT(attentions, 4);
    graft_binding_release(b);
    graft_model_release(m);
}

/* Compiled beforehand for short prompts, with a negative one, it runs them in that graph. */
static void compiled(void)
{
    graft_err e = GRAFT_ERR_INIT;
    float got[ANSWER], want[ANSWER];
    graft_model *m = load_model(engine, ONE), *n = NULL;
    const graft_compile_options o = {.precision = "f32",
                                     .tuning = "fast",
                                     .device = "cpu",
                                     .cache = false,
                                     .width = 8 * SIDE,
                                     .height = 8 * SIDE,
                                     .batch_size = 1};
    graft_cond *a = prompt_of(m, 20000, 12), *b = prompt_of(m, 60000, 3);
    CHECK_OK(graft_model_compile(m, &o, NULL, &n, &e), &e);
    const uint64_t built = graphs_built(engine);
    sampled(n, a, b, 4, got);
    CHECK_INT(graphs_built(engine), built);
    sampled(m, a, b, 4, want);
    CHECK(difference(got, want, answer_values(m)) < 1e-5);
    graft_cond_release(a);
    graft_cond_release(b);
    RELEASE_ALL(m, n);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(kinds);
    RUN(below_net);
    RUN(without_the_adapter);
    run_family();
    RUN(empty_latents);
    RUN(other_prompts);
    RUN(words_stay);
    RUN(once_a_sampling);
    RUN(compiled);
    graft_engine_destroy(engine);
    return test_end();
}
