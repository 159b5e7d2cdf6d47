/* Qwen 3, Qwen 2.5 and their relatives as text encoders: their files, and prompts. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "engine/models/detect/detect.h"
#include "engine/models/encoders/qwen3_vision.h"
#include "engine/models/encoders/qwen_vision.h"
#include "engine/models/transformers/flux2.h"
#include "engine/prompts/gemma2.h"
#include "engine/prompts/llama.h"
#include "engine/prompts/mistral.h"
#include "engine/prompts/qwen3.h"
#include "engine/prompts/t5.h"
#include "engine/text/tokenizer.h"

#define BEFORE GRAFT_QWEN_BEFORE
#define BEHIND GRAFT_QWEN_BEHIND
/* What Qwen-Image and Krea 2 were trained with in front of a prompt. */
#define DESCRIBE                                                                                   \
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, "        \
    "quantity, text, spatial relationships of the objects and background:<|im_end|>\n" BEFORE
#define PADDING "<|endoftext|>"

/* ------------------------------------------------------------------ the tokenizer */

/* The text of a file in the folder that `path` is in. GRAFT_E_NOTFOUND: there is none. */
static graft_status read_beside(const char *path, const char *name, graft_str *full, char **text,
                                size_t *n, graft_err *e)
{
    const char *slash = strrchr(path, '/');
    graft_str_finish(full);
    graft_str_printf(full, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
    if (full->failed) return graft_fail_nomem(e, "a file's name");
    return graft_file_read(full->data, GRAFT_QWEN_MAX_FILE, text, n, e);
}

static graft_status from_lists(const char *path, graft_str *full, graft_qwen **out, graft_err *e)
{
    char *merges = NULL, *vocab = NULL;
    size_t n, n_vocab;
    graft_qwen *q = NULL;
    graft_status st;
    GRAFT_TRY(read_beside(path, "vocab.json", full, &vocab, &n_vocab, e));
    GRAFT_TRY(read_beside(path, "merges.txt", full, &merges, &n, e));
    st = graft_qwen_create(merges, n, &q, e);
    if (st) {
        graft_err_prefix(e, st, "%s", full->data);
        goto out;
    }
    GRAFT_TRY(graft_qwen_check(q, vocab, n_vocab, "vocab.json", e));
    *out = q;
    q = NULL;
out:
    graft_qwen_destroy(q);
    graft_free(merges);
    graft_free(vocab);
    return st;
}

static graft_status beside(const char *path, graft_qwen **out, graft_err *e)
{
    graft_str full = GRAFT_STR_INIT;
    char *text = NULL;
    size_t n;
    graft_status st = read_beside(path, "tokenizer.json", &full, &text, &n, e);
    if (!st) st = graft_qwen_create_json(text, n, full.data, out, e);
    if (st == GRAFT_E_NOTFOUND) st = from_lists(path, &full, out, e);
    graft_free(text);
    graft_str_finish(&full);
    return st;
}

const graft_st_tensor *graft_qwen3_tokenizer_in(const graft_safetensors *f, const char *place,
                                                const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", place, name);
    const graft_st_tensor *t = graft_safetensors_find(f, full);
    if (!t) t = graft_safetensors_find(f, name);
    return t && t->bytes && graft_dtype_size(t->dtype) == 1 ? t : NULL;
}

static graft_status load_tokenizer(graft_engine *engine, graft_qwen3 *q, const graft_safetensors *f,
                                   const char *place, const graft_task *task, graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    const graft_st_tensor *in = graft_qwen3_tokenizer_in(f, place, GRAFT_QWEN_TOKENIZER);
    graft_status st;
    if (in) {
        st = graft_qwen_create(in->data, (size_t)in->bytes, &q->tokenizer, e);
        return st ? graft_err_prefix(e, st, "%s: its tokenizer", path) : GRAFT_OK;
    }
    st = beside(path, &q->tokenizer, e);
    if (st == GRAFT_OK || st == GRAFT_E_NOMEM) return st;
    if (st != GRAFT_E_NOTFOUND)
        graft_log_printf(task ? &task->log : &engine->log, GRAFT_LOG_WARN,
                         "a tokenizer beside %s is left out: %s", path, e->text);
    st = graft_qwen_create_own(&q->tokenizer, e);
    if (st != GRAFT_E_NOTFOUND) return st;
    return graft_fail(e, GRAFT_E_NOTFOUND,
                      "%s: %s without its tokenizer, which this build could not fetch: put "
                      "tokenizer.json of %s beside it",
                      path, graft_qwen3_family(&q->arch), graft_qwen3_family(&q->arch));
}

/* ------------------------------------------------------------------ loading */

static graft_status build_sight(const graft_qwen3 *q, graft_graph **out, graft_err *e)
{
    const graft_qwen_vision_shape one = {.rows = 1, .columns = 1, .act_dtype = GRAFT_F32};
    const graft_qwen3_vision_shape one3 = {.rows = 1, .columns = 1, .act_dtype = GRAFT_F32};
    return q->arch.biased ? graft_qwen_vision_build(&q->vision, &one, out, e)
                          : graft_qwen3_vision_build(&q->vision3, &one3, out, e);
}

static graft_status check_sight(const graft_qwen3 *q, const graft_safetensors *f, graft_err *e)
{
    const int32_t given = q->arch.biased ? q->vision.out : q->vision3.out;
    graft_graph *g = NULL;
    if (given != q->arch.width)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: what looks at pictures gives %d numbers a token, and the language "
                          "model has %d",
                          graft_safetensors_path(f), given, q->arch.width);
    graft_status st = build_sight(q, &g, e);
    if (!st) st = graft_weights_check(q->sight, g, e);
    graft_graph_destroy(g);
    return st;
}

