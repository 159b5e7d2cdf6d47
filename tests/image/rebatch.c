/* Pictures and latents in batches of other sizes: each sample is where it belongs, with its mask
 * and its number. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/latent.h"
#include "tests/test.h"

static graft_err e;

/* n pictures whose values are first, first + 1, and so on, each all over. */
static graft_image *picture(int64_t n, int64_t h, int64_t w, int64_t c, float first)
{
    float v[1024];
    graft_image *i = NULL;
    for (int64_t k = 0; k < n * h * w * c; k++) v[k] = first + (float)(k / (h * w * c));
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){n, h, w, c}, c == 1, &i, &e), &e);
    return i;
}

static graft_latent *latent(int64_t n, int64_t h, int64_t w, float first)
{
    float v[1024];
    graft_latent *l = NULL;
    for (int64_t k = 0; k < n * 4 * h * w; k++) v[k] = first + (float)(k / (4 * h * w));
    CHECK_OK(graft_latent_from_data(v, (const int64_t[]){n, 4, h, w}, &l, &e), &e);
    return l;
}

static graft_latent *with_mask(graft_latent *l, graft_image *mask)
{
    graft_latent *r = NULL;
    CHECK_OK(graft_latent_set_mask(l, mask, &r, &e), &e);
    graft_latent_release(l);
    graft_image_release(mask);
    return r;
}

/* "HxW: 1 2, HxW: 3": batches by their first and last values, which are alike all over. */
static void expect_images(const graft_image *const *in, size_t n, int64_t size, const char *want)
{
    graft_image **out = NULL;
    size_t count = 0, used = 0;
    char got[512] = "";
    CHECK_OK(graft_image_rebatch(in, n, size, &out, &count, &e), &e);
    for (size_t k = 0; k < count; k++) {
        int64_t s[4];
        const float *v = graft_image_data(out[k], s);
        used += (size_t)snprintf(got + used, sizeof got - used, "%s%dx%d:", k ? ", " : "",
                                 (int)s[1], (int)s[2]);
        for (int64_t i = 0; i < s[0]; i++) {
            const int64_t one = s[1] * s[2] * s[3];
            CHECK(v[i * one] == v[(i + 1) * one - 1]);
            used += (size_t)snprintf(got + used, sizeof got - used, " %g", (double)v[i * one]);
        }
        graft_image_release(out[k]);
    }
    graft_free(out);
    CHECK_STR(got, want);
}

static void pictures(void)
{
    graft_image *three = picture(3, 2, 3, 3, 1), *two = picture(2, 2, 3, 3, 4);
    graft_image *other = picture(2, 3, 3, 3, 6), *clear = picture(1, 3, 3, 4, 8);
    const graft_image *const alike[] = {three, two}, *const all[] = {three, other, clear, two};
    expect_images(alike, 2, 1, "2x3: 1, 2x3: 2, 2x3: 3, 2x3: 4, 2x3: 5");
    expect_images(alike, 2, 2, "2x3: 1 2, 2x3: 3 4, 2x3: 5");
    expect_images(alike, 2, 4, "2x3: 1 2 3 4, 2x3: 5");
    expect_images(alike, 2, 5, "2x3: 1 2 3 4 5");
    expect_images(alike, 2, 4096, "2x3: 1 2 3 4 5");
    expect_images(alike, 1, 2, "2x3: 1 2, 2x3: 3");
    /* A batch ends where the size changes, and where transparency begins. */
    expect_images(all, 4, 2, "2x3: 1 2, 2x3: 3, 3x3: 6 7, 3x3: 8, 2x3: 4 5");
    expect_images(all, 0, 2, "");
    graft_image **out = NULL;
    size_t count = 1;
    CHECK_INT(graft_image_rebatch(alike, 2, 0, &out, &count, &e), GRAFT_E_ARG);
    CHECK(!out && !count);
    graft_image *const made[] = {three, two, other, clear};
    for (int i = 0; i < 4; i++) graft_image_release(made[i]);
}

/* "HxW 1#0 2#1 /2x2 0.5 1": values and numbers of a batch, then its masks' size and values. */
static void expect_latents(const graft_latent *const *in, size_t n, int64_t size, const char *want)
{
    graft_latent **out = NULL;
    size_t count = 0, used = 0;
    char got[512] = "";
#define PRINT(...) used += (size_t)snprintf(got + used, sizeof got - used, __VA_ARGS__)
    CHECK_OK(graft_latent_rebatch(in, n, size, &out, &count, &e), &e);
    for (size_t k = 0; k < count; k++) {
        int64_t s[4], m[4];
        const float *v = graft_latent_data(out[k], s);
        const int64_t *index = graft_latent_batch_index(out[k]), one = s[1] * s[2] * s[3];
        PRINT("%s%dx%d", k ? ", " : "", (int)s[2], (int)s[3]);
        for (int64_t i = 0; i < s[0]; i++) {
            CHECK(v[i * one] == v[(i + 1) * one - 1]);
            PRINT(" %g#%d", (double)v[i * one], index ? (int)index[i] : -1);
        }
        if (graft_latent_mask(out[k])) {
            v = graft_image_data(graft_latent_mask(out[k]), m);
            CHECK_INT(m[0], s[0]);
            PRINT(" /%dx%d", (int)m[1], (int)m[2]);
            for (int64_t i = 0; i < m[0]; i++) PRINT(" %g", (double)v[i * m[1] * m[2]]);
        }
        graft_latent_release(out[k]);
    }
#undef PRINT
    graft_free(out);
    CHECK_STR(got, want);
}

