/* FLUX.1's, Chroma's, LongCat-Image's and Ovis-Image's transformers in diffusers' names: what their
 * authors call the layers, and which of theirs are rows of one of these. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"
#include "engine/models/parts/tensors.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define DOUBLE "transformer_blocks."
#define SINGLE "single_transformer_blocks."
#define WHAT   "FLUX's transformer"
#define CHROMA "distilled_guidance_layer."
static const char *const whats[] = {[GRAFT_FLUX_NONE] = WHAT,
                                    [GRAFT_FLUX_LONGCAT] = "LongCat-Image's transformer",
                                    [GRAFT_FLUX_OVIS] = "Ovis-Image's transformer"};

static const graft_diffusers_pair single[] = {
    {"img_in", "x_embedder"},
    {"txt_in", "context_embedder"},
    {"vector_in.in_layer", "time_text_embed.text_embedder.linear_1"},
    {"vector_in.out_layer", "time_text_embed.text_embedder.linear_2"},
    {"guidance_in.in_layer", "time_text_embed.guidance_embedder.linear_1"},
    {"guidance_in.out_layer", "time_text_embed.guidance_embedder.linear_2"},
    {"final_layer.adaLN_modulation.1", "norm_out.linear"},
    {"final_layer.linear", "proj_out"},
    {NULL, NULL}};
/* What each of them tells the time by. */
static const graft_diffusers_pair timed[][3] = {
    [GRAFT_FLUX_NONE] = {{"time_in.in_layer", "time_text_embed.timestep_embedder.linear_1"},
                         {"time_in.out_layer", "time_text_embed.timestep_embedder.linear_2"},
                         {NULL, NULL}},
    [GRAFT_FLUX_LONGCAT] = {{"time_in.in_layer", "time_embed.timestep_embedder.linear_1"},
                            {"time_in.out_layer", "time_embed.timestep_embedder.linear_2"},
                            {NULL, NULL}},
    [GRAFT_FLUX_OVIS] = {{"time_in.in_layer", "timestep_embedder.linear_1"},
                         {"time_in.out_layer", "timestep_embedder.linear_2"},
                         {NULL, NULL}}};

