/* What an operator costs, from its shapes alone. */
#ifndef GRAFT_GRAPH_COST_H
#define GRAFT_GRAPH_COST_H
#include "engine/graph/graph.h"

/* Floating-point operations of node i: 2 for each multiply-add of convolution, linear and
 * attention; 0 for all others, which are bound by memory. */
double graft_cost_flops(const graft_graph *g, size_t i);
/* Bytes that node i must move at least: each input, weight and output element once, at the
 * activations' width for all (weights in their packed form may be wider). */
double graft_cost_bytes(const graft_graph *g, size_t i);
#endif
