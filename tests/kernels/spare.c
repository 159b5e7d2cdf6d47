#include "tests/kernels/spare.h"

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

enum { BLOCKS = 24, HEAD = 64 /* in front of each, so that what follows is aligned */ };

typedef struct block {
    size_t room; /* behind the head */
} block;

static block *spare[BLOCKS];

/* The least that does, unless that is far more; -1: none. */
static int find(size_t bytes)
{
    int best = -1;
    for (int i = 0; i < BLOCKS; i++)
        if (spare[i] && spare[i]->room >= bytes && spare[i]->room / 8 <= bytes + 4096 &&
            (best < 0 || spare[i]->room < spare[best]->room))
            best = i;
    return best;
}

void *spare_take(size_t bytes)
{
    int i = find(bytes);
    block *b = i < 0 ? malloc(bytes + HEAD) : spare[i];
    if (!b) {
        fprintf(stderr, "out of memory\n");
        abort();
    }
    if (i < 0)
        b->room = bytes;
    else
        spare[i] = NULL;
    char *data = (char *)b + HEAD;
    FORBID(b + 1, HEAD - sizeof *b);
    ALLOW(data, bytes);
    FORBID(data + bytes, b->room - bytes);
    return data;
}

/* In an empty place, or in that of the smallest, which is freed then. */
void spare_give(void *p)
{
    if (!p) return;
    block *b = (block *)(void *)((char *)p - HEAD);
    int at = 0;
    for (int i = 0; i < BLOCKS && spare[at]; i++)
        if (!spare[i] || spare[i]->room < spare[at]->room) at = i;
    if (spare[at] && spare[at]->room >= b->room) {
        free(b);
        return;
    }
    free(spare[at]);
    FORBID(p, b->room);
    spare[at] = b;
}
