/* The line of jobs and the one that runs. Jobs live in the store; this adds waiting, cancelling and
 * telling the clients how long the line is. All functions: any thread, unless marked. */
#ifndef GRAFT_HOST_SERVE_QUEUE_H
#define GRAFT_HOST_SERVE_QUEUE_H
#include <pthread.h>
#include <stdatomic.h>

#include "host/serve/hub.h"
#include "host/serve/store.h"

#define GRAFT_QUEUE_ID 129 /* an id with its terminator */

typedef struct graft_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    graft_store *store;
    graft_hub *hub;
    char running[GRAFT_QUEUE_ID]; /* "": nothing runs */
    atomic_int cancel;            /* of the running job */
    atomic_bool busy;             /* something runs */
    int64_t newest;               /* graft_store_job.seq of the job that was added last */
    double newest_at;             /* graft_clock_now() behind that */
    bool stopping, free_memory;
} graft_queue;

void graft_queue_init(graft_queue *q, graft_store *store, graft_hub *hub);
void graft_queue_finish(graft_queue *q);

/* As graft_store_add, and tells everybody. */
graft_status graft_queue_add(graft_queue *q, graft_store_job *job, graft_err *e);

typedef enum graft_queue_work {
    GRAFT_QUEUE_STOP, /* the server ends */
    GRAFT_QUEUE_JOB,  /* *out is to be run, then graft_queue_end() */
    GRAFT_QUEUE_FREE  /* kept results are to be dropped */
} graft_queue_work;
/* Waits for something to do. The worker only. */
graft_queue_work graft_queue_wait(graft_queue *q, graft_store_job *out);
/* graft_clock_now() when a job was added, or a moment earlier. */
double graft_queue_added(graft_queue *q, const graft_store_job *job);
/* Writes the history entry, frees the place and tells everybody, in one step; calls `told` between
 * the entry and the telling. A failure leaves the job running and tells nobody, so it is to be
 * called again after graft_queue_pause(); but not after GRAFT_E_NOTFOUND, which means that the
 * store has lost the job. The worker only. */
graft_status graft_queue_end(graft_queue *q, const graft_store_end *end, void (*told)(void *ctx),
                             void *ctx, graft_err *e);
/* Lets a second pass, or less when the line changes; false when the server ends. */
bool graft_queue_pause(graft_queue *q);

/* True while a job runs. Takes no lock. */
bool graft_queue_busy(const graft_queue *q);

/* Stops the running job; with an id only if that is the one. True when a job was told to stop. */
bool graft_queue_cancel(graft_queue *q, const char *id);
/* As graft_store_delete for pending jobs, and tells everybody. */
graft_status graft_queue_delete(graft_queue *q, const char *id, int64_t *changed, graft_err *e);
void graft_queue_free(graft_queue *q);
/* Cancels what runs; graft_queue_wait() then says STOP. */
void graft_queue_stop(graft_queue *q);
/* Appends a "status" message; with `sid` when that is not NULL. */
void graft_queue_status(graft_queue *q, const char *sid, graft_str *out);
#endif
