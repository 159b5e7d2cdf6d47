/* Qwen 3, Qwen 2.5, Mistral, Llama 3.1 and Gemma 2: hidden states from tokens. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/models/detect/detect.h"
#include "engine/prompts/qwen3.h"
#include "tests/golden/golden.h"

/* The model of a file. */
typedef struct qwen3_file {
    const graft_safetensors *f;
    graft_qwen3_arch arch;
    graft_weights *weights;
    graft_build_options options;
} qwen3_file;

static void note(golden *g, int k, const char *what, double error)
{
    char name[64];
    snprintf(name, sizeof name, "qwen case%d %s", k, what);
    golden_note_model(g, name, error);
}

static graft_status hidden_case(golden *g, const qwen3_file *q, int k, graft_err *e)
{
    const graft_st_tensor *tokens = golden_case(q->f, k, "tokens");
    const bool normed = golden_case(q->f, k, "normed"), layered = golden_case(q->f, k, "layered");
    const bool whole = golden_case(q->f, k, "whole");
    const bool stacked = golden_case(q->f, k, "stacked");
    const char *what = normed    ? "normed"
                       : layered ? "layered"
                       : stacked ? "stacked"
                       : whole   ? "whole"
                                 : "hidden";
    const graft_qwen3_taken taken = normed    ? GRAFT_QWEN3_TAKE_NORMED
                                    : layered ? GRAFT_QWEN3_TAKE_LAYERED
                                    : stacked ? GRAFT_QWEN3_TAKE_STACKED
                                    : whole   ? GRAFT_QWEN3_TAKE_WHOLE
                                              : GRAFT_QWEN3_TAKE_MOST;
    const size_t width = (size_t)q->arch.width * graft_qwen3_times(taken);
    const graft_st_tensor *want = golden_case(q->f, k, what);
    if (!want || tokens->rank != 1 || golden_count(want) != golden_count(tokens) * width)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no hidden states", g->file, k);
    int32_t *ids = golden_tokens(tokens);
    float *hidden = graft_malloc_array(golden_count(want), sizeof *hidden);
    float *expected = golden_copy(want);
    graft_status st = GRAFT_OK;
    if (!ids || !hidden || !expected) {
        st = graft_fail_nomem(e, "Qwen 3's hidden states");
        goto out;
    }
    GRAFT_TRY(graft_qwen3_run(g->engine, &q->options, &q->arch, q->weights, taken, ids,
                              tokens->shape[0], NULL, hidden, e));
    note(g, k, what, golden_error(hidden, expected, golden_count(want)));
out:
    graft_free(ids);
    graft_free(hidden);
    graft_free(expected);
    return st;
}

/* Cells of several pictures one after the other; deep (times,each), own is space for as many. */
typedef struct all_cells {
    const float *seen, *deep;
    float *own;
    size_t each, width;
    int32_t times;
} all_cells;

/* With what goes deeper of each picture by itself. */
static void pictures_of(const all_cells *c, const int32_t *at, size_t n, graft_qwen3_picture *out)
{
    float *own = c->own;
    size_t first = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t values = (size_t)(at[3 * i + 1] * at[3 * i + 2]) * c->width;
        out[i] = (graft_qwen3_picture){at[3 * i],       at[3 * i + 1], at[3 * i + 2],
                                       c->seen + first, own,           c->times};
        for (int32_t k = 0; k < c->times; k++, own += values)
            memcpy(own, c->deep + (size_t)k * c->each + first, values * sizeof *own);
        first += values;
    }
}

/* As Qwen-Image-Edit reads it, or Qwen-Image 2.1: `pictures` (n,3) has the first token of each, its
 * rows and columns; `deep` (times,cells,width) what of all of them goes deeper into the model. */
