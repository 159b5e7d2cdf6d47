/* GGUF files opened as safetensors files are: one, or the parts of one. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/weights/safetensors_inside.h"

/* Tensors that were read of it, without that which was made of metadata. */
static uint64_t own_tensors(const graft_gguf *g)
{
    return g->n - (g->tokenizer != NULL);
}

static graft_status check_alone(const graft_st_file *file, const graft_gguf *g, graft_err *e)
{
    if (g->parts < 2) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: part %" PRIu64 " of a GGUF file in %" PRIu64
                      " parts, whose name does not say so; parts are called NAME-%05" PRIu64
                      "-of-%05" PRIu64 ".gguf and lie side by side",
                      file->path, g->part + 1, g->parts, g->part + 1, g->parts);
}

/* Whether it is the part that its name says, of the same model as those before it. */
static graft_status check_part(const graft_safetensors *f, const graft_st_file *file,
                               const graft_gguf *g, graft_err *e)
{
    const uint64_t place = (uint64_t)(file - f->file);
    if (g->parts < 2)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: named as one of %zu parts, but it is a GGUF file by itself",
                          file->path, f->n_files);
    if (g->part != place || g->parts != f->n_files)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: it says of itself that it is part %" PRIu64 " of %" PRIu64,
                          file->path, g->part + 1, g->parts);
    if (place && g->part_tensors != f->part_tensors)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: a part of a model of %" PRIu64
                          " tensors, but those before it are of one of %" PRIu64,
                          file->path, g->part_tensors, f->part_tensors);
    const uint64_t before = f->n_tensors - (f->made != NULL), now = before + own_tensors(g);
    const bool last = place + 1 == f->n_files;
    if (now > g->part_tensors || (last && now < g->part_tensors))
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: with it the model has %" PRIu64 " tensors, but it says that all "
                          "parts have %" PRIu64,
                          file->path, now, g->part_tensors);
    return GRAFT_OK;
}

/* Takes what g has. */
static graft_status append(graft_safetensors *f, graft_st_file *file, graft_gguf *g, graft_err *e)
{
    if (graft_grow(&f->tensor, &f->cap_tensors, f->n_tensors + g->n, sizeof *f->tensor))
        return graft_fail_nomem(e, "the tensors of a GGUF file");
    if (g->n) memcpy(f->tensor + f->n_tensors, g->tensor, g->n * sizeof *f->tensor);
    f->n_tensors += g->n;
    file->text = g->text;
    g->text = NULL;
    if (file != f->file) return GRAFT_OK; /* the first part speaks for all */
    f->meta = g->meta;
    f->n_meta = g->n_meta;
    f->made = g->tokenizer;
    f->part_tensors = g->part_tensors;
    f->gguf = true;
    g->meta = NULL;
    g->tokenizer = NULL;
    return GRAFT_OK;
}

graft_status graft_st_read_gguf(graft_safetensors *f, graft_st_file *file, const uint8_t *bytes,
                                size_t size, graft_gguf_common *common, graft_err *e)
{
    graft_gguf g;
    graft_status st = graft_gguf_read(bytes, size, file->path, file == f->file, common, &g, e);
    if (st) return st;
    GRAFT_TRY(f->n_files > 1 ? check_part(f, file, &g, e) : check_alone(file, &g, e));
    GRAFT_TRY(append(f, file, &g, e));
out:
    graft_gguf_finish(&g);
    return st;
}
