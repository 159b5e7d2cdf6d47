/* Latents of several layers: what each operation makes of them, their parts, and their files. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/image/latent.h"
#include "engine/weights/safetensors.h"
#include "tests/test.h"

enum { N = 2, C = 3, L = 4, H = 5, W = 6, VALUES = N * C * L * H * W };

/* (2,3,4,5,6) counting up from 0, with masks that count up, too. */
static graft_latent *stack(bool masked)
{
    const int64_t shape[4] = {N, C * L, H, W};
    float mask[N * H * W];
    graft_latent *l = NULL, *with = NULL;
    graft_image *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_create_layers(shape, L, &l, &e), &e);
    for (int i = 0; i < VALUES; i++) graft_latent_writable(l)[i] = (float)i;
    if (!masked) return l;
    for (int i = 0; i < N * H * W; i++) mask[i] = (float)i;
    CHECK_OK(graft_image_from_data(mask, (const int64_t[]){N, H, W, 1}, true, &m, &e), &e);
    CHECK_OK(graft_latent_set_mask(l, m, &with, &e), &e);
    graft_image_release(m);
    graft_latent_release(l);
    return with;
}

/* A cell of a latent of `layers` layers. */
static float at(const graft_latent *l, int64_t n, int64_t c, int64_t layer, int64_t y, int64_t x)
{
    int64_t s[4];
    const float *v = graft_latent_data(l, s);
    const int64_t layers = graft_latent_layers(l);
    return v[(((n * (s[1] / layers) + c) * layers + layer) * s[2] + y) * s[3] + x];
}

static float mask_at(const graft_latent *l, int64_t n, int64_t y, int64_t x)
{
    int64_t s[4];
    const float *v = graft_image_data(graft_latent_mask(l), s);
    return v[(n * s[1] + y) * s[2] + x];
}

static float counted(int64_t n, int64_t c, int64_t layer, int64_t y, int64_t x)
{
    return (float)((((n * C + c) * L + layer) * H + y) * W + x);
}

/* ------------------------------------------------------------------ parts */

/* Part k of each sample, which begins at these and is so large. */
typedef struct part {
    int64_t per_sample, layer, y, x, layers, h,
        w; /* the step from a part to the next is its size */
} part;

static void check_part(const graft_latent *l, const part *p, graft_latent_axis axis)
{
    int64_t s[4];
    int wrong = 0;
    graft_latent_data(l, s);
    CHECK(s[0] == N * p->per_sample && s[1] == C * p->layers && s[2] == p->h && s[3] == p->w);
    CHECK_INT(graft_latent_layers(l), p->layers);
    for (int64_t i = 0; i < s[0] * C * p->layers * p->h * p->w; i++) {
        const int64_t x = i % p->w, y = i / p->w % p->h, layer = i / (p->w * p->h) % p->layers;
        const int64_t c = i / (p->w * p->h * p->layers) % C, n = i / (p->w * p->h * p->layers * C);
        const int64_t k = n % p->per_sample;
        const int64_t top = p->y + (axis == GRAFT_LATENT_ROWS) * k * p->h + y;
        const int64_t left = p->x + (axis == GRAFT_LATENT_COLUMNS) * k * p->w + x;
        const int64_t deep = p->layer + (axis == GRAFT_LATENT_LAYERS) * k * p->layers + layer;
        wrong += at(l, n, c, layer, y, x) != counted(n / p->per_sample, c, deep, top, left);
        wrong += mask_at(l, n, y, x) != (float)((n / p->per_sample * H + top) * W + left);
    }
    CHECK_INT(wrong, 0);
}

static void cut(void)
{
    static const struct {
        graft_latent_axis axis;
        int64_t index, amount;
        part want;
    } cases[] = {{GRAFT_LATENT_LAYERS, 1, 2, {1, 1, 0, 0, 2, H, W}},
                 {GRAFT_LATENT_LAYERS, 1, 16384, {1, 1, 0, 0, 3, H, W}},
                 {GRAFT_LATENT_LAYERS, -1, 3, {1, 3, 0, 0, 1, H, W}},
                 {GRAFT_LATENT_LAYERS, 99, 1, {1, 3, 0, 0, 1, H, W}},
                 {GRAFT_LATENT_ROWS, 2, 2, {1, 0, 2, 0, L, 2, W}},
                 {GRAFT_LATENT_COLUMNS, -2, 5, {1, 0, 0, 4, L, H, 2}}};
    graft_latent *l = stack(true), *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        CHECK_OK(graft_latent_cut(l, cases[k].axis, cases[k].index, cases[k].amount, &r, &e), &e);
        check_part(r, &cases[k].want, cases[k].axis);
        graft_latent_release(r);
    }
    graft_latent_release(l);
}

