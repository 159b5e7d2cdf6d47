/* Z-Image's, FLUX.2's, Qwen-Image's, Qwen-Image 2.1's, Krea 2's, Ideogram 4's, LongCat-Image's,
 * Ovis-Image's, ERNIE-Image's, Lumina-Image 2.0's and OmniGen2's text encoder: the tokens of Qwen,
 * Mistral or Gemma are all that the network reads. */
#include "engine/prompts/gemma2.h"
#include "engine/prompts/longcat.h"
#include "engine/prompts/mistral.h"
#include "engine/prompts/omnigen2.h"
#include "engine/prompts/ovis.h"

graft_status graft_clip_encode_qwen3(const graft_clip *c, const char *text, const graft_task *task,
                                     graft_cond **out, graft_err *e)
{
    float *hidden = NULL;
    int64_t tokens = 0;
    graft_status st = (c->qwen3->arch.gemma                 ? graft_gemma2_encode
                       : c->qwen3->arch.ministral           ? graft_ministral_encode
                       : c->qwen3->arch.mistral             ? graft_mistral_encode
                       : c->kind == GRAFT_CLIP_FLUX2        ? graft_qwen3_encode_joined
                       : c->kind == GRAFT_CLIP_QWEN_IMAGE   ? graft_qwen3_encode_described
                       : c->kind == GRAFT_CLIP_KREA2        ? graft_qwen3_encode_layered
                       : c->kind == GRAFT_CLIP_QWEN_IMAGE21 ? graft_qwen3_encode_analyzed
                       : c->kind == GRAFT_CLIP_IDEOGRAM4    ? graft_qwen3_encode_stacked
                       : c->kind == GRAFT_CLIP_LONGCAT      ? graft_longcat_encode
                       : c->kind == GRAFT_CLIP_OVIS         ? graft_ovis_encode
                       : c->kind == GRAFT_CLIP_OMNIGEN2     ? graft_omnigen2_encode
                                                            : graft_qwen3_encode)(
        c->engine, &c->t5_options, c->qwen3, text, task, &hidden, &tokens, e);
    if (st) return st;
    return graft_cond_create(tokens, c->width, hidden, 0, NULL, NULL, out, e);
}
