#include "engine/weights/factors.h"

#include "base/alloc.h"
#include "engine/weights/values.h"

float *graft_factors_values(const graft_st_tensor *t)
{
    float *p = graft_malloc_array((size_t)graft_st_values(t), sizeof *p);
    if (p) graft_to_f32(t->dtype, t->data, p, (size_t)graft_st_values(t));
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

void graft_add_product(float *c, const float *a, const float *b, int64_t m, int64_t k, int64_t n,
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

/* ------------------------------------------------------------------ factors */

bool graft_factors_size_of(const graft_factors *f, graft_factors_size *s)
{
    *s = (graft_factors_size){.kernel = 1};
    if (f->whole) {
        s->rows = f->whole->rank ? f->whole->shape[0] : 0;
        s->columns = s->in = s->rows ? graft_st_values(f->whole) / s->rows : 0;
        return s->rows > 0 && s->columns > 0;
    }
    if (!f->a || !f->b || f->a->rank < 2 || f->b->rank < 2) return false;
    s->rows = f->a->shape[f->turned];
    s->rank = f->a->shape[!f->turned];
    s->rank_b = f->b->shape[0];
    if (s->rows < 1 || s->rank < 1 || s->rank_b < 1 || graft_st_values(f->a) != s->rows * s->rank)
        return false;
    s->in = graft_st_values(f->b) / s->rank_b;
    if (f->core) {
        if (f->core->rank < 2 || f->core->shape[0] != s->rank || f->core->shape[1] != s->rank_b)
            return false;
        s->kernel = graft_st_values(f->core) / s->rank / s->rank_b;
    } else if (s->rank != s->rank_b) {
        return false;
    }
    return s->in > 0 && s->kernel > 0 && !__builtin_mul_overflow(s->in, s->kernel, &s->columns);
}

/* core (r_a, r_b, kernel) and b (r_b, in) give the (r_a, in * kernel) right factor. */
static float *with_core(const float *core, const float *b, const graft_factors_size *size)
{
    const int64_t in = size->in, kernel = size->kernel;
    float *out = graft_calloc((size_t)(size->rank * in), (size_t)kernel * sizeof *out);
    if (!out) return NULL;
    for (int64_t j = 0; j < size->rank; j++)
        for (int64_t k = 0; k < size->rank_b; k++)
            for (int64_t i = 0; i < in; i++)
                for (int64_t s = 0; s < kernel; s++)
                    out[(j * in + i) * kernel + s] +=
                        core[(j * size->rank_b + k) * kernel + s] * b[k * in + i];
    return out;
}

float *graft_factors_right(const graft_factors *f, const graft_factors_size *s)
{
    float *b = graft_factors_values(f->b);
    if (!f->core || !b) return b;
    float *core = graft_factors_values(f->core), *right = core ? with_core(core, b, s) : NULL;
    graft_free(core);
    graft_free(b);
    return right;
}

static void turn(const float *from, float *to, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) to[c * rows + r] = from[r * columns + c];
}

float *graft_factors_whole(const graft_factors *f, const graft_factors_size *s)
{
    if (f->whole) return graft_factors_values(f->whole);
    float *stored = graft_factors_values(f->a), *right = graft_factors_right(f, s), *a = stored;
    float *out = graft_calloc((size_t)s->rows, (size_t)s->columns * sizeof *out);
    if (f->turned) a = graft_malloc_array((size_t)(s->rows * s->rank), sizeof *a);
    bool ok = stored && a && right && out;
    if (ok && f->turned) turn(stored, a, s->rank, s->rows);
    if (ok) graft_add_product(out, a, right, s->rows, s->rank, s->columns, 1.0f);
    if (f->turned) graft_free(a);
    graft_free(stored);
    graft_free(right);
    if (!ok) {
        graft_free(out);
        return NULL;
    }
    return out;
}
