/* The memory planner: where each buffer of a run lies in one arena.
 *
 * Plain data in and out. A buffer lives from step `first` to step `last`, both included; two
 * buffers that live at one time must not overlap. A buffer may shrink once: its end is free from a
 * step on. Pure functions, any thread. */
#ifndef GRAFT_PLAN_PLAN_H
#define GRAFT_PLAN_PLAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct graft_interval {
    int64_t bytes;
    int32_t first, last; /* 0 <= first <= last; best small: the planner keeps a table of steps */
    int64_t offset;      /* set by graft_plan_offsets */
    int32_t shrinks;     /* the step from which on it is `rest` bytes, in (first, last]; 0: none */
    int64_t rest;        /* at most `bytes` */
} graft_interval;

/* Its bytes at a step at which it lives. */
static inline int64_t graft_interval_bytes(const graft_interval *v, int32_t step)
{
    return v->shrinks && step >= v->shrinks ? v->rest : v->bytes;
}

/* Greedy: one buffer after another, each at the lowest place where it fits, largest first. When
 * that is above the lower bound other orders are tried, and orders that place earlier what came out
 * on top; the best plan wins. Offsets are multiples of `alignment` (a power of two). *total is the
 * arena's size, *bound the lower bound. */
graft_status graft_plan_offsets(graft_interval *interval, size_t n, int64_t alignment,
                                int64_t *total, int64_t *bound, graft_err *e);
/* The largest sum of bytes (each rounded up to `alignment`) that live at one step: no plan can need
 * less. Independent like the next one: n * n steps. */
int64_t graft_plan_lower_bound(const graft_interval *interval, size_t n, int64_t alignment);
/* The independent check: every buffer inside [0,total), none overlapping another in time and place.
 * Compares every two of them, and knows nothing of how the offsets came about. */
bool graft_plan_valid(const graft_interval *interval, size_t n, int64_t alignment, int64_t total);
#endif
