/* Each method against its formula, written anew for single places in double precision. */
#include "engine/image/resize.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "tests/test.h"

static uint32_t noise_state = 12345;
static float noise(void)
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return (float)(noise_state >> 8) / (float)(1 << 24);
}

static int64_t clamp(int64_t v, int64_t n)
{
    return v < 0 ? 0 : v >= n ? n - 1 : v;
}

/* Weight of source place j for place i of the result; the sum over all j (also outside the
 * picture, where the edge repeats) is 1. */
static double weight(graft_resize_method m, int64_t in, int64_t out, int64_t i, int64_t j)
{
    double place = ((double)i + 0.5) * (double)in / (double)out - 0.5, d, a = -0.75;
    switch (m) {
    case GRAFT_RESIZE_NEAREST_EXACT:
        return j == (2 * i + 1) * in / (2 * out);
    case GRAFT_RESIZE_AREA: {
        int64_t first = i * in / out, last = ((i + 1) * in + out - 1) / out;
        return j >= first && j < last ? 1.0 / (double)(last - first) : 0.0;
    }
    case GRAFT_RESIZE_BILINEAR:
        d = fabs(place - (double)j);
        return d < 1.0 ? 1.0 - d : 0.0;
    case GRAFT_RESIZE_BICUBIC:
        d = fabs(place - (double)j);
        if (d <= 1.0) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
        return d < 2.0 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0.0;
    default: { /* Lanczos with three lobes, widened when it shrinks; no repeated edge */
        double wide = in > out ? (double)in / (double)out : 1.0, x, sum = 0, w = 0;
        for (int64_t k = 0; k < in; k++) {
            x = (place - (double)k) / wide;
            double v = fabs(x) >= 3.0 ? 0.0
                       : x == 0.0
                           ? 1.0
                           : 3.0 * sin(M_PI * x) * sin(M_PI * x / 3.0) / (M_PI * M_PI * x * x);
            sum += v;
            if (k == j) w = v;
        }
        return w / sum;
    }
    }
}

static double expected(graft_resize_method m, const float *src, const int64_t s[4], int64_t n,
                       int64_t y, int64_t x, int64_t c, int64_t h, int64_t w)
{
    const int64_t pad = m == GRAFT_RESIZE_BICUBIC || m == GRAFT_RESIZE_BILINEAR ? 3 : 0;
    double sum = 0;
    for (int64_t j = -pad; j < s[1] + pad; j++) {
        double wy = weight(m, s[1], h, y, j);
        if (wy == 0) continue;
        for (int64_t k = -pad; k < s[2] + pad; k++) {
            double wx = weight(m, s[2], w, x, k);
            if (wx == 0) continue;
            int64_t at = ((n * s[1] + clamp(j, s[1])) * s[2] + clamp(k, s[2])) * s[3] + c;
            sum += wy * wx * src[at];
        }
    }
    return sum;
}

static const int64_t sizes[][4] = {{1, 1, 1, 1},   {1, 1, 7, 5},   {8, 8, 16, 16}, {7, 5, 3, 11},
                                   {16, 12, 8, 6}, {5, 9, 64, 2},  {64, 40, 1, 1}, {31, 33, 32, 32},
                                   {3, 3, 3, 3},   {10, 10, 3, 7}, {9, 4, 9, 13},  {6, 6, 13, 6}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static void compare(graft_resize_method m, double tolerance)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int64_t c = 1; c <= 3; c += 2) {
            const int64_t s[4] = {2, sizes[i][0], sizes[i][1], c}, h = sizes[i][2], w = sizes[i][3];
            const int64_t n_in = 2 * s[1] * s[2] * c, n_out = 2 * h * w * c;
            float *src = malloc((size_t)n_in * sizeof *src), *dst = malloc((size_t)n_out * 4);
            graft_err e = GRAFT_ERR_INIT;
            for (int64_t k = 0; k < n_in; k++)
                src[k] = m == GRAFT_RESIZE_LANCZOS ? (float)(int)(noise() * 128 + 64) / 255.0f
                                                   : noise() * 2 - 1;
            CHECK_OK(graft_resize(m, src, s, dst, h, w, false, &e), &e);
            double worst = 0;
            for (int64_t k = 0; k < n_out; k++) {
                double v =
                    expected(m, src, s, k / c / w / h, k / c / w % h, k / c % w, k % c, h, w);
                if (m == GRAFT_RESIZE_LANCZOS) v = v < 0 ? 0 : v > 1 ? 1 : v;
                worst = fmax(worst, fabs(v - dst[k]));
            }
            CHECK(worst <= tolerance);
            if (worst > tolerance) fprintf(stderr, "  method %d case %d: %g\n", (int)m, i, worst);
            free(src);
            free(dst);
        }
}

