#include "engine/weights/patch.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* ------------------------------------------------------------------ sizes */

/* Of the delta and of what it changes: `rows` rows of `columns`, the first of them row `from` of
 * the delta's `all`. `by_input`: the magnitude is one number for each of `inputs`. */
typedef struct patch_size {
    graft_factors_size part[2];
    int64_t rows, columns, from, all, inputs;
    bool by_input;
} patch_size;

/* The delta's own. */
static bool delta_size(const graft_patch *p, patch_size *s)
{
    for (int i = 0; i < 2; i++)
        if ((i == 0 || p->form != GRAFT_PATCH_LOW_RANK) &&
            !graft_factors_size_of(&p->part[i], &s->part[i]))
            return false;
    s->all = s->part[0].rows;
    s->columns = s->part[0].columns;
    if (p->form == GRAFT_PATCH_HADAMARD)
        return s->part[1].rows == s->all && s->part[1].columns == s->columns;
    if (p->form == GRAFT_PATCH_KRONECKER)
        return !__builtin_mul_overflow(s->all, s->part[1].rows, &s->all) &&
               !__builtin_mul_overflow(s->columns, s->part[1].columns, &s->columns);
    return true;
}

static bool magnitude_fits(const graft_patch *p, const graft_st_tensor *target, patch_size *s)
{
    const graft_st_tensor *m = p->magnitude;
    s->inputs = target->rank > 1 ? target->shape[1] : 1;
    if (!m || (m->rank > 0 && m->shape[0] == s->all && graft_st_values(m) == s->all)) return true;
    s->by_input = m->rank > 1 && m->shape[0] == 1 && m->shape[1] == s->inputs &&
                  graft_st_values(m) == s->inputs && s->all == s->rows;
    return s->by_input;
}

static bool size_of(const graft_patch *p, const graft_st_tensor *target, patch_size *s)
{
    int64_t all = target->rank ? target->shape[0] : 0;
    *s = (patch_size){.from = p->from_row};
    if (all < 1 || p->row < 0 || p->rows < 0 || p->row > all || p->rows > all - p->row)
        return false;
    s->rows = p->rows ? p->rows : all - p->row;
    if (!delta_size(p, s) || s->columns != graft_st_values(target) / all || s->columns < 1)
        return false;
    if (s->all != (p->from_rows ? p->from_rows : s->rows)) return false;
    if (p->from_row < 0 || p->from_row > s->all - s->rows) return false;
    return magnitude_fits(p, target, s);
}

graft_status graft_patch_check(const graft_patch *p, const graft_st_tensor *target, graft_err *e)
{
    patch_size s;
    graft_str text = GRAFT_STR_INIT;
    char shape[160];
    if (size_of(p, target, &s)) return GRAFT_OK;
    for (int i = 0; i < 2; i++) {
        const graft_factors *f = &p->part[i];
        const graft_st_tensor *const all[] = {f->whole, f->a, f->core, f->b,
                                              i ? p->magnitude : NULL};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            if (all[k])
                graft_str_printf(
                    &text, "%s%s %s", text.len ? ", " : "", all[k]->name,
                    graft_safetensors_shape_text(all[k]->shape, all[k]->rank, shape, sizeof shape));
    }
    graft_status st =
        graft_fail(e, GRAFT_E_FORMAT, "%s: do not fit %s %s",
                   text.data ? text.data : "a LoRA's factors", target->name,
                   graft_safetensors_shape_text(target->shape, target->rank, shape, sizeof shape));
    graft_str_finish(&text);
    return st;
}

/* ------------------------------------------------------------------ making one */

static graft_hash mix_tensor(graft_hash h, const graft_st_tensor *t)
{
    if (!t) return graft_hash_mix(h, "", 0);
    graft_hash data = graft_hash128(t->data, (size_t)t->bytes);
    h = graft_hash_mix(h, &data, sizeof data);
    h = graft_hash_mix(h, &t->dtype, sizeof t->dtype);
    return graft_hash_mix(h, t->shape, (size_t)t->rank * sizeof *t->shape);
}

/* That of the first part that has factors; 0 where both are whole. */
static int64_t rank_of(const graft_patch_source *s)
{
    for (int i = 0; i < 2; i++)
        if (!s->part[i].whole && s->part[i].b && s->part[i].b->rank) return s->part[i].b->shape[0];
    return 0;
}

