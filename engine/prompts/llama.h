/* Llama 3.1 as HiDream-I1's text encoder: its tokenizer, and prompts. Its model is of qwen3.h's. */
#ifndef GRAFT_PROMPTS_LLAMA_H
#define GRAFT_PROMPTS_LLAMA_H
#include "engine/prompts/qwen3.h"

/* The files that may have the vocabulary, the first of which is no other model's. */
#define GRAFT_LLAMA_TOKENIZER_FILE "llama_tokenizer.json"
#define GRAFT_LLAMA_TOKENIZER_JSON "tokenizer.json"

/* Sets q->llama: of the tensor GRAFT_LLAMA_TOKENIZER, below `place` or by itself, which GGUF files
 * have as such; or of one of the files above, beside f or among text encoders.
 * GRAFT_E_NOTFOUND: there is none; GRAFT_E_FORMAT: it has more tokens than the model. */
graft_status graft_llama_load_tokenizer(graft_qwen3 *q, const graft_safetensors *f,
                                        const char *place, const graft_task *task, graft_err *e);
/* A prompt's tokens: the mark that texts begin with, then its segments one by one as those of
 * CLIP's prompts (engine/text/tokenizer.h), but that weights do not count. *ids is freed with
 * graft_free(). */
graft_status graft_llama_tokens(const graft_qwen3 *q, const char *text, int32_t **ids, size_t *n,
                                graft_err *e);
/* What graft_qwen3_run_every() gives of `words` ids that are filled up to `tokens`: *hidden
 * (tokens, layers width), freed with graft_free(). */
graft_status graft_llama_encode(graft_engine *engine, const graft_build_options *options,
                                const graft_qwen3 *q, const int32_t *ids, size_t words,
                                size_t tokens, const graft_task *task, float **hidden,
                                graft_err *e);
#endif
