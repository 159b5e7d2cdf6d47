/* Krea 2's transformer in diffusers' names. Layers of the prompt's blocks are called as those of
 * the others, and their norms are no layers of their own with either. */
#include <stdio.h>
#include <string.h>

#include "engine/models/names/diffusers.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define WHAT "Krea 2's transformer"

static const graft_diffusers_pair single[] = {{"first", "img_in"},
                                              {"tmlp.0", "time_embed.linear_1"},
                                              {"tmlp.2", "time_embed.linear_2"},
                                              {"tproj.1", "time_mod_proj"},
                                              {"txtmlp.1", "txt_in.linear_1"},
                                              {"txtmlp.3", "txt_in.linear_2"},
                                              {"last.linear", "final_layer.linear"},
                                              {NULL, NULL}};

/* Likewise, without a bias. */
static const graft_diffusers_pair projector[] = {{"txtfusion.projector", "text_fusion.projector"},
                                                 {NULL, NULL}};

static const graft_diffusers_block_layer layers[] = {{"attn.wq", {"attn.to_q"}, false},
                                                     {"attn.wk", {"attn.to_k"}, false},
                                                     {"attn.wv", {"attn.to_v"}, false},
                                                     {"attn.gate", {"attn.to_gate"}, false},
                                                     {"attn.wo", {"attn.to_out.0"}, false},
                                                     {"mlp.gate", {"ff.gate"}, false},
                                                     {"mlp.up", {"ff.up"}, false},
                                                     {"mlp.down", {"ff.down"}, false},
                                                     {"prenorm", {"norm1"}, true},
                                                     {"postnorm", {"norm2"}, true},
                                                     {"attn.qknorm.qnorm", {"attn.norm_q"}, true},
                                                     {"attn.qknorm.knorm", {"attn.norm_k"}, true},
                                                     {NULL, {NULL}, false}};

/* Lists of blocks. */
enum { BLOCKS, OF_LAYERS, OF_TOKENS, LISTS };
static const graft_diffusers_pair lists[LISTS] = {
    [BLOCKS] = {"blocks.", "transformer_blocks."},
    [OF_LAYERS] = {"txtfusion.layerwise_blocks.", "text_fusion.layerwise_blocks."},
    [OF_TOKENS] = {"txtfusion.refiner_blocks.", "text_fusion.refiner_blocks."}};

/* Tensors that are no layer's weight. */
static const graft_diffusers_pair alone[] = {
    {"txtmlp.0.scale", "txt_in.norm.weight"},
    {"last.norm.scale", "final_layer.norm.weight"},
    {"last.modulation.lin", "final_layer.scale_shift_table"}};

bool graft_diffusers_krea2_name(const char *name, graft_diffusers_rows *out)
{
    memset(out, 0, sizeof *out);
    if (graft_diffusers_rows_alone(single, name, out)) return true;
    if (graft_diffusers_rows_alone(projector, name, out)) return true;
    for (int i = 0; i < LISTS; i++) {
        const size_t length = strlen(lists[i].ours);
        int block = 0, n = 0;
        if (strncmp(name, lists[i].ours, length) == 0 &&
            sscanf(name + length, "%d.%n", &block, &n) == 1 && n && block >= 0)
            return graft_diffusers_rows_in_block(layers, lists[i].theirs, block, name + length + n,
                                                 out);
    }
    return false;
}

/* ------------------------------------------------------------------ the file */

bool graft_diffusers_is_krea2(const graft_safetensors *f)
{
    return graft_diffusers_has(f, "text_fusion.projector.weight");
}

static void add_block(graft_diffusers_names *n, int list, int block)
{
    const graft_name ours = NAME("%s%d", lists[list].ours, block);
    const graft_name theirs = NAME("%s%d", lists[list].theirs, block);
    for (const graft_diffusers_block_layer *l = layers; l->ours; l++)
        graft_diffusers_names_tensor(
            n, NAME("%s.%s.%s", ours.text, l->ours, l->norm ? "scale" : "weight"),
            NAME("%s.%s.weight", theirs.text, l->theirs[0]), false);
    if (list == BLOCKS)
        graft_diffusers_names_vector(n, NAME("%s.mod.lin", ours.text),
                                     NAME("%s.scale_shift_table", theirs.text));
}

graft_status graft_diffusers_adopt_krea2(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    int32_t count[LISTS] = {0};
    graft_status st = GRAFT_OK;
    if (!graft_diffusers_is_krea2(f)) return GRAFT_OK;
    for (int i = 0; i < LISTS && !st; i++)
        st = graft_diffusers_count_blocks(f, lists[i].theirs, WHAT, &count[i], e);
    if (st) return st;
    graft_diffusers_names_init(&n, f, e);
    for (const graft_diffusers_pair *p = single; p->ours; p++)
        graft_diffusers_names_layer(&n, NAME("%s", p->ours), NAME("%s", p->theirs));
    graft_diffusers_names_tensor(&n, NAME("%s.weight", projector->ours),
                                 NAME("%s.weight", projector->theirs), false);
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        graft_diffusers_names_tensor(&n, NAME("%s", alone[i].ours), NAME("%s", alone[i].theirs),
                                     false);
    for (int i = 0; i < LISTS; i++)
        for (int block = 0; block < count[i]; block++) add_block(&n, i, block);
    st = graft_diffusers_names_apply(&n, WHAT);
    graft_diffusers_names_finish(&n);
    return st;
}
