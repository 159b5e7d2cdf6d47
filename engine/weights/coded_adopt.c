#include "engine/weights/coded_adopt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/size.h"
#include "base/str.h"
#include "engine/weights/bitsandbytes.h"
#include "kernels/hadamard.h"

#define MARK     ".comfy_quant"
#define METADATA "_quantization_metadata"
#define GROUP    256 /* where a rotation's size is not told */

typedef struct finding {
    const graft_safetensors *f;
    graft_st_tensor *tensor;
    size_t n;
    graft_coded *coded; /* room for all that there may be */
    size_t found;
    graft_err *e;
} finding;

/* One layer, and what is said of it. */
typedef struct layer {
    finding *in;
    int length; /* of its name */
    const char *name;
    const cJSON *says;
    graft_st_tensor *weight;
    graft_coded *c;
} layer;

static graft_status bad(const layer *l, graft_status st, const char *what)
{
    return graft_fail(l->in->e, st, "%s: quantized layer \"%.*s\": %s",
                      graft_safetensors_path(l->in->f), l->length > 200 ? 200 : l->length, l->name,
                      what);
}

/* A tensor of the layer; NULL: there is none. */
static graft_st_tensor *part(const layer *l, const char *suffix)
{
    char name[600];
    int n = snprintf(name, sizeof name, "%.*s%s", l->length, l->name, suffix);
    const graft_st_tensor *t = n < (int)sizeof name ? graft_safetensors_find(l->in->f, name) : NULL;
    return t ? &l->in->tensor[t - graft_safetensors_at(l->in->f, 0)] : NULL;
}

static bool is_float(graft_dtype t)
{
    return t == GRAFT_F32 || t == GRAFT_F16 || t == GRAFT_BF16 || t == GRAFT_F64;
}

/* Rows and columns of the weight, whose bytes have `each` values. */
static graft_status read_shape(const layer *l, int64_t each)
{
    const graft_st_tensor *t = l->weight;
    int64_t columns;
    if (t->rank < 2 || t->rank > 4 || !t->bytes || (each > 1 && t->rank != 2))
        return bad(l, GRAFT_E_FORMAT, "its weight is none of a layer");
    if (!graft_size_product(t->shape + 1, t->rank - 1, &columns) || columns > INT64_MAX / each)
        return bad(l, GRAFT_E_FORMAT, "its weight is too large");
    l->c->rows = t->shape[0];
    l->c->columns = columns * each;
    return GRAFT_OK;
}

static graft_status find_scale(const layer *l, graft_st_tensor **out)
{
    *out = part(l, ".weight_scale");
    if (!*out) return bad(l, GRAFT_E_FORMAT, "its weight_scale is missing");
    l->c->scale = (*out)->data;
    l->c->scale_dtype = (*out)->dtype;
    l->c->scale_bytes = (*out)->bytes;
    (*out)->part = 1;
    return GRAFT_OK;
}

/* One number, or one for each row. */
static graft_status read_row_scales(const layer *l)
{
    graft_st_tensor *scale;
    graft_status st = find_scale(l, &scale);
    if (st) return st;
    const int64_t n = graft_st_values(scale);
    if (!is_float(scale->dtype) || (n != 1 && n != l->c->rows))
        return bad(l, GRAFT_E_FORMAT, "its weight_scale is not one number, nor one for each row");
    l->c->scales = n;
    for (int64_t i = 0; i < n; i++) {
        float v;
        graft_st_to_f32(scale, i, 1, &v);
        if (!(v >= 0) || !isfinite(v))
            return bad(l, GRAFT_E_FORMAT, "a scale is negative or not finite");
    }
    return GRAFT_OK;
}

/* One byte for each `size` values of a row, in tiles. */
static graft_status read_block_scales(const layer *l, int64_t size, graft_dtype dtype)
{
    graft_st_tensor *scale;
    graft_status st = find_scale(l, &scale);
    if (st) return st;
    if (l->c->columns % size) return bad(l, GRAFT_E_FORMAT, "its rows are no whole blocks");
    int64_t rows = (l->c->rows + 127) / 128, blocks = (l->c->columns / size + 3) / 4;
    int64_t want[3] = {rows, blocks, 512}, all;
    if ((scale->dtype != dtype && scale->dtype != GRAFT_U8) || !graft_size_product(want, 3, &all) ||
        graft_st_values(scale) != all)
        return bad(l, GRAFT_E_FORMAT, "its weight_scale has not one for each block");
    return GRAFT_OK;
}

