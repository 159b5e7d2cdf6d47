/* UNetTemporalAttentionMultiply: factors of the layers behind a UNet's attention, apart for space
 * and for time. No network here has an attention over time. */
#include "nodes/model/attention_factors.h"

enum { MODEL, SELF_STRUCTURAL, SELF_TEMPORAL, CROSS_STRUCTURAL, CROSS_TEMPORAL };
#define NO_TIME " between frames, which models of pictures do not have: it changes nothing"
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [SELF_STRUCTURAL] = IN_ATTENTION_FACTOR("self_structural", "the layer behind attention of the "
                                                               "picture to itself"),
    [SELF_TEMPORAL] = IN_ATTENTION_FACTOR("self_temporal", "self-attention" NO_TIME),
    [CROSS_STRUCTURAL] = IN_ATTENTION_FACTOR("cross_structural", "the layer behind attention to "
                                                                 "the prompt"),
    [CROSS_TEMPORAL] = IN_ATTENTION_FACTOR("cross_temporal", "cross-attention" NO_TIME),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The changed model."), NULL};

static graft_status run(graft_call *c)
{
    const graft_attention_factors self = {1, 1, 1, graft_arg_f64(c, SELF_STRUCTURAL)};
    const graft_attention_factors cross = {1, 1, 1, graft_arg_f64(c, CROSS_STRUCTURAL)};
    graft_model *half = NULL, *model = NULL;
    graft_status st =
        graft_model_multiply_attention(graft_arg_model(c, MODEL), false, &self, &half, &c->err);
    if (!st) st = graft_model_multiply_attention(half, true, &cross, &model, &c->err);
    graft_model_release(half);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(unet_temporal_attention_multiply, .id = "UNetTemporalAttentionMultiply",
           .title = "UNetTemporalAttentionMultiply",
           .category = "_for_testing/attention_experiments",
           .description = "Multiplies the weights of the layers behind a UNet's attention. The "
                          "compiled graphs stay.");
