/* The plugin's state: the engine, made when it is first needed, by a node that runs or by the list
 * of devices, and what it keeps open for previews. So a list of the nodes' names loads nothing. */
#ifndef GRAFT_NODES_PLUGIN_H
#define GRAFT_NODES_PLUGIN_H
#include "engine/engine.h"
#include "nodes/preview_vaes.h"

/* Borrowed; both live until the last deinit(). Any thread between init() and deinit(). */
graft_status graft_nodes_engine(graft_engine **out, graft_err *e);
graft_status graft_nodes_preview_vaes(graft_preview_vaes **out, graft_err *e);
#endif
