/* Recordings of runs, for devices that can record a run's launches and repeat them as one.
 *
 * A recording is good for the addresses that it was made with, whatever lies there: those of the
 * arena and of the weights. So an executable keeps a few, and going back to weights that are still
 * on the device is the choice of another recording. */
#ifndef GRAFT_EXEC_RECORDINGS_H
#define GRAFT_EXEC_RECORDINGS_H
#include <stdbool.h>

#include "base/hash.h"
#include "engine/exec/backend.h"

#define GRAFT_RECORDINGS                                                                           \
    8 /* two a set of weights (run.c); the longest unused goes when there are more */
typedef struct graft_recordings graft_recordings;

/* NULL when the backend cannot record, or memory is short: runs are ordinary ones then. */
graft_recordings *graft_recordings_create(graft_backend *b);
void graft_recordings_destroy(graft_recordings *r);
/* Gives back the memory of those that do not run now; NULL is fine. They are recorded anew when
 * their runs come again. Any thread. */
void graft_recordings_trim(graft_recordings *r);
/* Launches every step in order; stops at the first failure. */
typedef graft_status graft_recording_launch(void *ctx);
/* Repeats the run with this key, which names all its addresses, or records it, if it has run to its
 * end before; else *done is false, and the caller shall run ordinarily. Runs with equal keys do not
 * happen at once, since they share an arena. r may be NULL. Any thread. */
graft_status graft_recordings_run(graft_recordings *r, graft_hash key,
                                  graft_recording_launch *launch, void *ctx, bool *done);
/* An ordinary run with this key came to its end, so that all its kernels are loaded, which nothing
 * may do inside a recording. r may be NULL. Any thread. */
void graft_recordings_ran(graft_recordings *r, graft_hash key);
#endif
