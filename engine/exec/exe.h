/* An executable: a graph with a kernel for each node and a place in the arena for each value, for
 * one backend. It holds no weights; a binding gives those for one weight set, and an arena the
 * memory for one run. All three are separate so that one executable serves many weight sets and
 * threads at once.
 *
 * Executables and bindings are immutable and reference-counted: any thread. */
#ifndef GRAFT_EXEC_EXE_H
#define GRAFT_EXEC_EXE_H
#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/exec/arenas.h"
#include "engine/exec/backend.h"
#include "engine/exec/offload.h"
#include "engine/exec/packs.h"
#include "engine/exec/recordings.h"
#include "engine/graph/graph.h"
#include "engine/task.h"
#include "engine/weights/weights.h"

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

typedef struct graft_binding {
    _Atomic int refs;
    graft_exe *exe;
    graft_weights *weights;
    graft_packs *packs;
    graft_pack **pack;      /* one a use */
    graft_hash places;      /* of their addresses */
    graft_offload *offload; /* what is not on the device; NULL: all is */
    graft_packs *offloaded; /* the store of that */
} graft_binding;
/* Packs what is not packed yet, several weights at once. room: NULL, or where weights may stay away
 * from the device, which must outlive the binding. task cancels between tensors. */
graft_status graft_binding_create(graft_exe *x, graft_weights *w, graft_packs *packs,
                                  const graft_offload_room *room, const graft_task *task,
                                  graft_binding **out, graft_err *e);
void graft_binding_release(graft_binding *b);
/* Bytes of the packed weights of all of them that are on the device; what they share counts once.
 */
uint64_t graft_bindings_bytes(graft_binding *const *list, size_t n);
/* What a run takes beside: activations, workspaces, and the window of weights that come and go. */
int64_t graft_binding_arena(const graft_binding *b);
/* So much, as graft_arenas_take() gives it; where there is none, packs that nobody uses go. */
graft_arena *graft_binding_take_arena(const graft_binding *b, graft_arenas *arenas, graft_err *e);
/* Bytes of its packed weights on the device. */
uint64_t graft_binding_bytes(const graft_binding *b);
/* The name of use i's pack in the store for this weight set. */
graft_status graft_exe_pack_name(const graft_exe *x, size_t i, const graft_weights *w,
                                 graft_pack_name *out, graft_err *e);
/* Drops the packs that `old` has here and `keep` has not; all of old's where keep is NULL. Only
 * packs whose name is known without reading tensors of `old` can be there. */
graft_status graft_exe_drop_packs(const graft_exe *x, const graft_weights *old,
                                  const graft_weights *keep, graft_packs *packs, graft_err *e);

/* Drops the packs that LoRAs and merges made for this weight set. */
void graft_exe_drop_derived(const graft_exe *x, const graft_weights *w, graft_packs *packs);

/* Time of each step, added up over runs; by the device's own clock where it has one. A run with a
 * profile is no recorded one, and waits for the device. */
typedef struct graft_exe_profile {
    double *seconds; /* one a node */
    size_t n;
    uint64_t runs;
} graft_exe_profile;

typedef struct graft_invariants graft_invariants; /* invariants.h */

/* Runs once. in[i], out[i]: host memory of the graph's inputs and outputs, dense. Blocks. profile
 * may be NULL. GRAFT_E_CANCEL within one operator after task->cancelled says so, or within a part
 * of it where the library asks meanwhile. */
graft_status graft_exe_run(const graft_binding *b, graft_arenas *arenas, const void *const *in,
                           void *const *out, const graft_task *task, graft_exe_profile *profile,
                           graft_err *e);

/* The same as part of a series (invariants.h; NULL: of none), in which the steady inputs have the
 * same values in every run. */
graft_status graft_exe_run_again(const graft_binding *b, graft_arenas *arenas,
                                 graft_invariants *series, const void *const *in, void *const *out,
                                 const graft_task *task, graft_err *e);

/* That with inputs and outputs that are made and used on the device: `before` writes to the
 * addresses of the inputs, `after` reads from those of the outputs, both by work that the device
 * does in the order it is given. Does not wait; a failure of the device may show later. profile may
 * be NULL. */
#define GRAFT_EXE_PLACES 160 /* inputs, and outputs, at most: as many as residuals, and more */
typedef graft_status graft_exe_place(void *ctx, void *const *address);
graft_status graft_exe_run_there(const graft_binding *b, graft_arenas *arenas,
                                 graft_invariants *series, graft_exe_place *before,
                                 graft_exe_place *after, void *ctx, const graft_task *task,
                                 graft_exe_profile *profile, graft_err *e);
#endif
