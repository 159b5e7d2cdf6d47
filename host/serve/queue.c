#include "host/serve/queue.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

void graft_queue_init(graft_queue *q, graft_store *store, graft_hub *hub)
{
    memset(q, 0, sizeof *q);
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->changed, &attr);
    pthread_condattr_destroy(&attr);
    atomic_init(&q->cancel, 0);
    atomic_init(&q->busy, false);
    q->store = store;
    q->hub = hub;
}

void graft_queue_finish(graft_queue *q)
{
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
}

void graft_queue_status(graft_queue *q, const char *sid, graft_str *out)
{
    graft_str_printf(out,
                     "{\"type\":\"status\",\"data\":{\"status\":{\"exec_info\":{"
                     "\"queue_remaining\":%lld}}",
                     (long long)graft_store_remaining(q->store));
    if (sid) {
        graft_str_puts(out, ",\"sid\":");
        graft_str_json(out, sid);
    }
    graft_str_puts(out, "}}");
}

static void broadcast(graft_queue *q)
{
    graft_str s = GRAFT_STR_INIT;
    graft_queue_status(q, NULL, &s);
    graft_hub_text(q->hub, NULL, &s);
}

graft_status graft_queue_add(graft_queue *q, graft_store_job *job, graft_err *e)
{
    pthread_mutex_lock(&q->lock);
    graft_status st = graft_store_add(q->store, job, e);
    if (!st) {
        q->newest = job->seq;
        q->newest_at = graft_clock_now();
        broadcast(q);
        pthread_cond_signal(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

/* Writing a job down may take long when the disk is busy, so what it says itself is too early: good
 * enough for one that others came after. A time that is yet to come is from before the clock was
 * set. */
double graft_queue_added(graft_queue *q, const graft_store_job *job)
{
    pthread_mutex_lock(&q->lock);
    bool newest = job->seq == q->newest;
    double at = q->newest_at;
    pthread_mutex_unlock(&q->lock);
    int64_t age = graft_clock_ms() - job->created;
    if (newest) return at;
    return age < 0 ? 0 : graft_clock_now() - 1e-3 * (double)age;
}

/* Waits for a change, or a second at most; locked. */
static void wait_a_second(graft_queue *q)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec++;
    pthread_cond_timedwait(&q->changed, &q->lock, &t);
}

graft_queue_work graft_queue_wait(graft_queue *q, graft_store_job *out)
{
    graft_queue_work work = GRAFT_QUEUE_STOP;
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&q->lock);
    while (!q->stopping) {
        bool found = false;
        if (q->free_memory) {
            q->free_memory = false;
            work = GRAFT_QUEUE_FREE;
            break;
        }
        graft_status st = graft_store_next(q->store, graft_clock_ms(), out, &found, NULL);
        if (!st && found) {
            snprintf(q->running, sizeof q->running, "%s", out->id);
            atomic_store(&q->cancel, 0);
            atomic_store(&q->busy, true);
            broadcast(q);
            work = GRAFT_QUEUE_JOB;
            break;
        }
        if (st) /* a full disk, for example: try again in a while */
            wait_a_second(q);
        else
            pthread_cond_wait(&q->changed, &q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return work;
}

graft_status graft_queue_end(graft_queue *q, const graft_store_end *end, void (*told)(void *ctx),
                             void *ctx, graft_err *e)
{
    pthread_mutex_lock(&q->lock);
    graft_status st = graft_store_finish(q->store, end, e);
    if (!st || st == GRAFT_E_NOTFOUND) {
        q->running[0] = 0;
        atomic_store(&q->cancel, 0);
        atomic_store(&q->busy, false);
        told(ctx);
        broadcast(q);
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

bool graft_queue_pause(graft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    if (!q->stopping) wait_a_second(q);
    bool goes_on = !q->stopping;
    pthread_mutex_unlock(&q->lock);
    return goes_on;
}

bool graft_queue_busy(const graft_queue *q)
{
    return atomic_load(&q->busy);
}

bool graft_queue_cancel(graft_queue *q, const char *id)
{
    pthread_mutex_lock(&q->lock);
    bool hit = q->running[0] && (!id || strcmp(id, q->running) == 0);
    if (hit) atomic_store(&q->cancel, 1);
    pthread_mutex_unlock(&q->lock);
    return hit;
}

graft_status graft_queue_delete(graft_queue *q, const char *id, int64_t *changed, graft_err *e)
{
    pthread_mutex_lock(&q->lock);
    graft_status st = graft_store_delete(q->store, GRAFT_STORE_PENDING, id, changed, e);
    if (*changed) broadcast(q);
    pthread_mutex_unlock(&q->lock);
    return st;
}

void graft_queue_free(graft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->free_memory = true;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void graft_queue_stop(graft_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->stopping = true;
    if (q->running[0]) atomic_store(&q->cancel, 1);
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}
