/* AuraFlow's transformer in diffusers' names. Few layers have a bias, and no norm has weights. */
#include <stdio.h>
#include <string.h>

#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define DOUBLE "joint_transformer_blocks."
#define SINGLE "single_transformer_blocks."
#define LAST   "modF.1"
#define WHAT   "AuraFlow's transformer"

/* With a bias; without. */
static const graft_diffusers_pair biased[] = {{"init_x_linear", "pos_embed.proj"},
                                              {"t_embedder.mlp.0", "time_step_proj.linear_1"},
                                              {"t_embedder.mlp.2", "time_step_proj.linear_2"},
                                              {NULL, NULL}};
static const graft_diffusers_pair plain[] = {{"cond_seq_linear", "context_embedder"},
                                             {LAST, "norm_out.linear"},
                                             {"final_linear", "proj_out"},
                                             {NULL, NULL}};
/* Tensors that are no layer's weight. */
static const graft_diffusers_pair alone[] = {{"positional_encoding", "pos_embed.pos_embed"},
                                             {"register_tokens", "register_tokens"},
                                             {NULL, NULL}};

static const graft_diffusers_block_layer of_two[] = {
    {"modX.1", {"norm1.linear"}, false},
    {"attn.w2q", {"attn.to_q"}, false},
    {"attn.w2k", {"attn.to_k"}, false},
    {"attn.w2v", {"attn.to_v"}, false},
    {"attn.w2o", {"attn.to_out.0"}, false},
    {"mlpX.c_fc1", {"ff.linear_1"}, false},
    {"mlpX.c_fc2", {"ff.linear_2"}, false},
    {"mlpX.c_proj", {"ff.out_projection"}, false},
    {"modC.1", {"norm1_context.linear"}, false},
    {"attn.w1q", {"attn.add_q_proj"}, false},
    {"attn.w1k", {"attn.add_k_proj"}, false},
    {"attn.w1v", {"attn.add_v_proj"}, false},
    {"attn.w1o", {"attn.to_add_out"}, false},
    {"mlpC.c_fc1", {"ff_context.linear_1"}, false},
    {"mlpC.c_fc2", {"ff_context.linear_2"}, false},
    {"mlpC.c_proj", {"ff_context.out_projection"}, false},
    {NULL, {NULL}, false}};

static const graft_diffusers_block_layer of_one[] = {{"modCX.1", {"norm1.linear"}, false},
                                                     {"attn.w1q", {"attn.to_q"}, false},
                                                     {"attn.w1k", {"attn.to_k"}, false},
                                                     {"attn.w1v", {"attn.to_v"}, false},
                                                     {"attn.w1o", {"attn.to_out.0"}, false},
                                                     {"mlp.c_fc1", {"ff.linear_1"}, false},
                                                     {"mlp.c_fc2", {"ff.linear_2"}, false},
                                                     {"mlp.c_proj", {"ff.out_projection"}, false},
                                                     {NULL, {NULL}, false}};

bool graft_diffusers_auraflow_name(const char *name, graft_diffusers_rows *out)
{
    int block = 0, n = 0;
    memset(out, 0, sizeof *out);
    out->exchanged = strcmp(name, LAST) == 0;
    if (graft_diffusers_rows_alone(biased, name, out) ||
        graft_diffusers_rows_alone(plain, name, out))
        return true;
    if (sscanf(name, "double_layers.%d.%n", &block, &n) == 1 && n && block >= 0)
        return graft_diffusers_rows_in_block(of_two, DOUBLE, block, name + n, out);
    n = 0;
    if (sscanf(name, "single_layers.%d.%n", &block, &n) == 1 && n && block >= 0)
        return graft_diffusers_rows_in_block(of_one, SINGLE, block, name + n, out);
    return false;
}

/* ------------------------------------------------------------------ the file */

bool graft_diffusers_is_auraflow(const graft_safetensors *f)
{
    return graft_diffusers_has(f, DOUBLE "0.attn.add_q_proj.weight");
}

static void layer(graft_diffusers_names *n, graft_name ours)
{
    graft_diffusers_rows rows;
    if (graft_diffusers_auraflow_name(ours.text, &rows))
        graft_diffusers_names_joined(n, ours, &rows, "weight");
}

static void blocks(graft_diffusers_names *n, const graft_diffusers_block_layer *list,
                   const char *ours, int count)
{
    for (int i = 0; i < count; i++)
        for (const graft_diffusers_block_layer *l = list; l->ours; l++)
            layer(n, NAME("%s.%d.%s", ours, i, l->ours));
}

graft_status graft_diffusers_adopt_auraflow(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    int32_t depth = 0, single_depth = 0;
    if (!graft_diffusers_is_auraflow(f)) return GRAFT_OK;
    graft_status st = graft_diffusers_count_blocks(f, DOUBLE, WHAT, &depth, e);
    if (!st) st = graft_diffusers_count_blocks(f, SINGLE, WHAT, &single_depth, e);
    if (st) return st;
    graft_diffusers_names_init(&n, f, e);
    for (const graft_diffusers_pair *p = biased; p->ours; p++)
        graft_diffusers_names_layer(&n, NAME("%s", p->ours), NAME("%s", p->theirs));
    for (const graft_diffusers_pair *p = plain; p->ours; p++) layer(&n, NAME("%s", p->ours));
    for (const graft_diffusers_pair *p = alone; p->ours; p++)
        graft_diffusers_names_tensor(&n, NAME("%s", p->ours), NAME("%s", p->theirs), false);
    blocks(&n, of_two, "double_layers", depth);
    blocks(&n, of_one, "single_layers", single_depth);
    st = graft_diffusers_names_apply(&n, WHAT);
    graft_diffusers_names_finish(&n);
    return st;
}
