#include "engine/models/detect/detect_parts.h"

#define PATCH 2 /* of all published ones; tensors tell its square times the channels */

int32_t graft_zimage_detect_depth(const graft_safetensors *f, const char *prefix, const char *list)
{
    return graft_detect_blocks(f, prefix, list, "attention.qkv.weight", "feed_forward.w1.weight");
}

bool graft_zimage_is_lumina2(const graft_safetensors *f, const char *prefix)
{
    return !graft_detect_find(f, prefix, "cap_pad_token") &&
           !graft_detect_find(f, prefix, "x_pad_token") &&
           (graft_detect_find(f, prefix, "layers.0.adaLN_modulation.1.weight") ||
            graft_detect_find(f, prefix, "layers.0.adaLN_modulation.1.bias"));
}

/* Of Lumina-Image, whose rows are those of queries, then of fewer keys and values. */
static int32_t count_key_heads(const graft_zimage_arch *a, const graft_st_tensor *rows)
{
    const int32_t head = a->hidden / a->heads, all = graft_detect_dim(rows, 0) - a->hidden;
    const int32_t n = all > 0 && all % (2 * head) == 0 ? all / (2 * head) : 0;
    return n && a->heads % n == 0 ? n : 0;
}

/* Of a head's values three eighths turn with the row and as many with the column: 48 of 128; of
 * Lumina-Image's a third: 32 of 96. */
static graft_status detect_heads(const graft_safetensors *f, const char *prefix, const char *config,
                                 graft_zimage_arch *a, graft_err *e)
{
    static const char norm[] = "layers.0.attention.q_norm.weight";
    static const char qkv[] = "layers.0.attention.qkv.weight";
    static const int32_t shares[2][2] = {{3, 8}, {1, 3}};
    const bool lumina2 = graft_zimage_is_lumina2(f, prefix);
    const graft_st_tensor *rows = graft_detect_find(f, prefix, qkv);
    graft_status st = graft_detect_turned_heads(f, prefix, config, norm, a->hidden, shares[lumina2],
                                                &a->heads, &a->rope_dim, e);
    if (!st && !rows && lumina2) st = graft_detect_missing(f, prefix, qkv, e);
    if (st || !rows) return st;
    if (lumina2) a->key_heads = count_key_heads(a, rows);
    if (lumina2 ? a->key_heads > 0 : rows->shape[0] == 3 * (int64_t)a->hidden) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: a transformer of width %d with %lld rows of queries, keys and values",
                      graft_safetensors_path(f), a->hidden, (long long)rows->shape[0]);
}

graft_status graft_zimage_detect(const graft_safetensors *f, const char *prefix, const char *config,
                                 graft_zimage_arch *out, graft_err *e)
{
    *out = (graft_zimage_arch){0};
    const graft_detect_width widths[] = {{"t_embedder.mlp.0.weight", &out->time_dim, 1},
                                         {"t_embedder.mlp.0.weight", &out->time_mlp, 0},
                                         {"t_embedder.mlp.2.weight", &out->told, 0},
                                         {GRAFT_ZIMAGE_TENSOR, &out->context_dim, 1},
                                         {"layers.0.feed_forward.w1.weight", &out->mlp, 0}};
    const graft_detect_other others[] = {
        {"time_text_embed.1.weight", "NewBie-Image, which is told a pooled prompt, too"},
        {"ref_image_refiner.0.ffn_norm1.weight", "a relative of OmniGen2 in other names"}};
    if (!graft_detect_find(f, prefix, "cap_pad_token") &&
        !graft_detect_find(f, prefix, "x_pad_token") && !graft_zimage_is_lumina2(f, prefix))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a relative of Z-Image's transformer without its padding tokens, "
                          "which is not Lumina-Image 2.0 and not supported",
                          graft_safetensors_path(f));
    graft_status st = graft_detect_others(f, prefix, others, sizeof others / sizeof *others, e);
    if (st) return st;
    out->patch = PATCH;
    st = graft_detect_patches(f, prefix, "x_embedder.weight", PATCH, &out->hidden, &out->channels,
                              e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    out->depth = graft_zimage_detect_depth(f, prefix, "layers");
    out->noise_depth = graft_zimage_detect_depth(f, prefix, "noise_refiner");
    out->context_depth = graft_zimage_detect_depth(f, prefix, "context_refiner");
    return detect_heads(f, prefix, config, out, e);
}
