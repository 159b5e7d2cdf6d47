/* Links that nobody drew, of the editor extension Use Everywhere: what its nodes get goes to every
 * input of its type that has no link, as far as their rules let it (cg-use-everywhere, versions 4
 * to 7, whose nodes keep their rules in different places). host/editor/src/workflow/everywhere.ts
 * does the same in the page. */
#ifndef GRAFT_HOST_PROMPT_EVERYWHERE_H
#define GRAFT_HOST_PROMPT_EVERYWHERE_H
#include "base/json.h"
#include "plugin/loader.h"

/* Whether a graph of an editor, or one of its sub-graphs, has such nodes. */
bool graft_everywhere_has(const cJSON *graph);
/* Adds these links to the graph and to its sub-graphs. GRAFT_E_NOMEM may leave some of them. */
graft_status graft_everywhere_link(cJSON *graph, const graft_registry *r, graft_err *e);
#endif