static void cut_to_batch(void)
{
    static const struct {
        graft_latent_axis axis;
        int64_t size;
        part want;
    } cases[] = {{GRAFT_LATENT_LAYERS, 1, {4, 0, 0, 0, 1, H, W}},
                 {GRAFT_LATENT_LAYERS, 3, {1, 0, 0, 0, 3, H, W}}, /* the fourth is left over */
                 {GRAFT_LATENT_LAYERS, 9, {1, 0, 0, 0, L, H, W}},
                 {GRAFT_LATENT_ROWS, 2, {2, 0, 0, 0, L, 2, W}},
                 {GRAFT_LATENT_COLUMNS, 3, {2, 0, 0, 0, L, H, 3}}};
    graft_latent *l = stack(true), *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        CHECK_OK(graft_latent_cut_to_batch(l, cases[k].axis, cases[k].size, &r, &e), &e);
        check_part(r, &cases[k].want, cases[k].axis);
        graft_latent_release(r);
    }
    CHECK_INT(graft_latent_cut_to_batch(l, GRAFT_LATENT_LAYERS, 0, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_latent_release(l);
}

/* ------------------------------------------------------------------ other operations */

/* Layers stay layers. */
static void kept(void)
{
    graft_latent *l = stack(false), *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_latent_repeat(l, 2, &r, &e), &e);
    CHECK(graft_latent_layers(r) == L && at(r, 3, 1, 2, 3, 4) == counted(1, 1, 2, 3, 4));
    graft_latent_release(r);
    CHECK_OK(graft_latent_from_batch(l, 1, 1, &r, &e), &e);
    CHECK(graft_latent_layers(r) == L && at(r, 0, 1, 2, 3, 4) == counted(1, 1, 2, 3, 4));
    graft_latent_release(r);
    CHECK_OK(graft_latent_same_noise(l, true, &r, &e), &e);
    CHECK_INT(graft_latent_layers(r), L);
    graft_latent_release(r);
    CHECK_OK(graft_latent_flip(l, false, &r, &e), &e);
    CHECK(graft_latent_layers(r) == L && at(r, 1, 2, 3, 4, 0) == counted(1, 2, 3, 4, 5));
    graft_latent_release(r);
    /* Places of 8 pixels, however many planes there are in all. */
    CHECK_INT(graft_latent_cell(l), 8);
    CHECK_OK(graft_latent_upscale(l, "nearest-exact", 8 * 2 * W, 8 * 2 * H, false, &r, &e), &e);
    graft_latent_data(r, s);
    CHECK(s[2] == 2 * H && s[3] == 2 * W && at(r, 1, 2, 3, 9, 11) == counted(1, 2, 3, 4, 5));
    graft_latent_release(r);
    CHECK_OK(graft_latent_batch(l, l, &r, &e), &e);
    graft_latent_data(r, s);
    CHECK(s[0] == 2 * N && graft_latent_layers(r) == L);
    graft_latent_release(r);
    graft_latent_release(l);
}

