/* T5 as a text encoder: its files, and prompts. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/models/detect/detect.h"
#include "engine/prompts/t5.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unigram_file.h"

/* ------------------------------------------------------------------ loading */

/* A tokenizer, and its file. */
typedef struct loading {
    const graft_spiece_wanted *wanted;
    graft_unigram **out;
    graft_st_tensor *model;
} loading;

/* Takes the tokenizer's n bytes, whose name is `from`. */
static graft_status take_model(const loading *t, char *data, size_t n, const char *from,
                               graft_err *e)
{
    *t->model = (graft_st_tensor){.name = GRAFT_T5_TOKENIZER,
                                  .dtype = GRAFT_U8,
                                  .rank = 1,
                                  .shape = {(int64_t)n},
                                  .data = data,
                                  .bytes = n};
    graft_status st = graft_unigram_create(data, n, t->out, e);
    return st ? graft_err_prefix(e, st, "%s", from) : GRAFT_OK;
}

static graft_status from_file(const loading *t, const char *path, graft_err *e)
{
    char *data = NULL;
    size_t n = 0;
    graft_status st = graft_file_read(path, GRAFT_UNIGRAM_MAX_FILE, &data, &n, e);
    return st ? st : take_model(t, data, n, path, e);
}

/* The tokenizer's file in the folder that `path` is in. */
static graft_status beside(const loading *t, const char *path, graft_err *e)
{
    char *name = graft_path_beside(path, t->wanted->file);
    graft_status st = name ? from_file(t, name, e) : graft_fail_nomem(e, "a file's name");
    graft_free(name);
    return st;
}

static graft_status known(const loading *t, const graft_task *task, graft_err *e)
{
    char *path = NULL;
    if (!task || !task->text_file) return graft_fail(e, GRAFT_E_NOTFOUND, "no tokenizer");
    graft_status st = task->text_file(task->ctx, t->wanted->file, &path, e);
    if (!st) st = from_file(t, path, e);
    graft_free(path);
    return st;
}

static const graft_st_tensor *tokenizer_in(const graft_safetensors *f, const char *place)
{
    const char *const prefix[] = {place, "text_encoders.", ""};
    const graft_st_tensor *t = NULL;
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix && !t; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s" GRAFT_T5_TOKENIZER, prefix[i]);
        t = graft_safetensors_find(f, name);
    }
    return t && t->bytes && graft_dtype_size(t->dtype) == 1 ? t : NULL;
}

graft_status graft_t5_tokenizer_load(const graft_safetensors *f, const char *place,
                                     const graft_spiece_wanted *wanted, const graft_task *task,
                                     graft_unigram **out, graft_st_tensor *model, graft_err *e)
{
    const loading t = {wanted, out, model};
    const graft_st_tensor *in = tokenizer_in(f, place);
    if (in) {
        char *data = graft_malloc((size_t)in->bytes);
        if (!data) return graft_fail_nomem(e, "a tokenizer");
        memcpy(data, in->data, (size_t)in->bytes);
        graft_status st = take_model(&t, data, (size_t)in->bytes, GRAFT_T5_TOKENIZER, e);
        return st ? graft_err_prefix(e, st, "%s", graft_safetensors_path(f)) : GRAFT_OK;
    }
    graft_status st = beside(&t, graft_safetensors_path(f), e);
    if (st == GRAFT_E_NOTFOUND) st = known(&t, task, e);
    if (st != GRAFT_E_NOTFOUND) return st;
    return graft_fail(e, GRAFT_E_NOTFOUND,
                      "%s: %s tokenizer: put %s of %s beside it or into models/text_encoders",
                      graft_safetensors_path(f), wanted->what, wanted->file, wanted->of);
}

static graft_status check_weights(const graft_t5 *t, graft_err *e)
{
    graft_graph *g = NULL;
    const graft_t5_shape shape = {.batch = 1, .tokens = 1, .act_dtype = GRAFT_F32};
    graft_status st = graft_t5_build(&t->arch, &shape, &g, e);
    if (!st) st = graft_weights_check(t->weights, g, e);
    graft_graph_destroy(g);
    return st;
}

/* A file that is called as Pile-T5's may be of another model that lies in the same folder: Gemma's,
 * which has more tokens. */
