/* ModelReport: where time and memory go. */
#include "nodes/call/output.h"
#include "nodes/node.h"

enum { MODEL, VAE, CLIP, LATENT };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to report on."),
    [VAE] = IN_OBJECT("vae", "VAE", "A VAE to add to the report.", .flags = GRAFT_INPUT_OPTIONAL),
    [CLIP] = IN_OBJECT("clip", "CLIP", "A text encoder to add to the report.",
                       .flags = GRAFT_INPUT_OPTIONAL),
    [LATENT] = IN_OBJECT("latent", "LATENT",
                         "A sampler's result: the report waits for it, and covers that run.",
                         .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {OUT("STRING", "STRING", "The report as text."),
                                              OUT("IMAGE", "IMAGE", "The report as a picture."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *picture = NULL;
    char *text = NULL;
    graft_status st;
    GRAFT_TRY(graft_model_report(graft_arg_model(c, MODEL), graft_arg_vae(c, VAE),
                                 graft_arg_clip(c, CLIP), &text, &picture, &c->err));
    GRAFT_TRY(graft_call_out_image(c, 1, picture));
    GRAFT_TRY(graft_call_out_text(c, 0, text));
    GRAFT_TRY(graft_output_show_text(c, text));
out:
    graft_text_free(text);
    return st;
}

GRAFT_NODE(model_report, .id = "ModelReport", .title = "Model Report", .category = "graft",
           .flags = GRAFT_NODE_OUTPUT | GRAFT_NODE_NOT_IDEMPOTENT,
           .description = "Shows what is compiled, cached and resident, and the time and memory "
                          "of each operator. Connect a sampler's result to report on its run.");
