/* The search of MATCH_TOKENS. */
#include "kernels/cpu/simd/functions.h"

INLINE vf chosen(vi where, vf a, vf b)
{
    return (vf)(((vi)a & where) | ((vi)b & ~where));
}

void SIMD(peak)(const float *x, const float *factor, size_t n, int32_t first, float *best,
                int32_t *at)
{
    vf most = vf_set(*best);
    vi found, place;
    for (int i = 0; i < VL; i++) {
        found[i] = *at;
        place[i] = first + i;
    }
    for (size_t i = 0; i + VL <= n; i += VL, place += VL) {
        const vf v = vf_load(x + i) * vf_load(factor + i);
        const vi more = v > most;
        most = chosen(more, v, most);
        found = (place & more) | (found & ~more);
    }
    for (int i = 0; i < VL; i++) {
        if (!(most[i] > *best) && !(most[i] == *best && found[i] < *at)) continue;
        *best = most[i];
        *at = found[i];
    }
}
