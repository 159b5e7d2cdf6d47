/* What does not change from run to run: loop-invariant code motion over the steps of a sampling.
 *
 * Some operators depend on weights and on inputs alone that stay the same over many runs: a UNet's
 * keys and values of a prompt, its embedding of a picture's size. An executable that knows which of
 * its inputs are steady knows these operators; a series of runs in which those inputs have the same
 * values computes them in its first run, into memory of their own, and leaves them out afterwards.
 * Results are the same bits: the same kernels compute them from the same numbers. */
#ifndef GRAFT_EXEC_INVARIANTS_H
#define GRAFT_EXEC_INVARIANTS_H
#include "engine/exec/arenas.h"
#include "engine/exec/exe.h"

/* What stays the same over the runs of a series. */
typedef struct graft_steady {
    uint32_t inputs; /* a bit for each input of the graph */
    int64_t behind;  /* of the first input, (rows, values), what is from this value of each row on;
                        0: nothing */
} graft_steady;

/* Finds them. Once, before the executable is shared. */
graft_status graft_exe_find_invariants(graft_exe *x, graft_steady steady, graft_err *e);

/* More than this is given back to the system at the end, and not left for the next series. */
#define GRAFT_INVARIANTS_SMALL ((uint64_t)64 << 20)

/* The memory of one series of runs. One thread at a time. */
typedef struct graft_invariants graft_invariants;
/* *out is NULL where the executable has none. It must end before the executable and the arenas. */
graft_status graft_invariants_create(const graft_exe *x, graft_arenas *arenas,
                                     graft_invariants **out, graft_err *e);
void graft_invariants_destroy(graft_invariants *v); /* may be NULL */

/* For runs of this executable (run.c): the memory, and whether an earlier run of the series has
 * filled it. NULL without. */
uint8_t *graft_invariants_data(const graft_invariants *v);
bool graft_invariants_made(const graft_invariants *v);
void graft_invariants_make(graft_invariants *v); /* all of it has been handed to the device */
#endif
