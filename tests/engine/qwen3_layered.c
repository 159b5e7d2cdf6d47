/* Qwen 3-VL's language model as Krea 2's text encoder: which files it is found in, what its prompts
 * are made of, by which angles its places turn, and how many layers it must have. What it computes
 * is held against golden/small/qwen3_layered. */
#include "base/alloc.h"
#include "engine/prompts/qwen3.h"
#include "tests/engine/diffusers.h"
#include "tests/gguf_file.h"

#define SMALL  GRAFT_SOURCE_DIR "/golden/small/qwen3_layered.safetensors"
#define NET    GRAFT_SOURCE_DIR "/golden/small/krea2_two.safetensors"
#define MERGES "t h\nth e\n\xc4\xa0 the\n\xc4\x8a \xc4\x8a\n"

enum { LAYERS = 12, WIDTH = 8 };

static graft_engine *engine;

/* The model below `place`, with the small tokenizer. */
static made_file *file_at(const char *place)
{
    made_file *f = part_of_file(SMALL, "");
    const size_t n = strlen(MERGES);
    char name[200];
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, "case", 4) == 0) drop_tensor(f, f->tensor[i].name);
    for (size_t i = 0; i < f->n; i++) {
        snprintf(name, sizeof name, "%s%s", place, f->tensor[i].name);
        call_tensor(&f->tensor[i], name);
    }
    snprintf(name, sizeof name, "%smerges_txt", place);
    void *bytes = add_tensor(f, name, 1, (int64_t[]){(int64_t)n / 4 + 1}, NULL, 0);
    graft_st_tensor *t = &f->tensor[f->n - 1];
    memcpy(bytes, MERGES, n);
    t->dtype = GRAFT_U8;
    t->shape[0] = (int64_t)n;
    t->bytes = n;
    return f;
}

