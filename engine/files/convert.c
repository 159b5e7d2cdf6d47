/* Files of other programs as safetensors. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/files/convert.h"
#include "engine/files/llama_rows.h"
#include "engine/weights/gguf.h"
#include "engine/weights/pytorch.h"

static const char *const metadata[] = {"format", "pt", NULL};

/* ------------------------------------------------------------------ GGUF */

typedef struct unpacking {
    const graft_safetensors *file;
    graft_st_tensor *tensor; /* as they are written */
    uint16_t *values;        /* of the one that was asked for last */
} unpacking;

/* For graft_safetensors_write_from(): values in blocks as float16. */
static graft_status unpack(void *ctx, size_t i, const void **data, graft_err *e)
{
    unpacking *u = ctx;
    const graft_st_tensor *t = graft_safetensors_at(u->file, i);
    *data = t->data;
    if (!t->blocks) return GRAFT_OK;
    graft_free(u->values);
    graft_status st = graft_st_as_f16(t, &u->values, e);
    *data = u->values;
    return st;
}

static bool begins_as_gguf(const char *path)
{
    graft_mapping map = {0};
    bool yes =
        graft_file_map(path, &map, NULL) == GRAFT_OK && graft_gguf_is_one(map.data, map.size);
    graft_file_unmap(&map);
    return yes;
}

graft_status graft_convert_metadata(const graft_safetensors *f, const char ***out, graft_err *e)
{
    size_t n = 0, at = 0;
    while (graft_safetensors_metadata_at(f, n, NULL)) n++;
    const char **pairs = graft_malloc_array(2 * n + 3, sizeof *pairs), *key, *value;
    if (!pairs) return graft_fail_nomem(e, "the metadata of a file");
    pairs[at++] = metadata[0];
    pairs[at++] = metadata[1];
    for (size_t i = 0; i < n; i++) {
        key = graft_safetensors_metadata_at(f, i, &value);
        if (strcmp(key, metadata[0]) == 0) continue;
        pairs[at++] = key;
        pairs[at++] = value;
    }
    pairs[at] = NULL;
    *out = pairs;
    return GRAFT_OK;
}

static graft_status convert_gguf(const graft_safetensors *f, const char *to,
                                 graft_convert_info *info, graft_err *e)
{
    const size_t n = graft_safetensors_count(f);
    unpacking u = {.file = f, .tensor = graft_malloc_array(n + 1, sizeof *u.tensor)};
    const char **pairs = NULL;
    graft_status st = graft_convert_metadata(f, &pairs, e);
    if (!st && !u.tensor) st = graft_fail_nomem(e, "the tensors of a file");
    for (size_t i = 0; i < n && !st; i++) {
        graft_st_tensor *t = &u.tensor[i];
        *t = *graft_safetensors_at(f, i);
        if (t->blocks) {
            t->dtype = GRAFT_F16;
            t->bytes = (uint64_t)graft_st_values(t) * sizeof *u.values;
            t->blocks = NULL;
        }
        info->bytes += t->bytes;
    }
    info->tensors = n;
    if (!st) st = graft_safetensors_write_from(to, u.tensor, n, pairs, false, unpack, &u, e);
    graft_free(pairs);
    graft_free(u.tensor);
    graft_free(u.values);
    return st;
}

/* ------------------------------------------------------------------ PyTorch */

static graft_status convert_pytorch(const char *from, const char *to, graft_convert_info *info,
                                    graft_err *e)
{
    enum { NOTES = 8 };
    graft_pytorch *f = NULL;
    graft_pytorch_note note[NOTES];
    const char *pairs[2 + 2 * NOTES + 1] = {metadata[0], metadata[1]};
    size_t n, notes = 0;
    graft_status st;
    GRAFT_TRY(graft_pytorch_open(from, &f, e));
    const graft_st_tensor *tensor = graft_pytorch_tensors(f, &n);
    while (notes < NOTES && graft_pytorch_note_at(f, notes, &note[notes])) {
        pairs[2 + 2 * notes] = note[notes].key;
        pairs[3 + 2 * notes] = note[notes].value;
        notes++;
    }
    GRAFT_TRY(graft_safetensors_write(to, tensor, n, pairs, 0, e));
    for (size_t i = 0; i < n; i++) info->bytes += tensor[i].bytes;
    info->tensors = n;
    info->left_out = graft_pytorch_left_out(f);
    snprintf(info->left_out_names, sizeof info->left_out_names, "%s",
             graft_pytorch_left_out_names(f));
    if (graft_pytorch_part(f)) snprintf(info->part, sizeof info->part, "%s", graft_pytorch_part(f));
out:
    graft_pytorch_close(f);
    return st;
}

/* Files of PyTorch are no safetensors, whatever they are called. */
graft_status graft_checkpoint_convert(const char *from, const char *to, graft_convert_info *info,
                                      graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_err why = GRAFT_ERR_INIT; /* for a PyTorch file it is nothing to tell */
    *info = (graft_convert_info){0};
    graft_status st = graft_safetensors_open(from, &f, &why);
    if (st == GRAFT_E_NOMEM || (st && begins_as_gguf(from)))
        return graft_fail(e, st, "%s", why.text);
    if (st) return convert_pytorch(from, to, info, e);
    st = graft_llama_rows_adopt(f, e);
    if (!st)
        st = graft_safetensors_is_gguf(f)
                 ? convert_gguf(f, to, info, e)
                 : graft_fail(e, GRAFT_E_ARG,
                              "%s: a safetensors file already; there is nothing to convert", from);
    graft_safetensors_close(f);
    return st;
}
