/* Comparing PNG files. */
#ifndef GRAFT_TESTS_PICTURES_H
#define GRAFT_TESTS_PICTURES_H
#include <math.h>
#include <stdint.h>

#include "engine/engine.h"

typedef struct picture_facts {
    int64_t width, height;
    double spread; /* standard deviation of all values, 0..1 */
} picture_facts;

static inline picture_facts picture_read(const char *path)
{
    graft_image *i = NULL;
    int64_t shape[4] = {0};
    picture_facts f = {0};
    if (!path || graft_image_load(path, &i, NULL, NULL)) return f;
    const float *v = graft_image_data(i, shape);
    int64_t n = shape[1] * shape[2] * shape[3];
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += v[k];
        squares += (double)v[k] * v[k];
    }
    f = (picture_facts){shape[2], shape[1],
                        sqrt(squares / (double)n - sum / (double)n * sum / (double)n)};
    graft_image_release(i);
    return f;
}

/* In dB; -1 when a file cannot be read or the sizes differ, 999 when all pixels are equal. */
static inline double picture_psnr(const char *a, const char *b)
{
    graft_image *x = NULL, *y = NULL;
    int64_t s[4] = {0}, t[4] = {0};
    double psnr = -1, error = 0;
    if (a && b && !graft_image_load(a, &x, NULL, NULL) && !graft_image_load(b, &y, NULL, NULL)) {
        const float *p = graft_image_data(x, s), *q = graft_image_data(y, t);
        int64_t n = s[1] * s[2] * s[3];
        if (s[1] == t[1] && s[2] == t[2] && s[3] == t[3]) {
            for (int64_t k = 0; k < n; k++) error += (double)(p[k] - q[k]) * (p[k] - q[k]);
            psnr = error > 0 ? -10 * log10(error / (double)n) : 999;
        }
    }
    graft_image_release(x);
    graft_image_release(y);
    return psnr;
}
#endif
