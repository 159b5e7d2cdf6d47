/* Blurs, edges and morphology: against PyTorch's results (golden/pictures), and what they promise
 * of any picture. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/image/golden.h"

static graft_err e;

static float value(int64_t i, uint32_t seed)
{
    uint32_t z = (uint32_t)i * 2654435761u + seed * 40503u;
    z = (z ^ z >> 15) * 2246822519u;
    return (float)(z >> 8) / 16777216.0f;
}

static graft_image *picture(int64_t n, int64_t h, int64_t w, int64_t c, uint32_t seed)
{
    float v[8192];
    graft_image *i = NULL;
    CHECK(n * h * w * c <= 8192);
    for (int64_t k = 0; k < n * h * w * c; k++) v[k] = value(k, seed);
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){n, h, w, c}, false, &i, &e), &e);
    return i;
}

static int64_t size_of(const graft_image *i)
{
    int64_t s[4];
    graft_image_data(i, s);
    return s[0] * s[1] * s[2] * s[3];
}

/* ------------------------------------------------------------------ golden */

static const char *const operations[] = {"erode",    "dilate",     "open",   "close",
                                         "gradient", "bottom_hat", "top_hat"};
#define OPERATIONS (sizeof operations / sizeof *operations)

static void as_pytorch(void)
{
    static const char *const cases[] = {"blur0",    "blur1",  "blur2",  "sharpen0",
                                        "sharpen1", "canny0", "canny1", "canny2"};
    graft_safetensors *f = golden_open("filters.safetensors");
    for (size_t k = 0; f && k < sizeof cases / sizeof *cases; k++) {
        const char *name = cases[k];
        double first = golden_number(f, name, 0), second = golden_number(f, name, 1);
        graft_image *i = golden_image(f, name, "image"), *r = NULL;
        if (name[0] == 'b')
            CHECK_OK(graft_image_blur(i, (int64_t)first, second, NULL, &r, &e), &e);
        else if (name[0] == 's')
            CHECK_OK(graft_image_sharpen(i, (int64_t)first, second, golden_number(f, name, 2), NULL,
                                         &r, &e),
                     &e);
        else
            CHECK_OK(graft_image_canny(i, first, second, NULL, &r, &e), &e);
        golden_expect_image(f, name, "output", r,
                            name[0] == 'c'   ? 0
                            : name[0] == 's' ? 1e-5
                                             : 1e-6);
        graft_image_release(i);
    }
    graft_safetensors_close(f);
}

static void morphology_as_pytorch(void)
{
    static const char *const cases[] = {"morphology0", "morphology1", "morphology2"};
    graft_safetensors *f = golden_open("filters.safetensors");
    for (int k = 0; f && k < 3; k++)
        for (size_t o = 0; o < OPERATIONS; o++) {
            graft_image *i = golden_image(f, cases[k], "image"), *r = NULL;
            CHECK_OK(graft_image_morphology(i, operations[o],
                                            (int64_t)golden_number(f, cases[k], 0), NULL, &r, &e),
                     &e);
            golden_expect_image(f, cases[k], operations[o], r, 0);
            graft_image_release(i);
        }
    graft_safetensors_close(f);
}

/* ------------------------------------------------------------------ blur, sharpen */

/* A mean leaves one colour as it is and stays between the extremes; sharpening by 0 changes
 * nothing; masks stay masks. */
static void means(void)
{
    graft_image *grey = NULL, *mask = NULL, *i = picture(1, 40, 37, 3, 1), *r = NULL;
    CHECK_OK(graft_image_empty(37, 33, 2, 0x804020, &grey, &e), &e);
    for (int64_t radius = 1; radius <= 31; radius += 15) {
        CHECK_OK(graft_image_blur(grey, radius, 10, NULL, &r, &e), &e);
        for (int64_t k = 0; k < size_of(r); k++)
            CHECK_NEAR(graft_image_data(r, NULL)[k], graft_image_data(grey, NULL)[k], 1e-6);
        graft_image_release(r);
        CHECK_OK(graft_image_blur(i, radius, 0.1, NULL, &r, &e), &e);
        for (int64_t k = 0; k < size_of(r); k++)
            CHECK(graft_image_data(r, NULL)[k] > 0 && graft_image_data(r, NULL)[k] < 1);
        graft_image_release(r);
    }
    CHECK_OK(graft_image_sharpen(i, 5, 1, 0, NULL, &r, &e), &e);
    CHECK(memcmp(graft_image_data(r, NULL), graft_image_data(i, NULL),
                 (size_t)size_of(i) * sizeof(float)) == 0);
    graft_image_release(r);
    CHECK_OK(graft_mask_solid(9, 9, 0.5, &mask, &e), &e);
    CHECK_OK(graft_image_blur(mask, 8, 1, NULL, &r, &e), &e);
    CHECK(graft_image_is_mask(r));
    graft_image_release(r);
    graft_image_release(mask);
    graft_image_release(grey);
    graft_image_release(i);
}

