/* VaeSpeedup, a name of OneDiff: CompileVAE with the usual options. */
#include "nodes/call/booster.h"
#include "nodes/node.h"

enum { VAE, CUSTOM_BOOSTER, INPLACE };
static const graft_input *const inputs[] = {
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE to compile."),
    [CUSTOM_BOOSTER] = IN_OBJECT("custom_booster", "CUSTOM_BOOSTER",
                                 "Has no effect: boosters are for diffusion models.",
                                 .flags = GRAFT_INPUT_OPTIONAL),
    [INPLACE] = IN_BOOL("inplace", true, "Has no effect: a VAE is never changed, only shared.",
                        .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {OUT("VAE", "VAE", "The compiled VAE."), NULL};

static graft_status run(graft_call *c)
{
    graft_vae *vae = NULL;
    graft_call_phase(c, "compile");
    graft_status st = graft_booster_apply_vae(graft_arg_vae(c, VAE), &c->task, &vae, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_vae(c, 0, vae);
}

GRAFT_NODE(vae_speedup, .id = "VaeSpeedup", .title = "VAE Speedup", .category = "OneDiff",
           .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. In new ones use Compile VAE.");
