/* Opening a file of tensors: its parts, the names in them, and what is quantized. */
#include "base/alloc.h"
#include "base/part.h"
#include "engine/weights/coded_adopt.h"
#include "engine/weights/quantized_adopt.h"
#include "engine/weights/safetensors_inside.h"
#include "engine/weights/scaled.h"

static graft_status index_names(graft_safetensors *f, graft_err *e)
{
    const char *twice;
    graft_status st =
        graft_st_index_build(&f->by_name, f->tensor, sizeof *f->tensor, f->n_tensors, &twice, e);
    if (st) return st;
    if (twice)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor \"%.200s\" occurs twice", f->what, twice);
    st = graft_st_index_build(&f->by_key, f->meta, sizeof *f->meta, f->n_meta, &twice, e);
    if (st) return st;
    if (twice)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: metadata \"%.200s\" occurs twice", f->what,
                          twice);
    return GRAFT_OK;
}

static graft_status read_file(graft_safetensors *f, graft_st_file *file, const uint8_t *bytes,
                              size_t size, graft_gguf_common *common, graft_err *e)
{
    const bool gguf = graft_gguf_is_one(bytes, size);
    if (file != f->file && gguf != f->gguf)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: %s GGUF file, but the parts before it are %s",
                          file->path, gguf ? "a" : "no", gguf ? "none" : "such files");
    return gguf ? graft_st_read_gguf(f, file, bytes, size, common, e)
                : graft_st_read_header(f, file, bytes, size, e);
}

/* What is there once all parts have been read. */
static graft_status finish(graft_safetensors *f, graft_err *e)
{
    graft_status st = index_names(f, e);
    if (st || f->gguf) return st;
    GRAFT_TRY(graft_quantized_adopt(f, f->tensor, f->n_tensors, e));
    GRAFT_TRY(graft_coded_adopt(f, f->tensor, f->n_tensors, &f->coded, e));
    GRAFT_TRY(graft_scaled_adopt(f, f->tensor, f->n_tensors, e));
out:
    return st;
}

/* Room for its parts, which have no path yet. */
static graft_status create(const char *what, size_t parts, graft_safetensors **out, graft_err *e)
{
    graft_safetensors *f = graft_calloc(1, sizeof *f);
    if (f) f->what = graft_strdup(what);
    if (f) f->file = graft_calloc(parts, sizeof *f->file);
    if (!f || !f->what || !f->file) {
        graft_safetensors_close(f);
        return graft_fail_nomem(e, "a safetensors file");
    }
    f->n_files = parts;
    *out = f;
    return GRAFT_OK;
}

static graft_status open_part(graft_safetensors *f, const graft_part *part, size_t i,
                              graft_gguf_common *common, graft_err *e)
{
    graft_st_file *file = &f->file[i];
    file->path =
        f->n_files > 1 ? graft_part_path(f->what, part, (unsigned)i + 1) : graft_strdup(f->what);
    if (!file->path) return graft_fail_nomem(e, "a path");
    if (f->n_files > 1 && !graft_file_exists(file->path))
        return graft_fail(e, GRAFT_E_NOTFOUND, "%s: the model is in %zu parts, and %s is missing",
                          f->what, f->n_files, graft_path_name(file->path));
    graft_status st = graft_file_map_identified(file->path, &file->map, &file->id, e);
    return st ? st : read_file(f, file, file->map.data, file->map.size, common, e);
}

graft_status graft_safetensors_open(const char *path, graft_safetensors **out, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_part part = {.count = 1};
    graft_gguf_common common = {0};
    graft_status st = GRAFT_OK;
    *out = NULL;
    if (!graft_part_of(path, &part)) part.count = 1;
    GRAFT_TRY(create(path, part.count, &f, e));
    for (size_t i = 0; i < f->n_files; i++) GRAFT_TRY(open_part(f, &part, i, &common, e));
    GRAFT_TRY(finish(f, e));
    *out = f;
    f = NULL;
out:
    graft_gguf_common_finish(&common);
    graft_safetensors_close(f);
    return st;
}

graft_status graft_safetensors_open_memory(const void *data, size_t size, const char *what,
                                           graft_safetensors **out, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_gguf_common common = {0};
    graft_status st = GRAFT_OK;
    *out = NULL;
    GRAFT_TRY(create(what, 1, &f, e));
    f->file->path = graft_strdup(what);
    if (!f->file->path) st = graft_fail_nomem(e, "a safetensors file");
    GRAFT_TRY(st);
    GRAFT_TRY(read_file(f, f->file, data, size, &common, e));
    GRAFT_TRY(finish(f, e));
    *out = f;
    f = NULL;
out:
    graft_gguf_common_finish(&common);
    graft_safetensors_close(f);
    return st;
}
