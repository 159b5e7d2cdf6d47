#include "engine/image/latent.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/half.h"
#include "engine/image/image.h"
#include "engine/weights/safetensors.h"
#include "tests/test.h"

/* (n,c,h,w) counting up from 0. */
static graft_latent *counting(int64_t n, int64_t c, int64_t h, int64_t w)
{
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_create((const int64_t[]){n, c, h, w}, &l, &e), &e);
    for (int64_t i = 0; i < n * c * h * w; i++) graft_latent_writable(l)[i] = (float)i;
    return l;
}

static graft_image *masks(int64_t n)
{
    float v[16 * 6];
    graft_image *m = NULL;
    for (int i = 0; i < n * 6; i++) v[i] = (float)(i / 6);
    CHECK_INT(graft_image_from_data(v, (const int64_t[]){n, 2, 3, 1}, true, &m, NULL), 0);
    return m;
}

static graft_latent *masked(graft_latent *l, int64_t n_masks)
{
    graft_latent *r = NULL;
    graft_image *m = masks(n_masks);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_set_mask(l, m, &r, &e), &e);
    graft_image_release(m);
    graft_latent_release(l);
    return r;
}

static void empty(void)
{
    graft_latent *l;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_latent_empty(4, 519, 64, 3, &l, &e), &e);
    const float *d = graft_latent_data(l, s);
    CHECK(s[0] == 3 && s[1] == 4 && s[2] == 8 && s[3] == 64);
    for (int i = 0; i < 3 * 4 * 8 * 64; i++) CHECK(d[i] == 0.0f);
    CHECK(!graft_latent_mask(l) && !graft_latent_batch_index(l));
    graft_latent_release(l);
    CHECK_INT(graft_latent_empty(4, 7, 64, 1, &l, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_empty(4, 64, 64, 0, &l, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_empty(4, -64, 64, 1, &l, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_empty(4, INT64_MAX, INT64_MAX, INT64_MAX, &l, &e), GRAFT_E_ARG);
    CHECK(!l);
    graft_latent_release(NULL);
}

static void mask_shares_samples(void)
{
    graft_latent *l = counting(2, 4, 3, 3), *a, *b;
    const float *d = graft_latent_data(l, NULL);
    graft_image *m = masks(1);
    CHECK_INT(graft_latent_set_mask(l, m, &a, NULL), 0);
    CHECK_INT(graft_latent_set_mask(a, m, &b, NULL), 0);
    CHECK(graft_latent_data(a, NULL) == d && graft_latent_data(b, NULL) == d);
    CHECK(graft_latent_mask(a) == m && !graft_latent_mask(l));
    graft_latent_release(l);
    graft_latent_release(a);
    graft_image_release(m);
    CHECK(graft_latent_data(b, NULL)[71] == 71.0f);
    CHECK(graft_image_data(graft_latent_mask(b), NULL)[0] == 0.0f);
    graft_image *picture;
    CHECK_INT(graft_image_empty(8, 8, 1, 0, &picture, NULL), 0);
    CHECK_INT(graft_latent_set_mask(b, picture, &a, NULL), GRAFT_E_ARG);
    graft_image_release(picture);
    graft_latent_release(b);
}

static void repeat(void)
{
    graft_latent *l = masked(counting(3, 2, 2, 2), 2), *r, *rr, *from;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_latent_repeat(l, 2, &r, &e), &e);
    const float *d = graft_latent_data(r, s);
    CHECK(s[0] == 6 && s[1] == 2 && s[2] == 2 && s[3] == 2);
    for (int i = 0; i < 48; i++) CHECK(d[i] == (float)(i % 24));
    CHECK(!graft_latent_batch_index(r));
    const float *m = graft_image_data(graft_latent_mask(r), s);
    CHECK_INT(s[0], 6);
    const int want[6] = {0, 1, 0, 0, 1, 0}; /* each copy is masked like its original */
    for (int i = 0; i < 6; i++) CHECK(m[6 * i] == (float)want[i]);
    graft_latent_release(r);
    CHECK_OK(graft_latent_from_batch(l, 1, 2, &from, &e), &e);
    CHECK_OK(graft_latent_repeat(from, 3, &rr, &e), &e);
    const int64_t *x = graft_latent_batch_index(rr);
    const int64_t index[6] = {1, 2, 3, 4, 5, 6};
    CHECK(x && memcmp(x, index, sizeof index) == 0);
    graft_latent_release(rr);
    /* Each round the distance between the numbers grows by the number of copies. */
    graft_latent *low = NULL, *high = NULL, *pair = NULL;
    graft_status st = GRAFT_OK;
    int rounds = 0;
    CHECK_OK(graft_latent_from_batch(l, 0, 1, &low, &e), &e);
    CHECK_OK(graft_latent_from_batch(l, 2, 1, &high, &e), &e);
    for (; !st && rounds < 12; rounds++) {
        CHECK_OK(graft_latent_batch(low, high, &pair, &e), &e);
        graft_latent_release(high);
        high = NULL;
        st = graft_latent_repeat(pair, 64, &rr, &e);
        if (!st) CHECK_OK(graft_latent_from_batch(rr, 127, 1, &high, &e), &e);
        if (!st) graft_latent_release(rr);
        graft_latent_release(pair);
    }
    CHECK_INT(st, GRAFT_E_LIMIT);
    CHECK_INT(rounds, 3);
    graft_latent_release(low);
    graft_latent_release(high);
    CHECK(strstr(e.text, "batch indices above 65535"));
    graft_latent_release(from);
    CHECK_INT(graft_latent_repeat(l, 0, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_repeat(l, INT64_MAX, &r, &e), GRAFT_E_ARG);
    graft_latent_release(l);
    l = masked(counting(2, 1, 2, 2), 1);
    CHECK_OK(graft_latent_repeat(l, 2, &r, &e), &e);
    CHECK(graft_latent_mask(r) == graft_latent_mask(l)); /* one mask stays one */
    graft_latent_release(r);
    graft_latent_release(l);
}

static void from_batch(void)
{
    graft_latent *l = masked(counting(5, 1, 2, 2), 3), *r, *rr;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_latent_from_batch(l, 2, 2, &r, &e), &e);
    const float *d = graft_latent_data(r, s);
    CHECK(s[0] == 2 && d[0] == 8.0f && d[7] == 15.0f);
    const float *m = graft_image_data(graft_latent_mask(r), s);
    CHECK(s[0] == 2 && m[0] == 2.0f && m[6] == 0.0f);
    CHECK(graft_latent_batch_index(r)[0] == 2 && graft_latent_batch_index(r)[1] == 3);
    CHECK_OK(graft_latent_from_batch(r, 1, 9, &rr, &e), &e); /* of a cut: the first numbers stay */
    CHECK(graft_latent_batch_index(rr)[0] == 3 && graft_latent_data(rr, s)[0] == 12.0f);
    CHECK_INT(s[0], 1);
    graft_latent_release(rr);
    graft_latent_release(r);
    CHECK_OK(graft_latent_from_batch(l, 99, 99, &r, &e), &e); /* past the end: the last one */
    CHECK(graft_latent_data(r, s)[0] == 16.0f && s[0] == 1);
    CHECK_INT(graft_latent_batch_index(r)[0], 4);
    graft_latent_release(r);
    CHECK_INT(graft_latent_from_batch(l, -1, 1, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_from_batch(l, 0, 0, &r, &e), GRAFT_E_ARG);
    graft_latent_release(l);
}

static void check_size(graft_latent *r, int64_t h, int64_t w)
{
    int64_t s[4] = {0};
    CHECK(r != NULL);
    if (r) graft_latent_data(r, s);
    CHECK_INT(s[2], h);
    CHECK_INT(s[3], w);
    graft_latent_release(r);
}

static void upscale(void)
{
    graft_latent *l = masked(counting(2, 4, 8, 16), 2), *r;
    graft_err e = GRAFT_ERR_INIT;
    static const char *const names[] = {"nearest-exact", "bilinear", "area", "bicubic", "bislerp"};
    for (int i = 0; i < 5; i++) {
        CHECK_OK(graft_latent_upscale(l, names[i], 256, 128, false, &r, &e), &e);
        CHECK(r && graft_latent_mask(r) == graft_latent_mask(l));
        check_size(r, 16, 32);
        CHECK_OK(graft_latent_upscale(l, names[i], 128, 64, true, &r, &e), &e);
        const float *d = graft_latent_data(r, NULL);
        for (int k = 0; k < 2 * 4 * 8 * 16; k++) CHECK_NEAR(d[k], k, 2e-3);
        graft_latent_release(r);
    }
    CHECK_OK(graft_latent_upscale(l, "nearest-exact", 64, 64, true, &r, &e), &e);
    CHECK(graft_latent_data(r, NULL)[0] == 4.0f); /* the middle 8 of 16 columns */
    check_size(r, 8, 8);
    CHECK_OK(graft_latent_upscale(l, "area", 0, 512, false, &r, &e), &e);
    check_size(r, 64, 128);
    CHECK_OK(graft_latent_upscale(l, "area", 512, 0, false, &r, &e), &e);
    check_size(r, 32, 64);
    CHECK_OK(graft_latent_upscale(l, "area", 8, 8, false, &r, &e), &e);
    check_size(r, 8, 8);
    CHECK_OK(graft_latent_upscale(l, "area", 80, 0, false, &r, &e), &e);
    check_size(r, 8, 10);
    CHECK_OK(graft_latent_upscale(l, "area", 0, 0, false, &r, &e), &e);
    CHECK(r == l);
    graft_latent_release(r);
    CHECK_OK(graft_latent_upscale_by(l, "bislerp", 1.5, &r, &e), &e);
    check_size(r, 12, 24);
    CHECK_OK(graft_latent_upscale_by(l, "bilinear", 0.01, &r, &e), &e);
    check_size(r, 1, 1);
    CHECK_INT(graft_latent_upscale_by(l, "bilinear", INFINITY, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_upscale_by(l, "bilinear", 0, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_upscale(l, "lanczos", 64, 64, false, &r, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "bislerp") && !r);
    CHECK_INT(graft_latent_upscale(l, "lanczos", 0, 0, false, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_upscale(l, "area", -8, 64, false, &r, &e), GRAFT_E_ARG);
    graft_latent_release(l);
}

/* Channels last and back must not mix places up: bislerp of one row against vectors by hand. */
/* 128 channels are FLUX.2's, whose places have 16 pixels a side. */
static void places_of_sixteen(void)
{
    graft_latent *l, *r, *full;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_INT(graft_latent_scale(128), 16);
    CHECK_INT(graft_latent_scale(16), 8);
    CHECK_OK(graft_latent_empty(128, 111, 64, 2, &l, &e), &e);
    graft_latent_data(l, s);
    CHECK(s[0] == 2 && s[1] == 128 && s[2] == 4 && s[3] == 6);
    CHECK_OK(graft_latent_upscale(l, "nearest-exact", 256, 128, false, &r, &e), &e);
    check_size(r, 8, 16);
    CHECK_OK(graft_latent_upscale(l, "nearest-exact", 0, 128, false, &r, &e), &e);
    check_size(r, 8, 12);
    /* An empty latent is one for any model: as many pixels in its places. */
    CHECK_OK(graft_latent_shape_for(l, 4, s, &e), &e);
    CHECK(s[0] == 2 && s[1] == 4 && s[2] == 8 && s[3] == 12);
    CHECK_OK(graft_latent_shape_for(l, 128, s, &e), &e);
    CHECK(s[0] == 2 && s[1] == 128 && s[2] == 4 && s[3] == 6);
    graft_latent_release(l);
    CHECK_OK(graft_latent_empty(16, 72, 8, 1, &l, &e), &e);
    CHECK_OK(graft_latent_shape_for(l, 128, s, &e), &e);
    CHECK(s[0] == 1 && s[1] == 128 && s[2] == 1 && s[3] == 4);
    graft_latent_release(l);
    full = counting(1, 16, 2, 2);
    CHECK_INT(graft_latent_shape_for(full, 128, s, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "16 channels, this model takes 128") != NULL);
    CHECK_OK(graft_latent_shape_for(full, 16, s, &e), &e);
    graft_latent_release(full);
}

static void bislerp_layout(void)
{
    graft_latent *l, *r;
    CHECK_INT(graft_latent_create((const int64_t[]){1, 2, 1, 2}, &l, NULL), 0);
    memcpy(graft_latent_writable(l), (const float[]){2, 0, 0, 4}, 16); /* (2,0), (0,4) */
    CHECK_INT(graft_latent_upscale_by(l, "bislerp", 2, &r, NULL), 0);
    const float *d = graft_latent_data(r, NULL); /* (1,2,2,4) */
    CHECK_NEAR(d[1], 2.5 * cos(M_PI / 8), 1e-5);
    CHECK_NEAR(d[8 + 1], 2.5 * sin(M_PI / 8), 1e-5);
    CHECK_NEAR(d[4 + 3], 0, 1e-5);
    CHECK_NEAR(d[8 + 7], 4, 1e-5);
    graft_latent_release(r);
    graft_latent_release(l);
}

static void temp_path(char path[64])
{
    snprintf(path, 64, "/tmp/graft_latent_%ld.latent", (long)getpid());
    unlink(path);
}

static void files(void)
{
    char path[64];
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    temp_path(path);
    graft_latent *l = counting(2, 4, 3, 5), *r;
    const char *metadata[] = {"prompt", "{\"1\":{}}", NULL};
    CHECK_OK(graft_latent_save(l, path, metadata, &e), &e);
    CHECK_INT(graft_latent_save(l, path, metadata, &e), GRAFT_E_ARG);
    graft_safetensors *f;
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    CHECK_STR(graft_safetensors_metadata(f, "prompt"), "{\"1\":{}}");
    CHECK(graft_safetensors_find(f, "latent_tensor")->rank == 4);
    CHECK(graft_safetensors_find(f, "latent_format_version_0")->bytes == 0);
    graft_safetensors_close(f);
    CHECK_OK(graft_latent_load(path, &r, &e), &e);
    const float *d = graft_latent_data(r, s);
    CHECK(s[0] == 2 && s[1] == 4 && s[2] == 3 && s[3] == 5);
    CHECK(memcmp(d, graft_latent_data(l, NULL), 120 * sizeof *d) == 0);
    graft_latent_release(r);
    graft_latent_release(l);
    unlink(path);
}

static void load_values(graft_st_tensor *t, graft_dtype dtype, const void *data, uint64_t bytes,
                        float scale, float tolerance)
{
    char path[64];
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *l = NULL;
    temp_path(path);
    t[0].dtype = dtype;
    t[0].data = data;
    t[0].bytes = bytes;
    size_t n = scale == 1.0f ? 2 : 1;
    CHECK_OK(graft_safetensors_write(path, t, n, NULL, 1, &e), &e);
    CHECK_OK(graft_latent_load(path, &l, &e), &e);
    unlink(path);
    if (!l) return;
    const float want[4] = {1.5f, -2.0f, 0.25f, 100.0f};
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(graft_latent_data(l, NULL)[i], want[i] * scale, tolerance);
    graft_latent_release(l);
}

static void file_types(void)
{
    const float f[4] = {1.5f, -2.0f, 0.25f, 100.0f};
    const double g[4] = {1.5, -2.0, 0.25, 100.0};
    uint16_t h[4], b[4];
    graft_st_tensor t[2] = {
        {.name = "latent_tensor", .rank = 4, .shape = {1, 1, 2, 2}},
        {.name = "latent_format_version_0", .dtype = GRAFT_F32, .rank = 1, .data = f}};
    graft_f32_to_f16_array(f, h, 4);
    graft_f32_to_bf16_array(f, b, 4);
    load_values(t, GRAFT_F32, f, 16, 1, 0);
    load_values(t, GRAFT_F16, h, 8, 1, 0);
    load_values(t, GRAFT_BF16, b, 8, 1, 0);
    load_values(t, GRAFT_F64, g, 32, 1, 0);
    load_values(t, GRAFT_F32, f, 16, (float)(1 / 0.18215), 1e-4f); /* without the mark */
}

static void bad_files(void)
{
    char path[64];
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *l;
    temp_path(path);
    CHECK(graft_latent_load(path, &l, &e) != 0);
    const float f[4] = {0};
    graft_st_tensor t = {.name = "other",
                         .dtype = GRAFT_F32,
                         .rank = 4,
                         .shape = {1, 1, 2, 2},
                         .data = f,
                         .bytes = 16};
    CHECK_INT(graft_safetensors_write(path, &t, 1, NULL, 1, &e), 0);
    CHECK_INT(graft_latent_load(path, &l, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, path) && strstr(e.text, "latent_tensor"));
    t.name = "latent_tensor";
    t.rank = 3;
    t.shape[0] = 2;
    CHECK_INT(graft_safetensors_write(path, &t, 1, NULL, 1, &e), 0);
    CHECK_INT(graft_latent_load(path, &l, &e), GRAFT_E_FORMAT);
    t.rank = 4;
    t.shape[0] = 0;
    t.bytes = 0;
    CHECK_INT(graft_safetensors_write(path, &t, 1, NULL, 1, &e), 0);
    CHECK_INT(graft_latent_load(path, &l, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, path));
    t.shape[0] = 1;
    t.dtype = GRAFT_I32;
    t.bytes = 16;
    CHECK_INT(graft_safetensors_write(path, &t, 1, NULL, 1, &e), 0);
    CHECK_INT(graft_latent_load(path, &l, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!l);
    unlink(path);
}

static graft_status operation(int what, const graft_latent *l, const char *path, graft_latent **r,
                              graft_err *e)
{
    const graft_image *m = graft_latent_mask(l);
    switch (what) {
    case 0:
        return graft_latent_empty(4, 64, 64, 1, r, e);
    case 1:
        return graft_latent_set_mask(l, m, r, e);
    case 2:
        return graft_latent_repeat(l, 2, r, e);
    case 3:
        return graft_latent_from_batch(l, 1, 1, r, e);
    case 4:
        return graft_latent_upscale(l, "bislerp", 64, 128, true, r, e);
    case 5:
        return graft_latent_upscale_by(l, "bicubic", 2, r, e);
    default:
        return graft_latent_load(path, r, e);
    }
}

static void every_allocation_fails(void)
{
    char path[64];
    temp_path(path);
    graft_alloc_stats before, after;
    graft_alloc_stats_get(&before);
    graft_latent *whole = masked(counting(4, 2, 4, 4), 2), *l, *r;
    CHECK_INT(graft_latent_from_batch(whole, 0, 3, &l, NULL), 0);
    CHECK_INT(graft_latent_save(l, path, NULL, NULL), 0);
    for (int what = 0; what < 7; what++) {
        graft_status st = GRAFT_E_NOMEM;
        for (int n = 1; n < 100 && st; n++) {
            graft_err e = GRAFT_ERR_INIT;
            graft_alloc_fail_at(n);
            st = operation(what, l, path, &r, &e);
            graft_alloc_fail_at(0);
            CHECK((st == 0) == (r != NULL));
            CHECK(!st || (st == GRAFT_E_NOMEM && e.text[0]));
            graft_latent_release(r);
        }
        CHECK_INT(st, 0);
    }
    unlink(path);
    graft_latent_release(l);
    graft_latent_release(whole);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    RUN(empty);
    RUN(mask_shares_samples);
    RUN(repeat);
    RUN(from_batch);
    RUN(upscale);
    RUN(places_of_sixteen);
    RUN(bislerp_layout);
    RUN(files);
    RUN(file_types);
    RUN(bad_files);
    RUN(every_allocation_fails);
    return test_end();
}
