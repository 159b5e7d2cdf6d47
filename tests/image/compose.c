/* Pictures and latents put together, against plain definitions of the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/latent.h"
#include "tests/test.h"

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
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t k = 0; k < n * h * w * c; k++) v[k] = value(k, seed);
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){n, h, w, c}, c == 1, &i, &e), &e);
    return i;
}

static graft_latent *latent(int64_t n, int64_t h, int64_t w, uint32_t seed)
{
    float v[2048];
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t k = 0; k < n * 4 * h * w; k++) v[k] = value(k, seed);
    CHECK_OK(graft_latent_from_data(v, (const int64_t[]){n, 4, h, w}, &l, &e), &e);
    return l;
}

static graft_latent *with_mask(graft_latent *l, graft_image *mask)
{
    graft_latent *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_set_mask(l, mask, &r, &e), &e);
    graft_latent_release(l);
    graft_image_release(mask);
    return r;
}

static float at(const graft_latent *l, int64_t n, int64_t c, int64_t y, int64_t x)
{
    int64_t s[4];
    const float *v = graft_latent_data(l, s);
    return v[((n * s[1] + c) * s[2] + y) * s[3] + x];
}

static float mask_at(const graft_latent *l, int64_t n, int64_t y, int64_t x)
{
    int64_t s[4];
    const float *v = graft_image_data(graft_latent_mask(l), s);
    return v[(n * s[1] + y) * s[2] + x];
}

static bool has_shape(const graft_latent *l, int64_t n, int64_t h, int64_t w)
{
    int64_t s[4];
    graft_latent_data(l, s);
    return s[0] == n && s[1] == 4 && s[2] == h && s[3] == w;
}

/* ------------------------------------------------------------------ latents */

