/* Pictures in a margin, and in tiles. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"

/* The rectangle of `from` at x, y into `to` at to_x, to_y; both of the same batch and channels. */
static void copy_part(const graft_image *from, int64_t y, int64_t x, float *to,
                      const int64_t shape[4], const int64_t at[2], const int64_t size[2])
{
    int64_t s[4];
    const float *data = graft_image_data(from, s);
    for (int64_t n = 0; n < s[0]; n++)
        for (int64_t r = 0; r < size[0]; r++)
            memcpy(to + ((n * shape[1] + at[0] + r) * shape[2] + at[1]) * shape[3],
                   data + ((n * s[1] + y + r) * s[2] + x) * s[3],
                   (size_t)(size[1] * s[3]) * sizeof *to);
}

graft_status graft_image_fit(const graft_image *i, const char *method, int64_t width,
                             int64_t height, bool white, graft_image **out, graft_err *e)
{
    int64_t s[4];
    graft_image *scaled = NULL;
    graft_image_data(i, s);
    *out = NULL;
    const double by = fmin((double)width / (double)s[2], (double)height / (double)s[1]);
    int64_t size[2] = {(int64_t)((double)s[1] * by), (int64_t)((double)s[2] * by)};
    for (int d = 0; d < 2; d++)
        if (size[d] < 1) size[d] = 1;
    const int64_t shape[4] = {s[0], height, width, s[3]};
    graft_status st = graft_image_scale(i, method, size[1], size[0], false, &scaled, e);
    if (!st) st = graft_image_create(shape, false, out, e);
    if (!st) {
        float *to = graft_image_writable(*out);
        for (int64_t k = 0; k < s[0] * height * width * s[3]; k++) to[k] = white;
        const int64_t at[2] = {(height - size[0]) / 2, (width - size[1]) / 2};
        copy_part(scaled, 0, 0, to, shape, at, size);
    }
    graft_image_release(scaled);
    return st;
}

/* Where tiles begin along one side. */
typedef struct row {
    int64_t length, tile, stride, count;
} row;

static row row_of(int64_t length, int64_t tile, int64_t overlap)
{
    row r = {.length = length, .tile = tile < length ? tile : length};
    const double quarter = 0.25 * (double)tile, rest = (double)(tile - overlap);
    r.stride = (int64_t)nearbyint(rest > quarter ? rest : quarter);
    if (r.stride < 1) r.stride = 1;
    r.count = 1 + (length - r.tile + r.stride - 1) / r.stride;
    return r;
}

static int64_t start_of(const row *r, int64_t k)
{
    return k + 1 < r->count ? k * r->stride : r->length - r->tile;
}

static graft_status check_tiling(const graft_image_tiling *t, graft_err *e)
{
    if (t->width > 0 && t->height > 0 && t->overlap >= 0) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "tiles of %" PRId64 "x%" PRId64 " pixels, %" PRId64 " of them"
                      " shared",
                      t->width, t->height, t->overlap);
}

#define MAX_TILES 65536

graft_status graft_image_split_tiles(const graft_image *i, const graft_image_tiling *t,
                                     graft_image ***out, size_t *count, graft_err *e)
{
    int64_t s[4];
    graft_image_data(i, s);
    *out = NULL;
    *count = 0;
    graft_status st = check_tiling(t, e);
    if (st) return st;
    const row y = row_of(s[1], t->height, t->overlap), x = row_of(s[2], t->width, t->overlap);
    if (y.count * x.count > MAX_TILES)
        return graft_fail(e, GRAFT_E_LIMIT, "the picture has %" PRId64 " such tiles",
                          y.count * x.count);
    *out = graft_calloc((size_t)(y.count * x.count), sizeof **out);
    if (!*out) return graft_fail_nomem(e, "a list of tiles");
    for (int64_t k = 0; k < y.count * x.count && !st; k++) {
        graft_image *tile = NULL;
        const int64_t shape[4] = {s[0], y.tile, x.tile, s[3]};
        st = graft_image_create(shape, graft_image_is_mask(i), &tile, e);
        if (st) break;
        copy_part(i, start_of(&y, k / x.count), start_of(&x, k % x.count),
                  graft_image_writable(tile), shape, (const int64_t[]){0, 0},
                  (const int64_t[]){y.tile, x.tile});
        (*out)[(*count)++] = tile;
    }
    if (st) {
        while (*count) graft_image_release((*out)[--*count]);
        graft_free(*out);
        *out = NULL;
    }
    return st;
}

