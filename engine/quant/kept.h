/* Which linear layers keep their weights packed (kernels/blocks.h: GGUF, FP8, MXFP8, NVFP4, NF4),
 * to become floats just ahead of each multiplication. Any thread.
 *
 * A layer whose tensor is a file's own has the type of that. One of integers that another program
 * made, and one that is patched or a sum, of tensors that are all packed, is Q8_0, which costs 8.5
 * bits a value: so a LoRA of another strength, or another on the same layers, asks for no other
 * graph. Embeddings and other layers that are never quantized are floats, as are those that an
 * architecture joins of tensors of several types. */
#ifndef GRAFT_QUANT_KEPT_H
#define GRAFT_QUANT_KEPT_H
#include "base/hash.h"
#include "base/str.h"
#include "engine/graph/graph.h"
#include "engine/weights/weights.h"

/* Of the names of all packed tensors and what they stay in: for keys of graphs that
 * graft_kept_apply() has seen. Files that have the same in another order have the same. */
graft_hash graft_kept_hash(const graft_weights *w);
/* Gives linear layers of a graph, as models describe it, the types of their weights. Those that are
 * quantized already stay as they are. */
void graft_kept_apply(const graft_weights *w, graft_graph *g);
/* The types of the set's matrices as in "Q4_K, Q6_K"; appends nothing where there are none. */
void graft_kept_print(const graft_weights *w, graft_str *out);
#endif
