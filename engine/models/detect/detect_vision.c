/* Vision encoders and style models, by the names and shapes of their tensors. */
#include <string.h>

#include "engine/models/detect/detect_parts.h"
#include "engine/models/encoders/vision.h"
#include "engine/weights/quantized.h"
#include "engine/weights/weights.h"

#define MAX_LAYERS 128
#define MAX_GRID   64

#define HF_SQUARES "vision_model.embeddings.patch_embedding.weight"
#define HF_PLACES  "vision_model.embeddings.position_embedding.weight"
#define HF_MLP     "vision_model.encoder.layers.0.mlp.fc1.weight"
#define OC_SQUARES "visual.conv1.weight"
#define OC_PLACES  "visual.positional_embedding"
#define OC_MLP     "visual.transformer.resblocks.0.mlp.c_fc.weight"

bool graft_vision_in(const graft_safetensors *f, const char *prefix)
{
    return graft_detect_find(f, prefix, HF_SQUARES) || graft_detect_find(f, prefix, OC_SQUARES);
}

/* A layer counts with either name, so that a file that lacks the other is refused by it. */
static bool has_layer(const graft_safetensors *f, const char *prefix, bool openclip, int i)
{
    static const char *const parts[2][2] = {{"layer_norm1.weight", "mlp.fc2.weight"},
                                            {"ln_1.weight", "mlp.c_proj.weight"}};
    for (int k = 0; k < 2; k++)
        if (graft_detect_find(f, prefix, "%s.%d.%s",
                              openclip ? "visual.transformer.resblocks"
                                       : "vision_model.encoder.layers",
                              i, parts[openclip][k]))
            return true;
    return false;
}

static int32_t root_of(int32_t cells)
{
    int32_t side = 0;
    while (side < MAX_GRID && side * side < cells) side++;
    return side * side == cells ? side : 0;
}

/* Pixels of a side: whole squares, but for SigLIP so400m of 384, whose last pixels are in none. */
static int32_t side_of(const graft_vision_arch *a)
{
    const bool so400m = a->kind == GRAFT_VISION_SIGLIP && a->grid == 27 && a->patch == 14;
    return so400m ? 384 : a->grid * a->patch;
}

/* What shapes cannot tell, as the published ones have it: heads of 64 up to a width of 1024
 * (ViT-B, ViT-L), else 16 of them (ViT-H, ViT-bigG, so400m). OpenAI's, which are the narrow ones,
 * have their own GELU. */
static void settle(graft_vision_arch *a)
{
    const bool wide = a->width > 1024;
    a->heads = wide ? 16 : a->width / 64 ? a->width / 64 : 1;
    if (a->kind == GRAFT_VISION_SIGLIP)
        a->act = GRAFT_ACT_GELU_TANH;
    else
        a->act = wide ? GRAFT_ACT_GELU : GRAFT_ACT_QUICK_GELU;
}

static graft_status check(const graft_safetensors *f, const char *prefix,
                          const graft_vision_arch *a, const char *squares, const char *mlp,
                          graft_err *e)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", squares);
    if (t->rank != 4 || graft_detect_dim(t, 1) != 3 || !a->width || !a->patch ||
        graft_detect_dim(t, 3) != a->patch)
        return graft_detect_missing(f, prefix, squares, e);
    if (!a->intermediate) return graft_detect_missing(f, prefix, mlp, e);
    const char *first = graft_vision_first(a);
    t = first ? graft_detect_find(f, prefix, "%s", first) : NULL;
    if (first && (!t || t->rank != 1 || graft_detect_dim(t, 0) != a->width ||
                  !graft_st_is_weight(t) || graft_is_quantized(t->dtype)))
        return graft_detect_missing(f, prefix, first, e);
    if (a->grid && a->layers && a->patch <= 64 && a->width % a->heads == 0) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT,
                      "%s: a vision encoder of %d layers, width %d, squares of %d pixels in %d "
                      "rows makes no sense",
                      graft_safetensors_path(f), a->layers, a->width, a->patch, a->grid);
}

graft_status graft_vision_detect(const graft_safetensors *f, const char *prefix,
                                 graft_vision_arch *out, graft_err *e)
{
    memset(out, 0, sizeof *out);
    const bool openclip = !graft_detect_find(f, prefix, HF_SQUARES);
    const char *squares = openclip ? OC_SQUARES : HF_SQUARES, *mlp = openclip ? OC_MLP : HF_MLP;
    const char *places = openclip ? OC_PLACES : HF_PLACES;
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", squares);
    const graft_st_tensor *table = graft_detect_find(f, prefix, "%s", places);
    if (!t) return graft_detect_missing(f, prefix, squares, e);
    if (!table || table->rank != 2) return graft_detect_missing(f, prefix, places, e);
    out->layout = openclip ? GRAFT_TEXT_OPENCLIP : GRAFT_TEXT_HF;
    out->kind = openclip || graft_detect_find(f, prefix, "vision_model.embeddings.class_embedding")
                    ? GRAFT_VISION_CLIP
                    : GRAFT_VISION_SIGLIP;
    out->width = graft_detect_dim(t, 0);
    out->patch = graft_detect_dim(t, 2);
    out->grid = root_of(graft_detect_dim(table, 0) - (out->kind == GRAFT_VISION_CLIP));
    out->intermediate = graft_detect_dim(graft_detect_find(f, prefix, "%s", mlp), 0);
    while (out->layers < MAX_LAYERS && has_layer(f, prefix, openclip, out->layers)) out->layers++;
    out->projection =
        openclip ? graft_detect_dim(graft_detect_find(f, prefix, "visual.proj"), 1)
                 : graft_detect_dim(graft_detect_find(f, prefix, "visual_projection.weight"), 0);
    if (out->kind == GRAFT_VISION_SIGLIP) out->projection = 0;
    out->size = side_of(out);
    settle(out);
    return check(f, prefix, out, squares, mlp, e);
}

graft_status graft_redux_detect(const graft_safetensors *f, graft_redux_arch *out, graft_err *e)
{
    const graft_st_tensor *up = graft_detect_find(f, "", GRAFT_REDUX_TENSOR);
    const graft_st_tensor *down = graft_detect_find(f, "", "redux_down.weight");
    *out = (graft_redux_arch){.seen = graft_detect_dim(up, 1),
                              .inner = graft_detect_dim(up, 0),
                              .width = graft_detect_dim(down, 0)};
    if (!up || up->rank != 2 || !out->seen || !out->inner)
        return graft_detect_missing(f, "", GRAFT_REDUX_TENSOR, e);
    if (down && down->rank == 2 && out->width && graft_detect_dim(down, 1) == out->inner)
        return GRAFT_OK;
    return graft_detect_missing(f, "", "redux_down.weight", e);
}
