#include "engine/pictures/moments.h"

#include <string.h>

#include "base/alloc.h"
#include "base/half.h"

graft_status graft_moments_begin(int64_t channels, int64_t width, graft_moments *out, graft_err *e)
{
    size_t c = (size_t)channels;
    memset(out, 0, sizeof *out);
    out->channels = channels;
    out->row_pixels = width;
    out->sum = graft_calloc(c, 2 * sizeof *out->sum);
    out->shift = graft_calloc(c, 3 * sizeof *out->shift);
    out->row = graft_malloc_array(c, (size_t)width * sizeof *out->row);
    if (!out->sum || !out->shift || !out->row) {
        graft_moments_end(out);
        return graft_fail_nomem(e, "statistics of a picture");
    }
    out->square = out->sum + c;
    return GRAFT_OK;
}

void graft_moments_end(graft_moments *m)
{
    graft_free(m->sum);
    graft_free(m->shift);
    graft_free(m->row);
    memset(m, 0, sizeof *m);
}

static const float *floats_of(graft_moments *m, graft_dtype dtype, const void *data, size_t n)
{
    if (dtype == GRAFT_F32) return data;
    if (dtype == GRAFT_BF16)
        graft_bf16_to_f32_array(data, m->row, n);
    else
        graft_f16_to_f32_array(data, m->row, n);
    return m->row;
}

/* One row in float32 sums of its own, which then go to double. */
static void add_row(graft_moments *m, const float *x)
{
    size_t channels = (size_t)m->channels;
    float *restrict sum = m->shift + channels, *restrict square = sum + channels;
    const float *restrict shift = m->shift;
    memset(sum, 0, 2 * channels * sizeof *sum);
    for (int64_t p = 0; p < m->row_pixels; p++, x += channels)
        for (size_t c = 0; c < channels; c++) {
            float d = x[c] - shift[c];
            sum[c] += d;
            square[c] += d * d;
        }
    for (size_t c = 0; c < channels; c++) {
        m->sum[c] += (double)sum[c];
        m->square[c] += (double)square[c];
    }
}

void graft_moments_add(graft_moments *m, graft_dtype dtype, const void *data, int64_t rows)
{
    size_t n = (size_t)(m->row_pixels * m->channels), bytes = n * graft_dtype_size(dtype);
    for (int64_t r = 0; r < rows; r++) {
        const float *x = floats_of(m, dtype, (const char *)data + (size_t)r * bytes, n);
        if (!m->count) memcpy(m->shift, x, (size_t)m->channels * sizeof *x);
        add_row(m, x);
        m->count += m->row_pixels;
    }
}

void graft_moments_take(const graft_moments *m, int64_t groups, float *out)
{
    int64_t size = m->channels / groups;
    double pixels = (double)m->count, count = pixels * (double)size;
    for (int64_t g = 0; g < groups; g++) {
        double mean = 0, square = 0;
        for (int64_t c = g * size; c < (g + 1) * size; c++)
            mean += pixels * (double)m->shift[c] + m->sum[c];
        mean /= count;
        for (int64_t c = g * size; c < (g + 1) * size; c++) {
            double own = m->sum[c] / pixels, apart = (double)m->shift[c] + own - mean;
            square += m->square[c] - m->sum[c] * own + pixels * apart * apart;
        }
        out[2 * g] = (float)mean;
        out[2 * g + 1] = (float)(square > 0 ? square / count : square * 0.0);
    }
}
