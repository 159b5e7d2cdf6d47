/* VAEs and TAESDs: of a checkpoint, of a file of their own, of two files. */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/str.h"
#include "engine/files/kinds.h"
#include "engine/files/load.h"
#include "engine/models/detect/detect.h"
#include "engine/models/transformers/ideogram4.h"

#define CELL_PIXELS 8 /* of the picture's width and height in one of the models' latents */

static const char *const prefixes[] = {"first_stage_model.", "vae.", "", NULL};

/* Whether the word, of small letters and digits, is in it: "taesdxl_decoder", "SDXL-tiny". */
static bool says(const char *name, size_t n, const char *word)
{
    size_t k = strlen(word), same = 0;
    for (size_t i = 0; i + k <= n && same < k; i++)
        for (same = 0; same < k && (name[i + same] | 32) == word[same];) same++;
    return same == k;
}

/* Tiny autoencoders of several models have the same tensors in the same shapes; what tells them
 * apart is what people call them: the file, or where all files have one name, its folder. */
static bool named(const char *path, const char *word)
{
    const char *name = strrchr(path, '/');
    if (!name) return says(path, strlen(path), word);
    const char *folder = name;
    while (folder > path && folder[-1] != '/') folder--;
    return says(name, strlen(name), word) || says(folder, (size_t)(name - folder), word);
}

/* With 16 channels they are Stable Diffusion 3's, unless the transformer beside it or the name says
 * that they are FLUX's. */
static void configure_tiny_flow(graft_vae *v, const graft_safetensors *f,
                                const graft_checkpoint_config *c)
{
    const char *path = graft_safetensors_path(f);
    bool flux = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_FLUX_TENSOR) ||
                graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_ZIMAGE_TENSOR) ||
                graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_OMNIGEN2_TENSOR) ||
                graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_HIDREAM_TENSOR);
    if (!flux && !graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_MMDIT_TENSOR))
        flux = named(path, "taef1") || named(path, "flux");
    v->scale_factor = flux ? GRAFT_LOAD_FLUX_SCALE : GRAFT_LOAD_SD3_SCALE;
    v->latent_shift = flux ? GRAFT_LOAD_FLUX_SHIFT : GRAFT_LOAD_SD3_SHIFT;
    if (c->scale_factor > 0) {
        v->scale_factor = c->scale_factor;
        v->latent_shift = 0;
    }
}

/* A place of FLUX.2's latents has the planes of a square of cells, which the network sees as they
 * travel between nodes. */
static void configure_tiny_folded(graft_vae *v, const graft_checkpoint_config *c)
{
    v->scale_factor = c->scale_factor > 0 ? c->scale_factor : 1;
    v->latent_shift = 0;
    graft_folding_alone(&v->folding);
}

/* Wan 2.1's latents: as a network sees them, normalized, or with this name as the VAE gives them.
 * Those of HunyuanVideo have as many channels, and no model here has them. */
static graft_status configure_taehv(graft_vae *v, const graft_safetensors *f,
                                    const graft_checkpoint_config *c, graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    if (!named(path, "taew") && (named(path, "taehv") || named(path, "hunyuan")))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: by its name a TAEHV of HunyuanVideo's latents, which no model here "
                          "has; that of Wan 2.1's has taew in its name",
                          path);
    v->planes = c->raw_latents || named(path, "lighttae") ? NULL : &graft_wan_planes;
    v->scale_factor = 1;
    v->latent_shift = 0;
    return GRAFT_OK;
}

/* Whose latents they are: what the file's config says; in a checkpoint, what its UNet is. */
static graft_status configure_tiny(graft_vae *v, const graft_safetensors *f, graft_err *e)
{
    graft_checkpoint_config c;
    graft_status st = graft_checkpoint_config_read(f, &c, e);
    if (st) return st;
    if (v->arch.kind == GRAFT_VAE_TAEHV) return configure_taehv(v, f, &c, e);
    if (v->arch.fold) {
        configure_tiny_folded(v, &c);
        return GRAFT_OK;
    }
    if (v->arch.z_channels != GRAFT_PREVIEW_CHANNELS) {
        configure_tiny_flow(v, f, &c);
        return GRAFT_OK;
    }
    const char *unet = graft_load_prefix(f, graft_load_unet_prefixes, "input_blocks.0.0.weight");
    bool xl = unet ? graft_load_has(f, unet, "label_emb.0.0.weight")
                   : named(graft_safetensors_path(f), "xl");
    v->scale_factor = c.scale_factor > 0 ? c.scale_factor
                      : xl               ? GRAFT_LOAD_SDXL_SCALE
                                         : GRAFT_LOAD_SD_SCALE;
    v->colours = xl ? graft_preview_sdxl : graft_preview_sd;
    if (c.preview_given) memcpy(v->colours.row, c.preview, sizeof c.preview);
    return GRAFT_OK;
}

