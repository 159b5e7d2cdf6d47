/* LongCat-Image's prompts (Meituan 2025, arXiv:2512.07584), as diffusers' pipeline_longcat_image.py
 * and pipeline_longcat_image_edit.py, public under Apache-2.0, put them together for Qwen 2.5-VL: a
 * fixed wish, for Edit the picture, and GRAFT_LONGCAT_TOKENS of the text, which padding fills up.
 *
 * What stands in quotes ('…', "…", ‘…’, “…”, the marks included) is to be written in the picture
 * and is read letter by letter. An apostrophe between Latin letters is no quote. */
#ifndef GRAFT_PROMPTS_LONGCAT_H
#define GRAFT_PROMPTS_LONGCAT_H
#include "engine/conditioning.h"
#include "engine/prompts/qwen3.h"
#include "engine/prompts/seen_prompt.h"

/* Appends the tokens of a text; what is behind the first GRAFT_LONGCAT_TOKENS is left out. */
graft_status graft_longcat_put(graft_seen_prompt *p, const char *text, graft_err *e);
/* *hidden (*tokens, width): the text's tokens, and padding. Freed with graft_free(). */
graft_status graft_longcat_encode(graft_engine *engine, const graft_build_options *options,
                                  const graft_qwen3 *q, const char *text, const graft_task *task,
                                  float **hidden, int64_t *tokens, graft_err *e);
/* The same of a prompt that was put together so far that only padding is missing, of which the
 * tokens from number `from` on are given. */
graft_status graft_longcat_encode_from(graft_engine *engine, const graft_build_options *options,
                                       const graft_seen_prompt *p, size_t from, size_t padded,
                                       const graft_task *task, float **hidden, int64_t *tokens,
                                       graft_err *e);
#endif
