/* A few threads that share out numbered pieces of work, and are gone when it is done. Any thread
 * may have a crew. */
#ifndef GRAFT_EXEC_CREW_H
#define GRAFT_EXEC_CREW_H
#include "engine/engine.h"

/* Piece i. `task` is NULL on all threads but the caller's, where it may report progress. */
typedef graft_status graft_crew_fn(void *ctx, size_t i, const graft_task *task, graft_err *e);

/* Runs pieces 0 .. n-1 in about this order on up to `threads` threads, the calling one among them,
 * which also asks whether the task is cancelled. After a failure no piece is begun; the first one
 * is returned. */
graft_status graft_crew_run(size_t n, int threads, graft_crew_fn *fn, void *ctx,
                            const graft_task *task, graft_err *e);
#endif
