#include "engine/weights/patch.h"

#include <string.h>

#include "base/alloc.h"
#include "base/half.h"

void graft_to_f32(graft_dtype dtype, const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    switch (dtype) {
    case GRAFT_F32:
        memcpy(dst, src, n * sizeof *dst);
        return;
    case GRAFT_F16:
        graft_f16_to_f32_array(src, dst, n);
        return;
    case GRAFT_BF16:
        graft_bf16_to_f32_array(src, dst, n);
        return;
    default:
        break;
    }
    for (size_t i = 0; i < n; i++) {
        double d;
        if (dtype == GRAFT_F8_E4M3) {
            dst[i] = graft_f8_e4m3_to_f32(p[i]);
        } else if (dtype == GRAFT_F8_E5M2) {
            dst[i] = graft_f8_e5m2_to_f32(p[i]);
        } else if (dtype == GRAFT_F64) {
            memcpy(&d, p + i * sizeof d, sizeof d);
            dst[i] = (float)d;
        } else {
            dst[i] = 0.0f;
        }
    }
}

static int64_t count(const graft_st_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

static float *as_f32(const graft_st_tensor *t)
{
    float *p = graft_malloc_array((size_t)count(t), sizeof *p);
    if (p) graft_to_f32(t->dtype, t->data, p, (size_t)count(t));
    return p;
}

/* c(m,n) += f * a(m,k) b(k,n), row-major. */
static void add_product(float *c, const float *a, const float *b, int64_t m, int64_t k, int64_t n,
                        float f)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) {
            float x = f * a[i * k + l];
            const float *row = b + l * n;
            float *out = c + i * n;
            for (int64_t j = 0; j < n; j++) out[j] += x * row[j];
        }
}

/* mid (r_up, r_down, kh*kw) and down (r_down, I) give the (r_up, I*kh*kw) right factor. */
static float *expand_mid(const float *mid, const float *down, int64_t r_up, int64_t r_down,
                         int64_t in, int64_t k)
{
    float *out = graft_calloc((size_t)(r_up * in), (size_t)k * sizeof *out);
    if (!out) return NULL;
    for (int64_t a = 0; a < r_up; a++)
        for (int64_t b = 0; b < r_down; b++)
            for (int64_t i = 0; i < in; i++)
                for (int64_t s = 0; s < k; s++)
                    out[(a * in + i) * k + s] += mid[(a * r_down + b) * k + s] * down[b * in + i];
    return out;
}

graft_status graft_patch_apply(const graft_patch *p, const graft_st_tensor *target, float *dst,
                               graft_err *e)
{
    graft_status st = GRAFT_OK;
    int64_t rows = target->rank ? target->shape[0] : 0;
    int64_t columns = rows ? count(target) / rows : 0;
    int64_t rank = p->up->rank > 1 ? p->up->shape[1] : 0;
    float *up = NULL, *down = NULL, *mid = NULL, *right = NULL;
    if (!rank || p->up->shape[0] != rows || count(p->up) != rows * rank) goto mismatch;
    if (!p->mid &&
        (p->down->rank < 1 || count(p->down) != rank * columns || p->down->shape[0] != rank))
        goto mismatch;
    up = as_f32(p->up);
    down = as_f32(p->down);
    if (!up || !down) goto nomem;
    if (p->mid) {
        int64_t r_down = p->down->shape[0], in = r_down ? count(p->down) / r_down : 0;
        int64_t k = in ? columns / in : 0;
        if (!k || k * in != columns || count(p->mid) != rank * r_down * k) goto mismatch;
        mid = as_f32(p->mid);
        if (!mid) goto nomem;
        right = expand_mid(mid, down, rank, r_down, in, k);
        if (!right) goto nomem;
    }
    add_product(dst, up, right ? right : down, rows, rank, columns, p->scale * p->strength);
    goto out;
mismatch:
    st = graft_fail(e, GRAFT_E_FORMAT, "LoRA for %s: its shapes do not fit the tensor",
                    target->name);
    goto out;
nomem:
    st = graft_fail_nomem(e, "LoRA");
out:
    graft_free(up);
    graft_free(down);
    graft_free(mid);
    graft_free(right);
    return st;
}