/* Of a file, which is used up. */
static graft_clip *clip_of(made_file *f)
{
    const char *path = temp_path("encoder.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    write_file(f, path, NULL);
    CHECK_OK(graft_clip_load(engine, &path, 1, "krea2", NULL, &c, &e), &e);
    if (!c) abort();
    unlink(path);
    return c;
}

static graft_cond *encoded(const graft_clip *c, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *out = NULL;
    CHECK_OK(graft_clip_encode(c, text, NULL, &out, &e), &e);
    if (!out) abort();
    return out;
}

static bool encode_alike(const graft_clip *a, const graft_clip *b, const char *text)
{
    graft_cond *k = encoded(a, text), *l = encoded(b, text);
    const graft_cond_entry *m = k->entry[0], *n = l->entry[0];
    const size_t bytes = (size_t)(m->tokens * m->width) * sizeof *m->data;
    const bool same =
        m->tokens == n->tokens && m->width == n->width && memcmp(m->data, n->data, bytes) == 0;
    graft_cond_release(k);
    graft_cond_release(l);
    return same;
}

/* ------------------------------------------------------------------ files */

/* In a file of its own, as transformers names it beside what looks at pictures, which is not read,
 * and in a checkpoint's place. */
static void is_found(void)
{
    graft_clip *own = clip_of(file_at(""));
    CHECK(own->kind == GRAFT_CLIP_KREA2 && own->width == LAYERS * WIDTH && !own->n_encoders);
    CHECK(!own->qwen3->arch.biased && own->qwen3->arch.layers == 36);
    made_file *f = file_at("");
    add_tensor(f, "visual.blocks.0.attn.qkv.weight", 2, (int64_t[]){3 * WIDTH, WIDTH}, NULL, 1);
    add_tensor(f, "visual.deepstack_merger_list.0.norm.weight", 1, (int64_t[]){WIDTH}, NULL, 1);
    graft_clip *c = clip_of(f);
    CHECK(encode_alike(own, c, "the red apple"));
    graft_clip_release(c);
    f = file_at("model.language_");
    add_tensor(f, "model.visual.blocks.0.attn.qkv.weight", 1, (int64_t[]){WIDTH}, NULL, 1);
    c = clip_of(f);
    CHECK(encode_alike(own, c, "the red apple"));
    graft_clip_release(c);
    c = clip_of(file_at("text_encoders.qwen3vl_4b.transformer."));
    CHECK(encode_alike(own, c, "the red apple"));
    graft_clip_release(c);
    graft_clip_release(own);
}

/* What a checkpoint's encoder is for, its network says. Saved with it, it is found again. */
static void in_a_checkpoint(void)
{
    const char *path = temp_path("whole.safetensors"), *to = temp_path("again.safetensors");
    made_file *f = file_at("text_encoders.qwen3vl_4b.transformer.");
    made_file *net = part_of_file(NET, "");
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *own = clip_of(file_at(""));
    for (size_t i = 0; i < net->n; i++)
        if (strncmp(net->tensor[i].name, "case", 4) != 0)
            add_tensor(f, net->tensor[i].name, net->tensor[i].rank, net->tensor[i].shape,
                       net->tensor[i].data, 0);
    finish_file(net);
    write_file(f, path, NULL);
    for (int i = 0; i < 2; i++) {
        graft_model *m = NULL;
        graft_clip *c = NULL;
        CHECK_OK(graft_checkpoint_load(engine, i ? to : path, NULL, &m, &c, NULL, &e), &e);
        if (!m || !c) abort();
        CHECK(m->arch.kind == GRAFT_NET_KREA2 && c->kind == GRAFT_CLIP_KREA2);
        CHECK(encode_alike(own, c, "the the"));
        const graft_checkpoint what = {.model = m, .clip = c};
        if (!i) CHECK_OK(graft_checkpoint_save(&what, to, NULL, NULL, &e), &e);
        graft_model_release(m);
        graft_clip_release(c);
    }
    graft_clip_release(own);
    unlink(path);
    unlink(to);
}

static void other_kinds(void)
{
    static const char *const types[] = {"sd3", "chroma"};
    const char *path = temp_path("encoder.safetensors");
    const char *t5 = GRAFT_SOURCE_DIR "/golden/small/t5.safetensors";
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    write_file(file_at(""), path, NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        CHECK_INT(graft_clip_load(engine, &path, 1, types[i], NULL, &c, &e), GRAFT_E_UNSUPPORTED);
        CHECK(
            strstr(e.text, "CLIPLoader with type lumina2, flux2, krea2, qwen_image or ideogram4"));
    }
    CHECK_INT(graft_clip_load(engine, &t5, 1, "krea2", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "no Qwen 3 text encoder"));
    CHECK(!c);
    unlink(path);
}

/* Z-Image and FLUX.2 have no use for the layers behind theirs; Krea 2 reads more. */
static void too_few_layers(void)
{
    const char *path = temp_path("encoder.safetensors");
    static const char last[] = "model.layers.35.";
    made_file *f = file_at("");
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    graft_graph *g = NULL;
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, last, strlen(last)) == 0) drop_tensor(f, f->tensor[i].name);
    write_file(f, path, NULL);
    CHECK_INT(graft_clip_load(engine, &path, 1, "krea2", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "a Qwen 3 of 35 layers; Krea 2 wants what layer 35 of one with more"));
    CHECK_OK(graft_clip_load(engine, &path, 1, "flux2", NULL, &c, &e), &e);
    const graft_qwen3_shape shape = {
        .batch = 1, .tokens = 32, .act_dtype = GRAFT_F32, .layered = 1};
    CHECK_INT(graft_qwen3_build(&c->qwen3->arch, &shape, &g, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!g && strstr(e.text, "35 layers"));
    graft_clip_release(c);
    unlink(path);
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
    const size_t row = LAYERS * WIDTH;
    const graft_build_options o = {.no_disk = true};
    graft_clip *c = clip_of(file_at(""));
    graft_err e = GRAFT_ERR_INIT;
    int32_t *asked = NULL;
    size_t first = 0;
    CHECK_OK(graft_qwen_encode(c->qwen3->tokenizer, before, strlen(before), &asked, &first, &e),
             &e);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char all[600];
        int32_t *ids = NULL;
        size_t n = 0;
        snprintf(all, sizeof all, "%s%s<|im_end|>\n<|im_start|>assistant\n", before, texts[i]);
        CHECK_OK(graft_qwen_encode(c->qwen3->tokenizer, all, strlen(all), &ids, &n, &e), &e);
        CHECK(n > first && memcmp(ids, asked, first * sizeof *ids) == 0);
        float *want = calloc(n, row * sizeof *want);
        CHECK_OK(graft_qwen3_run(engine, &o, &c->qwen3->arch, c->qwen3->weights,
                                 GRAFT_QWEN3_TAKE_LAYERED, ids, (int64_t)n, NULL, want, &e),
                 &e);
        graft_cond *k = encoded(c, texts[i]);
        CHECK(k->n == 1 && k->entry[0]->width == (int64_t)row && !k->entry[0]->pooled);
        CHECK_INT(k->entry[0]->tokens, n - first);
        CHECK(memcmp(k->entry[0]->data, want + first * row, (n - first) * row * sizeof *want) == 0);
        graft_cond_release(k);
        graft_free(ids);
        free(want);
    }
    graft_free(asked);
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
    graft_clip *c = clip_of(file_at(""));
    graft_cond *want = encoded(c, "the");
    const size_t bytes =
        (size_t)(want->entry[0]->tokens * want->entry[0]->width) * sizeof *want->entry[0]->data;
    const int64_t live = live_blocks();
    int failed = 0;
    for (int n = 1; n < 1000; n++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_cond *k = NULL;
        graft_alloc_fail_at(n);
        graft_status st = graft_clip_encode(c, "the", NULL, &k, &e);
        graft_alloc_fail_at(0);
        if (!st) {
            CHECK(memcmp(k->entry[0]->data, want->entry[0]->data, bytes) == 0);
            n = 1000;
        } else {
            CHECK_INT(st, GRAFT_E_NOMEM);
            failed++;
        }
        graft_cond_release(k);
    }
    CHECK(failed > 5);
    CHECK_INT(live_blocks(), live);
    graft_cond_release(want);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(is_found);
    RUN(in_a_checkpoint);
    RUN(other_kinds);
    RUN(too_few_layers);
    RUN(gguf);
    RUN(prompts);
    RUN(graph);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
