/* Masks made, changed and combined, against plain definitions of the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "tests/test.h"

enum { N = 2, H = 9, W = 11, PLANE = H * W };

static graft_image *make(int64_t n, int64_t h, int64_t w, int64_t channels, const float *v)
{
    graft_image *i = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){n, h, w, channels}, channels == 1, &i, &e),
             &e);
    return i;
}

static void fill(float *v, int n, uint32_t seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(seed >> 24) / 255.0f;
    }
}

/* Checks the values of a mask that it lets go of. */
static void expect(graft_image *got, int64_t h, int64_t w, const float *want, float tolerance)
{
    int64_t shape[4];
    int wrong = 0;
    const float *v = graft_image_data(got, shape);
    CHECK(graft_image_is_mask(got));
    CHECK_INT(shape[1], h);
    CHECK_INT(shape[2], w);
    for (int64_t i = 0; i < shape[0] * h * w; i++) wrong += !(fabsf(v[i] - want[i]) <= tolerance);
    CHECK_INT(wrong, 0);
    graft_image_release(got);
}

static void made(void)
{
    float v[12];
    graft_image *m;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < 12; i++) v[i] = 0.25f;
    CHECK_OK(graft_mask_solid(4, 3, 0.25, &m, &e), &e);
    expect(m, 3, 4, v, 0);
    CHECK_INT(graft_mask_solid(0, 3, 1, &m, &e), GRAFT_E_ARG);
}

static void inverted_and_cut_off(void)
{
    float v[N * PLANE], want[N * PLANE];
    graft_image *m, *r;
    graft_err e = GRAFT_ERR_INIT;
    fill(v, N * PLANE, 1);
    v[3] = 0.5f;
    m = make(N, H, W, 1, v);
    for (int i = 0; i < N * PLANE; i++) want[i] = 1 - v[i];
    CHECK_OK(graft_image_invert(m, &r, &e), &e);
    expect(r, H, W, want, 0);
    for (int i = 0; i < N * PLANE; i++) want[i] = v[i] > 0.5f ? 1 : 0; /* 0.5 itself is not */
    CHECK_OK(graft_mask_threshold(m, 0.5, &r, &e), &e);
    expect(r, H, W, want, 0);
    graft_image_release(m);
}