static void nearest(void)
{
    compare(GRAFT_RESIZE_NEAREST_EXACT, 0);
}
static void bilinear(void)
{
    compare(GRAFT_RESIZE_BILINEAR, 3e-6);
}
static void area(void)
{
    compare(GRAFT_RESIZE_AREA, 1e-6);
}
static void bicubic(void)
{
    compare(GRAFT_RESIZE_BICUBIC, 2e-5);
}
/* Half a step of rounding for each of the passes, the first one amplified by the second. */
static void lanczos(void)
{
    compare(GRAFT_RESIZE_LANCZOS, 1.6 / 255);
}

/* Keys' kernel with a = -0.5, by its values at whole and half places. */
static double keys(double x)
{
    x = fabs(x);
    if (x >= 2) return 0;
    return x < 1 ? 1 + x * x * (1.5 * x - 2.5) : 2 - x * (4 - x * (2.5 - 0.5 * x));
}

/* Weights of one axis for place `at` of `out`, their sum 1. */
static void smooth_weights(int64_t in, int64_t out, int64_t at, double *w)
{
    const double scale = (double)in / (double)out, wide = scale > 1 ? scale : 1;
    double sum = 0;
    for (int64_t k = 0; k < in; k++)
        sum += w[k] = keys(((double)k + 0.5 - ((double)at + 0.5) * scale) / wide);
    for (int64_t k = 0; k < in; k++) w[k] /= sum;
}

/* The whole picture, and a part of it, which has the same values. */
static void smooth(void)
{
    for (int i = 0; i < N_SIZES; i++) {
        const int64_t s[4] = {2, sizes[i][0], sizes[i][1], 3}, h = sizes[i][2], w = sizes[i][3];
        const graft_resize_part all = {{h, w}, 0, 0, h, w};
        const graft_resize_part part = {{h, w}, h / 3, w / 4, h - h / 3, (w + 3) / 4};
        float *src = malloc((size_t)(2 * s[1] * s[2] * 3) * sizeof *src);
        float *dst = malloc((size_t)(2 * h * w * 3) * sizeof *dst);
        float *cut = malloc((size_t)(2 * part.h * part.w * 3) * sizeof *cut), *at = cut;
        double wx[64], wy[64], worst = 0;
        graft_err e = GRAFT_ERR_INIT;
        for (int64_t k = 0; k < 2 * s[1] * s[2] * 3; k++) src[k] = noise() * 2 - 1;
        CHECK_OK(graft_resize_smooth(src, s, dst, &all, &e), &e);
        CHECK_OK(graft_resize_smooth(src, s, cut, &part, &e), &e);
        for (int64_t k = 0; k < 2 * h * w * 3; k++) {
            const int64_t c = k % 3, x = k / 3 % w, y = k / 3 / w % h, n = k / 3 / w / h;
            double sum = 0;
            smooth_weights(s[1], h, y, wy);
            smooth_weights(s[2], w, x, wx);
            for (int64_t j = 0; j < s[1] * s[2]; j++)
                sum += wy[j / s[2]] * wx[j % s[2]] * src[((n * s[1] * s[2]) + j) * 3 + c];
            worst = fmax(worst, fabs(sum - dst[k]));
            if (y >= part.y && x >= part.x && x < part.x + part.w) CHECK(*at++ == dst[k]);
        }
        CHECK(worst <= 1e-6);
        free(src), free(dst), free(cut);
    }
}