static graft_status find_tokenizer(graft_t5 *t, const graft_safetensors *f, const char *place,
                                   const graft_task *task, graft_err *e)
{
    static const graft_spiece_wanted pile = {"tokenizer.model", "Pile-T5 without its", "Pile-T5"};
    const bool own = t->arch.own_bias;
    const graft_spiece_wanted *wanted = own ? &pile : GRAFT_T5_SPIECE("T5 without its");
    graft_status st = graft_t5_tokenizer_load(f, place, wanted, task, &t->tokenizer, &t->model, e);
    if (st) return st;
    const int32_t count = graft_unigram_tokens_of(t->tokenizer).count;
    if (count <= t->arch.vocab) return GRAFT_OK;
    return graft_fail(e, own ? GRAFT_E_NOTFOUND : GRAFT_E_FORMAT,
                      "%s: its table has %d tokens, fewer than the %d of its tokenizer%s",
                      graft_safetensors_path(f), t->arch.vocab, count,
                      own ? ": put tokenizer.model of Pile-T5 beside it" : "");
}

graft_status graft_t5_load(graft_weights *file, const char *place, const graft_task *task,
                           graft_t5 **out, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    graft_t5 *t = graft_calloc(1, sizeof *t);
    graft_status st = GRAFT_OK;
    if (!t) return graft_fail_nomem(e, "text encoder");
    atomic_init(&t->refs, 1);
    GRAFT_TRY(graft_t5_detect(f, place, &t->arch, e));
    GRAFT_TRY(graft_weights_part(file, place, &t->weights, e));
    GRAFT_TRY(check_weights(t, e));
    GRAFT_TRY(find_tokenizer(t, f, place, task, e));
    *out = t;
    t = NULL;
out:
    graft_t5_release(t);
    return st;
}

graft_status graft_t5_with_weights(graft_t5 *t, graft_weights *weights, graft_t5 **out,
                                   graft_err *e)
{
    graft_t5 *r = graft_calloc(1, sizeof *r);
    *out = r;
    if (!r) return graft_fail_nomem(e, "text encoder");
    atomic_init(&r->refs, 1);
    r->arch = t->arch;
    r->weights = graft_weights_retain(weights);
    r->tokenizer = t->tokenizer;
    r->model = t->model;
    r->of = graft_t5_retain(t->of ? t->of : t);
    return GRAFT_OK;
}

graft_t5 *graft_t5_retain(graft_t5 *t)
{
    if (t) atomic_fetch_add(&t->refs, 1);
    return t;
}

void graft_t5_release(graft_t5 *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1) return;
    graft_weights_release(t->weights);
    if (!t->of) {
        graft_unigram_destroy(t->tokenizer);
        graft_free((void *)(uintptr_t)t->model.data);
    }
    graft_t5_release(t->of);
    graft_free(t);
}

/* ------------------------------------------------------------------ prompts */

static graft_status add(graft_t5_words *w, int32_t id, double weight, graft_err *e)
{
    if (graft_grow(&w->id, &w->cap_id, w->n + 1, sizeof *w->id) ||
        graft_grow(&w->weight, &w->cap_weight, w->n + 1, sizeof *w->weight))
        return graft_fail_nomem(e, "a prompt");
    w->id[w->n] = id;
    w->weight[w->n++] = (float)weight;
    w->weighted = w->weighted || weight != 1.0;
    return GRAFT_OK;
}

static graft_status add_segment(void *ctx, const char *text, size_t n, double weight, graft_err *e)
{
    graft_t5_words *w = ctx;
    int32_t *id = NULL;
    size_t count = 0;
    graft_status st = graft_unigram_encode(w->tokenizer, text, n, &id, &count, e);
    for (size_t i = 0; i < count && !st; i++) st = add(w, id[i], weight, e);
    graft_free(id);
    return st;
}

/* What fills prompts up, and what ends them. */
static int32_t padding_of(const graft_unigram *t)
{
    const int32_t pad = graft_unigram_tokens_of(t).pad;
    return pad < 0 ? 0 : pad;
}

static int32_t end_of(const graft_unigram *t)
{
    const int32_t end = graft_unigram_tokens_of(t).end;
    return end < 0 ? padding_of(t) : end;
}

graft_status graft_t5_words_add(graft_t5_words *w, const char *text, graft_err *e)
{
    graft_status st =
        w->begun ? add(w, graft_unigram_tokens_of(w->tokenizer).begin, 1, e) : GRAFT_OK;
    if (!st) st = graft_prompt_segments(text, add_segment, w, e);
    return st || w->begun ? st : add(w, end_of(w->tokenizer), 1, e);
}

