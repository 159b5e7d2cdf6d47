#include "engine/weights/safetensors_inside.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
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
    graft_status st = graft_st_rows_make(f, f->tensor, f->n_tensors, f->coded, alias, &f->rows, e);
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
