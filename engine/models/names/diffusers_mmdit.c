/* Stable Diffusion 3's transformer in diffusers' names: what checkpoints call its layers, and which
 * of theirs are rows of one of a checkpoint's. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"
#include "engine/models/parts/tensors.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define MOST_BLOCKS 128
#define BLOCKS      "transformer_blocks."

/* A layer of a block. Queries, keys and values are three there; a norm has a weight alone. */
typedef struct block_layer {
    const char *ours, *theirs[GRAFT_DIFFUSERS_PIECES];
    bool norm;
} block_layer;

static const graft_diffusers_pair single[] = {
    {"x_embedder.proj", "pos_embed.proj"},
    {"t_embedder.mlp.0", "time_text_embed.timestep_embedder.linear_1"},
    {"t_embedder.mlp.2", "time_text_embed.timestep_embedder.linear_2"},
    {"y_embedder.mlp.0", "time_text_embed.text_embedder.linear_1"},
    {"y_embedder.mlp.2", "time_text_embed.text_embedder.linear_2"},
    {"context_embedder", "context_embedder"},
    {"final_layer.adaLN_modulation.1", "norm_out.linear"},
    {"final_layer.linear", "proj_out"},
    {NULL, NULL}};

static const block_layer layers[] = {
    {"x_block.adaLN_modulation.1", {"norm1.linear"}, false},
    {"x_block.attn.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, false},
    {"x_block.attn.ln_q", {"attn.norm_q"}, true},
    {"x_block.attn.ln_k", {"attn.norm_k"}, true},
    {"x_block.attn.proj", {"attn.to_out.0"}, false},
    {"x_block.attn2.qkv", {"attn2.to_q", "attn2.to_k", "attn2.to_v"}, false},
    {"x_block.attn2.ln_q", {"attn2.norm_q"}, true},
    {"x_block.attn2.ln_k", {"attn2.norm_k"}, true},
    {"x_block.attn2.proj", {"attn2.to_out.0"}, false},
    {"x_block.mlp.fc1", {"ff.net.0.proj"}, false},
    {"x_block.mlp.fc2", {"ff.net.2"}, false},
    {"context_block.adaLN_modulation.1", {"norm1_context.linear"}, false},
    {"context_block.attn.qkv", {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"}, false},
    {"context_block.attn.ln_q", {"attn.norm_added_q"}, true},
    {"context_block.attn.ln_k", {"attn.norm_added_k"}, true},
    {"context_block.attn.proj", {"attn.to_add_out"}, false},
    {"context_block.mlp.fc1", {"ff_context.net.0.proj"}, false},
    {"context_block.mlp.fc2", {"ff_context.net.2"}, false}};
#define N_LAYERS (sizeof layers / sizeof *layers)

/* Where a modulation gives two things alone, they stand in the other order there. */
static bool is_exchanged(const graft_mmdit_arch *a, const char *ours)
{
    int block = 0, n = 0;
    if (strcmp(ours, "final_layer.adaLN_modulation.1") == 0) return true;
    return sscanf(ours, "joint_blocks.%d.context_block.adaLN_modulation.1%n", &block, &n) == 1 &&
           n && !ours[n] && block == a->depth - 1;
}

bool graft_diffusers_mmdit_name(const graft_mmdit_arch *a, const char *name,
                                graft_diffusers_rows *out)
{
    int block = 0, n = 0;
    memset(out, 0, sizeof *out);
    out->exchanged = is_exchanged(a, name);
    if (graft_diffusers_rows_alone(single, name, out)) return true;
    if (sscanf(name, "joint_blocks.%d.%n", &block, &n) != 1 || !n || block < 0) return false;
    for (size_t i = 0; i < N_LAYERS; i++) {
        if (strcmp(layers[i].ours, name + n) != 0) continue;
        for (; out->pieces < GRAFT_DIFFUSERS_PIECES && layers[i].theirs[out->pieces]; out->pieces++)
            out->name[out->pieces] = NAME(BLOCKS "%d.%s", block, layers[i].theirs[out->pieces]);
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------ the file */

/* FLUX's transformer has no table of positions, a ControlNet for SD 3 layers of its own. */
static bool is_mmdit(const graft_safetensors *f)
{
    return graft_diffusers_has(f, "pos_embed.proj.weight") &&
           graft_diffusers_has(f, BLOCKS "0.attn.add_k_proj.weight") &&
           !graft_diffusers_has(f, "controlnet_blocks.0.weight");
}

/* Depth, and which parts blocks have: a second attention those that begin with it. */
static graft_status count_blocks(const graft_safetensors *f, graft_mmdit_arch *a, graft_err *e)
{
    memset(a, 0, sizeof *a);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        int block, n = 0;
        if (sscanf(name, BLOCKS "%d.%n", &block, &n) != 1 || !n) continue;
        if (block < 0 || block >= MOST_BLOCKS)
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: Stable Diffusion 3's transformer has no tensor %.200s",
                              graft_safetensors_path(f), name);
        if (a->depth <= block) a->depth = block + 1;
        if (graft_str_starts(name + n, "attn.norm_")) a->qk_norm = 1;
    }
    while (graft_diffusers_has(f, NAME(BLOCKS "%d.attn2.to_q.weight", a->dual).text)) a->dual++;
    return GRAFT_OK;
}

static bool block_has(const graft_mmdit_arch *a, int block, const block_layer *l)
{
    if (l->norm && !a->qk_norm) return false;
    if (graft_str_starts(l->ours, "x_block.attn2.")) return block < a->dual;
    if (block + 1 < a->depth) return true;
    return strcmp(l->ours, "context_block.attn.proj") != 0 &&
           !graft_str_starts(l->ours, "context_block.mlp.");
}

static void layer(graft_diffusers_names *n, const graft_mmdit_arch *a, graft_name ours, bool norm)
{
    graft_diffusers_rows rows;
    if (graft_diffusers_mmdit_name(a, ours.text, &rows))
        graft_diffusers_names_joined(n, ours, &rows, norm ? "weight" : NULL);
}

/* Blocks i of the arch: those parts that `a` says, without text where it has no context. */
static void block(graft_diffusers_names *n, const graft_mmdit_arch *a, int i, bool text)
{
    for (size_t k = 0; k < N_LAYERS; k++)
        if (block_has(a, i, &layers[k]) && (text || graft_str_starts(layers[k].ours, "x_block.")))
            layer(n, a, NAME("joint_blocks.%d.%s", i, layers[k].ours), layers[k].norm);
}

graft_status graft_diffusers_adopt_mmdit(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    graft_mmdit_arch a;
    if (!is_mmdit(f)) return GRAFT_OK;
    graft_status st = count_blocks(f, &a, e);
    if (st) return st;
    graft_diffusers_names_init(&n, f, e);
    for (const graft_diffusers_pair *p = single; p->ours; p++)
        layer(&n, &a, NAME("%s", p->ours), false);
    graft_diffusers_names_tensor(&n, NAME("pos_embed"), NAME("pos_embed.pos_embed"), false);
    for (int i = 0; i < a.depth; i++) block(&n, &a, i, true);
    st = graft_diffusers_names_apply(&n, "Stable Diffusion 3's transformer");
    graft_diffusers_names_finish(&n);
    return st;
}

/* ------------------------------------------------------------------ ControlNets */

static bool is_control(const graft_safetensors *f)
{
    return graft_diffusers_has(f, GRAFT_CONTROL_MMDIT_TENSOR) &&
           graft_diffusers_has(f, "controlnet_blocks.0.weight");
}

/* Stability's own blocks, of the picture alone, and the names that they have with us. */
static void own_block(graft_diffusers_names *n, int i)
{
    static const char *const parts[] = {"adaLN_modulation.1", "attn.qkv", "attn.proj", "mlp.fc1",
                                        "mlp.fc2"};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        graft_diffusers_names_layer(n, NAME("joint_blocks.%d.x_block.%s", i, parts[k]),
                                    NAME(BLOCKS "%d.%s", i, parts[k]));
}

static void outside_blocks(graft_diffusers_names *n, const graft_mmdit_arch *a, bool text)
{
    const bool whole = graft_diffusers_has(n->f, "pos_embed.proj.weight");
    for (const graft_diffusers_pair *p = single; p->ours; p++)
        if (!graft_str_starts(p->ours, "final_layer.") &&
            (whole || strcmp(p->ours, "x_embedder.proj") != 0) &&
            (text || strcmp(p->ours, "context_embedder") != 0))
            layer(n, a, NAME("%s", p->ours), false);
    if (whole)
        graft_diffusers_names_tensor(n, NAME("pos_embed"), NAME("pos_embed.pos_embed"), false);
    graft_diffusers_names_layer(n, NAME("pos_embed_input.proj"), NAME("pos_embed_input.proj"));
}

graft_status graft_diffusers_adopt_control_mmdit(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    graft_mmdit_arch a;
    if (!is_control(f)) return graft_diffusers_adopt_control_zimage(f, e);
    graft_status st = count_blocks(f, &a, e);
    if (st) return st;
    const int depth = a.depth++; /* none of its blocks is a transformer's last */
    const bool own = graft_diffusers_has(f, BLOCKS "0.attn.qkv.weight");
    graft_diffusers_names_init(&n, f, e);
    const bool text = graft_diffusers_names_any(&n, NAME("context_embedder."));
    outside_blocks(&n, &a, text);
    for (int i = 0; i < depth; i++) {
        const graft_name name = NAME("controlnet_blocks.%d", i);
        if (own)
            own_block(&n, i);
        else
            block(&n, &a, i, text);
        graft_diffusers_names_layer(&n, name, name);
    }
    st = graft_diffusers_names_apply(&n, "a ControlNet for Stable Diffusion 3");
    graft_diffusers_names_finish(&n);
    return st;
}

graft_status graft_diffusers_adopt_net(graft_safetensors *f, graft_err *e)
{
    if (graft_diffusers_is_flux(f)) return graft_diffusers_adopt_flux(f, e);
    if (graft_diffusers_is_flux2(f)) return graft_diffusers_adopt_flux2(f, e);
    if (graft_diffusers_is_zimage(f)) return graft_diffusers_adopt_zimage(f, e);
    if (graft_diffusers_is_lumina2(f)) return graft_diffusers_adopt_lumina2(f, e);
    if (graft_diffusers_is_krea2(f)) return graft_diffusers_adopt_krea2(f, e);
    if (graft_diffusers_is_qwen_image21(f)) return graft_diffusers_adopt_qwen_image21(f, e);
    if (graft_diffusers_is_ideogram4(f)) return graft_diffusers_adopt_ideogram4(f, e);
    if (graft_diffusers_is_auraflow(f)) return graft_diffusers_adopt_auraflow(f, e);
    if (graft_flux_names_differ(f)) return graft_flux_names_adopt(f, e);
    return is_mmdit(f) ? graft_diffusers_adopt_mmdit(f, e) : graft_diffusers_adopt_unet(f, e);
}
