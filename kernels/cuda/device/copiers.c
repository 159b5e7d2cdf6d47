#include "kernels/cuda/device/copiers.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#define SLICE ((uint64_t)256 << 10) /* that a thread copies at once */
#define LOOKS 128                   /* for another piece, before a thread sleeps */

/* Copies a slice of the first piece that has one; false: there is none. The lock is held, but not
 * meanwhile. */
static bool copy_slice(graft_cuda_copiers *c)
{
    if (c->next == c->end) return false;
    graft_cuda_piece *p = &c->piece[c->next % GRAFT_CUDA_PIECES];
    char *dst = p->dst + p->taken;
    const char *src = p->src + p->taken;
    uint64_t n = p->bytes - p->taken < SLICE ? p->bytes - p->taken : SLICE;
    p->taken += n;
    if (p->taken == p->bytes && ++c->next == c->end) atomic_store(&c->work, false);
    pthread_mutex_unlock(&c->lock);
    memcpy(dst, src, n);
    pthread_mutex_lock(&c->lock);
    p->copied += n;
    if (p->copied == p->bytes) pthread_cond_signal(&c->copied);
    return true;
}

/* The next piece often comes at once: waking a thread takes longer than to look for it, and where
 * others want the processor they get it. */
static void look(graft_cuda_copiers *c)
{
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < LOOKS && !atomic_load(&c->work); i++) sched_yield();
    pthread_mutex_lock(&c->lock);
}

static void *copier_main(void *arg)
{
    graft_cuda_copiers *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->ending) {
        if (copy_slice(c)) continue;
        look(c);
        if (c->ending || c->next != c->end) continue;
        c->sleeping++;
        pthread_cond_wait(&c->posted, &c->lock);
        c->sleeping--;
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Fewer threads than are wanted do as well. Signals are for the program's own threads. */
static void begin_threads(graft_cuda_copiers *c)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; c->wanted; c->wanted--)
        if (pthread_create(&c->thread[c->threads], NULL, copier_main, c) == 0) c->threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void graft_cuda_copiers_init(graft_cuda_copiers *c, int threads)
{
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->posted, NULL);
    pthread_cond_init(&c->copied, NULL);
    atomic_init(&c->work, false);
    c->wanted = threads < 1                    ? 0
                : threads > GRAFT_CUDA_COPIERS ? GRAFT_CUDA_COPIERS - 1
                                               : threads - 1;
}

void graft_cuda_copiers_finish(graft_cuda_copiers *c)
{
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_broadcast(&c->posted);
    pthread_mutex_unlock(&c->lock);
    while (c->threads) pthread_join(c->thread[--c->threads], NULL);
    pthread_cond_destroy(&c->copied);
    pthread_cond_destroy(&c->posted);
    pthread_mutex_destroy(&c->lock);
}

void graft_cuda_copiers_post(graft_cuda_copiers *c, void *dst, const void *src, uint64_t bytes)
{
    if (c->wanted && bytes > SLICE) begin_threads(c);
    pthread_mutex_lock(&c->lock);
    c->piece[c->end++ % GRAFT_CUDA_PIECES] =
        (graft_cuda_piece){.dst = dst, .src = src, .bytes = bytes};
    atomic_store(&c->work, true);
    if (c->sleeping) pthread_cond_broadcast(&c->posted);
    pthread_mutex_unlock(&c->lock);
}

void graft_cuda_copiers_complete(graft_cuda_copiers *c)
{
    pthread_mutex_lock(&c->lock);
    const graft_cuda_piece *p = &c->piece[c->begin % GRAFT_CUDA_PIECES];
    while (p->copied < p->bytes)
        if (!copy_slice(c)) pthread_cond_wait(&c->copied, &c->lock);
    c->begin++;
    pthread_mutex_unlock(&c->lock);
}
