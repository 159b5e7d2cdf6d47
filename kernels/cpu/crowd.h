/* What to do when other programs want the processors as well.
 *
 * Threads meet at the end of every operator. Where one of them has lost its processor the others
 * wait for as long as the scheduler lets it wait, some milliseconds, a hundred times what a small
 * operator takes. So small operators are timed; after one that took far too long they run on the
 * caller's thread alone for a while, which is made longer as long as that goes on. Large ones lose
 * little by waiting and always get all threads. Results do not depend on it: each of our own is
 * computed by one thread, in an order that shapes decide, and oneDNN's convolutions are cut up when
 * a kernel is made. Its matrix products need the threads that they were made for, so what it
 * computes of LINEAR (linear.c) is never small. */
#ifndef GRAFT_KERNELS_CPU_CROWD_H
#define GRAFT_KERNELS_CPU_CROWD_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/op_desc.h"

/* Of one device; zeroed at first. Nanoseconds of CLOCK_MONOTONIC. */
typedef struct graft_cpu_crowd {
    _Atomic int64_t until; /* when small operators may have all threads again */
    _Atomic int64_t pause; /* how long they did without the last time */
} graft_cpu_crowd;

/* Nanoseconds that an operator takes on one thread of a slow processor; INT64_MAX when it is not
 * small. */
int64_t graft_cpu_crowd_usual(const graft_op_desc *op);
/* [any] Whether a small operator that begins now had better run alone; *now: the time. */
bool graft_cpu_crowd_alone(graft_cpu_crowd *c, int64_t *now);
/* [any] It did not, began at `since`, and has ended. */
void graft_cpu_crowd_ended(graft_cpu_crowd *c, int64_t usual, int64_t since);
#endif