static const graft_diffusers_block_layer of_two[] = {
    {"img_mod.lin", {"norm1.linear"}, false},
    {"img_attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, false},
    {"img_attn.norm.query_norm", {"attn.norm_q"}, true},
    {"img_attn.norm.key_norm", {"attn.norm_k"}, true},
    {"img_attn.proj", {"attn.to_out.0"}, false},
    {"img_mlp.0", {"ff.net.0.proj"}, false},
    {"img_mlp.2", {"ff.net.2"}, false},
    {"txt_mod.lin", {"norm1_context.linear"}, false},
    {"txt_attn.qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}, false},
    {"txt_attn.norm.query_norm", {"attn.norm_added_q"}, true},
    {"txt_attn.norm.key_norm", {"attn.norm_added_k"}, true},
    {"txt_attn.proj", {"attn.to_add_out"}, false},
    {"txt_mlp.0", {"ff_context.net.0.proj"}, false},
    {"txt_mlp.2", {"ff_context.net.2"}, false},
    {NULL, {NULL}, false}};

/* Of MLPs with gates. The two layers in front are halves of one. */
static const graft_diffusers_block_layer of_gated[] = {
    {"img_mlp.up_proj", {"ff.net.0.proj"}, false},
    {"img_mlp.gate_proj", {"ff.net.0.proj"}, false},
    {"img_mlp.down_proj", {"ff.net.2"}, false},
    {"txt_mlp.up_proj", {"ff_context.net.0.proj"}, false},
    {"txt_mlp.gate_proj", {"ff_context.net.0.proj"}, false},
    {"txt_mlp.down_proj", {"ff_context.net.2"}, false},
    {NULL, {NULL}, false}};

static const graft_diffusers_block_layer of_one[] = {
    {"modulation.lin", {"norm.linear"}, false},
    {"linear1", {"attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"}, false},
    {"linear2", {"proj_out"}, false},
    {"norm.query_norm", {"attn.norm_q"}, true},
    {"norm.key_norm", {"attn.norm_k"}, true},
    {NULL, {NULL}, false}};

static const graft_diffusers_block_layer of_approximator[] = {
    {"in_layer", {"linear_1"}, false}, {"out_layer", {"linear_2"}, false}, {NULL, {NULL}, false}};
static const graft_diffusers_pair of_chroma[] = {
    {CHROMA "in_proj", CHROMA "in_proj"}, {CHROMA "out_proj", CHROMA "out_proj"}, {NULL, NULL}};

/* Queries, keys and values are three there, and in a block of one stream the MLP's first layer is a
 * fourth. */
static bool in_block(const graft_flux_arch *a, const graft_diffusers_block_layer *list,
                     const char *blocks, int block, const char *layer, graft_diffusers_rows *out)
{
    if (!graft_diffusers_rows_in_block(list, blocks, block, layer, out)) return false;
    for (int i = 0; i < out->pieces; i++)
        out->rows[i] = i < 3 ? a->hidden : (1 + a->gated) * a->mlp;
    return true;
}

static bool in_gated(int block, const char *layer, graft_diffusers_rows *out)
{
    if (!graft_diffusers_rows_in_block(of_gated, DOUBLE, block, layer, out)) return false;
    out->half = graft_str_ends(layer, ".up_proj") ? 1 : graft_str_ends(layer, ".gate_proj") ? 2 : 0;
    return true;
}

static graft_flux_relative relative_of(const graft_flux_arch *a)
{
    return a->gated ? GRAFT_FLUX_OVIS : a->apart ? GRAFT_FLUX_LONGCAT : GRAFT_FLUX_NONE;
}

bool graft_diffusers_flux_name(const graft_flux_arch *a, const char *name,
                               graft_diffusers_rows *out)
{
    int block = 0, n = 0;
    memset(out, 0, sizeof *out);
    out->exchanged = strcmp(name, "final_layer.adaLN_modulation.1") == 0;
    if (graft_diffusers_rows_alone(single, name, out) ||
        graft_diffusers_rows_alone(timed[relative_of(a)], name, out) ||
        graft_diffusers_rows_alone(of_chroma, name, out))
        return true;
    if (sscanf(name, CHROMA "layers.%d.%n", &block, &n) == 1 && n && block >= 0)
        return graft_diffusers_rows_in_block(of_approximator, CHROMA "layers.", block, name + n,
                                             out);
    n = 0;
    if (sscanf(name, "double_blocks.%d.%n", &block, &n) == 1 && n && block >= 0)
        return (a->gated && in_gated(block, name + n, out)) ||
               in_block(a, of_two, DOUBLE, block, name + n, out);
    n = 0;
    if (sscanf(name, "single_blocks.%d.%n", &block, &n) == 1 && n && block >= 0)
        return in_block(a, of_one, SINGLE, block, name + n, out);
    return false;
}

/* ------------------------------------------------------------------ the file */

bool graft_diffusers_is_flux(const graft_safetensors *f)
{
    return graft_diffusers_has(f, SINGLE "0.proj_mlp.weight") &&
           graft_diffusers_has(f, DOUBLE "0.attn.add_k_proj.weight") &&
           !graft_diffusers_has(f, "controlnet_blocks.0.weight");
}

/* One with an input_hint_block is of another structure, XLabs'. Qwen-Image's keep their names. */
static bool is_control(const graft_safetensors *f)
{
    return graft_diffusers_has(f, GRAFT_CONTROL_FLUX_TENSOR) &&
           !graft_diffusers_has(f, GRAFT_QWEN_IMAGE_TENSOR) &&
           graft_diffusers_has(f, DOUBLE "0.attn.add_k_proj.weight") &&
           !graft_diffusers_has(f, "input_hint_block.conv_in.weight");
}

static void layer(graft_diffusers_names *n, const graft_flux_arch *a, graft_name ours, bool norm)
{
    graft_diffusers_rows rows;
    if (graft_diffusers_flux_name(a, ours.text, &rows))
        graft_diffusers_names_joined(n, ours, &rows, norm ? "scale" : NULL);
}

/* What a ControlNet has beside the transformer's layers. */
static void control_layers(graft_diffusers_names *n, const graft_flux_arch *a)
{
    static const char modes[] = "controlnet_mode_embedder.weight";
    graft_diffusers_names_layer(n, NAME("controlnet_x_embedder"), NAME("controlnet_x_embedder"));
    if (graft_diffusers_has(n->f, modes))
        graft_diffusers_names_tensor(n, NAME("%s", modes), NAME("%s", modes), false);
    for (int i = 0; i < a->depth; i++) {
        const graft_name name = NAME("controlnet_blocks.%d", i);
        graft_diffusers_names_layer(n, name, name);
    }
    for (int i = 0; i < a->single_depth; i++) {
        const graft_name name = NAME("controlnet_single_blocks.%d", i);
        graft_diffusers_names_layer(n, name, name);
    }
}

/* The approximator of Chroma. */
static void approximator(graft_diffusers_names *n, const graft_flux_arch *a)
{
    for (const graft_diffusers_pair *p = of_chroma; p->ours; p++)
        layer(n, a, NAME("%s", p->ours), false);
    for (int i = 0; i < a->approximator_layers; i++) {
        layer(n, a, NAME(CHROMA "layers.%d.in_layer", i), false);
        layer(n, a, NAME(CHROMA "layers.%d.out_layer", i), false);
        graft_diffusers_names_tensor(n, NAME(CHROMA "norms.%d.scale", i),
                                     NAME(CHROMA "norms.%d.weight", i), false);
    }
}

/* Whether a layer of FLUX.1's is none of Chroma's: those that tell it of time, guidance and prompt,
 * and those that make a block's vectors of that. */
static bool told(const char *ours)
{
    return graft_str_starts(ours, "time_in.") || graft_str_starts(ours, "vector_in.") ||
           graft_str_starts(ours, "final_layer.adaLN_modulation.") ||
           graft_str_ends(ours, "_mod.lin") || strcmp(ours, "modulation.lin") == 0;
}

static bool is_mlp(const char *ours)
{
    return graft_str_starts(ours, "img_mlp.") || graft_str_starts(ours, "txt_mlp.");
}

static void block(graft_diffusers_names *n, const graft_flux_arch *a,
                  const graft_diffusers_block_layer *list, const char *blocks, int i, bool chroma)
{
    for (; list->ours; list++)
        if (!(chroma && told(list->ours)) && !(a->gated && is_mlp(list->ours)))
            layer(n, a, NAME("%s.%d.%s", blocks, i, list->ours), list->norm);
}

/* The MLPs with gates of a block of two streams. */
static void gated_mlps(graft_diffusers_names *n, int i)
{
    static const char *const streams[][2] = {{"img", "ff"}, {"txt", "ff_context"}};
    for (int k = 0; k < 2; k++) {
        const graft_name mlp = NAME("double_blocks.%d.%s_mlp", i, streams[k][0]);
        const graft_name theirs = NAME(DOUBLE "%d.%s", i, streams[k][1]);
        graft_diffusers_names_halves(n, NAME("%s.up_proj", mlp.text),
                                     NAME("%s.gate_proj", mlp.text),
                                     NAME("%s.net.0.proj", theirs.text));
        graft_diffusers_names_layer(n, NAME("%s.down_proj", mlp.text),
                                    NAME("%s.net.2", theirs.text));
    }
}

/* Which of the relatives a file has, by tensors that the others have not. */
static void tell_relative(const graft_safetensors *f, graft_flux_arch *a)
{
    a->gated = graft_diffusers_has(f, "context_embedder_norm.weight") ||
               graft_diffusers_has(f, "timestep_embedder.linear_1.weight");
    a->apart = graft_diffusers_has(f, "time_embed.timestep_embedder.linear_1.weight") ||
               graft_diffusers_has(f, "time_embed.timestep_embedder.linear_2.weight");
}

static graft_status adopt(graft_safetensors *f, bool control, graft_err *e)
{
    graft_diffusers_names n;
    graft_flux_arch a = {0};
    graft_status st = graft_diffusers_count_blocks(f, DOUBLE, WHAT, &a.depth, e);
    if (!st) st = graft_diffusers_count_blocks(f, SINGLE, WHAT, &a.single_depth, e);
    if (!st)
        st = graft_diffusers_count_blocks(f, CHROMA "layers.", WHAT, &a.approximator_layers, e);
    if (st) return st;
    if (!control) tell_relative(f, &a);
    graft_diffusers_names_init(&n, f, e);
    const bool chroma = graft_diffusers_has(f, GRAFT_CHROMA_TENSOR);
    const bool guided = graft_diffusers_names_any(&n, NAME("time_text_embed.guidance_embedder."));
    for (const graft_diffusers_pair *p = timed[relative_of(&a)]; p->ours && !chroma; p++)
        layer(&n, &a, NAME("%s", p->ours), false);
    for (const graft_diffusers_pair *p = single; p->ours; p++)
        if ((guided || !graft_str_starts(p->ours, "guidance_in.")) &&
            (!relative_of(&a) || !graft_str_starts(p->ours, "vector_in.")) &&
            (!control || !graft_str_starts(p->ours, "final_layer.")) && !(chroma && told(p->ours)))
            layer(&n, &a, NAME("%s", p->ours), false);
    if (a.gated)
        graft_diffusers_names_tensor(&n, NAME("txt_norm.scale"),
                                     NAME("context_embedder_norm.weight"), false);
    for (int i = 0; i < a.depth; i++) {
        block(&n, &a, of_two, "double_blocks", i, chroma);
        if (a.gated) gated_mlps(&n, i);
    }
    for (int i = 0; i < a.single_depth; i++) block(&n, &a, of_one, "single_blocks", i, chroma);
    if (chroma) approximator(&n, &a);
    if (control) control_layers(&n, &a);
    st = graft_diffusers_names_apply(&n, control  ? "a ControlNet for FLUX"
                                         : chroma ? "Chroma's transformer"
                                                  : whats[relative_of(&a)]);
    graft_diffusers_names_finish(&n);
    return st;
}

graft_status graft_diffusers_adopt_flux(graft_safetensors *f, graft_err *e)
{
    return graft_diffusers_is_flux(f) ? adopt(f, false, e) : GRAFT_OK;
}

graft_status graft_diffusers_adopt_control(graft_safetensors *f, graft_err *e)
{
    return is_control(f) ? adopt(f, true, e) : graft_diffusers_adopt_control_mmdit(f, e);
}
