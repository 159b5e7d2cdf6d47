/* Krea 2's transformer, by its authors' names. */
#include "engine/models/detect/detect_parts.h"

#define PATCH 2 /* of all published ones; tensors tell its square times the channels */

#define ATTENTION "blocks.0.attn."
#define OF_LAYERS "txtfusion.layerwise_blocks"
#define OF_TOKENS "txtfusion.refiner_blocks"

static int32_t count_blocks(const graft_safetensors *f, const char *prefix, const char *list)
{
    return graft_detect_blocks(f, prefix, list, "attn.wq.weight", "mlp.gate.weight");
}

/* Rows of queries and of keys, in heads of the size that the norm of the former tells. */
static graft_status detect_shared(const graft_safetensors *f, const char *prefix, const char *attn,
                                  int32_t width, int32_t *heads, int32_t *key_heads, graft_err *e)
{
    int32_t head, queries, keys;
    char norm[96], wq[96], wk[96];
    snprintf(norm, sizeof norm, "%sqknorm.qnorm.scale", attn);
    snprintf(wq, sizeof wq, "%swq.weight", attn);
    snprintf(wk, sizeof wk, "%swk.weight", attn);
    const graft_detect_width widths[] = {{norm, &head, 0}, {wq, &queries, 0}, {wk, &keys, 0}};
    graft_status st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    if (head % 2 || width % head || queries != width || keys % head || width % keys)
        return graft_fail(
            e, GRAFT_E_UNSUPPORTED,
            "%s: a transformer of width %d with %d rows of queries and %d of keys, in "
            "heads of %d",
            graft_safetensors_path(f), width, queries, keys, head);
    *heads = width / head;
    *key_heads = keys / head;
    return GRAFT_OK;
}

graft_status graft_krea2_detect(const graft_safetensors *f, const char *prefix, const char *config,
                                graft_krea2_arch *out, graft_err *e)
{
    /* Of a head's values three eighths turn with the row and as many with the column: 48 of 128. */
    static const int32_t share[2] = {3, 8};
    *out = (graft_krea2_arch){0};
    const graft_detect_width widths[] = {
        {"tmlp.0.weight", &out->time_dim, 1},
        {"blocks.0.mlp.gate.weight", &out->mlp, 0},
        {GRAFT_KREA2_TENSOR, &out->text_layers, 1},
        {"txtmlp.1.weight", &out->text_width, 1},
        {OF_LAYERS ".0.mlp.gate.weight", &out->text_mlp, 0},
    };
    out->patch = PATCH;
    graft_status st =
        graft_detect_patches(f, prefix, "first.weight", PATCH, &out->hidden, &out->channels, e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (!st)
        st = graft_detect_turned_heads(f, prefix, config, ATTENTION "qknorm.qnorm.scale",
                                       out->hidden, share, &out->heads, &out->rope_dim, e);
    if (!st) st = detect_shared(f, prefix, ATTENTION, out->hidden, &out->heads, &out->key_heads, e);
    if (!st)
        st = detect_shared(f, prefix, OF_LAYERS ".0.attn.", out->text_width, &out->text_heads,
                           &out->text_key_heads, e);
    if (st) return st;
    if ((int64_t)out->text_layers * out->text_width > INT32_MAX)
        return graft_detect_missing(f, prefix, GRAFT_KREA2_TENSOR, e);
    out->depth = count_blocks(f, prefix, "blocks");
    out->layer_depth = count_blocks(f, prefix, OF_LAYERS);
    out->token_depth = count_blocks(f, prefix, OF_TOKENS);
    return GRAFT_OK;
}
