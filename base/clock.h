/* What time it is. Any thread. */
#ifndef GRAFT_BASE_CLOCK_H
#define GRAFT_BASE_CLOCK_H
#include <stdint.h>
#include <time.h>

/* Nanoseconds from some moment on; never goes back. */
static inline int64_t graft_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
/* The same in seconds. */
static inline double graft_clock_now(void)
{
    return 1e-9 * (double)graft_clock_ns();
}
/* Milliseconds since 1970. */
static inline int64_t graft_clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
#endif
