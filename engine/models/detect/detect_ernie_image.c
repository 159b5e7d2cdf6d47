/* ERNIE-Image's transformer, by its authors' names, which are diffusers'. */
#include "engine/models/detect/detect_parts.h"

#define EMBEDDER "x_embedder.proj.weight"
#define TEXT     "text_proj.weight"
#define QUERIES  "layers.0.self_attention.to_q.weight"
#define NORM_Q   "layers.0.self_attention.norm_q.weight"

static graft_status check(const graft_safetensors *f, const char *prefix,
                          const graft_ernie_image_arch *a, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, EMBEDDER);
    const graft_st_tensor *queries = graft_detect_find(f, prefix, QUERIES);
    if (in && in->rank == 4 && (in->shape[2] != 1 || in->shape[3] != 1))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer whose tokens are %lldx%lld cells of the latent",
                          graft_safetensors_path(f), (long long)in->shape[3],
                          (long long)in->shape[2]);
    if (queries && queries->shape[0] != a->hidden)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer of width %d with %lld rows of queries",
                          graft_safetensors_path(f), a->hidden, (long long)queries->shape[0]);
    return GRAFT_OK;
}

graft_status graft_ernie_image_detect(const graft_safetensors *f, const char *prefix,
                                      const char *config, graft_ernie_image_arch *out, graft_err *e)
{
    /* Of a head's values three eighths are for the row and as many for the column: 48 of 128. */
    static const int32_t share[2] = {3, 8};
    *out = (graft_ernie_image_arch){0};
    const graft_detect_width widths[] = {{"layers.0.mlp.gate_proj.weight", &out->mlp, 0},
                                         {TEXT, &out->context_dim, 1}};
    graft_status st = graft_detect_patches(f, prefix, EMBEDDER, 1, &out->hidden, &out->channels, e);
    /* A text as wide as the network goes in as it is. */
    out->own_text = graft_detect_find(f, prefix, TEXT) != NULL;
    if (!st) st = graft_detect_widths(f, prefix, widths, out->own_text ? 2 : 1, e);
    if (!out->own_text) out->context_dim = out->hidden;
    if (!st)
        st = graft_detect_turned_heads(f, prefix, config, NORM_Q, out->hidden, share, &out->heads,
                                       &out->rope_dim, e);
    if (!st) st = check(f, prefix, out, e);
    if (!st)
        out->depth = graft_detect_blocks(f, prefix, "layers", "self_attention.to_q.weight",
                                         "mlp.gate_proj.weight");
    return st;
}
