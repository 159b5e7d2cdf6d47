/* Ideogram4Scheduler: Ideogram 4's sigmas, by the number of steps and the picture's size. */
#include "nodes/sampling/sigma_inputs.h"

enum { STEPS, WIDTH, HEIGHT, MU, STD };
static const graft_input *const inputs[] = {
    [STEPS] = IN_INT("steps", 20, 1, 200, 0,
                     "How many steps the sampler takes: its authors take 12, 20 or 48."),
    [WIDTH] = IN_INT("width", 1024, 256, 8192, 16, "The picture's width in pixels."),
    [HEIGHT] = IN_INT("height", 1024, 256, 8192, 16, "The picture's height in pixels."),
    [MU] = IN_FLOAT("mu", 0.0, -10.0, 10.0, 0.05,
                    "The mean of the distribution; more: more of the steps at high noise. 0.5 goes "
                    "with 12 steps, 0 with 20 and 48."),
    [STD] =
        IN_FLOAT("std", 1.75, 0.1, 5.0, 0.05,
                 "Its deviation; more: more of the steps at either end. 1.5 goes with 48 steps, "
                 "1.75 with 12 and 20."),
    NULL};
static const graft_output *const outputs[] = {OUT_SIGMAS(), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_ideogram4(graft_arg_i64(c, STEPS), graft_arg_i64(c, WIDTH),
                                             graft_arg_i64(c, HEIGHT), graft_arg_f64(c, MU),
                                             graft_arg_f64(c, STD), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(ideogram4_scheduler, .id = "Ideogram4Scheduler", .title = "Ideogram 4 Scheduler",
           .category = "sampling/custom_sampling/schedulers",
           .description = "The sigmas that Ideogram 4's authors give it: quantiles of a "
                          "logit-normal distribution, which larger pictures shift to high noise.");
