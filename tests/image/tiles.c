/* Pictures in tiles, in a margin, and as brightness and colours, against plain definitions. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "tests/test.h"

static graft_image *picture(int64_t n, int64_t h, int64_t w, int64_t c)
{
    graft_image *i = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float *v = graft_malloc_array((size_t)(n * h * w * c), sizeof *v);
    uint32_t z = 12345;
    for (int64_t k = 0; k < n * h * w * c; k++) {
        z = z * 1664525u + 1013904223u;
        v[k] = (float)(z >> 8) / 16777216.0f;
    }
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){n, h, w, c}, c == 1, &i, &e), &e);
    graft_free(v);
    return i;
}

static void drop(graft_image **list, size_t n)
{
    for (size_t k = 0; k < n; k++) graft_image_release(list[k]);
    graft_free(list);
}

/* Where tiles begin: walked, not counted. */
static int starts(int64_t length, int64_t tile, int64_t overlap, int64_t out[64])
{
    double stride = rint(fmax(0.25 * (double)tile, (double)(tile - overlap)));
    int n = 0;
    for (double at = 0;; at += stride) {
        if (at + (double)tile >= (double)length) {
            out[n++] = length > tile ? length - tile : 0;
            return n;
        }
        out[n++] = (int64_t)at;
    }
}

static void tiles_cover_the_picture(void)
{
    static const struct {
        int64_t h, w, th, tw, overlap;
    } all[] = {{20, 31, 8, 10, 3}, {8, 10, 8, 10, 3},    {5, 7, 8, 10, 3},  {16, 30, 8, 10, 0},
               {17, 11, 8, 10, 9}, {40, 40, 8, 10, 200}, {9, 40, 16, 7, 2}, {30, 10, 6, 10, 5}};
    for (size_t a = 0; a < sizeof all / sizeof *all; a++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_image *i = picture(2, all[a].h, all[a].w, 3), **tiles = NULL, *whole = NULL;
        const graft_image_tiling t = {all[a].tw, all[a].th, all[a].overlap};
        size_t count = 0;
        int64_t y[64], x[64], s[4];
        const int rows = starts(all[a].h, all[a].th, all[a].overlap, y);
        const int columns = starts(all[a].w, all[a].tw, all[a].overlap, x);
        CHECK_OK(graft_image_split_tiles(i, &t, &tiles, &count, &e), &e);
        CHECK_INT(count, rows * columns);
        const float *from = graft_image_data(i, s);
        for (size_t k = 0; k < count; k++) {
            int64_t d[4];
            const float *to = graft_image_data(tiles[k], d);
            int bad = 0;
            CHECK(d[0] == 2 && d[3] == 3 && d[1] == (all[a].h < all[a].th ? all[a].h : all[a].th) &&
                  d[2] == (all[a].w < all[a].tw ? all[a].w : all[a].tw));
            for (int64_t n = 0; n < 2; n++)
                for (int64_t r = 0; r < d[1]; r++)
                    for (int64_t q = 0; q < d[2] * 3; q++)
                        bad += to[(n * d[1] + r) * d[2] * 3 + q] !=
                               from[((n * s[1] + y[k / (size_t)columns] + r) * s[2] +
                                     x[k % (size_t)columns]) *
                                        3 +
                                    q];
            CHECK_INT(bad, 0);
        }
        /* Whole again, wherever they overlap. */
        CHECK_OK(graft_image_merge_tiles((const graft_image *const *)tiles, count, all[a].overlap,
                                         all[a].w, all[a].h, &whole, &e),
                 &e);
        int64_t d[4];
        const float *got = graft_image_data(whole, d);
        CHECK(memcmp(d, s, sizeof d) == 0);
        double worst = 0;
        for (int64_t k = 0; k < s[0] * s[1] * s[2] * s[3]; k++)
            worst = fmax(worst, fabs((double)got[k] - from[k]));
        CHECK(worst < 1e-6);
        graft_image_release(whole);
        if (count > 1)
            CHECK_INT(graft_image_merge_tiles((const graft_image *const *)tiles, count - 1,
                                              all[a].overlap, all[a].w, all[a].h, &whole, &e),
                      GRAFT_E_ARG);
        CHECK_INT(graft_image_merge_tiles((const graft_image *const *)tiles, count, all[a].overlap,
                                          all[a].w / 2, 2, &whole, &e),
                  GRAFT_E_ARG);
        drop(tiles, count);
        graft_image_release(i);
    }
}

