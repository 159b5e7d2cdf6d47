#include "engine/prompts/gemma2.h"

#include "base/alloc.h"
#include "base/str.h"
#include "engine/prompts/t5.h"

graft_status graft_gemma2_load_tokenizer(graft_qwen3 *q, const graft_safetensors *f,
                                         const char *place, const graft_task *task, graft_err *e)
{
    static const graft_spiece_wanted wanted = {"tokenizer.model", "Gemma 2 without its", "Gemma 2"};
    graft_status st =
        graft_t5_tokenizer_load(f, place, &wanted, task, &q->words, &q->words_file, e);
    if (st) return st;
    const graft_unigram_tokens t = graft_unigram_tokens_of(q->words);
    if (t.count > q->arch.vocab)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: its table has %d tokens, fewer than the %d of its tokenizer",
                          graft_safetensors_path(f), q->arch.vocab, t.count);
    if (t.begin < 0 || t.pad < 0)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: its tokenizer is not Gemma's: no token of it begins texts, or fills "
                          "them up",
                          graft_safetensors_path(f));
    return GRAFT_OK;
}

static graft_status apply_weights(graft_engine *engine, const graft_build_options *options,
                                  const graft_qwen3 *q, const graft_t5_words *w,
                                  const graft_task *task, float *hidden, graft_err *e)
{
    const graft_unigram_tokens t = graft_unigram_tokens_of(q->words);
    const size_t width = (size_t)q->arch.width;
    float *empty = graft_malloc_array(2 * width, sizeof *empty);
    if (!empty) return graft_fail_nomem(e, "text encoder");
    graft_status st = graft_qwen3_run_empty(engine, options, &q->arch, q->weights,
                                            (const int32_t[2]){t.begin, t.pad}, task, empty, e);
    for (size_t i = 1; i < w->n && !st; i++) /* the mark has no weight */
        graft_t5_words_weigh(w, i, empty + width, width, hidden + i * width);
    graft_free(empty);
    return st;
}

graft_status graft_gemma2_encode(graft_engine *engine, const graft_build_options *options,
                                 const graft_qwen3 *q, const char *text, const graft_task *task,
                                 float **hidden, int64_t *tokens, graft_err *e)
{
    graft_t5_words w = {.tokenizer = q->words, .begun = true};
    graft_status st = graft_t5_words_add(&w, text, e);
    if (!st)
        st = graft_qwen3_hidden(engine, options, q, GRAFT_QWEN3_TAKE_MOST, w.id, w.n, NULL, 0, 0,
                                task, hidden, tokens, e);
    if (!st && w.weighted) {
        st = apply_weights(engine, options, q, &w, task, *hidden, e);
        if (st) graft_free(*hidden);
    }
    graft_t5_words_finish(&w);
    return st;
}

graft_status graft_clip_encode_lumina2(const graft_clip *c, graft_lumina2_wish wish,
                                       const char *text, const graft_task *task, graft_cond **out,
                                       graft_err *e)
{
    static const char *const wishes[] = {
        [GRAFT_LUMINA2_SUPERIOR] =
            "You are an assistant designed to generate superior images with the superior degree of "
            "image-text alignment based on textual prompts or user prompts.",
        [GRAFT_LUMINA2_ALIGNMENT] =
            "You are an assistant designed to generate high-quality images with the highest degree "
            "of image-text alignment based on textual prompts."};
    graft_str all = GRAFT_STR_INIT;
    graft_str_printf(&all, "%s <Prompt Start> %s", wishes[wish], text);
    graft_status st =
        all.failed ? graft_fail_nomem(e, "a prompt") : graft_clip_encode(c, all.data, task, out, e);
    graft_str_finish(&all);
    return st;
}
