/* Progress of one picture of a batch as progress of all. */
#ifndef GRAFT_API_BATCH_H
#define GRAFT_API_BATCH_H
#include "engine/task.h"

typedef struct graft_batch_task {
    const graft_task *whole; /* may be NULL */
    uint64_t index, count;   /* of the picture; of all */
} graft_batch_task;

/* The task for picture b->index, which refers to *b. */
graft_task graft_batch_task_of(graft_batch_task *b);
#endif
