#include "base/webp.h"

#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

/* libwebpdemux looks for each frame from the first one on. */
#define MAX_FRAMES (1 << 14)

bool graft_webp_is(const uint8_t *data, size_t size)
{
    return size >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0;
}

static graft_status damaged(const char *what, graft_err *e)
{
    return graft_fail(e, GRAFT_E_FORMAT, "%s: this WebP picture is damaged or cut off", what);
}

/* 0 when the animation is damaged or cut off. */
static int64_t count_frames(const uint8_t *data, size_t size)
{
    WebPDemuxer *parts = WebPDemux(&(const WebPData){data, size});
    int64_t n = parts ? WebPDemuxGetI(parts, WEBP_FF_FRAME_COUNT) : 0;
    WebPDemuxDelete(parts);
    return n;
}

graft_status graft_webp_read(const uint8_t *data, size_t size, const char *what, graft_webp *out,
                             graft_err *e)
{
    WebPBitstreamFeatures f;
    *out = (graft_webp){0};
    if (!graft_webp_is(data, size) || WebPGetFeatures(data, size, &f) != VP8_STATUS_OK)
        return damaged(what, e);
    int64_t frames = f.has_animation ? count_frames(data, size) : 1;
    if (frames > MAX_FRAMES)
        return graft_fail(e, GRAFT_E_LIMIT, "%s: more than %d frames", what, MAX_FRAMES);
    if (frames < 1 || f.width < 1 || f.height < 1) return damaged(what, e);
    *out = (graft_webp){f.width, f.height, f.has_alpha ? 4 : 3, frames};
    return GRAFT_OK;
}

static graft_status decode_still(const uint8_t *data, size_t size, const char *what,
                                 const graft_webp *w, uint8_t *pixels, graft_err *e)
{
    WebPDecoderConfig config;
    const size_t row = (size_t)w->width * (size_t)w->channels;
    if (!WebPInitDecoderConfig(&config))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: libwebp is of another version", what);
    config.output.colorspace = w->channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){pixels, (int)row, row * (size_t)w->height};
    switch (WebPDecode(data, size, &config)) {
    case VP8_STATUS_OK:
        return GRAFT_OK;
    case VP8_STATUS_OUT_OF_MEMORY:
        return graft_fail_nomem(e, what);
    default:
        return damaged(what, e);
    }
}

static void copy_frame(const uint8_t *rgba, const graft_webp *w, uint8_t *pixels)
{
    const size_t n = (size_t)w->width * (size_t)w->height;
    if (w->channels == 4)
        memcpy(pixels, rgba, 4 * n);
    else
        for (size_t i = 0; i < n; i++) memcpy(pixels + 3 * i, rgba + 4 * i, 3);
}

static graft_status decode_animation(const uint8_t *data, size_t size, const char *what,
                                     const graft_webp *w, uint8_t *pixels, graft_err *e)
{
    const size_t stride = (size_t)w->width * (size_t)w->height * (size_t)w->channels;
    graft_status st = GRAFT_OK;
    WebPAnimDecoderOptions options;
    if (!WebPAnimDecoderOptionsInit(&options))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: libwebpdemux is of another version", what);
    options.color_mode = MODE_RGBA;
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(&(const WebPData){data, size}, &options);
    if (!decoder) return graft_fail_nomem(e, what); /* its parts were found before */
    for (int64_t i = 0; !st && i < w->frames; i++) {
        uint8_t *rgba;
        int time;
        if (WebPAnimDecoderGetNext(decoder, &rgba, &time))
            copy_frame(rgba, w, pixels + (size_t)i * stride);
        else
            st = damaged(what, e);
    }
    WebPAnimDecoderDelete(decoder);
    return st;
}

graft_status graft_webp_decode(const uint8_t *data, size_t size, const char *what,
                               const graft_webp *w, uint8_t *pixels, graft_err *e)
{
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(data, size, &f) != VP8_STATUS_OK) return damaged(what, e);
    return f.has_animation ? decode_animation(data, size, what, w, pixels, e)
                           : decode_still(data, size, what, w, pixels, e);
}
