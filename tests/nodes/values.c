/* Values: what they show to other plugins, what they take from them, and their references. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "nodes/call/value.h"
#include "tests/nodes/fake_engine.h"
#include "tests/test.h"

/* A value of another plugin: a tensor and nothing else. */
typedef struct foreign {
    graft_value value;
    graft_tensor tensor;
    bool silent; /* answers no query */
    int refs;
} foreign;

static void foreign_retain(graft_value *v)
{
    ((foreign *)v)->refs++;
}
static void foreign_release(graft_value *v)
{
    ((foreign *)v)->refs--;
}
static const void *foreign_query(const graft_value *v, const char *id)
{
    const foreign *f = (const foreign *)v;
    return !f->silent && strcmp(id, GRAFT_TENSOR_ID) == 0 ? &f->tensor : NULL;
}

static const graft_value_ops image_ops = {"IMAGE", foreign_retain, foreign_release, foreign_query};
static const graft_value_ops mask_ops = {"MASK", foreign_retain, foreign_release, foreign_query};
static const graft_value_ops latent_ops = {"LATENT", foreign_retain, foreign_release,
                                           foreign_query};
static const graft_value_ops model_ops = {"MODEL", foreign_retain, foreign_release, foreign_query};

static const graft_value_ops sigmas_ops = {"SIGMAS", foreign_retain, foreign_release,
                                           foreign_query};

static foreign make_foreign(const graft_value_ops *ops, float *data, int ndim, const int64_t *shape)
{
    foreign f = {.value.ops = ops, .refs = 1};
    f.tensor = (graft_tensor){.data = data,
                              .ndim = ndim,
                              .dtype_code = 2,
                              .dtype_bits = 32,
                              .dtype_lanes = 1,
                              .device_type = 1};
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        f.tensor.shape[i] = shape[i];
        f.tensor.stride[i] = stride;
        stride *= shape[i];
    }
    return f;
}

static graft_value *wrap_image(int64_t w, int64_t h, int64_t n)
{
    graft_image *image = NULL;
    graft_value *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_empty(w, h, n, 0x0000ff, &image, &e), &e);
    CHECK_OK(graft_value_wrap(GRAFT_VALUE_IMAGE, image, &v, &e), &e);
    return v;
}

static void pictures_show_their_samples(void)
{
    graft_value *v = wrap_image(3, 2, 2);
    const graft_tensor *t = v->ops->query(v, GRAFT_TENSOR_ID);
    CHECK_STR(v->ops->type, "IMAGE");
    CHECK(t != NULL);
    CHECK(!v->ops->query(v, "graft.unknown/1"));
    CHECK(!v->ops->query(v, "graft.nodes/" GRAFT_VERSION)); /* the id is private */
    CHECK_INT(t->ndim, 4);
    CHECK_INT(t->dtype_code, 2);
    CHECK_INT(t->dtype_bits, 32);
    CHECK_INT(t->dtype_lanes, 1);
    CHECK_INT(t->device_type, 1);
    const int64_t shape[4] = {2, 2, 3, 3}, stride[4] = {18, 9, 3, 1};
    for (int i = 0; i < 4; i++) {
        CHECK_INT(t->shape[i], shape[i]);
        CHECK_INT(t->stride[i], stride[i]);
    }
    const float *data = t->data;
    CHECK(data[0] == 0 && data[1] == 0 && data[2] == 1);
    v->ops->release(v);
}

static void masks_and_latents_have_their_shapes(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_image *mask = NULL;
    graft_latent *latent = NULL;
    graft_value *v = NULL;
    const float one[6] = {0, 0.25f, 0.5f, 0.75f, 1, 0};
    const int64_t mask_shape[4] = {1, 2, 3, 1};
    CHECK_OK(graft_image_from_data(one, mask_shape, true, &mask, &e), &e);
    CHECK_OK(graft_value_wrap(GRAFT_VALUE_MASK, mask, &v, &e), &e);
    const graft_tensor *t = v->ops->query(v, GRAFT_TENSOR_ID);
    CHECK(t && t->ndim == 3 && t->shape[0] == 1 && t->shape[1] == 2 && t->shape[2] == 3);
    CHECK(t && t->stride[0] == 6 && t->stride[1] == 3 && t->stride[2] == 1);
    CHECK(t && ((const float *)t->data)[4] == 1);
    v->ops->release(v);
    CHECK_OK(graft_latent_empty(4, 64, 48, 2, &latent, &e), &e);
    CHECK_OK(graft_value_wrap(GRAFT_VALUE_LATENT, latent, &v, &e), &e);
    t = v->ops->query(v, GRAFT_TENSOR_ID);
    CHECK(t && t->ndim == 4 && t->shape[0] == 2 && t->shape[1] == 4 && t->shape[2] == 6 &&
          t->shape[3] == 8 && t->stride[0] == 192);
    v->ops->release(v);
}

