/* HiDream-I1's text encoders: any of CLIP-L, CLIP-G, T5 and Llama 3.1, and the prompts that they
 * make. What Llama computes is held against golden/small/llama, what T5 does of padded texts
 * against golden/small/t5_masked, what Llama's tokenizer cuts against golden/small/llama3. */
#include <sys/stat.h>

#include "base/file.h"
#include "engine/models/transformers/hidream.h"
#include "engine/prompts/llama.h"
#include "engine/prompts/t5.h"
#include "tests/engine/language.h"

#define FOLDER    MODELS "/../text_encoders/"
#define L         FOLDER "tiny-clip-l.safetensors"
#define G         FOLDER "tiny-clip-g.safetensors"
#define T5        FOLDER "tiny-t5.safetensors"
#define LLAMA     FOLDER "tiny-llama.safetensors"
#define TOKENS_OF GRAFT_SOURCE_DIR "/golden/small/llama3/llama_tokenizer.json"
#define NET       GRAFT_SOURCE_DIR "/golden/small/hidream_two.safetensors"

enum { MOST = GRAFT_HIDREAM_TOKENS, WIDE_T5 = 112, WIDE_LLAMA = 3 * 32, WIDE_L = 32, WIDE_G = 64 };
enum { WIDTH = WIDE_T5 + WIDE_LLAMA, POOLED = WIDE_L + WIDE_G };

static graft_engine *engine;

static graft_status try_files(const char *const *path, size_t n, graft_clip **out, graft_err *e)
{
    *out = NULL;
    return graft_clip_load(engine, path, n, "hidream", NULL, out, e);
}

static graft_clip *files(const char *const *path, size_t n)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c;
    CHECK_OK(try_files(path, n, &c, &e), &e);
    if (!c) abort();
    return c;
}

static graft_clip *all_four(void)
{
    return files((const char *const[]){L, G, T5, LLAMA}, 4);
}

static graft_cond *encode(const graft_clip *c, const char *l, const char *g, const char *t5,
                          const char *llama)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode_hidream(c, l, g, t5, llama, NULL, &out, &e), &e);
    if (!out) abort();
    return out;
}

/* Whether `count` numbers of each token from `from` on are the same, or zeros where b is NULL. */
static bool same_columns(const graft_cond *a, const graft_cond *b, int64_t from, int64_t count)
{
    const graft_cond_entry *x = a->entry[0], *y = b ? b->entry[0] : NULL;
    if (y && (x->tokens != y->tokens || x->width != y->width)) return false;
    for (int64_t t = 0; t < x->tokens; t++)
        for (int64_t i = t * x->width + from; i < t * x->width + from + count; i++)
            if (x->data[i] != (y ? y->data[i] : 0)) return false;
    return true;
}

static bool same_pooled(const graft_cond *a, const graft_cond *b, int64_t from, int64_t count)
{
    for (int64_t i = from; i < from + count; i++)
        if (a->entry[0]->pooled[i] != (b ? b->entry[0]->pooled[i] : 0)) return false;
    return true;
}

/* ------------------------------------------------------------------ files */

static void what_it_is(void)
{
    static const char *const name[] = {"clip_l", "clip_g", "t5xxl", "llama", NULL};
    graft_clip *c = all_four(), *turned = files((const char *const[]){LLAMA, T5, G, L}, 4);
    CHECK(c->kind == GRAFT_CLIP_HIDREAM && c->n_encoders == 2 && c->t5 && c->qwen3);
    CHECK(c->qwen3->arch.llama && c->qwen3->arch.mistral && c->qwen3->arch.layers == 3);
    CHECK(c->encoder[1].large && !c->encoder[0].large && c->encoder[1].arch.projection == WIDE_G);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        CHECK(name[i] ? strcmp(graft_clip_encoder_name(c, i), name[i]) == 0
                      : !graft_clip_encoder_name(c, i));
    CHECK(encode_alike(c, turned, "a red apple"));
    graft_clip_release(c);
    graft_clip_release(turned);
}

