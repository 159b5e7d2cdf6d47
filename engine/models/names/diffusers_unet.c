/* UNets in diffusers' names: how many layers they have where, and what checkpoints call those. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"
#include "engine/models/parts/arch.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define MOST_RESIDUAL 16 /* of one level */
#define MOST_DEPTH    64

enum { DOWN, UP };
static const char *const half_name[] = {"down_blocks", "up_blocks"};

/* Counts are the highest number in the file and one more: what is missing below is noticed when
 * layers are named. */
typedef struct level_layers {
    int residual;
    int depth[MOST_RESIDUAL]; /* of the transformer behind each; 0: none there */
} level_layers;

typedef struct unet_layers {
    int levels[2]; /* of DOWN and UP */
    level_layers level[2][GRAFT_MAX_LEVELS];
    int middle_residual, middle_depth;
} unet_layers;

/* ------------------------------------------------------------------ counting */

static void raise_to(int *count, int number)
{
    if (*count <= number) *count = number + 1;
}

/* How many blocks a transformer has at least: `rest` is what follows its name. */
static bool count_depth(int *depth, const char *rest)
{
    int block = 0, n = 0;
    raise_to(depth, 0);
    if (sscanf(rest, "transformer_blocks.%d.%n", &block, &n) != 1 || !n) return true;
    if (block < 0 || block >= MOST_DEPTH) return false;
    raise_to(depth, block);
    return true;
}

/* False where a number is beyond what a UNet has. */
static bool count_one(unet_layers *u, const char *name)
{
    int half = graft_str_starts(name, "up_blocks.") ? UP : DOWN, level = 0, k = 0, n = 0;
    char kind[16];
    if (graft_str_starts(name, "mid_block.attentions.0."))
        return count_depth(&u->middle_depth, name + strlen("mid_block.attentions.0."));
    if (sscanf(name, "mid_block.resnets.%d.%n", &k, &n) == 1 && n) {
        raise_to(&u->middle_residual, k);
        return k >= 0 && k < 2;
    }
    name += graft_str_starts(name, half_name[half]) ? strlen(half_name[half]) : 0;
    if (sscanf(name, ".%d.%15[a-z].%d.%n", &level, kind, &k, &n) != 3 || !n) return true;
    bool residual = strcmp(kind, "resnets") == 0, transformer = strcmp(kind, "attentions") == 0;
    if (!residual && !transformer) return true;
    if (level < 0 || level >= GRAFT_MAX_LEVELS || k < 0 || k >= MOST_RESIDUAL) return false;
    level_layers *l = &u->level[half][level];
    raise_to(&u->levels[half], level);
    raise_to(&l->residual, k);
    return residual || count_depth(&l->depth[k], name + n);
}

static graft_status count_layers(const graft_safetensors *f, unet_layers *u, graft_err *e)
{
    memset(u, 0, sizeof *u);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        if (!count_one(u, name))
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: Stable Diffusion's UNet has no tensor %.200s",
                              graft_safetensors_path(f), name);
    }
    for (int half = DOWN; half <= UP; half++)
        for (int i = 0; i < u->levels[half]; i++) raise_to(&u->level[half][i].residual, 0);
    return GRAFT_OK;
}

/* Every input block hands its features to an output block; what a checkpoint's UNet has room for.
 */
static graft_status check_counts(const graft_safetensors *f, const unet_layers *u, graft_err *e)
{
    int residual[2] = {0, 0};
    for (int half = DOWN; half <= UP; half++)
        for (int i = 0; i < u->levels[half]; i++) residual[half] += u->level[half][i].residual;
    int blocks = residual[DOWN] + u->levels[DOWN];
    if (blocks > GRAFT_MAX_BLOCKS)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: more than %d blocks",
                          graft_safetensors_path(f), GRAFT_MAX_BLOCKS);
    if (u->levels[DOWN] == u->levels[UP] && residual[UP] == blocks) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT,
                      "%s: %d levels with %d resnets in up_blocks do not fit %d levels with %d in "
                      "down_blocks, which need %d",
                      graft_safetensors_path(f), u->levels[UP], residual[UP], u->levels[DOWN],
                      residual[DOWN], blocks);
}

/* ------------------------------------------------------------------ naming */

static void transformer_block(graft_diffusers_names *n, graft_name ours, graft_name theirs)
{
    static const char *const layers[] = {
        "norm1", "norm2", "norm3", "attn1.to_out.0", "attn2.to_out.0", "ff.net.0.proj", "ff.net.2"};
    static const char *const matrices[] = {"attn1.to_q", "attn1.to_k", "attn1.to_v",
                                           "attn2.to_q", "attn2.to_k", "attn2.to_v"};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        graft_diffusers_names_layer(n, NAME("%s.%s", ours.text, layers[i]),
                                    NAME("%s.%s", theirs.text, layers[i]));
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        graft_diffusers_names_tensor(n, NAME("%s.%s.weight", ours.text, matrices[i]),
                                     NAME("%s.%s.weight", theirs.text, matrices[i]), false);
}

