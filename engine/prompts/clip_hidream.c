/* HiDream-I1's text encoders: of each token what T5 gives, then what each of Llama's layers does,
 * and the pooled outputs of CLIP-L and CLIP-G. All are filled up to the same number of tokens,
 * which the network sees as they are; an encoder that is not there, or is not asked, leaves zeros.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/models/transformers/hidream.h"
#include "engine/prompts/clip_hooks.h"
#include "engine/prompts/llama.h"
#include "engine/prompts/t5.h"

/* Where there is no encoder to ask. */
#define WIDTH_L     768
#define WIDTH_G     1280
#define WIDTH_T5    4096
#define WIDTH_LLAMA (4096 * (int64_t)GRAFT_HIDREAM_LLAMA_LAYERS)

enum { L, G, PLACES };

typedef struct four_texts {
    const char *l, *g, *t5, *llama;
} four_texts;

/* ------------------------------------------------------------------ pooled prompts */

/* pooled (*width), freed with graft_free(). */
static graft_status pool(const graft_clip *c, const four_texts *texts, const graft_task *task,
                         float **pooled, int64_t *width, graft_err *e)
{
    const char *const text[PLACES] = {[L] = texts->l, [G] = texts->g};
    const graft_encoder *of[PLACES] = {NULL};
    int64_t wide[PLACES] = {[L] = WIDTH_L, [G] = WIDTH_G};
    for (size_t i = 0; i < c->n_encoders; i++) {
        const graft_encoder *k = &c->encoder[i];
        of[k->large ? G : L] = k;
        wide[k->large ? G : L] = graft_encoder_pooled_width(k);
    }
    *width = wide[L] + wide[G];
    *pooled = graft_calloc((size_t)*width, sizeof **pooled);
    graft_status st = *pooled ? GRAFT_OK : graft_fail_nomem(e, "conditioning");
    for (int i = 0; i < PLACES && !st; i++)
        if (of[i] && text[i])
            st = graft_clip_encode_pooled(c, (size_t)(of[i] - c->encoder), text[i], task,
                                          *pooled + (i ? wide[L] : 0), e);
    return st;
}

/* ------------------------------------------------------------------ tokens */

/* What T5 and Llama read, and what they make of it. */
typedef struct both_words {
    graft_t5_words t5;
    int32_t *llama;
    size_t n_llama, tokens;
    float *of_t5, *of_llama;
} both_words;

static void finish(both_words *w)
{
    graft_t5_words_finish(&w->t5);
    graft_free(w->llama);
    graft_free(w->of_t5);
    graft_free(w->of_llama);
}

/* All that both make of their texts. */
static graft_status read_texts(const graft_clip *c, const four_texts *texts, const graft_task *task,
                               both_words *w, graft_err *e)
{
    const bool t5 = c->t5 && texts->t5, llama = c->qwen3 && texts->llama;
    graft_status st = GRAFT_OK;
    if (t5) {
        w->t5.tokenizer = c->t5->tokenizer;
        st = graft_t5_words_add(&w->t5, texts->t5, e);
    }
    if (!st && llama) st = graft_llama_tokens(c->qwen3, texts->llama, &w->llama, &w->n_llama, e);
    w->tokens = GRAFT_HIDREAM_TOKENS;
    if (w->t5.n > w->tokens) w->tokens = w->t5.n;
    if (w->n_llama > w->tokens) w->tokens = w->n_llama;
    if (!st && t5)
        st = graft_t5_encode_masked(c->engine, &c->t5_options, c->t5, &w->t5, w->tokens, task,
                                    &w->of_t5, e);
    if (!st && llama)
        st = graft_llama_encode(c->engine, &c->t5_options, c->qwen3, w->llama, w->n_llama,
                                w->tokens, task, &w->of_llama, e);
    return st;
}

static graft_status join(const graft_clip *c, const both_words *w, float **out, int64_t *width,
                         graft_err *e)
{
    const size_t a = c->t5 ? (size_t)c->t5->arch.width : WIDTH_T5;
    const size_t b = c->qwen3 ? (size_t)c->qwen3->arch.width * (size_t)c->qwen3->arch.layers
                              : (size_t)WIDTH_LLAMA;
    float *data = graft_calloc(w->tokens, (a + b) * sizeof *data);
    *out = data;
    *width = (int64_t)(a + b);
    if (!data) return graft_fail_nomem(e, "conditioning");
    for (size_t i = 0; i < w->tokens; i++) {
        float *to = data + i * (a + b);
        if (w->of_t5) memcpy(to, w->of_t5 + i * a, a * sizeof *to);
        if (w->of_llama) memcpy(to + a, w->of_llama + i * b, b * sizeof *to);
    }
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ prompts */

static graft_status encode_again(const graft_clip *c, const void *what, const graft_task *task,
                                 graft_cond **out, graft_err *e)
{
    const four_texts *t = what;
    return graft_clip_encode_hidream(c, t->l, t->g, t->t5, t->llama, task, out, e);
}

graft_status graft_clip_encode_hidream(const graft_clip *c, const char *text_l, const char *text_g,
                                       const char *text_t5, const char *text_llama,
                                       const graft_task *task, graft_cond **out, graft_err *e)
{
    const four_texts texts = {text_l, text_g, text_t5, text_llama};
    if (c->hooking) return graft_clip_encode_hooked(c, encode_again, &texts, 1, task, out, e);
    both_words w = {0};
    float *pooled = NULL, *data = NULL;
    int64_t pooled_width = 0, width = 0;
    *out = NULL;
    graft_status st = graft_clip_there(c, e);
    if (st) return st;
    if (c->kind != GRAFT_CLIP_HIDREAM)
        return graft_fail(e, GRAFT_E_ARG, "these text encoders are not those of HiDream");
    st = pool(c, &texts, task, &pooled, &pooled_width, e);
    if (!st) st = read_texts(c, &texts, task, &w, e);
    if (!st) st = join(c, &w, &data, &width, e);
    const int64_t tokens = (int64_t)w.tokens;
    finish(&w);
    if (!st) return graft_cond_create(tokens, width, data, pooled_width, pooled, NULL, out, e);
    graft_free(data);
    graft_free(pooled);
    return st;
}
