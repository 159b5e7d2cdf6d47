/* Qwen-Image 2.1's prompts with pictures, in the form that the model was trained with. */
#ifndef GRAFT_PROMPTS_QWEN_ANALYZED_H
#define GRAFT_PROMPTS_QWEN_ANALYZED_H
#include "engine/conditioning.h"
#include "engine/prompts/qwen3.h"

/* GRAFT_E_UNSUPPORTED where the text encoder is another one. */
graft_status graft_clip_check_analyzed(const graft_clip *c, graft_err *e);
/* GRAFT_E_LIMIT where a text behind n pictures, of which rows and columns alone are looked at, is
 * longer than what the model reads. */
graft_status graft_clip_check_among(const graft_clip *c, const char *text,
                                    const graft_qwen3_picture *seen, size_t n, graft_err *e);
/* A text behind n pictures that graft_qwen3_see() gave. *out has the tokens of the text alone, as
 * the model makes them of all; within[i]: how many of them stand before picture i. An empty text is
 * a space. */
graft_status graft_clip_encode_among(const graft_clip *c, const char *text,
                                     const graft_qwen3_picture *seen, size_t n,
                                     const graft_task *task, int64_t *within, graft_cond **out,
                                     graft_err *e);
#endif
