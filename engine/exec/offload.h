/* Weights that have no room on a device. They stay packed in memory of the host, and in each run
 * come to the device beside its work (kernel_abi.h, lane_create): into a window behind the
 * activations, each into its place there once what had the place before was read. What comes is
 * spread evenly over the steps, so that bringing one weight and computing with others take place at
 * once. Results have the bits that they have without.
 *
 * Where the device's memory is the machine's they stay in files (spill.h), of which the system
 * reads what comes next while something is computed; there is no window, but what it would have
 * counts.
 *
 * Only weights of some size that one step alone reads stay away, at most one of each step. */
#ifndef GRAFT_EXEC_OFFLOAD_H
#define GRAFT_EXEC_OFFLOAD_H
#include "engine/exec/arenas.h"
#include "engine/exec/exe.h"
#include "engine/exec/packs.h"

/* What a binding may take. */
typedef struct graft_offload_room {
    graft_packs *packs;   /* in memory of the host */
    graft_arenas *arenas; /* of the runs: packing passes through one */
    /* What weights and window may take on the device: by itself, and with what others use now,
     * which is `beside` at least. */
    uint64_t own, with_others, beside;
    uint64_t behind; /* bytes of weights that will be wanted beside these: up to half is left */
    bool is_limit;   /* someone set it; else the device has no more */
} graft_offload_room;

typedef struct graft_offload_piece {
    uint32_t use, step; /* the step that reads it */
    int64_t behind;     /* the step behind whose launch it begins to come; -1: at the beginning */
    uint64_t offset, bytes;
} graft_offload_piece;

/* What comes in one run, in the order of steps. */
typedef struct graft_offload_schedule {
    graft_offload_piece *piece;
    size_t n;
    int64_t *place; /* of each use: in the window; -1: its pack itself is read */
} graft_offload_schedule;

typedef struct graft_offload {
    bool *away;                        /* of each use: its pack lies in memory of the host */
    graft_offload_schedule all, later; /* later: of a series' runs behind the first one */
    uint64_t window;                   /* bytes behind the activations */
    uint64_t bytes;                    /* that are away */
    /* Of these, those that lie in ordinary memory (packs.h): set with the packs. The host sends
     * them between the launches, so that runs are not recorded. */
    uint64_t ordinary;
} graft_offload;

/* Where the packs of an executable's uses are before a binding is made. */
typedef enum graft_offload_found {
    GRAFT_OFFLOAD_NOWHERE,
    GRAFT_OFFLOAD_ON_DEVICE,
    GRAFT_OFFLOAD_ON_HOST
} graft_offload_found;

/* Whether the device can do without some of its weights; where its memory is the machine's, whether
 * it could with files. */
bool graft_offload_possible(const graft_backend *b);
/* The least that weights and window can take on the device; all weights where nothing can be
 * away. UINT64_MAX when memory is short. */
uint64_t graft_offload_least(const graft_exe *x);
/* Chooses what stays away so that the rest and the window take no more than `bytes`; *out is NULL
 * where all have room. What lies in memory of the host stays there before others, then weights of
 * steps that a series computes once, then such as are nowhere yet. found: one a use. Where even
 * the least does not fit GRAFT_E_LIMIT, or GRAFT_E_NOMEM where that is not a limit's fault. */
graft_status graft_offload_choose(const graft_exe *x, uint64_t bytes, bool is_limit,
                                  const graft_offload_found *found, graft_offload **out,
                                  graft_err *e);
void graft_offload_free(graft_offload *o); /* NULL is fine */

/* A run. Each step: graft_offload_before(), its launch, in the order of steps; then _end(), also
 * behind a run that ended early: what is under way comes before what is launched later. */
typedef struct graft_offload_run {
    const graft_offload_schedule *schedule; /* NULL: nothing is away */
    const graft_kernels_more *more;
    graft_device *device;
    graft_lane *lane; /* NULL: in files */
    uint8_t *window;
    graft_pack *const *pack; /* of each use */
    size_t loaded, needed;
} graft_offload_run;
void graft_offload_begin(graft_offload_run *r);
graft_status graft_offload_before(graft_offload_run *r, size_t step);
void graft_offload_end(graft_offload_run *r);
#endif
