/* Qwen 3-VL's language model as Krea 2's text encoder: which files it is found in, what its prompts
 * are made of, by which angles its places turn, and how many layers it must have. What it computes
 * is held against golden/small/qwen3_layered. */
#include "tests/engine/language.h"
#include "tests/gguf_file.h"

#define SMALL GRAFT_SOURCE_DIR "/golden/small/qwen3_layered.safetensors"
#define NET   GRAFT_SOURCE_DIR "/golden/small/krea2_two.safetensors"
#define PLACE "text_encoders.qwen3vl_4b.transformer."

enum { LAYERS = 12, WIDTH = 8 };

static graft_engine *engine;

static made_file *own_file(void)
{
    return language_at(SMALL, "");
}

static graft_clip *own_clip(void)
{
    return clip_as(engine, own_file(), "krea2");
}

/* ------------------------------------------------------------------ files */

/* In a file of its own, as transformers names it beside what looks at pictures, which is not read,
 * and in a checkpoint's place. */
static void is_found(void)
{
    graft_clip *own = own_clip();
    CHECK(own->kind == GRAFT_CLIP_KREA2 && own->width == LAYERS * WIDTH && !own->n_encoders);
    CHECK(!own->qwen3->arch.biased && own->qwen3->arch.layers == 36);
    made_file *f = own_file();
    add_tensor(f, "visual.blocks.0.attn.qkv.weight", 2, (int64_t[]){3 * WIDTH, WIDTH}, NULL, 1);
    add_tensor(f, "visual.deepstack_merger_list.0.norm.weight", 1, (int64_t[]){WIDTH}, NULL, 1);
    found_in(engine, f, "krea2", own);
    f = language_at(SMALL, "model.language_");
    add_tensor(f, "model.visual.blocks.0.attn.qkv.weight", 1, (int64_t[]){WIDTH}, NULL, 1);
    found_in(engine, f, "krea2", own);
    found_in(engine, language_at(SMALL, PLACE), "krea2", own);
    found_beside(engine, language_at(SMALL, PLACE), NET, own, GRAFT_NET_KREA2);
    graft_clip_release(own);
}

static void other_kinds(void)
{
    static const char *const types[] = {"sd3", "chroma"};
    const char *t5 = GRAFT_SOURCE_DIR "/golden/small/t5.safetensors";
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        clip_refused(engine, own_file(), types[i], GRAFT_E_UNSUPPORTED,
                     "CLIPLoader with type lumina2, flux2, krea2, qwen_image, ovis or ideogram4");
    CHECK_INT(graft_clip_load(engine, &t5, 1, "krea2", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!c && strstr(e.text, "no Qwen 3 text encoder"));
}

/* Z-Image and FLUX.2 have no use for the layers behind theirs; Krea 2 reads more. */
static void too_few_layers(void)
{
    made_file *f = own_file();
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    graft_graph *g = NULL;
    drop_tensors(f, "model.layers.35.");
    clip_refused(engine, f, "krea2", GRAFT_E_UNSUPPORTED,
                 "a Qwen 3 of 35 layers; Krea 2 wants what layer 35 of one with more");
    f = own_file();
    drop_tensors(f, "model.layers.35.");
    c = clip_as(engine, f, "flux2");
    const graft_qwen3_shape shape = {
        .batch = 1, .tokens = 32, .act_dtype = GRAFT_F32, .layered = 1};
    CHECK_INT(graft_qwen3_build(&c->qwen3->arch, &shape, &g, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!g && strstr(e.text, "35 layers"));
    graft_clip_release(c);
}

/* llama.cpp calls it by a name of its own, and its layers as Qwen 3's. */
static void gguf(void)
{
    static const char *const names[][2] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"blk.0.attn_q_norm.weight", "model.layers.0.self_attn.q_norm.weight"},
        {"blk.35.ffn_down.weight", "model.layers.35.mlp.down_proj.weight"}};
    const char *path = temp_path("encoder.gguf");
    made_file *f = calloc(1, sizeof *f);
    for (size_t i = 0; i < 3; i++) add_tensor(f, names[i][0], 2, (int64_t[]){4, WIDTH}, NULL, 1);
    gguf_file bytes = gguf_of("qwen3vl", NULL, f->tensor, f->n);
    gguf_write(&bytes, path);
    free(bytes.data);
    finish_file(f);
    graft_safetensors *file = open_file(path);
    for (size_t i = 0; i < 3; i++) CHECK(graft_safetensors_find(file, names[i][1]));
    graft_safetensors_close(file);
    unlink(path);
}

/* ------------------------------------------------------------------ prompts */

/* What is asked for is read and left out: of the rest all is there, twelve layers of each token. */
static void prompts(void)
{
    static const char before[] =
        "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, "
        "quantity, text, spatial relationships of the objects and background:<|im_end|>\n"
        "<|im_start|>user\n";
    const char *const texts[] = {"the the", "", " the (the:1.5)\n\n the"};
    graft_clip *c = own_clip();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char all[600];
        snprintf(all, sizeof all, "%s%s<|im_end|>\n<|im_start|>assistant\n", before, texts[i]);
        prompt_gives(c, texts[i], before, all, GRAFT_QWEN3_TAKE_LAYERED);
    }
    graft_clip_release(c);
}

/* The last layer but one is the last that is computed, without a norm behind it, and places turn by
 * the angles of Qwen 3-VL; tokens see those before them and no bias. */
static void graph(void)
{
    const graft_qwen3_arch a = {.layers = 36,
                                .width = 16,
                                .head_dim = 8,
                                .intermediate = 24,
                                .vocab = 300,
                                .heads = 2,
                                .key_heads = 1};
    const graft_qwen3_shape shape = {.batch = 1, .tokens = 9, .act_dtype = GRAFT_F32, .layered = 1};
    graft_graph *g = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t turns = 0, attentions = 0, norms = 0;
    CHECK_OK(graft_qwen3_build(&a, &shape, &g, &e), &e);
    if (!g) return;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const graft_gnode *n = &g->node[i];
        turns += n->op == GRAFT_OP_ROPE && n->attrs.scale == 5e6f;
        attentions += n->op == GRAFT_OP_ATTENTION && n->attrs.causal;
        norms += n->op == GRAFT_OP_RMS_NORM;
    }
    CHECK(turns == 2 * 35 && attentions == 35 && norms == 4 * 35);
    const graft_gvalue *out = &g->value[g->output[0]];
    CHECK(g->n_inputs == 1 && out->rank == 3 && out->dim[1] == 9 && out->dim[2] == 12 * 16);
    graft_graph_destroy(g);
    const graft_qwen3_shape both = {
        .batch = 1, .tokens = 9, .act_dtype = GRAFT_F32, .layered = 1, .normed = 1};
    g = NULL;
    CHECK_INT(graft_qwen3_build(&a, &both, &g, &e), GRAFT_E_ARG);
    CHECK(!g);
}

static void no_memory(void)
{
    graft_clip *c = own_clip();
    encodes_short_of_memory(c, 6);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(is_found);
    RUN(other_kinds);
    RUN(too_few_layers);
    RUN(gguf);
    RUN(prompts);
    RUN(graph);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
