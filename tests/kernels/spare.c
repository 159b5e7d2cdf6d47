#include "tests/kernels/spare.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define FORBID(p, bytes) __asan_poison_memory_region(p, bytes)
#define ALLOW(p, bytes)  __asan_unpoison_memory_region(p, bytes)
#else
#define FORBID(p, bytes) ((void)(p), (void)(bytes))
#define ALLOW(p, bytes)  ((void)(p), (void)(bytes))
#endif

enum { BLOCKS = 48, HEAD = 64 /* in front of each, so that what follows is aligned */ };

typedef struct block {
    void *whole; /* what malloc gave */
    size_t room; /* behind the head */
} block;

static block *spare[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *data_of(block *b)
{
    return (char *)b + HEAD;
}

/* The least that does, unless that is far more; -1: none. */
static int find(size_t align, size_t bytes)
{
    int best = -1;
    for (int i = 0; i < BLOCKS; i++)
        if (spare[i] && spare[i]->room >= bytes && spare[i]->room / 8 <= bytes + 4096 &&
            (uintptr_t)data_of(spare[i]) % align == 0 &&
            (best < 0 || spare[i]->room < spare[best]->room))
            best = i;
    return best;
}

static block *find_out(size_t align, size_t bytes)
{
    pthread_mutex_lock(&lock);
    int i = find(align, bytes);
    block *b = i < 0 ? NULL : spare[i];
    if (b) spare[i] = NULL;
    pthread_mutex_unlock(&lock);
    return b;
}

static block *fresh(size_t align, size_t bytes)
{
    void *whole;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&whole, align, align + bytes)) return NULL;
    block *b = (block *)(void *)((char *)whole + align - HEAD);
    *b = (block){whole, bytes};
    FORBID(whole, align - HEAD);
    return b;
}

void *spare_alloc(size_t align, size_t bytes)
{
    if (align < HEAD) align = HEAD;
    block *b = find_out(align, bytes);
    if (!b && !(b = fresh(align, bytes))) return NULL;
    FORBID(b + 1, HEAD - sizeof *b);
    ALLOW(data_of(b), bytes);
    FORBID(data_of(b) + bytes, b->room - bytes);
    return data_of(b);
}

void *spare_take(size_t bytes)
{
    void *p = spare_alloc(HEAD, bytes);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        abort();
    }
    return p;
}

/* In an empty place, or in that of the smallest, which is freed then. */
void spare_give(void *p)
{
    if (!p) return;
    block *b = (block *)(void *)((char *)p - HEAD), *out = b;
    FORBID(p, b->room);
    pthread_mutex_lock(&lock);
    int at = 0;
    for (int i = 0; i < BLOCKS && spare[at]; i++)
        if (!spare[i] || spare[i]->room < spare[at]->room) at = i;
    if (!spare[at] || spare[at]->room < b->room) {
        out = spare[at];
        spare[at] = b;
    }
    pthread_mutex_unlock(&lock);
    if (out) free(out->whole);
}
