#include <string.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include "base/alloc.h"
#include "base/webp.h"

enum { MODEL_TAG = 0x0110, ASCII = 2, ENTRY = 12, TIFF_HEADER = 8 };

/* ------------------------------------------------------------------ EXIF */

static void put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, size_t v)
{
    put16(p, (uint32_t)v);
    put16(p + 2, (uint32_t)(v >> 16));
}

/* A TIFF directory (TIFF 6.0, section 2) of texts "key:value"; the first one is the camera's model,
 * each other has the tag below, so they stand in the order of tags from the last one on. */
static uint8_t *make_exif(const graft_webp_text *text, size_t n, size_t *size)
{
    size_t all = TIFF_HEADER + 2 + n * ENTRY + 4, at = all;
    for (size_t i = 0; i < n; i++) all += strlen(text[i].key) + strlen(text[i].value) + 2;
    uint8_t *p = all < UINT32_MAX && n <= MODEL_TAG ? graft_calloc(1, all) : NULL;
    if (!p) return NULL;
    memcpy(p, "II*\0\x08", 5);
    put16(p + TIFF_HEADER, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        const graft_webp_text *t = &text[n - 1 - i];
        uint8_t *entry = p + TIFF_HEADER + 2 + i * ENTRY;
        const size_t key = strlen(t->key), value = strlen(t->value), length = key + value + 2;
        put16(entry, (uint32_t)(MODEL_TAG - (n - 1 - i)));
        put16(entry + 2, ASCII);
        put32(entry + 4, length);
        /* What is no longer than an offset stands in its place; it has one all the same. */
        put32(entry + 8, at);
        memcpy(length > 4 ? p + at : entry + 8, t->key, key);
        (length > 4 ? p + at : entry + 8)[key] = ':';
        memcpy((length > 4 ? p + at : entry + 8) + key + 1, t->value, value + 1);
        at += length;
    }
    *size = all;
    return p;
}

/* ------------------------------------------------------------------ frames */

static graft_status failed(const char *why, graft_err *e)
{
    return graft_fail(e, GRAFT_E_ARG, "WebP: %s", why);
}

static bool add_frame(WebPAnimEncoder *to, const WebPConfig *config, const graft_webp *w,
                      const uint8_t *pixels, int milliseconds)
{
    WebPPicture picture;
    if (!WebPPictureInit(&picture)) return false;
    picture.width = w->width;
    picture.height = w->height;
    picture.use_argb = 1;
    const int stride = w->width * w->channels;
    const bool ok = (w->channels == 4 ? WebPPictureImportRGBA(&picture, pixels, stride)
                                      : WebPPictureImportRGB(&picture, pixels, stride)) &&
                    WebPAnimEncoderAdd(to, &picture, milliseconds, config);
    WebPPictureFree(&picture);
    return ok;
}

static graft_status assemble(const graft_webp *w, const graft_webp_how *how, const uint8_t *pixels,
                             WebPData *out, graft_err *e)
{
    WebPAnimEncoderOptions options;
    WebPConfig config;
    if (!WebPAnimEncoderOptionsInit(&options) || !WebPConfigInit(&config))
        return failed("libwebp is of another version", e);
    config.lossless = how->lossless;
    config.quality = (float)how->quality;
    config.method = how->method;
    if (!WebPValidateConfig(&config)) return failed("quality or method out of range", e);
    WebPAnimEncoder *encoder = WebPAnimEncoderNew(w->width, w->height, &options);
    if (!encoder) return graft_fail_nomem(e, "an animated WebP");
    const size_t frame = (size_t)w->width * (size_t)w->height * (size_t)w->channels;
    bool ok = true, stopped = false;
    for (int64_t i = 0; i < w->frames && ok && !stopped; i++) {
        stopped = how->stopped && how->stopped(how->ctx);
        if (!stopped)
            ok = add_frame(encoder, &config, w, pixels + (size_t)i * frame,
                           (int)(i * how->milliseconds));
    }
    ok = ok && !stopped &&
         WebPAnimEncoderAdd(encoder, NULL, (int)(w->frames * how->milliseconds), NULL) &&
         WebPAnimEncoderAssemble(encoder, out);
    graft_status st = ok        ? GRAFT_OK
                      : stopped ? graft_fail(e, GRAFT_E_CANCEL, "cancelled")
                                : failed(WebPAnimEncoderGetError(encoder), e);
    WebPAnimEncoderDelete(encoder);
    return st;
}

static graft_status add_texts(const WebPData *frames, const graft_webp_text *text, size_t n,
                              WebPData *out, graft_err *e)
{
    size_t size = 0;
    uint8_t *exif = make_exif(text, n, &size);
    WebPMux *mux = exif ? WebPMuxCreate(frames, 0) : NULL;
    const bool ok = mux &&
                    WebPMuxSetChunk(mux, "EXIF", &(WebPData){exif, size}, 0) == WEBP_MUX_OK &&
                    WebPMuxAssemble(mux, out) == WEBP_MUX_OK;
    WebPMuxDelete(mux);
    graft_free(exif);
    return ok ? GRAFT_OK : graft_fail_nomem(e, "an animated WebP");
}

graft_status graft_webp_encode(const graft_webp *w, const graft_webp_how *how,
                               const uint8_t *pixels, const graft_webp_text *text, size_t n_text,
                               uint8_t **out, size_t *size, graft_err *e)
{
    WebPData frames, whole;
    WebPDataInit(&frames);
    WebPDataInit(&whole);
    if (w->width < 1 || w->height < 1 || w->width > WEBP_MAX_DIMENSION ||
        w->height > WEBP_MAX_DIMENSION)
        return graft_fail(e, GRAFT_E_ARG, "WebP: cannot hold a picture of %d x %d, but %d a side",
                          w->width, w->height, WEBP_MAX_DIMENSION);
    if (w->frames < 1 || how->milliseconds < 1 || how->milliseconds >= 1 << 24 ||
        w->frames > INT32_MAX / how->milliseconds || (w->channels != 3 && w->channels != 4))
        return failed("too many pictures, or too long, or not in colour", e);
    graft_status st = assemble(w, how, pixels, &frames, e);
    if (!st && n_text) st = add_texts(&frames, text, n_text, &whole, e);
    const WebPData *made = n_text ? &whole : &frames;
    uint8_t *bytes = st ? NULL : graft_malloc(made->size);
    if (!st && !bytes) st = graft_fail_nomem(e, "an animated WebP");
    if (!st) {
        memcpy(bytes, made->bytes, made->size);
        *out = bytes;
        *size = made->size;
    }
    WebPDataClear(&frames);
    WebPDataClear(&whole);
    return st;
}
