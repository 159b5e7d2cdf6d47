#include "engine/image/image.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/png.h"
#include "engine/image/decode.h"
#include "tests/test.h"

static void create(void)
{
    graft_image *i, *j;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    static const int64_t bad[][4] = {{0, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, -1, 1}, {1, 1, 1, 0}};
    for (int k = 0; k < 4; k++) {
        CHECK_INT(graft_image_create(bad[k], false, &i, &e), GRAFT_E_ARG);
        CHECK(!i);
    }
    CHECK_INT(graft_image_create((const int64_t[]){1, 2, 2, 3}, true, &i, &e), GRAFT_E_ARG);
    CHECK_INT(graft_image_create((const int64_t[]){1, 16385, 1, 1}, true, &i, &e), GRAFT_E_LIMIT);
    CHECK(strstr(e.text, "16384"));
    CHECK_INT(graft_image_create((const int64_t[]){INT64_MAX, 16384, 16384, 3}, false, &i, &e),
              GRAFT_E_LIMIT);
    CHECK_INT(
        graft_image_create((const int64_t[]){(int64_t)1 << 34, 16384, 16384, 1}, true, &i, &e),
        GRAFT_E_LIMIT);
    const float v[6] = {0, 0.25f, 0.5f, 0.75f, 1, 2};
    CHECK_OK(graft_image_from_data(v, (const int64_t[]){1, 2, 1, 3}, false, &i, &e), &e);
    j = graft_image_retain(i);
    graft_image_release(i);
    CHECK(memcmp(graft_image_data(j, s), v, sizeof v) == 0);
    CHECK(s[0] == 1 && s[1] == 2 && s[2] == 1 && s[3] == 3 && !graft_image_is_mask(j));
    CHECK((uintptr_t)graft_image_data(j, NULL) % 64 == 0);
    graft_image_release(j);
    graft_image_release(NULL);
    CHECK(graft_image_retain(NULL) == NULL);
}

static void conversions(void)
{
    graft_image *i, *m, *r;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_image_empty(3, 2, 2, 0xff8000, &i, &e), &e);
    const float *d = graft_image_data(i, s);
    CHECK(s[0] == 2 && s[1] == 2 && s[2] == 3 && s[3] == 3);
    CHECK(d[33] == 1.0f && d[34] == 128 / 255.0f && d[35] == 0.0f);
    CHECK_OK(graft_image_invert(i, &r, &e), &e);
    d = graft_image_data(r, NULL);
    CHECK(d[33] == 0.0f && d[34] == 1.0f - 128 / 255.0f && d[35] == 1.0f);
    graft_image_release(r);
    static const char *const names[] = {"red", "green", "blue"};
    for (int c = 0; c < 3; c++) {
        CHECK_OK(graft_image_to_mask(i, names[c], &m, &e), &e);
        CHECK(graft_image_is_mask(m));
        CHECK(graft_image_data(m, s)[11] == graft_image_data(i, NULL)[33 + c]);
        CHECK(s[0] == 2 && s[1] == 2 && s[2] == 3 && s[3] == 1);
        CHECK_OK(graft_mask_to_image(m, &r, &e), &e);
        d = graft_image_data(r, s);
        CHECK(s[3] == 3 && !graft_image_is_mask(r));
        for (int k = 0; k < 3; k++) CHECK(d[33 + k] == graft_image_data(m, NULL)[11]);
        graft_image_release(r);
        CHECK_INT(graft_image_to_mask(m, "green", &r, &e), GRAFT_E_ARG);
        CHECK_OK(graft_image_invert(m, &r, &e), &e);
        CHECK(graft_image_is_mask(r));
        graft_image_release(r);
        graft_image_release(m);
    }
    CHECK_INT(graft_image_to_mask(i, "alpha", &m, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "alpha") && !m);
    CHECK_INT(graft_image_to_mask(i, "Red", &m, &e), GRAFT_E_ARG);
    CHECK_INT(graft_mask_to_image(i, &r, &e), GRAFT_E_ARG);
    graft_image_release(i);
    const float rgba[4] = {0.1f, 0.2f, 0.3f, 0.4f};
    CHECK_OK(graft_image_from_data(rgba, (const int64_t[]){1, 1, 1, 4}, false, &i, &e), &e);
    CHECK_OK(graft_image_to_mask(i, "alpha", &m, &e), &e);
    CHECK(graft_image_data(m, NULL)[0] == 0.4f);
    graft_image_release(m);
    graft_image_release(i);
}