static void cropped(void)
{
    float v[N * PLANE], want[N * PLANE], rgb[H * W * 3];
    graft_image *m, *r, *picture;
    int64_t shape[4];
    graft_err e = GRAFT_ERR_INIT;
    fill(v, N * PLANE, 2);
    fill(rgb, H * W * 3, 3);
    m = make(N, H, W, 1, v);
    for (int p = 0; p < N; p++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 5; x++)
                want[(p * 4 + y) * 5 + x] = v[p * PLANE + (y + 2) * W + x + 3];
    CHECK_OK(graft_image_crop(m, 3, 2, 5, 4, &r, &e), &e);
    expect(r, 4, 5, want, 0);
    CHECK_OK(graft_image_crop(m, 9, 7, 100, 100, &r, &e), &e);
    graft_image_data(r, shape);
    CHECK(shape[0] == N && shape[1] == 2 && shape[2] == 2);
    graft_image_release(r);
    CHECK_INT(graft_image_crop(m, W, 0, 1, 1, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_crop(m, 0, H, 1, 1, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_crop(m, 0, 0, 0, 1, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_crop(m, -1, 0, 1, 1, &r, &e), GRAFT_E_ARG);
    picture = make(1, H, W, 3, rgb);
    CHECK_OK(graft_image_crop(picture, 4, 5, 1, 2, &r, &e), &e);
    CHECK(!graft_image_is_mask(r));
    CHECK(memcmp(graft_image_data(r, shape), rgb + (5 * W + 4) * 3, 3 * sizeof *rgb) == 0);
    CHECK_INT(shape[3], 3);
    graft_image_release(r);
    graft_image_release(picture);
    graft_image_release(m);
}

/* ------------------------------------------------------------------ growing */

static bool never(void *ctx)
{
    ++*(int *)ctx;
    return false;
}

static bool second(void *ctx)
{
    return ++*(int *)ctx > 1;
}

/* By definition: all within `by` steps, in a square or in a diamond. */
static float grown(const float *v, int y, int x, int by, bool tapered)
{
    int reach = by < 0 ? -by : by;
    float best = v[y * W + x];
    for (int j = 0; j < H; j++)
        for (int k = 0; k < W; k++) {
            int dy = abs(j - y), dx = abs(k - x);
            if (tapered ? dy + dx > reach : dy > reach || dx > reach) continue;
            float w = v[j * W + k];
            if (by > 0 ? w > best : w < best) best = w;
        }
    return best;
}

static void expanded(void)
{
    static const int by[] = {0, 1, 2, 5, 16384, -1, -3, -16384};
    float v[N * PLANE], want[N * PLANE];
    graft_image *m, *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int asked = 0;
    const graft_task patient = {.ctx = &asked, .cancelled = never},
                     hasty = {.ctx = &asked, .cancelled = second};
    fill(v, N * PLANE, 5);
    m = make(N, H, W, 1, v);
    for (int k = 0; k < 8; k++)
        for (int tapered = 0; tapered < 2; tapered++) {
            for (int i = 0; i < N * PLANE; i++)
                want[i] = grown(v + i / PLANE * PLANE, i / W % H, i % W, by[k], tapered);
            CHECK_OK(graft_mask_expand(m, by[k], tapered, k % 2 ? &patient : NULL, &r, &e), &e);
            expect(r, H, W, want, 0);
        }
    CHECK(asked > 0 && asked < 100); /* far fewer than 16384 times: nothing changes any more */
    asked = 0;
    CHECK_INT(graft_mask_expand(m, 3, true, &hasty, &r, &e), GRAFT_E_CANCEL);
    CHECK_INT(graft_mask_expand(m, 16385, true, NULL, &r, &e), GRAFT_E_ARG);
    graft_image_release(m);
}

/* ------------------------------------------------------------------ the others */

static void feathered(void)
{
    float v[N * PLANE], want[N * PLANE];
    graft_image *m, *r;
    graft_err e = GRAFT_ERR_INIT;
    fill(v, N * PLANE, 6);
    m = make(N, H, W, 1, v);
    for (int i = 0; i < N * PLANE; i++) {
        int x = i % W, y = i / W % H;
        double k = 1;
        if (x < 2) k *= (x + 1) / 2.0;
        if (y < 4) k *= (y + 1) / 4.0;
        if (x >= W - 3) k *= (W - x) / 3.0;
        want[i] = (float)(v[i] * k);
    }
    CHECK_OK(graft_mask_feather(m, (const int64_t[]){2, 4, 3, 0}, &r, &e), &e);
    expect(r, H, W, want, 1e-6f);
    for (int i = 0; i < N * PLANE; i++) want[i] = v[i] * (float)(i % W + 1) / W;
    CHECK_OK(graft_mask_feather(m, (const int64_t[]){500, 0, 0, 0}, &r, &e), &e);
    expect(r, H, W, want, 1e-6f);
    graft_image_release(m);
}

static void combined(void)
{
    static const char *const names[] = {"multiply", "add", "subtract", "and", "or", "xor"};
    float v[N * PLANE], s[4 * 5], want[N * PLANE];
    graft_image *m, *source, *r;
    graft_err e = GRAFT_ERR_INIT;
    fill(v, N * PLANE, 7);
    fill(s, 20, 8);
    m = make(N, H, W, 1, v);
    source = make(1, 4, 5, 1, s);
    for (int k = 0; k < 6; k++) {
        for (int i = 0; i < N * PLANE; i++) {
            int x = i % W - 8, y = i / W % H - 2; /* sticks out on the right */
            want[i] = v[i];
            if (x < 0 || y < 0 || x >= 5 || y >= 4) continue;
            float a = v[i], b = s[y * 5 + x];
            bool p = a > 0.5f, q = b > 0.5f; /* no value is 0.5 */
            float all[] = {a * b, fminf(a + b, 1), fmaxf(a - b, 0), p && q, p || q, p != q};
            want[i] = all[k];
        }
        CHECK_OK(graft_mask_combine(m, source, 8, 2, names[k], &r, &e), &e);
        expect(r, H, W, want, 1e-6f);
    }
    CHECK_OK(graft_mask_combine(m, source, 500, 2, "add", &r, &e), &e);
    expect(r, H, W, v, 0);
    CHECK_INT(graft_mask_combine(m, source, 0, 0, "divide", &r, &e), GRAFT_E_ARG);
    graft_image_release(m);
    graft_image_release(source);
}

static void of_a_colour(void)
{
    float v[4 * 3] = {1, 0.5f, 0, 1, 0.502f, 0, 1, 0.4f, 0, 2, 0.501f, -1};
    const float want[4] = {1, 1, 0, 1};
    graft_image *picture = make(1, 2, 2, 3, v), *r;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_color_to_mask(picture, 0xff8000, &r, &e), &e);
    expect(r, 2, 2, want, 0);
    graft_image_release(picture);
    CHECK_OK(graft_image_empty(2, 2, 1, 0x123456, &picture, &e), &e);
    CHECK_OK(graft_image_color_to_mask(picture, 0x123456, &r, &e), &e);
    expect(r, 2, 2, (const float[]){1, 1, 1, 1}, 0);
    graft_image_release(picture);
}

/* Pictures are no masks. */
static void refusals(void)
{
    graft_image *picture, *mask, *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_empty(2, 2, 1, 0, &picture, &e), &e);
    CHECK_OK(graft_mask_solid(2, 2, 1, &mask, &e), &e);
    CHECK_INT(graft_mask_threshold(picture, 0.5, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_mask_expand(picture, 1, true, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_mask_expand(mask, 20000, true, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_mask_expand(mask, INT64_MIN, true, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_mask_feather(picture, (const int64_t[]){1, 1, 1, 1}, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_mask_combine(picture, mask, 0, 0, "add", &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_mask_combine(mask, picture, 0, 0, "add", &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_color_to_mask(mask, 0, &r, &e), GRAFT_E_ARG);
    graft_image_release(picture);
    graft_image_release(mask);
}

/* Every allocation may fail. */
static void out_of_memory(void)
{
    float v[PLANE];
    graft_image *m, *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    fill(v, PLANE, 9);
    m = make(1, H, W, 1, v);
    for (int i = 1; i <= 3; i++) {
        graft_alloc_fail_at(i);
        CHECK_INT(graft_mask_expand(m, 2, true, NULL, &r, &e), GRAFT_E_NOMEM);
    }
    graft_alloc_fail_at(0);
    graft_image_release(m);
}

int main(void)
{
    graft_alloc_stats stats;
    RUN(made);
    RUN(inverted_and_cut_off);
    RUN(cropped);
    RUN(expanded);
    RUN(feathered);
    RUN(combined);
    RUN(of_a_colour);
    RUN(refusals);
    RUN(out_of_memory);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
