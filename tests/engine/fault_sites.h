/* Where a test of failing allocations has come: each allocation is known by the calls that led to
 * it. The test's link options put the functions below in place of the C library's. */
#ifndef GRAFT_TESTS_ENGINE_FAULT_SITES_H
#define GRAFT_TESTS_ENGINE_FAULT_SITES_H
#include <execinfo.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/test.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SPREAD = 3, CALLS = 3 };
#else
enum { SPREAD = 3, CALLS = 2 }; /* fewer calls make fewer sites */
#endif

enum { SITES = 4096, BLOCKS = 1 << 16 };

/* All sites of all scenarios so far; of each that the present one came to first, its blocks. */
static struct {
    uint64_t name[SITES];
    int64_t blocks[SITES]; /* 0: came up in an earlier scenario */
    size_t n, earlier;
    uint16_t of[BLOCKS]; /* the site of each block of the present scenario, 0 for the first block */
    int64_t first, count;
    bool recording;
} sites;

static int64_t total_blocks(void)
{
    graft_alloc_stats s;
    graft_alloc_stats_get(&s);
    return s.total_blocks;
}

static size_t site_of(uint64_t name)
{
    size_t i = 0;
    while (i < sites.n && sites.name[i] != name) i++;
    if (i == sites.n && sites.n < SITES) {
        sites.name[sites.n] = name;
        sites.blocks[sites.n++] = 0;
    }
    return i;
}

/* Called by the C library's functions below, which the linker puts in place of those that
 * base/alloc.c calls. */
static void note_block(void)
{
    void *call[CALLS + 3]; /* this function, its caller and graft_*alloc() lead nowhere new */
    uint64_t name = 0;
    if (!sites.recording) return;
    sites.recording = false; /* backtrace() may allocate */
    int n = backtrace(call, CALLS + 3);
    for (int i = 3; i < n; i++) name = (name ^ (uintptr_t)call[i]) * 1099511628211u;
    size_t site = site_of(name);
    int64_t block = total_blocks() - sites.first;
    CHECK(site < SITES && block == sites.count + 1 && block < BLOCKS);
    if (site < SITES && block < BLOCKS) {
        sites.of[block] = (uint16_t)site;
        if (site >= sites.earlier) sites.blocks[site]++;
        sites.count = block;
    }
    sites.recording = true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
int __real_posix_memalign(void **p, size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
int __wrap_posix_memalign(void **p, size_t align, size_t size);

void *__wrap_malloc(size_t size)
{
    note_block();
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    note_block();
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    note_block();
    return __real_realloc(p, size);
}

int __wrap_posix_memalign(void **p, size_t align, size_t size)
{
    note_block();
    return __real_posix_memalign(p, align, size);
}

static void begin_recording(void)
{
    sites.earlier = sites.n;
    sites.first = total_blocks();
    sites.count = 0;
    sites.recording = true;
}
#endif
