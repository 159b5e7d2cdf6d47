/* Operations on latents against golden/pictures/operations.safetensors. */
#include "engine/image/latent_operation.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "tests/image/golden.h"

enum { CASES = 8 };

static graft_latent *samples_of(const graft_safetensors *f, const char *name,
                                graft_latent_operation *o)
{
    const graft_st_tensor *t = golden_find(f, name, "samples");
    graft_latent *l = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(t && t->rank == 4);
    CHECK_OK(graft_latent_from_data(t->data, t->shape, &l, &e), &e);
    o->kind = golden_number(f, name, 0) > 0 ? GRAFT_OPERATION_SHARPEN : GRAFT_OPERATION_TONEMAP;
    o->multiplier = golden_number(f, name, 1);
    o->radius = (int64_t)golden_number(f, name, 2);
    o->sigma = golden_number(f, name, 3);
    o->alpha = golden_number(f, name, 4);
    return l;
}

static void as_defined(void)
{
    graft_safetensors *f = golden_open("operations.safetensors");
    graft_err e = GRAFT_ERR_INIT;
    for (int k = 0; k < CASES; k++) {
        char name[32];
        int64_t shape[4];
        graft_latent_operation o = {.kind = GRAFT_OPERATION_TONEMAP};
        snprintf(name, sizeof name, "operation%d", k);
        graft_latent *l = samples_of(f, name, &o), *got = NULL;
        CHECK_OK(graft_latent_operate(l, &o, &got, &e), &e);
        const float *v = graft_latent_data(got, shape);
        golden_expect(f, name, "output", v, shape, 1e-5);
        graft_latent_release(l);
        graft_latent_release(got);
    }
    graft_safetensors_close(f);
}

/* Those of 2 channels, 3 high and 4 wide. */
static graft_latent *small(float first)
{
    float v[24];
    graft_latent *l = NULL;
    for (int i = 0; i < 24; i++) v[i] = first + (float)i;
    CHECK_INT(graft_latent_from_data(v, (const int64_t[]){1, 2, 3, 4}, &l, NULL), GRAFT_OK);
    return l;
}

/* Nothing is left of a multiplier of 0, nothing changes with an alpha of 0 but by rounding, and
 * zeros stay. */
static void ends_of_ranges(void)
{
    const graft_latent_operation none = {.kind = GRAFT_OPERATION_TONEMAP};
    const graft_latent_operation same = {
        .kind = GRAFT_OPERATION_SHARPEN, .radius = 2, .sigma = 1, .alpha = 0};
    const graft_latent_operation each[] = {
        {.kind = GRAFT_OPERATION_TONEMAP, .multiplier = 1},
        {.kind = GRAFT_OPERATION_SHARPEN, .radius = 2, .sigma = 1, .alpha = 0.1}};
    graft_latent *l = small(1), *out = NULL, *empty = NULL;
    int64_t shape[4];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_operate(l, &none, &out, &e), &e);
    for (int i = 0; i < 24; i++) CHECK(graft_latent_data(out, shape)[i] == 0);
    graft_latent_release(out);
    CHECK_OK(graft_latent_operate(l, &same, &out, &e), &e);
    for (int i = 0; i < 24; i++) CHECK_NEAR(graft_latent_data(out, shape)[i], 1 + i, 1e-5);
    graft_latent_release(out);
    CHECK_OK(graft_latent_empty(4, 64, 64, 2, &empty, &e), &e);
    for (int k = 0; k < 2; k++) {
        CHECK_OK(graft_latent_operate(empty, &each[k], &out, &e), &e);
        for (int i = 0; i < 2 * 4 * 64; i++) CHECK(graft_latent_data(out, shape)[i] == 0);
        graft_latent_release(out);
    }
    graft_latent_release(l);
    graft_latent_release(empty);
}

/* The mask and the numbers of the noise stay with the samples; what came in stays as it was. */
static void the_rest_stays(void)
{
    const float white[2] = {1, 0.5f};
    const graft_latent_operation o = {.kind = GRAFT_OPERATION_TONEMAP, .multiplier = 1};
    graft_latent *l = small(1), *masked = NULL, *out = NULL;
    graft_image *mask = NULL;
    int64_t shape[4];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_from_data(white, (const int64_t[]){1, 1, 2, 1}, true, &mask, &e), &e);
    CHECK_OK(graft_latent_set_mask(l, mask, &masked, &e), &e);
    CHECK_OK(graft_latent_operate(masked, &o, &out, &e), &e);
    CHECK(graft_latent_mask(out) == graft_latent_mask(masked));
    for (int i = 0; i < 24; i++) CHECK(graft_latent_data(masked, shape)[i] == (float)(1 + i));
    graft_image_release(mask);
    graft_latent_release(l);
    graft_latent_release(masked);
    graft_latent_release(out);
}

static void what_is_wrong_is_refused(void)
{
    static const graft_latent_operation bad[] = {
        {.kind = GRAFT_OPERATION_TONEMAP, .multiplier = -1},
        {.kind = GRAFT_OPERATION_TONEMAP, .multiplier = NAN},
        {.kind = GRAFT_OPERATION_TONEMAP, .multiplier = INFINITY},
        {.kind = GRAFT_OPERATION_SHARPEN, .radius = 0, .sigma = 1, .alpha = 0.1},
        {.kind = GRAFT_OPERATION_SHARPEN, .radius = 32, .sigma = 1, .alpha = 0.1},
        {.kind = GRAFT_OPERATION_SHARPEN, .radius = 1, .sigma = 0, .alpha = 0.1},
        {.kind = GRAFT_OPERATION_SHARPEN, .radius = 1, .sigma = NAN, .alpha = 0.1},
        {.kind = GRAFT_OPERATION_SHARPEN, .radius = 1, .sigma = 1, .alpha = -0.1},
        {.kind = GRAFT_OPERATION_SHARPEN, .radius = 1, .sigma = 1, .alpha = INFINITY},
        {.kind = GRAFT_OPERATION_SHARPEN, .radius = 3, .sigma = 1, .alpha = 0.1}};
    graft_latent *l = small(1), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(graft_latent_operate(l, &bad[i], &out, &e), GRAFT_E_ARG);
        CHECK(!out);
    }
    CHECK(strstr(e.text, "4 x 3 places is too small to sharpen: a radius of 3 needs 4"));
    graft_latent_release(l);
}

static void memory_may_be_short(void)
{
    const graft_latent_operation o = {
        .kind = GRAFT_OPERATION_SHARPEN, .radius = 2, .sigma = 1, .alpha = 0.1};
    graft_latent *l = small(1), *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int at = 1;
    for (graft_status st = GRAFT_E_NOMEM; st != GRAFT_OK && at < 20; at++) {
        graft_alloc_fail_at(at);
        st = graft_latent_operate(l, &o, &out, &e);
        graft_alloc_fail_at(0);
        CHECK(st == GRAFT_OK || (st == GRAFT_E_NOMEM && !out));
    }
    CHECK(at > 2 && at < 20);
    graft_latent_release(out);
    graft_latent_release(l);
}

int main(void)
{
    graft_alloc_stats stats;
    RUN(as_defined);
    RUN(ends_of_ranges);
    RUN(the_rest_stays);
    RUN(what_is_wrong_is_refused);
    RUN(memory_may_be_short);
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
