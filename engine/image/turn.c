#include "engine/image/turn.h"

#include <string.h>

void graft_turn_shape(const graft_turn *t, const int64_t shape[4], int64_t out[4])
{
    bool lies = t->turns % 2;
    out[0] = shape[0];
    out[1] = lies ? shape[2] : shape[1];
    out[2] = lies ? shape[1] : shape[2];
    out[3] = shape[3];
}

void graft_turn_apply(const graft_turn *t, const float *src, const int64_t shape[4], float *dst)
{
    const int64_t h = shape[1], w = shape[2], inner = shape[3];
    for (int64_t p = 0; p < shape[0]; p++, dst += h * w * inner)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++, src += inner) {
                int64_t r = t->upside_down ? h - 1 - y : y, c = t->left_to_right ? w - 1 - x : x;
                const int64_t to[4] = {r * w + c, c * h + (h - 1 - r),
                                       (h - 1 - r) * w + (w - 1 - c), (w - 1 - c) * h + r};
                memcpy(dst + to[t->turns] * inner, src, (size_t)inner * sizeof *dst);
            }
}