static void cropped(void)
{
    graft_latent *l = with_mask(latent(2, 6, 7, 1), picture(1, 6, 7, 1, 2)), *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_crop(l, 16, 8, 24, 39, &r, &e), &e);
    CHECK(has_shape(r, 2, 4, 3));
    int wrong = 0;
    for (int i = 0; i < 2 * 4 * 4 * 3; i++) {
        int x = i % 3, y = i / 3 % 4, c = i / 12 % 4, n = i / 48;
        wrong += at(r, n, c, y, x) != at(l, n, c, y + 1, x + 2);
        wrong += mask_at(r, 0, y, x) != mask_at(l, 0, y + 1, x + 2);
    }
    CHECK_INT(wrong, 0);
    graft_latent_release(r);
    CHECK_OK(graft_latent_crop(l, 48, 40, 512, 512, &r, &e), &e);
    CHECK(has_shape(r, 2, 1, 1));
    CHECK(at(r, 1, 3, 0, 0) == at(l, 1, 3, 5, 6));
    graft_latent_release(r);
    CHECK_INT(graft_latent_crop(l, 56, 0, 64, 64, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_crop(l, 0, 48, 64, 64, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_crop(l, 0, 0, 7, 64, &r, &e), GRAFT_E_ARG);
    graft_latent_release(l);
}

/* Columns or rows from either end, with their mask; no more than there are. */
static void cut(void)
{
    static const struct {
        graft_latent_axis axis;
        int64_t index, amount, y, x, h, w;
    } cases[] = {
        {GRAFT_LATENT_COLUMNS, 0, 1, 0, 0, 6, 1},   {GRAFT_LATENT_COLUMNS, 2, 3, 0, 2, 6, 3},
        {GRAFT_LATENT_COLUMNS, 5, 10, 0, 5, 6, 2},  {GRAFT_LATENT_COLUMNS, 99, 4, 0, 6, 6, 1},
        {GRAFT_LATENT_COLUMNS, -2, 1, 0, 5, 6, 1},  {GRAFT_LATENT_COLUMNS, -2, 9, 0, 5, 6, 2},
        {GRAFT_LATENT_COLUMNS, -99, 3, 0, 0, 6, 3}, {GRAFT_LATENT_ROWS, 1, 2, 1, 0, 2, 7},
        {GRAFT_LATENT_ROWS, -1, 16384, 5, 0, 1, 7}};
    graft_latent *l = with_mask(latent(2, 6, 7, 1), picture(1, 6, 7, 1, 2)), *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const int64_t h = cases[k].h, w = cases[k].w;
        int wrong = 0;
        CHECK_OK(graft_latent_cut(l, cases[k].axis, cases[k].index, cases[k].amount, &r, &e), &e);
        CHECK(has_shape(r, 2, h, w));
        for (int64_t i = 0; i < 2 * 4 * h * w; i++) {
            const int64_t x = i % w, y = i / w % h, c = i / (w * h) % 4, n = i / (4 * w * h);
            wrong += at(r, n, c, y, x) != at(l, n, c, y + cases[k].y, x + cases[k].x);
            wrong += mask_at(r, 0, y, x) != mask_at(l, 0, y + cases[k].y, x + cases[k].x);
        }
        CHECK_INT(wrong, 0);
        graft_latent_release(r);
    }
    CHECK_INT(graft_latent_cut(l, GRAFT_LATENT_COLUMNS, 0, 0, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_cut(l, GRAFT_LATENT_ROWS, 0, -1, &r, &e), GRAFT_E_ARG);
    graft_latent_release(l);
}

/* Positions in pixels are those of FLUX.2's places, 16 each way. */
static void in_places_of_sixteen(void)
{
    enum { C = 128 };
    graft_latent *to = NULL, *from = NULL, *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_latent_create((const int64_t[]){1, C, 4, 6}, &to, &e), &e);
    CHECK_OK(graft_latent_create((const int64_t[]){1, C, 1, 2}, &from, &e), &e);
    for (int i = 0; i < C * 24; i++) graft_latent_writable(to)[i] = (float)i;
    for (int i = 0; i < C * 2; i++) graft_latent_writable(from)[i] = -1;
    CHECK_OK(graft_latent_crop(to, 32, 31, 47, 16, &r, &e), &e);
    const float *d = graft_latent_data(r, s);
    CHECK(s[2] == 1 && s[3] == 2 && d[0] == 8 && d[1] == 9 && d[2] == 24 + 8);
    graft_latent_release(r);
    CHECK_INT(graft_latent_crop(to, 96, 0, 64, 64, &r, &e), GRAFT_E_ARG);
    for (int masked = 0; masked < 2; masked++) {
        CHECK_OK(masked ? graft_latent_composite_masked(to, from, 48, 16, false, NULL, &r, &e)
                        : graft_latent_composite(to, from, 48, 16, 0, &r, &e),
                 &e);
        d = graft_latent_data(r, s);
        for (int i = 0; i < 24; i++) CHECK(d[i] == (i == 9 || i == 10 ? -1 : (float)i));
        graft_latent_release(r);
    }
    graft_latent_release(to);
    graft_latent_release(from);
}

static void turned(void)
{
    enum { H = 3, W = 5 };
    graft_latent *l = with_mask(latent(2, H, W, 3), picture(2, 8 * H, 8 * W, 1, 4)), *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int how = 0; how < 6; how++) {
        int turns = how - 2, wrong = 0;
        CHECK_OK(how < 2 ? graft_latent_flip(l, how == 0, &r, &e)
                         : graft_latent_rotate(l, turns, &r, &e),
                 &e);
        bool lies = how > 1 && turns % 2;
        CHECK(has_shape(r, 2, lies ? W : H, lies ? H : W));
        for (int scale = 1; scale <= 8; scale += 7) /* samples, then the mask */
            for (int i = 0; i < H * W * scale * scale; i++) {
                int h = H * scale, w = W * scale, y = i / w, x = i % w;
                /* Where a clockwise turn brings the pixel: the left column to the top. */
                const int to[6][2] = {{h - 1 - y, x}, {y, w - 1 - x},         {y, x},
                                      {x, h - 1 - y}, {h - 1 - y, w - 1 - x}, {w - 1 - x, y}};
                const int *p = to[how];
                wrong += scale == 1 ? at(r, 1, 2, p[0], p[1]) != at(l, 1, 2, y, x)
                                    : mask_at(r, 1, p[0], p[1]) != mask_at(l, 1, y, x);
            }
        CHECK_INT(wrong, 0);
        graft_latent_release(r);
    }
    CHECK_INT(graft_latent_rotate(l, 4, &r, &e), GRAFT_E_ARG);
    graft_latent_release(l);
}

