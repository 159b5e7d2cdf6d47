/* Chroma's text encoder: T5's tokens are all that the network reads. Both attend to the words,
 * their end and one token of padding; what is masked in training is left out here, which is the
 * same. */
#include "engine/prompts/t5.h"

graft_status graft_clip_encode_chroma(const graft_clip *c, const char *text, const graft_task *task,
                                      graft_cond **out, graft_err *e)
{
    float *hidden = NULL;
    int64_t tokens = 0;
    graft_t5_padding padding = {GRAFT_CHROMA_PADDING, 0};
    if (c->padding.given) padding = graft_clip_t5_padding(c, 0);
    graft_status st =
        graft_t5_encode(c->engine, &c->t5_options, c->t5, text, padding, task, &hidden, &tokens, e);
    if (st) return st;
    return graft_cond_create(tokens, c->t5->arch.width, hidden, 0, NULL, NULL, out, e);
}