static void samples_and_numbers(void)
{
    graft_latent *three = latent(3, 2, 3, 1), *two = latent(2, 2, 3, 4),
                 *other = latent(1, 3, 2, 6);
    graft_latent *picked = NULL;
    CHECK_OK(graft_latent_from_batch(three, 1, 2, &picked, &e), &e); /* those with numbers 1, 2 */
    const graft_latent *const all[] = {three, other, two, picked};
    expect_latents(all, 1, 2, "2x3 1#0 2#1, 2x3 3#2");
    expect_latents(all, 4, 3, "2x3 1#0 2#1 3#2, 3x2 6#3, 2x3 4#4 5#5 2#1, 2x3 3#2");
    expect_latents(all + 2, 2, 4096, "2x3 4#0 5#1 2#1 3#2");
    expect_latents(all, 0, 1, "");
    graft_latent **out = NULL;
    size_t count = 1;
    CHECK_INT(graft_latent_rebatch(all, 4, -1, &out, &count, &e), GRAFT_E_ARG);
    CHECK(!out && !count);
    graft_latent *const made[] = {three, two, other, picked};
    for (int i = 0; i < 4; i++) graft_latent_release(made[i]);
}

static void masks_go_along(void)
{
    graft_latent *own = with_mask(latent(2, 2, 3, 1), picture(2, 5, 5, 1, 0.25f));    /* and 1.25 */
    graft_latent *turns = with_mask(latent(3, 2, 3, 3), picture(2, 5, 5, 1, 0.125f)); /* in turn */
    graft_latent *large = with_mask(latent(1, 2, 3, 6), picture(1, 16, 24, 1, 0.5f));
    graft_latent *white = with_mask(latent(1, 2, 3, 7), picture(1, 5, 5, 1, 1));
    graft_latent *none = latent(1, 2, 3, 8);
    const graft_latent *const alike[] = {own, turns}, *const unlike[] = {own, large};
    const graft_latent *const some[] = {none, own, white}, *const all_white[] = {white, none};
    const graft_latent *const one_mask[] = {large, none, large};
    expect_latents(alike, 2, 2,
                   "2x3 1#0 2#1 /5x5 0.25 1.25, 2x3 3#2 4#3 /5x5 0.125 1.125, "
                   "2x3 5#4 /5x5 0.125");
    expect_latents(unlike, 2, 3, "2x3 1#0 2#1 6#2 /16x24 0.25 1.25 0.5");
    expect_latents(some, 3, 2, "2x3 8#0 1#1 /5x5 1 0.25, 2x3 2#2 7#3 /5x5 1.25 1");
    expect_latents(some, 3, 1, "2x3 8#0, 2x3 1#1 /5x5 0.25, 2x3 2#2 /5x5 1.25, 2x3 7#3");
    expect_latents(all_white, 2, 2, "2x3 7#0 8#1");
    expect_latents(one_mask, 3, 3, "2x3 6#0 8#1 6#2 /16x24 0.5 1 0.5");
    graft_latent *const made[] = {own, turns, large, white, none};
    for (int i = 0; i < 5; i++) graft_latent_release(made[i]);
}

/* Every allocation of each fails once: nothing leaks, nothing is handed out. */
static void out_of_memory(void)
{
    graft_latent *a = with_mask(latent(2, 2, 3, 1), picture(2, 5, 5, 1, 0.25f));
    graft_latent *b = with_mask(latent(2, 2, 3, 3), picture(1, 4, 4, 1, 0.5f));
    graft_image *i = picture(3, 2, 2, 3, 1), *k = picture(2, 2, 2, 3, 4);
    const graft_latent *const latents[] = {a, b};
    const graft_image *const images[] = {i, k};
    for (int which = 0; which < 2; which++)
        for (int n = 1; n < 80; n++) {
            graft_latent **l = NULL;
            graft_image **p = NULL;
            size_t count = 0;
            graft_alloc_stats before, after;
            graft_alloc_stats_get(&before);
            graft_alloc_fail_at(n);
            graft_status st = which ? graft_image_rebatch(images, 2, 2, &p, &count, &e)
                                    : graft_latent_rebatch(latents, 2, 3, &l, &count, &e);
            graft_alloc_fail_at(0);
            CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !l && !p && !count));
            while (count--) {
                if (which)
                    graft_image_release(p[count]);
                else
                    graft_latent_release(l[count]);
            }
            graft_free(l);
            graft_free(p);
            graft_alloc_stats_get(&after);
            CHECK_INT(after.live_blocks, before.live_blocks);
            if (st == GRAFT_OK) break;
            CHECK(n < 79);
        }
    graft_latent_release(a);
    graft_latent_release(b);
    graft_image_release(i);
    graft_image_release(k);
}

int main(void)
{
    graft_alloc_stats stats;
    RUN(pictures);
    RUN(samples_and_numbers);
    RUN(masks_go_along);
    RUN(out_of_memory);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