static void blended(void)
{
    graft_latent *a = latent(2, 4, 4, 5), *b = latent(1, 4, 4, 6), *large = latent(1, 8, 8, 7);
    graft_latent *r = NULL, *small = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_blend(a, b, 0.75, &r, &e), &e);
    for (int i = 0; i < 128; i++)
        CHECK_NEAR(at(r, i / 64, i / 16 % 4, i / 4 % 4, i % 4),
                   0.75 * at(a, i / 64, i / 16 % 4, i / 4 % 4, i % 4) +
                       0.25 * at(b, 0, i / 16 % 4, i / 4 % 4, i % 4),
                   1e-6);
    graft_latent_release(r);
    CHECK_OK(graft_latent_blend(b, large, 0, &r, &e), &e);
    CHECK(has_shape(r, 1, 4, 4));
    CHECK_OK(graft_latent_upscale_by(large, "bicubic", 0.5, &small, &e), &e);
    for (int i = 0; i < 64; i++)
        CHECK_NEAR(at(r, 0, i / 16, i / 4 % 4, i % 4), at(small, 0, i / 16, i / 4 % 4, i % 4),
                   1e-6);
    graft_latent_release(r);
    graft_latent_release(a);
    graft_latent_release(b);
    graft_latent_release(large);
    graft_latent_release(small);
}

