/* T5's encoder on a backend: tokens to hidden states. */
#ifndef GRAFT_PROMPTS_T5_H
#define GRAFT_PROMPTS_T5_H
#include "engine/objects/objects.h"
#include "engine/models/encoders/t5.h"
#include "engine/text/unigram.h"
#include "engine/weights/gguf_tokenizer.h"

/* hidden (batch,tokens,arch->width) float32 of ids (batch,tokens), padding included by the caller:
 * all tokens are attended to. `weights` is the encoder's part, whose names begin with "encoder."
 * and "shared.". Precision and device are those of the options, but for float16, which T5 is not
 * made for: bfloat16 takes its place, or float32 where the backend has no bfloat16. Compiled once
 * for each batch and number of tokens; with task->compile_only, hidden is all zeros. GRAFT_E_ARG
 * for tokens outside of the table, GRAFT_E_LIMIT over GRAFT_T5_MAX_TOKENS. Any thread. */
graft_status graft_t5_run(graft_engine *engine, const graft_build_options *options,
                          const graft_t5_arch *arch, graft_weights *weights, const int32_t *ids,
                          int64_t batch, int64_t tokens, const graft_task *task, float *hidden,
                          graft_err *e);

/* The same of one text of which the first `words` tokens are attended to; those behind them, which
 * are padding, attend to these alone. GRAFT_E_UNSUPPORTED for UMT5. */
graft_status graft_t5_run_masked(graft_engine *engine, const graft_build_options *options,
                                 const graft_t5_arch *arch, graft_weights *weights,
                                 const int32_t *ids, int64_t words, int64_t tokens,
                                 const graft_task *task, float *hidden, graft_err *e);

/* T5 as a text encoder: its part of a file, and the tokenizer that it was trained with. Immutable;
 * any thread. */
typedef struct graft_t5 {
    _Atomic int refs;
    graft_t5_arch arch;
    graft_weights *weights;
    graft_unigram *tokenizer;
    graft_st_tensor model; /* the tokenizer's file, as bytes that are owned */
    struct graft_t5 *of;   /* whose tokenizer and file these are, retained; NULL: its own */
} graft_t5;
/* What is below `place` of the file. The tokenizer is a tensor GRAFT_T5_TOKENIZER of the file,
 * beside T5's others, below "text_encoders." or without a prefix, or the file spiece.model beside
 * it, of UMT5 tokenizer.model, or the one that the task knows. GRAFT_E_NOTFOUND: there is none. */
graft_status graft_t5_load(graft_weights *file, const char *place, const graft_task *task,
                           graft_t5 **out, graft_err *e);
/* The same with other weights of its shape, which are retained. */
graft_status graft_t5_with_weights(graft_t5 *t, graft_weights *weights, graft_t5 **out,
                                   graft_err *e);
graft_t5 *graft_t5_retain(graft_t5 *t); /* NULL is fine */
void graft_t5_release(graft_t5 *t);     /* NULL is fine */

/* A SentencePiece tokenizer as a loader looks for it. */
typedef struct graft_spiece_wanted {
    const char *file; /* what it is called as a file */
    const char *what; /* begins to say that there is none: "T5 without its" */
    const char *of;   /* whose file it may be */
} graft_spiece_wanted;
/* T5's, which others have, too. */
#define GRAFT_T5_SPIECE(said) (&(graft_spiece_wanted){"spiece.model", said, "T5 version 1.1"})
/* The tokenizer alone, as graft_t5_load() finds it; *model: its file as a tensor, whose data are
 * freed with graft_free(). GRAFT_E_NOTFOUND: there is none. */
graft_status graft_t5_tokenizer_load(const graft_safetensors *f, const char *place,
                                     const graft_spiece_wanted *wanted, const graft_task *task,
                                     graft_unigram **out, graft_st_tensor *model, graft_err *e);

/* A prompt's tokens in the syntax of engine/text/tokenizer.h, and their weights. */
typedef struct graft_t5_words {
    const graft_unigram *tokenizer;
    int32_t *id;
    float *weight;
    size_t n, cap_id, cap_weight;
    bool weighted; /* not all weights are 1 */
    bool begun;    /* they have the mark that texts begin with, and no end: Gemma's (gemma2.h) */
} graft_t5_words;
/* Adds its segments one by one, then the end. To be finished in any case. */
graft_status graft_t5_words_add(graft_t5_words *w, const char *text, graft_err *e);
void graft_t5_words_finish(graft_t5_words *w);
/* Moves what was made of word i, h, away from what the empty prompt has in its place, by the word's
 * weight; `width` values each. */
void graft_t5_words_weigh(const graft_t5_words *w, size_t i, const float *empty, size_t width,
                          float *h);

typedef struct graft_t5_padding {
    size_t more, least;
} graft_t5_padding;
/* The words of a prompt, then `more` of padding, and what is missing to `least` tokens. Weights as
 * for CLIP: each token is moved away from what the empty prompt has in its place. *hidden (*tokens,
 * width) is freed with graft_free(). */
graft_status graft_t5_encode(graft_engine *engine, const graft_build_options *options,
                             const graft_t5 *t, const char *text, graft_t5_padding padding,
                             const graft_task *task, float **hidden, int64_t *tokens, graft_err *e);
/* For HiDream-I1: *hidden (tokens, width) of words that have been added, and padding, to which
 * nothing attends. Weights move each token away from what the empty prompt has in its place,
 * likewise padded. */
graft_status graft_t5_encode_masked(graft_engine *engine, const graft_build_options *options,
                                    const graft_t5 *t, const graft_t5_words *w, size_t tokens,
                                    const graft_task *task, float **hidden, graft_err *e);
/* graft_clip_encode() of Chroma's. */
graft_status graft_clip_encode_chroma(const graft_clip *c, const char *text, const graft_task *task,
                                      graft_cond **out, graft_err *e);
/* Of AuraFlow's. */
graft_status graft_clip_encode_auraflow(const graft_clip *c, const char *text,
                                        const graft_task *task, graft_cond **out, graft_err *e);
/* What a prompt is filled up with, where `usual` tokens are the least. */
static inline graft_t5_padding graft_clip_t5_padding(const graft_clip *c, size_t usual)
{
    if (!c->padding.given) return (graft_t5_padding){0, usual};
    return (graft_t5_padding){(size_t)c->padding.more, (size_t)c->padding.least};
}
#endif
