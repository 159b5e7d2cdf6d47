/* PatchModelAddDownscale: large pictures that are laid out as small ones (Deep Shrink). */
#include "nodes/node.h"

enum {
    MODEL,
    BLOCK_NUMBER,
    DOWNSCALE_FACTOR,
    START_PERCENT,
    END_PERCENT,
    DOWNSCALE_AFTER_SKIP,
    DOWNSCALE_METHOD,
    UPSCALE_METHOD
};
#define METHODS CHOICES("bicubic", "nearest-exact", "bilinear", "area", "bislerp")
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [BLOCK_NUMBER] = IN_INT("block_number", 3, 1, 32, 1,
                            "The input block of the UNet behind which a smaller picture is seen. "
                            "Lower: more of it, and faster."),
    [DOWNSCALE_FACTOR] = IN_FLOAT("downscale_factor", 2.0, 0.1, 9.0, 0.001,
                                  "How many times smaller: as many as the picture is larger than "
                                  "what the model was trained for."),
    [START_PERCENT] = IN_FLOAT("start_percent", 0.0, 0.0, 1.0, 0.001,
                               "Where in sampling it begins: 0 is the first step."),
    [END_PERCENT] = IN_FLOAT("end_percent", 0.35, 0.0, 1.0, 0.001,
                             "Where it ends: the rest is drawn at full size."),
    [DOWNSCALE_AFTER_SKIP] = IN_BOOL("downscale_after_skip", true,
                                     "Whether the shortcut that leaves behind the block keeps the "
                                     "full size."),
    [DOWNSCALE_METHOD] = IN_CHOICE("downscale_method", METHODS,
                                   "How features are made smaller. bislerp is not supported."),
    [UPSCALE_METHOD] = IN_CHOICE("upscale_method", METHODS,
                                 "How they are made as large as the shortcuts that they meet. "
                                 "bislerp is not supported."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model, whose inner blocks see a smaller picture."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_downscale_options options = {.block_number = graft_arg_i64(c, BLOCK_NUMBER),
                                             .factor = graft_arg_f64(c, DOWNSCALE_FACTOR),
                                             .start = graft_arg_f64(c, START_PERCENT),
                                             .end = graft_arg_f64(c, END_PERCENT),
                                             .after_skip = graft_arg_bool(c, DOWNSCALE_AFTER_SKIP),
                                             .down_method = graft_arg_text(c, DOWNSCALE_METHOD),
                                             .up_method = graft_arg_text(c, UPSCALE_METHOD)};
    graft_status st = graft_model_downscale(graft_arg_model(c, MODEL), &options, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(patch_model_add_downscale, .id = "PatchModelAddDownscale",
           .title = "PatchModelAddDownscale (Kohya Deep Shrink)", .category = "model_patches/unet",
           .description = "Keeps pictures that are larger than the model was trained for from "
                          "showing everything twice: the first steps lay them out as smaller ones. "
                          "Those steps are faster, too.");