/* Below "visual.", or where transformers calls the language model model.language_model, below
 * "model.visual.". */
static graft_status load_sight(graft_qwen3 *q, graft_weights *file, const char *place, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    char prefix[128], first[160];
    snprintf(prefix, sizeof prefix, "%svisual.",
             strcmp(place, "model.language_") == 0 ? "model." : place);
    snprintf(first, sizeof first, "%s" GRAFT_QWEN_VISION_TENSOR, prefix);
    if (!graft_safetensors_find(f, first)) return GRAFT_OK;
    graft_status st = q->arch.biased ? graft_qwen_vision_detect(f, prefix, &q->vision, &q->blind)
                                     : graft_qwen3_vision_detect(f, prefix, &q->vision3, &q->blind);
    if (!st) st = graft_weights_part(file, prefix, &q->sight, &q->blind);
    if (!st) st = check_sight(q, f, &q->blind);
    if (!st) return GRAFT_OK;
    graft_weights_release(q->sight);
    q->sight = NULL;
    return st == GRAFT_E_NOMEM ? graft_fail_nomem(e, "text encoder") : GRAFT_OK;
}

/* Its tokenizer, which has no more tokens than its table, and what looks at pictures. */
static graft_status load_beside(graft_engine *engine, graft_qwen3 *q, graft_weights *file,
                                const char *place, const graft_task *task, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    if (q->arch.llama) return graft_llama_load_tokenizer(q, f, place, task, e);
    if (q->arch.mistral) return graft_mistral_load_tokenizer(q, f, place, e);
    if (q->arch.gemma) return graft_gemma2_load_tokenizer(q, f, place, task, e);
    graft_status st = load_sight(q, file, place, e);
    if (!st) st = load_tokenizer(engine, q, f, place, task, e);
    if (!st && graft_qwen_tokens(q->tokenizer) > q->arch.vocab)
        return graft_fail(
            e, GRAFT_E_FORMAT, "%s: its table has %d tokens, fewer than the %d of its tokenizer",
            graft_safetensors_path(f), q->arch.vocab, graft_qwen_tokens(q->tokenizer));
    return st;
}

graft_status graft_qwen3_load(graft_engine *engine, graft_weights *file, const char *place,
                              const graft_task *task, graft_qwen3 **out, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    graft_qwen3 *q = graft_calloc(1, sizeof *q);
    graft_status st = GRAFT_OK;
    if (!q) return graft_fail_nomem(e, "text encoder");
    atomic_init(&q->refs, 1);
    GRAFT_TRY(graft_qwen3_detect(f, place, &q->arch, e));
    GRAFT_TRY(graft_weights_part(file, place, &q->weights, e));
    if (!graft_qwen3_is_led(&q->arch))
        GRAFT_TRY(graft_qwen3_check(q,
                                    q->arch.biased  ? GRAFT_QWEN3_TAKE_NORMED
                                    : q->arch.llama ? GRAFT_QWEN3_TAKE_EVERY
                                                    : GRAFT_QWEN3_TAKE_MOST,
                                    e));
    GRAFT_TRY(load_beside(engine, q, file, place, task, e));
    *out = q;
    q = NULL;
out:
    graft_qwen3_release(q);
    return st;
}

graft_status graft_qwen3_take_words(graft_qwen3 *q, const graft_safetensors *f, const char *place,
                                    const graft_task *task, graft_err *e)
{
    graft_status st = graft_qwen3_check(q, GRAFT_QWEN3_TAKE_NORMED, e);
    return st ? st
              : graft_t5_tokenizer_load(f, place,
                                        GRAFT_T5_SPIECE("Anima's text encoder without T5's"), task,
                                        &q->words, &q->words_file, e);
}

graft_qwen3 *graft_qwen3_retain(graft_qwen3 *q)
{
    if (q) atomic_fetch_add(&q->refs, 1);
    return q;
}

