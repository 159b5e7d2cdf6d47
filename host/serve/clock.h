/* Times as the protocol gives them. Any thread. */
#ifndef GRAFT_HOST_SERVE_CLOCK_H
#define GRAFT_HOST_SERVE_CLOCK_H
#include <stdint.h>
#include <time.h>

/* Milliseconds since 1970. */
static inline int64_t graft_clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
/* Seconds from some moment on; never goes back. */
static inline double graft_clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
#endif
