#include "engine/denoise/waves.h"

#include <math.h>

void graft_waves(double v, int64_t width, float *out)
{
    for (int64_t i = 0; i < width / 2; i++) {
        float f = expf((float)(-log(10000.0) * (double)i / (double)(width / 2)));
        out[i] = cosf((float)v * f);
        out[width / 2 + i] = sinf((float)v * f);
    }
}
