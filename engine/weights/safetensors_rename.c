#include "engine/weights/safetensors_inside.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/weights/quantized.h"

static graft_status index_again(graft_safetensors *f, graft_err *e)
{
    const char *twice;
    graft_free(f->by_name.slot);
    f->by_name.slot = NULL;
    graft_status st =
        graft_st_index_build(&f->by_name, f->tensor, sizeof *f->tensor, f->n_tensors, &twice, e);
    if (st || !twice) return st;
    const char *called[2] = {"", ""};
    for (size_t i = 0, n = 0; i < f->n_tensors && n < 2; i++)
        if (strcmp(f->tensor[i].name, twice) == 0) called[n++] = graft_st_called(&f->tensor[i]);
    return graft_fail(e, GRAFT_E_FORMAT, "%s: tensors %.200s and %.200s are the same one", f->what,
                      called[0], called[1]);
}

/* As its first one says, whose shape *out has: so many slices of one shape. */
static graft_status sliced(const graft_safetensors *f, const graft_st_alias *alias, size_t i,
                           graft_st_tensor *out, graft_err *e)
{
    int64_t n = 1;
    bool fits = out->rank >= 2 && out->rank < GRAFT_SAFETENSORS_MAX_RANK && out->bytes > 0 &&
                !graft_is_quantized(out->dtype) && !graft_st_packed(out) && out->scale == 0;
    for (size_t k = alias[i].next; k && fits; k = alias[k - 1].next, n++) {
        const graft_st_tensor *t = &f->tensor[k - 1];
        fits = t->dtype == out->dtype && !graft_st_packed(t) && t->scale == 0 &&
               t->rank == out->rank &&
               memcmp(t->shape, out->shape, (size_t)t->rank * sizeof *t->shape) == 0;
    }
    if (!fits)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: the slices of tensor %.200s do not fit each other, or are quantized",
                          f->what, out->name);
    memmove(out->shape + 3, out->shape + 2, (size_t)(out->rank - 2) * sizeof *out->shape);
    out->shape[2] = n;
    out->rank++;
    out->bytes *= (uint64_t)n;
    return GRAFT_OK;
}

/* The tensor with the rows of those behind it, still without data. */
static graft_status joined(const graft_safetensors *f, const graft_st_alias *alias, size_t i,
                           graft_st_tensor *out, graft_err *e)
{
    *out = f->tensor[i];
    if (alias[i].slices) return sliced(f, alias, i, out, e);
    bool fits = out->rank > 0 && out->bytes > 0 && !graft_is_quantized(out->dtype) && !out->coded;
    for (size_t k = alias[i].next; k; k = alias[k - 1].next) {
        const graft_st_tensor *t = &f->tensor[k - 1];
        fits =
            fits && t->dtype == out->dtype && t->blocks == out->blocks && !t->coded &&
            t->rank == out->rank &&
            memcmp(t->shape + 1, out->shape + 1, (size_t)(t->rank - 1) * sizeof *t->shape) == 0 &&
            t->shape[0] <= INT64_MAX - out->shape[0];
        if (t->scale != out->scale)
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: tensors %.200s and %.200s have different scales and cannot be "
                              "joined; a file in its authors' names has them as one",
                              f->what, out->name, t->name);
        if (!fits)
            return graft_fail(
                e, GRAFT_E_FORMAT,
                "%s: the rows of tensors %.200s and %.200s do not fit each other, or are "
                "quantized",
                f->what, out->name, t->name);
        out->shape[0] += t->shape[0];
        out->bytes += t->bytes;
    }
    if (!alias[i].exchanged) return GRAFT_OK;
    const int64_t unit = out->blocks ? out->blocks->values : 1; /* halves are of whole ones */
    if (fits && out->shape[0] % 2 == 0 && graft_st_values(out) / 2 % unit == 0) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT,
                      "%s: the rows of tensor %.200s are not two halves, or quantized", f->what,
                      out->name);
}

static bool has_new_rows(const graft_st_alias *alias)
{
    return !alias->piece && (alias->next || alias->exchanged);
}

static void copy_slices(const graft_safetensors *f, const graft_st_alias *alias, size_t i,
                        const graft_st_tensor *whole, uint8_t *to)
{
    const size_t n = (size_t)whole->shape[2], all = (size_t)(whole->shape[0] * whole->shape[1]);
    const size_t bytes = (size_t)whole->bytes / n / all;
    for (size_t k = i + 1; k; k = alias[k - 1].next, to += bytes)
        for (size_t j = 0; j < all; j++)
            memcpy(to + j * n * bytes, (const uint8_t *)f->tensor[k - 1].data + j * bytes, bytes);
}

