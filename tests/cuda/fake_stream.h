/* The made-up driver's streams: the order in which work is done, events, and captures. One stream
 * has all launches. Another that waits for events of that one is a lane: copies which are done as
 * soon as they may be, or as late as they must be (fake_cuda.eager), so that a wait that is missing
 * on either side shows. */
#ifndef GRAFT_TESTS_CUDA_FAKE_STREAM_H
#define GRAFT_TESTS_CUDA_FAKE_STREAM_H
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fake_work {
    void (*run)(const void *);
    uint32_t grid[3], threads, shared; /* 0 threads: no kernel but a call */
    bool early;                        /* may begin before the kernel ahead has ended */
    bool copies;
    uint64_t behind; /* of the lane's work for launches, of launches for the lane's: what is over */
    char args[1024];
    struct fake_work *next;
} fake_work;

/* fake_driver.c */
void fake_cuda_run(const fake_work *n);
void fake_cuda_run_overlapped(const fake_work *n, const fake_work *next);
int *fake_cuda_sticky(void);
CUresult fake_cuda_outside(void); /* an error where the thread has no context */

/* An error while a capture goes on, which it harms, and where nothing works any more. */
CUresult fake_stream_idle(void);
bool fake_stream_records(void);
bool fake_stream_busy(void);
void fake_stream_finish(void); /* does all work */
CUresult fake_stream_launch(const fake_work *n);
CUresult fake_stream_copy(CUstream s, void *dst, const void *src, size_t n);
#endif
