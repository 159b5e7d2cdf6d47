#include "engine/weights/safetensors_rows.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/weights/quantized.h"

enum { ALIGNMENT = 64 };

typedef struct list {
    const graft_safetensors *f;
    graft_st_tensor *tensor;
    size_t n;
    graft_coded *coded;
    const graft_st_alias *alias;
    graft_err *e;
} list;

/* Values that must stay together: halves, and what is joined, are of whole such units. */
static int64_t unit_of(const graft_st_tensor *t)
{
    return t->coded ? t->coded->block : t->blocks ? t->blocks->values : 1;
}

/* Whether its rows can be moved: of what is quantized, those of NF4 and FP4, which begin with a
 * block as all of it does. */
static bool moves(const graft_st_tensor *t)
{
    if (t->rank == 0 || t->bytes == 0 || graft_is_quantized(t->dtype)) return false;
    return !t->coded || (t->coded->block && graft_st_values(t) % t->coded->block == 0);
}

static bool alike(const graft_st_tensor *a, const graft_st_tensor *b)
{
    const graft_coded *c = a->coded, *d = b->coded;
    if (a->dtype != b->dtype || a->blocks != b->blocks || a->rank != b->rank || !c != !d)
        return false;
    if (c && (c->form != d->form || c->block != d->block)) return false;
    return memcmp(a->shape + 1, b->shape + 1, (size_t)(a->rank - 1) * sizeof *a->shape) == 0;
}

/* As its first one says, whose shape *out has: so many slices of one shape. */
static graft_status sliced(const list *l, size_t i, graft_st_tensor *out)
{
    int64_t n = 1;
    bool fits = moves(out) && out->rank >= 2 && out->rank < GRAFT_SAFETENSORS_MAX_RANK &&
                !graft_st_packed(out) && out->scale == 0;
    for (size_t k = l->alias[i].next; k && fits; k = l->alias[k - 1].next, n++) {
        const graft_st_tensor *t = &l->tensor[k - 1];
        fits = alike(out, t) && t->shape[0] == out->shape[0] && t->scale == 0;
    }
    if (!fits)
        return graft_fail(l->e, GRAFT_E_FORMAT,
                          "%s: the slices of tensor %.200s do not fit each other, or are quantized",
                          graft_safetensors_path(l->f), out->name);
    memmove(out->shape + 3, out->shape + 2, (size_t)(out->rank - 2) * sizeof *out->shape);
    out->shape[2] = n;
    out->rank++;
    out->bytes *= (uint64_t)n;
    return GRAFT_OK;
}

/* Whether its rows are whole units, and heads of `head` rows. */
static bool has_heads(const graft_st_tensor *t, int64_t head)
{
    return moves(t) && !t->coded && head > 0 && head % 2 == 0 && t->shape[0] % head == 0 &&
           graft_st_values(t) / t->shape[0] % unit_of(t) == 0;
}

/* The tensor with the rows of those behind it, still without data. */
static graft_status joined(const list *l, size_t i, graft_st_tensor *out)
{
    const graft_st_alias *alias = l->alias;
    const char *file = graft_safetensors_path(l->f);
    *out = l->tensor[i];
    if (alias[i].slices) return sliced(l, i, out);
    if (alias[i].less && (out->dtype != GRAFT_F32 || graft_st_packed(out) || out->scale != 0))
        return graft_fail(l->e, GRAFT_E_UNSUPPORTED,
                          "%s: the values of tensor %.200s are no float32", file,
                          graft_st_called(out));
    bool fits = moves(out);
    for (size_t k = alias[i].next; k; k = alias[k - 1].next) {
        const graft_st_tensor *t = &l->tensor[k - 1];
        fits = fits && moves(t) && alike(out, t) && t->shape[0] <= INT64_MAX - out->shape[0];
        if (t->scale != out->scale)
            return graft_fail(l->e, GRAFT_E_UNSUPPORTED,
                              "%s: tensors %.200s and %.200s have different scales and cannot be "
                              "joined; a file in its authors' names has them as one",
                              file, out->name, t->name);
        if (!fits)
            return graft_fail(
                l->e, GRAFT_E_FORMAT,
                "%s: the rows of tensors %.200s and %.200s do not fit each other, or are "
                "quantized",
                file, out->name, t->name);
        out->shape[0] += t->shape[0];
        out->bytes += t->bytes;
    }
    if (alias[i].paired && !has_heads(out, alias[i].paired))
        return graft_fail(l->e, GRAFT_E_FORMAT,
                          "%s: the rows of tensor %.200s are not heads of %lld", file,
                          graft_st_called(out), (long long)alias[i].paired);
    if (!alias[i].exchanged) return GRAFT_OK;
    if (fits && out->shape[0] % 2 == 0 && graft_st_values(out) / 2 % unit_of(out) == 0)
        return GRAFT_OK;
    return graft_fail(l->e, GRAFT_E_FORMAT,
                      "%s: the rows of tensor %.200s are not two halves, or quantized", file,
                      out->name);
}

