/* The networks of a run that are bound: each use of the model that came so far, within the limits
 * of memory. On the run's thread. */
#ifndef GRAFT_DENOISE_BOUND_H
#define GRAFT_DENOISE_BOUND_H
#include "engine/denoise/guided.h"

/* The network for that use by a batch of which `a` is one, bound; g keeps the reference.
 * GRAFT_E_LIMIT where it is over the limit of memory, alone or with the others of the run
 * (graft_unets_room()); those with other weights are let go of first. */
graft_status graft_guided_bind(graft_guided *g, const active *a, const graft_unet_use *use,
                               graft_binding **out, graft_err *e);
/* Lets go of those with weights that no active entry has, and of these weights. */
void graft_bound_forget(graft_guided *g);
/* All of them; they are bound anew when their turn comes. */
void graft_bound_let_go(graft_guided *g);
/* Bytes of their packed weights, and of ControlNets'. */
int64_t graft_bound_bytes(const graft_guided *g);
/* Whether less in memory may help. */
static inline bool graft_bound_short_of_memory(graft_status st)
{
    return st == GRAFT_E_LIMIT || st == GRAFT_E_NOMEM;
}
/* GRAFT_E_LIMIT, saying what would do, where several UNets of one run and `beside` bytes of packed
 * ControlNets are over the model's limit of memory together. Those of different sizes or grids may
 * want their weights packed differently. arena: the largest of what else runs. */
graft_status graft_unets_room(const graft_model *m, graft_binding *const *unet, size_t n,
                              int64_t beside, int64_t arena, graft_err *e);
#endif
