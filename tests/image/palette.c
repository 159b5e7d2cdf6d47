/* Pictures in few colours: which colours are left, and what dithering keeps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "tests/test.h"

enum { H = 48, W = 64, VALUES = H * W * 4 };
static graft_err e;

static graft_image *picture(const float *v, int64_t channels)
{
    graft_image *i = NULL;
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){1, H, W, channels}, false, &i, &e), &e);
    return i;
}

static graft_image *quantized(const float *v, int64_t channels, int64_t colors, const char *dither)
{
    graft_image *i = picture(v, channels), *r = NULL;
    CHECK_OK(graft_image_quantize(i, colors, dither, NULL, &r, &e), &e);
    graft_image_release(i);
    return r;
}

/* How many different colours there are. */
static int count(const graft_image *i)
{
    static uint8_t there[1 << 24];
    int64_t s[4];
    int n = 0;
    const float *v = graft_image_data(i, s);
    memset(there, 0, sizeof there);
    for (int64_t k = 0; k < s[1] * s[2]; k++) {
        uint32_t color = 0;
        for (int c = 0; c < 3; c++)
            color = color << 8 | (uint32_t)lrintf(255 * v[k * s[3] + (s[3] < 3 ? 0 : c)]);
        n += !there[color];
        there[color] = 1;
    }
    return n;
}

static float noise(uint32_t i)
{
    i = (i ^ i >> 15) * 2246822519u;
    return (float)(i >> 8) / 16777216.0f;
}

/* A picture that has no more colours stays as it is. */
static void few_stay(void)
{
    static const char *const dithers[] = {"none", "floyd-steinberg"};
    static const uint8_t colors[5][3] = {
        {0, 0, 0}, {255, 255, 255}, {10, 200, 30}, {11, 200, 30}, {90, 0, 255}};
    float v[VALUES];
    for (int i = 0; i < H * W; i++)
        for (int c = 0; c < 3; c++) v[3 * i + c] = colors[(i * 7 + i / W) % 5][c] / 255.0f;
    for (int k = 0; k < 2; k++)
        for (int n = 5; n <= 256; n += 251) {
            graft_image *r = quantized(v, 3, n, dithers[k]);
            int64_t s[4];
            const float *got = graft_image_data(r, s);
            for (int i = 0; i < H * W * 3; i++) CHECK(fabsf(got[i] - v[i]) < 1e-6f);
            graft_image_release(r);
        }
}

/* By hand: grey 0, 0, 0, 30, 200, 240 in equal parts. Half of the pixels are black; the other half
 * has 30 alone below its middle, 200 and 240 above. */
static void by_hand(void)
{
    static const int grey[6] = {0, 0, 0, 30, 200, 240};
    static const int want[][6] = {{78, 78, 78, 78, 78, 78},
                                  {0, 0, 0, 157, 157, 157},
                                  {0, 0, 0, 30, 220, 220},
                                  {0, 0, 0, 30, 200, 240}};
    float v[VALUES];
    for (int i = 0; i < H * W; i++) v[i] = grey[i % 6] / 255.0f;
    for (int n = 1; n <= 4; n++) {
        graft_image *r = quantized(v, 1, n, "none");
        int64_t s[4];
        const float *got = graft_image_data(r, s);
        int wrong = 0;
        for (int i = 0; i < H * W; i++) {
            int least = 0;
            for (int k = 1; k < 6; k++)
                if (abs(want[n - 1][k] - grey[i % 6]) < abs(want[n - 1][least] - grey[i % 6]))
                    least = k;
            wrong += lrintf(255 * got[i]) != want[n - 1][least];
        }
        CHECK_INT(wrong, 0);
        CHECK_INT(s[3], 1);
        graft_image_release(r);
    }
}

/* Means over 8 x 16 pixels, half as wide as a colour reaches, are kept by dithering and not
 * without; alpha stays. */
static void dithering(void)
{
    static const char *const dithers[] = {"none",    "floyd-steinberg", "bayer-2",
                                          "bayer-4", "bayer-8",         "bayer-16"};
    float v[VALUES];
    double off[6] = {0};
    for (int i = 0; i < H * W; i++) {
        for (int c = 0; c < 3; c++) v[4 * i + c] = (float)(i % W) / (W - 1);
        v[4 * i + 3] = noise((uint32_t)i);
    }
    for (int k = 0; k < 6; k++) {
        graft_image *r = quantized(v, 4, 4, dithers[k]);
        int64_t s[4];
        const float *got = graft_image_data(r, s);
        CHECK_INT(count(r), 4);
        for (int y = 0; y < H; y += 16)
            for (int x = 16; x < W - 16; x += 8) {
                double sum = 0;
                for (int i = 0; i < 128; i++) {
                    const int at = 4 * ((y + i / 8) * W + x + i % 8);
                    sum += got[at] - v[at];
                    CHECK(got[at + 3] == v[at + 3]);
                }
                off[k] = fmax(off[k], fabs(sum) / 128);
            }
        graft_image_release(r);
    }
    CHECK(off[0] > 0.03);
    CHECK(off[1] < 0.02);
    for (int k = 2; k < 6; k++) CHECK(off[k] < off[0]);
}

static void any_number(void)
{
    float v[VALUES];
    for (int i = 0; i < H * W * 3; i++) v[i] = noise((uint32_t)i + 77) * 1.2f - 0.1f;
    for (int n = 1; n <= 256; n = 2 * n + (n == 3)) {
        graft_image *r = quantized(v, 3, n, "floyd-steinberg"), *s = quantized(v, 3, n, "none");
        CHECK(count(r) <= n);
        CHECK(count(s) <= n &&
              count(s) > 0.9 * n); /* of noise hardly any colour is nearest to none */
        graft_image_release(r);
        graft_image_release(s);
    }
}

static bool stop(void *ctx)
{
    (void)ctx;
    return true;
}

static void failures(void)
{
    float v[VALUES] = {0};
    graft_image *i = picture(v, 3), *r = NULL;
    const graft_task task = {.cancelled = stop};
    CHECK_INT(graft_image_quantize(i, 0, "none", NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_quantize(i, 257, "none", NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_quantize(i, 4, "bayer-3", NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_quantize(i, 4, "none", &task, &r, &e), GRAFT_E_CANCEL);
    graft_status st = GRAFT_E_NOMEM;
    for (int n = 1; st == GRAFT_E_NOMEM && n < 20; n++) {
        CHECK(!r);
        graft_alloc_fail_at(n);
        st = graft_image_quantize(i, 4, "none", NULL, &r, &e);
        graft_alloc_fail_at(0);
    }
    CHECK_INT(st, GRAFT_OK);
    graft_image_release(r);
    graft_image_release(i);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
}

int main(void)
{
    RUN(few_stay);
    RUN(by_hand);
    RUN(dithering);
    RUN(any_number);
    RUN(failures);
    return test_end();
}
