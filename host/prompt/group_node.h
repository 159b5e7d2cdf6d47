/* Group nodes, which editors before ComfyUI's sub-graphs made of several nodes: `workflow>NAME` or
 * `workflow/NAME`, defined in extra.groupNodes. A file says of an instance only what it shows:
 * which of its inputs, outputs and values belongs to which node inside follows from their order,
 * names and types. host/editor/src/workflow/groupnodes.ts does the same in the page. */
#ifndef GRAFT_HOST_PROMPT_GROUP_NODE_H
#define GRAFT_HOST_PROMPT_GROUP_NODE_H
#include "base/json.h"
#include "plugin/loader.h"

/* Behind the prefix of such a type, or NULL. */
const char *graft_group_node_name(const char *type);
/* Whether an editor's graph defines any. */
bool graft_group_node_has(const cJSON *graph);
/* Makes sub-graphs of those that it defines. GRAFT_E_UNSUPPORTED where an instance's values do not
 * fit its definition. */
graft_status graft_group_node_expand(cJSON *graph, const graft_registry *r, graft_err *e);
#endif
