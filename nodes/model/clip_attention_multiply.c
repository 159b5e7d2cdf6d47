/* CLIPAttentionMultiply: factors of a text encoder's attention. */
#include "nodes/model/attention_factors.h"

enum { CLIP };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "The text encoder to change."), IN_ATTENTION_FACTORS, NULL};
static const graft_output *const outputs[] = {OUT("CLIP", "CLIP", "The changed encoder."), NULL};

static graft_status run(graft_call *c)
{
    const graft_attention_factors factors = graft_arg_attention_factors(c);
    graft_clip *clip = NULL;
    graft_status st =
        graft_clip_multiply_attention(graft_arg_clip(c, CLIP), &factors, &clip, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_clip(c, 0, clip);
}

GRAFT_NODE(clip_attention_multiply, .id = "CLIPAttentionMultiply", .title = "CLIPAttentionMultiply",
           .category = "_for_testing/attention_experiments",
           .description = "Multiplies the weights of CLIP's attention. The compiled graphs stay.");
