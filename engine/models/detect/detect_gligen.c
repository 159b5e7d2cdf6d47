/* GLIGEN, by the names and shapes of its tensors. */
#include <string.h>

#include "base/str.h"
#include "engine/models/detect/detect_parts.h"

/* Those that put something else than texts into boxes, told by what a name begins with. */
static const struct relative {
    const char *start, *what;
} relatives[] = {
    {"position_net.linears_text.", "texts and pictures in boxes"},
    {"position_net.linears_image.", "pictures in boxes"},
    {"position_net.person_embeddings", "keypoints"},
    {"position_net.convnext_tiny_backbone.", "maps of the whole picture"},
};

static bool any_starts(const graft_safetensors *f, const char *prefix, const char *start)
{
    const size_t n = strlen(prefix);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        if (graft_str_starts(name, prefix) && graft_str_starts(name + n, start)) return true;
    }
    return false;
}

static graft_status refuse(const graft_safetensors *f, const char *prefix, graft_err *e)
{
    for (size_t k = 0; k < sizeof relatives / sizeof *relatives; k++)
        if (any_starts(f, prefix, relatives[k].start))
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: a GLIGEN for %s; those for texts in boxes are supported",
                              graft_safetensors_path(f), relatives[k].what);
    return GRAFT_OK;
}

const char *graft_gligen_prefix(const graft_safetensors *f)
{
    static const char *const prefixes[] = {"", "model."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (any_starts(f, prefixes[i], "position_net.")) return prefixes[i];
    return NULL;
}

/* Rows of a matrix of this name; 0 for one that is none. */
static int32_t rows_of(const graft_safetensors *f, const char *prefix, const char *name,
                       int32_t *columns)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", name);
    *columns = t && t->rank == 2 ? graft_detect_dim(t, 1) : 0;
    return *columns ? graft_detect_dim(t, 0) : 0;
}

/* Those of one block of the UNet. */
static graft_status add_block(const graft_safetensors *f, const char *prefix,
                              graft_crossing_part part, int32_t block, graft_gligen_arch *a,
                              graft_err *e)
{
    for (int32_t index = 0;; index++) {
        graft_gligen_place p = {(int32_t)part, block, index, 0};
        int32_t columns;
        const graft_name name = graft_gligen_block_name(&p);
        const graft_name layer = graft_name_make("%s.linear.weight", name.text);
        if (!graft_detect_find(f, prefix, "%s", layer.text)) return GRAFT_OK;
        p.channels = rows_of(f, prefix, layer.text, &columns);
        if (!p.channels || columns != a->width || a->n == GRAFT_CROSSINGS)
            return graft_detect_missing(f, prefix, layer.text, e);
        a->place[a->n++] = p;
    }
}

static graft_status add_blocks(const graft_safetensors *f, const char *prefix, graft_gligen_arch *a,
                               graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (int32_t i = 0; i < GRAFT_MAX_BLOCKS && !st; i++)
        st = add_block(f, prefix, GRAFT_CROSSING_INPUT, i, a, e);
    for (int32_t i = 0; i < GRAFT_MAX_BLOCKS && !st; i++)
        st = add_block(f, prefix, GRAFT_CROSSING_OUTPUT, i, a, e);
    if (!st) st = add_block(f, prefix, GRAFT_CROSSING_MIDDLE, 0, a, e);
    if (st || a->n) return st;
    return graft_detect_missing(f, prefix,
                                "input_blocks.1.1.transformer_blocks.0.fuser.linear.weight", e);
}

static int32_t vector_of(const graft_safetensors *f, const char *prefix, const char *name)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", name);
    return t && t->rank == 1 ? graft_detect_dim(t, 0) : 0;
}

graft_status graft_gligen_detect(const graft_safetensors *f, const char *prefix,
                                 graft_gligen_arch *out, graft_err *e)
{
    int32_t columns;
    memset(out, 0, sizeof *out);
    graft_status st = refuse(f, prefix, e);
    if (st) return st;
    out->hidden = rows_of(f, prefix, "position_net.linears.0.weight", &columns);
    if (!out->hidden) return graft_detect_missing(f, prefix, "position_net.linears.0.weight", e);
    out->text = vector_of(f, prefix, GRAFT_GLIGEN_NO_TEXT);
    if (!out->text) return graft_detect_missing(f, prefix, GRAFT_GLIGEN_NO_TEXT, e);
    out->waves = vector_of(f, prefix, GRAFT_GLIGEN_NO_BOX);
    if (!out->waves || out->waves % 8 || out->waves + (int64_t)out->text != columns)
        return graft_detect_missing(f, prefix, GRAFT_GLIGEN_NO_BOX, e);
    out->width = rows_of(f, prefix, "position_net.linears.4.weight", &columns);
    if (!out->width || columns != out->hidden)
        return graft_detect_missing(f, prefix, "position_net.linears.4.weight", e);
    return add_blocks(f, prefix, out, e);
}