static graft_status seen_case(golden *g, const qwen3_file *q, int k, graft_err *e)
{
    const graft_st_tensor *tokens = golden_case(q->f, k, "tokens");
    const graft_st_tensor *pictures = golden_case(q->f, k, "pictures");
    const graft_st_tensor *seen = golden_case(q->f, k, "seen"),
                          *deep = golden_case(q->f, k, "deep");
    const graft_st_tensor *want = golden_case(q->f, k, deep ? "whole" : "normed");
    graft_qwen3_picture picture[4] = {{0}};
    const size_t n = (size_t)pictures->shape[0], width = (size_t)q->arch.width;
    if (!want || !seen || n > sizeof picture / sizeof *picture || golden_count(pictures) != 3 * n ||
        golden_count(want) != golden_count(tokens) * width ||
        (deep && golden_count(deep) != (size_t)deep->shape[0] * golden_count(seen)))
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no pictures", g->file, k);
    int32_t *ids = golden_tokens(tokens), *at = golden_tokens(pictures);
    float *cells = golden_copy(seen), *expected = golden_copy(want);
    float *deeper = deep ? golden_copy(deep) : NULL;
    float *own = deep ? graft_malloc_array(golden_count(deep), sizeof *own) : NULL;
    float *hidden = graft_malloc_array(golden_count(want), sizeof *hidden);
    graft_status st = ids && at && cells && expected && hidden && (!deep || (deeper && own))
                          ? GRAFT_OK
                          : graft_fail_nomem(e, "hidden states with pictures");
    if (!st)
        pictures_of(&(all_cells){.seen = cells,
                                 .deep = deeper,
                                 .own = own,
                                 .each = golden_count(seen),
                                 .width = width,
                                 .times = deep ? (int32_t)deep->shape[0] : 0},
                    at, n, picture);
    if (!st)
        st = graft_qwen3_run_seen(g->engine, &q->options, &q->arch, q->weights,
                                  deep ? GRAFT_QWEN3_TAKE_WHOLE : GRAFT_QWEN3_TAKE_NORMED, ids,
                                  tokens->shape[0], picture, n, NULL, hidden, e);
    if (!st) note(g, k, "seen", golden_error(hidden, expected, golden_count(want)));
    graft_free(ids);
    graft_free(at);
    graft_free(cells);
    graft_free(deeper);
    graft_free(own);
    graft_free(expected);
    graft_free(hidden);
    return st;
}

/* As LongCat-Image reads it. */
static graft_status padded_case(golden *g, const qwen3_file *q, int k, graft_err *e)
{
    const graft_st_tensor *tokens = golden_case(q->f, k, "tokens");
    const graft_st_tensor *words = golden_case(q->f, k, "words");
    const graft_st_tensor *want = golden_case(q->f, k, "padded");
    if (tokens->rank != 1 || golden_count(words) != 1 ||
        golden_count(want) != golden_count(tokens) * (size_t)q->arch.width)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no padded states", g->file, k);
    int32_t *ids = golden_tokens(tokens), *n = golden_tokens(words);
    float *hidden = graft_malloc_array(golden_count(want), sizeof *hidden);
    float *expected = golden_copy(want);
    graft_status st =
        ids && n && hidden && expected ? GRAFT_OK : graft_fail_nomem(e, "Qwen's hidden states");
    const int64_t count = tokens->shape[0];
    if (!st)
        st = graft_qwen3_run_padded(g->engine, &q->options, &q->arch, q->weights, ids, *n, NULL, 0,
                                    ids[count - 1], count, NULL, hidden, e);
    if (!st) note(g, k, "padded", golden_error(hidden, expected, golden_count(want)));
    graft_free(ids);
    graft_free(n);
    graft_free(hidden);
    graft_free(expected);
    return st;
}

/* Of Gemma, the mark that texts begin with and a token of padding. */
static graft_status empty_case(golden *g, const qwen3_file *q, int k, graft_err *e)
{
    const graft_st_tensor *tokens = golden_case(q->f, k, "tokens");
    const graft_st_tensor *want = golden_case(q->f, k, "empty");
    if (golden_count(tokens) != 2 || golden_count(want) != 2 * (size_t)q->arch.width)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d is no empty prompt", g->file, k);
    int32_t *ids = golden_tokens(tokens);
    float *hidden = graft_malloc_array(golden_count(want), sizeof *hidden);
    float *expected = golden_copy(want);
    graft_status st = ids && hidden && expected ? GRAFT_OK : graft_fail_nomem(e, "hidden states");
    if (!st)
        st = graft_qwen3_run_empty(g->engine, &q->options, &q->arch, q->weights, ids, NULL, hidden,
                                   e);
    if (!st) note(g, k, "empty", golden_error(hidden, expected, golden_count(want)));
    graft_free(ids);
    graft_free(hidden);
    graft_free(expected);
    return st;
}

