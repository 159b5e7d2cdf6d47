/* A TAEHV for single pictures of Wan 2.1's latents, by the names and shapes of its tensors. */
#include <string.h>

#include "engine/models/detect/detect_parts.h"
#include "engine/models/vaes/taehv.h"

#define MAX_WIDTH  1024
#define MAX_BLOCKS 16 /* of a level */
#define LATENT     16
#define COLOURS    3

/* A half on its way: the number of the next layer, as its author counts them. */
typedef struct walk {
    const graft_safetensors *f;
    const char *prefix, *half;
    int32_t at;
} walk;

static const graft_st_tensor *layer(const walk *w, int32_t number, const char *rest)
{
    return graft_detect_find(w->f, w->prefix, "%s.%d.%s", w->half, number, rest);
}

static graft_status no_layer(const walk *w, int32_t number, const char *rest, graft_err *e)
{
    return graft_detect_missing(w->f, w->prefix,
                                graft_name_make("%s.%d.%s", w->half, number, rest).text, e);
}

static graft_status odd(const walk *w, long long value, const char *what, graft_err *e)
{
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: a TAEHV with %lld %s",
                      graft_safetensors_path(w->f), value, what);
}

/* A 3x3 convolution: what it gives, and what goes in. */
static graft_status conv3(const walk *w, int32_t number, int32_t *out, int32_t *in, graft_err *e)
{
    const graft_st_tensor *t = layer(w, number, "weight");
    if (!t || t->rank != 4 || t->shape[2] != 3 || t->shape[3] != 3)
        return no_layer(w, number, "weight", e);
    *out = graft_detect_dim(t, 0);
    *in = graft_detect_dim(t, 1);
    if (!*out || !*in) return no_layer(w, number, "weight", e);
    return *out <= MAX_WIDTH ? GRAFT_OK : odd(w, *out, "channels", e);
}

static graft_status blocks(walk *w, int32_t *n, graft_err *e)
{
    for (; layer(w, w->at, "conv.0.weight"); w->at++)
        if (++*n > MAX_BLOCKS) return odd(w, *n, "blocks or more on a level", e);
    return GRAFT_OK;
}

/* How many pictures a pointwise layer makes of one, or of how many it makes one. */
static graft_status times(const walk *w, bool grows, int32_t width, int32_t want, graft_err *e)
{
    const graft_st_tensor *t = layer(w, w->at, "conv.weight");
    const int32_t out = graft_detect_dim(t, 0), in = graft_detect_dim(t, 1);
    const int32_t one = grows ? in : out, all = grows ? out : in;
    if (!t || t->rank < 2 || one != width) return no_layer(w, w->at, "conv.weight", e);
    if (all == want * width) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: %s%s.%d makes other numbers of pictures than Wan 2.1's TAEHV",
                      graft_safetensors_path(w->f), w->prefix, w->half, (int)w->at);
}

static graft_status decoder(const graft_safetensors *f, const char *prefix, graft_vae_arch *out,
                            graft_err *e)
{
    walk w = {f, prefix, "decoder", 3};
    int32_t width, in;
    graft_status st = conv3(&w, 1, &width, &out->z_channels, e);
    if (st) return st;
    if (out->z_channels != LATENT)
        return odd(&w, out->z_channels, "channels of latents; those of Wan 2.1 have 16", e);
    for (int32_t i = 0; i < GRAFT_TAEHV_LEVELS && !st; i++) {
        out->channels[GRAFT_TAEHV_LEVELS - 1 - i] = width;
        st = blocks(&w, &out->half[1].blocks[i], e);
        if (st || i + 1 == GRAFT_TAEHV_LEVELS) break;
        w.at++; /* an up-sampling has no tensors */
        st = times(&w, true, width, graft_taehv_grows(i + 1), e);
        if (!st) st = conv3(&w, w.at + 1, &width, &in, e);
        w.at += 2;
    }
    const int32_t *n = out->half[1].blocks; /* two pictures are on one level only, for its blocks */
    if (!st && !n[2]) st = odd(&w, 0, "blocks on the level of two pictures", e);
    if (!st && n[3]) st = odd(&w, n[3], "blocks behind the last up-sampling", e);
    if (!st) st = conv3(&w, w.at + 1, &out->out_channels, &in, e);
    if (!st && out->out_channels != COLOURS)
        st = odd(&w, out->out_channels, "channels of pictures; Wan 2.1's has 3", e);
    return st;
}

static graft_status encoder(const graft_safetensors *f, const char *prefix, graft_vae_arch *out,
                            graft_err *e)
{
    walk w = {f, prefix, "encoder", 2};
    int32_t *width = &out->half[0].width, latent = 0, other = 0, in;
    graft_status st = conv3(&w, 0, width, &in, e);
    if (!st && in != COLOURS) st = odd(&w, in, "channels of pictures; Wan 2.1's has 3", e);
    for (int32_t i = 1; i < GRAFT_TAEHV_LEVELS && !st; i++) {
        st = times(&w, false, *width, graft_taehv_pools(i), e);
        if (!st) st = conv3(&w, w.at + 1, &other, &in, e);
        w.at += 2;
        if (!st) st = blocks(&w, &out->half[0].blocks[i], e);
    }
    if (!st) st = conv3(&w, w.at, &latent, &in, e);
    if (!st && latent != LATENT)
        st = odd(&w, latent, "channels of latents; those of Wan 2.1 have 16", e);
    return st;
}

/* Any tensor of it: one that lacks the first layer is a damaged file, not a decoder alone. */
static bool has_encoder(const graft_safetensors *f, const char *prefix)
{
    const graft_name below = graft_name_make("%sencoder.", prefix);
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        if (strncmp(graft_safetensors_at(f, i)->name, below.text, strlen(below.text)) == 0)
            return true;
    return false;
}

graft_status graft_taehv_detect(const graft_safetensors *f, const char *prefix, graft_vae_arch *out,
                                graft_err *e)
{
    *out = (graft_vae_arch){.kind = GRAFT_VAE_TAEHV,
                            .levels = GRAFT_TAEHV_LEVELS,
                            .in_channels = COLOURS,
                            .decoder = 1,
                            .encoder = has_encoder(f, prefix)};
    graft_status st = decoder(f, prefix, out, e);
    if (!st && out->encoder) st = encoder(f, prefix, out, e);
    out->embed_dim = out->z_channels;
    return st;
}
