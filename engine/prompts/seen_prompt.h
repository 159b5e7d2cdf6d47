/* A prompt with pictures as Qwen-VL reads it, put together piece by piece. */
#ifndef GRAFT_PROMPTS_SEEN_PROMPT_H
#define GRAFT_PROMPTS_SEEN_PROMPT_H
#include "engine/prompts/qwen3.h"

/* Zeros, but for q, before the first piece. */
typedef struct graft_seen_prompt {
    const graft_qwen3 *q;
    int32_t *ids; /* the tokens so far */
    size_t n, cap;
    graft_qwen3_picture picture[GRAFT_REFERENCES];
    size_t n_pictures;
} graft_seen_prompt;

/* What stands between two marks can be encoded by itself. */
graft_status graft_seen_prompt_text(graft_seen_prompt *p, const char *text, graft_err *e);
/* A token for each cell; which one does not count. Its values must stay as long as the prompt. */
graft_status graft_seen_prompt_picture(graft_seen_prompt *p, const graft_qwen3_picture *seen,
                                       graft_err *e);
void graft_seen_prompt_finish(graft_seen_prompt *p);
/* How many tokens a text has. */
graft_status graft_seen_prompt_count(const graft_qwen3 *q, const char *text, size_t *n,
                                     graft_err *e);
#endif
