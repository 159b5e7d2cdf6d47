/* Mean and variance of the groups of a picture's channels, from rows that come bit by bit: what a
 * GROUP_NORM takes as moments (kernels/ops.def). One thread at a time. */
#ifndef GRAFT_PICTURES_MOMENTS_H
#define GRAFT_PICTURES_MOMENTS_H
#include "base/error.h"
#include "kernels/op_desc.h"

typedef struct graft_moments {
    int64_t channels, count; /* pixels so far */
    double *sum, *square; /* of each channel, about its first value: a large mean costs no digits */
    float *shift, *row;
    int64_t row_pixels;
} graft_moments;

graft_status graft_moments_begin(int64_t channels, int64_t width, graft_moments *out, graft_err *e);
void graft_moments_end(graft_moments *m);
/* rows x width pixels of all channels, dense, float32, bf16 or f16. */
void graft_moments_add(graft_moments *m, graft_dtype dtype, const void *data, int64_t rows);
/* out: (groups, 2): mean and variance; groups divides the channels. */
void graft_moments_take(const graft_moments *m, int64_t groups, float *out);
#endif
