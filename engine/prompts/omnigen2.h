/* OmniGen2's prompts, as its authors' pipeline (VectorSpaceLab, public under Apache-2.0) puts them
 * together for Qwen 2.5-VL: a user's question behind what the model is told to be, of which the
 * network reads all, and which asks for no answer. It reads texts alone there; pictures are shown
 * to the network. */
#ifndef GRAFT_PROMPTS_OMNIGEN2_H
#define GRAFT_PROMPTS_OMNIGEN2_H
#include "engine/prompts/qwen3.h"

/* *hidden (*tokens, width) is freed with graft_free(). */
graft_status graft_omnigen2_encode(graft_engine *engine, const graft_build_options *options,
                                   const graft_qwen3 *q, const char *text, const graft_task *task,
                                   float **hidden, int64_t *tokens, graft_err *e);
#endif
