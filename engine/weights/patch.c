#include "engine/weights/patch.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/weights/values.h"

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

/* ------------------------------------------------------------------ the product */

#define TILE_ROWS    4
#define TILE_COLUMNS 16
#define STRIP        256 /* columns of b that stay in the second-level cache for all rows of a */

typedef float lane8 __attribute__((vector_size(32), aligned(4), may_alias));

/* c(4,16) += f * a(4,k) b(k,16); rows of a, b and c are k, n and n values long. Eight sums with
 * names instead of an array: they stay in registers at any level of optimization. */
static inline __attribute__((always_inline)) void add_tile(float *c, const float *a, const float *b,
                                                           int64_t k, int64_t n, float f)
{
    const float *a1 = a + k, *a2 = a1 + k, *a3 = a2 + k;
    lane8 l0 = {0}, l1 = {0}, l2 = {0}, l3 = {0}, r0 = {0}, r1 = {0}, r2 = {0}, r3 = {0};
    for (int64_t i = 0; i < k; i++) {
        lane8 left = *(const lane8 *)(b + i * n), right = *(const lane8 *)(b + i * n + 8);
        l0 += a[i] * left;
        r0 += a[i] * right;
        l1 += a1[i] * left;
        r1 += a1[i] * right;
        l2 += a2[i] * left;
        r2 += a2[i] * right;
        l3 += a3[i] * left;
        r3 += a3[i] * right;
    }
    *(lane8 *)c += f * l0;
    *(lane8 *)(c + 8) += f * r0;
    *(lane8 *)(c + n) += f * l1;
    *(lane8 *)(c + n + 8) += f * r1;
    *(lane8 *)(c + 2 * n) += f * l2;
    *(lane8 *)(c + 2 * n + 8) += f * r2;
    *(lane8 *)(c + 3 * n) += f * l3;
    *(lane8 *)(c + 3 * n + 8) += f * r3;
}

static inline __attribute__((always_inline)) void
add_edge(float *c, const float *a, const float *b, int64_t k, int64_t n, int64_t columns, float f)
{
    for (int64_t j = 0; j < columns; j++) {
        float sum = 0.0f;
        for (int64_t l = 0; l < k; l++) sum += a[l] * b[l * n + j];
        c[j] += f * sum;
    }
}

/* c(m,n) += f * a(m,k) b(k,n), row-major. */
static inline __attribute__((always_inline)) void
add_strips(float *c, const float *a, const float *b, int64_t m, int64_t k, int64_t n, float f)
{
    for (int64_t at = 0; at < n; at += STRIP) {
        int64_t width = n - at < STRIP ? n - at : STRIP, whole = width / TILE_COLUMNS;
        int64_t i = 0, done = whole * TILE_COLUMNS;
        for (; i + TILE_ROWS <= m; i += TILE_ROWS) {
            float *row = c + i * n + at;
            for (int64_t j = 0; j < done; j += TILE_COLUMNS)
                add_tile(row + j, a + i * k, b + at + j, k, n, f);
            for (int r = 0; r < TILE_ROWS; r++)
                add_edge(row + r * n + done, a + (i + r) * k, b + at + done, k, n, width - done, f);
        }
        for (; i < m; i++) add_edge(c + i * n + at, a + i * k, b + at, k, n, width, f);
    }
}

static void add_product_plain(float *c, const float *a, const float *b, int64_t m, int64_t k,
                              int64_t n, float f)
{
    add_strips(c, a, b, m, k, n, f);
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static void
add_product_avx2(float *c, const float *a, const float *b, int64_t m, int64_t k, int64_t n, float f)
{
    add_strips(c, a, b, m, k, n, f);
}
#endif

static void add_product(float *c, const float *a, const float *b, int64_t m, int64_t k, int64_t n,
                        float f)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        add_product_avx2(c, a, b, m, k, n, f);
        return;
    }
#endif
    add_product_plain(c, a, b, m, k, n, f);
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

/* ------------------------------------------------------------------ patches */

/* The sizes in the product (rows,rank) x (rank,columns); with mid, columns = in * kernel. */
typedef struct patch_shape {
    int64_t rows, columns, rank, rank_down, in, kernel;
} patch_shape;

static bool shape_of(const graft_patch *p, const graft_st_tensor *target, patch_shape *s)
{
    int64_t all = target->rank ? target->shape[0] : 0;
    if (all < 1 || p->row < 0 || p->rows < 0 || p->row > all || p->rows > all - p->row)
        return false;
    s->rows = p->rows ? p->rows : all - p->row;
    s->columns = count(target) / all;
    s->rank = p->up->rank > 1 ? p->up->shape[1] : 0;
    s->rank_down = p->down->rank > 1 ? p->down->shape[0] : 0;
    if (s->rank < 1 || s->rank_down < 1 || s->columns < 1) return false;
    int64_t up_rows = p->up_rows ? p->up_rows : s->rows;
    if (p->up->shape[0] != up_rows || count(p->up) / s->rank != up_rows) return false;
    if (p->up_row < 0 || p->up_row > up_rows - s->rows) return false;
    s->in = count(p->down) / s->rank_down;
    if (!p->mid) return s->rank == s->rank_down && s->in == s->columns;
    if (s->in < 1 || p->mid->rank < 2 || p->mid->shape[0] != s->rank ||
        p->mid->shape[1] != s->rank_down)
        return false;
    s->kernel = count(p->mid) / s->rank / s->rank_down;
    return s->kernel > 0 && s->columns % s->kernel == 0 && s->columns / s->kernel == s->in;
}