static void known_values(void)
{
    const float two[2] = {0, 1}, four[4] = {0, 1, 2, 3};
    const int64_t s2[4] = {1, 1, 2, 1}, s4[4] = {1, 1, 4, 1}, s22[4] = {1, 2, 2, 1};
    float d[16];
    graft_resize(GRAFT_RESIZE_BILINEAR, two, s2, d, 1, 4, false, NULL);
    CHECK(d[0] == 0.0f && d[1] == 0.25f && d[2] == 0.75f && d[3] == 1.0f);
    graft_resize(GRAFT_RESIZE_BICUBIC, two, s2, d, 1, 4, false, NULL);
    CHECK_NEAR(d[0], -0.10546875, 1e-7); /* the kernel at 0.25: overshoots, as PyTorch's does */
    CHECK_NEAR(d[1], 0.2265625, 1e-6);
    CHECK_NEAR(d[0] + d[3], 1.0, 1e-6);
    graft_resize(GRAFT_RESIZE_AREA, four, s4, d, 1, 2, false, NULL);
    CHECK(d[0] == 0.5f && d[1] == 2.5f);
    graft_resize(GRAFT_RESIZE_AREA, four, s4, d, 1, 3, false, NULL);
    CHECK(d[0] == 0.5f && d[1] == 1.5f && d[2] == 2.5f);
    graft_resize(GRAFT_RESIZE_NEAREST_EXACT, four, s4, d, 1, 2, false, NULL);
    CHECK(d[0] == 1.0f && d[1] == 3.0f);
    graft_resize(GRAFT_RESIZE_BILINEAR, four, s22, d, 1, 1, false, NULL);
    CHECK(d[0] == 1.5f);
}

static void lanczos_is_8_bit(void)
{
    const float v[4] = {-0.5f, 1.5f, 0.5f, 200.9f / 255.0f};
    const int64_t s[4] = {1, 2, 2, 1};
    float d[64];
    graft_resize(GRAFT_RESIZE_LANCZOS, v, s, d, 2, 2, false, NULL);
    CHECK(d[0] == 0.0f && d[1] == 1.0f && d[2] == 127 / 255.0f && d[3] == 200 / 255.0f);
    graft_resize(GRAFT_RESIZE_LANCZOS, (const float[]){NAN, 0, 0, 0}, s, d, 1, 1, false, NULL);
    CHECK(d[0] == 0.0f);
    for (int k = 0; k < 64; k++) { /* whole steps, and a flat picture stays flat */
        float flat[12];
        for (int i = 0; i < 12; i++) flat[i] = (float)k / 255.0f * 4.0f;
        const int64_t sf[4] = {1, 3, 4, 1};
        graft_resize(GRAFT_RESIZE_LANCZOS, flat, sf, d, 8, 8, false, NULL);
        uint8_t want = (uint8_t)(255.0f * flat[0] > 255.0f ? 255.0f : 255.0f * flat[0]);
        for (int i = 0; i < 64; i++) CHECK(d[i] == want / 255.0f);
    }
}

/* A transparent pixel must not bleed its colour into its neighbours. */
static void lanczos_alpha(void)
{
    float p[2 * 4] = {1, 0, 0, 1, 0, 1, 0, 0}, d[4 * 4];
    const int64_t s[4] = {1, 1, 2, 4};
    graft_resize(GRAFT_RESIZE_LANCZOS, p, s, d, 1, 4, false, NULL);
    for (int i = 0; i < 4; i++) CHECK(d[4 * i + 1] == 0.0f);
    CHECK(d[0] == 1.0f && d[3] == 1.0f);
    CHECK(d[4 * 1] > 0.98f && d[4 * 1 + 3] < 0.9f && d[4 * 1 + 3] > 0.5f);
    graft_resize(GRAFT_RESIZE_LANCZOS, p, s, d, 1, 2, false, NULL);
    CHECK(memcmp(d, p, sizeof p) == 0);
}

