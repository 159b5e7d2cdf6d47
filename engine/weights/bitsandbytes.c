#include "engine/weights/bitsandbytes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "base/str.h"
#include "kernels/blocks.h"

#define MARK_NF4 ".quant_state.bitsandbytes__nf4"
#define MARK_FP4 ".quant_state.bitsandbytes__fp4"

enum { CODES = 16, LEAST_BLOCK = 32, MOST_BLOCK = 4096 };

/* One tensor, and what is said of it. */
typedef struct quantized {
    const graft_safetensors *f;
    graft_st_tensor *tensor, *weight;
    const char *name; /* of the weight, `length` of its characters */
    int length;
    const cJSON *says;
    graft_coded *c;
    graft_err *e;
} quantized;

static graft_status bad(const quantized *q, graft_status st, const char *what)
{
    return graft_fail(q->e, st, "%s: tensor \"%.*s\", quantized by bitsandbytes: %s",
                      graft_safetensors_path(q->f), q->length > 200 ? 200 : q->length, q->name,
                      what);
}

/* A tensor that belongs to the weight; NULL: there is none. */
static graft_st_tensor *part(const quantized *q, const char *suffix)
{
    char name[600];
    int n = snprintf(name, sizeof name, "%.*s%s", q->length, q->name, suffix);
    const graft_st_tensor *t = n < (int)sizeof name ? graft_safetensors_find(q->f, name) : NULL;
    return t ? &q->tensor[t - graft_safetensors_at(q->f, 0)] : NULL;
}

static bool is_float(graft_dtype t)
{
    return t == GRAFT_F32 || t == GRAFT_F16 || t == GRAFT_BF16;
}

/* n numbers in float32 that belong to the weight, all of them finite. */
static graft_status find_floats(const quantized *q, const char *suffix, int64_t n, const void **out)
{
    char what[100];
    const graft_st_tensor *t = part(q, suffix);
    snprintf(what, sizeof what, "its %s is missing, or not %lld finite numbers in F32", suffix + 1,
             (long long)n);
    if (!t || t->dtype != GRAFT_F32 || graft_st_values(t) != n) return bad(q, GRAFT_E_FORMAT, what);
    for (int64_t i = 0; i < n; i++) {
        float v;
        graft_st_to_f32(t, i, 1, &v);
        if (!isfinite(v)) return bad(q, GRAFT_E_FORMAT, what);
    }
    *out = t->data;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ quant_state */

static graft_status read_shape(const quantized *q, graft_st_tensor *out)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(q->says, "shape"), *item;
    int64_t all, n;
    out->rank = 0;
    cJSON_ArrayForEach(item, list)
    {
        if (out->rank == 4 || !graft_json_i64(item, &n) || n < 1)
            return bad(q, GRAFT_E_FORMAT, "its shape is none of a layer");
        out->shape[out->rank++] = n;
    }
    if (out->rank < 2 || !graft_size_product(out->shape, out->rank, &all))
        return bad(q, GRAFT_E_FORMAT, "its shape is none of a layer");
    if ((uint64_t)all / 2 + (uint64_t)all % 2 != out->bytes)
        return bad(q, GRAFT_E_FORMAT, "its bytes are not half as many as its shape has values");
    q->c->rows = out->shape[0];
    q->c->columns = all / out->shape[0];
    return GRAFT_OK;
}

static graft_status read_block(const quantized *q, const char *name, int64_t *out)
{
    char what[100];
    *out = graft_json_int(q->says, name, 0);
    if (*out >= LEAST_BLOCK && *out <= MOST_BLOCK && (*out & (*out - 1)) == 0) return GRAFT_OK;
    snprintf(what, sizeof what, "its %s is no power of 2 of %d to %d", name, LEAST_BLOCK,
             MOST_BLOCK);
    return bad(q, GRAFT_E_UNSUPPORTED, what);
}

static graft_status read_type(const quantized *q, const graft_st_tensor *mark)
{
    const char *said = graft_json_str(q->says, "quant_type", "");
    const bool nf4 = graft_str_ends(mark->name, MARK_NF4);
    q->c->form = nf4 ? GRAFT_CODED_NF4 : GRAFT_CODED_FP4;
    if (strcmp(said, nf4 ? "nf4" : "fp4") == 0) return GRAFT_OK;
    return bad(q, GRAFT_E_FORMAT, "its quant_state is called otherwise than its quant_type");
}

/* ------------------------------------------------------------------ tables and scales */

