/* Changes of guidance and guidance by three prompts (kernels/changes.h), on arrays in the host's
 * memory or a device's. */
#ifndef GRAFT_DENOISE_CHANGE_H
#define GRAFT_DENOISE_CHANGE_H
#include "engine/exec/memory.h"
#include "kernels/changes.h"

/* The doubles that a change of so many pictures, `area` values a channel, works in. */
size_t graft_change_work(int64_t pictures, int64_t area);
/* All pictures. */
graft_status graft_change_run(const graft_memory *m, const graft_change *c, graft_err *e);
#endif