/* Two tiles of one value each: it goes evenly from one to the other over what they share. */
static void tiles_fade(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_image *tiles[2], *whole = NULL;
    int64_t s[4];
    for (int k = 0; k < 2; k++) {
        CHECK_OK(graft_image_empty(8, 2, 1, k ? 0xffffff : 0, &tiles[k], &e), &e);
    }
    CHECK_OK(graft_image_merge_tiles((const graft_image *const *)tiles, 2, 4, 12, 2, &whole, &e),
             &e);
    const float *v = graft_image_data(whole, s);
    const double want[12] = {0, 0, 0, 0, 0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1};
    for (int x = 0; x < 12; x++) CHECK_NEAR(v[x * 3], want[x], 1e-6);
    graft_image_release(whole);
    for (int k = 0; k < 2; k++) graft_image_release(tiles[k]);
}

static void margins(void)
{
    static const struct {
        int64_t h, w, to_h, to_w, y, x, rows, columns;
    } all[] = {{4, 8, 8, 8, 2, 0, 4, 8},
               {4, 8, 16, 9, 6, 0, 4, 9},
               {3, 3, 9, 20, 0, 5, 9, 9},
               {2, 200, 5, 5, 2, 0, 1, 5},
               {7, 5, 7, 5, 0, 0, 7, 5}};
    for (size_t a = 0; a < sizeof all / sizeof *all; a++)
        for (int white = 0; white < 2; white++) {
            graft_err e = GRAFT_ERR_INIT;
            graft_image *i = picture(1, all[a].h, all[a].w, 3), *fit = NULL, *scaled = NULL;
            int64_t s[4], d[4];
            CHECK_OK(graft_image_fit(i, "bilinear", all[a].to_w, all[a].to_h, white, &fit, &e), &e);
            CHECK_OK(
                graft_image_scale(i, "bilinear", all[a].columns, all[a].rows, false, &scaled, &e),
                &e);
            const float *got = graft_image_data(fit, s), *inner = graft_image_data(scaled, d);
            CHECK(s[1] == all[a].to_h && s[2] == all[a].to_w);
            int bad = 0;
            for (int64_t y = 0; y < s[1]; y++)
                for (int64_t x = 0; x < s[2]; x++) {
                    const int64_t r = y - all[a].y, c = x - all[a].x;
                    const bool inside = r >= 0 && r < d[1] && c >= 0 && c < d[2];
                    const float want = inside ? inner[(r * d[2] + c) * 3] : (float)white;
                    bad += got[(y * s[2] + x) * 3] != want;
                }
            CHECK_INT(bad, 0);
            graft_image_release(fit);
            graft_image_release(scaled);
            graft_image_release(i);
        }
}

/* ITU-R BT.601: primaries, and there and back again. */
static void brightness_and_colours(void)
{
    graft_err e = GRAFT_ERR_INIT;
    static const struct {
        uint32_t rgb;
        double y, u, v;
    } all[] = {{0xff0000, 0.299, 0.331364, 0.999813},
               {0x00ff00, 0.587, 0.168932, 0.081469},
               {0x0000ff, 0.114, 0.999704, 0.418718},
               {0xffffff, 1, 0.5, 0.5},
               {0x000000, 0, 0.5, 0.5}};
    graft_image *yuv[3], *back = NULL;
    int64_t s[4];
    for (size_t a = 0; a < sizeof all / sizeof *all; a++) {
        graft_image *i = NULL;
        CHECK_OK(graft_image_empty(3, 2, 1, all[a].rgb, &i, &e), &e);
        CHECK_OK(graft_image_to_yuv(i, yuv, &e), &e);
        const double want[3] = {all[a].y, all[a].u, all[a].v};
        for (int k = 0; k < 3; k++) {
            const float *v = graft_image_data(yuv[k], s);
            CHECK(s[3] == 3);
            for (int c = 0; c < 18; c++) CHECK_NEAR(v[c], want[k], 2e-6);
            graft_image_release(yuv[k]);
        }
        graft_image_release(i);
    }
    graft_image *i = picture(2, 5, 4, 4);
    CHECK_OK(graft_image_to_yuv(i, yuv, &e), &e);
    CHECK_OK(graft_image_from_yuv((const graft_image *const *)yuv, &back, &e), &e);
    const float *from = graft_image_data(i, s), *to = graft_image_data(back, s);
    CHECK_INT(s[3], 3);
    for (int64_t p = 0; p < 40; p++)
        for (int c = 0; c < 3; c++) CHECK_NEAR(to[p * 3 + c], from[p * 4 + c], 2e-3);
    graft_image_release(back);
    graft_image_release(yuv[1]);
    yuv[1] = picture(2, 5, 3, 3);
    CHECK_INT(graft_image_from_yuv((const graft_image *const *)yuv, &back, &e), GRAFT_E_ARG);
    for (int k = 0; k < 3; k++) graft_image_release(yuv[k]);
    graft_image_release(i);
}

int main(void)
{
    graft_alloc_stats stats;
    RUN(tiles_cover_the_picture);
    RUN(tiles_fade);
    RUN(margins);
    RUN(brightness_and_colours);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
