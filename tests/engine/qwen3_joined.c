/* Qwen 3 as FLUX.2's text encoder: what its prompts are made of, what sees their padding, and how
 * many layers it must have. What it computes is held against golden/small/qwen3_joined. */
#include "tests/engine/language.h"

#define DEEP GRAFT_SOURCE_DIR "/golden/small/qwen3_joined.safetensors"

static graft_engine *engine;

/* The one of golden/README.md with so many layers, and the small tokenizer. */
static made_file *deep(int layers)
{
    char name[40];
    made_file *f = language_at(DEEP, "");
    snprintf(name, sizeof name, "model.layers.%d.", layers);
    drop_tensors(f, name);
    return f;
}

static graft_clip *flux2_clip(void)
{
    return clip_as(engine, deep(100), "flux2");
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
    graft_err e = GRAFT_ERR_INIT;
    clip_refused(engine, deep(27), "flux2", GRAFT_E_UNSUPPORTED,
                 "encoder.safetensors: a Qwen 3 of 27 layers; FLUX.2 wants");
    graft_clip *c = clip_as(engine, deep(27), "lumina2");
    graft_qwen3_arch a = c->qwen3->arch;
    graft_graph *g = NULL;
    const graft_qwen3_shape s = {.batch = 1, .tokens = 32, .act_dtype = GRAFT_F32, .joined = 1};
    CHECK_INT(graft_qwen3_build(&a, &s, &g, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!g && strstr(e.text, "27 layers"));
    graft_clip_release(c);
}

static void no_memory(void)
{
    graft_clip *c = flux2_clip();
    encodes_short_of_memory(c, 9);
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