static void refused_files(void)
{
    static const struct {
        const char *path[5];
        size_t n;
        graft_status status;
        const char *word;
    } cases[] = {{{LLAMA, LLAMA}, 2, GRAFT_E_UNSUPPORTED, "more than one Llama"},
                 {{T5, T5}, 2, GRAFT_E_UNSUPPORTED, "more than one T5"},
                 {{L, G, L}, 3, GRAFT_E_UNSUPPORTED, "more than two text encoders"},
                 {{L, G, T5, LLAMA, L}, 5, GRAFT_E_ARG, "not made of 5 files"},
                 {{NET}, 1, GRAFT_E_UNSUPPORTED, "no CLIP, T5 or Llama 3.1 text encoder in it"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_clip *c;
        CHECK_INT(try_files(cases[i].path, cases[i].n, &c, &e), cases[i].status);
        CHECK(!c && strstr(e.text, cases[i].word));
    }
}

/* A Llama is no Mistral for FLUX.2 or ERNIE-Image, nor the other way round. */
static void no_mistral(void)
{
    static const char mistral[] = GRAFT_SOURCE_DIR "/golden/small/ministral.safetensors";
    made_file *f = golden_file(mistral);
    const char *path = LLAMA;
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    CHECK_INT(graft_clip_load(engine, &path, 1, "flux2", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!c && strstr(e.text, "CLIPLoader with type flux2 or hidream"));
    clip_with_refused(engine, f, "{\"head_dim\": 16}", "hidream", GRAFT_E_UNSUPPORTED,
                      "no CLIP, T5 or Llama 3.1");
}

/* Llama's file alone in a folder, with so many tokens or (0) all, and what lies beside it. */
static graft_status llama_beside(int64_t tokens, const char *name, const char *text, graft_err *e)
{
    static const char table[] = "model.embed_tokens.weight";
    char folder[300], path[400], beside[400];
    made_file *f = part_of_file(LLAMA, "");
    graft_clip *c = NULL;
    snprintf(folder, sizeof folder, "%s", temp_path("folder"));
    snprintf(path, sizeof path, "%s/llama.safetensors", folder);
    snprintf(beside, sizeof beside, "%s/%s", folder, name);
    if (mkdir(folder, 0700)) abort();
    if (tokens) {
        drop_tensor(f, table);
        add_tensor(f, table, 2, (int64_t[]){tokens, 32}, NULL, 1);
    }
    write_file(f, path, "{\"head_dim\": 8, \"llama\": 1}");
    FILE *to = text ? fopen(beside, "w") : NULL;
    if (to) fputs(text, to), fclose(to);
    graft_status st = try_files((const char *const[]){path}, 1, &c, e);
    if (!st) {
        graft_clip *own = files((const char *const[]){LLAMA}, 1);
        CHECK(encode_alike(c, own, "the apple"));
        graft_clip_release(own);
    }
    graft_clip_release(c);
    if (text) unlink(beside);
    unlink(path);
    rmdir(folder);
    return st;
}

static void tokenizers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *text = NULL;
    size_t n = 0;
    CHECK_OK(graft_file_read(TOKENS_OF, 1 << 20, &text, &n, &e), &e);
    CHECK_INT(llama_beside(0, "x", NULL, &e), GRAFT_E_NOTFOUND);
    CHECK(strstr(e.text, "Llama 3.1 without its tokenizer: put tokenizer.json of Llama 3.1"));
    CHECK_OK(llama_beside(0, "tokenizer.json", text, &e), &e);
    CHECK_OK(llama_beside(0, "llama_tokenizer.json", text, &e), &e);
    CHECK_INT(llama_beside(0, "tokenizer.json", "{}", &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "no tokenizer of Llama 3"));
    CHECK_INT(llama_beside(0, "tokenizer.json", "{", &e), GRAFT_E_FORMAT);
    CHECK_INT(llama_beside(387, "tokenizer.json", text, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "its table has 387 tokens, fewer than the 388 of its tokenizer"));
    graft_free(text);
}

/* ------------------------------------------------------------------ prompts */

/* Each column is what its encoder makes of its own text, filled up to 128 tokens. */
static void columns(void)
{
    static const char text[] = "the apple";
    graft_clip *c = all_four();
    graft_cond *a = encoded(c, text);
    const graft_cond_entry *x = a->entry[0];
    graft_err e = GRAFT_ERR_INIT;
    graft_t5_words w = {.tokenizer = c->t5->tokenizer};
    float *t5 = NULL, *llama = NULL, pooled[POOLED];
    int32_t *ids = NULL;
    size_t n = 0;
    CHECK(x->tokens == MOST && x->width == WIDTH && x->pooled_width == POOLED);
    CHECK_OK(graft_t5_words_add(&w, text, &e), &e);
    CHECK_OK(graft_t5_encode_masked(engine, &c->t5_options, c->t5, &w, MOST, NULL, &t5, &e), &e);
    CHECK_OK(graft_llama_tokens(c->qwen3, text, &ids, &n, &e), &e);
    CHECK(n > 1 && ids[0] == graft_llama3_token(c->qwen3->llama, GRAFT_LLAMA3_BEGIN));
    CHECK_OK(graft_llama_encode(engine, &c->t5_options, c->qwen3, ids, n, MOST, NULL, &llama, &e),
             &e);
    for (int i = 0; i < 2; i++)
        CHECK_OK(graft_clip_encode_pooled(c, (size_t)i, text, NULL, pooled + (i ? WIDE_L : 0), &e),
                 &e);
    CHECK(memcmp(pooled, x->pooled, sizeof pooled) == 0);
    for (int64_t i = 0; i < MOST && t5 && llama; i++) {
        CHECK(memcmp(x->data + i * WIDTH, t5 + i * WIDE_T5, WIDE_T5 * sizeof *t5) == 0);
        CHECK(memcmp(x->data + i * WIDTH + WIDE_T5, llama + i * WIDE_LLAMA,
                     WIDE_LLAMA * sizeof *llama) == 0);
    }
    graft_t5_words_finish(&w);
    graft_free(t5);
    graft_free(llama);
    graft_free(ids);
    graft_cond_release(a);
    graft_clip_release(c);
}

static void texts_of_their_own(void)
{
    graft_clip *c = all_four();
    graft_cond *a = encode(c, "l", "g", "t5", "llama"), *b = encode(c, "x", "g", "t5", "llama");
    graft_cond *d = encode(c, "l", "x", "t5", "llama"), *f = encode(c, "l", "g", "x", "llama");
    graft_cond *g = encode(c, "l", "g", "t5", "x"), *none = encode(c, NULL, NULL, NULL, NULL);
    CHECK(!same_pooled(a, b, 0, WIDE_L) && same_pooled(a, b, WIDE_L, WIDE_G));
    CHECK(same_pooled(a, d, 0, WIDE_L) && !same_pooled(a, d, WIDE_L, WIDE_G));
    CHECK(same_columns(a, b, 0, WIDTH) && same_columns(a, d, 0, WIDTH));
    CHECK(!same_columns(a, f, 0, WIDE_T5) && same_columns(a, f, WIDE_T5, WIDE_LLAMA));
    CHECK(same_columns(a, g, 0, WIDE_T5) && !same_columns(a, g, WIDE_T5, WIDE_LLAMA));
    CHECK(same_pooled(a, g, 0, POOLED) && same_pooled(a, f, 0, POOLED));
    CHECK(same_columns(none, NULL, 0, WIDTH) && same_pooled(none, NULL, 0, POOLED));
    graft_cond *const all[] = {a, b, d, f, g, none};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) graft_cond_release(all[i]);
    graft_clip_release(c);
}

