#include <inttypes.h>
#include <string.h>

#include "base/half.h"
#include "base/size.h"
#include "engine/image/latent.h"
#include "engine/weights/safetensors.h"

/* Files without the version mark hold latents multiplied by SD1's scale factor. */
#define TENSOR    "latent_tensor"
#define VERSION   "latent_format_version_0"
#define OLD_SCALE 0.18215

graft_status graft_latent_save(const graft_latent *l, const char *path, const char *const *metadata,
                               graft_err *e)
{
    int64_t shape[4];
    const float *data = graft_latent_data(l, shape);
    const int64_t n = shape[0] * shape[1] * shape[2] * shape[3], layers = graft_latent_layers(l);
    graft_st_tensor t[2] = {{.name = TENSOR,
                             .dtype = GRAFT_F32,
                             .rank = 4,
                             .data = data,
                             .bytes = (uint64_t)n * sizeof *data},
                            {.name = VERSION, .dtype = GRAFT_F32, .rank = 1, .data = data}};
    memcpy(t[0].shape, shape, sizeof shape);
    if (layers > 1) {
        const int64_t all[5] = {shape[0], shape[1] / layers, layers, shape[2], shape[3]};
        memcpy(t[0].shape, all, sizeof all);
        t[0].rank = 5;
    }
    return graft_safetensors_write(path, t, 2, metadata, 0, e);
}

static graft_status read_samples(const graft_st_tensor *t, const char *path, int64_t n, float *dst,
                                 graft_err *e)
{
    switch (t->dtype) {
    case GRAFT_F32:
        memcpy(dst, t->data, (size_t)n * sizeof *dst);
        return GRAFT_OK;
    case GRAFT_F16:
        graft_f16_to_f32_array(t->data, dst, (size_t)n);
        return GRAFT_OK;
    case GRAFT_BF16:
        graft_bf16_to_f32_array(t->data, dst, (size_t)n);
        return GRAFT_OK;
    case GRAFT_F64:
        for (int64_t i = 0; i < n; i++) {
            double v;
            memcpy(&v, (const char *)t->data + (size_t)i * sizeof v, sizeof v);
            dst[i] = (float)v;
        }
        return GRAFT_OK;
    default:
        break;
    }
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: \"" TENSOR "\" does not hold real numbers",
                      path);
}

/* Five dimensions are (N,C,layers,h,w). */
static graft_status create_for(const graft_st_tensor *t, const char *path, graft_latent **out,
                               graft_err *e)
{
    const int64_t *s = t->shape;
    int64_t shape[4] = {s[0], s[1], s[2], s[3]}, layers = 1;
    if (t->rank != 4 && t->rank != 5)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: \"" TENSOR "\" has %d dimensions, not 4 or 5",
                          path, t->rank);
    if (t->rank == 5) {
        layers = s[2];
        shape[2] = s[3];
        shape[3] = s[4];
        if (!graft_size_product((const int64_t[]){s[1], layers}, 2, &shape[1])) shape[1] = 0;
    }
    graft_status st = graft_latent_create_layers(shape, layers, out, e);
    return st == GRAFT_E_ARG ? graft_err_prefix(e, GRAFT_E_FORMAT, "%s", path) : st;
}

graft_status graft_latent_load(const char *path, graft_latent **out, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_latent *l = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    GRAFT_TRY(graft_safetensors_open(path, &f, e));
    const graft_st_tensor *t = graft_safetensors_find(f, TENSOR);
    if (!t) {
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: not a latent: tensor \"" TENSOR "\" is missing",
                        path);
        goto out;
    }
    GRAFT_TRY(create_for(t, path, &l, e));
    int64_t shape[4];
    graft_latent_data(l, shape);
    const int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
    float *data = graft_latent_writable(l);
    GRAFT_TRY(read_samples(t, path, n, data, e));
    if (!graft_safetensors_find(f, VERSION))
        for (int64_t i = 0; i < n; i++) data[i] *= (float)(1.0 / OLD_SCALE);
    *out = l;
    l = NULL;
out:
    graft_latent_release(l);
    graft_safetensors_close(f);
    return st;
}