static void summed(void)
{
    graft_latent *a = with_mask(latent(2, 4, 4, 17), picture(1, 4, 4, 1, 18)), *r = NULL;
    graft_latent *b = latent(1, 4, 4, 19), *large = latent(1, 8, 8, 20), *small = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int sign = -1; sign <= 1; sign += 2) {
        CHECK_OK(graft_latent_sum(a, 1, b, sign, &r, &e), &e);
        CHECK(has_shape(r, 2, 4, 4) && mask_at(r, 0, 1, 2) == mask_at(a, 0, 1, 2));
        for (int i = 0; i < 128; i++) {
            int n = i / 64, c = i / 16 % 4, y = i / 4 % 4, x = i % 4;
            CHECK_NEAR(at(r, n, c, y, x), at(a, n, c, y, x) + sign * at(b, 0, c, y, x), 1e-6);
        }
        graft_latent_release(r);
    }
    CHECK_OK(graft_latent_sum(b, 0, large, 1, &r, &e), &e);
    CHECK_OK(graft_latent_upscale_by(large, "bilinear", 0.5, &small, &e), &e);
    for (int i = 0; i < 64; i++)
        CHECK_NEAR(at(r, 0, i / 16, i / 4 % 4, i % 4), at(small, 0, i / 16, i / 4 % 4, i % 4),
                   1e-6);
    graft_latent_release(r);
    CHECK_OK(graft_latent_sum(a, -2.5, NULL, 0, &r, &e), &e);
    CHECK(at(r, 1, 2, 3, 0) == -2.5f * at(a, 1, 2, 3, 0));
    graft_latent_release(r);
    r = NULL;
    CHECK_INT(graft_latent_sum(a, NAN, NULL, 0, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_sum(a, 1, b, INFINITY, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_latent *const all[] = {a, b, large, small};
    for (int i = 0; i < 4; i++) graft_latent_release(all[i]);
}

static void noise_is_shared(void)
{
    graft_latent *a = latent(4, 2, 2, 21), *part = NULL, *r = NULL, *own = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_same_noise(a, true, &r, &e), &e);
    for (int i = 0; i < 4; i++) CHECK_INT(graft_latent_batch_index(r)[i], 0);
    CHECK(graft_latent_data(r, NULL) == graft_latent_data(a, NULL));
    graft_latent_release(r);
    CHECK_OK(graft_latent_from_batch(a, 2, 2, &part, &e), &e);
    part = with_mask(part, picture(1, 2, 2, 1, 22));
    CHECK_OK(graft_latent_same_noise(part, true, &r, &e), &e);
    CHECK(graft_latent_batch_index(r)[0] == 2 && graft_latent_batch_index(r)[1] == 2);
    CHECK(graft_latent_mask(r) == graft_latent_mask(part));
    CHECK_OK(graft_latent_same_noise(r, false, &own, &e), &e);
    CHECK(!graft_latent_batch_index(own) && graft_latent_mask(own));
    graft_latent *const all[] = {a, part, r, own};
    for (int i = 0; i < 4; i++) graft_latent_release(all[i]);
}

static void batched(void)
{
    graft_latent *a = latent(2, 4, 4, 8), *b = latent(1, 4, 4, 9), *r = NULL, *picked = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_batch(a, b, &r, &e), &e);
    const int64_t *index = graft_latent_batch_index(r); /* each batch's own */
    CHECK(has_shape(r, 3, 4, 4) && !graft_latent_mask(r));
    CHECK(index && index[0] == 0 && index[1] == 1 && index[2] == 0);
    CHECK(at(r, 1, 3, 2, 1) == at(a, 1, 3, 2, 1) && at(r, 2, 3, 2, 1) == at(b, 0, 3, 2, 1));
    graft_latent_release(r);
    /* Sample 1 of a, whose noise is draw 1; then those of a latent without numbers. */
    CHECK_OK(graft_latent_from_batch(a, 1, 1, &picked, &e), &e);
    picked = with_mask(picked, picture(1, 4, 4, 1, 10));
    CHECK_OK(graft_latent_batch(picked, a, &r, &e), &e);
    index = graft_latent_batch_index(r);
    CHECK(index && index[0] == 1 && index[1] == 0 && index[2] == 1);
    CHECK(mask_at(r, 0, 3, 2) == mask_at(picked, 0, 3, 2));
    CHECK(mask_at(r, 1, 3, 2) == 1 && mask_at(r, 2, 0, 0) == 1);
    graft_latent_release(r);
    CHECK_OK(graft_latent_batch(a, picked, &r, &e), &e);
    CHECK(mask_at(r, 0, 3, 2) == 1 && mask_at(r, 2, 3, 2) == mask_at(picked, 0, 3, 2));
    graft_latent_release(r);
    graft_latent_release(a);
    a = latent(1, 2, 6, 11);
    CHECK_OK(graft_latent_batch(b, a, &r, &e), &e);
    CHECK(has_shape(r, 2, 4, 4));
    graft_latent_release(r);
    graft_latent_release(a);
    graft_latent_release(b);
    graft_latent_release(picked);
}

static void laid_over(void)
{
    graft_latent *to = latent(2, 6, 8, 12), *from = latent(1, 4, 4, 13), *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    /* At 3, 2 of the cells: two cells fade at the left and above, none at the lower edge. */
    CHECK_OK(graft_latent_composite(to, from, 24, 16, 16, &r, &e), &e);
    for (int i = 0; i < 2 * 48; i++) {
        int n = i / 48, y = i / 8 % 6, x = i % 8, sy = y - 2, sx = x - 3;
        double want = at(to, n, 1, y, x), m = 1;
        if (sx >= 0 && sy >= 0 && sx < 4 && sy < 4) {
            if (sy < 2) m *= (sy + 1) / 2.0;
            if (sx < 2) m *= (sx + 1) / 2.0;
            if (sx > 1) m *= (4 - sx) / 2.0;
            want = m * at(from, 0, 1, sy, sx) + (1 - m) * want;
        }
        CHECK_NEAR(at(r, n, 1, y, x), want, 1e-6);
    }
    graft_latent_release(r);
    /* Without a fade it covers, and what sticks out is left out. */
    CHECK_OK(graft_latent_composite(to, from, 48, 32, 0, &r, &e), &e);
    CHECK(at(r, 1, 2, 5, 7) == at(from, 0, 2, 1, 1) && at(r, 1, 2, 3, 7) == at(to, 1, 2, 3, 7));
    graft_latent_release(r);
    CHECK_OK(graft_latent_composite(to, from, 800, 800, 0, &r, &e), &e);
    CHECK(at(r, 1, 2, 5, 7) == at(to, 1, 2, 5, 7));
    graft_latent_release(r);
    CHECK_INT(graft_latent_composite(to, from, -8, 0, 0, &r, &e), GRAFT_E_ARG);
    graft_latent_release(to);
    graft_latent_release(from);
}