/* Brackets weigh what T5 gives; Llama and the pooled prompts see the words alone. */
static void weights(void)
{
    graft_clip *c = all_four();
    graft_cond *plain = encoded(c, "a (b) c"), *heavy = encoded(c, "a (b:1.5) c");
    graft_cond *one = encoded(c, "a (b:1) c");
    CHECK(!same_columns(one, heavy, 0, WIDE_T5) && same_columns(one, heavy, WIDE_T5, WIDE_LLAMA));
    CHECK(!same_columns(plain, heavy, 0, WIDE_T5) && same_pooled(one, heavy, 0, POOLED));
    graft_cond_release(plain);
    graft_cond_release(heavy);
    graft_cond_release(one);
    graft_clip_release(c);
}

/* A prompt of more tokens makes both as long as the longer one. */
static void long_prompts(void)
{
    char text[1200] = "";
    graft_clip *c = all_four();
    for (int i = 0; i < 180; i++) strcat(text, "q5 ");
    graft_cond *a = encode(c, "", "", text, "a"), *b = encode(c, "", "", "a", text);
    graft_cond *both = encode(c, "", "", text, text);
    CHECK(a->entry[0]->tokens > MOST && b->entry[0]->tokens > MOST);
    CHECK(both->entry[0]->tokens == a->entry[0]->tokens ||
          both->entry[0]->tokens == b->entry[0]->tokens);
    CHECK(!same_columns(a, NULL, WIDE_T5, WIDE_LLAMA) && !same_columns(b, NULL, 0, WIDE_T5));
    graft_cond_release(a);
    graft_cond_release(b);
    graft_cond_release(both);
    graft_clip_release(c);
}

/* Whichever are there; the others' places are zeros of the published widths. */
static void some_alone(void)
{
    static const char *const path[] = {L, G, T5, LLAMA};
    for (size_t i = 0; i < 4; i++) {
        graft_clip *c = files(path + i, 1);
        graft_cond *a = encoded(c, "the apple");
        const graft_cond_entry *x = a->entry[0];
        const int64_t t5 = i == 2 ? WIDE_T5 : 4096, llama = i == 3 ? WIDE_LLAMA : 32 * 4096;
        CHECK(x->tokens == MOST && x->width == t5 + llama);
        CHECK_INT(x->pooled_width, (i == 0 ? WIDE_L : 768) + (i == 1 ? WIDE_G : 1280));
        CHECK(same_columns(a, NULL, 0, t5) == (i != 2));
        CHECK(same_columns(a, NULL, t5, llama) == (i != 3));
        CHECK(same_pooled(a, NULL, 0, i == 0 ? WIDE_L : 768) == (i != 0));
        CHECK(same_pooled(a, NULL, 768, x->pooled_width - 768) == (i != 1) || i == 0);
        graft_cond_release(a);
        graft_clip_release(c);
    }
}

