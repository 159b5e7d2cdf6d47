/* AuraFlow's text encoder: Pile-T5, with LLaMA's tokenizer, and the prompts that it makes. What the
 * encoder computes is held against golden/small/umt5, what the tokenizer cuts against
 * golden/small/unigram/llama. */
#include <sys/stat.h>

#include "base/file.h"
#include "engine/models/transformers/auraflow.h"
#include "engine/prompts/t5.h"
#include "tests/engine/language.h"

#define UMT5  GRAFT_SOURCE_DIR "/golden/small/umt5.safetensors"
#define T5    GRAFT_SOURCE_DIR "/golden/small/t5.safetensors"
#define WORDS GRAFT_SOURCE_DIR "/golden/small/unigram/llama.model"
#define NET   GRAFT_SOURCE_DIR "/golden/small/auraflow_two.safetensors"
#define PLACE "text_encoders.pile_t5xl.transformer."

enum { WIDTH = 32, MOST = GRAFT_AURAFLOW_TOKENS };

static graft_engine *engine;

/* ------------------------------------------------------------------ files */

static void add_words(made_file *f, const char *place)
{
    char *data = NULL;
    size_t n = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(WORDS, 1 << 20, &data, &n, &e), &e);
    if (!data) abort();
    add_bytes(f, place, GRAFT_T5_TOKENIZER, data, n);
    graft_free(data);
}

/* An encoder below `place`, without a tokenizer. */
static made_file *wordless_at(const char *golden, const char *place)
{
    made_file *f = golden_file(golden);
    char name[200];
    for (size_t i = 0; i < f->n; i++) {
        snprintf(name, sizeof name, "%s%s", place, f->tensor[i].name);
        call_tensor(&f->tensor[i], name);
    }
    return f;
}

static made_file *pile_at(const char *place)
{
    made_file *f = wordless_at(UMT5, place);
    add_words(f, place);
    return f;
}

static graft_clip *pile(void)
{
    return clip_as(engine, pile_at(""), "sd3");
}

/* ------------------------------------------------------------------ what it is */

/* Whatever it was asked for as, as in ComfyUI. */
static void types(void)
{
    static const char *const type[] = {"stable_diffusion", "sd3", "chroma"};
    graft_clip *c = pile();
    CHECK(c->kind == GRAFT_CLIP_AURAFLOW && c->t5->arch.own_bias && c->width == WIDTH);
    CHECK(c->t5->arch.layers == 2 && c->t5->arch.heads == 4 && !c->n_encoders && !c->qwen3);
    CHECK_STR(graft_clip_encoder_name(c, 0), "pile_t5xl");
    for (size_t i = 0; i < sizeof type / sizeof *type; i++)
        found_in(engine, pile_at(""), type[i], c);
    found_in(engine, pile_at(PLACE), "sd3", c);
    clip_refused(engine, pile_at(""), "lumina2", GRAFT_E_UNSUPPORTED, "a T5 text encoder");
    graft_clip_release(c);
}

/* FLUX wants two files, of which none is this one. */
static void in_a_pair(void)
{
    const char *path[2] = {temp_path("pile.safetensors"), temp_path("again.safetensors")};
    graft_err e = GRAFT_ERR_INIT;
    graft_clip *c = NULL;
    for (int i = 0; i < 2; i++) write_file(pile_at(""), path[i], NULL);
    CHECK_INT(graft_clip_load(engine, path, 2, "flux", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!c && strstr(e.text, "a UMT5") && strstr(e.text, "only AuraFlow reads one"));
    CHECK_INT(graft_clip_load(engine, path, 2, "sd3", NULL, &c, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!c && strstr(e.text, "a UMT5"));
    for (int i = 0; i < 2; i++) unlink(path[i]);
}

/* UMT5-XXL, which others read, is wider. */
static void too_wide(void)
{
    made_file *f = calloc(1, sizeof *f);
    char name[100];
    add_tensor(f, "shared.weight", 2, (int64_t[]){4, 2056}, NULL, 1);
    add_tensor(f, "encoder.block.0.layer.1.DenseReluDense.wi_0.weight", 2, (int64_t[]){8, 2056},
               NULL, 1);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "encoder.block.%d.layer.0.SelfAttention.q.weight", i);
        add_tensor(f, name, 2, (int64_t[]){8, 2056}, NULL, 1);
        snprintf(name, sizeof name,
                 "encoder.block.%d.layer.0.SelfAttention.relative_attention_bias.weight", i);
        add_tensor(f, name, 2, (int64_t[]){32, 1}, NULL, 1);
    }
    clip_refused(engine, f, "sd3", GRAFT_E_UNSUPPORTED, "2056 numbers wide: only AuraFlow reads");
}

