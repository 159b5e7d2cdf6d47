#include "engine/image/pixels.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/image/resize.h"

/* The part of the resized picture that is seen. */
static graft_resize_part seen(const graft_pixels *s, int64_t height, int64_t width)
{
    const int64_t shorter = height < width ? height : width;
    graft_resize_part p = {{s->height, s->width}, 0, 0, s->height, s->width};
    if (s->center) {
        p.whole[0] = s->height * height / shorter;
        p.whole[1] = s->width * width / shorter;
        p.y = (p.whole[0] - s->height) / 2;
        p.x = (p.whole[1] - s->width) / 2;
    }
    return p;
}

/* As if the resized picture had been kept in 8 bits. */
static float value(const graft_pixels *s, float v, int channel)
{
    v = nearbyintf(255.0f * v);
    v = v > 0.0f ? v < 255.0f ? v / 255.0f : 1.0f : 0.0f;
    return (v - s->mean[channel]) / s->deviation[channel];
}

graft_status graft_pixels_of(const graft_pixels *s, const graft_image *i, int64_t index, float *out,
                             graft_err *e)
{
    int64_t shape[4];
    const float *p = graft_image_data(i, shape);
    const int64_t channels = shape[3], one[4] = {1, shape[1], shape[2], channels};
    const graft_resize_part part = seen(s, shape[1], shape[2]);
    const int64_t n = s->height * s->width;
    float *resized = graft_malloc_array((size_t)(n * channels), sizeof *resized);
    if (!resized) return graft_fail_nomem(e, "a picture for a vision encoder");
    p += index * shape[1] * shape[2] * channels;
    graft_status st = graft_resize_smooth(p, one, resized, &part, e);
    for (int64_t k = 0; k < n && !st; k++)
        for (int c = 0; c < 3; c++)
            *out++ = value(s, resized[k * channels + (c < channels ? c : channels - 1)], c);
    graft_free(resized);
    return st;
}
