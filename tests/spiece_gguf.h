/* A SentencePiece model as llama.cpp keeps it in the metadata of a GGUF file. */
#ifndef GRAFT_TESTS_SPIECE_GGUF_H
#define GRAFT_TESTS_SPIECE_GGUF_H
#include "engine/text/unigram.h"
#include "engine/text/unigram_file.h"
#include "tests/gguf_file.h"

static inline void add_spiece_flag(gguf_pairs *p, const char *key, bool value)
{
    gguf_put_text(&p->bytes, key);
    gguf_put_number(&p->bytes, 7, 4);
    gguf_put_number(&p->bytes, value, 1);
    p->n++;
}

/* `scores`: how many of them there are; t: of the model, for those tokens that metadata have. */
static inline void add_spiece(gguf_pairs *p, const graft_unigram_file *m, size_t scores,
                              const graft_unigram_tokens *t)
{
    const bool pairs = m->model_type == GRAFT_MODEL_PAIRS;
    gguf_add_text(p, "tokenizer.ggml.model", pairs ? "llama" : "t5");
    gguf_add_u32(p, "tokenizer.ggml.bos_token_id", (uint32_t)t->begin);
    gguf_add_u32(p, "tokenizer.ggml.eos_token_id", (uint32_t)t->end);
    gguf_add_u32(p, "tokenizer.ggml.padding_token_id", (uint32_t)t->pad);
    gguf_add_list(p, "tokenizer.ggml.tokens", 8, m->count);
    for (size_t i = 0; i < m->count; i++) {
        gguf_put_number(&p->bytes, m->piece[i].text.n, 8);
        gguf_put(&p->bytes, m->piece[i].text.at, m->piece[i].text.n);
    }
    gguf_add_list(p, "tokenizer.ggml.scores", 6, scores);
    for (size_t i = 0; i < scores; i++) gguf_put(&p->bytes, &m->piece[i].score, 4);
    gguf_add_list(p, "tokenizer.ggml.token_type", 5, m->count);
    for (size_t i = 0; i < m->count; i++) gguf_put_number(&p->bytes, m->piece[i].type, 4);
    gguf_add_list(p, "tokenizer.ggml.precompiled_charsmap", 0, m->charsmap.n);
    gguf_put(&p->bytes, m->charsmap.at, m->charsmap.n);
    add_spiece_flag(p, "tokenizer.ggml.add_space_prefix", m->dummy_prefix);
    if (!pairs) /* of which it says nothing about white space */
        add_spiece_flag(p, "tokenizer.ggml.remove_extra_whitespaces", m->trim);
}
#endif
