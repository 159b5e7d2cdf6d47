/* Ovis-Image's prompts, as its tokenizer.py and hf_embedder.py (AIDC-AI, public under Apache-2.0)
 * put them together for Ovis 2.5's language model, a Qwen 3: a question that begins with a wish, of
 * which the network reads what is behind the first GRAFT_OVIS_BEGIN tokens, GRAFT_OVIS_TOKENS of
 * them. Where there are fewer the rest is zeros. */
#ifndef GRAFT_PROMPTS_OVIS_H
#define GRAFT_PROMPTS_OVIS_H
#include "engine/prompts/qwen3.h"

#define GRAFT_OVIS_BEGIN 28

/* *hidden (*tokens, width) is freed with graft_free(). */
graft_status graft_ovis_encode(graft_engine *engine, const graft_build_options *options,
                               const graft_qwen3 *q, const char *text, const graft_task *task,
                               float **hidden, int64_t *tokens, graft_err *e);
#endif
