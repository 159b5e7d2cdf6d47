/* OmniGen2's transformer, by its authors' names, which are diffusers' of Lumina-Image 2.0. */
#include "engine/models/detect/detect_parts.h"

#define PATCH   2 /* of the published one; tensors tell its square times the channels */
#define QUERIES "layers.0.attn.to_q.weight"
#define KEYS    "layers.0.attn.to_k.weight"
#define NORM_Q  "layers.0.attn.norm_q.weight"
#define TIME    "time_caption_embed.timestep_embedder.linear_1.weight"

static int32_t count_blocks(const graft_safetensors *f, const char *prefix, const char *list)
{
    return graft_detect_blocks(f, prefix, list, "attn.to_q.weight", "feed_forward.linear_1.weight");
}

/* Queries of the network's width, in heads that fewer ones of keys divide. */
static graft_status detect_key_heads(const graft_safetensors *f, const char *prefix,
                                     graft_omnigen2_arch *a, graft_err *e)
{
    int32_t queries, keys;
    const graft_detect_width widths[] = {{QUERIES, &queries, 0}, {KEYS, &keys, 0}};
    const int32_t head = a->hidden / a->heads;
    graft_status st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (st) return st;
    if (queries != a->hidden || keys % head || a->heads % (keys / head))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer of width %d with %d rows of queries and %d of keys, "
                          "in heads of %d",
                          graft_safetensors_path(f), a->hidden, queries, keys, head);
    a->key_heads = keys / head;
    return GRAFT_OK;
}

graft_status graft_omnigen2_detect(const graft_safetensors *f, const char *prefix,
                                   const char *config, graft_omnigen2_arch *out, graft_err *e)
{
    /* Of a head's values a third turns with the row and as many with the column: 40 of 120. */
    static const int32_t share[2] = {1, 3};
    *out = (graft_omnigen2_arch){.patch = PATCH};
    const graft_detect_width widths[] = {
        {TIME, &out->time_dim, 1},
        {TIME, &out->told, 0},
        {"time_caption_embed.caption_embedder.1.weight", &out->context_dim, 1},
        {"layers.0.feed_forward.linear_1.weight", &out->mlp, 0},
        {"image_index_embedding", &out->pictures, 0}};
    graft_status st = graft_detect_patches(f, prefix, "x_embedder.weight", PATCH, &out->hidden,
                                           &out->channels, e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (!st)
        st = graft_detect_turned_heads(f, prefix, config, NORM_Q, out->hidden, share, &out->heads,
                                       &out->rope_dim, e);
    if (!st) st = detect_key_heads(f, prefix, out, e);
    if (st) return st;
    out->depth = count_blocks(f, prefix, "layers");
    out->noise_depth = count_blocks(f, prefix, "noise_refiner");
    out->context_depth = count_blocks(f, prefix, "context_refiner");
    out->picture_depth = count_blocks(f, prefix, "ref_image_refiner");
    return GRAFT_OK;
}
