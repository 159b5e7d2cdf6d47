/* UNetCrossAttentionMultiply: factors of a UNet's attention to the prompt. */
#include "nodes/model/attention_factors.h"

enum { MODEL };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    IN_ATTENTION_FACTORS,
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The changed model."), NULL};

static graft_status run(graft_call *c)
{
    const graft_attention_factors factors = graft_arg_attention_factors(c);
    graft_model *model = NULL;
    graft_status st =
        graft_model_multiply_attention(graft_arg_model(c, MODEL), true, &factors, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(unet_cross_attention_multiply, .id = "UNetCrossAttentionMultiply",
           .title = "UNetCrossAttentionMultiply", .category = "_for_testing/attention_experiments",
           .description =
               "Multiplies the weights of a UNet's attention to the prompt. Other networks "
               "stay as they are. The compiled graphs stay.");
