#include "engine/exec/crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "engine/task.h"

#define CREW_MAX 64

typedef struct crew {
    graft_crew_fn *fn;
    void *ctx;
    size_t n;
    _Atomic size_t next;
    _Atomic bool stop;
    pthread_mutex_t lock; /* guards what follows */
    graft_status st;
    graft_err err;
} crew;

/* The first failure counts; nobody begins another piece. */
static void fail(crew *c, graft_status st, const graft_err *e)
{
    pthread_mutex_lock(&c->lock);
    if (!c->st) {
        c->st = st;
        c->err = *e;
    }
    pthread_mutex_unlock(&c->lock);
    atomic_store(&c->stop, true);
}

static void work(crew *c, const graft_task *task)
{
    size_t i;
    while (!atomic_load(&c->stop) && (i = atomic_fetch_add(&c->next, 1)) < c->n) {
        graft_err e = GRAFT_ERR_INIT;
        graft_status st = GRAFT_OK;
        if (graft_task_cancelled(task))
            st = graft_fail(&e, GRAFT_E_CANCEL, "cancelled");
        else
            st = c->fn(c->ctx, i, task, &e);
        if (st) fail(c, st, &e);
    }
}

static void *thread_main(void *arg)
{
    work(arg, NULL);
    return NULL;
}

/* New threads begin on other processors than the caller's, which goes on working: some schedulers
 * leave a thread where it was made for longer than a crew lives. */
static void begin_elsewhere(pthread_attr_t *a)
{
    cpu_set_t set;
    int here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof set, &set) || CPU_COUNT(&set) < 2) return;
    CPU_CLR((size_t)here, &set);
    pthread_attr_setaffinity_np(a, sizeof set, &set);
}

graft_status graft_crew_run(size_t n, int threads, graft_crew_fn *fn, void *ctx,
                            const graft_task *task, graft_err *e)
{
    crew c = {.fn = fn, .ctx = ctx, .n = n};
    pthread_t thread[CREW_MAX];
    pthread_attr_t attr;
    int started = 0;
    if (threads > CREW_MAX) threads = CREW_MAX;
    if (threads > 0 && (size_t)threads > n) threads = (int)n;
    pthread_mutex_init(&c.lock, NULL);
    pthread_attr_init(&attr);
    if (threads > 1) begin_elsewhere(&attr);
    while (started + 1 < threads && pthread_create(&thread[started], &attr, thread_main, &c) == 0)
        started++;
    pthread_attr_destroy(&attr);
    work(&c, task);
    while (started > 0) pthread_join(thread[--started], NULL);
    pthread_mutex_destroy(&c.lock);
    if (c.st && e) *e = c.err;
    return c.st;
}
