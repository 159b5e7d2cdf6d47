/* The plugin's one piece of state: the engine, made when it is first needed, by a node that runs or
 * by the list of devices. So a list of the nodes' names loads nothing. */
#ifndef GRAFT_NODES_PLUGIN_H
#define GRAFT_NODES_PLUGIN_H
#include "engine/engine.h"

/* Borrowed; lives until the last deinit(). Any thread between init() and deinit(). */
graft_status graft_nodes_engine(graft_engine **out, graft_err *e);
#endif