/* Unlike elsewhere, a tensor that the graph does not read makes it a network of another kind: there
 * are no norms, or few, that would hide what is missing. */
static graft_status check_tiny(const graft_vae *v, const graft_graph *g, bool decoder, graft_err *e)
{
    const graft_weights *w = graft_vae_weights(v, decoder);
    const graft_safetensors *f = graft_weights_file(w);
    const bool hv = v->arch.kind == GRAFT_VAE_TAEHV;
    const char *const half = decoder ? "decoder." : "encoder.", *name;
    graft_str below = GRAFT_STR_INIT;
    graft_map used = GRAFT_MAP_INIT;
    graft_status st = GRAFT_OK;
    graft_str_puts(&below, graft_weights_prefix(w));
    if (v->arch.names == GRAFT_TINY_LAYERS)
        graft_str_printf(&below, "%s%s", half, hv ? "" : "layers.");
    if (below.failed) st = graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < g->n_slots && !st; i++)
        if (graft_map_put(&used, g->slot[i].source[0], &used))
            st = graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        name = graft_safetensors_at(f, i)->name;
        if (!graft_str_starts(name, below.data)) continue;
        if (!graft_map_has(&used, name + strlen(graft_weights_prefix(w))))
            st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                            "%s: a tiny autoencoder of an unknown kind: a %s has no tensor %s",
                            graft_safetensors_path(f), hv ? "TAEHV" : "TAESD", name);
    }
    graft_map_finish(&used);
    graft_str_finish(&below);
    return st;
}

static graft_status check_vae(const graft_vae *v, bool decoder, graft_err *e)
{
    const graft_weights *w = graft_vae_weights(v, decoder);
    graft_graph *g = NULL;
    graft_status st = decoder ? graft_vae_decoder_build(&v->arch, 1, 8, 8, GRAFT_F32, &g, e)
                              : graft_vae_encoder_build(&v->arch, 1, 64, 64, GRAFT_F32, &g, e);
    st = st ? graft_load_blame(w, st, e) : graft_weights_check(w, g, e);
    if (!st && graft_vae_is_tiny(&v->arch)) st = check_tiny(v, g, decoder, e);
    graft_graph_destroy(g);
    return st;
}

static graft_status new_vae(graft_engine *engine, graft_vae **out, graft_err *e)
{
    graft_vae *v = graft_calloc(1, sizeof *v);
    if (!v) return graft_fail_nomem(e, "VAE");
    atomic_init(&v->refs, 1);
    v->engine = engine;
    v->options.tile = true; /* for GRAFT_MEMORY_MB; the picture is the same */
    *out = v;
    return GRAFT_OK;
}

static graft_status check_halves(const graft_vae *v, graft_err *e)
{
    graft_status st = check_vae(v, true, e);
    if (!st && v->arch.encoder) st = check_vae(v, false, e);
    return st;
}

static graft_status no_vae(const graft_safetensors *f, graft_err *e)
{
    char guess[128];
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: no VAE in it%s (tensor first_stage_model.decoder.conv_in.weight is "
                      "missing)",
                      graft_safetensors_path(f),
                      graft_kind_guess(f, "VAELoader", guess, sizeof guess));
}

graft_status graft_load_vae_part(graft_engine *engine, graft_weights *file, graft_vae **out,
                                 graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const char *prefix = graft_load_prefix(f, prefixes, "decoder.conv_in.weight");
    graft_vae *v = NULL;
    graft_status st = GRAFT_OK;
    if (!prefix) prefix = graft_load_prefix(f, prefixes, "decoder.layers.0.weight");
    if (!prefix) prefix = graft_load_prefix(f, prefixes, GRAFT_WAN_VAE_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, prefixes, GRAFT_TAEHV_TENSOR);
    if (!prefix) return no_vae(f, e);
    GRAFT_TRY(new_vae(engine, &v, e));
    GRAFT_TRY(graft_vae_detect(f, prefix, &v->arch, e));
    GRAFT_TRY(graft_weights_part(file, prefix, &v->weights, e));
    if (graft_vae_is_tiny(&v->arch))
        GRAFT_TRY(configure_tiny(v, f, e));
    else if (v->arch.fold)
        GRAFT_TRY(graft_folding_read(v->weights, &v->folding, e));
    GRAFT_TRY(check_halves(v, e));
    *out = v;
    v = NULL;
out:
    graft_vae_release(v);
    return st;
}

