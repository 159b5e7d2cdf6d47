/* Pictures of few colours: a palette by median cut, and which of it each pixel gets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/engine.h"
#include "engine/image/image.h"
#include "engine/task.h"

enum { PARTS = 3, MOST = GRAFT_IMAGE_COLORS };

/* A colour of the picture, and how many pixels have it. */
typedef struct seen {
    uint8_t part[PARTS];
    uint32_t count;
} seen;

/* Colours begin .. end - 1. */
typedef struct box {
    size_t begin, end;
    uint64_t pixels;
    int longest; /* part, and how far it reaches */
    int reach;
} box;

typedef struct palette {
    uint8_t color[MOST][PARTS];
    int n;
} palette;

/* ------------------------------------------------------------------ the palette */

/* Orders without a context: the part is in the name. */
#define BY(p)                                                                                      \
    static int by_##p(const void *a, const void *b)                                                \
    {                                                                                              \
        const seen *x = a, *y = b;                                                                 \
        if (x->part[p] != y->part[p]) return x->part[p] < y->part[p] ? -1 : 1;                     \
        return memcmp(x->part, y->part, PARTS);                                                    \
    }
BY(0)
BY(1)
BY(2)
#undef BY

static int (*const orders[PARTS])(const void *, const void *) = {by_0, by_1, by_2};

/* All colours of the pixels, each once. */
static size_t collect(const uint8_t *pixel, size_t n, seen *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(out[i].part, pixel + i * PARTS, PARTS);
        out[i].count = 1;
    }
    qsort(out, n, sizeof *out, by_0);
    for (size_t i = 0; i < n; i++) {
        if (kept && memcmp(out[kept - 1].part, out[i].part, PARTS) == 0)
            out[kept - 1].count++;
        else
            out[kept++] = out[i];
    }
    return kept;
}

static box measured(const seen *s, size_t begin, size_t end)
{
    box b = {.begin = begin, .end = end, .reach = -1};
    for (int p = 0; p < PARTS; p++) {
        int low = 255, high = 0;
        for (size_t i = begin; i < end; i++) {
            low = s[i].part[p] < low ? s[i].part[p] : low;
            high = s[i].part[p] > high ? s[i].part[p] : high;
        }
        if (high - low > b.reach) b.reach = high - low, b.longest = p;
    }
    for (size_t i = begin; i < end; i++) b.pixels += s[i].count;
    return b;
}

/* Where half of the pixels are on either side, with a colour on each. */
static size_t middle(const seen *s, const box *b)
{
    uint64_t before = s[b->begin].count;
    size_t at = b->begin + 1;
    while (at + 1 < b->end && before + s[at].count <= b->pixels / 2) before += s[at++].count;
    return at;
}

static void mean(const seen *s, const box *b, uint8_t color[PARTS])
{
    for (int p = 0; p < PARTS; p++) {
        uint64_t sum = 0;
        for (size_t i = b->begin; i < b->end; i++) sum += (uint64_t)s[i].part[p] * s[i].count;
        color[p] = (uint8_t)((sum + b->pixels / 2) / b->pixels);
    }
}

/* Heckbert 1982, "Color Image Quantization for Frame Buffer Display": of the boxes, that with the
 * most pixels is halved along its longest side until there are enough. */
static void cut(seen *s, size_t n, int colors, palette *out)
{
    box list[MOST] = {measured(s, 0, n)};
    int count = 1;
    while (count < colors) {
        int most = -1;
        for (int i = 0; i < count; i++)
            if (list[i].reach > 0 && (most < 0 || list[i].pixels > list[most].pixels)) most = i;
        if (most < 0) break;
        const box b = list[most];
        qsort(s + b.begin, b.end - b.begin, sizeof *s, orders[b.longest]);
        const size_t half = middle(s, &b);
        list[most] = measured(s, b.begin, half);
        list[count++] = measured(s, half, b.end);
    }
    out->n = count;
    for (int i = 0; i < count; i++) mean(s, &list[i], out->color[i]);
}

/* ------------------------------------------------------------------ pixels */

static const uint8_t *nearest(const palette *p, const float v[PARTS])
{
    float least = INFINITY;
    int at = 0;
    for (int i = 0; i < p->n; i++) {
        float far = 0;
        for (int k = 0; k < PARTS; k++) {
            const float d = v[k] - (float)p->color[i][k];
            far += d * d;
        }
        if (far < least) least = far, at = i;
    }
    return p->color[at];
}

/* Place y, x of the matrix of 2^levels rows by B. E. Bayer 1973, "An Optimum Method for Two-Level
 * Rendition of Continuous-Tone Pictures", -1/2 … 1/2, with 0 as its mean. */
static float bayer(int levels, int64_t y, int64_t x)
{
    static const float quarter[2][2] = {{-1.5f, 0.5f}, {1.5f, -0.5f}};
    float v = 0, share = 0.25f;
    for (int i = levels - 1; i >= 0; i--, share /= 4)
        v += share * quarter[y >> (levels - 1 - i) & 1][x >> (levels - 1 - i) & 1];
    return v;
}

