/* HiDream-I1's transformer, by its authors' names, which are diffusers'. */
#include "engine/models/detect/detect_parts.h"
#include "engine/models/transformers/hidream.h"

#define PATCH       2   /* of all published ones; tensors tell its square times the channels */
#define HEAD_DIM    128 /* likewise */
#define CHOSEN      2   /* of a token's experts, likewise */
#define EXPERTS_MAX 64

#define BLOCK   "double_stream_blocks.0.block."
#define EXPERTS BLOCK "ff_i."

/* Names of T5's layer, which stands behind those of all blocks. */
static graft_status detect_captions(const graft_safetensors *f, const char *prefix,
                                    const char *config, graft_hidream_arch *out, graft_err *e)
{
    const int32_t blocks = out->depth + out->single_depth;
    int64_t layers = 0;
    char t5[64];
    snprintf(t5, sizeof t5, "caption_projection.%d.linear.weight", blocks);
    const graft_detect_width widths[] = {{"caption_projection.0.linear.weight", &out->llama_dim, 1},
                                         {t5, &out->t5_dim, 1}};
    graft_status st = graft_detect_widths(f, prefix, widths, 2, e);
    if (!st) st = graft_detect_number(f, config, "llama_layers", &layers, e);
    if (st) return st;
    if (layers < 1 || layers > blocks)
        layers = blocks < GRAFT_HIDREAM_LLAMA_LAYERS ? blocks : GRAFT_HIDREAM_LLAMA_LAYERS;
    out->llama_layers = (int32_t)layers;
    return graft_hidream_context(out) <= INT32_MAX ? GRAFT_OK
                                                   : graft_detect_missing(f, prefix, t5, e);
}

/* How many experts there are and are chosen, and of a head's values how many turn with the row. */
static graft_status detect_choices(const graft_safetensors *f, const char *config,
                                   graft_hidream_arch *out, graft_err *e)
{
    const int32_t head = out->hidden / out->heads;
    int64_t chosen = 0, turned = 0;
    graft_status st = graft_detect_number(f, config, "num_activated_experts", &chosen, e);
    if (!st) st = graft_detect_number(f, config, "rope_dim", &turned, e);
    if (st) return st;
    if (chosen < 1) chosen = CHOSEN;
    if (!turned) turned = head / 4;
    if (chosen > out->experts || out->experts > EXPERTS_MAX)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer that chooses %lld of %d experts",
                          graft_safetensors_path(f), (long long)chosen, out->experts);
    if (head % 2 || turned < 0 || turned % 2 || 2 * turned > head)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a transformer of width %d with heads of %d, of which %lld turn with "
                          "the row",
                          graft_safetensors_path(f), out->hidden, head, (long long)turned);
    out->chosen = (int32_t)chosen;
    out->rope_dim = (int32_t)turned;
    return GRAFT_OK;
}

graft_status graft_hidream_detect(const graft_safetensors *f, const char *prefix,
                                  const char *config, graft_hidream_arch *out, graft_err *e)
{
    *out = (graft_hidream_arch){.patch = PATCH};
    const graft_detect_width widths[] = {
        {"t_embedder.timestep_embedder.linear_1.weight", &out->time_dim, 1},
        {"p_embedder.pooled_embedder.linear_1.weight", &out->pooled_dim, 1},
        {EXPERTS "gate.weight", &out->experts, 0},
        {EXPERTS "experts.0.w1.weight", &out->mlp, 0},
        {EXPERTS "shared_experts.w1.weight", &out->shared_mlp, 0},
        {BLOCK "ff_t.w1.weight", &out->text_mlp, 0}};
    graft_status st = graft_detect_patches(f, prefix, "x_embedder.proj.weight", PATCH, &out->hidden,
                                           &out->channels, e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (!st) st = graft_detect_plain_heads(f, config, out->hidden, 0, HEAD_DIM, &out->heads, e);
    if (!st) st = detect_choices(f, config, out, e);
    if (st) return st;
    out->depth = graft_detect_blocks(f, prefix, "double_stream_blocks", "block.attn1.to_q.weight",
                                     "block.ff_i.gate.weight");
    out->single_depth = graft_detect_blocks(f, prefix, "single_stream_blocks",
                                            "block.attn1.to_q.weight", "block.ff_i.gate.weight");
    return detect_captions(f, prefix, config, out, e);
}