static void laid_over_by_a_mask(void)
{
    graft_latent *to = latent(2, 6, 8, 14), *from = latent(1, 4, 4, 15), *r = NULL;
    graft_image *mask = picture(2, 4, 4, 1, 16);
    const float *m = graft_image_data(mask, NULL);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_composite_masked(to, from, 16, 8, false, mask, &r, &e), &e);
    for (int i = 0; i < 2 * 16; i++) {
        int n = i / 16, y = i / 4 % 4, x = i % 4;
        double w = m[i], base = at(to, n, 3, y + 1, x + 2);
        CHECK_NEAR(at(r, n, 3, y + 1, x + 2), w * at(from, 0, 3, y, x) + (1 - w) * base, 1e-6);
    }
    CHECK(at(r, 0, 0, 0, 0) == at(to, 0, 0, 0, 0));
    graft_latent_release(r);
    CHECK_OK(graft_latent_composite_masked(to, from, 16, 8, false, NULL, &r, &e), &e);
    CHECK(at(r, 1, 3, 4, 5) == at(from, 0, 3, 3, 3));
    graft_latent_release(r);
    graft_latent *all = NULL;
    CHECK_OK(graft_latent_upscale(from, "bilinear", 64, 64, false, &all, &e), &e);
    CHECK_OK(graft_latent_composite_masked(all, from, 0, 0, true, NULL, &r, &e), &e);
    for (int i = 0; i < 64; i++)
        CHECK_NEAR(at(r, 0, 1, i / 8, i % 8), at(all, 0, 1, i / 8, i % 8), 1e-6);
    graft_latent_release(r);
    graft_latent_release(all);
    graft_latent_release(to);
    graft_latent_release(from);
    graft_image_release(mask);
}

/* ------------------------------------------------------------------ pictures */

static void picture_batches(void)
{
    graft_image *a = picture(1, 2, 3, 3, 20), *b = picture(2, 2, 3, 4, 21), *r = NULL;
    graft_image *large = picture(1, 4, 6, 3, 22), *half = NULL, *mask = picture(1, 2, 3, 1, 23);
    const float *x = graft_image_data(a, NULL), *y = graft_image_data(b, NULL), *v;
    int64_t s[4];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_batch(a, b, &r, &e), &e);
    v = graft_image_data(r, s);
    CHECK(s[0] == 3 && s[1] == 2 && s[2] == 3 && s[3] == 4);
    for (int i = 0; i < 6; i++) CHECK(v[4 * i] == x[3 * i] && v[4 * i + 3] == 1);
    CHECK(memcmp(v + 24, y, 48 * sizeof *v) == 0);
    graft_image_release(r);
    CHECK_OK(graft_image_batch(a, large, &r, &e), &e);
    CHECK_OK(graft_image_scale(large, "bilinear", 3, 2, true, &half, &e), &e);
    v = graft_image_data(r, s);
    CHECK(s[0] == 2 && s[3] == 3);
    CHECK(memcmp(v + 18, graft_image_data(half, NULL), 18 * sizeof *v) == 0);
    graft_image_release(r);
    CHECK_INT(graft_image_batch(a, mask, &r, &e), GRAFT_E_ARG);
    CHECK(r == NULL);
    CHECK_OK(graft_image_join((const graft_image *const[]){large, b, a, large}, 4, &r, &e), &e);
    v = graft_image_data(r, s);
    CHECK(s[0] == 5 && s[1] == 4 && s[2] == 6 && s[3] == 4);
    x = graft_image_data(large, NULL);
    for (int i = 0; i < 24; i++)
        for (int c = 0; c < 4; c++) {
            CHECK(v[4 * i + c] == (c < 3 ? x[3 * i + c] : 1));
            CHECK(v[4 * (96 + i) + c] == v[4 * i + c]);
            CHECK(c < 3 || v[4 * (72 + i) + c] == 1);
        }
    graft_image_release(r);
    CHECK_OK(graft_image_join((const graft_image *const[]){mask}, 1, &r, &e), &e);
    CHECK(graft_image_is_mask(r) && *graft_image_data(r, s) == *graft_image_data(mask, NULL));
    graft_image_release(r);
    CHECK_INT(graft_image_join((const graft_image *const[]){a, b, mask}, 3, &r, &e), GRAFT_E_ARG);
    CHECK(r == NULL);
    graft_image *const all[] = {a, b, large, half, mask};
    for (int i = 0; i < 5; i++) graft_image_release(all[i]);
}

