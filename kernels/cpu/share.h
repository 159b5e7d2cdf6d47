/* Hands out the units of an operator's work to threads.
 *
 * Each begins with an equal piece of neighbouring units, which share what lies in a cache. Who has
 * none left takes half of what the one with most has not begun. So all end together also where one
 * is slower than the others, or loses its processor to another program for a while. Threads share
 * nothing while each has units of its own. */
#ifndef GRAFT_KERNELS_CPU_SHARE_H
#define GRAFT_KERNELS_CPU_SHARE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernel_abi.h"

/* A launch that may end early: thread 0, which is the caller's, asks, all others hear of it. */
typedef struct graft_cpu_stop {
    const graft_stop *ask;
    _Atomic bool stopped;
} graft_cpu_stop;

/* The units that a thread has before it, alone on a line: the first in the upper half, the end in
 * the lower one. */
typedef struct graft_cpu_piece {
    _Alignas(64) _Atomic uint64_t units;
} graft_cpu_piece;

typedef struct graft_cpu_share {
    graft_cpu_piece *piece; /* one a thread, in the workspace */
    int threads;
    int64_t most;  /* units taken at a time; fewer towards the end of a piece */
    int64_t least; /* fewer are not taken by themselves: whose they are has to come for them */
    graft_cpu_stop *stop; /* looked at whenever units are taken; NULL: they all are */
} graft_cpu_share;

/* Divides units 0 ... units - 1 (fewer than 2^32); `most` and `least` are set already, 0: 1; so is
 * `stop`.
 * `piece`: one for each thread, aligned to 64 bytes. */
void graft_cpu_share_begin(graft_cpu_share *s, graft_cpu_piece *piece, int64_t units, int threads);
/* Takes the next units of thread `own`: how many, from *first on; 0: there is nothing left to do,
 * or nobody wants it. [any], `own` on one thread at a time. */
int64_t graft_cpu_share_take(graft_cpu_share *s, int own, int64_t *first);
/* [any] Whether the thread has units before it, so that the one behind its last is likely its next.
 */
bool graft_cpu_share_goes_on(const graft_cpu_share *s, int own);
#endif
