/* DeepCache: most steps compute the outer layers only. */
#include "nodes/node.h"

enum {
    MODEL,
    CACHE_INTERVAL,
    CACHE_LAYER_ID,
    CACHE_BLOCK_ID,
    START_STEP,
    END_STEP,
    SCHEDULE,
    MAX_ERROR,
    CUT
};
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to speed up."),
    [CACHE_INTERVAL] =
        IN_INT("cache_interval", 3, 1, 1000, 1,
               "Every so many steps the whole model runs; the steps between reuse its deep "
               "features. Higher is faster and loses detail; 1 turns the cache off."),
    [CACHE_LAYER_ID] =
        IN_INT("cache_layer_id", 0, 0, 12, 1,
               "Resolution level of the cut, 0 being the full size of the latent. Deeper levels "
               "reuse less: slower and closer to the original."),
    [CACHE_BLOCK_ID] =
        IN_INT("cache_block_id", 1, 0, 12, 1,
               "Block of that level at which to cut, from 0; the down-sampling at the end of a "
               "level is a block, too. Deeper blocks reuse less."),
    [START_STEP] = IN_INT("start_step", 0, 0, 1000, 1,
                          "Steps of the sampler before this one run the whole model. Raise it when "
                          "the composition suffers."),
    [END_STEP] = IN_INT("end_step", 1000, 0, 1000, 1,
                        "From this step of the sampler on, all run the whole model. Lower it when "
                        "fine detail suffers."),
    [SCHEDULE] = IN_CHOICE("schedule", CHOICES("uniform", "quadratic"),
                           "How full steps are placed: evenly, or denser in the first third of the "
                           "window, where features change most.",
                           .flags = GRAFT_INPUT_OPTIONAL),
    [MAX_ERROR] = IN_FLOAT("max_error", 0, 0, 1, 0.01,
                           "A step whose features are estimated to have drifted by more than this "
                           "share runs the whole model, too. Lower is safer; 0 turns it off.",
                           .flags = GRAFT_INPUT_OPTIONAL),
    [CUT] =
        IN_CHOICE("cut", CHOICES("block", "outermost"),
                  "block: where cache_layer_id and cache_block_id say. outermost: only the first "
                  "convolution and the last block run in the steps between, which is fastest, "
                  "and the two ids are not used.",
                  .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model, sampled with DeepCache."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_deepcache_options options = {.cache_interval = graft_arg_i64(c, CACHE_INTERVAL),
                                       .cache_layer_id = graft_arg_i64(c, CACHE_LAYER_ID),
                                       .cache_block_id = graft_arg_i64(c, CACHE_BLOCK_ID),
                                       .start_step = graft_arg_i64(c, START_STEP),
                                       .end_step = graft_arg_i64(c, END_STEP),
                                       .schedule = graft_arg_text(c, SCHEDULE),
                                       .max_error = graft_arg_f64(c, MAX_ERROR),
                                       .outermost = graft_arg_is(c, CUT, "outermost")};
    graft_status st = graft_model_deepcache(graft_arg_model(c, MODEL), &options, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(deep_cache, .id = "DeepCache", .title = "DeepCache", .category = "graft",
           .description = "Reuses deep features between sampling steps: two to three times as fast "
                          "for a small loss of detail. Features never leave their sampling run.");
