/* OneFlowDeepcacheBooster: options of DeepCache for OneDiff's other nodes. */
#include "nodes/compile/booster_nodes.h"
#include "nodes/node.h"

enum { INTERVAL, LAYER, BLOCK, START, END };
static const graft_input *const inputs[] = {
    [INTERVAL] = &graft_booster_interval, [LAYER] = &graft_booster_layer,
    [BLOCK] = &graft_booster_block,       [START] = &graft_booster_start,
    [END] = &graft_booster_end,           NULL};
static const graft_output *const outputs[] = {
    OUT("DeepCacheBooster", "DeepCacheBooster", "For Apply Model Booster."), NULL};

static graft_status run(graft_call *c)
{
    const graft_deepcache_options options = graft_booster_read_deepcache(c, INTERVAL);
    graft_booster *b = NULL;
    graft_status st = graft_booster_create(&options, NULL, &b, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_booster(c, 0, "DeepCacheBooster", b);
}

GRAFT_NODE(
    oneflow_deepcache_booster, .id = "OneFlowDeepcacheBooster",
    .title = "OneFlow Deepcache Booster - OneDiff", .category = "OneDiff/Booster",
    .flags = GRAFT_NODE_DEPRECATED,
    .description = "For workflows made for OneDiff. In new ones use DeepCache on the model.");
