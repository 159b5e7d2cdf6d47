/* What the engine tells and asks a caller's task; the task and its functions may be NULL. On the
 * caller's thread only, as graft_task says. */
#ifndef GRAFT_TASK_H
#define GRAFT_TASK_H
#include "engine/engine.h"

static inline bool graft_task_cancelled(const graft_task *t)
{
    return t && t->cancelled && t->cancelled(t->ctx);
}
static inline void graft_task_phase(const graft_task *t, const char *name)
{
    if (t && t->phase) t->phase(t->ctx, name);
}
static inline void graft_task_progress(const graft_task *t, uint64_t done, uint64_t total)
{
    if (t && t->progress) t->progress(t->ctx, done, total);
}
#endif
