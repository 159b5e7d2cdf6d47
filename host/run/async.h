/* Calls of nodes, and the threads in which asynchronous ones run beside the thread that runs. */
#ifndef GRAFT_HOST_RUN_ASYNC_H
#define GRAFT_HOST_RUN_ASYNC_H
#include "host/run/dispatch.h"

#define GRAFT_ASYNC_MAX 32 /* threads at once */

/* One call of a node from its start to what came of it. */
typedef struct graft_async_call {
    size_t node;
    graft_where where;
    graft_dispatch call;
    graft_job job;
    graft_result *result; /* NULL after a failure, and when the node expands */
    graft_status st;
    graft_err e;
    struct graft_async *owner;
    struct graft_async_call *next;
    pthread_t thread;
} graft_async_call;

/* Only `node`, `where` and `call.node` are set; the rest is the caller's. NULL: no memory. */
graft_async_call *graft_async_call_create(const graft_agenda *a, size_t node);
void graft_async_call_destroy(graft_async_call *t); /* NULL is fine */
void graft_async_call_run(graft_async_call *t);

typedef struct graft_async {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    graft_async_call *first, *last; /* finished, and not yet taken */
    size_t running;                 /* started, and not yet taken */
    atomic_int stop;                /* all that runs should end; any thread */
    atomic_int helpers;             /* threads that may still be started for calls over lists */
} graft_async;

void graft_async_init(graft_async *a);
void graft_async_finish(graft_async *a); /* stops what runs, and waits for it */
/* False when there are too many already, or no thread can be made: then it is still the caller's.
 */
bool graft_async_start(graft_async *a, graft_async_call *t);
/* A task that has run, or NULL. `wait`: until there is one, or none runs. */
graft_async_call *graft_async_take(graft_async *a, bool wait);
#endif
