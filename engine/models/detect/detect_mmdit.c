#include "engine/models/detect/detect_parts.h"

#define PATCH_MAX    64 /* published ones have 2 */
#define CHANNELS_MAX 4096
#define HEAD_DIM     64 /* of all published ones */

graft_status graft_detect_plain_heads(const graft_safetensors *f, const char *config,
                                      int32_t hidden, int32_t known, int32_t usual, int32_t *out,
                                      graft_err *e)
{
    int64_t heads = 0, head_dim = known;
    graft_status st = GRAFT_OK;
    if (!known) st = graft_detect_number(f, config, "num_head_channels", &head_dim, e);
    if (!st) st = graft_detect_number(f, config, "num_heads", &heads, e);
    if (st) return st;
    if (head_dim < 1) head_dim = heads > 0 ? hidden / heads : usual;
    if (head_dim < 1 || hidden % head_dim || (heads > 0 && heads != hidden / head_dim))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer of width %d does not divide into heads of %lld",
                          graft_safetensors_path(f), hidden, (long long)head_dim);
    *out = (int32_t)(hidden / head_dim);
    return GRAFT_OK;
}

static graft_status detect_heads(const graft_safetensors *f, const char *prefix, const char *config,
                                 graft_mmdit_arch *a, graft_err *e)
{
    /* Either tells that there are norms, so that a file that lacks one is refused by its name. */
    const graft_st_tensor *q =
        graft_detect_find(f, prefix, "joint_blocks.0.x_block.attn.ln_q.weight");
    const graft_st_tensor *k =
        graft_detect_find(f, prefix, "joint_blocks.0.x_block.attn.ln_k.weight");
    const int32_t normed = graft_detect_dim(q ? q : k, 0);
    a->qk_norm = q || k;
    if (a->qk_norm && !normed)
        return graft_detect_missing(f, prefix, "joint_blocks.0.x_block.attn.ln_q.weight", e);
    return graft_detect_plain_heads(f, config, a->hidden, normed, HEAD_DIM, &a->heads, e);
}

static graft_status detect_blocks(const graft_safetensors *f, const char *prefix,
                                  graft_mmdit_arch *a, graft_err *e)
{
    a->depth = graft_detect_blocks(f, prefix, "joint_blocks", "x_block.attn.qkv.weight",
                                   "x_block.mlp.fc1.weight");
    while (a->dual < a->depth &&
           graft_detect_find(f, prefix, "joint_blocks.%d.x_block.attn2.qkv.weight", a->dual))
        a->dual++;
    a->mlp =
        graft_detect_dim(graft_detect_find(f, prefix, "joint_blocks.0.x_block.mlp.fc1.weight"), 0);
    if (!a->depth) return graft_detect_missing(f, prefix, GRAFT_MMDIT_TENSOR, e);
    return a->mlp ? GRAFT_OK
                  : graft_detect_missing(f, prefix, "joint_blocks.0.x_block.mlp.fc1.weight", e);
}

graft_status graft_detect_table(const graft_safetensors *f, const char *prefix, const char *name,
                                int32_t *side, graft_err *e)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", name);
    int64_t cells = t && t->rank >= 2 ? t->shape[t->rank - 2] : 0, n = 0;
    while (n < (1 << 15) && (n + 1) * (n + 1) <= cells) n++;
    *side = (int32_t)n;
    return n && n * n == cells ? GRAFT_OK : graft_detect_missing(f, prefix, name, e);
}

graft_status graft_mmdit_detect_blocks(const graft_safetensors *f, const char *prefix,
                                       const char *config, graft_mmdit_arch *out, graft_err *e)
{
    const graft_detect_width widths[] = {{"t_embedder.mlp.0.weight", &out->time_dim, 1},
                                         {"y_embedder.mlp.0.weight", &out->pooled_dim, 1}};
    graft_status st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (!st) st = detect_blocks(f, prefix, out, e);
    return st ? st : detect_heads(f, prefix, config, out, e);
}

graft_status graft_mmdit_detect_patch(const graft_safetensors *f, const char *prefix,
                                      const char *name, graft_mmdit_arch *out, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, "%s", name);
    out->hidden = graft_detect_dim(in, 0);
    out->channels = graft_detect_dim(in, 1);
    out->patch = graft_detect_dim(in, 2);
    if (!out->hidden || !out->channels || !out->patch || graft_detect_dim(in, 3) != out->patch ||
        out->patch > PATCH_MAX || out->channels > CHANNELS_MAX)
        return graft_detect_missing(f, prefix, name, e);
    return GRAFT_OK;
}

graft_status graft_mmdit_detect(const graft_safetensors *f, const char *prefix, const char *config,
                                graft_mmdit_arch *out, graft_err *e)
{
    static const char context[] = "context_embedder.weight";
    *out = (graft_mmdit_arch){0};
    graft_status st = graft_mmdit_detect_patch(f, prefix, "x_embedder.proj.weight", out, e);
    if (st) return st;
    out->context_dim = graft_detect_dim(graft_detect_find(f, prefix, context), 1);
    if (!out->context_dim) return graft_detect_missing(f, prefix, context, e);
    st = graft_mmdit_detect_blocks(f, prefix, config, out, e);
    return st ? st : graft_detect_table(f, prefix, "pos_embed", &out->table, e);
}
