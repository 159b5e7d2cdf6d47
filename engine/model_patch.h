/* ControlNets that are put on a model instead of on prompts, Z-Image's and DiffSynth's for
 * Qwen-Image: a part of engine.h, whose rules hold here. */
#ifndef GRAFT_MODEL_PATCH_H
#define GRAFT_MODEL_PATCH_H
#include "engine/types.h"

/* What ComfyUI keeps in models/model_patches: a ControlNet of Z-Image in its authors' names,
 * version 1, 2.0 or 2.1, or one of DiffSynth's for Qwen-Image
 * (models/transformers/control_blockwise.h). GRAFT_E_UNSUPPORTED for all other files. */
graft_status graft_model_patch_load(graft_engine *engine, const char *path, const graft_task *task,
                                    graft_controlnet **out, graft_err *e);

typedef struct graft_model_control_options {
    const graft_controlnet *net;
    const graft_vae *vae; /* the model's, which makes latents of the pictures */
    /* Each may be NULL, but not all; they are scaled and cut to the latent's size when sampling,
     * and repeat over a batch. Version 1 takes the hint alone, and so do Qwen-Image's but for that
     * for inpainting, which takes the hint and a mask of what is to be drawn anew of it. */
    const graft_image *hint;    /* to follow, of a kind that the ControlNet was trained with */
    const graft_image *inpaint; /* to stay but where the mask is a half or above; needs the mask */
    const graft_image *mask;
    double strength; /* factor of the residuals; 0: no change */
} graft_model_control_options;
/* The model, steered in all prompts and steps, beside what steers it already; effects add up.
 * Strength and pictures are run-time values: nothing is compiled for others. GRAFT_E_ARG where the
 * ControlNet is for another model, a VAE is missing, and for pictures that it does not take;
 * GRAFT_E_UNSUPPORTED where the VAE has no encoder; GRAFT_E_LIMIT above GRAFT_WITHIN_MOST of
 * Qwen-Image's. */
graft_status graft_model_control(const graft_model *m, const graft_model_control_options *options,
                                 graft_model **out, graft_err *e);
#endif
