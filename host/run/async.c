#include "host/run/async.h"

#include <string.h>

#include "base/alloc.h"

graft_async_call *graft_async_call_create(const graft_agenda *a, size_t node)
{
    const graft_prompt_node *n = a->node[node].n;
    graft_async_call *t = graft_calloc(1, sizeof *t);
    if (!t) return NULL;
    graft_job_init(&t->job);
    t->node = node;
    t->where = a->node[node].where;
    t->call.node = n;
    t->call.job = &t->job;
    t->call.from = graft_calloc(n->n_in, sizeof *t->call.from);
    if (!t->call.from) {
        graft_async_call_destroy(t);
        return NULL;
    }
    for (size_t i = 0; i < n->n_in; i++)
        if (n->in[i].linked) t->call.from[i] = a->node[n->in[i].node].result;
    return t;
}

void graft_async_call_destroy(graft_async_call *t)
{
    if (!t) return;
    graft_result_release(t->result);
    graft_expansion_finish(&t->call.expansion);
    graft_job_finish(&t->job);
    graft_free(t->call.from);
    graft_free(t);
}

void graft_async_call_run(graft_async_call *t)
{
    t->st = graft_dispatch_run(&t->call, &t->result, &t->e);
}

void graft_async_init(graft_async *a)
{
    memset(a, 0, sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    atomic_init(&a->stop, 0);
    atomic_init(&a->helpers, GRAFT_DISPATCH_HELPERS);
}

void graft_async_finish(graft_async *a)
{
    graft_async_call *t;
    atomic_store(&a->stop, 1);
    while ((t = graft_async_take(a, true))) graft_async_call_destroy(t);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
}

static void *run(void *task)
{
    graft_async_call *t = task;
    graft_async *a = t->owner;
    graft_async_call_run(t);
    pthread_mutex_lock(&a->lock);
    if (a->last)
        a->last->next = t;
    else
        a->first = t;
    a->last = t;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

bool graft_async_start(graft_async *a, graft_async_call *t)
{
    pthread_mutex_lock(&a->lock);
    bool room = a->running < GRAFT_ASYNC_MAX;
    t->owner = a;
    t->job.stop = &a->stop;
    if (room && pthread_create(&t->thread, NULL, run, t) == 0)
        a->running++;
    else
        room = false;
    pthread_mutex_unlock(&a->lock);
    return room;
}

graft_async_call *graft_async_take(graft_async *a, bool wait)
{
    pthread_mutex_lock(&a->lock);
    while (wait && !a->first && a->running) pthread_cond_wait(&a->changed, &a->lock);
    graft_async_call *t = a->first;
    if (t) {
        a->first = t->next;
        if (!a->first) a->last = NULL;
        a->running--;
    }
    pthread_mutex_unlock(&a->lock);
    if (t) pthread_join(t->thread, NULL);
    return t;
}
