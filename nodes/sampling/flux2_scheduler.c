/* Flux2Scheduler: FLUX.2's sigmas, by the number of steps and the picture's size. */
#include "nodes/sampling/sigma_inputs.h"

enum { STEPS, WIDTH, HEIGHT };
static const graft_input *const inputs[] = {
    [STEPS] = IN_INT("steps", 20, 1, 4096, 0,
                     "How many steps the sampler takes. Distilled models need 4, others 20 to 50."),
    [WIDTH] = IN_INT("width", 1024, 16, 16384, 1, "The picture's width in pixels."),
    [HEIGHT] = IN_INT("height", 1024, 16, 16384, 1, "The picture's height in pixels."),
    NULL};
static const graft_output *const outputs[] = {OUT_SIGMAS(), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_flux2(graft_arg_i64(c, STEPS), graft_arg_i64(c, WIDTH),
                                         graft_arg_i64(c, HEIGHT), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(flux2_scheduler, .id = "Flux2Scheduler", .title = "Flux2Scheduler",
           .category = "sampling/custom_sampling/schedulers",
           .description = "The sigmas that FLUX.2's authors give it. Larger pictures, and more "
                          "steps of small ones, spend more of the steps at high noise.");
