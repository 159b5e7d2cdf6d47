#include "engine/models/detect.h"

#define BLOCKS_MAX   128
#define PATCH        2 /* of all published ones; tensors tell its square times the channels */
#define CHANNELS_MAX 4096
#define HEAD_DIM_MAX 512

/* Blocks of this list, by two names of each, so that a file that lacks one of them is refused by
 * that name. */
static int32_t count_blocks(const graft_safetensors *f, const char *prefix, const char *list)
{
    int32_t n = 0;
    while (n < BLOCKS_MAX &&
           (graft_detect_find(f, prefix, "%s.%d.attention.qkv.weight", list, n) ||
            graft_detect_find(f, prefix, "%s.%d.feed_forward.w1.weight", list, n)))
        n++;
    return n;
}

/* Of a head's values three eighths turn with the row and as many with the column: 48 of 128. */
static graft_status detect_heads(const graft_safetensors *f, const char *prefix, const char *config,
                                 graft_zimage_arch *a, graft_err *e)
{
    static const char norm[] = "layers.0.attention.q_norm.weight";
    static const char qkv[] = "layers.0.attention.qkv.weight";
    const int32_t head_dim = graft_detect_dim(graft_detect_find(f, prefix, norm), 0);
    const graft_st_tensor *rows = graft_detect_find(f, prefix, qkv);
    int64_t rope_dim = 0;
    if (!head_dim) return graft_detect_missing(f, prefix, norm, e);
    graft_status st = graft_detect_number(f, config, "rope_dim", &rope_dim, e);
    if (st) return st;
    if (!rope_dim) rope_dim = head_dim / 8 * 3;
    if (a->hidden % head_dim || head_dim % 2 || head_dim > HEAD_DIM_MAX || rope_dim < 0 ||
        rope_dim % 2 || 2 * rope_dim > head_dim ||
        (rows && rows->shape[0] != 3 * (int64_t)a->hidden))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer of width %d with heads of %d, of which %lld turn with "
                          "the row, and %lld rows of queries, keys and values",
                          graft_safetensors_path(f), a->hidden, head_dim, (long long)rope_dim,
                          rows ? (long long)rows->shape[0] : 0);
    a->heads = a->hidden / head_dim;
    a->rope_dim = (int32_t)rope_dim;
    return GRAFT_OK;
}

static graft_status detect_channels(const graft_safetensors *f, const char *prefix,
                                    graft_zimage_arch *a, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, "x_embedder.weight");
    const int32_t going_in = graft_detect_dim(in, 1);
    a->hidden = graft_detect_dim(in, 0);
    if (!a->hidden || !going_in || going_in % (PATCH * PATCH) ||
        going_in / (PATCH * PATCH) > CHANNELS_MAX)
        return graft_detect_missing(f, prefix, "x_embedder.weight", e);
    a->patch = PATCH;
    a->channels = going_in / (PATCH * PATCH);
    return GRAFT_OK;
}

graft_status graft_zimage_detect(const graft_safetensors *f, const char *prefix, const char *config,
                                 graft_zimage_arch *out, graft_err *e)
{
    *out = (graft_zimage_arch){0};
    const struct {
        const char *name;
        int32_t *width;
        int at;
    } widths[] = {{"t_embedder.mlp.0.weight", &out->time_dim, 1},
                  {"t_embedder.mlp.0.weight", &out->time_mlp, 0},
                  {"t_embedder.mlp.2.weight", &out->told, 0},
                  {GRAFT_ZIMAGE_TENSOR, &out->context_dim, 1},
                  {"layers.0.feed_forward.w1.weight", &out->mlp, 0}};
    if (!graft_detect_find(f, prefix, "cap_pad_token") &&
        !graft_detect_find(f, prefix, "x_pad_token"))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a relative of Z-Image's transformer without its padding tokens "
                          "(Lumina-Image 2.0 perhaps), which is not supported",
                          graft_safetensors_path(f));
    graft_status st = detect_channels(f, prefix, out, e);
    if (st) return st;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", widths[i].name);
        *widths[i].width = graft_detect_dim(t, widths[i].at);
        if (!*widths[i].width) return graft_detect_missing(f, prefix, widths[i].name, e);
    }
    out->depth = count_blocks(f, prefix, "layers");
    out->noise_depth = count_blocks(f, prefix, "noise_refiner");
    out->context_depth = count_blocks(f, prefix, "context_refiner");
    return detect_heads(f, prefix, config, out, e);
}