/* ------------------------------------------------------------------ tokenizers */

static void tokenizers(void)
{
    char folder[500], path[600], words[600], *data = NULL;
    graft_clip *c = pile(), *other = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t n = 0;
    snprintf(folder, sizeof folder, "%s.d", temp_path("pile"));
    snprintf(path, sizeof path, "%s/encoder.safetensors", folder);
    snprintf(words, sizeof words, "%s/tokenizer.model", folder);
    CHECK(!mkdir(folder, 0700));
    clip_refused(engine, wordless_at(UMT5, ""), "sd3", GRAFT_E_NOTFOUND,
                 "Pile-T5 without its tokenizer: put tokenizer.model of Pile-T5 beside it");
    write_file(wordless_at(UMT5, ""), path, NULL);
    CHECK_OK(graft_file_read(WORDS, 1 << 20, &data, &n, &e), &e);
    CHECK_OK(graft_file_write(words, data, n, &e), &e);
    CHECK_OK(graft_clip_load(engine, (const char *const[]){path}, 1, "sd3", NULL, &other, &e), &e);
    if (other) CHECK(encode_alike(c, other, "the red apple"));
    graft_clip_release(other);
    made_file *small = pile_at("");
    drop_tensor(small, "shared.weight");
    add_tensor(small, "shared.weight", 2, (int64_t[]){499, WIDTH}, NULL, 1);
    clip_refused(engine, small, "sd3", GRAFT_E_NOTFOUND,
                 "499 tokens, fewer than the 500 of its tokenizer: put tokenizer.model of Pile-T5");
    unlink(path);
    unlink(words);
    rmdir(folder);
    graft_free(data);
    graft_clip_release(c);
}

/* ------------------------------------------------------------------ prompts */

/* What the encoder makes of a text, or of its n-th token alone, counted from the end: 1 is the end.
 */
static size_t encoded_alone(const graft_clip *c, const char *text, bool end, float *out)
{
    const graft_build_options o = {.no_disk = true};
    graft_t5_words w = {.tokenizer = c->t5->tokenizer};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_t5_words_add(&w, text, &e), &e);
    const size_t n = end ? 1 : w.n;
    CHECK(w.n > 0 && w.id[w.n - 1] == 2);
    CHECK_OK(graft_t5_run(engine, &o, &c->t5->arch, c->t5->weights, w.id + w.n - n, 1, (int64_t)n,
                          NULL, out, &e),
             &e);
    graft_t5_words_finish(&w);
    return n;
}

static bool all_zeros(const float *v, size_t n)
{
    size_t i = 0;
    while (i < n && v[i] == 0) i++;
    return i == n;
}

/* The words and their end, and zeros, which the encoder has not seen. */
static void filled_up(void)
{
    static const char *const text[] = {"the red apple, 3d", "a", "", "\xe7\x8c\xab (a) 1234"};
    static float want[MOST * WIDTH];
    graft_clip *c = pile();
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        graft_cond *k = encoded(c, text[i]);
        const graft_cond_entry *p = k->entry[0];
        CHECK(p->tokens == MOST && p->width == WIDTH && !p->pooled);
        if (i == 3) { /* brackets make a weight */
            graft_cond_release(k);
            continue;
        }
        const size_t n = encoded_alone(c, text[i], false, want);
        CHECK(n < MOST && (text[i][0] || n == 1));
        CHECK(memcmp(p->data, want, n * WIDTH * sizeof *want) == 0);
        CHECK(all_zeros(p->data + n * WIDTH, (MOST - n) * WIDTH));
        graft_cond_release(k);
    }
    graft_clip_release(c);
}

/* Away from the empty prompt, of which all but the end is zeros. */
static void weighted(void)
{
    static float plain[MOST * WIDTH], empty[WIDTH];
    graft_clip *c = pile();
    const size_t n = encoded_alone(c, "red", false, plain);
    CHECK_INT(encoded_alone(c, "", true, empty), 1);
    graft_cond *k = encoded(c, "(red:1.5)");
    const float *got = k->entry[0]->data;
    double worst = 0, moved = 0;
    for (size_t i = 0; i < n * WIDTH; i++) {
        const double from = i < WIDTH ? empty[i] : 0, by = i < (n - 1) * WIDTH ? 1.5 : 1;
        worst = fmax(worst, fabs(got[i] - (from + (plain[i] - from) * by)));
        moved = fmax(moved, fabs(got[i] - plain[i]));
    }
    CHECK(n >= 2 && worst < 1e-5 && moved > 0.1);
    CHECK(all_zeros(got + n * WIDTH, (MOST - n) * WIDTH));
    graft_cond_release(k);
    graft_clip_release(c);
}

