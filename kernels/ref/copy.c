#include <string.h>

#include "base/half.h"
#include "kernels/ref/ref.h"

/* Any pair of dtypes but those that need a float8 encoder. */
static graft_status check(const graft_op_desc *d, graft_err *e)
{
    graft_dtype to = d->out.dtype;
    if ((to == GRAFT_F8_E4M3 || to == GRAFT_F8_E5M2) && to != d->in[0].dtype)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "conversion to float8");
    return graft_ref_check_same_shape(&d->in[0], &d->out, "x and out", e);
}

static double load(graft_dtype dtype, const char *p)
{
    switch (dtype) {
    case GRAFT_F32:
        return *(const float *)p;
    case GRAFT_F16:
        return graft_f16_to_f32(*(const uint16_t *)p);
    case GRAFT_BF16:
        return graft_bf16_to_f32(*(const uint16_t *)p);
    case GRAFT_F64:
        return *(const double *)p;
    case GRAFT_F8_E4M3:
        return graft_f8_e4m3_to_f32(*(const uint8_t *)p);
    case GRAFT_F8_E5M2:
        return graft_f8_e5m2_to_f32(*(const uint8_t *)p);
    case GRAFT_I8:
        return *(const int8_t *)p;
    case GRAFT_U8:
        return *(const uint8_t *)p;
    case GRAFT_BOOL8:
        return *(const uint8_t *)p != 0;
    case GRAFT_I32:
        return *(const int32_t *)p;
    case GRAFT_I64:
        return (double)*(const int64_t *)p;
    default:
        return 0;
    }
}

/* To whole numbers: nearest, ties to even, clamped; NaN gives 0. `hi` is exact as a double. */
static int64_t to_integer(double v, double lo, double hi)
{
    if (isnan(v)) return 0;
    v = nearbyint(v);
    return (int64_t)(v < lo ? lo : v > hi ? hi : v);
}

static void store(graft_dtype dtype, char *p, double v)
{
    switch (dtype) {
    case GRAFT_F32:
        *(float *)p = (float)v;
        break;
    case GRAFT_F16:
        *(uint16_t *)p = graft_f32_to_f16((float)v);
        break;
    case GRAFT_BF16:
        *(uint16_t *)p = graft_f32_to_bf16((float)v);
        break;
    case GRAFT_F64:
        *(double *)p = v;
        break;
    case GRAFT_I8:
        *(int8_t *)p = (int8_t)to_integer(v, INT8_MIN, INT8_MAX);
        break;
    case GRAFT_U8:
        *(uint8_t *)p = (uint8_t)to_integer(v, 0, UINT8_MAX);
        break;
    case GRAFT_BOOL8:
        *(uint8_t *)p = v != 0;
        break;
    case GRAFT_I32:
        *(int32_t *)p = (int32_t)to_integer(v, INT32_MIN, INT32_MAX);
        break;
    case GRAFT_I64: /* the largest double below 2^63 */
        *(int64_t *)p = to_integer(v, -0x1p63, 0x1.fffffffffffffp62);
        break;
    default:
        break;
    }
}

static void copy_row(const graft_op_desc *d, const char *x, char *y)
{
    graft_dtype from = d->in[0].dtype, to = d->out.dtype;
    size_t from_size = graft_dtype_size(from), to_size = graft_dtype_size(to);
    int last = d->out.rank - 1;
    int64_t n = d->out.dim[last], xs = d->in[0].stride[last], ys = d->out.stride[last];
    if (from == to && from == GRAFT_F32) { /* the common transpose */
        for (int64_t i = 0; i < n; i++) ((float *)y)[i * ys] = ((const float *)x)[i * xs];
    } else if (from == to) {
        for (int64_t i = 0; i < n; i++)
            memcpy(y + (size_t)(i * ys) * to_size, x + (size_t)(i * xs) * from_size, to_size);
    } else {
        for (int64_t i = 0; i < n; i++)
            store(to, y + (size_t)(i * ys) * to_size, load(from, x + (size_t)(i * xs) * from_size));
    }
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)workspace;
    size_t from_size = graft_dtype_size(d->in[0].dtype), to_size = graft_dtype_size(d->out.dtype);
    int64_t rows = graft_ref_rows(&d->out);
    for (int64_t r = 0; r < rows; r++)
        copy_row(d, (const char *)in[0] + (size_t)graft_ref_row_at(&d->in[0], r) * from_size,
                 (char *)out + (size_t)graft_ref_row_at(&d->out, r) * to_size);
}

const graft_ref_op graft_ref_op_COPY = {.check = check, .run = GRAFT_REF_CODE(run), .inputs = 1};
