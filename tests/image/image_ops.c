/* Pictures cut, turned, taken apart and laid over each other, against plain definitions of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "tests/test.h"

static graft_err e;

static float value(int64_t i, uint32_t seed)
{
    uint32_t z = (uint32_t)i * 2654435761u + seed * 40503u;
    z = (z ^ z >> 15) * 2246822519u;
    return (float)(z >> 8) / 16777216.0f;
}

static graft_image *picture(int64_t n, int64_t h, int64_t w, int64_t c, uint32_t seed)
{
    float v[2048];
    graft_image *i = NULL;
    for (int64_t k = 0; k < n * h * w * c; k++) v[k] = value(k, seed);
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){n, h, w, c}, c == 1, &i, &e), &e);
    return i;
}

static float at(const graft_image *i, int64_t n, int64_t y, int64_t x, int64_t c)
{
    int64_t s[4];
    const float *v = graft_image_data(i, s);
    return v[((n * s[1] + y) * s[2] + x) * s[3] + c];
}

static bool has_shape(const graft_image *i, int64_t n, int64_t h, int64_t w, int64_t c)
{
    int64_t s[4];
    graft_image_data(i, s);
    return s[0] == n && s[1] == h && s[2] == w && s[3] == c;
}

static void turned(void)
{
    enum { H = 3, W = 5 };
    for (int channels = 1; channels <= 4; channels += 3) {
        graft_image *i = picture(2, H, W, channels, 1), *r = NULL;
        for (int how = 0; how < 6; how++) {
            int turns = how - 2, wrong = 0;
            bool lies = how > 1 && turns % 2;
            CHECK_OK(how < 2 ? graft_image_flip(i, how == 0, &r, &e)
                             : graft_image_rotate(i, turns, &r, &e),
                     &e);
            CHECK(has_shape(r, 2, lies ? W : H, lies ? H : W, channels));
            CHECK(graft_image_is_mask(r) == (channels == 1));
            for (int k = 0; k < 2 * H * W * channels; k++) {
                int c = k % channels, x = k / channels % W, y = k / channels / W % H;
                int n = k / channels / W / H;
                const int to[6][2] = {{H - 1 - y, x}, {y, W - 1 - x},         {y, x},
                                      {x, H - 1 - y}, {H - 1 - y, W - 1 - x}, {W - 1 - x, y}};
                wrong += at(r, n, to[how][0], to[how][1], c) != at(i, n, y, x, c);
            }
            CHECK_INT(wrong, 0);
            graft_image_release(r);
        }
        CHECK_INT(graft_image_rotate(i, 4, &r, &e), GRAFT_E_ARG);
        CHECK_INT(graft_image_rotate(i, -1, &r, &e), GRAFT_E_ARG);
        CHECK(!r);
        graft_image_release(i);
    }
}

static void batches(void)
{
    graft_image *i = picture(4, 2, 3, 3, 2), *r = NULL;
    CHECK_OK(graft_image_from_batch(i, 1, 2, &r, &e), &e);
    CHECK(has_shape(r, 2, 2, 3, 3));
    for (int n = 0; n < 2; n++) CHECK(at(r, n, 1, 2, 2) == at(i, n + 1, 1, 2, 2));
    graft_image_release(r);
    CHECK_OK(graft_image_from_batch(i, 3, 4096, &r, &e), &e);
    CHECK(has_shape(r, 1, 2, 3, 3) && at(r, 0, 1, 1, 1) == at(i, 3, 1, 1, 1));
    graft_image_release(r);
    CHECK_OK(graft_image_from_batch(i, INT64_MAX, INT64_MAX, &r, &e), &e);
    CHECK(has_shape(r, 1, 2, 3, 3) && at(r, 0, 1, 1, 1) == at(i, 3, 1, 1, 1));
    graft_image_release(r);
    CHECK_INT(graft_image_from_batch(i, -1, 1, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_from_batch(i, 0, 0, &r, &e), GRAFT_E_ARG);
    CHECK_OK(graft_image_repeat(i, 3, &r, &e), &e);
    CHECK(has_shape(r, 12, 2, 3, 3));
    int wrong = 0;
    for (int k = 0; k < 12 * 18; k++)
        wrong += graft_image_data(r, NULL)[k] != graft_image_data(i, NULL)[k % 72];
    CHECK_INT(wrong, 0);
    graft_image_release(r);
    CHECK_INT(graft_image_repeat(i, 0, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_repeat(i, INT64_MAX, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_image_release(i);
}

static void transparency(void)
{
    graft_image *i = picture(2, 3, 4, 4, 3), *rgb = NULL, *mask = NULL, *r = NULL;
    CHECK_OK(graft_image_split_alpha(i, &rgb, &mask, &e), &e);
    CHECK(has_shape(rgb, 2, 3, 4, 3) && has_shape(mask, 2, 3, 4, 1) && graft_image_is_mask(mask));
    int wrong = 0;
    for (int k = 0; k < 2 * 12; k++) {
        int n = k / 12, y = k / 4 % 3, x = k % 4;
        for (int c = 0; c < 3; c++) wrong += at(rgb, n, y, x, c) != at(i, n, y, x, c);
        wrong += at(mask, n, y, x, 0) != 1 - at(i, n, y, x, 3);
    }
    CHECK_INT(wrong, 0);
    CHECK_OK(graft_image_join_alpha(rgb, mask, &r, &e), &e);
    CHECK(has_shape(r, 2, 3, 4, 4));
    for (int k = 0; k < 2 * 48; k++)
        CHECK_NEAR(graft_image_data(r, NULL)[k], graft_image_data(i, NULL)[k], 1e-7);
    graft_image_release(r);
    graft_image_release(mask);
    CHECK_OK(graft_image_split_alpha(rgb, &r, &mask, &e), &e);
    for (int k = 0; k < 2 * 12; k++) CHECK(graft_image_data(mask, NULL)[k] == 0);
    graft_image_release(r);
    graft_image_release(mask);
    /* One small mask for both: scaled, and repeated. */
    mask = picture(1, 1, 1, 1, 4);
    CHECK_OK(graft_image_join_alpha(i, mask, &r, &e), &e);
    CHECK(at(r, 1, 2, 3, 3) == 1 - at(mask, 0, 0, 0, 0));
    graft_image_release(r);
    CHECK_INT(graft_image_join_alpha(mask, mask, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_join_alpha(i, rgb, &r, &e), GRAFT_E_ARG);
    graft_image *other = NULL;
    CHECK_INT(graft_image_split_alpha(mask, &r, &other, &e), GRAFT_E_ARG);
    CHECK(!r && !other);
    graft_image_release(i);
    graft_image_release(rgb);
    graft_image_release(mask);
}

