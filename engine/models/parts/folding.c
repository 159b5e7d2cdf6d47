#include "engine/models/parts/folding.h"

#include <math.h>

#include "engine/image/latent.h"

#define SIDE   2 /* cells of a square */
#define PLANES GRAFT_VAE_FOLDED_PLANES
_Static_assert(PLANES == GRAFT_LATENT_FOLDED_CHANNELS, "latents tell by it how large they are");

graft_status graft_folding_read(const graft_weights *w, graft_folding *out, graft_err *e)
{
    graft_status st = graft_weights_values(w, GRAFT_VAE_MEAN, 0, PLANES, out->mean, e);
    if (!st) st = graft_weights_values(w, GRAFT_VAE_VARIANCE, 0, PLANES, out->deviation, e);
    for (int i = 0; i < PLANES && !st; i++) {
        const float variance = out->deviation[i];
        if (!isfinite(out->mean[i]) || !isfinite(variance) || variance < 0)
            st = graft_fail(e, GRAFT_E_FORMAT,
                            "%s: latents of mean %g and variance %g in plane %d make no sense",
                            graft_safetensors_path(graft_weights_file(w)), (double)out->mean[i],
                            (double)variance, i);
        out->deviation[i] = sqrtf(variance + GRAFT_FOLDING_EPS);
    }
    return st;
}

void graft_folding_alone(graft_folding *out)
{
    for (int i = 0; i < PLANES; i++) {
        out->mean[i] = 0;
        out->deviation[i] = 1;
    }
}

/* Where the cells of a plane begin; its next one is SIDE further, its next row SIDE rows of cells.
 */
static int64_t first_cell(int plane, int64_t height, int64_t width)
{
    const int64_t c = plane / (SIDE * SIDE), y = plane / SIDE % SIDE, x = plane % SIDE;
    return (c * SIDE * height + y) * SIDE * width + x;
}

void graft_folding_undo(const graft_folding *f, const float *places, int64_t height, int64_t width,
                        float *cells)
{
    for (int p = 0; p < PLANES; p++) {
        float *to = cells + first_cell(p, height, width);
        const float mean = f->mean[p], deviation = f->deviation[p];
        for (int64_t y = 0; y < height; y++, to += SIDE * SIDE * width)
            for (int64_t x = 0; x < width; x++) to[SIDE * x] = *places++ * deviation + mean;
    }
}

void graft_folding_do(const graft_folding *f, const float *cells, int64_t height, int64_t width,
                      float *places)
{
    for (int p = 0; p < PLANES; p++) {
        const float *from = cells + first_cell(p, height, width);
        const float mean = f->mean[p], deviation = f->deviation[p];
        for (int64_t y = 0; y < height; y++, from += SIDE * SIDE * width)
            for (int64_t x = 0; x < width; x++) *places++ = (from[SIDE * x] - mean) / deviation;
    }
}
