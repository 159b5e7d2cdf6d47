/* Progress of one picture of a batch as progress of all. */
#ifndef GRAFT_PICTURES_PICTURE_TASK_H
#define GRAFT_PICTURES_PICTURE_TASK_H
#include "engine/task.h"

typedef struct graft_picture_task {
    const graft_task *whole; /* may be NULL */
    uint64_t index, count;   /* of the picture; of all */
} graft_picture_task;

/* The task for picture b->index, which refers to *b. */
graft_task graft_picture_task_of(graft_picture_task *b);
#endif
