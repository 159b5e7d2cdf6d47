/* Mistral as FLUX.2 dev's text encoder, and Ministral 3 as ERNIE-Image's: their tokenizer, and
 * prompts. Their models are of qwen3.h's. */
#ifndef GRAFT_PROMPTS_MISTRAL_H
#define GRAFT_PROMPTS_MISTRAL_H
#include "engine/prompts/qwen3.h"

/* The file beside one without a tensor GRAFT_MISTRAL_TOKENIZER that has the vocabulary
 * (engine/text/tekken.h). */
#define GRAFT_MISTRAL_TOKENIZER_FILE "tekken.json"

/* Sets q->tekken: of the tensor, below `place` or by itself, which GGUF files have as such, or of
 * the file beside f.
 * GRAFT_E_NOTFOUND: there is neither; GRAFT_E_FORMAT: it has more tokens than the model. */
graft_status graft_mistral_load_tokenizer(graft_qwen3 *q, const graft_safetensors *f,
                                          const char *place, graft_err *e);
/* *hidden (*tokens, 3 width) is freed with graft_free(): of a prompt as a user's question behind
 * the wish that the network was trained with, and before them padding that makes texts
 * GRAFT_FLUX2_TOKENS long; longer ones stay as they are. The prompt is text as it is, but for the
 * marks of pictures, which are left out. */
graft_status graft_mistral_encode(graft_engine *engine, const graft_build_options *options,
                                  const graft_qwen3 *q, const char *text, const graft_task *task,
                                  float **hidden, int64_t *tokens, graft_err *e);
/* The same for ERNIE-Image: *hidden (*tokens, width) of the mark that a text begins with, and of
 * the prompt as it is. */
graft_status graft_ministral_encode(graft_engine *engine, const graft_build_options *options,
                                    const graft_qwen3 *q, const char *text, const graft_task *task,
                                    float **hidden, int64_t *tokens, graft_err *e);
#endif
