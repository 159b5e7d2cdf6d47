/* Names for GRAFT_CPU_ISA: the best instruction set of this machine, and those that it may have
 * below it. One that is not there stands for "plain". */
#ifndef GRAFT_TESTS_KERNELS_TABLES_H
#define GRAFT_TESTS_KERNELS_TABLES_H
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__aarch64__)
static const char *const tables[] = {"", "plain"};
#else
static const char *const tables[] = {"", "avx512", "avx_vnni", "avx2", "plain"};
#endif
enum { TABLES = sizeof tables / sizeof *tables };

/* Those that a test has tried, as libraries call themselves (graft_device_info). Start with {0}. */
typedef struct tables_tried {
    char identity[TABLES][128];
    size_t n;
} tables_tried;

/* Whether `wanted` stands for none of them; it is one now. */
static inline bool tables_new(tables_tried *t, const char *wanted, const char *identity)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->identity[i], identity) == 0) {
            printf("skipped: \"%s\" is what was tried before: %s\n", wanted, identity);
            return false;
        }
    if (t->n < TABLES) snprintf(t->identity[t->n++], sizeof t->identity[0], "%s", identity);
    return true;
}
#endif
