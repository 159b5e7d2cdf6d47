/* SamplerSASolver: sa_solver with its numbers. */
#include "nodes/sampling/sampler_options.h"

enum {
    MODEL,
    ETA,
    SDE_START_PERCENT,
    SDE_END_PERCENT,
    S_NOISE,
    PREDICTOR_ORDER,
    CORRECTOR_ORDER,
    USE_PECE,
    SIMPLE_ORDER_2
};
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model whose schedule the shares are of."),
    [ETA] = IN_FLOAT("eta", 1.0, 0.0, 10.0, 0.01,
                     "How much noise the steps between start and end take away and add anew: 1 is "
                     "usual, 0 adds none.",
                     .flags = GRAFT_INPUT_EXACT),
    [SDE_START_PERCENT] = IN_FLOAT("sde_start_percent", 0.2, 0.0, 1.0, 0.001,
                                   "Noise is added from this share of the schedule on: 0 is its "
                                   "start, 1 its end."),
    [SDE_END_PERCENT] = IN_FLOAT("sde_end_percent", 0.8, 0.0, 1.0, 0.001,
                                 "No noise is added after this share of the schedule."),
    [S_NOISE] = IN_S_NOISE(),
    [PREDICTOR_ORDER] = IN_INT("predictor_order", 3, 1, GRAFT_SA_ORDER, 0,
                               "How many predictions, the present one among them, a step ahead "
                               "looks at."),
    [CORRECTOR_ORDER] = IN_INT("corrector_order", 4, 0, GRAFT_SA_ORDER, 0,
                               "How many predictions, the one ahead among them, a step is then "
                               "done anew with; 0: it is not."),
    [USE_PECE] = IN_BOOL("use_pece", false,
                         "Asks the model about the corrected latent, too: more exact, and takes "
                         "twice as long."),
    [SIMPLE_ORDER_2] = IN_BOOL("simple_order_2", false,
                               "Steps that look at two predictions are computed in the simpler way "
                               "of the method's paper, for few steps."),
    NULL};
static const graft_output *const outputs[] = {OUT_SAMPLER(), NULL};

static graft_status run(graft_call *c)
{
    const graft_model *m = graft_arg_model(c, MODEL);
    graft_sampling known = {.sampler = "sa_solver", .options = {USUAL_NUMBERS()}};
    graft_sa_options *o = &known.options.sa;
    known.options.eta = graft_arg_f64(c, ETA);
    known.options.s_noise = graft_arg_f64(c, S_NOISE);
    o->predictor = (int)graft_arg_i64(c, PREDICTOR_ORDER);
    o->corrector = (int)graft_arg_i64(c, CORRECTOR_ORDER);
    o->pece = graft_arg_bool(c, USE_PECE);
    o->simple = graft_arg_bool(c, SIMPLE_ORDER_2);
    graft_status st = graft_sigmas_at_percent(m, graft_arg_f64(c, SDE_START_PERCENT), false,
                                              &o->noise_from, &c->err);
    if (!st)
        st = graft_sigmas_at_percent(m, graft_arg_f64(c, SDE_END_PERCENT), false, &o->noise_to,
                                     &c->err);
    return st != GRAFT_OK ? st : graft_call_out_part(c, 0, "SAMPLER", &known);
}

GRAFT_NODE(sampler_sa_solver, .id = "SamplerSASolver", .title = "SamplerSASolver",
           .category = "sampling/custom_sampling/samplers",
           .description = "The sampler sa_solver with another amount of noise, at other steps, or "
                          "of other orders.");
