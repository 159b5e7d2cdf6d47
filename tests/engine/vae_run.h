/* A VAE through the engine's own functions, for tests that compare what it gives. */
#ifndef GRAFT_TESTS_ENGINE_VAE_RUN_H
#define GRAFT_TESTS_ENGINE_VAE_RUN_H
#include <math.h>

#include "engine/image/latent.h"
#include "tests/engine/fixture.h"

static graft_engine *engine;

static inline graft_vae *load_vae(const char *path)
{
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_load(engine, path, NULL, &v, &e), &e);
    return v;
}

static inline graft_latent *latent_of(const int64_t shape[4])
{
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_create(shape, &l, &e), &e);
    float *x = graft_latent_writable(l);
    for (int64_t i = 0; i < shape_count(shape, 4); i++) x[i] = fixed_value((uint64_t)i);
    return l;
}

static inline graft_image *picture_of(int64_t n, int64_t height, int64_t width)
{
    const int64_t shape[4] = {n, height, width, 3};
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float *x = malloc((size_t)shape_count(shape, 4) * sizeof *x);
    for (int64_t i = 0; i < shape_count(shape, 4); i++)
        x[i] = 0.5f + 0.5f * fixed_value((uint64_t)i);
    CHECK_OK(graft_image_from_data(x, shape, false, &image, &e), &e);
    free(x);
    return image;
}

static inline graft_image *decoded(const graft_vae *v, const graft_latent *l,
                                   const graft_tiling *tiling)
{
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_decode(v, l, tiling, NULL, &image, &e), &e);
    return image;
}

static inline graft_latent *encoded(const graft_vae *v, const graft_image *p,
                                    const graft_tiling *tiling)
{
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_vae_encode(v, p, tiling, NULL, &l, &e), &e);
    return l;
}

/* The most that they differ by; their shapes must be equal. */
static inline double images_apart(const graft_image *a, const graft_image *b)
{
    int64_t s[4], t[4];
    const float *x = graft_image_data(a, s), *y = graft_image_data(b, t);
    CHECK(memcmp(s, t, sizeof s) == 0);
    return difference(x, y, (size_t)shape_count(s, 4));
}

static inline double latents_apart(const graft_latent *a, const graft_latent *b)
{
    int64_t s[4], t[4];
    const float *x = graft_latent_data(a, s), *y = graft_latent_data(b, t);
    CHECK(memcmp(s, t, sizeof s) == 0);
    return difference(x, y, (size_t)shape_count(s, 4));
}

static inline graft_vae *within(const graft_vae *v, int64_t mb, bool tile)
{
    graft_vae *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    const graft_compile_options o = {
        .precision = "f32", .tuning = "off", .max_memory_mb = mb, .tile = tile};
    CHECK_OK(graft_vae_compile(v, &o, NULL, &out, &e), &e);
    return out;
}

/* A batch of golden/README.md's, as nodes would run it. */
static inline void golden_batch(const char *path)
{
    graft_safetensors *f = open_file(path);
    const graft_st_tensor *in = graft_safetensors_find(f, "case1.latent");
    const graft_st_tensor *want = graft_safetensors_find(f, "case1.decoded");
    const graft_st_tensor *means = graft_safetensors_find(f, "case1.encoded");
    const graft_st_tensor *seen = graft_safetensors_find(f, "case1.image");
    graft_vae *v = load_vae(path);
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float *x = values_of(in), *y = values_of(want), *mean = values_of(means);
    float *p = values_of(seen);
    CHECK_OK(graft_latent_from_data(x, in->shape, &l, &e), &e);
    graft_image *image = decoded(v, l, NULL), *picture = NULL;
    int64_t s[4], n = want->shape[0], h = want->shape[2], w = want->shape[3];
    const int64_t colours = want->shape[1];
    const float *got = graft_image_data(image, s);
    CHECK(s[0] == n && s[1] == h && s[2] == w && s[3] == colours);
    float worst = 0;
    for (int64_t i = 0; i < n * colours * h * w; i++) {
        const int64_t b = i / (colours * h * w), c = i / (h * w) % colours, at = i % (h * w);
        const float exact = fminf(fmaxf(y[i] * 0.5f + 0.5f, 0), 1);
        worst = fmaxf(worst, fabsf(got[(b * h * w + at) * colours + c] - exact));
    }
    CHECK(worst < 2e-5f);
    float *nhwc = malloc((size_t)(n * h * w * colours) * sizeof *nhwc);
    for (int64_t i = 0; i < n * colours * h * w; i++) {
        const int64_t b = i / (colours * h * w), c = i / (h * w) % colours, at = i % (h * w);
        nhwc[(b * h * w + at) * colours + c] = p[i] * 0.5f + 0.5f;
    }
    CHECK_OK(graft_image_from_data(nhwc, (int64_t[]){n, h, w, colours}, false, &picture, &e), &e);
    graft_latent *back = encoded(v, picture, NULL);
    got = graft_latent_data(back, s);
    CHECK(memcmp(s, means->shape, sizeof s) == 0);
    CHECK(difference(got, mean, (size_t)shape_count(s, 4)) < 2e-5);
    free(x), free(y), free(mean), free(p), free(nhwc);
    graft_latent_release(l), graft_latent_release(back);
    graft_image_release(image), graft_image_release(picture);
    graft_vae_release(v);
    graft_safetensors_close(f);
}