/* Which bitsandbytes itself does not look at when it computes values; what a file of another table
 * meant by it cannot be known. */
static graft_status check_table(const quantized *q)
{
    const float *want = q->c->form == GRAFT_CODED_NF4 ? graft_float_nf4 : graft_float_fp4;
    const graft_st_tensor *t = part(q, ".quant_map");
    float own[CODES];
    if (!t || !is_float(t->dtype) || graft_st_values(t) != CODES)
        return bad(q, GRAFT_E_FORMAT, "its quant_map is missing, or not 16 numbers");
    graft_st_to_f32(t, 0, CODES, own);
    for (int i = 0; i < CODES; i++)
        if (!(fabsf(own[i] - want[i]) < 0.004f)) /* bfloat16 is as near */
            return bad(q, GRAFT_E_UNSUPPORTED, "its quant_map is not that of its quant_type");
    return GRAFT_OK;
}

static graft_status read_nested(const quantized *q)
{
    graft_coded *c = q->c;
    const cJSON *offset = cJSON_GetObjectItemCaseSensitive(q->says, "nested_offset");
    double v;
    graft_status st = read_block(q, "nested_blocksize", &c->nested_block);
    if (st) return st;
    if (!graft_json_f64(offset, &v) || !isfinite((float)v))
        return bad(q, GRAFT_E_FORMAT, "its nested_offset is no number");
    c->offset = (float)v;
    c->nested_scales = (c->scales - 1) / c->nested_block + 1;
    st = find_floats(q, ".nested_quant_map", GRAFT_CODED_MAP, &c->map);
    return st ? st : find_floats(q, ".nested_absmax", c->nested_scales, &c->nested);
}

static graft_status read_scales(const quantized *q)
{
    graft_coded *c = q->c;
    const graft_st_tensor *t = part(q, ".absmax");
    graft_status st = read_block(q, "blocksize", &c->block);
    if (st) return st;
    c->scales = (c->rows * c->columns - 1) / c->block + 1;
    if (!t || graft_st_values(t) != c->scales || (t->dtype != GRAFT_U8 && !is_float(t->dtype)))
        return bad(q, GRAFT_E_FORMAT, "its absmax is missing, or not one scale for each block");
    c->scale = t->data;
    c->scale_dtype = t->dtype;
    c->scale_bytes = t->bytes;
    return t->dtype == GRAFT_U8 ? read_nested(q) : GRAFT_OK;
}

/* ------------------------------------------------------------------ files */

static void take_parts(const quantized *q)
{
    static const char *const suffixes[] = {".absmax", ".quant_map", ".nested_absmax",
                                           ".nested_quant_map"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        graft_st_tensor *t = part(q, suffixes[i]);
        if (t) t->part = 1;
    }
}

static graft_status adopt(quantized *q, const graft_st_tensor *mark)
{
    graft_status st = GRAFT_OK;
    q->weight = part(q, "");
    if (!q->weight) return bad(q, GRAFT_E_FORMAT, "there are its scales, but not itself");
    if (q->weight->coded) return bad(q, GRAFT_E_FORMAT, "it is said twice how it lies");
    graft_st_tensor whole = *q->weight;
    *q->c = (graft_coded){.whole = 1};
    GRAFT_TRY(read_type(q, mark));
    GRAFT_TRY(read_shape(q, &whole));
    GRAFT_TRY(check_table(q));
    GRAFT_TRY(read_scales(q));
    whole.dtype = GRAFT_DTYPE_NONE;
    whole.coded = q->c;
    *q->weight = whole;
    take_parts(q);
out:
    return st;
}

bool graft_bitsandbytes_is_mark(const graft_st_tensor *t)
{
    return t->dtype == GRAFT_U8 &&
           (graft_str_ends(t->name, MARK_NF4) || graft_str_ends(t->name, MARK_FP4));
}

graft_status graft_bitsandbytes_adopt(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                                      graft_coded *room, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < n && !st; i++) {
        graft_st_tensor *mark = &tensor[i];
        cJSON *says = NULL;
        if (!graft_bitsandbytes_is_mark(mark)) continue;
        const int length = (int)(strlen(mark->name) - strlen(MARK_NF4));
        st = graft_json_parse(mark->data, (size_t)mark->bytes, mark->name, &says, e);
        quantized q = {f, tensor, NULL, mark->name, length, says, room++, e};
        if (!st) st = adopt(&q, mark);
        cJSON_Delete(says);
        mark->part = 1;
    }
    return st;
}
