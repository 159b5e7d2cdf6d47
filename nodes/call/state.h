/* The plugin's state: the engine, made when it is first needed, by a node that runs or by the list
 * of devices, and what it keeps open for previews. So a list of the nodes' names loads nothing. */
#ifndef GRAFT_NODES_STATE_H
#define GRAFT_NODES_STATE_H
#include "engine/engine.h"
#include "nodes/call/preview_vaes.h"

/* Counted: the state goes with the last end. What the engine has to say goes to the host that came
 * last. Any thread. */
void graft_nodes_begin(const graft_host *h);
void graft_nodes_end(void);
/* Borrowed; both live until that end. Any thread between begin and end. */
graft_status graft_nodes_engine(graft_engine **out, graft_err *e);
graft_status graft_nodes_preview_vaes(graft_preview_vaes **out, graft_err *e);
/* The engine, if anything has needed it yet; or NULL. */
graft_engine *graft_nodes_engine_made(void);
#endif
