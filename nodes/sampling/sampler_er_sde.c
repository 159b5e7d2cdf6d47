/* SamplerER_SDE: er_sde with its numbers. */
#include "nodes/sampling/sampler_options.h"

enum { SOLVER_TYPE, MAX_STAGE, ETA, S_NOISE };
static const graft_input *const inputs[] = {
    [SOLVER_TYPE] = IN_CHOICE("solver_type", CHOICES("ER-SDE", "Reverse-time SDE", "ODE"),
                              "How noise is added on the way: as the paper found best, by eta, or "
                              "none at all."),
    [MAX_STAGE] = IN_INT("max_stage", 3, 1, 3, 0,
                         "How many earlier predictions a step looks at, the present one among "
                         "them: more are more exact."),
    [ETA] = IN_FLOAT("eta", 1.0, 0.0, 100.0, 0.01,
                     "With Reverse-time SDE: how much noise is added; 0 makes it the ODE.",
                     .flags = GRAFT_INPUT_EXACT),
    [S_NOISE] = IN_S_NOISE(),
    NULL};
static const graft_output *const outputs[] = {OUT_SAMPLER(), NULL};

static graft_status run(graft_call *c)
{
    graft_sampling known = {.sampler = "er_sde", .options = {USUAL_NUMBERS()}};
    bool ode = graft_arg_is(c, SOLVER_TYPE, "ODE");
    known.options.order = graft_arg_i64(c, MAX_STAGE);
    known.options.reverse = !graft_arg_is(c, SOLVER_TYPE, "ER-SDE");
    known.options.eta = ode ? 0 : graft_arg_f64(c, ETA);
    known.options.s_noise = ode ? 0 : graft_arg_f64(c, S_NOISE);
    return graft_call_out_part(c, 0, "SAMPLER", &known);
}

GRAFT_NODE(sampler_er_sde, .id = "SamplerER_SDE", .title = "SamplerER_SDE",
           .category = "sampling/custom_sampling/samplers",
           .description = "The sampler er_sde with another way to add noise, or fewer stages.");