static void picture_blends(void)
{
    static const char *const names[] = {"normal",  "multiply",   "screen",
                                        "overlay", "soft_light", "difference"};
    graft_image *a = picture(2, 4, 4, 3, 24), *b = picture(1, 4, 4, 3, 25), *r = NULL;
    const float *v = graft_image_data(a, NULL), *w = graft_image_data(b, NULL);
    graft_err e = GRAFT_ERR_INIT;
    for (int k = 0; k < 6; k++) {
        CHECK_OK(graft_image_blend(a, b, 0.25, names[k], &r, &e), &e);
        for (int i = 0; i < 96; i++) {
            double x = v[i], y = w[i % 48];
            double d = x <= 0.25 ? ((16 * x - 12) * x + 4) * x : sqrt(x);
            double soft = y <= 0.5 ? x - (1 - 2 * y) * x * (1 - x) : x + (2 * y - 1) * (d - x);
            double hard = x <= 0.5 ? 2 * x * y : 1 - 2 * (1 - x) * (1 - y);
            double all[] = {y, x * y, 1 - (1 - x) * (1 - y), hard, soft, x - y};
            CHECK_NEAR(graft_image_data(r, NULL)[i], fmax(0, 0.75 * x + 0.25 * all[k]), 1e-6);
        }
        graft_image_release(r);
    }
    CHECK_INT(graft_image_blend(a, b, 0.25, "burn", &r, &e), GRAFT_E_ARG);
    graft_image_release(a);
    graft_image_release(b);
}

static void padded(void)
{
    enum { H = 10, W = 9 };
    graft_image *a = picture(2, H, W, 3, 26), *r = NULL, *m = NULL;
    const float *v = graft_image_data(a, NULL);
    int64_t s[4];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_pad(a, (const int64_t[]){2, 0, 0, 3}, 4, &r, &m, &e), &e);
    const float *got = graft_image_data(r, s), *mask = graft_image_data(m, NULL);
    CHECK(s[0] == 2 && s[1] == H + 3 && s[2] == W + 2 && s[3] == 3);
    for (int i = 0; i < 2 * (H + 3) * (W + 2); i++) {
        int x = i % (W + 2) - 2, y = i / (W + 2) % (H + 3), n = i / (W + 2) / (H + 3);
        bool inside = x >= 0 && y < H;
        CHECK(got[3 * i + 1] == (inside ? v[((n * H + y) * W + x) * 3 + 1] : 0.5f));
        int d = x < H - y ? x : H - y; /* only the left and the lower side have room */
        double k = d < 4 ? (4 - d) / 4.0 : 0;
        if (n == 0) CHECK_NEAR(mask[i], inside ? k * k : 1, 1e-6);
    }
    graft_image_release(r);
    graft_image_release(m);
    CHECK_OK(graft_image_pad(a, (const int64_t[]){0, 0, 0, 0}, 4, &r, &m, &e), &e);
    for (int i = 0; i < H * W; i++) CHECK(graft_image_data(m, NULL)[i] == 0);
    graft_image_release(r);
    graft_image_release(m);
    CHECK_OK(graft_image_pad(a, (const int64_t[]){1, 0, 0, 0}, 5, &r, &m, &e), &e); /* too far */
    for (int i = 0; i < H * (W + 1); i++)
        CHECK(graft_image_data(m, NULL)[i] == (i % (W + 1) ? 0 : 1));
    graft_image_release(r);
    graft_image_release(m);
    CHECK_INT(graft_image_pad(a, (const int64_t[]){0, 16384, 0, 0}, 4, &r, &m, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_image_pad(a, (const int64_t[]){0, -1, 0, 0}, 4, &r, &m, &e), GRAFT_E_ARG);
    graft_image_release(a);
}