static graft_status read_hadamard(const layer *l, bool turned)
{
    if (!turned) return GRAFT_OK;
    const int64_t group = graft_json_int(l->says, "convrot_groupsize", GROUP);
    if (l->weight->rank != 2 || !graft_hadamard_is(group, l->c->columns))
        return bad(l, GRAFT_E_UNSUPPORTED,
                   "its convrot_groupsize is no power of 4 up to 4096 that divides its rows");
    l->c->hadamard = (int32_t)group;
    return GRAFT_OK;
}

static graft_status read_int(const layer *l, int64_t each)
{
    const graft_dtype t = l->weight->dtype;
    const cJSON *turned = cJSON_GetObjectItemCaseSensitive(l->says, "convrot");
    l->c->form = each > 1 ? GRAFT_CODED_INT4 : GRAFT_CODED_INT8;
    if (t != GRAFT_I8 && !(each > 1 && t == GRAFT_U8))
        return bad(l, GRAFT_E_FORMAT, "its weight is not of integers");
    graft_status st = read_shape(l, each);
    if (!st) st = read_row_scales(l);
    return st ? st : read_hadamard(l, each > 1 ? !cJSON_IsFalse(turned) : cJSON_IsTrue(turned));
}

static graft_status read_fp8(const layer *l)
{
    l->c->form = GRAFT_CODED_FP8;
    l->c->dtype = l->weight->dtype;
    if (l->c->dtype != GRAFT_F8_E4M3 && l->c->dtype != GRAFT_F8_E5M2)
        return bad(l, GRAFT_E_FORMAT, "its weight is not of FP8");
    graft_status st = read_shape(l, 1);
    return st ? st : read_row_scales(l);
}

static graft_status read_mxfp8(const layer *l)
{
    l->c->form = GRAFT_CODED_MXFP8;
    if (l->weight->dtype != GRAFT_F8_E4M3)
        return bad(l, GRAFT_E_FORMAT, "its weight is not F8_E4M3");
    graft_status st = read_shape(l, 1);
    return st ? st : read_block_scales(l, 32, GRAFT_U8);
}

static graft_status read_nvfp4(const layer *l)
{
    graft_st_tensor *whole = part(l, ".weight_scale_2");
    l->c->form = GRAFT_CODED_NVFP4;
    if (l->weight->dtype != GRAFT_U8) return bad(l, GRAFT_E_FORMAT, "its weight is not U8");
    if (part(l, ".pre_quant_scale"))
        return bad(l, GRAFT_E_UNSUPPORTED, "scales of activations (pre_quant_scale) are not read");
    if (!whole || !is_float(whole->dtype) || graft_st_values(whole) != 1)
        return bad(l, GRAFT_E_FORMAT, "its weight_scale_2 is not one number");
    graft_st_to_f32(whole, 0, 1, &l->c->whole);
    if (!isfinite(l->c->whole)) return bad(l, GRAFT_E_FORMAT, "its weight_scale_2 is not finite");
    whole->part = 1;
    graft_status st = read_shape(l, 2);
    return st ? st : read_block_scales(l, 16, GRAFT_F8_E4M3);
}

static bool is_one_of_fp8(const char *format)
{
    return strcmp(format, "float8_e4m3fn") == 0 || strcmp(format, "float8_e5m2") == 0 ||
           strcmp(format, "float8_e4m3fn_rowwise") == 0;
}

static graft_status read_format(const layer *l, const char *format)
{
    char what[160];
    if (strcmp(format, "int8_tensorwise") == 0) return read_int(l, 1);
    if (strcmp(format, "convrot_w4a4") == 0 || strcmp(format, "int4_tensorwise") == 0)
        return read_int(l, 2);
    if (strcmp(format, "mxfp8") == 0) return read_mxfp8(l);
    if (strcmp(format, "nvfp4") == 0) return read_nvfp4(l);
    if (is_one_of_fp8(format)) return read_fp8(l);
    snprintf(what, sizeof what,
             "its format \"%.60s\" is not read (docs/quantization.md has those "
             "that are)",
             format);
    return bad(l, GRAFT_E_UNSUPPORTED, what);
}