/* As HiDream-I1 reads it. */
static graft_status every_case(golden *g, const qwen3_file *q, int k, graft_err *e)
{
    const graft_st_tensor *tokens = golden_case(q->f, k, "tokens");
    const graft_st_tensor *words = golden_case(q->f, k, "words");
    const graft_st_tensor *want = golden_case(q->f, k, "every");
    const size_t width = (size_t)q->arch.width * (size_t)q->arch.layers;
    if (tokens->rank != 1 || golden_count(words) != 1 ||
        golden_count(want) != golden_count(tokens) * width)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no hidden states", g->file, k);
    int32_t *ids = golden_tokens(tokens), *n = golden_tokens(words);
    float *hidden = graft_malloc_array(golden_count(want), sizeof *hidden);
    float *expected = golden_copy(want);
    graft_status st =
        ids && n && hidden && expected ? GRAFT_OK : graft_fail_nomem(e, "Llama's hidden states");
    if (!st)
        st = graft_qwen3_run_every(g->engine, &q->options, &q->arch, q->weights, ids, *n,
                                   tokens->shape[0], NULL, hidden, e);
    if (!st) note(g, k, "every", golden_error(hidden, expected, golden_count(want)));
    graft_free(ids);
    graft_free(n);
    graft_free(hidden);
    graft_free(expected);
    return st;
}

/* As FLUX.2 reads it: `words` of the tokens are no padding, which stands behind them, or before
 * them (led). */
static graft_status joined_case(golden *g, const qwen3_file *q, int k, graft_err *e)
{
    const graft_st_tensor *tokens = golden_case(q->f, k, "tokens");
    const graft_st_tensor *words = golden_case(q->f, k, "words");
    const graft_st_tensor *led = golden_case(q->f, k, "led");
    const graft_st_tensor *want = led ? led : golden_case(q->f, k, "joined");
    const size_t width = (size_t)q->arch.width * GRAFT_QWEN3_JOINED;
    char name[64];
    if (!want || tokens->rank != 1 || golden_count(words) != 1 ||
        golden_count(want) != golden_count(tokens) * width)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: case %d has no joined states", g->file, k);
    int32_t *ids = golden_tokens(tokens), *n = golden_tokens(words);
    float *hidden = graft_malloc_array(golden_count(want), sizeof *hidden);
    float *expected = golden_copy(want);
    graft_status st =
        ids && n && hidden && expected ? GRAFT_OK : graft_fail_nomem(e, "Qwen 3's hidden states");
    const int64_t count = tokens->shape[0];
    if (!st && led)
        st = graft_qwen3_run_led(g->engine, &q->options, &q->arch, q->weights, ids + (count - *n),
                                 *n, ids[0], count, NULL, hidden, e);
    else if (!st)
        st = graft_qwen3_run_joined(g->engine, &q->options, &q->arch, q->weights, ids, *n, count,
                                    NULL, hidden, e);
    snprintf(name, sizeof name, "qwen3 case%d %s", k, led ? "led" : "joined");
    if (!st) golden_note_model(g, name, golden_error(hidden, expected, golden_count(want)));
    graft_free(ids);
    graft_free(n);
    graft_free(hidden);
    graft_free(expected);
    return st;
}

graft_status golden_qwen3(golden *g, graft_safetensors *f, graft_err *e)
{
    qwen3_file q = {.f = f};
    graft_status st = graft_weights_create(f, &q.weights, e);
    if (st) return st;
    golden_options(g, &q.options);
    GRAFT_TRY(graft_qwen3_detect(f, "", &q.arch, e));
    for (int k = 0; golden_case(f, k, "tokens"); k++)
        GRAFT_TRY((golden_case(f, k, "padded")     ? padded_case
                   : golden_case(f, k, "every")    ? every_case
                   : golden_case(f, k, "empty")    ? empty_case
                   : golden_case(f, k, "words")    ? joined_case
                   : golden_case(f, k, "pictures") ? seen_case
                                                   : hidden_case)(g, &q, k, e));
out:
    graft_weights_release(q.weights);
    return st;
}