static void transformer(graft_diffusers_names *n, int depth, graft_name ours, graft_name theirs)
{
    static const char *const layers[] = {"norm", "proj_in", "proj_out"};
    if (!depth) return;
    for (int i = 0; i < 3; i++)
        graft_diffusers_names_layer(n, NAME("%s.%s", ours.text, layers[i]),
                                    NAME("%s.%s", theirs.text, layers[i]));
    for (int i = 0; i < depth && !n->status; i++)
        transformer_block(n, NAME("%s.transformer_blocks.%d", ours.text, i),
                          NAME("%s.transformer_blocks.%d", theirs.text, i));
}

/* One residual block with the transformer behind it. */
static void block(graft_diffusers_names *n, const unet_layers *u, int half, int level, int k,
                  graft_name ours)
{
    graft_name theirs = NAME("%s.%d", half_name[half], level);
    graft_diffusers_names_residual(n, graft_diffusers_residual, NAME("%s.0", ours.text),
                                   NAME("%s.resnets.%d", theirs.text, k));
    transformer(n, u->level[half][level].depth[k], NAME("%s.1", ours.text),
                NAME("%s.attentions.%d", theirs.text, k));
}

static void input_blocks(graft_diffusers_names *n, const unet_layers *u)
{
    int i = 1; /* the block 0 is conv_in */
    for (int level = 0; level < u->levels[DOWN] && !n->status; level++) {
        for (int k = 0; k < u->level[DOWN][level].residual; k++)
            block(n, u, DOWN, level, k, NAME("input_blocks.%d", i++));
        if (level + 1 < u->levels[DOWN])
            graft_diffusers_names_layer(n, NAME("input_blocks.%d.0.op", i++),
                                        NAME("down_blocks.%d.downsamplers.0.conv", level));
    }
}

static void output_blocks(graft_diffusers_names *n, const unet_layers *u)
{
    int i = 0;
    for (int level = 0; level < u->levels[UP] && !n->status; level++) {
        const level_layers *l = &u->level[UP][level];
        for (int k = 0; k < l->residual; k++)
            block(n, u, UP, level, k, NAME("output_blocks.%d", i++));
        if (level + 1 < u->levels[UP])
            graft_diffusers_names_layer(
                n, NAME("output_blocks.%d.%d.conv", i - 1, l->depth[l->residual - 1] ? 2 : 1),
                NAME("up_blocks.%d.upsamplers.0.conv", level));
    }
}

static void rest(graft_diffusers_names *n, const unet_layers *u)
{
    bool label = graft_diffusers_names_any(n, NAME("add_embedding."));
    for (const graft_diffusers_pair *p = graft_diffusers_single; p->ours; p++)
        if (label || !graft_str_starts(p->theirs, "add_embedding."))
            graft_diffusers_names_layer(n, NAME("%s", p->ours), NAME("%s", p->theirs));
    /* Pruned models have one residual block there or none, but two around a transformer. */
    const int residual = u->middle_depth ? 2 : u->middle_residual;
    for (int k = 0; k < residual; k++)
        graft_diffusers_names_residual(n, graft_diffusers_residual,
                                       NAME("middle_block.%d", k && u->middle_depth ? 2 : k),
                                       NAME("mid_block.resnets.%d", k));
    transformer(n, u->middle_depth, NAME("middle_block.1"), NAME("mid_block.attentions.0"));
}

/* ------------------------------------------------------------------ the file */

/* "conv1.weight" */
static bool is_residual(const char *name)
{
    for (const graft_diffusers_pair *p = graft_diffusers_residual; p->ours; p++) {
        size_t n = strlen(p->theirs);
        if (strncmp(name, p->theirs, n) == 0 &&
            (strcmp(name + n, ".weight") == 0 || strcmp(name + n, ".bias") == 0))
            return true;
    }
    return false;
}

/* By its residual blocks: LoRAs, adapters and UNets for video have others, and ControlNets, which
 * have the same, no blocks that lead up. */
static bool is_unet(const graft_safetensors *f)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        int level, k, n = 0;
        if (!graft_str_starts(name, half_name[UP])) continue; /* most files are none */
        if (sscanf(name, "up_blocks.%d.resnets.%d.%n", &level, &k, &n) == 2 && n &&
            is_residual(name + n))
            return true;
    }
    return false;
}

graft_status graft_diffusers_adopt_unet(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    unet_layers u;
    graft_status st;
    if (!is_unet(f)) return GRAFT_OK;
    if ((st = count_layers(f, &u, e))) return st;
    st = graft_diffusers_names_init(&n, f, e);
    input_blocks(&n, &u);
    output_blocks(&n, &u);
    rest(&n, &u);
    if (!n.status) n.status = check_counts(f, &u, e);
    st = graft_diffusers_names_apply(&n, "Stable Diffusion's UNet");
    graft_diffusers_names_finish(&n);
    return st;
}