static void laid_over(void)
{
    graft_image *to = picture(2, 6, 8, 3, 5), *from = picture(1, 3, 4, 3, 6), *r = NULL;
    graft_image *mask = picture(2, 3, 4, 1, 7);
    CHECK_OK(graft_image_composite(to, from, 2, 1, false, mask, &r, &e), &e);
    for (int k = 0; k < 2 * 48; k++) {
        int n = k / 48, y = k / 8 % 6, x = k % 8, sy = y - 1, sx = x - 2;
        for (int c = 0; c < 3; c++) {
            double want = at(to, n, y, x, c);
            if (sy >= 0 && sx >= 0 && sy < 3 && sx < 4) {
                double m = at(mask, n, sy, sx, 0);
                want = m * at(from, 0, sy, sx, c) + (1 - m) * want;
            }
            CHECK_NEAR(at(r, n, y, x, c), want, 1e-6);
        }
    }
    graft_image_release(r);
    /* Without a mask it covers; what sticks out is left out. */
    CHECK_OK(graft_image_composite(to, from, 6, 5, false, NULL, &r, &e), &e);
    CHECK(at(r, 1, 5, 7, 2) == at(from, 0, 0, 1, 2) && at(r, 1, 4, 7, 2) == at(to, 1, 4, 7, 2));
    graft_image_release(r);
    CHECK_OK(graft_image_composite(to, from, 8, 6, false, NULL, &r, &e), &e);
    CHECK(memcmp(graft_image_data(r, NULL), graft_image_data(to, NULL), 288 * sizeof(float)) == 0);
    graft_image_release(r);
    CHECK_OK(graft_image_composite(to, from, INT64_MAX, INT64_MAX, false, NULL, &r, &e), &e);
    CHECK(memcmp(graft_image_data(r, NULL), graft_image_data(to, NULL), 288 * sizeof(float)) == 0);
    graft_image_release(r);
    graft_image *all = NULL;
    CHECK_OK(graft_image_scale(from, "bilinear", 8, 6, false, &all, &e), &e);
    CHECK_OK(graft_image_composite(to, from, 0, 0, true, NULL, &r, &e), &e);
    for (int k = 0; k < 144; k++)
        CHECK_NEAR(graft_image_data(r, NULL)[144 + k], graft_image_data(all, NULL)[k], 1e-6);
    graft_image_release(r);
    r = NULL;
    CHECK_INT(graft_image_composite(to, from, -1, 0, false, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_composite(to, from, 0, -1, false, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_composite(to, mask, 0, 0, false, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_composite(to, from, 0, 0, false, from, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_image *const done[] = {to, from, mask, all};
    for (int i = 0; i < 4; i++) graft_image_release(done[i]);
}

static void laid_over_with_transparency(void)
{
    graft_image *rgb = picture(1, 2, 2, 3, 8), *rgba = picture(1, 2, 2, 4, 9), *r = NULL;
    CHECK_OK(graft_image_composite(rgb, rgba, 0, 0, false, NULL, &r, &e), &e);
    CHECK(has_shape(r, 1, 2, 2, 3));
    for (int k = 0; k < 12; k++)
        CHECK(at(r, 0, k / 6, k / 3 % 2, k % 3) == at(rgba, 0, k / 6, k / 3 % 2, k % 3));
    graft_image_release(r);
    CHECK_OK(graft_image_composite(rgba, rgb, 1, 0, false, NULL, &r, &e), &e);
    CHECK(has_shape(r, 1, 2, 2, 4) && at(r, 0, 0, 1, 3) == 1);
    CHECK(at(r, 0, 0, 1, 0) == at(rgb, 0, 0, 0, 0) && at(r, 0, 0, 0, 3) == at(rgba, 0, 0, 0, 3));
    graft_image_release(r);
    graft_image_release(rgb);
    graft_image_release(rgba);
}

static void scaled_to_pixels(void)
{
    graft_image *i = picture(1, 8, 16, 3, 10), *r = NULL, *same = NULL;
    CHECK_OK(graft_image_scale_pixels(i, "nearest-exact", 512.0 / 1048576, 1, &r, &e), &e);
    CHECK(has_shape(r, 1, 16, 32, 3));
    graft_image_release(r);
    /* 100 pixels of 2 to 1: 14.14 x 7.07. */
    CHECK_OK(graft_image_scale_pixels(i, "bicubic", 100.0 / 1048576, 1, &r, &e), &e);
    CHECK(has_shape(r, 1, 7, 14, 3));
    CHECK_OK(graft_image_scale(i, "bicubic", 14, 7, false, &same, &e), &e);
    CHECK(memcmp(graft_image_data(r, NULL), graft_image_data(same, NULL), 294 * 4) == 0);
    graft_image_release(same);
    graft_image_release(r);
    /* 3.5 and 1.8 fours, 0.9 and 0.4 sixteens. */
    CHECK_OK(graft_image_scale_pixels(i, "area", 100.0 / 1048576, 4, &r, &e), &e);
    CHECK(has_shape(r, 1, 8, 16, 3));
    graft_image_release(r);
    CHECK_OK(graft_image_scale_pixels(i, "area", 100.0 / 1048576, 16, &r, &e), &e);
    CHECK(has_shape(r, 1, 16, 16, 3));
    graft_image_release(r);
    r = NULL;
    for (int64_t step = -1; step < 1; step++)
        CHECK_INT(graft_image_scale_pixels(i, "area", 1, step, &r, &e), GRAFT_E_ARG);
    static const double bad[] = {0, -1, NAN, INFINITY, 1e9};
    for (int k = 0; k < 5; k++)
        CHECK_INT(graft_image_scale_pixels(i, "area", bad[k], 1, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_scale_pixels(i, "best", 1, 1, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_image_release(i);
}

static void scaled_to_a_longer_side(void)
{
    static const struct {
        int64_t h, w, side, new_h, new_w;
    } all[] = {{8, 16, 4, 2, 4}, {16, 8, 4, 4, 2},  {5, 5, 9, 9, 9},
               {3, 8, 4, 2, 4},  {10, 30, 5, 2, 5}, {1, 9, 2, 1, 2}};
    graft_image *r = NULL;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        graft_image *i = picture(1, all[k].h, all[k].w, 3, 20);
        CHECK_OK(graft_image_scale_longer(i, "area", all[k].side, &r, &e), &e);
        CHECK(has_shape(r, 1, all[k].new_h, all[k].new_w, 3));
        graft_image_release(r);
        r = NULL;
        CHECK_INT(graft_image_scale_longer(i, "area", 0, &r, &e), GRAFT_E_ARG);
        CHECK_INT(graft_image_scale_longer(i, "area", 16385, &r, &e), GRAFT_E_ARG);
        CHECK_INT(graft_image_scale_longer(i, "best", 4, &r, &e), GRAFT_E_ARG);
        CHECK(!r);
        graft_image_release(i);
    }
}

static void scaled_to_a_shorter_side(void)
{
    static const struct {
        int64_t h, w, side, new_h, new_w;
    } all[] = {{8, 16, 4, 4, 8}, {16, 8, 4, 8, 4}, {5, 5, 9, 9, 9}, {30, 10, 5, 15, 5}};
    graft_image *r = NULL;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        graft_image *i = picture(1, all[k].h, all[k].w, 3, 20);
        CHECK_OK(graft_image_scale_shorter(i, "area", all[k].side, &r, &e), &e);
        CHECK(has_shape(r, 1, all[k].new_h, all[k].new_w, 3));
        graft_image_release(r);
        r = NULL;
        CHECK_INT(graft_image_scale_shorter(i, "area", 0, &r, &e), GRAFT_E_ARG);
        CHECK(!r);
        graft_image_release(i);
    }
}

/* By a search of all multiples instead of a formula. */
static void resolutions(void)
{
    static const int64_t aspect[][2] = {{1, 1}, {2, 3}, {16, 9}, {21, 9}, {9, 16}};
    for (int a = 0; a < 5; a++)
        for (int64_t multiple = 8; multiple <= 128; multiple += 20)
            for (double mp = 0.1; mp < 16; mp += 1.7) {
                int64_t side[2], best[2] = {0, 0};
                for (int k = 0; k < 2; k++) {
                    double ideal =
                        sqrt(mp * 1048576 * (double)aspect[a][k] / (double)aspect[a][!k]);
                    for (int64_t i = 1; i <= 16384 / multiple; i++)
                        if (!best[k] ||
                            fabs((double)(i * multiple) - ideal) < fabs((double)best[k] - ideal))
                            best[k] = i * multiple;
                }
                CHECK_OK(graft_image_resolution(aspect[a][0], aspect[a][1], mp, multiple, &side[0],
                                                &side[1], &e),
                         &e);
                CHECK(side[0] == best[0] && side[1] == best[1]);
            }
    int64_t w, h;
    CHECK_INT(graft_image_resolution(0, 1, 1, 8, &w, &h, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_resolution(1, 1, 1, 0, &w, &h, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_resolution(1, 1, NAN, 8, &w, &h, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_resolution(1000, 1, 16, 8, &w, &h, &e), GRAFT_E_ARG);
    CHECK_OK(graft_image_resolution(1000, 1, 0.1, 128, &w, &h, &e), &e);
    CHECK_INT(h, 128);
}

/* Normal numbers about the picture, clipped, other ones for another seed; transparency stays. */
static void with_noise(void)
{
    graft_image *grey = NULL, *clear = picture(1, 4, 4, 4, 21), *r[3] = {NULL};
    double mean = 0, square = 0;
    CHECK_OK(graft_image_empty(64, 64, 1, 0x808080, &grey, &e), &e);
    float middle = *graft_image_data(grey, NULL);
    for (int k = 0; k < 3; k++)
        CHECK_OK(graft_image_noise(grey, (uint64_t)(k / 2), 0.125, &r[k], &e), &e);
    const float *v = graft_image_data(r[0], NULL);
    for (int i = 0; i < 64 * 64 * 3; i++) {
        CHECK(v[i] >= 0 && v[i] <= 1);
        mean += (v[i] - middle) / 12288.0;
        square += (v[i] - middle) * (v[i] - middle) / 12288.0;
    }
    CHECK(fabs(mean) < 0.005 && fabs(sqrt(square) - 0.125) < 0.005);
    /* What torch.manual_seed(0); torch.randn(4, 4) begins with. */
    CHECK_NEAR(v[0] - middle, 0.125 * -1.1258, 1e-4);
    CHECK_NEAR(v[1] - middle, 0.125 * -1.1524, 1e-4);
    CHECK(memcmp(v, graft_image_data(r[1], NULL), 12288 * 4) == 0);
    CHECK(memcmp(v, graft_image_data(r[2], NULL), 12288 * 4) != 0);
    for (int k = 0; k < 3; k++) graft_image_release(r[k]);
    CHECK_OK(graft_image_noise(clear, 1, 1, &r[0], &e), &e);
    for (int k = 0; k < 64; k++)
        CHECK((at(r[0], 0, k / 16, k / 4 % 4, k % 4) == at(clear, 0, k / 16, k / 4 % 4, k % 4)) ==
              (k % 4 == 3));
    graft_image_release(r[0]);
    r[0] = NULL;
    CHECK_INT(graft_image_noise(grey, 1, NAN, &r[0], &e), GRAFT_E_ARG);
    CHECK(!r[0]);
    graft_image_release(grey);
    graft_image_release(clear);
}

/* ------------------------------------------------------------------ memory */

static graft_status each(int which, graft_image *i, graft_image *mask, graft_image **r,
                         graft_image **q)
{
    switch (which) {
    case 0:
        return graft_image_flip(i, true, r, &e);
    case 1:
        return graft_image_rotate(i, 1, r, &e);
    case 2:
        return graft_image_from_batch(i, 0, 1, r, &e);
    case 3:
        return graft_image_repeat(i, 2, r, &e);
    case 4:
        return graft_image_split_alpha(i, r, q, &e);
    case 5:
        return graft_image_join_alpha(i, mask, r, &e);
    case 7:
        return graft_image_noise(i, 1, 0.5, r, &e);
    case 6:
        return graft_image_scale_pixels(i, "bilinear", 0.0001, 1, r, &e);
    default:
        return graft_image_composite(i, i, 1, 1, true, mask, r, &e);
    }
}

/* Every allocation of each fails once: nothing leaks, nothing is handed out. */
static void out_of_memory(void)
{
    graft_image *i = picture(2, 4, 4, 4, 11), *mask = picture(1, 2, 2, 1, 12);
    for (int which = 0; which < 9; which++)
        for (int n = 1; n < 40; n++) {
            graft_image *r = NULL, *q = NULL;
            graft_alloc_stats before, after;
            graft_alloc_stats_get(&before);
            graft_alloc_fail_at(n);
            graft_status st = each(which, i, mask, &r, &q);
            graft_alloc_fail_at(0);
            CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !r && !q));
            graft_image_release(r);
            graft_image_release(q);
            graft_alloc_stats_get(&after);
            CHECK_INT(after.live_blocks, before.live_blocks);
            if (st == GRAFT_OK) break;
            CHECK(n < 39);
        }
    graft_image_release(i);
    graft_image_release(mask);
}

int main(void)
{
    graft_alloc_stats stats;
    RUN(turned);
    RUN(batches);
    RUN(transparency);
    RUN(laid_over);
    RUN(laid_over_with_transparency);
    RUN(scaled_to_pixels);
    RUN(scaled_to_a_longer_side);
    RUN(scaled_to_a_shorter_side);
    RUN(resolutions);
    RUN(with_noise);
    RUN(out_of_memory);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
