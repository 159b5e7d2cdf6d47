/* Lumina-Image 2.0's transformer in diffusers' names. */
#include <stdio.h>
#include <string.h>

#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"
#include "engine/models/parts/tensors.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define WHAT "Lumina-Image 2.0's transformer"

static const graft_diffusers_pair single[] = {
    {"x_embedder", "x_embedder"},
    {"final_layer.linear", "norm_out.linear_2"},
    {"final_layer.adaLN_modulation.1", "norm_out.linear_1"},
    {"t_embedder.mlp.0", "time_caption_embed.timestep_embedder.linear_1"},
    {"t_embedder.mlp.2", "time_caption_embed.timestep_embedder.linear_2"},
    {"cap_embedder.1", "time_caption_embed.caption_embedder.1"},
    {NULL, NULL}};

/* Without a bias. What tells a block the time, and the norm before attention, which is beside it in
 * blocks that are told it, are below. */
static const graft_diffusers_block_layer layers[] = {
    {"attention.qkv", {"attn.to_q", "attn.to_k", "attn.to_v"}, false},
    {"attention.q_norm", {"attn.norm_q"}, true},
    {"attention.k_norm", {"attn.norm_k"}, true},
    {"attention.out", {"attn.to_out.0"}, false},
    {"attention_norm2", {"norm2"}, true},
    {"feed_forward.w1", {"feed_forward.linear_1"}, false},
    {"feed_forward.w2", {"feed_forward.linear_2"}, false},
    {"feed_forward.w3", {"feed_forward.linear_3"}, false},
    {"ffn_norm1", {"ffn_norm1"}, true},
    {"ffn_norm2", {"ffn_norm2"}, true},
    {NULL, {NULL}, false}};
static const graft_diffusers_block_layer told[] = {{"attention_norm1", {"norm1.norm"}, true},
                                                   {"adaLN_modulation.1", {"norm1.linear"}, false},
                                                   {NULL, {NULL}, false}};
static const graft_diffusers_block_layer untold[] = {{"attention_norm1", {"norm1"}, true},
                                                     {NULL, {NULL}, false}};

/* Whose blocks there are; those of the last are not told the time. */
static const char *const lists[] = {"layers.", "noise_refiner.", "context_refiner."};
enum { LAYERS, NOISE, CONTEXT, LISTS };

bool graft_diffusers_lumina2_name(const graft_zimage_arch *a, const char *name,
                                  graft_diffusers_rows *out)
{
    const int32_t head = a->hidden / a->heads;
    memset(out, 0, sizeof *out);
    if (graft_diffusers_rows_alone(single, name, out)) return true;
    for (int i = 0; i < LISTS; i++) {
        int block = 0, n = 0;
        const size_t length = strlen(lists[i]);
        if (strncmp(name, lists[i], length) != 0 ||
            sscanf(name + length, "%d.%n", &block, &n) != 1 || !n || block < 0)
            continue;
        const char *layer = name + length + n;
        if (!graft_diffusers_rows_in_block(layers, lists[i], block, layer, out) &&
            !graft_diffusers_rows_in_block(i == CONTEXT ? untold : told, lists[i], block, layer,
                                           out))
            return false;
        for (int k = 0; out->pieces == 3 && k < 3; k++)
            out->rows[k] = k ? a->key_heads * head : a->hidden;
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------ the file */

bool graft_diffusers_is_lumina2(const graft_safetensors *f)
{
    return graft_diffusers_has(f, "time_caption_embed.caption_embedder.1.weight") &&
           !graft_diffusers_has(f, GRAFT_OMNIGEN2_TENSOR);
}

static void add_layers(graft_diffusers_names *n, const graft_diffusers_block_layer *l,
                       const char *list, int block)
{
    for (; l->ours; l++) {
        graft_diffusers_rows rows = {.pieces = 0};
        graft_diffusers_rows_in_block(l, list, block, l->ours, &rows);
        const bool bias = strcmp(l->theirs[0], "norm1.linear") == 0;
        graft_diffusers_names_joined(n, NAME("%s%d.%s", list, block, l->ours), &rows,
                                     bias ? NULL : "weight");
    }
}

graft_status graft_diffusers_adopt_lumina2(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    int32_t count[LISTS] = {0};
    graft_status st = GRAFT_OK;
    if (!graft_diffusers_is_lumina2(f)) return GRAFT_OK;
    for (int i = 0; i < LISTS && !st; i++)
        st = graft_diffusers_count_blocks(f, lists[i], WHAT, &count[i], e);
    if (st) return st;
    graft_diffusers_names_init(&n, f, e);
    for (const graft_diffusers_pair *p = single; p->ours; p++)
        graft_diffusers_names_layer(&n, NAME("%s", p->ours), NAME("%s", p->theirs));
    graft_diffusers_names_tensor(&n, NAME("cap_embedder.0.weight"),
                                 NAME("time_caption_embed.caption_embedder.0.weight"), false);
    for (int i = 0; i < LISTS; i++)
        for (int block = 0; block < count[i]; block++) {
            add_layers(&n, layers, lists[i], block);
            add_layers(&n, i == CONTEXT ? untold : told, lists[i], block);
        }
    st = graft_diffusers_names_apply(&n, WHAT);
    graft_diffusers_names_finish(&n);
    return st;
}
