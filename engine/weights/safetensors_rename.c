#include "engine/weights/safetensors_inside.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/weights/quantized.h"
#include "engine/weights/safetensors_rows.h"

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

/* Of the first `count`. */
static void drop_pieces(graft_safetensors *f, const graft_st_alias *alias, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_tensors; i++)
        if (i >= count || !alias[i].piece) f->tensor[n++] = f->tensor[i];
    f->n_tensors = n;
}

/* Two tensors in place of those that are both, the second ones at the end. */
static graft_status halve(graft_safetensors *f, const graft_st_alias *alias, graft_err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_tensors; i++) n += alias[i].second != NULL;
    if (!n) return GRAFT_OK;
    graft_st_tensor *all = graft_malloc_array(f->n_tensors + n, sizeof *all);
    if (!all) return graft_fail_nomem(e, "the tensors of a file");
    memcpy(all, f->tensor, f->n_tensors * sizeof *all);
    graft_free(f->tensor);
    f->tensor = all;
    f->cap_tensors = f->n_tensors + n;
    n = f->n_tensors;
    for (size_t i = 0; i < n; i++) {
        graft_st_tensor *t = &f->tensor[i];
        if (!alias[i].second) continue;
        const int64_t values = graft_st_values(t), unit = t->blocks ? t->blocks->values : 1;
        if (t->rank == 0 || t->shape[0] % 2 || values % (2 * unit) || t->coded ||
            graft_is_quantized(t->dtype))
            return graft_fail(e, GRAFT_E_FORMAT,
                              "%s: the rows of tensor %.200s are not two halves, or quantized",
                              f->what, t->name);
        t->shape[0] /= 2;
        t->bytes /= 2;
        graft_st_tensor *second = &f->tensor[f->n_tensors++];
        *second = *t;
        if (t->data) second->data = (const uint8_t *)t->data + t->bytes;
    }
    return GRAFT_OK;
}

static char *put_name(graft_st_tensor *t, const char *name, char *p)
{
    const size_t n = strlen(name) + 1;
    t->called = t->name;
    t->name = memcpy(p, name, n);
    return p + n;
}

graft_status graft_safetensors_rename(graft_safetensors *f, const graft_st_alias *alias,
                                      graft_err *e)
{
    const size_t count = f->n_tensors;
    size_t bytes = 1, second = count;
    assert(!f->aliases);
    graft_status st = graft_st_rows_make(f, f->tensor, f->n_tensors, f->coded, alias, &f->rows, e);
    if (!st) st = halve(f, alias, e);
    if (st) return st;
    for (size_t i = 0; i < count; i++)
        bytes += (alias[i].name ? strlen(alias[i].name) + 1 : 0) +
                 (alias[i].second ? strlen(alias[i].second) + 1 : 0);
    char *p = f->aliases = graft_malloc(bytes);
    if (!p) return graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < count; i++) {
        graft_st_tensor *t = &f->tensor[i];
        if (alias[i].second) p = put_name(&f->tensor[second++], alias[i].second, p);
        if (!alias[i].name) continue;
        p = put_name(t, alias[i].name, p);
        if (alias[i].kernel && t->rank == 2) {
            t->shape[2] = t->shape[3] = 1;
            t->rank = 4;
        } else if (alias[i].vector) {
            t->shape[0] = graft_st_values(t);
            t->rank = 1;
        }
    }
    drop_pieces(f, alias, count);
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