/* ------------------------------------------------------------------ memory */

static graft_status each(int which, graft_latent *l, graft_image *i, graft_latent **r,
                         graft_image **p, graft_image **q, graft_err *e)
{
    switch (which) {
    case 0:
        return graft_latent_crop(l, 8, 8, 16, 16, r, e);
    case 1:
        return graft_latent_rotate(l, 1, r, e);
    case 2:
        return graft_latent_blend(l, l, 0.5, r, e);
    case 3:
        return graft_latent_batch(l, l, r, e);
    case 4:
        return graft_latent_composite(l, l, 8, 8, 8, r, e);
    case 5:
        return graft_latent_composite_masked(l, l, 8, 8, true, graft_latent_mask(l), r, e);
    case 6:
        return graft_image_batch(i, i, p, e);
    case 7:
        return graft_image_blend(i, i, 0.5, "screen", p, e);
    case 8:
        return graft_latent_sum(l, 1, l, 1, r, e);
    case 9:
        return graft_latent_same_noise(l, true, r, e);
    case 10:
        return graft_latent_cut(l, GRAFT_LATENT_ROWS, 1, 2, r, e);
    case 11:
        return graft_latent_cut_to_batch(l, GRAFT_LATENT_LAYERS, 1, r, e);
    default:
        return graft_image_pad(i, (const int64_t[]){1, 1, 1, 1}, 1, p, q, e);
    }
}

/* Every allocation of each fails once: nothing leaks, nothing is handed out. */
static void out_of_memory(void)
{
    graft_latent *l = NULL, *picked = with_mask(latent(2, 4, 4, 30), picture(1, 4, 4, 1, 31));
    graft_image *i = picture(1, 4, 4, 3, 32);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_from_batch(picked, 0, 2, &l, &e), &e); /* with indices */
    for (int which = 0; which < 13; which++)
        for (int n = 1; n < 40; n++) {
            graft_latent *r = NULL;
            graft_image *p = NULL, *q = NULL;
            graft_alloc_stats before, after;
            graft_alloc_stats_get(&before);
            graft_alloc_fail_at(n);
            graft_status st = each(which, l, i, &r, &p, &q, &e);
            graft_alloc_fail_at(0);
            CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !r && !p && !q));
            graft_latent_release(r);
            graft_image_release(p);
            graft_image_release(q);
            graft_alloc_stats_get(&after);
            CHECK_INT(after.live_blocks, before.live_blocks);
            if (st == GRAFT_OK) break;
            CHECK(n < 39);
        }
    graft_latent_release(l);
    graft_latent_release(picked);
    graft_image_release(i);
}

/* What stands where when two pictures are side by side: which one, its pixel, or neither. */
static float stitched_at(graft_image *const *two, const int64_t at[4], bool beside, int64_t spacing,
                         const int64_t out[4], float colour)
{
    int64_t s[2][4], begin = 0;
    for (int k = 0; k < 2; k++) {
        const float *v = graft_image_data(two[k], s[k]);
        const int64_t margin = (out[beside ? 1 : 2] - s[k][beside ? 1 : 2]) / 2;
        const int64_t y = at[1] - (beside ? margin : begin), x = at[2] - (beside ? begin : margin);
        begin += s[k][beside ? 2 : 1] + spacing;
        if (y < 0 || y >= s[k][1] || x < 0 || x >= s[k][2]) continue;
        if (at[3] >= s[k][3]) return 1;
        const int64_t n = at[0] < s[k][0] ? at[0] : s[k][0] - 1;
        return v[((n * s[k][1] + y) * s[k][2] + x) * s[k][3] + at[3]];
    }
    return at[3] < 3 ? colour : 1;
}