static void bad_numbers(void)
{
    graft_image *i = picture(1, 5, 9, 3, 2), *r = NULL;
    CHECK_OK(graft_image_blur(i, 4, 1e-300, NULL, &r, &e), &e); /* nothing but the middle */
    CHECK(graft_image_data(r, NULL)[20] == graft_image_data(i, NULL)[20]);
    graft_image_release(r);
    r = NULL;
    CHECK_INT(graft_image_blur(i, 5, 1, NULL, &r, &e), GRAFT_E_ARG); /* sides of 5 */
    CHECK(strstr(e.text, "9 x 5") && strstr(e.text, "needs 6"));
    CHECK_INT(graft_image_blur(i, 0, 1, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_blur(i, 32, 1, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_blur(i, INT64_MAX, 1, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_blur(i, 1, 0, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_blur(i, 1, NAN, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_sharpen(i, 1, INFINITY, 1, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_sharpen(i, 1, 1, NAN, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_sharpen(i, 1, 1, 1e300, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_canny(i, 0.5, 0.4, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_canny(i, 0, 0.4, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_canny(i, NAN, 0.4, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_canny(i, 0.1, NAN, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_morphology(i, "erode", 0, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_morphology(i, "erode", 16385, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_morphology(i, "melt", 3, NULL, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_image_release(i);
    i = picture(1, 1, 1, 3, 3);
    CHECK_INT(graft_image_blur(i, 1, 1, NULL, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_canny(i, 0.4, 0.8, NULL, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_image_release(i);
}

/* ------------------------------------------------------------------ edges */

/* Rows of '.', and '#' for edges. */
static void expect_edges(const graft_image *i, double low, double high, const char *want)
{
    int64_t s[4];
    graft_image *r = NULL;
    char got[512];
    size_t n = 0;
    CHECK_OK(graft_image_canny(i, low, high, NULL, &r, &e), &e);
    const float *v = graft_image_data(r, s);
    CHECK(s[3] == 3 && !graft_image_is_mask(r) && s[1] * (s[2] + 1) < 512);
    for (int64_t k = 0; k < s[1] * s[2]; k++, v += 3) {
        CHECK(v[0] == v[1] && v[1] == v[2] && (v[0] == 0 || v[0] == 1));
        got[n++] = v[0] == 1 ? '#' : '.';
        if (k % s[2] == s[2] - 1) got[n++] = ' ';
    }
    got[n - 1] = 0;
    CHECK_STR(got, want);
    graft_image_release(r);
}

/* An edge from top to bottom that falls from 2.6 to 0.8: its strong part alone, all that joins
 * that, and nothing where nothing is strong. */
static void weak_edges_join_strong_ones(void)
{
    enum { H = 8, W = 9 };
    float v[H * W];
    graft_image *i = NULL;
    for (int k = 0; k < H * W; k++) {
        int x = k % W, y = k / W;
        float strength = 1 - 0.1f * (float)y;
        v[k] = x < 4 ? 0 : x > 4 ? strength : 0.5f * strength; /* the middle column is steepest */
    }
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){1, H, W, 1}, false, &i, &e), &e);
    expect_edges(i, 0.4, 1.5,
                 "....#.... ....#.... ....#.... ....#.... ....#.... ....#.... "
                 "....#.... ....#....");
    expect_edges(i, 1.5, 1.5,
                 "....#.... ....#.... ....#.... ....#.... ....#.... ......... "
                 "......... .........");
    expect_edges(i, 0.4, 3.0,
                 "......... ......... ......... ......... ......... ......... "
                 "......... .........");
    graft_image_release(i);
}

static void no_numbers_are_no_edges(void)
{
    enum { H = 6, W = 7 };
    float v[H * W * 3];
    graft_image *i = NULL, *r = NULL;
    for (int k = 0; k < H * W * 3; k++)
        v[k] = k % 5 == 0 ? NAN : k % 7 == 0 ? INFINITY : k % 11 == 0 ? -INFINITY : 0.5f;
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){1, H, W, 3}, false, &i, &e), &e);
    expect_edges(i, 0.01, 0.02, "....... ....... ....... ....... ....... .......");
    CHECK_OK(graft_image_sharpen(i, 2, 1, 1, NULL, &r, &e), &e);
    graft_image_release(r);
    for (size_t o = 0; o < OPERATIONS; o++) {
        CHECK_OK(graft_image_morphology(i, operations[o], 3, NULL, &r, &e), &e);
        graft_image_release(r);
    }
    graft_image_release(i);
}

/* ------------------------------------------------------------------ morphology */

static float square_extreme(const graft_image *i, int64_t n, int64_t y, int64_t x, int64_t c,
                            int64_t before, int64_t after, bool largest)
{
    int64_t s[4];
    const float *v = graft_image_data(i, s);
    float found = largest ? -INFINITY : INFINITY;
    for (int64_t b = y - before < 0 ? 0 : y - before; b <= y + after && b < s[1]; b++)
        for (int64_t a = x - before < 0 ? 0 : x - before; a <= x + after && a < s[2]; a++) {
            float w = v[((n * s[1] + b) * s[2] + a) * s[3] + c];
            found = largest == (w > found) ? w : found;
        }
    return found;
}

/* Any size on any picture, the larger ones far beyond its edges, one pixel among them. */
static void squares_of_all_sizes(void)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 3}, {1, 1, 17, 3},  {2, 13, 1, 1},
                                        {2, 6, 7, 5}, {1, 20, 23, 3}, {1, 5, 4, 17}};
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 16, 17, 25, 46, 999, 16384};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
            const int64_t *s = shapes[k], low = sizes[z] / 2, high = sizes[z] - 1 - low;
            graft_image *i = picture(s[0], s[1], s[2], s[3], (uint32_t)(k + 1)), *r[2];
            int wrong = 0;
            CHECK_OK(graft_image_morphology(i, "erode", sizes[z], NULL, &r[0], &e), &e);
            CHECK_OK(graft_image_morphology(i, "dilate", sizes[z], NULL, &r[1], &e), &e);
            for (int64_t p = 0; p < size_of(i); p++) {
                int64_t c = p % s[3], x = p / s[3] % s[2], y = p / s[3] / s[2] % s[1];
                int64_t n = p / s[3] / s[2] / s[1];
                wrong += graft_image_data(r[0], NULL)[p] !=
                         square_extreme(i, n, y, x, c, low, high, false);
                wrong += graft_image_data(r[1], NULL)[p] !=
                         square_extreme(i, n, y, x, c, high, low, true);
            }
            CHECK_INT(wrong, 0);
            for (int m = 0; m < 2; m++) graft_image_release(r[m]);
            graft_image_release(i);
        }
}

/* Openings are nowhere brighter and closings nowhere darker, and a second one changes nothing. */
static void openings_and_closings(void)
{
    graft_image *i = picture(1, 19, 22, 3, 9);
    for (int64_t size = 2; size < 9; size++)
        for (int dark = 0; dark < 2; dark++) {
            const char *name = dark ? "close" : "open";
            graft_image *once = NULL, *twice = NULL;
            int wrong = 0;
            CHECK_OK(graft_image_morphology(i, name, size, NULL, &once, &e), &e);
            CHECK_OK(graft_image_morphology(once, name, size, NULL, &twice, &e), &e);
            for (int64_t k = 0; k < size_of(i); k++) {
                float v = graft_image_data(i, NULL)[k], w = graft_image_data(once, NULL)[k];
                wrong += dark ? w < v : w > v;
                wrong += w != graft_image_data(twice, NULL)[k];
            }
            CHECK_INT(wrong, 0);
            graft_image_release(once);
            graft_image_release(twice);
        }
    graft_image_release(i);
}

/* ------------------------------------------------------------------ memory, cancelling */

static graft_status each(int which, const graft_image *i, const graft_task *task, graft_image **r)
{
    switch (which) {
    case 0:
        return graft_image_blur(i, 2, 1, task, r, &e);
    case 1:
        return graft_image_sharpen(i, 2, 1, 1, task, r, &e);
    case 2:
        return graft_image_canny(i, 0.1, 0.2, task, r, &e);
    case 3:
        return graft_image_morphology(i, "gradient", 3, task, r, &e);
    default:
        return graft_image_morphology(i, "open", 3, task, r, &e);
    }
}

/* Every allocation of each fails once: nothing leaks, nothing is handed out. */
static void out_of_memory(void)
{
    graft_image *i = picture(2, 6, 5, 3, 11);
    for (int which = 0; which < 5; which++)
        for (int n = 1; n < 20; n++) {
            graft_image *r = NULL;
            graft_alloc_stats before, after;
            graft_alloc_stats_get(&before);
            graft_alloc_fail_at(n);
            graft_status st = each(which, i, NULL, &r);
            graft_alloc_fail_at(0);
            CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !r));
            graft_image_release(r);
            graft_alloc_stats_get(&after);
            CHECK_INT(after.live_blocks, before.live_blocks);
            if (st == GRAFT_OK) break;
            CHECK(n > 0 && n < 19);
        }
    graft_image_release(i);
}

static bool count_down(void *ctx)
{
    return (*(int *)ctx)-- <= 0;
}

/* Cancelled at each of the questions in turn. */
static void cancelled(void)
{
    graft_image *i = picture(2, 6, 5, 3, 12);
    for (int which = 0; which < 5; which++) {
        int asked = 0;
        for (graft_status st = GRAFT_E_CANCEL; st != GRAFT_OK; asked++) {
            int left = asked;
            const graft_task task = {.ctx = &left, .cancelled = count_down};
            graft_image *r = NULL;
            st = each(which, i, &task, &r);
            CHECK(st == GRAFT_OK || (st == GRAFT_E_CANCEL && !r));
            graft_image_release(r);
            if (asked > 200) break;
        }
        CHECK(asked > 6 && asked < 200);
    }
    graft_image_release(i);
}

int main(void)
{
    graft_alloc_stats stats;
    RUN(as_pytorch);
    RUN(morphology_as_pytorch);
    RUN(means);
    RUN(bad_numbers);
    RUN(weak_edges_join_strong_ones);
    RUN(no_numbers_are_no_edges);
    RUN(squares_of_all_sizes);
    RUN(openings_and_closings);
    RUN(out_of_memory);
    RUN(cancelled);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
