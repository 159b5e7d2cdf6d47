/* Tiny autoencoders, by the names and shapes of their tensors. */
#include <string.h>

#include "engine/models/detect/detect_parts.h"
#include "engine/models/vaes/taesd.h"

#define MAX_WIDTH    1024
#define MAX_BLOCKS   16 /* of a level */
#define LATENT       4  /* channels: those of Stable Diffusion 1 and 2, and of SDXL */
#define LATENT_SD3   16
#define LATENT_FLUX2 32 /* of a cell, four of which are a place */
#define COLOURS      3

/* A half on its way: the number of the next layer, as its author counts them. */
typedef struct walk {
    const graft_safetensors *f;
    const char *prefix;
    const graft_vae_arch *a;
    bool decoder;
    int32_t at;
} walk;

static const graft_st_tensor *layer(const walk *w, int32_t number, const char *rest)
{
    return graft_detect_find(w->f, w->prefix, "%s.%s",
                             graft_taesd_layer(w->a, w->decoder, number).text, rest);
}

static graft_status no_layer(const walk *w, int32_t number, const char *rest, graft_err *e)
{
    const graft_name name = graft_taesd_layer(w->a, w->decoder, number);
    return graft_detect_missing(w->f, w->prefix, graft_name_make("%s.%s", name.text, rest).text, e);
}

static bool is_conv3(const graft_st_tensor *t)
{
    return t && t->rank == 4 && t->shape[2] == 3 && t->shape[3] == 3;
}

static graft_status odd(const walk *w, const char *what, long long value, graft_err *e)
{
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: a tiny autoencoder with %lld %s",
                      graft_safetensors_path(w->f), value, what);
}

/* The first convolution: how wide the half is, and what goes in. */
static graft_status first_layer(walk *w, int32_t *width, int32_t *in, graft_err *e)
{
    const int32_t number = w->decoder ? 1 : 0;
    const graft_st_tensor *t = layer(w, number, "weight");
    *width = graft_detect_dim(t, 0);
    *in = graft_detect_dim(t, 1);
    if (!is_conv3(t) || !*width || !*in) return no_layer(w, number, "weight", e);
    if (*width > MAX_WIDTH) return odd(w, "channels", *width, e);
    w->at = w->decoder ? 3 : 1;
    return GRAFT_OK;
}

/* Blocks, then a convolution that changes the size, and so on. A convolution with a bias is the
 * last one: *out says what it gives. */
static graft_status other_layers(walk *w, graft_tiny_half *half, int32_t *levels, int32_t *out,
                                 graft_err *e)
{
    for (*levels = 1;; (*levels)++) {
        int32_t *blocks = &half->blocks[*levels - 1];
        /* Those at the latent have it or none has: all others are refused as unknown tensors. */
        const bool pool = layer(w, w->at, "pool.0.weight") != NULL;
        half->pooled = w->decoder && *levels > 1 ? half->pooled : pool;
        for (; layer(w, w->at, "conv.0.weight"); w->at++)
            if (++*blocks > MAX_BLOCKS) return odd(w, "blocks or more on a level", *blocks, e);
        const graft_st_tensor *t = layer(w, w->at, "weight");
        if (t && layer(w, w->at, "bias")) {
            *out = graft_detect_dim(t, 0);
            return is_conv3(t) && *out ? GRAFT_OK : no_layer(w, w->at, "weight", e);
        }
        if (w->decoder) w->at++; /* an up-sampling has no tensors */
        if (!layer(w, w->at, "weight")) return no_layer(w, w->at, "weight", e);
        if (*levels == GRAFT_MAX_LEVELS) return odd(w, "levels or more", *levels + 1, e);
        w->at++;
    }
}

/* Into out->half, and what both halves must agree on. */
static graft_status detect_half(const graft_safetensors *f, const char *prefix, bool decoder,
                                graft_vae_arch *out, graft_err *e)
{
    walk w = {f, prefix, out, decoder, 0};
    int32_t in = 0, last = 0, levels = 0;
    graft_tiny_half *half = &out->half[decoder];
    graft_status st = first_layer(&w, &half->width, &in, e);
    if (!st) st = other_layers(&w, half, &levels, &last, e);
    if (st) return st;
    const int32_t latent = decoder ? in : last, colours = decoder ? last : in;
    if (latent != LATENT && latent != LATENT_SD3 && latent != LATENT_FLUX2)
        return odd(&w, "channels of latents; those of the models here have 4, 16 or 32", latent, e);
    if (colours != COLOURS) return odd(&w, "channels of pictures; they have 3 here", colours, e);
    if (out->levels && out->levels != levels)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: the encoder changes the size %d times and the decoder %d times",
                          graft_safetensors_path(f), out->levels - 1, levels - 1);
    if (out->z_channels && out->z_channels != latent)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: the encoder's latents have %d channels and the decoder's %d",
                          graft_safetensors_path(f), out->z_channels, latent);
    out->levels = levels;
    out->kind = GRAFT_VAE_TINY;
    out->z_channels = out->embed_dim = latent;
    out->fold = latent == LATENT_FLUX2 ? 2 : 0;
    out->in_channels = out->out_channels = COLOURS;
    *(decoder ? &out->decoder : &out->encoder) = 1;
    return GRAFT_OK;
}

/* Any tensor of it: one that lacks the first layer is a damaged file, not a decoder alone. */
static bool has_encoder(const graft_safetensors *f, const char *prefix)
{
    const graft_name below = graft_name_make("%sencoder.layers.", prefix);
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        if (strncmp(graft_safetensors_at(f, i)->name, below.text, strlen(below.text)) == 0)
            return true;
    return false;
}

graft_status graft_taesd_detect(const graft_safetensors *f, const char *prefix, graft_vae_arch *out,
                                graft_err *e)
{
    out->names = GRAFT_TINY_LAYERS;
    graft_status st = GRAFT_OK;
    if (has_encoder(f, prefix)) st = detect_half(f, prefix, false, out, e);
    return st ? st : detect_half(f, prefix, true, out, e);
}

graft_status graft_taesd_pair_detect(const graft_safetensors *encoder,
                                     const graft_safetensors *decoder, graft_vae_arch *out,
                                     graft_err *e)
{
    memset(out, 0, sizeof *out);
    out->names = GRAFT_TINY_NUMBERS;
    graft_status st = encoder ? detect_half(encoder, "", false, out, e) : GRAFT_OK;
    return st ? st : detect_half(decoder, "", true, out, e);
}

graft_tiny_part graft_taesd_half_in(const graft_safetensors *f)
{
    if (is_conv3(graft_detect_find(f, "", "1.weight")) &&
        graft_detect_find(f, "", "3.conv.0.weight"))
        return GRAFT_TINY_DECODER;
    if (is_conv3(graft_detect_find(f, "", "0.weight")) &&
        graft_detect_find(f, "", "1.conv.0.weight"))
        return GRAFT_TINY_ENCODER;
    return GRAFT_TINY_NONE;
}
