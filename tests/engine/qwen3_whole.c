/* Qwen 3-VL's language model as Qwen-Image 2.1's text encoder: which files it is found in by the
 * type of Qwen-Image's, what its prompts are made of, and that all of its layers are read. What it
 * computes is held against golden/small/qwen3_whole. */
#include "base/alloc.h"
#include "engine/prompts/qwen3.h"
#include "tests/engine/diffusers.h"

#define SMALL  GRAFT_SOURCE_DIR "/golden/small/qwen3_whole.safetensors"
#define NET    GRAFT_SOURCE_DIR "/golden/small/qwen_image21_one.safetensors"
#define MERGES "t h\nth e\n\xc4\xa0 the\n\xc4\x8a \xc4\x8a\n"

enum { WIDTH = 24 };

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
    CHECK_OK(graft_clip_load(engine, &path, 1, "qwen_image", NULL, &c, &e), &e);
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
    static const char *const places[] = {"model.language_",
                                         "text_encoders.qwen3vl_8b.transformer."};
    graft_clip *own = clip_of(file_at(""));
    CHECK(own->kind == GRAFT_CLIP_QWEN_IMAGE21 && own->width == WIDTH && !own->n_encoders);
    CHECK(!own->qwen3->arch.biased && own->qwen3->arch.layers == 3 && !own->qwen3->sight);
    for (int i = 0; i < 2; i++) {
        made_file *f = file_at(places[i]);
        if (!i)
            add_tensor(f, "model.visual.blocks.0.attn.qkv.weight", 1, (int64_t[]){WIDTH}, NULL, 1);
        graft_clip *c = clip_of(f);
        CHECK(encode_alike(own, c, "the red apple"));
        graft_clip_release(c);
    }
    graft_clip_release(own);
}

/* What a checkpoint's encoder is for, its network says. Saved with it, it is found again. */
static void in_a_checkpoint(void)
{
    const char *path = temp_path("whole.safetensors"), *to = temp_path("again.safetensors");
    made_file *f = file_at("text_encoders.qwen3vl_8b.transformer.");
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
        CHECK(m->arch.kind == GRAFT_NET_QWEN_IMAGE21 && c->kind == GRAFT_CLIP_QWEN_IMAGE21);
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

/* Any of its tensors but the norm behind the last layer, which is not read. */
static void lacks_a_tensor(void)
{
    made_file *all = file_at("");
    for (size_t i = 0; i < all->n; i++) {
        const char *path = temp_path("encoder.safetensors"), *name = all->tensor[i].name;
        graft_err e = GRAFT_ERR_INIT;
        graft_clip *c = NULL;
        if (strcmp(name, "merges_txt") == 0) continue;
        made_file *f = file_at("");
        drop_tensor(f, name);
        write_file(f, path, NULL);
        graft_status st = graft_clip_load(engine, &path, 1, "qwen_image", NULL, &c, &e);
        if (strcmp(name, "model.norm.weight") == 0) {
            CHECK_OK(st, &e);
        } else if (strcmp(name, GRAFT_QWEN3_TENSOR) == 0) {
            CHECK_INT(st, GRAFT_E_UNSUPPORTED); /* by which it is told */
            CHECK(strstr(e.text, "no Qwen 2.5 text encoder"));
        } else {
            CHECK_INT(st, GRAFT_E_FORMAT);
            CHECK(strstr(e.text, name));
            if (!strstr(e.text, name)) fprintf(stderr, "    %s: %s\n", name, e.text);
        }
        graft_clip_release(c);
        unlink(path);
    }
    finish_file(all);
}

/* ------------------------------------------------------------------ prompts */

/* What is asked for is read and left out: of the rest all is there, the words that begin the
 * question included. */
static void prompts(void)
{
    static const char before[] =
        "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n";
    static const char *const texts[][2] = {{"the the", "the the"},
                                           {"", " "}, /* nothing to read is a space */
                                           {" the (the:1.5)\n\n the", " the (the:1.5)\n\n the"}};
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
        snprintf(all, sizeof all, "%s<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n",
                 before, texts[i][1]);
        CHECK_OK(graft_qwen_encode(c->qwen3->tokenizer, all, strlen(all), &ids, &n, &e), &e);
        CHECK(n > first && memcmp(ids, asked, first * sizeof *ids) == 0);
        float *want = calloc(n, WIDTH * sizeof *want);
        CHECK_OK(graft_qwen3_run(engine, &o, &c->qwen3->arch, c->qwen3->weights,
                                 GRAFT_QWEN3_TAKE_WHOLE, ids, (int64_t)n, NULL, want, &e),
                 &e);
        graft_cond *k = encoded(c, texts[i][0]);
        CHECK(k->n == 1 && k->entry[0]->width == WIDTH && !k->entry[0]->pooled);
        CHECK_INT(k->entry[0]->tokens, n - first);
        CHECK(memcmp(k->entry[0]->data, want + first * WIDTH, (n - first) * WIDTH * sizeof *want) ==
              0);
        graft_cond_release(k);
        graft_free(ids);
        free(want);
    }
    graft_free(asked);
    graft_clip_release(c);
}

/* All layers, no norm behind them, and places turn by the angles of Qwen 3-VL. */
static void graph(void)
{
    const graft_qwen3_arch a = {.layers = 5,
                                .width = 16,
                                .head_dim = 8,
                                .intermediate = 24,
                                .vocab = 300,
                                .heads = 2,
                                .key_heads = 1};
    const graft_qwen3_shape shape = {.batch = 1, .tokens = 9, .act_dtype = GRAFT_F32, .whole = 1};
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
    CHECK(turns == 2 * 5 && attentions == 5 && norms == 4 * 5);
    CHECK(g->n_inputs == 1 && g->value[g->output[0]].dim[2] == 16);
    graft_graph_destroy(g);
    for (int i = 0; i < 2; i++) {
        graft_qwen3_shape both = shape;
        both.normed = !i;
        both.layered = i;
        g = NULL;
        CHECK_INT(graft_qwen3_build(&a, &both, &g, &e), GRAFT_E_ARG);
        CHECK(!g);
    }
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
    RUN(lacks_a_tensor);
    RUN(prompts);
    RUN(graph);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