typedef struct dither {
    int levels; /* of Bayer's matrix; 0: none */
    bool diffuse;
    float spread;
} dither;

/* Floyd and Steinberg 1976, "An Adaptive Algorithm for Spatial Grey Scale": what a pixel did not
 * get goes to those that come after it. error: of this row and the next, a pixel wider on each
 * side. */
static void spread_error(const float wanted[PARTS], const uint8_t *got, int64_t x, float *here,
                         float *below)
{
    for (int k = 0; k < PARTS; k++) {
        const float e = (wanted[k] - (float)got[k]) / 16;
        here[(x + 2) * PARTS + k] += 7 * e;
        below[x * PARTS + k] += 3 * e;
        below[(x + 1) * PARTS + k] += 5 * e;
        below[(x + 2) * PARTS + k] += e;
    }
}

static float limited(float v)
{
    return fminf(fmaxf(v, 0), 255);
}

/* rows: of errors, 2 x (w + 2) pixels, zeros. */
static void paint(const palette *p, const dither *d, int64_t h, int64_t w, float *rows,
                  uint8_t *pixel)
{
    const size_t row = (size_t)(w + 2) * PARTS;
    for (int64_t y = 0; y < h; y++) {
        float *here = rows + (y % 2 ? row : 0), *below = rows + (y % 2 ? 0 : row);
        memset(below, 0, row * sizeof *below);
        for (int64_t x = 0; x < w; x++) {
            uint8_t *own = pixel + (y * w + x) * PARTS;
            const float ordered = d->levels ? d->spread * bayer(d->levels, y, x) : 0;
            float v[PARTS];
            for (int k = 0; k < PARTS; k++)
                v[k] = limited((float)own[k] + ordered + here[(x + 1) * PARTS + k]);
            const uint8_t *got = nearest(p, v);
            if (d->diffuse) spread_error(v, got, x, here, below);
            memcpy(own, got, PARTS);
        }
    }
}

/* ------------------------------------------------------------------ pictures */

/* Grey counts as three equal parts. */
static void to_bytes(const float *from, size_t n, size_t channels, uint8_t *out)
{
    for (size_t i = 0; i < n * PARTS; i++) {
        const float v = from[i / PARTS * channels + (channels < PARTS ? 0 : i % PARTS)];
        out[i] = (uint8_t)limited(v > 0 ? 255 * v : 0);
    }
}

static void from_bytes(const uint8_t *from, size_t n, size_t channels, float *out)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < channels && c < PARTS; c++)
            out[i * channels + c] = (float)from[i * PARTS + c] / 255;
}

static graft_status parse(const char *name, int64_t colors, dither *out, graft_err *e)
{
    static const char *const bayers[] = {"bayer-2", "bayer-4", "bayer-8", "bayer-16"};
    *out = (dither){.spread = 512.0f / (float)colors};
    if (colors < 1 || colors > MOST)
        return graft_fail(e, GRAFT_E_ARG, "%lld colors: not between 1 and %d", (long long)colors,
                          MOST);
    if (strcmp(name, "none") == 0) return GRAFT_OK;
    out->diffuse = strcmp(name, "floyd-steinberg") == 0;
    for (int i = 0; i < 4; i++)
        if (strcmp(name, bayers[i]) == 0) out->levels = i + 1;
    if (out->diffuse || out->levels) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "dither %.40s is unknown", name);
}

graft_status graft_image_quantize(const graft_image *i, int64_t colors, const char *dithering,
                                  const graft_task *task, graft_image **out, graft_err *e)
{
    int64_t s[4];
    dither d;
    palette p;
    const float *data = graft_image_data(i, s);
    const size_t n = (size_t)(s[1] * s[2]), channels = (size_t)s[3];
    graft_image *r = NULL;
    *out = NULL;
    graft_status st = parse(dithering, colors, &d, e);
    if (!st) st = graft_image_create(s, false, &r, e);
    if (st) return st;
    seen *list = graft_malloc_array(n, sizeof *list);
    uint8_t *pixel = graft_malloc_array(n, PARTS);
    float *rows = graft_malloc_array((size_t)(s[2] + 2), 2 * PARTS * sizeof *rows);
    if (!list || !pixel || !rows) st = graft_fail_nomem(e, "a palette");
    float *to = graft_image_writable(r);
    memcpy(to, data, (size_t)s[0] * n * channels * sizeof *to); /* alpha stays */
    for (int64_t k = 0; k < s[0] && !st; k++) {
        if (graft_task_cancelled(task)) {
            st = graft_fail(e, GRAFT_E_CANCEL, "cancelled");
            break;
        }
        const size_t at = (size_t)k * n * channels;
        to_bytes(data + at, n, channels, pixel);
        cut(list, collect(pixel, n, list), (int)colors, &p);
        memset(rows, 0, (size_t)(s[2] + 2) * 2 * PARTS * sizeof *rows);
        paint(&p, &d, s[1], s[2], rows, pixel);
        from_bytes(pixel, n, channels, to + at);
    }
    graft_free(list);
    graft_free(pixel);
    graft_free(rows);
    if (st)
        graft_image_release(r);
    else
        *out = r;
    return st;
}