/* FP8 with one scale, or none, is no matter of this file's. */
static bool is_scaled(const layer *l, const char *format)
{
    const graft_st_tensor *scale = part(l, ".weight_scale");
    const graft_dtype t = l->weight->dtype;
    return is_one_of_fp8(format) && (t == GRAFT_F8_E4M3 || t == GRAFT_F8_E5M2) &&
           (!scale || graft_st_values(scale) == 1);
}

/* `listed`: by the file's metadata, which may tell of layers that are not in it. */
static graft_status adopt(finding *in, const char *name, size_t length, const cJSON *says,
                          bool listed)
{
    layer l = {.in = in, .length = (int)length, .name = name, .says = says};
    const char *format = graft_json_str(says, "format", NULL);
    graft_st_tensor *t = l.weight = part(&l, ".weight"), *input = part(&l, ".input_scale");
    if (!t && listed) return GRAFT_OK;
    if (!t) return bad(&l, GRAFT_E_FORMAT, "its weight is missing");
    if (!format) return bad(&l, GRAFT_E_FORMAT, "no format is told");
    if (t->coded || is_scaled(&l, format)) return GRAFT_OK;
    l.c = &in->coded[in->found];
    *l.c = (graft_coded){.whole = 1,
                         .floats = cJSON_IsTrue(
                             cJSON_GetObjectItemCaseSensitive(says, "full_precision_matrix_mult"))};
    graft_status st = read_format(&l, format);
    if (st) return st;
    if (t->rank == 2) t->shape[1] = l.c->columns;
    t->dtype = GRAFT_DTYPE_NONE;
    t->coded = l.c;
    in->found++;
    if (input) input->part = 1;
    return GRAFT_OK;
}

static bool is_mark(const graft_st_tensor *t)
{
    return graft_str_ends(t->name, MARK) && t->dtype == GRAFT_U8;
}

/* The layers that have a mark of their own. */
static graft_status adopt_marked(finding *in)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < in->n && !st; i++) {
        graft_st_tensor *mark = &in->tensor[i];
        cJSON *says = NULL;
        if (!is_mark(mark)) continue;
        st = graft_json_parse(mark->data, (size_t)mark->bytes, mark->name, &says, in->e);
        if (!st) st = adopt(in, mark->name, strlen(mark->name) - strlen(MARK), says, false);
        cJSON_Delete(says);
        mark->part = 1;
    }
    return st;
}

static graft_status adopt_listed(finding *in, const cJSON *layers)
{
    const cJSON *says;
    graft_status st = GRAFT_OK;
    cJSON_ArrayForEach(says, layers)
    {
        if (!st && cJSON_IsObject(says))
            st = adopt(in, says->string, strlen(says->string), says, true);
    }
    return st;
}

graft_status graft_coded_adopt(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                               graft_coded **out, graft_err *e)
{
    finding in = {.f = f, .tensor = tensor, .n = n, .e = e};
    const char *text = graft_safetensors_metadata(f, METADATA);
    cJSON *list = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    if (text) GRAFT_TRY(graft_json_parse(text, strlen(text), METADATA, &list, e));
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(list, "layers");
    size_t most = (size_t)cJSON_GetArraySize(layers);
    for (size_t i = 0; i < n; i++)
        most += (size_t)is_mark(&tensor[i]) + (size_t)graft_bitsandbytes_is_mark(&tensor[i]);
    if (!most) goto out;
    in.coded = graft_calloc(most, sizeof *in.coded);
    if (!in.coded) {
        st = graft_fail_nomem(e, "quantized layers");
        goto out;
    }
    GRAFT_TRY(adopt_marked(&in));
    GRAFT_TRY(adopt_listed(&in, layers));
    GRAFT_TRY(graft_bitsandbytes_adopt(f, tensor, n, in.coded + in.found, e));
    *out = in.coded;
    in.coded = NULL;
out:
    graft_free(in.coded);
    cJSON_Delete(list);
    return st;
}
