/* The allocator that every layer uses: counted, and made to fail on purpose by tests.
 *
 * Memory goes back through graft_free() of the same binary: each shared object has its own copy.
 * All functions: any thread. */
#ifndef GRAFT_BASE_ALLOC_H
#define GRAFT_BASE_ALLOC_H
#include <stddef.h>
#include <stdint.h>

/* NULL when memory is short or a planned failure is due. A size of 0 gives a unique pointer. */
void *graft_malloc(size_t size);
void *graft_calloc(size_t count, size_t size);           /* zeroed; checks count*size */
void *graft_realloc(void *p, size_t count, size_t size); /* p stays valid on NULL */
void *graft_malloc_array(size_t count, size_t size);     /* checks count*size */
void *graft_malloc_aligned(size_t align, size_t size);   /* align: power of two >= 8 */
void graft_free(void *p);                                /* NULL is fine */
/* Gives freed memory back to the system where the C library keeps it for later. Takes some
 * milliseconds. */
void graft_alloc_trim(void);
char *graft_strdup(const char *s);
char *graft_strndup(const char *s, size_t n);

/* Grows *array (elements of `size` bytes) so that `need` fit; *cap is in elements. Returns 0, or -1
 * with everything unchanged. */
int graft_grow(void *array, size_t *cap, size_t need, size_t size);

typedef struct graft_alloc_stats {
    int64_t live_blocks; /* allocated and not yet freed */
    int64_t total_blocks;
} graft_alloc_stats;
void graft_alloc_stats_get(graft_alloc_stats *out);

/* Tests: the n-th allocation from now (1 = the next) returns NULL, once; 0 turns it off. Returns
 * how many were left until that of the call before; 0: it came. */
int64_t graft_alloc_fail_at(int64_t n);
#endif
