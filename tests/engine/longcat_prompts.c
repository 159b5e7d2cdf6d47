/* LongCat-Image's prompts: the type that opens its text encoder, what is read letter by letter,
 * what a prompt is put into, and what fills it up. What the model computes is held against
 * golden/small/qwen25_padded; prompts with pictures: qwen_edit.c. */
#include "engine/models/transformers/flux.h"
#include "engine/prompts/longcat.h"
#include "tests/engine/language.h"

#define SMALL GRAFT_SOURCE_DIR "/golden/small/qwen25_padded.safetensors"
#define NET   GRAFT_SOURCE_DIR "/golden/small/longcat_one.safetensors"
#define PLACE "text_encoders.qwen25_7b.transformer."
#define TYPE  "longcat_image"
#define BEFORE                                                                                     \
    "<|im_start|>system\nAs an image captioning expert, generate a descriptive text prompt based " \
    "on an image content, suitable for input to a text-to-image model.<|im_end|>\n"                \
    "<|im_start|>user\n"

enum { WIDTH = 32, MOST = 4000 };

static graft_engine *engine;

static graft_clip *clip_with(const char *place, const char *config)
{
    const char *path = temp_path("encoder.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    write_file(language_at(SMALL, place), path, config);
    CHECK_OK(graft_clip_load(engine, &path, 1, TYPE, NULL, &c, &e), &e);
    if (!c) abort();
    unlink(path);
    return c;
}

static graft_clip *own_clip(void)
{
    return clip_with("", config_of(SMALL));
}

static void is_found(void)
{
    graft_clip *own = own_clip();
    CHECK(own->kind == GRAFT_CLIP_LONGCAT && own->width == WIDTH && !own->n_encoders);
    CHECK(own->qwen3->arch.biased && own->qwen3->arch.head_dim == 12);
    graft_clip *placed = clip_with(PLACE, config_of(SMALL));
    CHECK(encode_alike(own, placed, "the red apple"));
    graft_clip_release(placed);
    clip_refused(engine, language_at(GRAFT_SOURCE_DIR "/golden/small/qwen3.safetensors", ""), TYPE,
                 GRAFT_E_UNSUPPORTED, "no Qwen 2.5 text encoder in it");
    graft_clip_release(own);
}

/* ------------------------------------------------------------------ letters */

/* A text in pieces of which each is tokens by itself; "" ends them. */
typedef struct spelled {
    const char *text, *pieces[24];
} spelled;

#define THE "t", "h", "e"
static const spelled texts[] = {
    {"the the", {"the the"}},
    {"a \"the the\" now", {"a ", "\"", THE, " ", THE, "\"", " now"}},
    {"'the'", {"'", THE, "'"}},
    {"it's the", {"it's the"}},
    {"don't 'the' isn't", {"don't ", "'", THE, "'", " isn't"}},
    {"\"it's the\"", {"\"", "i", "t", "'", "s", " ", THE, "\""}},
    {"'it's'", {"'", "i", "t", "'", "s", "'"}},
    {"\xE2\x80\x98the\xE2\x80\x99 \xE2\x80\x9Cthe\xE2\x80\x9D",
     {"\xE2\x80\x98", THE, "\xE2\x80\x99", " ", "\xE2\x80\x9C", THE, "\xE2\x80\x9D"}},
    {"\xE2\x80\x9Cthe \xE2\x80\x9Cthe\xE2\x80\x9D x",
     {"\xE2\x80\x9Cthe ", "\xE2\x80\x9C", THE, "\xE2\x80\x9D", " x"}},
    {"\"\xE8\x8C\xB6\xE9\xA6\x86\" the", {"\"", "\xE8\x8C\xB6", "\xE9\xA6\x86", "\"", " the"}},
    {"\"the", {"\"the"}},
    {"5' the \"the\"", {"5' the ", "\"", THE, "\""}},
    {"the 'a \"b' c\" the", {"the ", "'", "a", " ", "\"", "b", "'", " c\" the"}},
    {"''the''", {"'", "'", "the", "'", "'"}},
    {"rock'n'the' the", {"rock'n", "'", THE, "'", " the"}},
    {"", {NULL}}};

static size_t tokens_of(const graft_clip *c, const char *text, int32_t *ids, size_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    int32_t *own = NULL;
    size_t more = 0;
    CHECK_OK(graft_qwen_encode(c->qwen3->tokenizer, text, strlen(text), &own, &more, &e), &e);
    CHECK(n + more <= MOST);
    if (more && n + more <= MOST) memcpy(ids + n, own, more * sizeof *ids);
    graft_free(own);
    return n + more;
}

static void letters(void)
{
    graft_clip *c = own_clip();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t want[MOST];
        graft_seen_prompt p = {.q = c->qwen3};
        graft_err e = GRAFT_ERR_INIT;
        size_t n = 0;
        for (size_t k = 0; texts[i].pieces[k]; k++) n = tokens_of(c, texts[i].pieces[k], want, n);
        CHECK_OK(graft_longcat_put(&p, texts[i].text, &e), &e);
        CHECK_INT(p.n, n);
        const bool same = p.n == n && (!n || memcmp(p.ids, want, n * sizeof *want) == 0);
        CHECK(same);
        if (!same) fprintf(stderr, "  %s\n", texts[i].text);
        graft_seen_prompt_finish(&p);
    }
    graft_clip_release(c);
}

