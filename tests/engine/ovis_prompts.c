/* Ovis-Image's prompts: in which places its text encoder is found, what a prompt is put into, what
 * of it is left out, and the zeros behind it. What the model computes is held against
 * golden/small/qwen3. */
#include "engine/models/transformers/flux.h"
#include "engine/prompts/ovis.h"
#include "tests/engine/language.h"

#define SMALL GRAFT_SOURCE_DIR "/golden/small/qwen3.safetensors"
#define NET   GRAFT_SOURCE_DIR "/golden/small/ovis_one.safetensors"
#define PLACE "text_encoders.qwen3_2b.transformer."
#define TYPE  "ovis"
#define BEFORE                                                                                     \
    "<|im_start|>user\nDescribe the image by detailing the color, quantity, text, shape, size, "   \
    "texture, spatial relationships of the objects and background: "
#define BEHIND "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

enum { WIDTH = 32, OVIS_WORDS = 256, LEFT_OUT = 28 };

static graft_engine *engine;

static made_file *own_file(void)
{
    return language_at(SMALL, "");
}

static graft_clip *own_clip(void)
{
    return clip_as(engine, own_file(), TYPE);
}

/* In a file of its own, where Ovis 2.5 has it, and in a checkpoint's place. */
static void is_found(void)
{
    graft_clip *own = own_clip();
    CHECK(own->kind == GRAFT_CLIP_OVIS && own->width == WIDTH && !own->n_encoders);
    made_file *f = language_at(SMALL, "llm.");
    add_tensor(f, "visual_tokenizer.head.0.weight", 1, (int64_t[]){WIDTH}, NULL, 1);
    found_in(engine, f, TYPE, own);
    found_in(engine, language_at(SMALL, PLACE), TYPE, own);
    found_beside(engine, language_at(SMALL, PLACE), NET, own, GRAFT_NET_FLUX);
    graft_clip_release(own);
}

/* All layers are read, and the norm behind them. */
static void lacks_a_tensor(void)
{
    made_file *f = own_file();
    drop_tensor(f, "model.norm.weight");
    graft_clip *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *out = NULL;
    graft_status st = try_clip(engine, f, TYPE, &c, &e);
    if (!st) st = graft_clip_encode(c, "the", NULL, &out, &e);
    CHECK(st == GRAFT_E_FORMAT && !out && strstr(e.text, "model.norm.weight"));
    graft_clip_release(c);
}

/* All that is read but the first 28 tokens, up to 256, and zeros. */
static void prompts(void)
{
    static const char *const texts[] = {"the red (apple:1.3)", "", "\nthe", NULL};
    const graft_build_options o = {.no_disk = true};
    graft_clip *c = own_clip();
    const graft_qwen3 *q = c->qwen3;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[2000] = "", all[2600];
        int32_t *ids = NULL;
        size_t n = 0;
        graft_err e = GRAFT_ERR_INIT;
        for (int k = 0; !texts[i] && k < 400; k++) strcat(text, " the");
        if (texts[i]) strcpy(text, texts[i]);
        snprintf(all, sizeof all, "%s%s%s", BEFORE, text, BEHIND);
        CHECK_OK(graft_qwen_encode(q->tokenizer, all, strlen(all), &ids, &n, &e), &e);
        CHECK((n > OVIS_WORDS + LEFT_OUT) == !texts[i]);
        if (n > OVIS_WORDS + LEFT_OUT) n = OVIS_WORDS + LEFT_OUT;
        float *want = calloc(OVIS_WORDS + LEFT_OUT, WIDTH * sizeof *want);
        CHECK_OK(graft_qwen3_run(engine, &o, &q->arch, q->weights, GRAFT_QWEN3_TAKE_NORMED, ids,
                                 (int64_t)n, NULL, want, &e),
                 &e);
        graft_cond *k = encoded(c, text);
        const graft_cond_entry *got = k->entry[0];
        CHECK(k->n == 1 && got->width == WIDTH && !got->pooled);
        CHECK_INT(got->tokens, OVIS_WORDS);
        if (got->tokens == OVIS_WORDS)
            CHECK(memcmp(got->data, want + LEFT_OUT * WIDTH, OVIS_WORDS * WIDTH * sizeof *want) ==
                  0);
        graft_cond_release(k);
        graft_free(ids);
        free(want);
    }
    graft_clip_release(c);
}

static void no_memory(void)
{
    graft_clip *c = own_clip();
    encodes_short_of_memory(c, 4);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(is_found);
    RUN(lacks_a_tensor);
    RUN(prompts);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
