/* AuraFlow's transformer, by its authors' names. */
#include "engine/models/detect/detect_parts.h"

#define PATCH         2   /* of all published ones; tensors tell its square times the channels */
#define HEAD_DIM      256 /* likewise */
#define REGISTERS_MAX 4096

#define REGISTERS "register_tokens"
#define QUERIES   "attn.w1q.weight" /* of each block */
#define SINGLE    "single_layers.0." QUERIES

static graft_status detect_registers(const graft_safetensors *f, const char *prefix, int32_t *out,
                                     graft_err *e)
{
    const graft_st_tensor *t = graft_detect_find(f, prefix, REGISTERS);
    *out = t && t->rank >= 2 ? graft_detect_dim(t, t->rank - 2) : 0;
    return *out > 0 && *out <= REGISTERS_MAX ? GRAFT_OK
                                             : graft_detect_missing(f, prefix, REGISTERS, e);
}

graft_status graft_auraflow_detect(const graft_safetensors *f, const char *prefix,
                                   const char *config, graft_auraflow_arch *out, graft_err *e)
{
    *out = (graft_auraflow_arch){.patch = PATCH};
    const graft_detect_width widths[] = {{"t_embedder.mlp.0.weight", &out->time_dim, 1},
                                         {"cond_seq_linear.weight", &out->context_dim, 1},
                                         {"double_layers.0.mlpX.c_fc1.weight", &out->mlp, 0}};
    graft_status st = graft_detect_patches(f, prefix, "init_x_linear.weight", PATCH, &out->hidden,
                                           &out->channels, e);
    if (!st) st = graft_detect_widths(f, prefix, widths, sizeof widths / sizeof *widths, e);
    if (!st) st = graft_detect_table(f, prefix, "positional_encoding", &out->table, e);
    if (!st) st = detect_registers(f, prefix, &out->registers, e);
    if (!st) st = graft_detect_plain_heads(f, config, out->hidden, 0, HEAD_DIM, &out->heads, e);
    if (st) return st;
    out->depth = graft_detect_blocks(f, prefix, "double_layers", QUERIES, "mlpC.c_fc1.weight");
    out->single_depth =
        graft_detect_blocks(f, prefix, "single_layers", QUERIES, "mlp.c_fc1.weight");
    /* One without would have a text in its last block that nobody reads. */
    return out->single_depth ? GRAFT_OK : graft_detect_missing(f, prefix, SINGLE, e);
}
