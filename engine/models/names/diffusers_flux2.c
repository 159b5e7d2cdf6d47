/* FLUX.2's transformer in diffusers' names. No layer has a bias. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define DOUBLE "transformer_blocks."
#define SINGLE "single_transformer_blocks."
#define LAST   "final_layer.adaLN_modulation.1"
#define WHAT   "FLUX.2's transformer"

static const graft_diffusers_pair single[] = {
    {"img_in", "x_embedder"},
    {"txt_in", "context_embedder"},
    {"time_in.in_layer", "time_guidance_embed.timestep_embedder.linear_1"},
    {"time_in.out_layer", "time_guidance_embed.timestep_embedder.linear_2"},
    {"guidance_in.in_layer", "time_guidance_embed.guidance_embedder.linear_1"},
    {"guidance_in.out_layer", "time_guidance_embed.guidance_embedder.linear_2"},
    {"double_stream_modulation_img.lin", "double_stream_modulation_img.linear"},
    {"double_stream_modulation_txt.lin", "double_stream_modulation_txt.linear"},
    {"single_stream_modulation.lin", "single_stream_modulation.linear"},
    {LAST, "norm_out.linear"},
    {"final_layer.linear", "proj_out"},
    {NULL, NULL}};

static const graft_diffusers_block_layer of_two[] = {
    {"img_attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, false},
    {"img_attn.norm.query_norm", {"attn.norm_q"}, true},
    {"img_attn.norm.key_norm", {"attn.norm_k"}, true},
    {"img_attn.proj", {"attn.to_out.0"}, false},
    {"img_mlp.0", {"ff.linear_in"}, false},
    {"img_mlp.2", {"ff.linear_out"}, false},
    {"txt_attn.qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}, false},
    {"txt_attn.norm.query_norm", {"attn.norm_added_q"}, true},
    {"txt_attn.norm.key_norm", {"attn.norm_added_k"}, true},
    {"txt_attn.proj", {"attn.to_add_out"}, false},
    {"txt_mlp.0", {"ff_context.linear_in"}, false},
    {"txt_mlp.2", {"ff_context.linear_out"}, false},
    {NULL, {NULL}, false}};

static const graft_diffusers_block_layer of_one[] = {{"linear1", {"attn.to_qkv_mlp_proj"}, false},
                                                     {"linear2", {"attn.to_out"}, false},
                                                     {"norm.query_norm", {"attn.norm_q"}, true},
                                                     {"norm.key_norm", {"attn.norm_k"}, true},
                                                     {NULL, {NULL}, false}};

bool graft_diffusers_flux2_name(const char *name, graft_diffusers_rows *out)
{
    int block = 0, n = 0;
    memset(out, 0, sizeof *out);
    out->exchanged = strcmp(name, LAST) == 0;
    if (graft_diffusers_rows_alone(single, name, out)) return true;
    if (sscanf(name, "double_blocks.%d.%n", &block, &n) == 1 && n && block >= 0)
        return graft_diffusers_rows_in_block(of_two, DOUBLE, block, name + n, out);
    n = 0;
    if (sscanf(name, "single_blocks.%d.%n", &block, &n) == 1 && n && block >= 0)
        return graft_diffusers_rows_in_block(of_one, SINGLE, block, name + n, out);
    return false;
}

/* ------------------------------------------------------------------ the file */

bool graft_diffusers_is_flux2(const graft_safetensors *f)
{
    return graft_diffusers_has(f, SINGLE "0.attn.to_qkv_mlp_proj.weight") &&
           graft_diffusers_has(f, DOUBLE "0.attn.add_k_proj.weight") &&
           !graft_diffusers_has(f, "controlnet_blocks.0.weight");
}

static void layer(graft_diffusers_names *n, graft_name ours, bool norm)
{
    graft_diffusers_rows rows;
    if (graft_diffusers_flux2_name(ours.text, &rows))
        graft_diffusers_names_joined(n, ours, &rows, norm ? "scale" : "weight");
}

static void blocks(graft_diffusers_names *n, const graft_diffusers_block_layer *list,
                   const char *ours, int count)
{
    for (int i = 0; i < count; i++)
        for (const graft_diffusers_block_layer *l = list; l->ours; l++)
            layer(n, NAME("%s.%d.%s", ours, i, l->ours), l->norm);
}

graft_status graft_diffusers_adopt_flux2(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    int32_t depth = 0, single_depth = 0;
    if (!graft_diffusers_is_flux2(f)) return GRAFT_OK;
    graft_status st = graft_diffusers_count_blocks(f, DOUBLE, WHAT, &depth, e);
    if (!st) st = graft_diffusers_count_blocks(f, SINGLE, WHAT, &single_depth, e);
    if (st) return st;
    graft_diffusers_names_init(&n, f, e);
    const bool told = graft_diffusers_names_any(&n, NAME("time_guidance_embed.guidance_embedder."));
    for (const graft_diffusers_pair *p = single; p->ours; p++)
        if (told || !graft_str_starts(p->ours, "guidance_in."))
            layer(&n, NAME("%s", p->ours), false);
    blocks(&n, of_two, "double_blocks", depth);
    blocks(&n, of_one, "single_blocks", single_depth);
    st = graft_diffusers_names_apply(&n, WHAT);
    graft_diffusers_names_finish(&n);
    return st;
}
