/* Anima's transformer and its adapter, in the names of its own file. */
#include "engine/models/detect/detect_parts.h"

#define PATCH 2 /* of all published ones; tensors tell its square times the channels */
#define MASK  1 /* planes behind the latent's (anima.c) */

/* Of each block, the adapter's, too. */
#define QUERIES       "self_attn.q_proj.weight"
#define CROSS_QUERIES "cross_attn.q_proj.weight"

#define NORM    "blocks.0.self_attn.q_norm.weight"
#define ADAPTER "llm_adapter.blocks.0."

static graft_status check_adapter(const graft_safetensors *f, const char *prefix,
                                  graft_anima_arch *a, graft_err *e)
{
    static const char norm[] = ADAPTER "self_attn.q_norm.weight";
    const int32_t head = graft_detect_dim(graft_detect_find(f, prefix, norm), 0);
    const int32_t given = graft_detect_dim(graft_detect_find(f, prefix, GRAFT_ANIMA_TENSOR), 0);
    if (!head) return graft_detect_missing(f, prefix, norm, e);
    if (given != a->adapter_width || a->adapter_width % head || head % 2)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: an adapter for prompts with words of %d values, of which it makes "
                          "%d, and heads of %d",
                          graft_safetensors_path(f), a->adapter_width, given, head);
    a->adapter_heads = a->adapter_width / head;
    a->adapter_depth = graft_detect_blocks(f, prefix, "llm_adapter.blocks", QUERIES, CROSS_QUERIES);
    return GRAFT_OK;
}

graft_status graft_anima_detect(const graft_safetensors *f, const char *prefix, const char *config,
                                graft_anima_arch *out, graft_err *e)
{
    /* Of a head's values two sixths turn with the row, as many with the column: 42 of 128. */
    static const int32_t share[2] = {2, 6};
    *out = (graft_anima_arch){0};
    const graft_detect_width widths[] = {
        {"blocks.0.mlp.layer1.weight", &out->mlp, 0},
        {"blocks.0.adaln_modulation_self_attn.1.weight", &out->told, 0},
        {ADAPTER "cross_attn.k_proj.weight", &out->context_dim, 1},
        {ADAPTER "mlp.0.weight", &out->adapter_mlp, 0},
        {"llm_adapter.embed.weight", &out->adapter_width, 1},
        {"llm_adapter.embed.weight", &out->words, 0}};
    out->patch = PATCH;
    graft_status st = graft_detect_patches(f, prefix, "x_embedder.proj.1.weight", PATCH,
                                           &out->hidden, &out->channels, e);
    if (!st && out->channels <= MASK)
        st = graft_detect_missing(f, prefix, "x_embedder.proj.1.weight", e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (!st) st = check_adapter(f, prefix, out, e);
    if (st) return st;
    out->channels -= MASK;
    out->depth = graft_detect_blocks(f, prefix, "blocks", QUERIES, CROSS_QUERIES);
    return graft_detect_turned_heads(f, prefix, config, NORM, out->hidden, share, &out->heads,
                                     &out->rope_dim, e);
}
