#include "engine/pictures/picture_task.h"

static void progress(void *ctx, uint64_t done, uint64_t total)
{
    const graft_picture_task *b = ctx;
    graft_task_progress(b->whole, b->index * total + done, b->count * total);
}

static void phase(void *ctx, const char *name)
{
    graft_task_phase(((const graft_picture_task *)ctx)->whole, name);
}

static bool cancelled(void *ctx)
{
    return graft_task_cancelled(((const graft_picture_task *)ctx)->whole);
}

graft_task graft_picture_task_of(graft_picture_task *b)
{
    graft_task t = {.ctx = b, .progress = progress, .phase = phase, .cancelled = cancelled};
    if (b->whole) {
        t.compile_only = b->whole->compile_only;
        t.log = b->whole->log;
    }
    return t;
}