/* T5TokenizerOptions takes other numbers of zeros. */
static void options(void)
{
    graft_clip *c = pile(), *o = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *plain = encoded(c, "red");
    CHECK_OK(graft_clip_t5_options(c, 3, 0, &o, &e), &e);
    graft_cond *k = encoded(o, "red");
    const size_t n = (size_t)k->entry[0]->tokens;
    CHECK(n > 4 && n < 20);
    CHECK(memcmp(k->entry[0]->data, plain->entry[0]->data, n * WIDTH * sizeof(float)) == 0);
    CHECK(all_zeros(k->entry[0]->data + (n - 3) * WIDTH, 3 * WIDTH));
    CHECK(!all_zeros(k->entry[0]->data + (n - 4) * WIDTH, WIDTH));
    graft_cond_release(k);
    graft_clip_release(o);
    CHECK_OK(graft_clip_t5_options(c, 0, 300, &o, &e), &e);
    k = encoded(o, "red");
    CHECK_INT(k->entry[0]->tokens, 300);
    graft_cond_release(k);
    graft_cond_release(plain);
    graft_clip_release(o);
    graft_clip_release(c);
}

/* Longer prompts are as long as they are, up to what T5 reads. */
static void long_prompts(void)
{
    graft_clip *c = pile();
    graft_err e = GRAFT_ERR_INIT;
    char text[GRAFT_T5_MAX_TOKENS + 1];
    memset(text, '7',
           sizeof text); /* each digit is a token, and a space before them and their end */
    text[300] = 0;
    graft_cond *k = encoded(c, text);
    CHECK_INT(k->entry[0]->tokens, 302);
    CHECK(!all_zeros(k->entry[0]->data + 301 * WIDTH, WIDTH));
    graft_cond_release(k);
    k = NULL;
    text[300] = '7';
    text[GRAFT_T5_MAX_TOKENS] = 0;
    CHECK_INT(graft_clip_encode(c, text, NULL, &k, &e), GRAFT_E_LIMIT);
    CHECK(!k && strstr(e.text, "at most 1024 are read by T5"));
    graft_clip_release(c);
}

/* ------------------------------------------------------------------ checkpoints, memory */

static graft_status try_checkpoint(made_file *f, graft_model **m, graft_clip **out, graft_err *e)
{
    const char *path = temp_path("whole.safetensors");
    made_file *own = golden_file(NET);
    for (size_t i = 0; i < own->n; i++)
        add_tensor(f, own->tensor[i].name, own->tensor[i].rank, own->tensor[i].shape,
                   own->tensor[i].data, 0);
    finish_file(own);
    write_file(f, path, config_of(NET));
    graft_status st = graft_checkpoint_load(engine, path, NULL, m, out, NULL, e);
    unlink(path);
    return st;
}

/* Its network says what it is for; a tokenizer may be where ComfyUI keeps it. */
static void checkpoints(void)
{
    graft_clip *c = pile(), *other = NULL;
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *k = NULL;
    found_beside(engine, pile_at(PLACE), NET, c, GRAFT_NET_AURAFLOW);
    made_file *f = wordless_at(UMT5, PLACE);
    add_words(f, "text_encoders.");
    found_beside(engine, f, NET, c, GRAFT_NET_AURAFLOW);
    CHECK_INT(try_checkpoint(wordless_at(T5, PLACE), &m, &other, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!other && strstr(e.text, "a T5 whose layers share a bias; AuraFlow reads Pile-T5"));
    for (int with = 0; with < 2; with++) {
        f = with ? wordless_at(UMT5, PLACE) : calloc(1, sizeof *f);
        CHECK_OK(try_checkpoint(f, &m, &other, &e), &e);
        CHECK(m && m->arch.kind == GRAFT_NET_AURAFLOW);
        CHECK_INT(graft_clip_encode(other, "red", NULL, &k, &e),
                  with ? GRAFT_E_NOTFOUND : GRAFT_E_UNSUPPORTED);
        CHECK(!k && strstr(e.text, with ? "Pile-T5 without its tokenizer: put tokenizer.model"
                                        : "no Pile-T5 in it; CLIPLoader opens"));
        graft_model_release(m);
        graft_clip_release(other);
    }
    graft_clip_release(c);
}

static void no_memory(void)
{
    graft_clip *c = pile();
    encodes_short_of_memory(c, 9);
    graft_clip_release(c);
}

int main(void)
{
    engine = make_engine("cpu");
    if (!engine) return 1;
    RUN(types);
    RUN(in_a_pair);
    RUN(too_wide);
    RUN(tokenizers);
    RUN(filled_up);
    RUN(weighted);
    RUN(options);
    RUN(long_prompts);
    RUN(checkpoints);
    RUN(no_memory);
    graft_engine_destroy(engine);
    return test_end();
}
