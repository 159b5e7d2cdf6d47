#include "nodes/controls/model_patch.h"

#include "nodes/node.h"

const graft_input graft_model_patch_model =
    INPUT_OBJECT("model", "MODEL", "The diffusion model that is to follow the picture.");
const graft_input graft_model_patch_patch =
    INPUT_OBJECT("model_patch", "MODEL_PATCH", "The ControlNet, made for such models.");
const graft_input graft_model_patch_vae =
    INPUT_OBJECT("vae", "VAE", "The model's VAE: the ControlNet sees latents.");
const graft_input graft_model_patch_strength =
    INPUT_FLOAT("strength", 1.0, -10.0, 10.0, 0.01,
                "How closely to follow it. 0 switches it off. Changing it recompiles nothing.");
const graft_output graft_model_patch_out = OUTPUT("MODEL", "MODEL", "The model, steered.");

graft_status graft_model_patch_apply(graft_call *c, int strength, int image, int inpaint, int mask)
{
    const graft_model_control_options options = {
        .net = graft_arg_model_patch(c, GRAFT_MODEL_PATCH_PATCH),
        .vae = graft_arg_vae(c, GRAFT_MODEL_PATCH_VAE),
        .strength = graft_arg_f64(c, strength),
        .hint = graft_arg_image(c, image),
        .inpaint = inpaint < 0 ? NULL : graft_arg_image(c, inpaint),
        .mask = graft_arg_mask(c, mask)};
    graft_model *m = NULL;
    graft_status st =
        graft_model_control(graft_arg_model(c, GRAFT_MODEL_PATCH_MODEL), &options, &m, &c->err);
    return st ? st : graft_call_out_model(c, 0, m);
}
