#include "engine/image/mask.h"

#include "base/alloc.h"
#include "engine/image/image.h"
#include "tests/test.h"

static graft_image *mask_of(int64_t n, int64_t h, int64_t w, const float *v)
{
    graft_image *i = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){n, h, w, 1}, true, &i, &e), &e);
    return i;
}

/* The definition: a convolution of the rounded mask with ones, padding ceil((grow - 1) / 2),
 * clamped to 0..1, cut to the mask's size. */
static float grown(const float *v, int64_t h, int64_t w, int64_t y, int64_t x, int64_t grow)
{
    if (grow == 0) return rintf(v[y * w + x]);
    int64_t pad = (int64_t)ceil((double)(grow - 1) / 2.0);
    double sum = 0;
    for (int64_t j = y - pad; j < y - pad + grow; j++)
        for (int64_t k = x - pad; k < x - pad + grow; k++)
            if (j >= 0 && k >= 0 && j < h && k < w) sum += rintf(v[j * w + k]);
    return sum > 1 ? 1 : sum < 0 ? 0 : (float)sum;
}

static void grow(void)
{
    enum { N = 2, H = 13, W = 9 };
    float v[N * H * W];
    uint32_t r = 7;
    for (int i = 0; i < N * H * W; i++) {
        r = r * 1664525u + 1013904223u;
        v[i] = r >> 28 == 0 ? 0.8f : (float)(r >> 28) / 40.0f;
    }
    v[0] = 0.5f; /* half to even: 0 */
    graft_image *m = mask_of(N, H, W, v), *g;
    for (int64_t by = 0; by < 24; by++) {
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_mask_grow(m, by, &g, &e), &e);
        const float *d = graft_image_data(g, NULL);
        int wrong = 0;
        for (int64_t i = 0; i < N * H * W; i++)
            wrong += d[i] != grown(v + i / (H * W) * H * W, H, W, i / W % H, i % W, by);
        CHECK_INT(wrong, 0);
        graft_image_release(g);
    }
    CHECK_INT(graft_mask_grow(m, -1, &g, NULL), GRAFT_E_ARG);
    graft_image_release(m);
    graft_image_empty(8, 8, 1, 0, &m, NULL);
    CHECK_INT(graft_mask_grow(m, 1, &g, NULL), GRAFT_E_ARG);
    graft_image_release(m);
}

static void resize_mask(void)
{
    const float v[8] = {0, 1, 0, 1, 1, 1, 0, 0};
    graft_image *m = mask_of(2, 2, 2, v), *r;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_image_resize_mask(m, 1, 4, 3, &r, &e), &e);
    const float *d = graft_image_data(r, s);
    CHECK(s[0] == 3 && s[1] == 1 && s[2] == 4 && s[3] == 1 && graft_image_is_mask(r));
    CHECK(d[0] == 0.0f && d[1] == 0.25f && d[3] == 1.0f && d[4] == 0.5f && d[7] == 0.5f);
    CHECK(memcmp(d, d + 8, 4 * sizeof *d) == 0);
    graft_image_release(r);
    CHECK_OK(graft_image_resize_mask(m, 2, 2, 1, &r, &e), &e);
    CHECK(memcmp(graft_image_data(r, s), v, 4 * sizeof *v) == 0 && s[0] == 1);
    graft_image_release(r);
    CHECK_OK(graft_image_resize_mask(m, 2, 2, 0, &r, &e), &e);
    CHECK(memcmp(graft_image_data(r, s), v, sizeof v) == 0 && s[0] == 2);
    graft_image_release(r);
    CHECK_INT(graft_image_resize_mask(m, 0, 2, 1, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_image_release(m);
}

static void grey(void)
{
    const float v[4] = {0, 1, 0.5f, 0.51f};
    graft_image *m = mask_of(1, 2, 2, v), *p, *r;
    graft_err e = GRAFT_ERR_INIT;
    float px[2 * 4 * 4];
    for (int i = 0; i < 32; i++) px[i] = (float)i / 32.0f;
    CHECK_OK(graft_image_from_data(px, (const int64_t[]){2, 2, 2, 4}, false, &p, &e), &e);
    CHECK_OK(graft_mask_fill_grey(p, m, &r, &e), &e);
    const float *d = graft_image_data(r, NULL);
    for (int i = 0; i < 32; i++) {
        int masked = i / 4 % 4 == 1 || i / 4 % 4 == 3;
        CHECK_NEAR(d[i], masked && i % 4 < 3 ? 0.5 : px[i], 1e-7);
    }
    graft_image_release(r);
    graft_image_release(m);
    m = mask_of(1, 1, 4, v);
    CHECK_INT(graft_mask_fill_grey(p, m, &r, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "4 x 1") && strstr(e.text, "2 x 2") && !r);
    graft_image_release(m);
    graft_image_release(p);
}

static void crop(void)
{
    float px[19 * 21];
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    for (int i = 0; i < 19 * 21; i++) px[i] = (float)i;
    graft_image *p = mask_of(1, 19, 21, px), *r, *q;
    CHECK_OK(graft_image_crop_to_multiple(p, 8, &r, &e), &e);
    const float *d = graft_image_data(r, s);
    CHECK(s[1] == 16 && s[2] == 16);
    CHECK(d[0] == 1 * 21 + 2 && d[16 * 16 - 1] == 16 * 21 + 17);
    CHECK_OK(graft_image_crop_to_multiple(r, 8, &q, &e), &e);
    CHECK(q == r);
    graft_image_release(q);
    graft_image_release(r);
    CHECK_INT(graft_image_crop_to_multiple(p, 20, &r, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "21 x 19") && !r);
    graft_image_release(p);
}

static void every_allocation_fails(void)
{
    const float v[4] = {0, 1, 1, 0};
    graft_image *m = mask_of(1, 2, 2, v), *r;
    for (int what = 0; what < 4; what++) {
        graft_status st = GRAFT_E_NOMEM;
        for (int n = 1; n < 50 && st; n++) {
            graft_alloc_fail_at(n);
            st = what == 0   ? graft_image_resize_mask(m, 5, 5, 2, &r, NULL)
                 : what == 1 ? graft_mask_grow(m, 3, &r, NULL)
                 : what == 2 ? graft_mask_fill_grey(m, m, &r, NULL)
                             : graft_image_crop_to_multiple(m, 2, &r, NULL);
            graft_alloc_fail_at(0);
            CHECK((st == 0) == (r != NULL));
            graft_image_release(r);
        }
        CHECK_INT(st, 0);
    }
    graft_image_release(m);
    graft_alloc_stats after;
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, 0);
}

int main(void)
{
    RUN(grow);
    RUN(resize_mask);
    RUN(grey);
    RUN(crop);
    RUN(every_allocation_fails);
    return test_end();
}