/* Quarter of the way between directions 90 degrees apart: 22.5 degrees; lengths mix linearly. */
static void bislerp(void)
{
    const float v[4] = {2, 0, 0, 4}; /* (2,0) and (0,4) */
    const int64_t s[4] = {1, 1, 2, 2};
    float d[8];
    CHECK_INT(graft_resize(GRAFT_RESIZE_BISLERP, v, s, d, 1, 4, false, NULL), 0);
    CHECK_NEAR(d[0], 2, 1e-6);
    CHECK_NEAR(d[1], 0, 1e-6);
    CHECK_NEAR(d[2], 2.5 * cos(M_PI / 8), 1e-5);
    CHECK_NEAR(d[3], 2.5 * sin(M_PI / 8), 1e-5);
    CHECK_NEAR(d[4], 3.5 * cos(3 * M_PI / 8), 1e-5);
    CHECK_NEAR(d[5], 3.5 * sin(3 * M_PI / 8), 1e-5);
    CHECK_NEAR(d[6], 0, 1e-5);
    CHECK_NEAR(d[7], 4, 1e-5);
    graft_resize(GRAFT_RESIZE_BISLERP, v, (const int64_t[]){1, 2, 1, 2}, d, 4, 1, false, NULL);
    CHECK_NEAR(d[2], 2.5 * cos(M_PI / 8), 1e-5);
    CHECK_NEAR(d[5], 3.5 * sin(3 * M_PI / 8), 1e-5);
    /* Opposite: along the line. The same direction: the nearer one, unchanged. Zero: finite. */
    graft_resize(GRAFT_RESIZE_BISLERP, (const float[]){1, 0, -1, 0}, s, d, 1, 4, false, NULL);
    CHECK_NEAR(d[2], 0.5, 1e-6);
    graft_resize(GRAFT_RESIZE_BISLERP, (const float[]){1, 0, 3, 0}, s, d, 1, 4, false, NULL);
    CHECK(d[2] == 1.0f && d[4] == 1.0f);
    graft_resize(GRAFT_RESIZE_BISLERP, (const float[]){0, 0, 0, 0}, s, d, 1, 4, false, NULL);
    for (int i = 0; i < 8; i++) CHECK(d[i] == 0.0f);
    float big[5 * 7 * 4], out[9 * 3 * 4];
    for (int i = 0; i < 5 * 7 * 4; i++) big[i] = noise() - 0.5f;
    const int64_t sb[4] = {1, 5, 7, 4};
    graft_resize(GRAFT_RESIZE_BISLERP, big, sb, out, 9, 3, false, NULL);
    for (int i = 0; i < 9 * 3 * 4; i++) CHECK(isfinite(out[i]) && fabsf(out[i]) < 2);
    float same[5 * 7 * 4];
    graft_resize(GRAFT_RESIZE_BISLERP, big, sb, same, 5, 7, false, NULL);
    for (int i = 0; i < 5 * 7 * 4; i++) CHECK_NEAR(same[i], big[i], 2e-6);
}

static void same_size_is_identity(void)
{
    float v[6 * 5 * 3], d[6 * 5 * 3];
    const int64_t s[4] = {1, 6, 5, 3};
    for (int i = 0; i < 90; i++) v[i] = (float)(int)(noise() * 255) / 255.0f;
    for (int m = 0; m < GRAFT_RESIZE_BISLERP; m++) {
        CHECK_INT(graft_resize((graft_resize_method)m, v, s, d, 6, 5, true, NULL), 0);
        for (int i = 0; i < 90; i++) CHECK_NEAR(d[i], v[i], 1e-6);
    }
}

static void centre(void)
{
    float v[8], d[8];
    for (int i = 0; i < 8; i++) v[i] = (float)i;
    /* 8 wide, 1 high to 2 x 1: the middle two. */
    graft_resize(GRAFT_RESIZE_NEAREST_EXACT, v, (const int64_t[]){1, 1, 8, 1}, d, 1, 2, true, NULL);
    CHECK(d[0] == 3 && d[1] == 4);
    graft_resize(GRAFT_RESIZE_NEAREST_EXACT, v, (const int64_t[]){1, 8, 1, 1}, d, 2, 1, true, NULL);
    CHECK(d[0] == 3 && d[1] == 4);
    /* (5 - 2) / 2 = 1.5 rounds to the even 2, which leaves one column. */
    graft_resize(GRAFT_RESIZE_BILINEAR, v, (const int64_t[]){1, 1, 5, 1}, d, 1, 2, true, NULL);
    CHECK(d[0] == 2 && d[1] == 2);
    /* An extreme aspect never cuts everything away. */
    graft_resize(GRAFT_RESIZE_AREA, v, (const int64_t[]){1, 1, 2, 1}, d, 8, 1, true, NULL);
    for (int i = 0; i < 8; i++) CHECK(d[i] == 0.5f);
}

