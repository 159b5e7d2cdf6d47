/* ModuleDeepCacheSpeedup, a name of OneDiff: CompileModel and DeepCache. */
#include "nodes/compile/booster_nodes.h"
#include "nodes/node.h"

enum { MODEL, STATIC_MODE, INTERVAL, LAYER, BLOCK, START, END };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to speed up."),
    [STATIC_MODE] = &graft_booster_static_mode,
    [INTERVAL] = &graft_booster_interval,
    [LAYER] = &graft_booster_layer,
    [BLOCK] = &graft_booster_block,
    [START] = &graft_booster_start,
    [END] = &graft_booster_end,
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model, sampled with DeepCache."), NULL};

static graft_status run(graft_call *c)
{
    const graft_deepcache_options options = graft_booster_read_deepcache(c, INTERVAL);
    graft_booster *b = NULL;
    graft_model *model = NULL;
    graft_call_phase(c, "compile");
    graft_status st = graft_booster_create(&options, NULL, &b, &c->err);
    if (st == GRAFT_OK)
        st = graft_booster_apply(b, graft_arg_model(c, MODEL), &c->task, &model, &c->err);
    graft_booster_release(b);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(module_deepcache_speedup, .id = "ModuleDeepCacheSpeedup",
           .title = "Model DeepCache Speedup", .category = "OneDiff",
           .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. In new ones use Compile Model and "
                          "DeepCache, in any order.");