void graft_qwen3_release(graft_qwen3 *q)
{
    if (!q || atomic_fetch_sub(&q->refs, 1) != 1) return;
    graft_weights_release(q->weights);
    graft_weights_release(q->sight);
    graft_qwen_destroy(q->tokenizer);
    graft_tekken_destroy(q->tekken);
    graft_llama3_destroy(q->llama);
    graft_unigram_destroy(q->words);
    graft_free((void *)(uintptr_t)q->words_file.data);
    graft_free(q);
}

const char *graft_qwen3_name(const graft_qwen3 *q)
{
    if (q->arch.llama) return "llama";
    if (q->arch.mistral) return q->arch.ministral ? "ministral3_3b" : "mistral3_24b";
    if (q->arch.gemma) return "gemma2_2b";
    if (q->arch.biased) return q->arch.width == 2048 ? "qwen25_3b" : "qwen25_7b";
    return q->arch.width == 2048   ? "qwen3_2b"
           : q->arch.width == 2560 ? "qwen3_4b"
           : q->arch.width == 4096 ? "qwen3_8b"
           : q->words              ? "qwen3_06b"
                                   : "qwen3";
}

/* ------------------------------------------------------------------ prompts */

static graft_status tokens_of(const graft_qwen3 *q, const char *before, const char *text,
                              const char *answer, int32_t **ids, size_t *n, graft_err *e)
{
    graft_str all = GRAFT_STR_INIT;
    graft_str_puts(&all, before);
    graft_str_puts(&all, text);
    graft_str_puts(&all, BEHIND);
    graft_str_puts(&all, answer);
    graft_status st = all.failed ? graft_fail_nomem(e, "a prompt")
                                 : graft_qwen_encode(q->tokenizer, all.data, all.len, ids, n, e);
    graft_str_finish(&all);
    return st;
}

/* The same, and behind them padding: *words are the text's. */
static graft_status padded_tokens(const graft_qwen3 *q, const char *text, int32_t **ids,
                                  size_t *words, size_t *n, graft_err *e)
{
    int32_t *own = NULL, *padding = NULL, *all = NULL;
    size_t one = 0;
    graft_status st = tokens_of(q, BEFORE, text, GRAFT_QWEN_THOUGHTS, &own, words, e);
    if (!st) st = graft_qwen_encode(q->tokenizer, PADDING, strlen(PADDING), &padding, &one, e);
    *n = *words > GRAFT_FLUX2_TOKENS ? *words : GRAFT_FLUX2_TOKENS;
    if (!st && !(all = graft_malloc_array(*n, sizeof *all))) st = graft_fail_nomem(e, "a prompt");
    if (!st) {
        memcpy(all, own, *words * sizeof *all);
        for (size_t i = *words; i < *n; i++) all[i] = padding[0];
        *ids = all;
    }
    graft_free(own);
    graft_free(padding);
    return st;
}

/* What graft_qwen3_encode() gives, or graft_qwen3_encode_stacked(). */
static graft_status encode(graft_engine *engine, const graft_build_options *options,
                           const graft_qwen3 *q, const char *text, graft_qwen3_taken taken,
                           const graft_task *task, float **hidden, int64_t *tokens, graft_err *e)
{
    int32_t *ids = NULL;
    size_t n = 0;
    graft_status st = tokens_of(q, BEFORE, text, "", &ids, &n, e);
    if (!st)
        st = graft_qwen3_hidden(engine, options, q, taken, ids, n, NULL, 0, 0, task, hidden, tokens,
                                e);
    graft_free(ids);
    return st;
}

/* A wish, and a text behind it: what the model is asked, and what is taken of what it makes of it.
 * Tokens of the wish are left out. */
typedef struct wish {
    const char *text, *before; /* before: what begins the question */
    graft_qwen3_taken taken;
} wish;

static graft_status encode_behind(graft_engine *engine, const graft_build_options *options,
                                  const graft_qwen3 *q, const wish *w, const char *text,
                                  const graft_task *task, float **hidden, int64_t *tokens,
                                  graft_err *e)
{
    graft_str all = GRAFT_STR_INIT;
    int32_t *ids = NULL, *asked = NULL;
    size_t before = 0, n = 0;
    graft_status st = graft_qwen_encode(q->tokenizer, w->text, strlen(w->text), &asked, &before, e);
    graft_str_printf(&all, "%s%s", w->text, w->before);
    if (!st && all.failed) st = graft_fail_nomem(e, "a prompt");
    if (!st) st = tokens_of(q, all.data, text, "", &ids, &n, e);
    graft_str_finish(&all);
    if (!st)
        st = graft_qwen3_hidden(engine, options, q, w->taken, ids, n, NULL, 0, before, task, hidden,
                                tokens, e);
    graft_free(ids);
    graft_free(asked);
    return st;
}

