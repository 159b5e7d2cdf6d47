/* Nodes that give nodes in place of values: what one call gave, made a part of the run, and put
 * together to a result when the part has run. The thread that runs. */
#ifndef GRAFT_HOST_RUN_EXPAND_H
#define GRAFT_HOST_RUN_EXPAND_H
#include "host/run/agenda.h"
#include "host/run/job.h"

/* One output of one call that is not there yet. */
typedef struct graft_hole {
    size_t output, at; /* values of this output that come before it */
    size_t call;
    const char *id; /* where it comes from, as the node said it; borrowed from the expansion */
    uint32_t slot;
    size_t node; /* the same as a number, once the part was added */
} graft_hole;

/* Everything that a node's calls gave in place of values. */
typedef struct graft_expansion {
    graft_result *partial; /* the values that are there; owned */
    cJSON *list;           /* array: {"call", "part", "links"}; NULL: the node did not expand */
    graft_hole *hole;      /* by call, within a call by output */
    size_t n_hole, cap_hole;
    size_t first_part, n_part; /* in the agenda */
} graft_expansion;
void graft_expansion_finish(graft_expansion *x); /* fine on a zeroed one */

/* After call number `call` of a node with `n_out` outputs: takes what expand() left in the job, if
 * anything. open[i] says which outputs it left open. `r` holds what came so far. */
graft_status graft_expansion_take(graft_expansion *x, graft_job *job, size_t call,
                                  const graft_result *r, bool *open, graft_err *e);
/* Checks the parts and adds them to the agenda. */
graft_status graft_expansion_add(graft_expansion *x, graft_agenda *a, const graft_host *host,
                                 size_t node, graft_err *e);
/* Then, once the cache was asked: stages them, and lets `node` wait for its results. */
graft_status graft_expansion_follow(graft_expansion *x, graft_agenda *a, size_t node, graft_err *e);
/* When all is there: the whole result, one reference. */
graft_status graft_expansion_result(graft_expansion *x, const graft_agenda *a, graft_result **out,
                                    graft_err *e);
#endif
