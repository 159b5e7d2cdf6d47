/* Threads that copy within the host's memory: one processor alone cannot feed the bus of a device.
 * Pieces are posted and completed in order, by one thread at a time, their leader, which copies as
 * well. The threads begin with the first piece that is worth it and sleep while there is none. */
#ifndef GRAFT_KERNELS_CUDA_COPIERS_H
#define GRAFT_KERNELS_CUDA_COPIERS_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    GRAFT_CUDA_COPIERS = 8, /* threads at most, the leader among them */
    GRAFT_CUDA_PIECES = 8   /* under way at most */
};

typedef struct graft_cuda_piece {
    char *dst;
    const char *src;
    uint64_t bytes, taken, copied; /* taken: given to somebody */
} graft_cuda_piece;

typedef struct graft_cuda_copiers {
    pthread_mutex_t lock;
    pthread_cond_t posted, copied;
    graft_cuda_piece piece[GRAFT_CUDA_PIECES]; /* a ring */
    uint64_t begin, next, end; /* the oldest, the first with bytes to take, behind the last */
    atomic_bool work;          /* there are bytes to take, for those who look without the lock */
    int sleeping;
    bool ending;
    pthread_t thread[GRAFT_CUDA_COPIERS - 1];
    int threads, wanted; /* beside the leader; wanted: not yet begun */
} graft_cuda_copiers;

/* threads: the leader among them. */
void graft_cuda_copiers_init(graft_cuda_copiers *c, int threads);
/* No piece is under way. */
void graft_cuda_copiers_finish(graft_cuda_copiers *c);
/* The number of pieces under way is less than GRAFT_CUDA_PIECES. */
void graft_cuda_copiers_post(graft_cuda_copiers *c, void *dst, const void *src, uint64_t bytes);
/* Returns when the oldest piece is complete, which then is none any more. There must be one. */
void graft_cuda_copiers_complete(graft_cuda_copiers *c);
#endif
