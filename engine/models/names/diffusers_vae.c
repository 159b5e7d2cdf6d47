/* VAEs in diffusers' names: how many layers they have where, and what checkpoints call those. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/models/names/diffusers_file.h"
#include "engine/models/names/diffusers_names.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/folding.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

#define MOST_RESIDUAL 16 /* of one level */

static const graft_diffusers_pair residual[] = {{"norm1", "norm1"},
                                                {"conv1", "conv1"},
                                                {"norm2", "norm2"},
                                                {"conv2", "conv2"},
                                                {"nin_shortcut", "conv_shortcut"},
                                                {NULL, NULL}};

/* Half of a VAE. Counts are the highest number in the file and one more: what is missing below is
 * noticed when layers are named. */
typedef struct vae_half {
    const char *prefix;          /* of all tensors of the VAE */
    const char *name;            /* "encoder" */
    const char *levels, *blocks; /* "down_blocks", "encoder.down" */
    const char *ours, *theirs;   /* of what changes the size: "downsample", "downsamplers" */
    bool backwards;              /* our levels count from the other end */
    int n_levels, n_residual;    /* all levels have as many */
} vae_half;

static const vae_half halves[2] = {
    {"", "encoder", "down_blocks", "encoder.down", "downsample", "downsamplers", false, 0, 0},
    {"", "decoder", "up_blocks", "decoder.up", "upsample", "upsamplers", true, 0, 0}};

/* Level and number of the residual block that the tensor is of; returns its name there, or NULL: it
 * is of none. */
static const char *place_of(const vae_half *h, const char *name, int *level, int *k)
{
    graft_name above = NAME("%s%s.%s.", h->prefix, h->name, h->levels);
    int n = 0;
    if (!graft_str_starts(name, above.text)) return NULL;
    name += strlen(above.text);
    return sscanf(name, "%d.resnets.%d.%n", level, k, &n) == 2 && n ? name + n : NULL;
}

static graft_status count_layers(const graft_safetensors *f, vae_half *h, graft_err *e)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        int level, k;
        if (!place_of(h, name, &level, &k)) continue;
        if (level < 0 || level >= GRAFT_MAX_LEVELS || k < 0 || k >= MOST_RESIDUAL)
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "%s: Stable Diffusion's VAE has no tensor %.200s",
                              graft_safetensors_path(f), name);
        if (h->n_levels <= level) h->n_levels = level + 1;
        if (h->n_residual <= k) h->n_residual = k + 1;
    }
    return GRAFT_OK;
}

/* Its matrices had two names each; a checkpoint's are 1x1 convolutions. */
static void attention(graft_diffusers_names *n, graft_name ours, graft_name theirs)
{
    static const struct {
        const char *ours, *old, *new;
    } layer[] = {{"q", "query", "to_q"},
                 {"k", "key", "to_k"},
                 {"v", "value", "to_v"},
                 {"proj_out", "proj_attn", "to_out.0"}};
    graft_diffusers_names_layer(n, NAME("%s.norm", ours.text), NAME("%s.group_norm", theirs.text));
    for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
        graft_name old = NAME("%s.%s", theirs.text, layer[i].old);
        graft_name name = graft_diffusers_names_any(n, NAME("%s.", old.text))
                              ? old
                              : NAME("%s.%s", theirs.text, layer[i].new);
        graft_diffusers_names_tensor(n, NAME("%s.%s.weight", ours.text, layer[i].ours),
                                     NAME("%s.weight", name.text), true);
        graft_diffusers_names_tensor(n, NAME("%s.%s.bias", ours.text, layer[i].ours),
                                     NAME("%s.bias", name.text), false);
    }
}

static void level_blocks(graft_diffusers_names *n, const vae_half *h, int level)
{
    int own = h->backwards ? h->n_levels - 1 - level : level;
    for (int k = 0; k < h->n_residual && !n->status; k++)
        graft_diffusers_names_residual(
            n, residual, NAME("%s%s.%d.block.%d", h->prefix, h->blocks, own, k),
            NAME("%s%s.%s.%d.resnets.%d", h->prefix, h->name, h->levels, level, k));
    if (level + 1 < h->n_levels)
        graft_diffusers_names_layer(
            n, NAME("%s%s.%d.%s.conv", h->prefix, h->blocks, own, h->ours),
            NAME("%s%s.%s.%d.%s.0.conv", h->prefix, h->name, h->levels, level, h->theirs));
}

