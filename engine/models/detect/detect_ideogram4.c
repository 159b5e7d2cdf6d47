/* Ideogram 4's transformer, by its authors' names. That which sees no prompt has the same ones. */
#include <string.h>

#include "engine/models/detect/detect_parts.h"
#include "engine/models/transformers/ideogram4.h"

#define SQUARE 4 /* cells of the VAE in a token */

#define QKV    "layers.0.attention.qkv.weight"
#define NORM_Q "layers.0.attention.norm_q.weight"
#define INPUT  "input_proj.weight"

static graft_status check(const graft_safetensors *f, const char *prefix,
                          const graft_ideogram4_arch *a, graft_err *e)
{
    const graft_st_tensor *qkv = graft_detect_find(f, prefix, QKV);
    if (qkv && qkv->shape[0] != 3 * (int64_t)a->hidden)
        return graft_fail(
            e, GRAFT_E_UNSUPPORTED,
            "%s: a transformer of width %d with %lld rows of queries, keys and values",
            graft_safetensors_path(f), a->hidden, (long long)qkv->shape[0]);
    if (3 * (int64_t)a->rope_dim > a->hidden / a->heads)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: heads of %d, of which %d turn with the row and %d with the column",
                          graft_safetensors_path(f), a->hidden / a->heads, a->rope_dim,
                          a->rope_dim);
    if (a->channels % SQUARE || a->hidden % 2 || a->hidden < 4)
        return graft_detect_missing(f, prefix, INPUT, e);
    if (a->context_dim % GRAFT_IDEOGRAM4_LAYERS)
        return graft_detect_missing(f, prefix, GRAFT_IDEOGRAM4_TENSOR, e);
    return GRAFT_OK;
}

graft_status graft_ideogram4_detect(const graft_safetensors *f, const char *prefix,
                                    const char *config, graft_ideogram4_arch *out, graft_err *e)
{
    /* Of a head's values five of 32 turn with the row and as many with the column: 40 of 256. */
    static const int32_t share[2] = {5, 32};
    *out = (graft_ideogram4_arch){0};
    const graft_detect_width widths[] = {
        {INPUT, &out->channels, 1},
        {INPUT, &out->hidden, 0},
        {"layers.0.feed_forward.w1.weight", &out->mlp, 0},
        {"adaln_proj.weight", &out->told, 0},
        {GRAFT_IDEOGRAM4_TENSOR, &out->context_dim, 1},
    };
    graft_status st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (!st)
        st = graft_detect_turned_heads(f, prefix, config, NORM_Q, out->hidden, share, &out->heads,
                                       &out->rope_dim, e);
    if (!st) st = check(f, prefix, out, e);
    if (!st)
        out->depth = graft_detect_blocks(f, prefix, "layers", "attention.qkv.weight",
                                         "feed_forward.w1.weight");
    return st;
}

bool graft_ideogram4_sees_no_prompt(const graft_safetensors *f)
{
    const char *type = graft_safetensors_metadata(f, "model_type");
    return type && strcmp(type, "ideogram4_uncond") == 0;
}
