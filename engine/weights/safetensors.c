#include "engine/weights/safetensors_inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

/* ------------------------------------------------------------------ names */

static const char *name_at(const void *array, size_t stride, size_t i)
{
    const char *name;
    memcpy(&name, (const char *)array + i * stride, sizeof name);
    return name;
}

static uint32_t *index_place(const graft_st_index *x, const void *array, size_t stride,
                             const char *name)
{
    size_t i = (size_t)graft_hash64(name, strlen(name)) & (x->cap - 1);
    while (x->slot[i] && strcmp(name_at(array, stride, x->slot[i] - 1), name) != 0)
        i = (i + 1) & (x->cap - 1);
    return &x->slot[i];
}

graft_status graft_st_index_build(graft_st_index *x, const void *array, size_t stride, size_t n,
                                  const char **twice, graft_err *e)
{
    *twice = NULL;
    for (x->cap = 4; x->cap < 2 * n;) x->cap *= 2;
    x->slot = graft_calloc(x->cap, sizeof *x->slot);
    if (!x->slot) return graft_fail_nomem(e, "an index of tensor names");
    for (size_t i = 0; i < n; i++) {
        const char *name = name_at(array, stride, i);
        uint32_t *place = index_place(x, array, stride, name);
        if (*place) {
            *twice = name;
            return GRAFT_OK;
        }
        *place = (uint32_t)i + 1;
    }
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ an open file */

void graft_safetensors_close(graft_safetensors *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->n_files; i++) {
        graft_file_unmap(&f->file[i].map);
        graft_free(f->file[i].path);
        graft_free(f->file[i].text);
    }
    graft_free(f->file);
    graft_free(f->by_name.slot);
    graft_free(f->by_key.slot);
    graft_free(f->tensor);
    graft_free(f->meta);
    graft_free(f->aliases);
    graft_free(f->rows);
    graft_free(f->coded);
    graft_free(f->made);
    graft_free(f->what);
    graft_safetensors_close(f->beside);
    graft_free(f);
}

graft_status graft_safetensors_check(const graft_safetensors *f, graft_err *e)
{
    for (size_t i = 0; i < f->n_files; i++)
        if (f->file[i].map.data && graft_file_was_changed(f->file[i].path, &f->file[i].id))
            return graft_fail(e, GRAFT_E_IO,
                              "%s was written to while it was in use: load it again (replace files "
                              "by renaming another over them)",
                              f->file[i].path);
    return f->beside ? graft_safetensors_check(f->beside, e) : GRAFT_OK;
}

static bool same_file(const graft_st_file *a, const graft_st_file *b)
{
    const graft_file_id *x = &a->id, *y = &b->id;
    return a->map.data && b->map.data && x->device == y->device && x->inode == y->inode &&
           x->size == y->size && x->changed_s == y->changed_s && x->changed_ns == y->changed_ns &&
           x->status_s == y->status_s && x->status_ns == y->status_ns;
}

bool graft_safetensors_same(const graft_safetensors *a, const graft_safetensors *b)
{
    bool same = a->n_files == b->n_files && !a->beside == !b->beside;
    if (a == b) return true;
    for (size_t i = 0; i < a->n_files && same; i++) same = same_file(&a->file[i], &b->file[i]);
    return same && (!a->beside || graft_safetensors_same(a->beside, b->beside));
}

size_t graft_safetensors_count(const graft_safetensors *f)
{
    return f->n_tensors;
}

const graft_st_tensor *graft_safetensors_at(const graft_safetensors *f, size_t i)
{
    assert(i < f->n_tensors);
    return &f->tensor[i];
}

const graft_st_tensor *graft_safetensors_find(const graft_safetensors *f, const char *name)
{
    uint32_t i = *index_place(&f->by_name, f->tensor, sizeof *f->tensor, name);
    return i ? &f->tensor[i - 1] : NULL;
}

const char *graft_safetensors_metadata(const graft_safetensors *f, const char *key)
{
    uint32_t i = *index_place(&f->by_key, f->meta, sizeof *f->meta, key);
    return i ? f->meta[i - 1].value : NULL;
}

const char *graft_safetensors_metadata_at(const graft_safetensors *f, size_t i, const char **value)
{
    if (i >= f->n_meta) return NULL;
    if (value) *value = f->meta[i].value;
    return f->meta[i].key;
}

const char *graft_safetensors_path(const graft_safetensors *f)
{
    return f->what;
}

bool graft_safetensors_is_gguf(const graft_safetensors *f)
{
    return f->gguf;
}

void graft_safetensors_forget(const graft_safetensors *f, const graft_st_tensor *t)
{
    const uint8_t *p = t->data;
    for (size_t i = 0; i < f->n_files && t->bytes; i++) {
        const graft_mapping *m = &f->file[i].map;
        if (!m->data || p < m->data || p >= m->data + m->size) continue;
        graft_file_forget(m, (size_t)(p - m->data), (size_t)t->bytes);
        return;
    }
    if (f->beside) graft_safetensors_forget(f->beside, t);
}

const char *graft_safetensors_shape_text(const int64_t *dim, int rank, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "(");
    for (int i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, i ? ",%lld" : "%lld", (long long)dim[i]);
    if (n < size) snprintf(out + n, size - n, ")");
    return out;
}
