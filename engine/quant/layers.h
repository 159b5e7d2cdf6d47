/* Which layers the nodes of a UNet's graph are, as it was built or after passes.
 *
 * CONV2D and LINEAR are the layers whose weights they read, called like those without ".weight";
 * several where passes merged them.
 * ATTENTION is the layer that its queries are projected for: q's projection is called
 * "NAME.to_q.weight" or "NAME.q_proj.weight", or with those of keys and values
 * "NAME.qkv.weight", the attention NAME. */
#ifndef GRAFT_QUANT_LAYERS_H
#define GRAFT_QUANT_LAYERS_H
#include "engine/graph/graph.h"

/* The slot of the weight that a CONV2D or LINEAR reads; NULL for other nodes. */
const graft_gslot *graft_quant_weight(const graft_graph *g, size_t node);
/* How many layers the node may be, and the name of the k-th of them, k below that number. False:
 * none that can be quantized. */
size_t graft_quant_node_layers(const graft_graph *g, size_t node);
bool graft_quant_node_layer(const graft_graph *g, size_t node, size_t k, char out[128]);
#endif