static void images(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_image *i, *r;
    int64_t s[4];
    CHECK_OK(graft_image_empty(30, 20, 2, 0x336699, &i, &e), &e);
    static const char *const names[] = {"nearest-exact", "bilinear", "area", "bicubic", "lanczos"};
    for (int m = 0; m < 5; m++) {
        CHECK_OK(graft_image_scale(i, names[m], 45, 10, m & 1, &r, &e), &e);
        const float *d = graft_image_data(r, s);
        CHECK(s[0] == 2 && s[1] == 10 && s[2] == 45 && s[3] == 3);
        CHECK_NEAR(d[3 * 449 + 1], 0.4, 1e-6);
        graft_image_release(r);
    }
    CHECK_OK(graft_image_scale(i, "area", 0, 7, false, &r, &e), &e);
    graft_image_data(r, s);
    CHECK(s[1] == 7 && s[2] == 10); /* 10.5 rounds to even */
    graft_image_release(r);
    CHECK_OK(graft_image_scale(i, "area", 1, 0, false, &r, &e), &e);
    graft_image_data(r, s);
    CHECK(s[1] == 1 && s[2] == 1);
    graft_image_release(r);
    CHECK_OK(graft_image_scale(i, "area", 0, 0, false, &r, &e), &e);
    CHECK(r == i);
    graft_image_release(r);
    CHECK_OK(graft_image_scale_by(i, "bicubic", 1.25, &r, &e), &e);
    graft_image_data(r, s);
    CHECK(s[1] == 25 && s[2] == 38);
    graft_image_release(r);
    CHECK_INT(graft_image_scale(i, "bislerp", 4, 4, false, &r, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "bislerp") && strstr(e.text, "lanczos") && !r);
    CHECK_INT(graft_image_scale(i, "area", -1, 4, false, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_scale(i, "area", 16385, 4, false, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_scale_by(i, "area", 1e300, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_scale_by(i, "area", NAN, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_scale_by(i, "area", -1, &r, &e), GRAFT_E_ARG);
    graft_image_release(i);
    CHECK_OK(graft_image_empty(4096, 1, 1, 0x336699, &i, &e), &e);
    CHECK_INT(graft_image_scale(i, "area", 16384, 0, false, &r, &e), 0);
    graft_image_data(r, s);
    CHECK(s[1] == 4 && s[2] == 16384);
    graft_image_release(r);
    graft_image_release(i);
}

static void every_allocation_fails(void)
{
    float v[48], d[480];
    const int64_t s[4] = {1, 4, 4, 3};
    for (int i = 0; i < 48; i++) v[i] = noise();
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    for (int m = 0; m < GRAFT_RESIZE_METHODS; m++) {
        graft_status st = GRAFT_E_NOMEM;
        for (int n = 1; n < 50 && st; n++) {
            graft_err e = GRAFT_ERR_INIT;
            graft_alloc_fail_at(n);
            st = graft_resize((graft_resize_method)m, v, s, d, 4, 10, true, &e);
            graft_alloc_fail_at(0);
            CHECK(!st || (st == GRAFT_E_NOMEM && e.text[0]));
        }
        CHECK_INT(st, 0);
    }
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    RUN(nearest);
    RUN(bilinear);
    RUN(area);
    RUN(bicubic);
    RUN(lanczos);
    RUN(smooth);
    RUN(known_values);
    RUN(lanczos_is_8_bit);
    RUN(lanczos_alpha);
    RUN(bislerp);
    RUN(same_size_is_identity);
    RUN(centre);
    RUN(images);
    RUN(every_allocation_fails);
    return test_end();
}
