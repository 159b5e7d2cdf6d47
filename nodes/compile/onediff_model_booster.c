/* OneDiffModelBooster: OneDiff's boosters as one; the same node goes by two names. */
#include "nodes/compile/booster_nodes.h"
#include "nodes/node.h"

static const graft_input *const inputs[] = {&graft_booster_quantization, &graft_booster_deepcache,
                                            &graft_booster_torchcompile, NULL};
static const graft_output *const outputs[] = {
    OUT("CUSTOM_BOOSTER", "CUSTOM_BOOSTER", "For Model Speedup and OneDiff's loader."), NULL};

static graft_status run(graft_call *c)
{
    return graft_booster_run_parts(c);
}

GRAFT_NODE(onediff_model_booster, .id = "OneDiffModelBooster",
           .title = "Apply Model Booster - OneDiff", .category = "OneDiff/Booster",
           .flags = GRAFT_NODE_DEPRECATED,
           .description =
               "For workflows made for OneDiff. In new ones chain DeepCache and the other nodes.");