/* Behind 512 tokens a text is left out, in quotes and out of them. */
static void long_texts(void)
{
    graft_clip *c = own_clip();
    for (int quoted = 0; quoted < 2; quoted++) {
        char text[MOST] = "\"";
        int32_t ids[MOST];
        graft_seen_prompt p = {.q = c->qwen3};
        graft_err e = GRAFT_ERR_INIT;
        for (int i = 0; i < 600; i++) strcat(text, " the");
        strcat(text, "\" the \"the\"");
        const char *from = text + !quoted;
        const size_t n = quoted ? 0 : tokens_of(c, from, ids, 0);
        CHECK_OK(graft_longcat_put(&p, from, &e), &e);
        CHECK_INT(p.n, GRAFT_LONGCAT_TOKENS);
        if (!quoted) CHECK(n > 512 && memcmp(ids, p.ids, 512 * sizeof *ids) == 0);
        graft_seen_prompt_finish(&p);
    }
    graft_clip_release(c);
}

/* ------------------------------------------------------------------ prompts */

/* 512 tokens: the text's, behind what is asked, and padding that knows both. */
static void prompts(void)
{
    static const char *const asked[] = {"the red (apple:1.3)", "", "\"the\" the"};
    const graft_build_options o = {.no_disk = true};
    graft_clip *c = own_clip();
    const graft_qwen3 *q = c->qwen3;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        graft_seen_prompt p = {.q = q};
        int32_t padding[4];
        graft_err e = GRAFT_ERR_INIT;
        CHECK_INT(tokens_of(c, "<|endoftext|>", padding, 0), 1);
        CHECK_OK(graft_seen_prompt_text(&p, BEFORE, &e), &e);
        const size_t before = p.n, all = before + 512;
        CHECK_OK(graft_longcat_put(&p, asked[i], &e), &e);
        float *want = calloc(all, WIDTH * sizeof *want);
        CHECK_OK(graft_qwen3_run_padded(engine, &o, &q->arch, q->weights, p.ids, (int64_t)p.n, NULL,
                                        0, padding[0], (int64_t)all, NULL, want, &e),
                 &e);
        graft_cond *k = encoded(c, asked[i]);
        const graft_cond_entry *got = k->entry[0];
        const size_t row = WIDTH * sizeof *want, words = p.n - before;
        CHECK(k->n == 1 && got->width == WIDTH && !got->pooled);
        CHECK_INT(got->tokens, 512);
        if (got->tokens == 512) CHECK(memcmp(got->data, want + before * WIDTH, 512 * row) == 0);
        CHECK(memcmp(got->data + words * WIDTH, got->data + 511 * WIDTH, row) == 0);
        if (words)
            CHECK(memcmp(got->data + (words - 1) * WIDTH, got->data + words * WIDTH, row) != 0);
        graft_cond_release(k);
        graft_seen_prompt_finish(&p);
        free(want);
    }
    graft_clip_release(c);
}

/* Of Qwen's own tokenizer 36 tokens are left out, as in training. */
static void as_in_training(void)
{
    graft_qwen *own = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int32_t *ids = NULL;
    size_t n = 0;
    graft_status st = graft_qwen_create_own(&own, &e);
    if (st == GRAFT_E_NOTFOUND) {
        printf("  not tested: this build has no tokenizer\n");
        return;
    }
    CHECK_OK(st, &e);
    CHECK_OK(graft_qwen_encode(own, BEFORE, strlen(BEFORE), &ids, &n, &e), &e);
    CHECK_INT(n, 36);
    graft_free(ids);
    graft_qwen_destroy(own);
}

/* What a checkpoint's encoder is for, its network says. */
static void beside_the_network(void)
{
    const char *path = temp_path("whole.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *own = own_clip(), *c = NULL;
    graft_model *m = NULL;
    made_file *f = language_at(SMALL, PLACE), *net = golden_file(NET);
    for (size_t i = 0; i < net->n; i++)
        add_tensor(f, net->tensor[i].name, net->tensor[i].rank, net->tensor[i].shape,
                   net->tensor[i].data, 0);
    finish_file(net);
    write_file(f, path, "{\"head_dim\": 12, \"rope_dim\": 14}");
    CHECK_OK(graft_checkpoint_load(engine, path, NULL, &m, &c, NULL, &e), &e);
    CHECK(m && m->arch.flux.apart && c && c->kind == GRAFT_CLIP_LONGCAT);
    if (c) CHECK(encode_alike(own, c, "\"the\" the"));
    graft_model_release(m);
    graft_clip_release(c);
    graft_clip_release(own);
    unlink(path);
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
    RUN(letters);
    RUN(long_texts);
    RUN(prompts);
    RUN(as_in_training);
    RUN(beside_the_network);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
