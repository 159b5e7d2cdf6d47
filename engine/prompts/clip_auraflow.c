/* AuraFlow's text encoder: Pile-T5's tokens are all that the network reads. T5 sees the words and
 * their end; what fills a prompt up, which is masked in training, is zeros behind them, and those
 * the network sees. */
#include "base/alloc.h"
#include "engine/models/transformers/auraflow.h"
#include "engine/prompts/t5.h"

/* The empty prompt is an end, then zeros. */
static graft_status apply_weights(const graft_clip *c, const graft_t5_words *w,
                                  const graft_task *task, float *hidden, graft_err *e)
{
    const size_t width = (size_t)c->t5->arch.width;
    float *empty = graft_calloc(2 * width, sizeof *empty);
    if (!empty) return graft_fail_nomem(e, "text encoder");
    graft_status st = graft_t5_run(c->engine, &c->t5_options, &c->t5->arch, c->t5->weights,
                                   &w->id[w->n - 1], 1, 1, task, empty, e);
    for (size_t i = 0; i < w->n && !st; i++)
        graft_t5_words_weigh(w, i, empty + (i ? width : 0), width, hidden + i * width);
    graft_free(empty);
    return st;
}

graft_status graft_clip_encode_auraflow(const graft_clip *c, const char *text,
                                        const graft_task *task, graft_cond **out, graft_err *e)
{
    const graft_t5_padding padding = graft_clip_t5_padding(c, GRAFT_AURAFLOW_TOKENS);
    graft_t5_words w = {.tokenizer = c->t5->tokenizer};
    float *hidden = NULL;
    size_t tokens = 0;
    graft_status st = graft_t5_words_add(&w, text, e);
    if (!st) {
        tokens = w.n + padding.more > padding.least ? w.n + padding.more : padding.least;
        hidden = graft_calloc(tokens * (size_t)c->t5->arch.width, sizeof *hidden);
        if (!hidden) st = graft_fail_nomem(e, "text encoder");
    }
    if (!st)
        st = graft_t5_run(c->engine, &c->t5_options, &c->t5->arch, c->t5->weights, w.id, 1,
                          (int64_t)w.n, task, hidden, e);
    if (!st && w.weighted) st = apply_weights(c, &w, task, hidden, e);
    graft_t5_words_finish(&w);
    if (st) {
        graft_free(hidden);
        return st;
    }
    return graft_cond_create((int64_t)tokens, c->t5->arch.width, hidden, 0, NULL, NULL, out, e);
}
