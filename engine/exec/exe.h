/* An executable: a graph with a kernel for each node and a place in the arena for each value, for
 * one backend. It holds no weights; a binding (binding.h) gives those for one weight set, and an
 * arena the memory for one run. All three are separate so that one executable serves many weight
 * sets and threads at once.
 *
 * Immutable and reference-counted: any thread. */
#ifndef GRAFT_EXEC_EXE_H
#define GRAFT_EXEC_EXE_H
#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/exec/backend.h"
#include "engine/exec/recordings.h"
#include "engine/graph/graph.h"
#include "engine/task.h"

typedef struct graft_exe_step {
    graft_kernel *kernel;
    int64_t in[GRAFT_MAX_INPUTS]; /* byte offset in the arena; -1: absent; -2 - i: weight use i */
    int64_t out, workspace;       /* workspace: -1 without */
} graft_exe_step;

/* Where a step of a run with invariants (invariants.h) reads and writes: byte offsets in their
 * memory, -1: where it always does. */
typedef struct graft_exe_kept {
    int64_t in[GRAFT_MAX_INPUTS], out;
    bool invariant; /* the step is left out once they are made */
} graft_exe_kept;

/* A constant input of one node, in the layout that its kernel wants. */
typedef struct graft_exe_use {
    uint32_t step;
    int32_t input;
    int32_t slot;    /* -1: a literal */
    int32_t literal; /* -1: a slot */
    uint64_t bytes, packing;
} graft_exe_use;

/* Whether two uses are of one weight in one layout: they have one pack. */
static inline bool graft_exe_same_weight(const graft_exe_use *a, const graft_exe_use *b)
{
    return a->slot == b->slot && a->literal == b->literal && a->packing == b->packing;
}

typedef struct graft_exe_io {
    int64_t offset, bytes;
} graft_exe_io;

/* Time of all runs by operator kind, added up for reports: always on, two clock reads a step. On
 * devices with memory of their own, which work on their own too, it stays 0: the host's clock would
 * tell how long it took to hand the work over. */
typedef struct graft_exe_times {
    _Atomic uint64_t ns[GRAFT_OP_END];
    _Atomic uint64_t runs;
} graft_exe_times;

typedef struct graft_exe {
    _Atomic int refs;
    char kind[24];   /* of the job that it was compiled for, and its architecture: */
    graft_hash arch; /* set by the compiled-graph cache, zero elsewhere */
    graft_graph *graph;
    graft_backend *backend;
    graft_exe_step *step; /* one for each node of the graph */
    graft_kernel_info *info;
    graft_exe_kept *kept; /* one a node; NULL: nothing is invariant */
    int64_t kept_bytes;
    graft_exe_use *use;
    size_t n_uses;
    graft_exe_io *input, *output;
    int64_t arena_bytes, arena_bound; /* what a run needs; the least that any plan could need */
    uint64_t weight_bytes;            /* of all packed weights; a weight of several uses once */
    int64_t *live;                    /* bytes that each step needs, its workspace included */
    graft_hash key;
    graft_exe_times times;
    graft_recordings *recordings; /* may be NULL */
} graft_exe;

typedef struct graft_exe_choices { /* kernel variants, one a node; from tuning or the cache */
    int32_t *variant;
    size_t n;
    int64_t more_weights; /* bytes that graft_exe_apply may add; to the arena it adds none */
} graft_exe_choices;

/* Prepares kernels and plans memory. Takes over `graph` on success. choices: NULL, or the variants
 * to use (-1: the library's own choice). task: asked for cancellation between nodes; may be NULL.
 */
graft_status graft_exe_create(graft_graph *graph, graft_backend *backend,
                              const graft_exe_choices *choices, const graft_task *task,
                              graft_exe **out, graft_err *e);
/* Takes other variants, as tuning found them, wherever the run then needs no more memory than
 * choices allow it; nothing changes on failure. Only before the executable is shared. */
graft_status graft_exe_apply(graft_exe *x, const graft_exe_choices *choices, const graft_task *task,
                             graft_err *e);
graft_exe *graft_exe_retain(graft_exe *x);
void graft_exe_release(graft_exe *x);
#endif