graft_patch graft_patch_make(const graft_patch_source *s, int64_t row, int64_t rows)
{
    graft_patch p = {.form = s->form,
                     .part = {s->part[0], s->part[1]},
                     .magnitude = s->magnitude,
                     .row = row,
                     .rows = rows,
                     .scale = 1.0f};
    int64_t rank = rank_of(s);
    if (!isnan(s->alpha) && rank > 0) p.scale = s->alpha / (float)rank;
    graft_hash h = {0, 0};
    h = graft_hash_mix(h, &p.form, sizeof p.form);
    for (int i = 0; i < 2; i++) {
        const graft_factors *f = &p.part[i];
        h = mix_tensor(h, f->whole);
        h = mix_tensor(h, f->a);
        h = mix_tensor(h, f->b);
        h = mix_tensor(h, f->core);
        h = graft_hash_mix(h, &f->turned, sizeof f->turned);
    }
    h = mix_tensor(h, p.magnitude);
    h = graft_hash_mix(h, &p.row, sizeof p.row);
    h = graft_hash_mix(h, &p.rows, sizeof p.rows);
    p.hash = graft_hash_mix(h, &p.scale, sizeof p.scale);
    return p;
}

void graft_patch_take_rows(graft_patch *p, int64_t from_row, int64_t from_rows)
{
    p->from_row = from_row;
    p->from_rows = from_rows;
    p->hash = graft_hash_mix(p->hash, &p->from_row, sizeof p->from_row);
    p->hash = graft_hash_mix(p->hash, &p->from_rows, sizeof p->from_rows);
}

bool graft_patch_cut(graft_patch *p, int64_t first, int64_t end, int64_t all)
{
    int64_t rows = p->rows ? p->rows : all - p->row, last = p->row + rows;
    int64_t row = p->row > first ? p->row : first, stop = last < end ? last : end;
    if (row >= stop) return false;
    if (row == p->row && stop == last) return true;
    int64_t from_rows = p->from_rows ? p->from_rows : rows, from_row = p->from_row + row - p->row;
    p->row = row;
    p->rows = stop - row;
    p->hash = graft_hash_mix(p->hash, &p->row, sizeof p->row);
    p->hash = graft_hash_mix(p->hash, &p->rows, sizeof p->rows);
    graft_patch_take_rows(p, from_row, from_rows);
    return true;
}

/* ------------------------------------------------------------------ products */

bool graft_patch_is_product(const graft_patch *p)
{
    return p->form == GRAFT_PATCH_LOW_RANK && !p->part[0].whole && !p->part[0].turned &&
           !p->magnitude;
}

graft_status graft_patch_product_init(const graft_patch *p, const graft_st_tensor *target,
                                      graft_patch_product *out, graft_err *e)
{
    patch_size s;
    const graft_factors *f = &p->part[0];
    if (!size_of(p, target, &s)) return graft_patch_check(p, target, e);
    size_t above = (size_t)(s.from * s.part[0].rank) * graft_dtype_size(f->a->dtype);
    *out = (graft_patch_product){.up = (const uint8_t *)f->a->data + above,
                                 .down = f->b->data,
                                 .up_dtype = f->a->dtype,
                                 .down_dtype = f->b->dtype,
                                 .rows = s.rows,
                                 .rank = s.part[0].rank,
                                 .columns = s.columns};
    if (!f->core) return GRAFT_OK;
    out->down = out->owned = graft_factors_right(f, &s.part[0]);
    out->down_dtype = GRAFT_F32;
    return out->owned ? GRAFT_OK : graft_fail_nomem(e, "LoRA");
}

void graft_patch_product_finish(graft_patch_product *x)
{
    graft_free(x->owned);
    x->owned = NULL;
}

/* ------------------------------------------------------------------ deltas */

/* All forms: dst (s->rows,s->columns) += f * the delta's rows from s->from on. False when out of
 * memory. */
static bool add_low_rank(const graft_patch *p, const patch_size *s, float f, float *dst)
{
    float *up = graft_factors_values(p->part[0].a);
    float *down = graft_factors_right(&p->part[0], &s->part[0]);
    bool ok = up && down;
    if (ok)
        graft_add_product(dst, up + s->from * s->part[0].rank, down, s->rows, s->part[0].rank,
                          s->columns, f);
    graft_free(up);
    graft_free(down);
    return ok;
}

