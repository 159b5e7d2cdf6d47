/* Pictures laid over each other by Porter's and Duff's modes, and latents interpolated: against
 * PyTorch's results (golden/pictures), and against what the modes are called. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/image/latent.h"
#include "tests/image/golden.h"

static graft_err e;

static const char *const modes[] = {
    "ADD",      "CLEAR",   "DARKEN", "DST", "DST_ATOP", "DST_IN", "DST_OUT", "DST_OVER", "LIGHTEN",
    "MULTIPLY", "OVERLAY", "SCREEN", "SRC", "SRC_ATOP", "SRC_IN", "SRC_OUT", "SRC_OVER", "XOR"};
enum { MODES = sizeof modes / sizeof *modes };

static graft_image *of(const float *v, int64_t n, int64_t h, int64_t w, int64_t c)
{
    graft_image *i = NULL;
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){n, h, w, c}, c == 1, &i, &e), &e);
    return i;
}

/* ------------------------------------------------------------------ transparency */

static void modes_as_pytorch(void)
{
    static const char *const cases[] = {"porter_duff0", "porter_duff1"};
    static const char *const keys[] = {"source", "source_mask", "destination", "destination_mask"};
    graft_safetensors *f = golden_open("pairs.safetensors");
    for (int k = 0; f && k < 2; k++) {
        graft_image *in[4], *r = NULL, *m = NULL;
        for (int i = 0; i < 4; i++) in[i] = golden_image(f, cases[k], keys[i]);
        const graft_layer_pair pair = {in[0], in[1], in[2], in[3]};
        for (int how = 0; how < MODES; how++) {
            char key[32];
            CHECK_OK(graft_image_porter_duff(&pair, modes[how], &r, &m, &e), &e);
            CHECK(graft_image_is_mask(m) && !graft_image_is_mask(r));
            golden_expect_image(f, cases[k], modes[how], r, 2e-6);
            snprintf(key, sizeof key, "%s.mask", modes[how]);
            golden_expect_image(f, cases[k], key, m, 2e-6);
        }
        for (int i = 0; i < 4; i++) graft_image_release(in[i]);
    }
    graft_safetensors_close(f);
}

/* A source that is red and a destination that is blue, each opaque or clear: four pixels, neither,
 * source only, destination only, both. In words: r, b, . for clear, and p for both colours. */
static void modes_of_opaque_and_clear(void)
{
    static const char *const want[MODES] = {".rbp", "....", ".rb#", "..bb", ".r.b", "...b",
                                            "..b.", ".rbb", ".rbp", "...#", ".__b", ".rbp",
                                            ".r.r", "..br", "...r", ".r..", ".rbr", ".rb."};
    static const float red[12] = {1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0};
    static const float blue[12] = {0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1};
    static const float no_source[4] = {1, 0, 1, 0}, no_destination[4] = {1, 1, 0, 0};
    graft_image *in[4] = {of(red, 1, 2, 2, 3), of(no_source, 1, 2, 2, 1), of(blue, 1, 2, 2, 3),
                          of(no_destination, 1, 2, 2, 1)};
    const graft_layer_pair pair = {in[0], in[1], in[2], in[3]};
    for (int how = 0; how < MODES; how++) {
        graft_image *r = NULL, *m = NULL;
        char got[5] = "";
        if (strcmp(modes[how], "OVERLAY") == 0) continue; /* depends on the colours: golden */
        CHECK_OK(graft_image_porter_duff(&pair, modes[how], &r, &m, &e), &e);
        const float *v = graft_image_data(r, NULL), *clear = graft_image_data(m, NULL);
        for (int i = 0; i < 4; i++) {
            const int colour = (v[3 * i] > 0.5f) + 2 * (v[3 * i + 2] > 0.5f);
            got[i] = clear[i] > 0.5f ? '.' : "#rbp"[colour]; /* #: black */
        }
        CHECK_STR(got, want[how]);
        graft_image_release(r);
        graft_image_release(m);
    }
    for (int i = 0; i < 4; i++) graft_image_release(in[i]);
}

