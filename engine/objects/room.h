/* Room for a run in the memory of a process and of a device. */
#ifndef GRAFT_OBJECTS_ROOM_H
#define GRAFT_OBJECTS_ROOM_H
#include "engine/objects/objects.h"

/* Makes room for this graph's arena and weights by letting go of weights, recordings and blocks
 * that nobody uses: down to GRAFT_MEMORY_MB, which is a limit, or to half of the device's memory,
 * which is not. What the device could never hold is refused before the system has to:
 * GRAFT_E_NOMEM; what is more than GRAFT_MEMORY_MB: GRAFT_E_LIMIT, with the smallest that would do.
 * *out: what its weights may take on the device, where some of them may stay in memory of the host
 * (job->offload). asked: the device is asked what it has left, though it should have enough: memory
 * ran out. */
graft_status graft_engine_make_room(graft_engine *g, const graft_exe *x,
                                    const graft_compile_job *job, bool asked,
                                    graft_offload_room *out, graft_err *e);
/* Whether so much may be kept of one step of a sampling for the next ones: not more than an eighth
 * of the memory there is, and of a device's not more than half of what is free. */
bool graft_engine_may_keep(const graft_backend *b, uint64_t bytes);
#endif