static void copy_rows(const graft_safetensors *f, const graft_st_alias *alias, size_t i,
                      const graft_st_tensor *whole, uint8_t *to)
{
    uint8_t *p = to;
    size_t half = (size_t)whole->bytes / 2;
    if (alias[i].slices) {
        copy_slices(f, alias, i, whole, to);
        return;
    }
    for (size_t k = i + 1; k; k = alias[k - 1].next) {
        if (f->tensor[k - 1].bytes) memcpy(p, f->tensor[k - 1].data, f->tensor[k - 1].bytes);
        p += f->tensor[k - 1].bytes;
        graft_safetensors_forget(f, &f->tensor[k - 1]);
    }
    for (size_t k = 0; alias[i].exchanged && k < half; k++) {
        uint8_t first = to[k];
        to[k] = to[half + k];
        to[half + k] = first;
    }
}

#define ROW_ALIGNMENT 64

static graft_status make_rows(graft_safetensors *f, const graft_st_alias *alias, graft_err *e)
{
    graft_st_tensor whole;
    size_t total = 0, at = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        if (!has_new_rows(&alias[i])) continue;
        graft_status st = joined(f, alias, i, &whole, e);
        if (st) return st;
        total += (size_t)whole.bytes + ROW_ALIGNMENT; /* twice the file at most */
    }
    if (!total) return GRAFT_OK;
    f->rows = graft_malloc_aligned(ROW_ALIGNMENT, total);
    if (!f->rows) return graft_fail_nomem(e, "joined tensors");
    for (size_t i = 0; i < f->n_tensors; i++) {
        if (!has_new_rows(&alias[i])) continue;
        graft_status st = joined(f, alias, i, &whole, e);
        if (st) return st;
        copy_rows(f, alias, i, &whole, f->rows + at);
        whole.data = f->rows + at;
        at += ((size_t)whole.bytes + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
        f->tensor[i] = whole;
    }
    return GRAFT_OK;
}

static void drop_pieces(graft_safetensors *f, const graft_st_alias *alias)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_tensors; i++)
        if (!alias[i].piece) f->tensor[n++] = f->tensor[i];
    f->n_tensors = n;
}

graft_status graft_safetensors_rename(graft_safetensors *f, const graft_st_alias *alias,
                                      graft_err *e)
{
    size_t bytes = 1;
    assert(!f->aliases);
    graft_status st = make_rows(f, alias, e);
    if (st) return st;
    for (size_t i = 0; i < f->n_tensors; i++)
        if (alias[i].name) bytes += strlen(alias[i].name) + 1;
    char *p = f->aliases = graft_malloc(bytes);
    if (!p) return graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < f->n_tensors; i++) {
        graft_st_tensor *t = &f->tensor[i];
        if (!alias[i].name) continue;
        size_t n = strlen(alias[i].name) + 1;
        t->called = t->name;
        t->name = memcpy(p, alias[i].name, n);
        p += n;
        if (alias[i].kernel && t->rank == 2) {
            t->shape[2] = t->shape[3] = 1;
            t->rank = 4;
        } else if (alias[i].vector) {
            t->shape[0] = graft_st_values(t);
            t->rank = 1;
        }
    }
    drop_pieces(f, alias);
    return index_again(f, e);
}

graft_status graft_safetensors_add(graft_safetensors *f, graft_safetensors *other, graft_err *e)
{
    const size_t before = f->n_tensors, n = other->n_tensors;
    graft_st_tensor *all = graft_malloc_array(before + n + 1, sizeof *all);
    assert(!f->beside);
    if (!all) return graft_fail_nomem(e, "the tensors of two files");
    if (before) memcpy(all, f->tensor, before * sizeof *all);
    if (n) memcpy(all + before, other->tensor, n * sizeof *all);
    graft_free(f->tensor);
    f->tensor = all;
    f->cap_tensors = before + n + 1;
    f->n_tensors = before + n;
    graft_status st = index_again(f, e);
    if (st)
        f->n_tensors = before; /* what is wrong is told; f can only be closed */
    else
        f->beside = other;
    return st;
}