static void bad_pairs(void)
{
    float v[16] = {0};
    graft_image *rgb = of(v, 1, 2, 2, 3), *rgba = of(v, 1, 2, 2, 4), *mask = of(v, 1, 2, 2, 1);
    const graft_layer_pair good = {rgb, mask, rgb, mask}, channels = {rgb, mask, rgba, mask};
    const graft_layer_pair no_mask = {rgb, rgb, rgb, mask}, no_mask2 = {rgb, mask, rgb, rgb};
    graft_image *r = rgb, *m = rgb;
    CHECK_INT(graft_image_porter_duff(&channels, "SRC", &r, &m, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "3 channels") && strstr(e.text, "of 4"));
    CHECK_INT(graft_image_porter_duff(&no_mask, "SRC", &r, &m, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_porter_duff(&no_mask2, "SRC", &r, &m, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_porter_duff(&good, "src", &r, &m, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "\"src\"") && !r && !m);
    v[0] = NAN, v[1] = INFINITY;
    graft_image *odd = of(v, 1, 2, 2, 3), *odd_mask = of(v, 1, 2, 2, 1);
    const graft_layer_pair numbers = {odd, odd_mask, rgb, mask};
    for (int how = 0; how < MODES; how++) { /* colours are numbers from 0 to 1 whatever comes */
        CHECK_OK(graft_image_porter_duff(&numbers, modes[how], &r, &m, &e), &e);
        for (int i = 0; i < 12; i++)
            CHECK(graft_image_data(r, NULL)[i] >= 0 && graft_image_data(r, NULL)[i] <= 1);
        graft_image_release(r);
        graft_image_release(m);
    }
    graft_image *const all[] = {rgb, rgba, mask, odd, odd_mask};
    for (int i = 0; i < 5; i++) graft_image_release(all[i]);
}

/* ------------------------------------------------------------------ latents */

static graft_latent *golden_latent(const graft_safetensors *f, const char *name, const char *key)
{
    const graft_st_tensor *t = golden_find(f, name, key);
    graft_latent *l = NULL;
    CHECK(t && t->rank == 4);
    if (t) CHECK_OK(graft_latent_from_data(t->data, t->shape, &l, &e), &e);
    return l;
}

static void interpolated_as_pytorch(void)
{
    static const char *const cases[] = {"interpolate0", "interpolate1"};
    graft_safetensors *f = golden_open("pairs.safetensors");
    for (int k = 0; f && k < 2; k++) {
        graft_latent *a = golden_latent(f, cases[k], "a"), *b = golden_latent(f, cases[k], "b");
        graft_latent *r = NULL;
        int64_t shape[4];
        CHECK_OK(graft_latent_interpolate(a, b, golden_number(f, cases[k], 0), &r, &e), &e);
        const float *v = graft_latent_data(r, shape);
        golden_expect(f, cases[k], "output", v, shape, 2e-6);
        graft_latent_release(a);
        graft_latent_release(b);
        graft_latent_release(r);
    }
    graft_safetensors_close(f);
}

/* 1 and 0 give back either; lengths in between are mixed, whatever the directions; opposite ones of
 * which nothing is left give 0. The mask is the first's. */
static void directions_and_lengths(void)
{
    static const float along_x[8] = {3, 3, 0, 0, 0, 0, 0, 0}, along_y[8] = {0, -3, 5, 0};
    static const int64_t shape[4] = {1, 4, 1, 2};
    graft_latent *plain = NULL, *a = NULL, *b = NULL, *r = NULL, *other = NULL;
    graft_image *mask = NULL;
    CHECK_OK(graft_latent_from_data(along_x, shape, &plain, &e), &e);
    CHECK_OK(graft_latent_from_data(along_y, shape, &b, &e), &e);
    CHECK_OK(graft_mask_solid(1, 1, 0.5, &mask, &e), &e);
    CHECK_OK(graft_latent_set_mask(plain, mask, &a, &e), &e);
    CHECK_OK(graft_latent_interpolate(a, b, 0.5, &r, &e), &e);
    const float *v = graft_latent_data(r, NULL);
    CHECK_NEAR(v[0], 4 * sqrt(0.5), 1e-6);
    CHECK_NEAR(v[2], 4 * sqrt(0.5), 1e-6);
    for (int c = 0; c < 4; c++) CHECK(v[2 * c + 1] == 0); /* 3 and -3 */
    CHECK(graft_latent_mask(r) == mask);
    graft_latent_release(r);
    for (int whole = 0; whole < 2; whole++) {
        CHECK_OK(graft_latent_interpolate(a, b, whole, &r, &e), &e);
        for (int i = 0; i < 8; i++)
            CHECK_NEAR(graft_latent_data(r, NULL)[i], (whole ? along_x : along_y)[i], 1e-6);
        graft_latent_release(r);
    }
    r = NULL;
    CHECK_OK(graft_latent_from_data(along_x, (const int64_t[]){1, 8, 1, 1}, &other, &e), &e);
    CHECK_INT(graft_latent_interpolate(a, other, 0.5, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_latent *const all[] = {plain, a, b, other};
    for (int i = 0; i < 4; i++) graft_latent_release(all[i]);
    graft_image_release(mask);
}

/* ------------------------------------------------------------------ memory */

/* Every allocation of each fails once: nothing leaks, nothing is handed out. */
static void out_of_memory(void)
{
    graft_safetensors *f = golden_open("pairs.safetensors");
    graft_latent *a = golden_latent(f, "interpolate1", "a"),
                 *b = golden_latent(f, "interpolate1", "b");
    graft_image *in[4] = {golden_image(f, "porter_duff1", "source"),
                          golden_image(f, "porter_duff1", "source_mask"),
                          golden_image(f, "porter_duff1", "destination"),
                          golden_image(f, "porter_duff1", "destination_mask")};
    const graft_layer_pair pair = {in[0], in[1], in[2], in[3]};
    for (int which = 0; which < 2; which++)
        for (int n = 1; n < 60; n++) {
            graft_latent *l = NULL;
            graft_image *r = NULL, *m = NULL;
            graft_alloc_stats before, after;
            graft_alloc_stats_get(&before);
            graft_alloc_fail_at(n);
            graft_status st = which ? graft_image_porter_duff(&pair, "XOR", &r, &m, &e)
                                    : graft_latent_interpolate(a, b, 0.5, &l, &e);
            graft_alloc_fail_at(0);
            CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !l && !r && !m));
            graft_latent_release(l);
            graft_image_release(r);
            graft_image_release(m);
            graft_alloc_stats_get(&after);
            CHECK_INT(after.live_blocks, before.live_blocks);
            if (st == GRAFT_OK) break;
            CHECK(n < 59);
        }
    for (int i = 0; i < 4; i++) graft_image_release(in[i]);
    graft_latent_release(a);
    graft_latent_release(b);
    graft_safetensors_close(f);
}

int main(void)
{
    graft_alloc_stats stats;
    RUN(modes_as_pytorch);
    RUN(modes_of_opaque_and_clear);
    RUN(bad_pairs);
    RUN(interpolated_as_pytorch);
    RUN(directions_and_lengths);
    RUN(out_of_memory);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
