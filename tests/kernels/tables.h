/* Names for GRAFT_CPU_ISA: the best instruction set of this machine, and those that it may have
 * below it. One that is not there stands for "plain". */
#ifndef GRAFT_TESTS_KERNELS_TABLES_H
#define GRAFT_TESTS_KERNELS_TABLES_H

#if defined(__aarch64__)
static const char *const tables[] = {"", "plain"};
#else
static const char *const tables[] = {"", "avx512", "avx2", "plain"};
#endif
enum { TABLES = sizeof tables / sizeof *tables };
#endif