static void own_values_are_taken_as_they_are(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_value *v = wrap_image(2, 2, 1), *again = NULL;
    CHECK_OK(graft_value_adopt(v, GRAFT_VALUE_IMAGE, &again, &e), &e);
    CHECK(again == v);
    again->ops->release(again);
    again = NULL;
    CHECK_INT(graft_value_adopt(v, GRAFT_VALUE_MASK, &again, &e), GRAFT_E_ARG);
    CHECK_INT(graft_value_adopt(v, GRAFT_VALUE_MODEL, &again, &e), GRAFT_E_ARG);
    CHECK(!again);
    v->ops->release(v);
}

static void foreign_pictures_are_copied(void)
{
    graft_err e = GRAFT_ERR_INIT;
    float data[2 * 2 * 3];
    for (int i = 0; i < 12; i++) data[i] = (float)i / 12;
    foreign f = make_foreign(&image_ops, data, 4, (const int64_t[]){1, 2, 2, 3});
    /* Planes one after the other, as other libraries keep pictures: (N,C,H,W) seen as (N,H,W,C). */
    const int64_t planes[4] = {12, 2, 1, 4};
    memcpy(f.tensor.stride, planes, sizeof planes);
    graft_value *v = NULL;
    CHECK_OK(graft_value_adopt(&f.value, GRAFT_VALUE_IMAGE, &v, &e), &e);
    int64_t shape[4];
    const float *got = graft_image_data(graft_value_object(v, GRAFT_VALUE_IMAGE), shape);
    CHECK(shape[0] == 1 && shape[1] == 2 && shape[2] == 2 && shape[3] == 3);
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 2; x++)
            for (int c = 0; c < 3; c++) CHECK(got[(y * 2 + x) * 3 + c] == data[c * 4 + y * 2 + x]);
    v->ops->release(v);
    CHECK_INT(f.refs, 1);
}

static void foreign_masks_and_latents_are_copied(void)
{
    graft_err e = GRAFT_ERR_INIT;
    float data[32];
    for (int i = 0; i < 32; i++) data[i] = (float)i;
    graft_value *v = NULL;
    int64_t s[4];
    foreign f = make_foreign(&mask_ops, data, 2, (const int64_t[]){3, 5});
    CHECK_OK(graft_value_adopt(&f.value, GRAFT_VALUE_MASK, &v, &e), &e);
    const float *got = graft_image_data(graft_value_object(v, GRAFT_VALUE_MASK), s);
    CHECK(s[0] == 1 && s[1] == 3 && s[2] == 5 && s[3] == 1 && got[14] == 14);
    CHECK(graft_image_is_mask(graft_value_object(v, GRAFT_VALUE_MASK)));
    v->ops->release(v);
    f = make_foreign(&mask_ops, data, 3, (const int64_t[]){2, 3, 5});
    CHECK_OK(graft_value_adopt(&f.value, GRAFT_VALUE_MASK, &v, &e), &e);
    got = graft_image_data(graft_value_object(v, GRAFT_VALUE_MASK), s);
    CHECK(s[0] == 2 && s[1] == 3 && s[2] == 5 && got[29] == 29);
    v->ops->release(v);
    f = make_foreign(&latent_ops, data, 4, (const int64_t[]){1, 4, 2, 4});
    CHECK_OK(graft_value_adopt(&f.value, GRAFT_VALUE_LATENT, &v, &e), &e);
    got = graft_latent_data(graft_value_object(v, GRAFT_VALUE_LATENT), s);
    CHECK(s[0] == 1 && s[1] == 4 && s[2] == 2 && s[3] == 4 && got[31] == 31);
    v->ops->release(v);
}

static void foreign_sigmas_are_copied(void)
{
    graft_err e = GRAFT_ERR_INIT;
    float data[] = {8, -1, 2, -1, 0, -1};
    graft_value *v = NULL;
    size_t n = 0;
    foreign f = make_foreign(&sigmas_ops, data, 1, (const int64_t[]){3});
    f.tensor.stride[0] = 2;
    CHECK_OK(graft_value_adopt(&f.value, GRAFT_VALUE_SIGMAS, &v, &e), &e);
    const float *got = graft_sigmas_data(graft_value_object(v, GRAFT_VALUE_SIGMAS), &n);
    CHECK(n == 3 && got[0] == 8 && got[1] == 2 && got[2] == 0);
    const graft_tensor *t = v->ops->query(v, GRAFT_TENSOR_ID);
    CHECK(t && t->ndim == 1 && t->shape[0] == 3 && t->stride[0] == 1 && t->data == got);
    v->ops->release(v);
    f.tensor.shape[0] = 0;
    CHECK_OK(graft_value_adopt(&f.value, GRAFT_VALUE_SIGMAS, &v, &e), &e);
    graft_sigmas_data(graft_value_object(v, GRAFT_VALUE_SIGMAS), &n);
    CHECK_INT(n, 0);
    v->ops->release(v);
}

