#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/size.h"

/* The one process-wide state of base/: counters that describe the process, not a computation. */
static _Atomic int64_t live_blocks;
static _Atomic int64_t total_blocks;
static _Atomic int64_t fail_countdown;

static int must_fail(void)
{
    atomic_fetch_add_explicit(&total_blocks, 1, memory_order_relaxed);
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0) return 0;
    return atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) == 1;
}

static void *count(void *p)
{
    if (p) atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return p;
}

void *graft_malloc(size_t size)
{
    return must_fail() ? NULL : count(malloc(size ? size : 1));
}

void *graft_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (!graft_size_mul(n, size, &bytes) || must_fail()) return NULL;
    return count(calloc(1, bytes ? bytes : 1));
}

void *graft_malloc_array(size_t n, size_t size)
{
    size_t bytes;
    return graft_size_mul(n, size, &bytes) ? graft_malloc(bytes) : NULL;
}

void *graft_realloc(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (!graft_size_mul(n, size, &bytes) || must_fail()) return NULL;
    void *q = realloc(p, bytes ? bytes : 1);
    return p ? q : count(q);
}

void *graft_malloc_aligned(size_t align, size_t size)
{
    void *p = NULL;
    if (must_fail() || posix_memalign(&p, align, size ? size : 1)) return NULL;
    return count(p);
}

void graft_free(void *p)
{
    if (!p) return;
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    free(p);
}

char *graft_strndup(const char *s, size_t n)
{
    char *d = graft_malloc(n + 1);
    if (!d) return NULL;
    memcpy(d, s, n);
    d[n] = 0;
    return d;
}

void graft_alloc_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

char *graft_strdup(const char *s)
{
    return graft_strndup(s, strlen(s));
}

int graft_grow(void *array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return 0;
    size_t want = *cap ? *cap : 8;
    while (want < need)
        if (!graft_size_mul(want, 2, &want)) return -1;
    void *p;
    memcpy(&p, array, sizeof p);
    p = graft_realloc(p, want, size);
    if (!p) return -1;
    memcpy(array, &p, sizeof p);
    *cap = want;
    return 0;
}

void graft_alloc_stats_get(graft_alloc_stats *out)
{
    out->live_blocks = atomic_load(&live_blocks);
    out->total_blocks = atomic_load(&total_blocks);
}

int64_t graft_alloc_fail_at(int64_t n)
{
    int64_t left = atomic_exchange(&fail_countdown, n);
    return left > 0 ? left : 0;
}