/* Tiles that are as large as all change nothing; smaller ones give all of the same size. planes: of
 * its latents. */
static inline void in_tiles(const char *file, int64_t planes)
{
    graft_vae *v = load_vae(file);
    const int64_t scale = graft_vae_scale(&v->arch);
    const graft_tiling all = {.tile_size = 16 * scale, .overlap = 4 * scale},
                       some = {.tile_size = 6 * scale, .overlap = 2 * scale};
    graft_latent *l = latent_of((int64_t[]){1, planes, 9, 13});
    graft_image *p = picture_of(1, 9 * scale, 13 * scale), *whole = decoded(v, l, NULL);
    graft_latent *mean = encoded(v, p, NULL);
    graft_image *a = decoded(v, l, &all), *b = decoded(v, l, &some);
    graft_latent *c = encoded(v, p, &all), *d = encoded(v, p, &some);
    CHECK(images_apart(whole, a) == 0 && latents_apart(mean, c) == 0);
    CHECK(images_apart(whole, b) > 0 && isfinite(images_apart(whole, b)));
    CHECK(latents_apart(mean, d) > 0 && isfinite(latents_apart(mean, d)));
    graft_image_release(p), graft_image_release(whole), graft_image_release(a);
    graft_image_release(b), graft_latent_release(l), graft_latent_release(mean);
    graft_latent_release(c), graft_latent_release(d);
    graft_vae_release(v);
}

/* below, beside: pixels that are no whole cell. */
typedef struct strips_case {
    const char *file;
    int64_t mb, planes, scale, rows, columns, below, beside;
} strips_case;

/* In less memory than it takes in one piece: the same picture and the same latent. */
static inline void in_strips(const strips_case *k)
{
    graft_vae *v = load_vae(k->file), *tight = within(v, k->mb, true), *whole = within(v, 0, true);
    graft_vae *refused = within(v, k->mb, false);
    graft_latent *l = latent_of((int64_t[]){1, k->planes, k->rows, k->columns}), *none = NULL;
    graft_image *p =
        picture_of(1, k->scale * k->rows + k->below, k->scale * k->columns + k->beside);
    graft_image *nothing = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_vae_scale(&v->arch), k->scale);
    CHECK_INT(graft_vae_decode(refused, l, NULL, NULL, &nothing, &e), GRAFT_E_LIMIT);
    CHECK_INT(graft_vae_encode(refused, p, NULL, NULL, &none, &e), GRAFT_E_LIMIT);
    graft_image *a = decoded(whole, l, NULL), *b = decoded(tight, l, NULL);
    graft_latent *c = encoded(whole, p, NULL), *d = encoded(tight, p, NULL);
    int64_t s[4];
    graft_latent_data(c, s);
    CHECK(s[1] == k->planes && s[2] == k->rows && s[3] == k->columns);
    CHECK(images_apart(a, b) < 1e-4);
    CHECK(latents_apart(c, d) < 1e-4);
    graft_image_release(a), graft_image_release(b), graft_image_release(p);
    graft_latent_release(c), graft_latent_release(d), graft_latent_release(l);
    graft_vae_release(refused), graft_vae_release(whole);
    graft_vae_release(tight), graft_vae_release(v);
}
#endif