/* How much a tile counts at its pixel `at`: less towards a neighbour, over what they share. */
static double weight_of(const row *r, int64_t k, int64_t overlap, int64_t at)
{
    double w = 1;
    const double all = (double)(overlap < r->tile ? overlap : r->tile) + 1;
    if (k > 0) w = fmin(w, (double)(at + 1) / all);
    if (k + 1 < r->count) w = fmin(w, (double)(r->tile - at) / all);
    return w;
}

static void add_tile(const graft_image *tile, const row r[2], const int64_t k[2], int64_t overlap,
                     float *sum, const int64_t shape[4], float *weights)
{
    int64_t s[4];
    const float *data = graft_image_data(tile, s);
    const int64_t y0 = start_of(&r[0], k[0]), x0 = start_of(&r[1], k[1]);
    for (int64_t n = 0; n < s[0]; n++)
        for (int64_t y = 0; y < s[1]; y++) {
            const double vertical = weight_of(&r[0], k[0], overlap, y);
            for (int64_t x = 0; x < s[2]; x++) {
                const float w = (float)(vertical * weight_of(&r[1], k[1], overlap, x));
                const int64_t at = (n * shape[1] + y0 + y) * shape[2] + x0 + x;
                const float *from = data + ((n * s[1] + y) * s[2] + x) * s[3];
                weights[at] += w;
                for (int64_t c = 0; c < s[3]; c++) sum[at * s[3] + c] += w * from[c];
            }
        }
}

static graft_status check_tiles(const graft_image *const *tiles, size_t count, const row r[2],
                                const int64_t s[4], graft_err *e)
{
    if (s[1] > r[0].length || s[2] > r[1].length)
        return graft_fail(e, GRAFT_E_ARG, "the tiles are larger than the picture");
    if (count != (size_t)(r[0].count * r[1].count))
        return graft_fail(e, GRAFT_E_ARG,
                          "a picture of %" PRId64 "x%" PRId64 " has %" PRId64
                          " such tiles, not %zu",
                          r[1].length, r[0].length, r[0].count * r[1].count, count);
    for (size_t k = 1; k < count; k++) {
        int64_t t[4];
        graft_image_data(tiles[k], t);
        if (memcmp(s, t, sizeof t) != 0)
            return graft_fail(e, GRAFT_E_ARG, "tile %zu is of another size than the first", k + 1);
    }
    return GRAFT_OK;
}

graft_status graft_image_merge_tiles(const graft_image *const *tiles, size_t count, int64_t overlap,
                                     int64_t width, int64_t height, graft_image **out, graft_err *e)
{
    int64_t s[4];
    float *weights = NULL;
    *out = NULL;
    if (!count || overlap < 0) return graft_fail(e, GRAFT_E_ARG, "there are no tiles");
    graft_image_data(tiles[0], s);
    const row r[2] = {row_of(height, s[1], overlap), row_of(width, s[2], overlap)};
    const int64_t shape[4] = {s[0], height, width, s[3]};
    graft_status st = check_tiles(tiles, count, r, s, e);
    if (!st) st = graft_image_create(shape, graft_image_is_mask(tiles[0]), out, e);
    if (st) return st;
    const int64_t pixels = s[0] * height * width;
    float *sum = graft_image_writable(*out);
    weights = graft_calloc((size_t)pixels, sizeof *weights);
    if (!weights) {
        graft_image_release(*out);
        *out = NULL;
        return graft_fail_nomem(e, "a picture of tiles");
    }
    memset(sum, 0, (size_t)(pixels * s[3]) * sizeof *sum);
    for (size_t k = 0; k < count; k++) {
        const int64_t at[2] = {(int64_t)k / r[1].count, (int64_t)k % r[1].count};
        add_tile(tiles[k], r, at, overlap, sum, shape, weights);
    }
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = 0; c < s[3]; c++) sum[p * s[3] + c] /= weights[p];
    graft_free(weights);
    return GRAFT_OK;
}