static void side_by_side(void)
{
    static const char *const sides[] = {"right", "down", "left", "up"};
    for (int k = 0; k < 16; k++) {
        const bool beside = k % 2 == 0, dark = k & 4;
        const int64_t spacing = k & 8 ? 3 : 0; /* which becomes 4 */
        graft_image *a = picture(1, 4, 5, 3, 1), *b = picture(2, 7, 2, 3 + k / 8, 2), *r = NULL;
        const graft_stitching how = {
            .direction = sides[k % 4], .spacing = spacing, .colour = dark ? "black" : "white"};
        graft_image *const two[2] = {k % 4 < 2 ? a : b, k % 4 < 2 ? b : a};
        graft_err e = GRAFT_ERR_INIT;
        int64_t s[4], i[4];
        CHECK_OK(graft_image_stitch(a, b, &how, &r, &e), &e);
        const float *v = graft_image_data(r, s);
        const int64_t between = spacing ? 4 : 0;
        CHECK(s[0] == 2 && s[3] == 3 + k / 8);
        CHECK(s[1] == (beside ? 7 : 4 + between + 7) && s[2] == (beside ? 5 + between + 2 : 5));
        for (i[0] = 0; i[0] < s[0]; i[0]++)
            for (i[1] = 0; i[1] < s[1]; i[1]++)
                for (i[2] = 0; i[2] < s[2]; i[2]++)
                    for (i[3] = 0; i[3] < s[3]; i[3]++)
                        CHECK(*v++ == stitched_at(two, i, beside, between, s, dark ? 0 : 1));
        graft_image_release(a);
        graft_image_release(b);
        graft_image_release(r);
    }
}

/* The second one gets the first one's height, or above and below its width. */
static void side_by_side_alike(void)
{
    graft_image *a = picture(1, 6, 9, 3, 1), *b = picture(1, 4, 7, 3, 2),
                *grey = picture(1, 4, 7, 1, 3);
    graft_image *r = NULL, *sized = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int down = 0; down < 2; down++) {
        const graft_stitching how = {
            .direction = down ? "down" : "left", .match = true, .colour = "red"};
        const int64_t w = down ? 9 : 10, h = down ? 5 : 6; /* of 10.5 and 5.14 */
        int64_t s[4];
        CHECK_OK(graft_image_stitch(a, b, &how, &r, &e), &e);
        CHECK_OK(graft_image_scale(b, "lanczos", w, h, false, &sized, &e), &e);
        const float *got = graft_image_data(r, s), *want = graft_image_data(sized, NULL);
        CHECK(s[1] == (down ? 11 : 6) && s[2] == (down ? 9 : 19));
        for (int64_t y = 0; y < h; y++)
            CHECK(memcmp(got + ((down ? 6 + y : y) * s[2]) * 3, want + y * w * 3,
                         (size_t)w * 3 * sizeof *got) == 0);
        graft_image_release(r);
        graft_image_release(sized);
    }
    const graft_stitching wrong[] = {{"beside", false, 0, "white"},
                                     {"left", false, 0, "pink"},
                                     {"left", false, -1, "white"},
                                     {"up", false, 20000, "white"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(graft_image_stitch(a, b, &wrong[i], &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_stitch(a, grey, &(graft_stitching){"up", false, 0, "blue"}, &r, &e),
              GRAFT_E_ARG);
    CHECK(!r);
    graft_image_release(a);
    graft_image_release(b);
    graft_image_release(grey);
}

int main(void)
{
    graft_alloc_stats stats;
    RUN(cropped);
    RUN(cut);
    RUN(in_places_of_sixteen);
    RUN(turned);
    RUN(blended);
    RUN(summed);
    RUN(noise_is_shared);
    RUN(batched);
    RUN(laid_over);
    RUN(laid_over_by_a_mask);
    RUN(picture_batches);
    RUN(picture_blends);
    RUN(padded);
    RUN(side_by_side);
    RUN(side_by_side_alike);
    RUN(out_of_memory);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
