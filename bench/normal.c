#include "bench/normal.h"

#include <math.h>

/* Newton steps on the distribution function, each from the quantile before. */
void normal_quantiles(float *table)
{
    double x = 0;
    for (int i = GRAFT_NORMAL_QUANTILES / 2; i < GRAFT_NORMAL_QUANTILES; i++) {
        double p = (i + 0.5) / GRAFT_NORMAL_QUANTILES;
        for (int k = 0; k < 8; k++)
            x -= (0.5 * erfc(-x * sqrt(0.5)) - p) / (exp(-0.5 * x * x) * 0.3989422804014327);
        table[i] = (float)x;
        table[GRAFT_NORMAL_QUANTILES - 1 - i] = (float)-x;
    }
}

uint64_t normal_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
