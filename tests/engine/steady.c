/* After the first steps nothing is allocated, no page is touched for the first time and no lock is
 * waited for: counted between the steps of a sampling, in the whole process.
 *
 * malloc and its kin, and pthread_mutex_lock, are replaced by ones that count; the kernel libraries
 * and oneDNN call these too. What oneDNN itself allocates to pass on the arguments of a primitive,
 * less than 1 KiB each, cannot be avoided from outside and is only printed. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "tests/engine/sample.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS 0
#else
#define COUNTS 1
#endif

#define SMALL 1024

static atomic_long allocations, small_ones, waits;

#if COUNTS
#pragma GCC visibility push(default) /* the libraries must find them */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n);

static void note(size_t n)
{
    atomic_fetch_add(n < SMALL ? &small_ones : &allocations, 1);
}

void *malloc(size_t n)
{
    note(n);
    return __libc_malloc(n);
}
void *calloc(size_t count, size_t n)
{
    note(count > SMALL || n > SMALL ? SMALL : count * n);
    return __libc_calloc(count, n);
}
void *realloc(void *p, size_t n)
{
    note(n);
    return __libc_realloc(p, n);
}
void *memalign(size_t align, size_t n)
{
    note(n);
    return __libc_memalign(align, n);
}
void *aligned_alloc(size_t align, size_t n)
{
    return memalign(align, n);
}
int posix_memalign(void **p, size_t align, size_t n)
{
    *p = memalign(align, n);
    return *p ? 0 : ENOMEM;
}

/* Only a lock that another thread holds makes a step wait. */
int pthread_mutex_lock(pthread_mutex_t *m)
{
    int taken = pthread_mutex_trylock(m);
    if (taken != EBUSY) return taken;
    atomic_fetch_add(&waits, 1);
    return pthread_mutex_timedlock(m, &(struct timespec){.tv_sec = INT32_MAX});
}
#pragma GCC visibility pop
#endif

#define STEPS 12
#define FIRST 4 /* steps until everything is in place */

typedef struct counts {
    long allocations, small_ones, faults, waits;
} counts;
static counts at[STEPS + 1];

static counts count(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (counts){atomic_load(&allocations), atomic_load(&small_ones), u.ru_minflt + u.ru_majflt,
                    atomic_load(&waits)};
}

static void step_done(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    if (total == STEPS && done <= STEPS) at[done] = count();
}

/* Whether oneDNN multiplies weights that are packed ahead; else it packs them in every call. */
static bool onednn_packs(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512bw") && !getenv("ONEDNN_MAX_CPU_ISA");
#else
    return false;
#endif
}

/* Other programs can make the kernel take pages away, so a fault counts when every step has one. */
static void steps_of(const char *backend, const char *precision, const char *sampler)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = NULL;
    graft_cond *cond = NULL;
    graft_latent *empty = NULL, *out = NULL;
    graft_engine *g = make_engine(backend);
    setenv("GRAFT_PRECISION", precision, 1);
    memset(at, 0, sizeof at);
    CHECK_OK(graft_model_load(g, DEMO, NULL, &m, &e), &e);
    CHECK_OK(sample_cond(m, &cond, &e), &e);
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &empty, &e), &e);
    graft_task task = {.progress = step_done};
    CHECK_OK(sample_latent(m, cond, empty, sampler, STEPS, &task, &out, &e), &e);
    long blocks = 0, small = 0, locks = 0, fewest = -1;
    for (int i = FIRST; i < STEPS; i++) {
        long faults = at[i + 1].faults - at[i].faults;
        blocks += at[i + 1].allocations - at[i].allocations;
        small += at[i + 1].small_ones - at[i].small_ones;
        locks += at[i + 1].waits - at[i].waits;
        if (fewest < 0 || faults < fewest) fewest = faults;
    }
    printf("     %s %s %s: %ld allocations and %ld small ones, %ld page faults, %ld waits a step\n",
           backend, precision, sampler, blocks / (STEPS - FIRST), small / (STEPS - FIRST), fewest,
           locks / (STEPS - FIRST));
    CHECK(at[STEPS].allocations > 0 && at[STEPS].faults > 0); /* they do count */
    if (strcmp(backend, "cpu") == 0 && !onednn_packs())
        printf("     skipped: without AVX-512 oneDNN's products allocate\n");
    else
        CHECK_INT(blocks, 0);
    CHECK(small == 0 || strcmp(backend, "cpu") == 0);
    CHECK_INT(fewest, 0);
    CHECK_INT(locks, 0);
    graft_latent_release(out);
    graft_latent_release(empty);
    graft_cond_release(cond);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void a_step_only_computes(void)
{
    steps_of("cpu", "f32", "euler");
    steps_of("cpu", "bf16", "euler");
    steps_of("cpu", "bf16", "dpmpp_2m");
    steps_of("ref", "f32", "euler");
}

int main(void)
{
    if (!COUNTS) {
        printf("skipped: a sanitizer or another C library owns malloc here\n");
        return 0;
    }
    RUN(a_step_only_computes);
    return test_end();
}