static void png(void)
{
    graft_err e = GRAFT_ERR_INIT;
    const char *text[] = {"prompt", "{\"a\":1}", "workflow", "caf\xc3\xa9", NULL};
    for (int c = 1; c <= 4; c++) {
        const float row[12] = {0, 1, 0.5f, 0.999f, -1, 2, NAN, 100 / 255.0f, 0.25f, 0.75f, 1, 0};
        float v[24] = {0};
        memcpy(v + 3 * c, row, (size_t)(3 * c) * sizeof *row);
        graft_image *i;
        uint8_t *bytes;
        size_t size;
        CHECK_OK(graft_image_from_data(v, (const int64_t[]){2, 1, 3, c}, c == 1, &i, &e), &e);
        graft_status st = graft_image_to_png(i, 1, 4, text, &bytes, &size, &e);
        if (c == 2) {
            CHECK_INT(st, GRAFT_E_ARG);
        } else {
            CHECK_OK(st, &e);
            graft_decoded d;
            CHECK_OK(graft_decode(bytes, size, "png", &d, &e), &e);
            CHECK(d.width == 3 && d.height == 1 && d.channels == c && d.bits == 8);
            const uint8_t want[12] = {0, 255, 127, 254, 0, 255, 0, 100, 63, 191, 255, 0};
            CHECK(memcmp(d.pixels, want, (size_t)(3 * c)) == 0);
            graft_decoded_finish(&d);
            char *value;
            CHECK_OK(graft_png_read_text(bytes, size, "workflow", &value, &e), &e);
            CHECK_STR(value, "caf\xc3\xa9");
            graft_free(value);
            graft_bytes_free(bytes);
            CHECK_INT(graft_image_to_png(i, 2, 4, NULL, &bytes, &size, &e), GRAFT_E_ARG);
            CHECK_INT(graft_image_to_png(i, -1, 4, NULL, &bytes, &size, &e), GRAFT_E_ARG);
            CHECK_OK(graft_image_to_png(i, 0, 0, NULL, &bytes, &size, &e), &e);
            graft_bytes_free(bytes);
            CHECK_OK(graft_image_to_png16(i, 1, 4, text, &bytes, &size, &e), &e);
            CHECK_OK(graft_decode(bytes, size, "png", &d, &e), &e);
            CHECK(d.width == 3 && d.height == 1 && d.channels == c && d.bits == 16);
            static const uint16_t fine[12] = {0, 65535, 32768, 65469, 0,     65535,
                                              0, 25700, 16384, 49151, 65535, 0};
            CHECK(memcmp(d.pixels, fine, (size_t)(6 * c)) == 0);
            graft_decoded_finish(&d);
            graft_bytes_free(bytes);
        }
        graft_image_release(i);
    }
    graft_bytes_free(NULL);
}

static void every_allocation_fails(void)
{
    graft_image *i, *m = NULL, *r;
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    CHECK_INT(graft_image_empty(2, 2, 1, 0, &i, NULL), 0);
    CHECK_INT(graft_image_to_mask(i, "red", &m, NULL), 0);
    for (int what = 0; what < 7; what++) {
        graft_status st = GRAFT_E_NOMEM;
        for (int n = 1; n < 100 && st; n++) {
            graft_err e = GRAFT_ERR_INIT;
            uint8_t *bytes = NULL;
            size_t size;
            r = NULL;
            graft_alloc_fail_at(n);
            st = what == 0   ? graft_image_invert(i, &r, &e)
                 : what == 1 ? graft_mask_to_image(m, &r, &e)
                 : what == 2 ? graft_image_to_mask(i, "blue", &r, &e)
                 : what == 3 ? graft_image_scale(i, "lanczos", 5, 5, true, &r, &e)
                 : what == 4 ? graft_image_scale_by(i, "bilinear", 3, &r, &e)
                 : what == 5 ? graft_image_empty(1, 1, 1, 0, &r, &e)
                             : graft_image_to_png(i, 0, 4, NULL, &bytes, &size, &e);
            graft_alloc_fail_at(0);
            CHECK((st == 0) == (r != NULL || bytes != NULL));
            CHECK(!st || (st == GRAFT_E_NOMEM && e.text[0]));
            graft_image_release(r);
            graft_bytes_free(bytes);
        }
        CHECK_INT(st, 0);
    }
    graft_image_release(m);
    graft_image_release(i);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    RUN(create);
    RUN(conversions);
    RUN(png);
    RUN(every_allocation_fails);
    return test_end();
}
