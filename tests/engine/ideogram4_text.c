/* Qwen 3-VL's language model as Ideogram 4's text encoder: where it is found, what its prompts are
 * made of, and that it must be whole. What it computes is held against golden/small/qwen3_stacked.
 */
#include "base/alloc.h"
#include "engine/prompts/qwen3.h"
#include "tests/engine/diffusers.h"

#define SMALL  GRAFT_SOURCE_DIR "/golden/small/qwen3_stacked.safetensors"
#define NET    GRAFT_SOURCE_DIR "/golden/small/ideogram4_two.safetensors"
#define MERGES "t h\nth e\n\xc4\xa0 the\n\xc4\x8a \xc4\x8a\n"

enum { LAYERS = 13 };

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

/* Takes f. */
static graft_status try_clip(made_file *f, const char *type, graft_clip **out, graft_err *e)
{
    const char *path = temp_path("encoder.safetensors");
    write_file(f, path, NULL);
    graft_status st = graft_clip_load(engine, &path, 1, type, NULL, out, e);
    unlink(path);
    return st;
}

static graft_clip *clip_of(made_file *f)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    CHECK_OK(try_clip(f, "ideogram4", &c, &e), &e);
    if (!c) abort();
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

/* All of the question and where the answer begins is there, 13 layers of each token. */
static void prompts(void)
{
    static const char *const texts[] = {"the the", "", "{\"the\": [1, 2]}"};
    const graft_build_options o = {.no_disk = true};
    graft_clip *c = clip_of(file_at(""));
    const size_t row = (size_t)(LAYERS * c->qwen3->arch.width);
    CHECK(c->kind == GRAFT_CLIP_IDEOGRAM4 && c->width == (int)row);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char all[200];
        int32_t *ids = NULL;
        size_t n = 0;
        graft_err e = GRAFT_ERR_INIT;
        snprintf(all, sizeof all, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n",
                 texts[i]);
        CHECK_OK(graft_qwen_encode(c->qwen3->tokenizer, all, strlen(all), &ids, &n, &e), &e);
        float *want = calloc(n, row * sizeof *want);
        CHECK_OK(graft_qwen3_run(engine, &o, &c->qwen3->arch, c->qwen3->weights,
                                 GRAFT_QWEN3_TAKE_STACKED, ids, (int64_t)n, NULL, want, &e),
                 &e);
        graft_cond *k = encoded(c, texts[i]);
        CHECK(k->n == 1 && k->entry[0]->width == (int64_t)row && !k->entry[0]->pooled);
        CHECK_INT(k->entry[0]->tokens, n);
        CHECK(memcmp(k->entry[0]->data, want, n * row * sizeof *want) == 0);
        graft_cond_release(k);
        graft_free(ids);
        free(want);
    }
    graft_clip_release(c);
}

/* In a checkpoint beside its network, which says what it is for; saved, it is found again. */
static void in_a_checkpoint(void)
{
    const char *path = temp_path("whole.safetensors"), *to = temp_path("again.safetensors");
    made_file *f = file_at("text_encoders.qwen3vl_8b.transformer."), *net = part_of_file(NET, "");
    graft_clip *own = clip_of(file_at(""));
    graft_cond *want = encoded(own, "the the");
    const size_t bytes = (size_t)(want->entry[0]->tokens * want->entry[0]->width) * sizeof(float);
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < net->n; i++)
        if (strncmp(net->tensor[i].name, "case", 4) != 0)
            add_tensor(f, net->tensor[i].name, net->tensor[i].rank, net->tensor[i].shape,
                       net->tensor[i].data, 0);
    finish_file(net);
    write_file(f, path, config_of(NET));
    for (int i = 0; i < 2; i++) {
        graft_model *m = NULL;
        graft_clip *c = NULL;
        CHECK_OK(graft_checkpoint_load(engine, i ? to : path, NULL, &m, &c, NULL, &e), &e);
        if (!m || !c) abort();
        CHECK(m->arch.kind == GRAFT_NET_IDEOGRAM4 && c->kind == GRAFT_CLIP_IDEOGRAM4);
        graft_cond *got = encoded(c, "the the");
        CHECK(memcmp(got->entry[0]->data, want->entry[0]->data, bytes) == 0);
        graft_cond_release(got);
        const graft_checkpoint what = {.model = m, .clip = c};
        if (!i) CHECK_OK(graft_checkpoint_save(&what, to, NULL, NULL, &e), &e);
        graft_model_release(m);
        graft_clip_release(c);
    }
    graft_cond_release(want);
    graft_clip_release(own);
    unlink(path);
    unlink(to);
}

/* The last layer is read, which others of its kind leave alone. */
static void not_whole(void)
{
    static const char last[] = "model.layers.35.";
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    made_file *f = file_at("");
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, last, strlen(last)) == 0) drop_tensor(f, f->tensor[i].name);
    CHECK_INT(try_clip(f, "ideogram4", &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!c && strstr(e.text, "a Qwen 3 of 35 layers; Ideogram 4 wants what layer 35 of one"));
    f = file_at("");
    drop_tensor(f, "model.layers.35.mlp.down_proj.weight");
    CHECK_INT(try_clip(f, "ideogram4", &c, &e), GRAFT_E_FORMAT);
    CHECK(!c && strstr(e.text, "model.layers.35.mlp.down_proj.weight"));
    f = file_at("");
    CHECK_INT(try_clip(f, "sd3", &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!c &&
          strstr(e.text, "CLIPLoader with type lumina2, flux2, krea2, qwen_image or ideogram4"));
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(prompts);
    RUN(in_a_checkpoint);
    RUN(not_whole);
    graft_engine_destroy(engine);
    return test_end();
}
