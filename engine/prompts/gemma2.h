/* Gemma 2 as Lumina-Image 2.0's text encoder: its tokenizer, and prompts. Its model is of
 * qwen3.h's.
 */
#ifndef GRAFT_PROMPTS_GEMMA2_H
#define GRAFT_PROMPTS_GEMMA2_H
#include "engine/prompts/qwen3.h"

/* Sets q->words and its file: of the tensor GRAFT_T5_TOKENIZER, which GGUF files have as such, or
 * of the file tokenizer.model beside f, or the one that the task knows. GRAFT_E_NOTFOUND: there is
 * none; GRAFT_E_FORMAT: it has more tokens than the model, or none that texts begin with. */
graft_status graft_gemma2_load_tokenizer(graft_qwen3 *q, const graft_safetensors *f,
                                         const char *place, const graft_task *task, graft_err *e);
/* *hidden (*tokens, width) is freed with graft_free(): of the mark that a text begins with, and of
 * a prompt in the syntax of engine/text/tokenizer.h. Weights as for CLIP: each token is moved away
 * from what the empty prompt has in its place, which is that mark and padding that sees nothing
 * else. */
graft_status graft_gemma2_encode(graft_engine *engine, const graft_build_options *options,
                                 const graft_qwen3 *q, const char *text, const graft_task *task,
                                 float **hidden, int64_t *tokens, graft_err *e);
#endif
