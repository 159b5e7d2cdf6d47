/* Random numbers of the standard normal distribution, by a look-up each. */
#ifndef GRAFT_BENCH_NORMAL_H
#define GRAFT_BENCH_NORMAL_H
#include <stdint.h>

#define GRAFT_NORMAL_QUANTILES 65536
/* The quantiles at (i + 1/2) / GRAFT_NORMAL_QUANTILES: a place in the table for each 16 bits. */
void normal_quantiles(float *table);
/* 64 of them. SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t normal_bits(uint64_t *state);
#endif