/* ------------------------------------------------------------------ long CLIP */

/* CLIP-L with so many positions, of which those behind the usual 77 are new. */
static graft_clip *with_positions(int64_t positions, float more)
{
    static const char table[] = "text_encoders.clip_l.transformer.text_model.embeddings."
                                "position_embedding.weight";
    const char *path = temp_path("long.safetensors");
    made_file *f = part_of_file(L, "");
    float *rows = malloc((size_t)(positions * WIDE_L) * sizeof *rows);
    const float *own = (const float *)made_find(f, table)->data;
    for (int64_t i = 0; i < positions * WIDE_L; i++)
        rows[i] = i < 77 * WIDE_L ? own[i] : more * (float)(i % 7 - 3);
    drop_tensor(f, table);
    add_tensor(f, table, 2, (int64_t[]){positions, WIDE_L}, rows, 0);
    free(rows);
    write_file(f, path, "{\"text\": {\"heads\": 2}}");
    graft_clip *c = files((const char *const[]){path}, 1);
    unlink(path);
    return c;
}

static void pool(const graft_clip *c, const char *text, float out[WIDE_L])
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_clip_encode_pooled(c, 0, text, NULL, out, &e), &e);
}

/* As long as it has positions it sees a prompt as one; a shorter one is as with the usual 77. */
static void more_positions(void)
{
    char longer[600] = "", longest[1200] = "", cut[600] = "";
    float a[WIDE_L], b[WIDE_L];
    graft_clip *usual = with_positions(77, 0), *more = with_positions(100, 0.3f);
    graft_clip *other = with_positions(100, 0.4f);
    for (int i = 0; i < 45; i++) strcat(longer, "q5 "), strcat(cut, "q5 ");
    for (int i = 0; i < 90; i++) strcat(longest, "q5 ");
    strcat(longer, "a cat");
    pool(usual, "a red apple", a);
    pool(more, "a red apple", b);
    CHECK(difference(a, b, WIDE_L) < 1e-6);
    pool(more, longer, a); /* 92 tokens */
    pool(more, cut, b);
    CHECK(difference(a, b, WIDE_L) > 1e-4);
    pool(other, longer, b);
    CHECK(difference(a, b, WIDE_L) > 1e-4);
    pool(usual, longer, a); /* whose first 75 are alike */
    pool(usual, cut, b);
    CHECK(difference(a, b, WIDE_L) == 0);
    pool(more, longest, a); /* more than it has room for */
    strcat(longest, "a cat");
    pool(more, longest, b);
    CHECK(difference(a, b, WIDE_L) == 0);
    graft_clip_release(usual);
    graft_clip_release(more);
    graft_clip_release(other);
}

/* ------------------------------------------------------------------ networks */

/* What it says is what the network reads; another's encoders are told apart. */
static void for_its_network(void)
{
    static const char net[] = MODELS "/../diffusion_models/tiny-hidream.safetensors";
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, net);
    graft_clip *c = all_four(), *other = files((const char *const[]){T5, LLAMA}, 2);
    graft_cond *a = encoded(c, "the apple"), *out = NULL;
    CHECK(m && m->arch.context_dim == a->entry[0]->width);
    CHECK(m && m->arch.adm_channels == a->entry[0]->pooled_width);
    CHECK_INT(graft_clip_encode_sd3(c, "", "", "", NULL, &out, &e), GRAFT_E_ARG);
    CHECK(!out && strstr(e.text, "not those of SD 3"));
    graft_clip_release(other);
    graft_cond_release(a);
    graft_clip_release(c);
    graft_model_release(m);
}

/* No allocation that fails is lost. */
static void memory_runs_out(void)
{
    graft_clip *c = all_four();
    graft_alloc_stats before, after;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *out = encoded(c, "the (apple:1.2)");
    graft_cond_release(out);
    graft_alloc_stats_get(&before);
    graft_status st = GRAFT_E_NOMEM;
    int64_t at = 0;
    while (st == GRAFT_E_NOMEM) {
        out = NULL;
        graft_alloc_fail_at(++at);
        st = graft_clip_encode(c, "the (apple:1.2)", NULL, &out, &e);
        graft_alloc_fail_at(0);
    }
    CHECK_OK(st, &e);
    CHECK(at > 20);
    graft_cond_release(out);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(what_it_is);
    RUN(refused_files);
    RUN(no_mistral);
    RUN(tokenizers);
    RUN(columns);
    RUN(texts_of_their_own);
    RUN(weights);
    RUN(long_prompts);
    RUN(some_alone);
    RUN(more_positions);
    RUN(for_its_network);
    RUN(memory_runs_out);
    graft_engine_destroy(engine);
    return test_end();
}
