/* Qwen-Image's transformer, whose files have diffusers' names everywhere. */
#include "engine/models/detect.h"

#define BLOCKS_MAX   128
#define PATCH        2 /* of all published ones; tensors tell its square times the channels */
#define CHANNELS_MAX 4096
#define HEAD_DIM_MAX 512

#define NORM  "transformer_blocks.0.attn.norm_q.weight"
#define MLP   "transformer_blocks.0.img_mlp.net.0.proj.weight"
#define FIRST "time_text_embed.timestep_embedder.linear_1.weight"
/* Of Qwen-Image-Layered, which is told of what else its latents are. */
#define LAYERED "time_text_embed.addition_t_embedding.weight"

/* Two names of each, so that a file that lacks one of them is refused by that name. */
static int32_t count_blocks(const graft_safetensors *f, const char *prefix)
{
    int32_t n = 0;
    while (n < BLOCKS_MAX &&
           (graft_detect_find(f, prefix, "transformer_blocks.%d.img_mod.1.weight", n) ||
            graft_detect_find(f, prefix, "transformer_blocks.%d.attn.to_q.weight", n)))
        n++;
    return n;
}

/* Of a head's values seven sixteenths turn with the row and as many with the column: 56 of 128. */
static graft_status detect_heads(const graft_safetensors *f, const char *prefix, const char *config,
                                 graft_qwen_image_arch *a, graft_err *e)
{
    const int32_t head_dim = graft_detect_dim(graft_detect_find(f, prefix, NORM), 0);
    int64_t rope_dim = 0;
    if (!head_dim) return graft_detect_missing(f, prefix, NORM, e);
    graft_status st = graft_detect_number(f, config, "rope_dim", &rope_dim, e);
    if (st) return st;
    if (!rope_dim) rope_dim = head_dim / 16 * 7;
    if (a->hidden % head_dim || head_dim % 2 || head_dim > HEAD_DIM_MAX || rope_dim < 0 ||
        rope_dim % 2 || 2 * rope_dim > head_dim)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer of width %d with heads of %d, of which %lld turn with "
                          "the row",
                          graft_safetensors_path(f), a->hidden, head_dim, (long long)rope_dim);
    a->heads = a->hidden / head_dim;
    a->rope_dim = (int32_t)rope_dim;
    return GRAFT_OK;
}

static graft_status detect_channels(const graft_safetensors *f, const char *prefix,
                                    graft_qwen_image_arch *a, graft_err *e)
{
    const graft_st_tensor *in = graft_detect_find(f, prefix, "img_in.weight");
    const int32_t going_in = graft_detect_dim(in, 1);
    a->hidden = graft_detect_dim(in, 0);
    if (!a->hidden || !going_in || going_in % (PATCH * PATCH) ||
        going_in / (PATCH * PATCH) > CHANNELS_MAX)
        return graft_detect_missing(f, prefix, "img_in.weight", e);
    a->patch = PATCH;
    a->channels = going_in / (PATCH * PATCH);
    return GRAFT_OK;
}

graft_status graft_qwen_image_detect(const graft_safetensors *f, const char *prefix,
                                     const char *config, graft_qwen_image_arch *out, graft_err *e)
{
    *out = (graft_qwen_image_arch){0};
    const struct {
        const char *name;
        int32_t *width;
        int at;
    } widths[] = {
        {FIRST, &out->time_dim, 1}, {"txt_in.weight", &out->context_dim, 1}, {MLP, &out->mlp, 0}};
    if (graft_detect_find(f, prefix, LAYERED))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: Qwen-Image-Layered, which makes several pictures at once, is not "
                          "supported",
                          graft_safetensors_path(f));
    graft_status st = detect_channels(f, prefix, out, e);
    if (st) return st;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const graft_st_tensor *t = graft_detect_find(f, prefix, "%s", widths[i].name);
        *widths[i].width = graft_detect_dim(t, widths[i].at);
        if (!*widths[i].width) return graft_detect_missing(f, prefix, widths[i].name, e);
    }
    out->depth = count_blocks(f, prefix);
    return detect_heads(f, prefix, config, out, e);
}
