/* Devices that can record a run's launches and repeat them as one: after a first ordinary run, the
 * second one of a binding is recorded, and later ones in the same arena are repeats. */
#ifndef GRAFT_EXEC_DEVICE_H
#define GRAFT_EXEC_DEVICE_H
#include <stdbool.h>

#include "engine/exec/backend.h"

typedef struct graft_recording graft_recording;

/* What a library has beyond the plain table; NULL for older and simpler ones. */
const graft_kernels_more *graft_backend_more(const graft_backend *b);

/* NULL when the backend cannot record, or memory is short: runs are ordinary ones then. */
graft_recording *graft_recording_create(const graft_backend *b);
void graft_recording_destroy(graft_recording *r);
/* Launches every step in order; stops at the first failure. */
typedef graft_status graft_recording_launch(void *ctx);
/* Repeats, or records and repeats, the run in the arena at `base`; *done false: the caller shall
 * run ordinarily. r may be NULL. [any] */
graft_status graft_recording_run(graft_recording *r, const void *base,
                                 graft_recording_launch *launch, void *ctx, bool *done);
#endif
