/* The pool of threads: libgomp's, which Debian's oneDNN uses as well, so that there is one. */
#include <omp.h>

#include "kernels/cpu/cpu.h"

#ifdef __clang__
/* clang's own OpenMP would bring a second pool; libgomp's entry is a stable interface. */
void GOMP_parallel(void (*fn)(void *), void *data, unsigned num_threads, unsigned flags);
#endif

typedef struct job {
    void (*fn)(void *ctx, int i, int n);
    void *ctx;
    int n;
} job;

/* There may be fewer threads than were asked for. */
static void run_job(void *p)
{
    const job *j = p;
    for (int i = omp_get_thread_num(); i < j->n; i += omp_get_num_threads()) j->fn(j->ctx, i, j->n);
}

bool graft_cpu_is_alone(void)
{
    return omp_get_max_active_levels() == 0;
}

void graft_cpu_parallel(int n, void (*fn)(void *ctx, int i, int n), void *ctx)
{
    if (n < 1) n = 1;
    if (n == 1 || graft_cpu_is_alone()) {
        for (int i = 0; i < n; i++) fn(ctx, i, n);
        return;
    }
    job j = {fn, ctx, n};
#ifdef __clang__
    GOMP_parallel(run_job, &j, (unsigned)n, 0);
#else
#pragma omp parallel num_threads(n)
    run_job(&j);
#endif
}

int graft_cpu_threads(const graft_device *d, int64_t work)
{
    int64_t most = work / 16384 + 1;     /* waking a thread costs about as much as that */
    int allowed = omp_get_max_threads(); /* packing runs on one thread */
    if (allowed > d->host.threads) allowed = d->host.threads;
    return most < allowed ? (int)most : allowed;
}

int graft_cpu_threads_set(int n)
{
    int before = omp_get_max_threads();
    /* oneDNN leaves out what it gave to threads that it does not get. */
    if (omp_get_dynamic()) omp_set_dynamic(0);
    if (before != n) omp_set_num_threads(n);
    return before;
}

int graft_cpu_alone_begin(void)
{
    int before = omp_get_max_active_levels();
    omp_set_max_active_levels(0);
    return before;
}

void graft_cpu_alone_end(int before)
{
    omp_set_max_active_levels(before);
}