static bool add_whole(const graft_patch *p, const patch_size *s, float f, float *dst)
{
    float *v = graft_factors_whole(&p->part[0], &s->part[0]);
    const float *from = v + s->from * s->columns;
    for (int64_t i = 0; v && i < s->rows * s->columns; i++) dst[i] += f * from[i];
    graft_free(v);
    return v != NULL;
}

static bool add_hadamard(const graft_patch *p, const patch_size *s, float f, float *dst)
{
    float *u = graft_factors_whole(&p->part[0], &s->part[0]);
    float *v = u ? graft_factors_whole(&p->part[1], &s->part[1]) : NULL;
    const int64_t first = s->from * s->columns;
    for (int64_t i = 0; v && i < s->rows * s->columns; i++)
        dst[i] += f * u[first + i] * v[first + i];
    graft_free(u);
    graft_free(v);
    return v != NULL;
}

static bool add_kronecker(const graft_patch *p, const patch_size *s, float f, float *dst)
{
    float *u = graft_factors_whole(&p->part[0], &s->part[0]);
    float *v = u ? graft_factors_whole(&p->part[1], &s->part[1]) : NULL;
    const int64_t rows = s->part[1].rows, columns = s->part[1].columns, wide = s->part[0].columns;
    for (int64_t r = 0; v && r < s->rows; r++) {
        const float *left = u + (s->from + r) / rows * wide;
        const float *right = v + (s->from + r) % rows * columns;
        float *to = dst + r * s->columns;
        for (int64_t m = 0; m < wide; m++, to += columns)
            for (int64_t n = 0; n < columns; n++) to[n] += f * left[m] * right[n];
    }
    graft_free(u);
    graft_free(v);
    return v != NULL;
}

static bool add_delta(const graft_patch *p, const patch_size *s, float f, float *dst)
{
    if (p->form == GRAFT_PATCH_HADAMARD) return add_hadamard(p, s, f, dst);
    if (p->form == GRAFT_PATCH_KRONECKER) return add_kronecker(p, s, f, dst);
    return p->part[0].whole || p->part[0].turned ? add_whole(p, s, f, dst)
                                                 : add_low_rank(p, s, f, dst);
}

/* ------------------------------------------------------------------ DoRA */

/* Which number of the magnitude a value of v belongs to. */
static int64_t length_of(const patch_size *s, int64_t row, int64_t column)
{
    return s->by_input ? column / (s->columns / s->inputs) : s->from + row;
}

/* m / |v|; NULL when out of memory. */
static float *factors_of(const graft_patch *p, const patch_size *s, const float *v)
{
    const int64_t n = graft_st_values(p->magnitude);
    float *m = graft_factors_values(p->magnitude);
    double *square = graft_calloc((size_t)n, sizeof *square);
    for (int64_t r = 0; m && square && r < s->rows; r++)
        for (int64_t c = 0; c < s->columns; c++) {
            double x = v[r * s->columns + c];
            square[length_of(s, r, c)] += x * x;
        }
    for (int64_t i = 0; m && square && i < n; i++) m[i] /= (float)sqrt(square[i]) + FLT_EPSILON;
    if (!square) {
        graft_free(m);
        m = NULL;
    }
    graft_free(square);
    return m;
}

static bool add_decomposed(const graft_patch *p, const patch_size *s, const float *base, float *dst)
{
    const int64_t n = s->rows * s->columns;
    float *v = graft_malloc_array((size_t)n, sizeof *v), *factor = NULL;
    bool ok = v != NULL;
    if (ok) memcpy(v, base, (size_t)n * sizeof *v);
    ok = ok && add_delta(p, s, p->scale, v) && (factor = factors_of(p, s, v)) != NULL;
    for (int64_t r = 0; ok && r < s->rows; r++)
        for (int64_t c = 0; c < s->columns; c++) {
            int64_t i = r * s->columns + c;
            dst[i] += p->strength * (factor[length_of(s, r, c)] * v[i] - base[i]);
        }
    graft_free(v);
    graft_free(factor);
    return ok;
}

graft_status graft_patch_apply(const graft_patch *p, const graft_st_tensor *target,
                               const float *base, float *dst, graft_err *e)
{
    patch_size s;
    if (!size_of(p, target, &s)) return graft_patch_check(p, target, e);
    const int64_t first = p->row * s.columns;
    bool ok = p->magnitude ? add_decomposed(p, &s, base + first, dst + first)
                           : add_delta(p, &s, p->scale * p->strength, dst + first);
    return ok ? GRAFT_OK : graft_fail_nomem(e, "LoRA");
}