graft_status graft_qwen3_encode_described(graft_engine *engine, const graft_build_options *options,
                                          const graft_qwen3 *q, const char *text,
                                          const graft_task *task, float **hidden, int64_t *tokens,
                                          graft_err *e)
{
    const wish w = {DESCRIBE, "", GRAFT_QWEN3_TAKE_NORMED};
    return encode_behind(engine, options, q, &w, text, task, hidden, tokens, e);
}

graft_status graft_qwen3_encode_layered(graft_engine *engine, const graft_build_options *options,
                                        const graft_qwen3 *q, const char *text,
                                        const graft_task *task, float **hidden, int64_t *tokens,
                                        graft_err *e)
{
    const wish w = {DESCRIBE, "", GRAFT_QWEN3_TAKE_LAYERED};
    return encode_behind(engine, options, q, &w, text, task, hidden, tokens, e);
}

graft_status graft_qwen3_encode_analyzed(graft_engine *engine, const graft_build_options *options,
                                         const graft_qwen3 *q, const char *text,
                                         const graft_task *task, float **hidden, int64_t *tokens,
                                         graft_err *e)
{
    const wish w = {GRAFT_QWEN_ANALYZE, BEFORE, GRAFT_QWEN3_TAKE_WHOLE};
    return encode_behind(engine, options, q, &w, *text ? text : " ", task, hidden, tokens, e);
}

graft_status graft_qwen3_encode_joined(graft_engine *engine, const graft_build_options *options,
                                       const graft_qwen3 *q, const char *text,
                                       const graft_task *task, float **hidden, int64_t *tokens,
                                       graft_err *e)
{
    const size_t width = (size_t)q->arch.width * graft_qwen3_times(GRAFT_QWEN3_TAKE_JOINED);
    int32_t *ids = NULL;
    float *out = NULL;
    size_t words = 0, n = 0;
    graft_status st = padded_tokens(q, text, &ids, &words, &n, e);
    if (!st && !(out = graft_malloc_array(n, width * sizeof *out)))
        st = graft_fail_nomem(e, "text encoder");
    if (!st)
        st = graft_qwen3_run_joined(engine, options, &q->arch, q->weights, ids, (int64_t)words,
                                    (int64_t)n, task, out, e);
    graft_free(ids);
    if (st) {
        graft_free(out);
        return st;
    }
    *hidden = out;
    *tokens = (int64_t)n;
    return GRAFT_OK;
}

graft_status graft_qwen3_encode_stacked(graft_engine *engine, const graft_build_options *options,
                                        const graft_qwen3 *q, const char *text,
                                        const graft_task *task, float **hidden, int64_t *tokens,
                                        graft_err *e)
{
    return encode(engine, options, q, text, GRAFT_QWEN3_TAKE_STACKED, task, hidden, tokens, e);
}

graft_status graft_qwen3_encode(graft_engine *engine, const graft_build_options *options,
                                const graft_qwen3 *q, const char *text, const graft_task *task,
                                float **hidden, int64_t *tokens, graft_err *e)
{
    return encode(engine, options, q, text, GRAFT_QWEN3_TAKE_MOST, task, hidden, tokens, e);
}

/* ------------------------------------------------------------------ Anima's */

typedef struct bare {
    const graft_qwen3 *q;
    int32_t *id;
    size_t n, cap;
} bare;

static graft_status add_segment(void *ctx, const char *text, size_t n, double weight, graft_err *e)
{
    bare *b = ctx;
    int32_t *id = NULL;
    size_t more = 0;
    (void)weight;
    graft_status st = graft_qwen_encode(b->q->tokenizer, text, n, &id, &more, e);
    if (!st && graft_grow(&b->id, &b->cap, b->n + more, sizeof *b->id))
        st = graft_fail_nomem(e, "a prompt");
    if (!st && more) memcpy(b->id + b->n, id, more * sizeof *id);
    if (!st) b->n += more;
    graft_free(id);
    return st;
}

graft_status graft_qwen3_encode_bare(graft_engine *engine, const graft_build_options *options,
                                     const graft_qwen3 *q, const char *text, const graft_task *task,
                                     float **hidden, int64_t *tokens, graft_err *e)
{
    bare b = {.q = q};
    graft_status st = graft_prompt_segments(text, add_segment, &b, e);
    if (!st && !b.n) st = add_segment(&b, PADDING, strlen(PADDING), 1, e);
    if (!st)
        st = graft_qwen3_hidden(engine, options, q, GRAFT_QWEN3_TAKE_NORMED, b.id, b.n, NULL, 0, 0,
                                task, hidden, tokens, e);
    graft_free(b.id);
    return st;
}
