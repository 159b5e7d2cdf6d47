/* Qwen 3 as FLUX.2's text encoder: what its prompts are made of, what sees their padding, and how
 * many layers it must have. What it computes is held against golden/small/qwen3_joined. */
#include "base/alloc.h"
#include "engine/prompts/qwen3.h"
#include "tests/engine/diffusers.h"

#define DEEP   GRAFT_SOURCE_DIR "/golden/small/qwen3_joined.safetensors"
#define MERGES "t h\nth e\n\xc4\xa0 the\n\xc4\x8a \xc4\x8a\n"

static graft_engine *engine;

static void add_merges(made_file *f)
{
    const size_t n = strlen(MERGES);
    void *bytes = add_tensor(f, "merges_txt", 1, (int64_t[]){(int64_t)n / 4 + 1}, NULL, 0);
    graft_st_tensor *t = &f->tensor[f->n - 1];
    memcpy(bytes, MERGES, n);
    t->dtype = GRAFT_U8;
    t->shape[0] = (int64_t)n;
    t->bytes = n;
}

static graft_cond *encoded(const graft_clip *c, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *out = NULL;
    CHECK_OK(graft_clip_encode(c, text, NULL, &out, &e), &e);
    if (!out) abort();
    return out;
}

/* The one of golden/README.md with so many layers, and the small tokenizer. */
static const char *write_deep(int layers)
{
    const char *path = temp_path("deep.safetensors");
    char name[40];
    made_file *f = part_of_file(DEEP, "");
    snprintf(name, sizeof name, "model.layers.%d.", layers);
    for (size_t i = f->n; i-- > 0;)
        if (strncmp(f->tensor[i].name, "case", 4) == 0 ||
            strncmp(f->tensor[i].name, name, strlen(name)) == 0)
            drop_tensor(f, f->tensor[i].name);
    add_merges(f);
    write_file(f, path, NULL);
    return path;
}

static graft_clip *flux2_clip(void)
{
    const char *path = write_deep(100);
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    CHECK_OK(graft_clip_load(engine, &path, 1, "flux2", NULL, &c, &e), &e);
    if (!c) abort();
    unlink(path);
    return c;
}

/* A question, thoughts of nothing, and padding up to 512 tokens, which the network reads. */
static void padded_prompts(void)
{
    graft_clip *c = flux2_clip();
    const char *text = "<|im_start|>user\nthe the<|im_end|>\n<|im_start|>assistant\n"
                       "<think>\n\n</think>\n\n";
    const size_t width = 3 * (size_t)c->qwen3->arch.width;
    const graft_build_options o = {.no_disk = true};
    graft_err e = GRAFT_ERR_INIT;
    int32_t *ids = NULL, *padding = NULL, all[512];
    size_t n = 0, one = 0;
    float *want = calloc(512, width * sizeof *want);
    CHECK(c->kind == GRAFT_CLIP_FLUX2 && c->width == (int64_t)width);
    CHECK_OK(graft_qwen_encode(c->qwen3->tokenizer, text, strlen(text), &ids, &n, &e), &e);
    CHECK_OK(graft_qwen_encode(c->qwen3->tokenizer, "<|endoftext|>", 13, &padding, &one, &e), &e);
    CHECK(one == 1 && n > 8 && n < 40);
    for (size_t i = 0; i < 512; i++) all[i] = i < n ? ids[i] : padding[0];
    CHECK_OK(graft_qwen3_run_joined(engine, &o, &c->qwen3->arch, c->qwen3->weights, all, (int64_t)n,
                                    512, NULL, want, &e),
             &e);
    graft_cond *k = encoded(c, "the the");
    CHECK(k->n == 1 && k->entry[0]->tokens == 512 && k->entry[0]->width == (int64_t)width);
    CHECK(!k->entry[0]->pooled);
    CHECK(memcmp(k->entry[0]->data, want, 512 * width * sizeof *want) == 0);
    graft_cond_release(k);
    graft_free(ids);
    graft_free(padding);
    free(want);
    graft_clip_release(c);
}

/* Longer ones stay as they are: so many more tokens, and not a multiple of anything. */
static void long_prompts(void)
{
    graft_clip *c = flux2_clip();
    char text[600 * 4 + 1] = "";
    for (int i = 0; i < 600; i++) memcpy(text + 4 * i, " the", 5);
    graft_cond *k = encoded(c, text), *l = encoded(c, text + 4 * 300);
    CHECK(k->entry[0]->tokens > 600 && k->entry[0]->tokens < 640);
    CHECK_INT(l->entry[0]->tokens, 512);
    graft_cond_release(k);
    graft_cond_release(l);
    graft_clip_release(c);
}

/* Words see no padding, and padding sees words, but none of its like: more of it changes none. */
static void padding_is_unseen(void)
{
    graft_clip *c = flux2_clip();
    const graft_qwen3 *q = c->qwen3;
    const graft_build_options o = {.no_disk = true};
    const size_t width = 3 * (size_t)q->arch.width;
    int32_t ids[64] = {1, 2, 3, 4, 5};
    float *a = calloc(64, width * sizeof *a), *b = calloc(64, width * sizeof *b);
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 5; i < 64; i++) ids[i] = 9;
    CHECK_OK(graft_qwen3_run_joined(engine, &o, &q->arch, q->weights, ids, 5, 40, NULL, a, &e), &e);
    ids[6] = 77; /* one of it is another */
    CHECK_OK(graft_qwen3_run_joined(engine, &o, &q->arch, q->weights, ids, 5, 64, NULL, b, &e), &e);
    CHECK(difference(a, b, 6 * width) < 1e-5);
    CHECK(difference(a + 6 * width, b + 6 * width, width) > 1e-2);
    CHECK(difference(a + 7 * width, b + 7 * width, 33 * width) < 1e-5);
    CHECK(difference(a + 5 * width, a + 7 * width, width) > 1e-3); /* its place counts */
    CHECK_INT(graft_qwen3_run_joined(engine, &o, &q->arch, q->weights, ids, 0, 5, NULL, a, &e),
              GRAFT_E_ARG);
    CHECK_INT(graft_qwen3_run_joined(engine, &o, &q->arch, q->weights, ids, 6, 5, NULL, a, &e),
              GRAFT_E_ARG);
    free(a);
    free(b);
    graft_clip_release(c);
}

static void too_few_layers(void)
{
    const char *path = write_deep(27);
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    CHECK_INT(graft_clip_load(engine, &path, 1, "flux2", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "deep.safetensors: a Qwen 3 of 27 layers; FLUX.2 wants") != NULL);
    CHECK_OK(graft_clip_load(engine, &path, 1, "lumina2", NULL, &c, &e), &e);
    graft_qwen3_arch a = c->qwen3->arch;
    graft_graph *g = NULL;
    const graft_qwen3_shape s = {.batch = 1, .tokens = 32, .act_dtype = GRAFT_F32, .joined = 1};
    CHECK_INT(graft_qwen3_build(&a, &s, &g, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!g && strstr(e.text, "27 layers"));
    graft_clip_release(c);
    unlink(path);
}

static void no_memory(void)
{
    graft_clip *c = flux2_clip();
    graft_cond *want = encoded(c, "the");
    const size_t bytes = 512 * (size_t)want->entry[0]->width * sizeof(float);
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
    CHECK(failed > 8);
    CHECK_INT(live_blocks(), live);
    graft_cond_release(want);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(padded_prompts);
    RUN(long_prompts);
    RUN(padding_is_unseen);
    RUN(too_few_layers);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