static const char *shape_text(const graft_st_tensor *t, char out[160])
{
    return graft_safetensors_shape_text(t->shape, t->rank, out, 160);
}

graft_status graft_patch_check(const graft_patch *p, const graft_st_tensor *target, graft_err *e)
{
    patch_shape s;
    char up[160], down[160], own[160];
    if (shape_of(p, target, &s)) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT, "%s %s and %s %s do not fit %s %s", p->up->name,
                      shape_text(p->up, up), p->down->name, shape_text(p->down, down), target->name,
                      shape_text(target, own));
}

static graft_hash mix_tensor(graft_hash h, const graft_st_tensor *t)
{
    if (!t) return graft_hash_mix(h, "", 0);
    graft_hash data = graft_hash128(t->data, (size_t)t->bytes);
    h = graft_hash_mix(h, &data, sizeof data);
    h = graft_hash_mix(h, &t->dtype, sizeof t->dtype);
    return graft_hash_mix(h, t->shape, (size_t)t->rank * sizeof *t->shape);
}

graft_patch graft_patch_make(const graft_st_tensor *up, const graft_st_tensor *down,
                             const graft_st_tensor *mid, float alpha, int64_t row, int64_t rows)
{
    graft_patch p = {.up = up, .down = down, .mid = mid, .row = row, .rows = rows, .scale = 1.0f};
    int64_t rank = down->rank ? down->shape[0] : 0;
    if (!isnan(alpha) && rank > 0) p.scale = alpha / (float)rank;
    graft_hash h = {0, 0};
    h = mix_tensor(h, up);
    h = mix_tensor(h, down);
    h = mix_tensor(h, mid);
    h = graft_hash_mix(h, &p.row, sizeof p.row);
    h = graft_hash_mix(h, &p.rows, sizeof p.rows);
    p.hash = graft_hash_mix(h, &p.scale, sizeof p.scale);
    return p;
}

void graft_patch_take_rows(graft_patch *p, int64_t up_row, int64_t up_rows)
{
    p->up_row = up_row;
    p->up_rows = up_rows;
    p->hash = graft_hash_mix(p->hash, &p->up_row, sizeof p->up_row);
    p->hash = graft_hash_mix(p->hash, &p->up_rows, sizeof p->up_rows);
}

/* LoCon's second and third part as one; NULL when out of memory. */
static float *right_factor(const graft_patch *p, const patch_shape *s)
{
    float *mid = as_f32(p->mid), *down = as_f32(p->down);
    float *right =
        mid && down ? expand_mid(mid, down, s->rank, s->rank_down, s->in, s->kernel) : NULL;
    graft_free(mid);
    graft_free(down);
    return right;
}

graft_status graft_patch_product_init(const graft_patch *p, const graft_st_tensor *target,
                                      graft_patch_product *out, graft_err *e)
{
    patch_shape s;
    if (!shape_of(p, target, &s)) return graft_patch_check(p, target, e);
    size_t above = (size_t)(p->up_row * s.rank) * graft_dtype_size(p->up->dtype);
    *out = (graft_patch_product){.up = (const uint8_t *)p->up->data + above,
                                 .down = p->down->data,
                                 .up_dtype = p->up->dtype,
                                 .down_dtype = p->down->dtype,
                                 .rows = s.rows,
                                 .rank = s.rank,
                                 .columns = s.columns};
    if (!p->mid) return GRAFT_OK;
    out->down = out->owned = right_factor(p, &s);
    out->down_dtype = GRAFT_F32;
    return out->owned ? GRAFT_OK : graft_fail_nomem(e, "LoRA");
}

void graft_patch_product_finish(graft_patch_product *x)
{
    graft_free(x->owned);
    x->owned = NULL;
}

graft_status graft_patch_apply(const graft_patch *p, const graft_st_tensor *target, float *dst,
                               graft_err *e)
{
    patch_shape s;
    if (!shape_of(p, target, &s)) return graft_patch_check(p, target, e);
    float *up = as_f32(p->up), *down = p->mid ? right_factor(p, &s) : as_f32(p->down);
    bool ok = up && down;
    if (ok)
        add_product(dst + p->row * s.columns, up + p->up_row * s.rank, down, s.rows, s.rank,
                    s.columns, p->scale * p->strength);
    graft_free(up);
    graft_free(down);
    return ok ? GRAFT_OK : graft_fail_nomem(e, "LoRA");
}
