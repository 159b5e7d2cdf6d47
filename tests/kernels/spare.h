/* Memory that is used again and again: large blocks are mapped anew each time they are asked for,
 * under sanitizers always, and page faults took up to half of a test's time. What nobody has asked
 * for may not be touched: AddressSanitizer is told. Any thread. */
#ifndef GRAFT_TESTS_KERNELS_SPARE_H
#define GRAFT_TESTS_KERNELS_SPARE_H
#include <stddef.h>

/* `bytes` of memory with anything in it. Aborts when there is none. */
void *spare_take(size_t bytes);
/* The same at a multiple of `align`, a power of two; NULL when there is none. */
void *spare_alloc(size_t align, size_t bytes);
/* p: of one of these, or NULL. */
void spare_give(void *p);
#endif