/* From the files of a TAESD's author; `encoder` may be NULL. */
static graft_status make_pair(graft_engine *engine, graft_weights *encoder, graft_weights *decoder,
                              graft_vae **out, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(decoder);
    graft_vae *v = NULL;
    graft_status st = new_vae(engine, &v, e);
    if (st) return st;
    GRAFT_TRY(
        graft_taesd_pair_detect(encoder ? graft_weights_file(encoder) : NULL, f, &v->arch, e));
    v->weights = graft_weights_retain(decoder);
    if (encoder) v->encoder_weights = graft_weights_retain(encoder);
    GRAFT_TRY(configure_tiny(v, f, e));
    GRAFT_TRY(check_halves(v, e));
    *out = v;
    v = NULL;
out:
    graft_vae_release(v);
    return st;
}

graft_status graft_vae_load(graft_engine *engine, const char *path, const graft_task *task,
                            graft_vae **out, graft_err *e)
{
    graft_weights *file = NULL;
    graft_status st = graft_load_open(path, graft_diffusers_adopt_vae, task, &file, e);
    if (st) return st;
    switch (graft_taesd_half_in(graft_weights_file(file))) {
    case GRAFT_TINY_DECODER:
        st = make_pair(engine, NULL, file, out, e);
        break;
    case GRAFT_TINY_ENCODER:
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "%s: the encoder of a TAESD without its decoder; put both files into "
                        "models/vae_approx",
                        path);
        break;
    default:
        st = graft_load_vae_part(engine, file, out, e);
    }
    graft_weights_release(file);
    return st;
}

static graft_status open_half(const char *path, graft_tiny_part part, const graft_task *task,
                              graft_weights **out, graft_err *e)
{
    graft_status st = graft_load_open(path, NULL, task, out, e);
    if (st || graft_taesd_half_in(graft_weights_file(*out)) == part) return st;
    bool decoder = part == GRAFT_TINY_DECODER;
    return graft_fail(
        e, GRAFT_E_UNSUPPORTED,
        "%s: no %s of a TAESD in it (tensor %s.weight or %s.conv.0.weight is missing)", path,
        decoder ? "decoder" : "encoder", decoder ? "1" : "0", decoder ? "3" : "1");
}

graft_status graft_vae_load_pair(graft_engine *engine, const char *encoder_path,
                                 const char *decoder_path, const graft_task *task, graft_vae **out,
                                 graft_err *e)
{
    graft_weights *encoder = NULL, *decoder = NULL;
    graft_status st = GRAFT_OK;
    if (encoder_path) GRAFT_TRY(open_half(encoder_path, GRAFT_TINY_ENCODER, task, &encoder, e));
    GRAFT_TRY(open_half(decoder_path, GRAFT_TINY_DECODER, task, &decoder, e));
    GRAFT_TRY(make_pair(engine, encoder, decoder, out, e));
out:
    graft_weights_release(encoder);
    graft_weights_release(decoder);
    return st;
}

bool graft_vae_is_for(const graft_vae *v, const graft_model *m)
{
    /* Whatever a network sees, what an autoencoder takes is what travels: a TAEHV of Wan 2.1's
     * latents, one for FLUX.2's of those of FLUX.2 and of Ideogram 4. */
    const graft_latent_planes *planes = v->arch.kind == GRAFT_VAE_TAEHV ? &graft_wan_planes
                                        : v->arch.fold && m->planes     ? &graft_ideogram4_planes
                                                                        : NULL;
    bool same = graft_vae_planes(&v->arch) == m->arch.latent_channels &&
                v->scale_factor == m->scale_factor && v->latent_shift == m->latent_shift &&
                m->planes == planes;
    if (v->arch.z_channels == GRAFT_PREVIEW_CHANNELS)
        same = same && memcmp(&v->colours, &m->preview, sizeof v->colours) == 0;
    return same && graft_vae_is_tiny(&v->arch) && graft_vae_factor(&v->arch) <= CELL_PIXELS;
}
