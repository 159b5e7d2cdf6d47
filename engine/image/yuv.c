/* Pictures as brightness and differences of colour. */
#include "engine/image/image.h"

graft_status graft_image_to_yuv(const graft_image *i, graft_image *out[3], graft_err *e)
{
    int64_t s[4];
    const float *from = graft_image_data(i, s);
    float *to[3];
    graft_status st = GRAFT_OK;
    for (int k = 0; k < 3; k++) out[k] = NULL;
    if (s[3] < 3) return graft_fail(e, GRAFT_E_ARG, "the picture has no colours");
    for (int k = 0; k < 3 && !st; k++) st = graft_image_create(s, false, &out[k], e);
    for (int k = 0; k < 3 && !st; k++) to[k] = graft_image_writable(out[k]);
    for (int64_t p = 0; !st && p < s[0] * s[1] * s[2]; p++) {
        const float r = from[p * s[3]], g = from[p * s[3] + 1], b = from[p * s[3] + 2];
        const float y = 0.299f * r + 0.587f * g + 0.114f * b;
        const float yuv[3] = {y, (b - y) * 0.564f + 0.5f, (r - y) * 0.713f + 0.5f};
        for (int k = 0; k < 3; k++)
            for (int64_t c = 0; c < s[3]; c++) to[k][p * s[3] + c] = yuv[k];
    }
    for (int k = 0; k < 3 && st; k++) {
        graft_image_release(out[k]);
        out[k] = NULL;
    }
    return st;
}

static float mean(const float *pixel, int64_t channels)
{
    float sum = 0;
    for (int64_t c = 0; c < channels; c++) sum += pixel[c];
    return sum / (float)channels;
}

graft_status graft_image_from_yuv(const graft_image *const yuv[3], graft_image **out, graft_err *e)
{
    int64_t s[3][4];
    const float *from[3];
    *out = NULL;
    for (int k = 0; k < 3; k++) {
        from[k] = graft_image_data(yuv[k], s[k]);
        for (int d = 0; d < 3; d++)
            if (s[k][d] != s[0][d])
                return graft_fail(e, GRAFT_E_ARG, "Y, U and V are not of the same size");
    }
    graft_status st =
        graft_image_create((const int64_t[]){s[0][0], s[0][1], s[0][2], 3}, false, out, e);
    if (st) return st;
    float *to = graft_image_writable(*out);
    for (int64_t p = 0; p < s[0][0] * s[0][1] * s[0][2]; p++) {
        float v[3];
        for (int k = 0; k < 3; k++) v[k] = mean(from[k] + p * s[k][3], s[k][3]);
        const float u = v[1] - 0.5f, w = v[2] - 0.5f;
        to[p * 3] = v[0] + 1.403f * w;
        to[p * 3 + 1] = v[0] - 0.714f * w - 0.344f * u;
        to[p * 3 + 2] = v[0] + 1.773f * u;
    }
    return GRAFT_OK;
}