static void refuse(foreign f, graft_value_kind kind, graft_status want)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_value *v = NULL;
    CHECK_INT(graft_value_adopt(&f.value, kind, &v, &e), want);
    CHECK(!v && e.text[0]);
}

static void unreadable_foreign_values_are_refused(void)
{
    float data[64] = {0};
    foreign good = make_foreign(&image_ops, data, 4, (const int64_t[]){1, 2, 2, 3}), f;
    f = good, f.silent = true;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_ARG);
    f = good, f.tensor.dtype_bits = 16;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_UNSUPPORTED);
    f = good, f.tensor.dtype_code = 1;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_UNSUPPORTED);
    f = good, f.tensor.dtype_lanes = 4;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_UNSUPPORTED);
    f = good, f.tensor.device_type = 2;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_UNSUPPORTED);
    f = good, f.tensor.ndim = 3;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_UNSUPPORTED);
    f = good, f.tensor.shape[3] = 2;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_UNSUPPORTED);
    f = good, f.tensor.shape[1] = 0;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_ARG);
    f = good, f.tensor.shape[0] = -1;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_ARG);
    f = good, f.tensor.shape[0] = f.tensor.shape[1] = INT64_MAX / 2;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_LIMIT);
    f = good, f.tensor.data = NULL;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_ARG);
    f = good, f.value.ops = &mask_ops;
    refuse(f, GRAFT_VALUE_IMAGE, GRAFT_E_ARG);
    f = good, f.value.ops = &model_ops;
    refuse(f, GRAFT_VALUE_MODEL, GRAFT_E_ARG);
    good = make_foreign(&sigmas_ops, data, 1, (const int64_t[]){4});
    f = good, f.tensor.ndim = 2;
    refuse(f, GRAFT_VALUE_SIGMAS, GRAFT_E_UNSUPPORTED);
    f = good, f.tensor.shape[0] = -1;
    refuse(f, GRAFT_VALUE_SIGMAS, GRAFT_E_UNSUPPORTED);
    f = good, f.tensor.dtype_bits = 64;
    refuse(f, GRAFT_VALUE_SIGMAS, GRAFT_E_UNSUPPORTED);
    f = good, f.tensor.shape[0] = GRAFT_SIGMAS_MAX + 1;
    refuse(f, GRAFT_VALUE_SIGMAS, GRAFT_E_LIMIT);
    f = good, f.tensor.shape[0] = INT64_MAX / 2;
    refuse(f, GRAFT_VALUE_SIGMAS, GRAFT_E_LIMIT);
    data[3] = NAN;
    refuse(good, GRAFT_VALUE_SIGMAS, GRAFT_E_ARG);
    data[3] = -1;
    refuse(good, GRAFT_VALUE_SIGMAS, GRAFT_E_ARG);
}

static void *hold_and_let_go(void *arg)
{
    graft_value *v = arg;
    for (int i = 0; i < 100000; i++) {
        v->ops->retain(v);
        v->ops->release(v);
    }
    v->ops->release(v);
    return NULL;
}

static void references_are_counted_across_threads(void)
{
    graft_value *v = wrap_image(1, 1, 1);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) v->ops->retain(v);
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, hold_and_let_go, v);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    CHECK(v->ops->query(v, GRAFT_TENSOR_ID) != NULL);
    v->ops->release(v);
}

/* wrap() takes its argument over even when it fails; adopt() leaves nothing behind. */
static void memory_may_end_anywhere(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_image *image = NULL;
    graft_value *v = NULL;
    float data[12] = {0};
    foreign f = make_foreign(&image_ops, data, 4, (const int64_t[]){1, 2, 2, 3});
    CHECK_OK(graft_image_empty(2, 2, 1, 0, &image, &e), &e);
    graft_alloc_fail_at(1);
    CHECK_INT(graft_value_wrap(GRAFT_VALUE_IMAGE, image, &v, &e), GRAFT_E_NOMEM);
    graft_status st = GRAFT_E_NOMEM;
    for (int i = 1; st != GRAFT_OK && i < 50; i++) {
        graft_alloc_fail_at(i);
        st = graft_value_adopt(&f.value, GRAFT_VALUE_IMAGE, &v, &e);
        graft_alloc_fail_at(0);
    }
    CHECK_INT(st, GRAFT_OK);
    v->ops->release(v);
}

int main(void)
{
    graft_alloc_stats stats;
    RUN(pictures_show_their_samples);
    RUN(masks_and_latents_have_their_shapes);
    RUN(own_values_are_taken_as_they_are);
    RUN(foreign_pictures_are_copied);
    RUN(foreign_masks_and_latents_are_copied);
    RUN(foreign_sigmas_are_copied);
    RUN(unreadable_foreign_values_are_refused);
    RUN(references_are_counted_across_threads);
    RUN(memory_may_end_anywhere);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
