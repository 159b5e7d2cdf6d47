/* A graft_task that reports to the job which a host runs. */
#ifndef GRAFT_NODES_TASK_H
#define GRAFT_NODES_TASK_H
#include "engine/engine.h"
#include "nodes/call/embeddings.h"
#include "nodes/call/instance.h"

typedef struct graft_task_job { /* what a task's callbacks get */
    const graft_instance *self;
    graft_job *job;
    graft_embedding_files embeddings;
} graft_task_job;

/* `where`: self and job are set. Both arguments must outlive the task. */
void graft_task_init(graft_task *task, graft_task_job *where);
void graft_task_finish(graft_task_job *where);
#endif
