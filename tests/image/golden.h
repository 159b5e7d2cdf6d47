/* Pictures and latents from golden/pictures, which tools/golden_pictures.py makes. */
#ifndef GRAFT_TESTS_IMAGE_GOLDEN_H
#define GRAFT_TESTS_IMAGE_GOLDEN_H
#include <stdbool.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/weights/safetensors.h"
#include "tests/test.h"

static inline graft_safetensors *golden_open(const char *name)
{
    char path[512];
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    snprintf(path, sizeof path, "%s/golden/pictures/%s", GRAFT_SOURCE_DIR, name);
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    return f;
}

/* CASE.KEY; NULL when there is none. */
static inline const graft_st_tensor *golden_find(const graft_safetensors *f, const char *name,
                                                 const char *key)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", name, key);
    return graft_safetensors_find(f, full);
}

/* (N,H,W,C) as a picture, (N,H,W) as a mask; the caller's. */
static inline graft_image *golden_image(const graft_safetensors *f, const char *name,
                                        const char *key)
{
    const graft_st_tensor *t = golden_find(f, name, key);
    graft_image *i = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(t && (t->rank == 3 || t->rank == 4));
    if (!t) return NULL;
    const int64_t shape[4] = {t->shape[0], t->shape[1], t->shape[2],
                              t->rank == 4 ? t->shape[3] : 1};
    CHECK_OK(graft_image_from_data(t->data, shape, t->rank == 3, &i, &e), &e);
    return i;
}

static inline double golden_number(const graft_safetensors *f, const char *name, int k)
{
    const graft_st_tensor *t = golden_find(f, name, "numbers");
    float v = 0;
    CHECK(t && t->shape[0] > k);
    if (t) memcpy(&v, (const char *)t->data + (size_t)k * sizeof v, sizeof v);
    return (double)v;
}

/* Compares values of this shape, of which a mask's last side is 1. */
static inline void golden_expect(const graft_safetensors *f, const char *name, const char *key,
                                 const float *got, const int64_t shape[4], double tolerance)
{
    const graft_st_tensor *t = golden_find(f, name, key);
    int64_t n = 1;
    double worst = 0;
    CHECK(t != NULL);
    if (!t) return;
    for (int d = 0; d < 4; d++) {
        CHECK_INT(shape[d], d < t->rank ? t->shape[d] : 1);
        n *= d < t->rank ? t->shape[d] : 1;
    }
    for (int64_t i = 0; i < n; i++) {
        float want;
        memcpy(&want, (const char *)t->data + (size_t)i * sizeof want, sizeof want);
        double off = fabs((double)got[i] - (double)want);
        worst = off > worst || off != off ? off : worst;
    }
    CHECK(worst <= tolerance);
    if (!(worst <= tolerance)) fprintf(stderr, "%s.%s: off by %g\n", name, key, worst);
}

/* The same of a picture or mask, which it lets go of. */
static inline void golden_expect_image(const graft_safetensors *f, const char *name,
                                       const char *key, graft_image *got, double tolerance)
{
    int64_t shape[4];
    CHECK(got != NULL);
    if (!got) return;
    const float *v = graft_image_data(got, shape);
    golden_expect(f, name, key, v, shape, tolerance);
    graft_image_release(got);
}
#endif
