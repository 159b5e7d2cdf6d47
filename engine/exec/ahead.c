#include "engine/exec/ahead.h"

#include <pthread.h>

#include "base/alloc.h"

#define WORTH   ((uint64_t)1 << 20)   /* bytes that are read by threads of their own */
#define EACH    ((uint64_t)4 << 20)   /* bytes that another thread is worth */
#define AHEAD   ((uint64_t)256 << 20) /* bytes */
#define READERS 8

enum { UNREAD, READING, WAS_READ }; /* by one of the threads */

struct graft_ahead {
    const graft_weights *w;
    graft_ahead_item *item;
    size_t n;
    pthread_t thread[READERS];
    int threads;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t moved, read;
    uint8_t *state; /* of each item */
    size_t next;    /* that nobody has taken */
    size_t reached; /* by the packer */
    size_t forgotten;
    uint64_t held; /* bytes of those that were taken and are not done with */
    bool ending;
};

static void read_item(graft_ahead *a, graft_ahead_item *i)
{
    graft_hash content;
    if (!i->slot || graft_weights_unchanged(a->w, NULL)) return;
    if (i->load && graft_slot_data_wanted(a->w, i->slot, i->wanted, &i->data, NULL)) return;
    graft_weights_slot_hash(a->w, i->slot, &content, NULL); /* which the tensors remember */
}

static void forget_item(const graft_ahead *a, size_t i)
{
    if (a->item[i].slot) graft_weights_forget(a->w, a->item[i].slot);
}

/* Whether the next item may be read now: the one that the packer waits for in any case. */
static bool may_read(const graft_ahead *a)
{
    return a->next <= a->reached || a->held + a->item[a->next].bytes <= AHEAD;
}

/* The next thing to do, without the lock meanwhile; false: there is none. Pages that nobody needs
 * any more go first, or the packer would have to do that. */
static bool do_next(graft_ahead *a)
{
    if (a->forgotten < a->reached) {
        size_t i = a->forgotten++;
        pthread_mutex_unlock(&a->lock);
        forget_item(a, i);
        pthread_mutex_lock(&a->lock);
        return true;
    }
    if (a->next == a->n || !may_read(a)) return false;
    size_t i = a->next++;
    a->held += a->item[i].bytes;
    a->state[i] = READING;
    pthread_mutex_unlock(&a->lock);
    read_item(a, &a->item[i]);
    pthread_mutex_lock(&a->lock);
    a->state[i] = WAS_READ;
    if (i == a->reached) pthread_cond_signal(&a->read);
    return true;
}

static void *reader_main(void *arg)
{
    graft_ahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->ending)
        if (!do_next(a)) pthread_cond_wait(&a->moved, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

graft_ahead *graft_ahead_begin(const graft_weights *w, graft_ahead_item *item, size_t n,
                               int threads)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += item[i].slot ? item[i].bytes : 0;
    if (threads < 2 || bytes < WORTH) return NULL;
    graft_ahead *a = graft_calloc(1, sizeof *a);
    uint8_t *state = graft_calloc(n, sizeof *state);
    if (!a || !state) {
        graft_free(a);
        graft_free(state);
        return NULL;
    }
    a->w = w;
    a->item = item;
    a->n = n;
    a->state = state;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->moved, NULL);
    pthread_cond_init(&a->read, NULL);
    int most = threads - 1 < READERS ? threads - 1 : READERS;
    while (a->threads < most && (uint64_t)a->threads * EACH <= bytes &&
           pthread_create(&a->thread[a->threads], NULL, reader_main, a) == 0)
        a->threads++;
    return a;
}

void graft_ahead_reach(graft_ahead *a, size_t i)
{
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    for (; a->reached < i; a->reached++) {
        if (a->state[a->reached] == WAS_READ) a->held -= a->item[a->reached].bytes;
        graft_slot_data_finish(&a->item[a->reached].data);
    }
    if (a->next <= i) a->next = i + 1; /* the packer reads it itself */
    pthread_cond_broadcast(&a->moved);
    while (a->state[i] == READING) pthread_cond_wait(&a->read, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

void graft_ahead_end(graft_ahead *a)
{
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    a->ending = true;
    pthread_cond_broadcast(&a->moved);
    pthread_mutex_unlock(&a->lock);
    while (a->threads) pthread_join(a->thread[--a->threads], NULL);
    for (size_t i = a->reached; i < a->n; i++) graft_slot_data_finish(&a->item[i].data);
    for (size_t i = a->forgotten; i < a->next; i++) forget_item(a, i);
    pthread_cond_destroy(&a->read);
    pthread_cond_destroy(&a->moved);
    pthread_mutex_destroy(&a->lock);
    graft_free(a->state);
    graft_free(a);
}
