/* Z-Image's, FLUX.2's and Qwen-Image's text encoder: the tokens of Qwen are all that the network
 * reads. */
#include "engine/prompts/qwen3.h"

graft_status graft_clip_encode_qwen3(const graft_clip *c, const char *text, const graft_task *task,
                                     graft_cond **out, graft_err *e)
{
    const bool joined = c->kind == GRAFT_CLIP_FLUX2;
    const int64_t width = c->qwen3->arch.width;
    float *hidden = NULL;
    int64_t tokens = 0;
    graft_status st = (joined                             ? graft_qwen3_encode_joined
                       : c->kind == GRAFT_CLIP_QWEN_IMAGE ? graft_qwen3_encode_described
                                                          : graft_qwen3_encode)(
        c->engine, &c->t5_options, c->qwen3, text, task, &hidden, &tokens, e);
    if (st) return st;
    return graft_cond_create(tokens, joined ? width * GRAFT_QWEN3_JOINED : width, hidden, 0, NULL,
                             NULL, out, e);
}
