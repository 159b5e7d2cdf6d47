/* What does not change from run to run: loop-invariant code motion over the steps of a sampling.
 *
 * Some operators depend on weights and on inputs alone that stay the same over many runs: a UNet's
 * keys and values of a prompt, its embedding of a picture's size. An executable that knows which of
 * its inputs are steady knows these operators; a series of runs in which those inputs have the same
 * values computes them in its first run, into memory of their own, and leaves them out afterwards.
 * Results are the same bits: the same kernels compute them from the same numbers. */
#ifndef GRAFT_EXEC_INVARIANTS_H
#define GRAFT_EXEC_INVARIANTS_H
#include "engine/exec/exe.h"

/* Finds them; steady: a bit for each input of the graph. Once, before the executable is shared. */
graft_status graft_exe_find_invariants(graft_exe *x, uint32_t steady, graft_err *e);

/* The memory of one series of runs. One thread at a time. *out is NULL where the executable has
 * none. It must end before the executable and the arenas. */
graft_status graft_invariants_create(const graft_exe *x, graft_arenas *arenas,
                                     graft_invariants **out, graft_err *e);
void graft_invariants_destroy(graft_invariants *v); /* may be NULL */

/* For runs of this executable (run.c): the memory, and whether an earlier run of the series has
 * filled it. NULL without. */
uint8_t *graft_invariants_data(const graft_invariants *v);
bool graft_invariants_made(const graft_invariants *v);
void graft_invariants_make(graft_invariants *v); /* all of it has been handed to the device */
#endif
