/* Graph passes. Each keeps the meaning of the graph and leaves it verified; graft_passes_run() runs
 * them in the order of passes.def. A pass works on one graph, on one thread. */
#ifndef GRAFT_PASSES_PASSES_H
#define GRAFT_PASSES_PASSES_H
#include "engine/graph/graph.h"

#define GRAFT_PASS(name, what) graft_status graft_pass_##name(graft_graph *g, graft_err *e);
#include "engine/passes/passes.def"
#undef GRAFT_PASS

/* For libraries with GRAFT_WANTS_NORM_ADD, after the others: a convolution's channel_add goes to
 * the GROUP_NORM that alone reads it. */
graft_status graft_pass_norm_add(graft_graph *g, graft_err *e);

/* Whether a library supports the operator. */
typedef bool (*graft_pass_takes)(void *ctx, const graft_op_desc *op);
/* For libraries with GRAFT_WANTS_LINEAR_NORM, after the others: a LAYER_NORM that one LINEAR of 8
 * bits alone reads becomes that one's, where `takes` says so. */
graft_status graft_pass_norm_linear(graft_graph *g, graft_pass_takes takes, void *ctx,
                                    graft_err *e);

/* All passes in order. After each one the graph is verified in builds with assertions. */
graft_status graft_passes_run(graft_graph *g, graft_err *e);

/* For passes: how often each value is read, views counted for their root and outputs included.
 * (graft_free); NULL when out of memory. */
int32_t *graft_pass_count_uses(const graft_graph *g);
/* For passes: the node that makes each root value, -1 for others. (graft_free) */
int32_t *graft_pass_producers(const graft_graph *g);
/* For passes: every reader of `from`, also through views, reads `to` instead, a dense value of the
 * same number of elements. Where the shapes differ, `from` itself becomes a view of `to`. */
void graft_pass_replace(graft_graph *g, graft_vid from, graft_vid to);
/* For passes: takes node i out; graft_pass_clean() closes the gap. */
void graft_pass_remove_node(graft_graph *g, size_t i);
static inline bool graft_pass_removed(const graft_gnode *n)
{
    return n->op == 0;
}
#endif