/* 64 planes are Qwen-Image 2.1's, with places of 16 pixels; four layers of 16 are not. */
static void places(void)
{
    graft_latent *l = NULL, *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    CHECK_OK(graft_latent_empty_layers(16, 80, 48, 4, 2, &l, &e), &e);
    graft_latent_data(l, s);
    CHECK(s[0] == 2 && s[1] == 64 && s[2] == 6 && s[3] == 10 && graft_latent_cell(l) == 8);
    CHECK_OK(graft_latent_crop(l, 16, 8, 32, 16, &r, &e), &e);
    graft_latent_data(r, s);
    CHECK(s[2] == 2 && s[3] == 4);
    graft_latent_release(r);
    CHECK_OK(graft_latent_shape_for(l, 16, s, &e), &e);
    CHECK(s[0] == 2 && s[1] == 16 && s[2] == 4 * 6 && s[3] == 10);
    CHECK_OK(graft_latent_shape_for(l, 128, s, &e), &e);
    CHECK(s[0] == 2 && s[1] == 128 && s[2] == 4 * 3 && s[3] == 5);
    CHECK_OK(graft_latent_create_sampled(l, s, &r, &e), &e);
    CHECK_INT(graft_latent_layers(r), 4);
    graft_latent_data(r, s);
    CHECK(s[1] == 4 * 128 && s[2] == 3 && s[3] == 5);
    graft_latent_release(r);
    graft_latent_release(l);
    CHECK_INT(graft_latent_empty_layers(16, 80, 48, 0, 1, &l, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_empty_layers(16, 80, 48, INT64_MAX / 2, 1, &l, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_create_layers((const int64_t[]){1, 7, 2, 2}, 3, &l, &e), GRAFT_E_ARG);
    CHECK(!l);
}

/* The channels of a place are a vector, of each layer another one. */
static void directions(void)
{
    const int64_t shape[4] = {1, 4, 1, 1};
    static const float v[] = {3, 0, 4, 1}, w[] = {0, 2, 1, 0}; /* layers (3,4) (0,1); (0,1) (2,0) */
    graft_latent *a = NULL, *b = NULL, *r = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_create_layers(shape, 2, &a, &e), &e);
    CHECK_OK(graft_latent_create_layers(shape, 2, &b, &e), &e);
    for (int i = 0; i < 4; i++) {
        graft_latent_writable(a)[i] = v[i];
        graft_latent_writable(b)[i] = w[i];
    }
    CHECK_OK(graft_latent_interpolate(a, b, 0.5, &r, &e), &e);
    /* (0.3, 0.9) of length 3, and (0.5, 0.5) of length 1.5 */
    const float *got = graft_latent_data(r, NULL);
    CHECK_NEAR(got[0], 3 * 0.3 / sqrt(0.9), 1e-5);
    CHECK_NEAR(got[2], 3 * 0.9 / sqrt(0.9), 1e-5);
    CHECK_NEAR(got[1], 1.5 * sqrt(0.5), 1e-5);
    CHECK_NEAR(got[3], 1.5 * sqrt(0.5), 1e-5);
    graft_latent_release(a);
    graft_latent_release(b);
    graft_latent_release(r);
}

static void refused(void)
{
    const graft_latent_operation o = {.kind = GRAFT_OPERATION_TONEMAP, .multiplier = 1};
    graft_latent *l = stack(false), *flat = NULL, *r = NULL, **list = NULL;
    graft_err e = GRAFT_ERR_INIT;
    size_t count;
    CHECK_OK(graft_latent_create((const int64_t[]){N, C * L, H, W}, &flat, &e), &e);
    memset(graft_latent_writable(flat), 0, VALUES * sizeof(float));
    CHECK_INT(graft_latent_sum(l, 1, flat, 1, &r, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "latents of 4 and 1 layers"));
    CHECK_INT(graft_latent_composite(flat, l, 0, 0, 0, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_latent_rebatch((const graft_latent *[]){l, flat}, 2, 2, &list, &count, &e),
              GRAFT_E_ARG);
    CHECK_INT(graft_latent_operate(l, &o, &r, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "this latent has 4 layers: LatentCutToBatch"));
    CHECK_INT(graft_latent_upscale_by(l, "bislerp", 2, &r, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!r && !list);
    CHECK_OK(graft_latent_rebatch((const graft_latent *[]){l, l}, 2, 4, &list, &count, &e), &e);
    CHECK(count == 1 && graft_latent_layers(list[0]) == L);
    graft_latent_release(list[0]);
    graft_free(list);
    graft_latent_release(flat);
    graft_latent_release(l);
}

/* As ComfyUI has them, in five dimensions; one layer of such a file is a latent as any. */
static void files(void)
{
    char path[64];
    graft_err e = GRAFT_ERR_INIT;
    int64_t s[4];
    graft_latent *l = stack(false), *r = NULL;
    graft_safetensors *f;
    snprintf(path, sizeof path, "/tmp/graft_layers_%ld.latent", (long)getpid());
    unlink(path);
    CHECK_OK(graft_latent_save(l, path, NULL, &e), &e);
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    const graft_st_tensor *t = graft_safetensors_find(f, "latent_tensor");
    CHECK(t && t->rank == 5 && t->shape[0] == N && t->shape[1] == C && t->shape[2] == L);
    CHECK(t && t->shape[3] == H && t->shape[4] == W);
    graft_safetensors_close(f);
    CHECK_OK(graft_latent_load(path, &r, &e), &e);
    CHECK(r && graft_latent_layers(r) == L);
    CHECK(r && memcmp(graft_latent_data(r, s), graft_latent_data(l, NULL), VALUES * 4) == 0);
    graft_latent_release(r);
    unlink(path);
    graft_st_tensor one[2] = {{.name = "latent_tensor",
                               .dtype = GRAFT_F32,
                               .rank = 5,
                               .shape = {1, C, 1, H, W},
                               .data = graft_latent_data(l, NULL),
                               .bytes = C * H * W * sizeof(float)},
                              {.name = "latent_format_version_0",
                               .dtype = GRAFT_F32,
                               .rank = 1,
                               .data = graft_latent_data(l, NULL)}};
    CHECK_OK(graft_safetensors_write(path, one, 2, NULL, 0, &e), &e);
    CHECK_OK(graft_latent_load(path, &r, &e), &e);
    graft_latent_data(r, s);
    CHECK(graft_latent_layers(r) == 1 && s[1] == C && s[2] == H && s[3] == W);
    graft_latent_release(r);
    unlink(path);
    graft_latent_release(l);
}

int main(void)
{
    RUN(cut);
    RUN(cut_to_batch);
    RUN(kept);
    RUN(places);
    RUN(directions);
    RUN(refused);
    RUN(files);
    return test_end();
}