static void half(graft_diffusers_names *n, const vae_half *h)
{
    const graft_name whole = NAME("%s%s", h->prefix, h->name);
    const char *name = whole.text;
    const graft_name in = NAME("%s.conv_in", name), out = NAME("%s.conv_out", name);
    if (!graft_diffusers_names_any(n, NAME("%s.", name))) return;
    graft_diffusers_names_layer(n, in, in);
    for (int level = 0; level < h->n_levels; level++) level_blocks(n, h, level);
    graft_diffusers_names_residual(n, residual, NAME("%s.mid.block_1", name),
                                   NAME("%s.mid_block.resnets.0", name));
    attention(n, NAME("%s.mid.attn_1", name), NAME("%s.mid_block.attentions.0", name));
    graft_diffusers_names_residual(n, residual, NAME("%s.mid.block_2", name),
                                   NAME("%s.mid_block.resnets.1", name));
    graft_diffusers_names_layer(n, NAME("%s.norm_out", name), NAME("%s.conv_norm_out", name));
    graft_diffusers_names_layer(n, out, out);
}

/* The decoder has one residual block more in each level. */
static graft_status check_counts(const graft_safetensors *f, const vae_half h[2], graft_err *e)
{
    if (!h[0].n_levels ||
        (h[0].n_levels == h[1].n_levels && h[0].n_residual + 1 == h[1].n_residual))
        return GRAFT_OK;
    return graft_fail(e, GRAFT_E_FORMAT,
                      "%s: %d levels of %d resnets in encoder.down_blocks do not fit %d levels of "
                      "%d in decoder.up_blocks",
                      graft_safetensors_path(f), h[0].n_levels, h[0].n_residual, h[1].n_levels,
                      h[1].n_residual);
}

/* By the decoder's residual blocks, as a VAE is nothing without. */
static bool is_vae(const graft_safetensors *f, const char *prefix)
{
    vae_half decoder = halves[1];
    decoder.prefix = prefix;
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        int level, k;
        const char *rest = place_of(&decoder, graft_safetensors_at(f, i)->name, &level, &k);
        if (rest && strcmp(rest, "conv1.weight") == 0) return true;
    }
    return false;
}

/* Names for all that a VAE has below the prefix. */
static graft_status name_below(graft_diffusers_names *n, const char *prefix)
{
    static const char *const quant[] = {"quant_conv", "post_quant_conv"};
    /* FLUX.2's; the last says how long its training was. */
    static const char *const statistics[] = {GRAFT_VAE_MEAN, GRAFT_VAE_VARIANCE,
                                             "bn.num_batches_tracked"};
    vae_half h[2] = {halves[0], halves[1]};
    for (int i = 0; i < 2 && !n->status; i++) {
        h[i].prefix = prefix;
        n->status = count_layers(n->f, &h[i], n->e);
    }
    for (int i = 0; i < 2 && !n->status; i++) {
        const graft_name same = NAME("%s%s", prefix, quant[i]);
        half(n, &h[i]);
        if (graft_diffusers_names_any(n, NAME("%s.", same.text)))
            graft_diffusers_names_layer(n, same, same);
    }
    for (size_t i = 0; i < sizeof statistics / sizeof *statistics; i++) {
        const graft_name same = NAME("%s%s", prefix, statistics[i]);
        if (graft_diffusers_has(n->f, same.text))
            graft_diffusers_names_tensor(n, same, same, false);
    }
    if (!n->status) n->status = check_counts(n->f, h, n->e);
    return n->status;
}

graft_status graft_diffusers_adopt_vae(graft_safetensors *f, graft_err *e)
{
    graft_diffusers_names n;
    if (graft_diffusers_is_wan_vae(f)) return graft_diffusers_adopt_wan_vae(f, e);
    if (!is_vae(f, "")) return graft_diffusers_adopt_vae_below(f, e);
    graft_diffusers_names_init(&n, f, e);
    name_below(&n, "");
    graft_status st = graft_diffusers_names_apply(&n, "Stable Diffusion's VAE");
    graft_diffusers_names_finish(&n);
    return st;
}

graft_status graft_diffusers_adopt_vae_below(graft_safetensors *f, graft_err *e)
{
    static const char *const prefixes[] = {"vae.", "first_stage_model.", NULL};
    graft_diffusers_names n;
    const char *const *p = prefixes;
    while (*p && !is_vae(f, *p)) p++;
    if (!*p) return GRAFT_OK;
    graft_diffusers_names_init(&n, f, e);
    name_below(&n, *p);
    graft_status st = n.status ? n.status : graft_safetensors_rename(f, n.alias, e);
    graft_diffusers_names_finish(&n);
    return st;
}
