/* EasyCache: evaluations of the model that are left out where their result can be told. */
#include "nodes/node.h"

enum { MODEL, REUSE_THRESHOLD, START_PERCENT, END_PERCENT, VERBOSE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [REUSE_THRESHOLD] = IN_FLOAT("reuse_threshold", 0.2, 0.0, 3.0, 0.01,
                                 "How far the model's results may be thought to have changed, all "
                                 "in all, before it is asked again. More is faster and less "
                                 "exact; 0 switches it off."),
    [START_PERCENT] = IN_FLOAT("start_percent", 0.15, 0.0, 1.0, 0.01,
                               "Where in sampling it begins: what is drawn before is worth every "
                               "step."),
    [END_PERCENT] = IN_FLOAT("end_percent", 0.95, 0.0, 1.0, 0.01,
                             "Where it stops, so that the last details are the model's own."),
    [VERBOSE] = IN_BOOL("verbose", false,
                        "Says after sampling how many evaluations of the model were left out."),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The model with EasyCache."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_easycache_options options = {.threshold = graft_arg_f64(c, REUSE_THRESHOLD),
                                             .start = graft_arg_f64(c, START_PERCENT),
                                             .end = graft_arg_f64(c, END_PERCENT),
                                             .verbose = graft_arg_bool(c, VERBOSE)};
    graft_status st = graft_model_easycache(graft_arg_model(c, MODEL), &options, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(easy_cache, .id = "EasyCache", .title = "EasyCache", .category = "advanced/debug/model",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description =
               "Makes sampling faster: while the model's results hardly change from step "
               "to step, some steps make do with what the last one shows of them.");
