/* Anima's text encoder: Qwen 3 reads the prompt as it stands, and the network is told of T5's words
 * beside it, which T5 itself does not read (models/encoders/anima_adapter.h). */
#include "base/alloc.h"
#include "engine/models/encoders/anima_adapter.h"
#include "engine/prompts/qwen3.h"
#include "engine/prompts/t5.h"

static void note_cut(const graft_clip *c, size_t n, const graft_task *task)
{
    graft_log_printf(task ? &task->log : &c->engine->log, GRAFT_LOG_WARN,
                     "a prompt of %zu words: Anima is told of the first %d", n, GRAFT_ANIMA_WORDS);
}

/* Of a prompt that is too long the end stands behind the first words, as of others. */
static void put_words(const graft_t5_words *w, float *told)
{
    const size_t most = GRAFT_ANIMA_WORDS, n = w->n < most ? w->n : most;
    for (size_t i = 0; i < n; i++) {
        const size_t from = i + 1 < n ? i : w->n - 1;
        told[i] = (float)w->id[from];
        told[most + i] = w->weight[from];
    }
    told[2 * most] = (float)n;
}

graft_status graft_clip_encode_anima(const graft_clip *c, const char *text, const graft_task *task,
                                     graft_cond **out, graft_err *e)
{
    graft_t5_words w = {.tokenizer = c->qwen3->words};
    float *hidden = NULL, *told = graft_calloc(GRAFT_ANIMA_TOLD, sizeof *told);
    int64_t tokens = 0;
    graft_status st = told ? GRAFT_OK : graft_fail_nomem(e, "a prompt");
    if (!st) st = graft_t5_words_add(&w, text, e);
    if (!st)
        st = graft_qwen3_encode_bare(c->engine, &c->t5_options, c->qwen3, text, task, &hidden,
                                     &tokens, e);
    if (!st) put_words(&w, told);
    if (!st && w.n > GRAFT_ANIMA_WORDS) note_cut(c, w.n, task);
    graft_t5_words_finish(&w);
    if (st) {
        graft_free(told);
        return st;
    }
    st = graft_cond_create(tokens, c->qwen3->arch.width, hidden, GRAFT_ANIMA_TOLD, told, NULL, out,
                           e);
    if (!st) (*out)->entry[0]->worded = true;
    return st;
}
