/* ModelSamplingFlux: how much of a flow's schedule is spent on noise, by the picture's size. */
#include <math.h>

#include "nodes/node.h"

#define TOKEN       16 /* pixels of a token's side */
#define TOKENS_LOW  256
#define TOKENS_HIGH 4096

enum { MODEL, MAX_SHIFT, BASE_SHIFT, WIDTH, HEIGHT };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [MAX_SHIFT] = IN_FLOAT("max_shift", 1.15, 0.0, 100.0, 0.01,
                           "The logarithm of the shift for a picture of 1024x1024."),
    [BASE_SHIFT] = IN_FLOAT("base_shift", 0.5, 0.0, 100.0, 0.01,
                            "The logarithm of the shift for a picture of 256x256. Other sizes lie "
                            "on the line through both, by their number of pixels."),
    [WIDTH] = IN_INT("width", 1024, 16, 16384, 8, "The picture's width in pixels."),
    [HEIGHT] = IN_INT("height", 1024, 16, 16384, 8, "The picture's height in pixels."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model as a flow with this shift."), NULL};

/* As FLUX's authors have it: linear in the number of tokens. */
static double shift_of(const graft_call *c)
{
    const double low = graft_arg_f64(c, BASE_SHIFT), high = graft_arg_f64(c, MAX_SHIFT);
    const double tokens =
        (double)graft_arg_i64(c, WIDTH) * (double)graft_arg_i64(c, HEIGHT) / (TOKEN * TOKEN);
    return exp(low + (high - low) * (tokens - TOKENS_LOW) / (TOKENS_HIGH - TOKENS_LOW));
}

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st =
        graft_model_sampling_flow(graft_arg_model(c, MODEL), shift_of(c), true, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(model_sampling_flux, .id = "ModelSamplingFlux", .title = "ModelSamplingFlux",
           .category = "advanced/model",
           .description =
               "Sets the shift of FLUX's schedule by the picture's size: larger pictures "
               "spend more of the steps at high noise. Without this node FLUX.1 dev has "
               "the shift of 1024x1024 and schnell none.");