static bool has_new_rows(const graft_st_alias *alias)
{
    return !alias->piece && (alias->next || alias->exchanged || alias->paired || alias->less);
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Of the scales of a tensor, `whole` as joined() gives it. */
static size_t scale_bytes(const graft_st_tensor *whole)
{
    return whole->coded ? (size_t)(graft_st_values(whole) / unit_of(whole)) * sizeof(float) : 0;
}

static void exchange(uint8_t *p, size_t bytes)
{
    const size_t half = bytes / 2;
    for (size_t k = 0; k < half; k++) {
        uint8_t first = p[k];
        p[k] = p[half + k];
        p[half + k] = first;
    }
}

/* Of heads of so many rows the first of each pair, and then the others. */
static void part_pairs(const graft_st_tensor *t, int64_t head, uint8_t *to)
{
    const size_t bytes = (size_t)(t->bytes / (uint64_t)t->shape[0]);
    const uint8_t *from = t->data;
    for (int64_t row = 0; row < t->shape[0]; row++, from += bytes) {
        const int64_t of_head = row % head;
        const int64_t place = row - of_head + of_head / 2 + of_head % 2 * (head / 2);
        memcpy(to + (size_t)place * bytes, from, bytes);
    }
}

static void copy_slices(const list *l, size_t i, const graft_st_tensor *whole, uint8_t *to)
{
    const size_t n = (size_t)whole->shape[2], all = (size_t)(whole->shape[0] * whole->shape[1]);
    const size_t bytes = (size_t)whole->bytes / n / all;
    for (size_t k = i + 1; k; k = l->alias[k - 1].next, to += bytes)
        for (size_t j = 0; j < all; j++)
            memcpy(to + j * n * bytes, (const uint8_t *)l->tensor[k - 1].data + j * bytes, bytes);
}

/* Of float32, which are aligned. */
static void take_one(uint8_t *p, size_t bytes)
{
    float *v = (float *)(void *)p;
    for (size_t i = 0; i < bytes / sizeof *v; i++) v[i] -= 1;
}

static void copy_rows(const list *l, size_t i, const graft_st_tensor *whole, uint8_t *to)
{
    uint8_t *p = to;
    if (l->alias[i].slices) {
        copy_slices(l, i, whole, to);
        return;
    }
    if (l->alias[i].paired) {
        part_pairs(&l->tensor[i], l->alias[i].paired, to);
        graft_safetensors_forget(l->f, &l->tensor[i]);
        return;
    }
    for (size_t k = i + 1; k; k = l->alias[k - 1].next) {
        const graft_st_tensor *t = &l->tensor[k - 1];
        if (t->bytes) memcpy(p, t->data, t->bytes);
        p += t->bytes;
        graft_safetensors_forget(l->f, t);
    }
    if (l->alias[i].exchanged) exchange(to, (size_t)whole->bytes);
    if (l->alias[i].less) take_one(to, (size_t)whole->bytes);
}

/* Its scales, and what is known of it: it has a place of its own among the file's. */
static void copy_scales(const list *l, size_t i, const graft_st_tensor *whole, float *to)
{
    graft_coded *c = &l->coded[whole->coded - l->coded];
    float *p = to;
    for (size_t k = i + 1; k; k = l->alias[k - 1].next) {
        graft_coded_scales(l->tensor[k - 1].coded, p);
        p += l->tensor[k - 1].coded->scales;
    }
    if (l->alias[i].exchanged) exchange((uint8_t *)to, scale_bytes(whole));
    c->rows = whole->shape[0];
    c->scale = to;
    c->scale_dtype = GRAFT_F32;
    c->scale_bytes = scale_bytes(whole);
    c->scales = p - to;
    c->map = c->nested = NULL;
}

graft_status graft_st_rows_make(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                                graft_coded *coded, const graft_st_alias *alias, uint8_t **rows,
                                graft_err *e)
{
    const list l = {f, tensor, n, coded, alias, e};
    graft_st_tensor whole;
    size_t total = 0;
    *rows = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!has_new_rows(&alias[i])) continue;
        graft_status st = joined(&l, i, &whole);
        if (st) return st;
        /* Twice the file at most, and of nested scales four times. */
        total += aligned((size_t)whole.bytes) + aligned(scale_bytes(&whole));
    }
    if (!total) return GRAFT_OK;
    uint8_t *to = *rows = graft_malloc_aligned(ALIGNMENT, total);
    if (!to) return graft_fail_nomem(e, "joined tensors");
    for (size_t i = 0; i < n; i++) {
        if (!has_new_rows(&alias[i])) continue;
        graft_status st = joined(&l, i, &whole);
        if (st) return st;
        copy_rows(&l, i, &whole, to);
        whole.data = to;
        to += aligned((size_t)whole.bytes);
        if (whole.coded) copy_scales(&l, i, &whole, (float *)(void *)to);
        to += aligned(scale_bytes(&whole));
        tensor[i] = whole;
    }
    return GRAFT_OK;
}