void graft_t5_words_finish(graft_t5_words *w)
{
    graft_free(w->id);
    graft_free(w->weight);
}

/* Twice as long where the empty prompt stands behind them. */
static graft_status finish_prompt(graft_t5_words *w, graft_t5_padding padding, graft_err *e)
{
    const int32_t pad = padding_of(w->tokenizer), end = end_of(w->tokenizer);
    const size_t least = w->n + padding.more > padding.least ? w->n + padding.more : padding.least;
    graft_status st = GRAFT_OK;
    while (!st && w->n < least) st = add(w, pad, 1, e);
    size_t tokens = w->n;
    for (size_t i = 0; i < tokens && w->weighted && !st; i++) st = add(w, i ? pad : end, 1, e);
    if (!st) w->n = tokens;
    return st;
}

void graft_t5_words_weigh(const graft_t5_words *w, size_t i, const float *empty, size_t width,
                          float *h)
{
    const float weight = w->weight[i];
    for (size_t k = 0; weight != 1.0f && k < width; k++)
        h[k] = (h[k] - empty[k]) * weight + empty[k];
}

/* Away from what the empty prompt has in the same place, which is behind all of them. */
static void apply_weights(const graft_t5_words *w, size_t width, float *hidden)
{
    const float *empty = hidden + w->n * width;
    for (size_t i = 0; i < w->n; i++)
        graft_t5_words_weigh(w, i, empty + i * width, width, hidden + i * width);
}

graft_status graft_t5_encode(graft_engine *engine, const graft_build_options *options,
                             const graft_t5 *t, const char *text, graft_t5_padding padding,
                             const graft_task *task, float **hidden, int64_t *tokens, graft_err *e)
{
    graft_t5_words w = {.tokenizer = t->tokenizer};
    size_t width = (size_t)t->arch.width;
    float *out = NULL;
    graft_status st = graft_t5_words_add(&w, text, e);
    if (!st) st = finish_prompt(&w, padding, e);
    if (!st && !(out = graft_malloc_array((w.weighted ? 2 : 1) * w.n, width * sizeof *out)))
        st = graft_fail_nomem(e, "text encoder");
    if (!st)
        st = graft_t5_run(engine, options, &t->arch, t->weights, w.id, w.weighted ? 2 : 1,
                          (int64_t)w.n, task, out, e);
    if (!st && w.weighted) apply_weights(&w, width, out);
    graft_t5_words_finish(&w);
    if (st) {
        graft_free(out);
        return st;
    }
    *hidden = out;
    *tokens = (int64_t)w.n;
    return GRAFT_OK;
}

/* *hidden (tokens, width) of n ids, and padding behind them. */
static graft_status run_padded(graft_engine *engine, const graft_build_options *options,
                               const graft_t5 *t, const int32_t *id, size_t n, size_t tokens,
                               const graft_task *task, float **hidden, graft_err *e)
{
    int32_t *all = graft_malloc_array(tokens, sizeof *all);
    float *out = graft_malloc_array(tokens, (size_t)t->arch.width * sizeof *out);
    graft_status st = all && out ? GRAFT_OK : graft_fail_nomem(e, "text encoder");
    for (size_t i = 0; i < tokens && !st; i++) all[i] = i < n ? id[i] : padding_of(t->tokenizer);
    if (!st)
        st = graft_t5_run_masked(engine, options, &t->arch, t->weights, all, (int64_t)n,
                                 (int64_t)tokens, task, out, e);
    graft_free(all);
    if (st)
        graft_free(out);
    else
        *hidden = out;
    return st;
}

graft_status graft_t5_encode_masked(graft_engine *engine, const graft_build_options *options,
                                    const graft_t5 *t, const graft_t5_words *w, size_t tokens,
                                    const graft_task *task, float **hidden, graft_err *e)
{
    const size_t width = (size_t)t->arch.width;
    float *empty = NULL;
    graft_status st = run_padded(engine, options, t, w->id, w->n, tokens, task, hidden, e);
    if (st || !w->weighted) return st;
    st = run_padded(engine, options, t, &w->id[w->n - 1], 1, tokens, task, &empty, e);
    for (size_t i = 0; i < w->n && !st; i++)
        graft_t5_words_weigh(w, i, empty + i * width, width, *hidden + i * width);
    graft_free(empty);
    if (!st) return GRAFT_OK;
    graft_free(*hidden);
    *hidden = NULL;
    return st;
}
