#include "engine/weights/quantized_adopt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/weights/quantized.h"
#include "kernels/quant.h"

#define MOST_VALUES ((int64_t)1 << 40)

static graft_status bad(const graft_safetensors *f, const graft_st_tensor *t, const char *what,
                        graft_err *e)
{
    return graft_fail(e, GRAFT_E_FORMAT, "%s: quantized tensor \"%.200s\": %s",
                      graft_safetensors_path(f), t->name, what);
}

/* The tensor NAME_suffix, which the file must have; its index. */
static graft_status find_part(const graft_safetensors *f, const graft_st_tensor *t,
                              const char *suffix, const graft_st_tensor **out, graft_err *e)
{
    char name[600], text[40];
    int n = snprintf(name, sizeof name, "%s%s", t->name, suffix);
    *out = n < (int)sizeof name ? graft_safetensors_find(f, name) : NULL;
    snprintf(text, sizeof text, "its %s is missing", suffix + 1);
    return *out ? GRAFT_OK : bad(f, t, text, e);
}

/* The sizes that a 4-bit weight has once it is unpacked. */
static graft_status read_shape(const graft_safetensors *f, const graft_st_tensor *t,
                               const graft_st_tensor *shape, int64_t dim[4], int *rank,
                               graft_err *e)
{
    int64_t all = 1;
    if (shape->dtype != GRAFT_I64 || shape->rank != 1 || shape->shape[0] < 2 || shape->shape[0] > 4)
        return bad(f, t, "its shape is not 2 to 4 numbers of I64", e);
    *rank = (int)shape->shape[0];
    memcpy(dim, shape->data, (size_t)*rank * sizeof *dim);
    for (int i = 0; i < *rank; i++) {
        if (dim[i] < 1 || dim[i] > MOST_VALUES / all) return bad(f, t, "its shape is absurd", e);
        all *= dim[i];
    }
    int64_t groups = graft_quant4_groups(all / dim[0]);
    if (t->rank != 2 || t->shape[0] != dim[0] || t->shape[1] != groups * GRAFT_QUANT_GROUP_BYTES)
        return bad(f, t, "its bytes do not fit its shape", e);
    return GRAFT_OK;
}

static graft_status check_scale(const graft_safetensors *f, const graft_st_tensor *t,
                                const graft_st_tensor *scale, int64_t outputs, int64_t groups,
                                graft_err *e)
{
    int rank = groups ? 2 : 1;
    if (scale->dtype != GRAFT_F32 || scale->rank != rank || scale->shape[0] != outputs ||
        (groups && scale->shape[1] != groups))
        return bad(f, t, "its scale has the wrong shape or is not F32", e);
    if ((const uint8_t *)scale->data != (const uint8_t *)t->data + t->bytes)
        return bad(f, t, "its scale does not lie behind it", e);
    for (uint64_t i = 0; i < scale->bytes / sizeof(float); i++) {
        float v;
        memcpy(&v, (const uint8_t *)scale->data + i * sizeof v, sizeof v);
        if (!(v >= 0) || !isfinite(v)) return bad(f, t, "a scale is negative or not finite", e);
    }
    return GRAFT_OK;
}

/* Makes one tensor of t and its parts. */
static graft_status adopt(const graft_safetensors *f, graft_st_tensor *tensor, graft_st_tensor *t,
                          graft_err *e)
{
    const graft_st_tensor *scale, *shape = NULL;
    int64_t dim[4] = {0}, n = 1;
    int rank = t->rank;
    graft_status st = find_part(f, t, "_scale", &scale, e);
    if (st) return st;
    if (t->dtype == GRAFT_U8) {
        st = find_part(f, t, "_shape", &shape, e);
        if (!st) st = read_shape(f, t, shape, dim, &rank, e);
        if (st) return st;
    } else {
        if (rank < 2 || rank > 4 || !t->bytes) return bad(f, t, "it is no weight of a layer", e);
        memcpy(dim, t->shape, (size_t)rank * sizeof *dim);
    }
    for (int i = 1; i < rank; i++) n *= dim[i];
    st = check_scale(f, t, scale, dim[0], shape ? graft_quant4_groups(n) : 0, e);
    if (st) return st;
    t->dtype = shape ? GRAFT_Q4 : t->dtype == GRAFT_I8 ? GRAFT_Q8 : GRAFT_QF8;
    t->rank = rank;
    memset(t->shape, 0, sizeof t->shape);
    memcpy(t->shape, dim, (size_t)rank * sizeof *dim);
    t->bytes += scale->bytes;
    tensor[scale - tensor].part = 1;
    if (shape) tensor[shape - tensor].part = 1;
    return GRAFT_OK;
}

/* Other tensors may be E4M3, too: the checkpoint can have been of such values. */
static bool is_e4m3(const graft_safetensors *f, const graft_st_tensor *t)
{
    const graft_st_tensor *scale;
    return t->dtype == GRAFT_F8_E4M3 && find_part(f, t, "_scale", &scale, NULL) == GRAFT_OK;
}

graft_status graft_quantized_adopt(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                                   graft_err *e)
{
    const char *version = graft_safetensors_metadata(f, GRAFT_QUANTIZED_KEY);
    const char *count = graft_safetensors_metadata(f, GRAFT_QUANTIZED_COUNT);
    graft_dtype kind = GRAFT_DTYPE_NONE;
    size_t adopted = 0;
    if (!version) return GRAFT_OK;
    if (strcmp(version, GRAFT_QUANTIZED_VERSION) != 0)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: quantized weights of layout %.20s, this program knows layout %s",
                          graft_safetensors_path(f), version, GRAFT_QUANTIZED_VERSION);
    for (size_t i = 0; i < n; i++) {
        graft_st_tensor *t = &tensor[i];
        if (t->dtype != GRAFT_I8 && t->dtype != GRAFT_U8 && !is_e4m3(f, t)) continue;
        graft_status st = adopt(f, tensor, t, e);
        if (st) return st;
        if (kind && kind != t->dtype) return bad(f, t, "others are quantized otherwise", e);
        kind = t->dtype;
        adopted++;
    }
    if (count && strtoull(count, NULL, 10) != adopted)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: %zu quantized tensors with their scales, where %.20s should be",
                          graft_safetensors_path(f), adopted, count);
    return GRAFT_OK;
}
