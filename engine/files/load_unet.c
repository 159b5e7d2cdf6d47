/* The UNet or transformer of a file, and what kind of model it makes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/files/kinds.h"
#include "engine/files/load.h"
#include "engine/models/detect/detect.h"
#include "engine/models/transformers/ideogram4.h"

static bool is_sd2_v(const graft_safetensors *f, const char *prefix)
{
    char name[256];
    float v[4096];
    snprintf(name, sizeof name, "%soutput_blocks.11.1.transformer_blocks.0.norm1.bias", prefix);
    const graft_st_tensor *t = graft_safetensors_find(f, name);
    if (!t || t->rank != 1 || t->shape[0] < 2 || t->shape[0] > 4096) return false;
    /* SD 2.x files of the two kinds differ in nothing but their weights; the spread of this bias
     * tells them apart, and is what other programs look at. */
    size_t n = (size_t)t->shape[0];
    double mean = 0, var = 0;
    graft_st_to_f32(t, 0, (int64_t)n, v);
    for (size_t i = 0; i < n; i++) mean += v[i] / (double)n;
    for (size_t i = 0; i < n; i++) var += (v[i] - mean) * (v[i] - mean) / (double)(n - 1);
    return sqrt(var) > 0.09;
}

/* FLUX.1's schedule shifts with the picture's size (ModelSamplingFlux); where nobody says how far,
 * as for a picture of 1024x1024. That of the distilled schnell, which is told no guidance, does
 * not. */
#define FLUX_MU 1.15

/* Lumina-Image 2.0's schedule, as published. OmniGen2's shifts by the picture's size in its
 * authors' code, and by this in ComfyUI, as for 832x832. */
#define LUMINA_SHIFT   6
#define OMNIGEN2_SHIFT 2.6

/* FLUX.2's for both klein and dev. */
#define FLUX2_MU 2.02

/* The latents are what the VAE gives. */
static void configure_flux2(graft_model *m, const graft_checkpoint_config *c)
{
    m->prediction = GRAFT_PREDICT_FLOW;
    m->flow_shift = exp(FLUX2_MU);
    m->flow_steps = GRAFT_SCHEDULE_MOST;
    m->scale_factor = c->scale_factor > 0 ? c->scale_factor : 1;
    m->latent_shift = 0;
    m->preview = graft_preview_flux2;
}

/* Qwen-Image's schedule is FLUX.1 dev's where nobody says how far it shifts; Krea 2's, too, as its
 * Turbo was distilled with it. */
static void configure_qwen_image(graft_model *m)
{
    m->prediction = GRAFT_PREDICT_FLOW;
    m->flow_shift = exp(FLUX_MU);
    m->flow_steps = GRAFT_SCHEDULE_MOST;
    m->scale_factor = 1;
    m->latent_shift = 0;
    if (m->arch.latent_channels != GRAFT_WAN_PLANES) return;
    m->planes = &graft_wan_planes;
    m->preview = graft_preview_wan;
}

/* Qwen-Image 2.1's shifts by the picture's size in its authors' code, and by this in ComfyUI, as
 * for 1024x1024. */
#define QWEN_IMAGE21_MU 0.69

static void configure_qwen_image21(graft_model *m)
{
    configure_qwen_image(m);
    m->flow_shift = exp(QWEN_IMAGE21_MU);
    if (m->arch.latent_channels == GRAFT_QWEN_IMAGE21_PLANES)
        m->planes = &graft_qwen_image21_planes;
}

/* Anima's latents are Qwen-Image's. */
static void configure_anima(graft_model *m)
{
    configure_qwen_image(m);
    m->flow_shift = 3;
    m->flow_steps = GRAFT_SCHEDULE_STEPS;
}

/* What it sees of FLUX.2's latents is normalized anew. Its authors' schedule, which
 * Ideogram4Scheduler has, shifts nothing but by the mean of its own distribution. */
static void configure_ideogram4(graft_model *m, const graft_safetensors *f)
{
    m->prediction = GRAFT_PREDICT_FLOW;
    m->flow_shift = 1;
    m->flow_steps = GRAFT_SCHEDULE_STEPS;
    m->scale_factor = 1;
    m->latent_shift = 0;
    m->promptless = graft_ideogram4_sees_no_prompt(f);
    if (m->arch.latent_channels != graft_ideogram4_planes.n) return;
    m->planes = &graft_ideogram4_planes;
    m->preview = graft_preview_flux2;
    m->preview.travel = 1;
}

/* ERNIE-Image sees FLUX.2's latents as they are. Base and Turbo have the same schedule. */
static void configure_ernie_image(graft_model *m)
{
    m->prediction = GRAFT_PREDICT_FLOW;
    m->flow_shift = 4;
    m->flow_steps = GRAFT_SCHEDULE_STEPS;
    m->scale_factor = 1;
    m->latent_shift = 0;
    m->preview = graft_preview_flux2;
}

/* AuraFlow's latents are SDXL's. */
static void configure_auraflow(graft_model *m, const graft_checkpoint_config *c)
{
    m->prediction = GRAFT_PREDICT_FLOW;
    m->flow_shift = 1.73;
    m->flow_steps = GRAFT_SCHEDULE_STEPS;
    m->scale_factor = c->scale_factor > 0 ? c->scale_factor : GRAFT_LOAD_SDXL_SCALE;
    m->latent_shift = 0;
    m->preview = graft_preview_sdxl;
}

static void configure_flow(graft_model *m, const graft_checkpoint_config *c)
{
    const bool flux = m->arch.kind == GRAFT_NET_FLUX,
               dev = flux && (m->arch.flux.guidance || m->arch.flux.words);
    if (m->arch.kind == GRAFT_NET_FLUX2) {
        configure_flux2(m, c);
        return;
    }
    if (m->arch.kind == GRAFT_NET_ERNIE_IMAGE) {
        configure_ernie_image(m);
        return;
    }
    if (m->arch.kind == GRAFT_NET_AURAFLOW) {
        configure_auraflow(m, c);
        return;
    }
    if (m->arch.kind == GRAFT_NET_QWEN_IMAGE || m->arch.kind == GRAFT_NET_KREA2) {
        configure_qwen_image(m);
        return;
    }
    if (m->arch.kind == GRAFT_NET_QWEN_IMAGE21) {
        configure_qwen_image21(m);
        return;
    }
    if (m->arch.kind == GRAFT_NET_ANIMA) {
        configure_anima(m);
        return;
    }
    const bool omnigen2 = m->arch.kind == GRAFT_NET_OMNIGEN2;
    const bool same_latents =
        flux || omnigen2 || m->arch.kind == GRAFT_NET_ZIMAGE || m->arch.kind == GRAFT_NET_HIDREAM;
    m->prediction = GRAFT_PREDICT_FLOW;
    m->flow_shift = dev                        ? exp(FLUX_MU)
                    : flux                     ? 1
                    : omnigen2                 ? OMNIGEN2_SHIFT
                    : m->arch.zimage.key_heads ? LUMINA_SHIFT
                                               : 3;
    m->flow_steps = dev ? GRAFT_SCHEDULE_MOST : GRAFT_SCHEDULE_STEPS;
    m->scale_factor = same_latents ? GRAFT_LOAD_FLUX_SCALE : GRAFT_LOAD_SD3_SCALE;
    m->latent_shift = same_latents ? GRAFT_LOAD_FLUX_SHIFT : GRAFT_LOAD_SD3_SHIFT;
    m->preview = same_latents ? graft_preview_flux : graft_preview_sd3;
    if (c->scale_factor > 0) {
        m->scale_factor = c->scale_factor;
        m->latent_shift = 0;
    }
}

static graft_status configure_model(graft_model *m, const graft_safetensors *f, const char *prefix,
                                    graft_err *e)
{
    graft_checkpoint_config c;
    graft_status st = graft_checkpoint_config_read(f, &c, e);
    if (st) return st;
    if (m->arch.kind == GRAFT_NET_IDEOGRAM4) {
        configure_ideogram4(m, f);
        return GRAFT_OK;
    }
    if (!graft_net_is_unet(&m->arch)) {
        configure_flow(m, &c);
        return GRAFT_OK;
    }
    graft_family family = graft_unet_family(&m->arch.unet);
    m->beta_start = c.beta_start;
    m->beta_end = c.beta_end;
    m->zsnr = c.zsnr;
    m->scale_factor = c.scale_factor > 0            ? c.scale_factor
                      : family == GRAFT_FAMILY_SDXL ? GRAFT_LOAD_SDXL_SCALE
                                                    : GRAFT_LOAD_SD_SCALE;
    m->preview = family == GRAFT_FAMILY_SDXL ? graft_preview_sdxl : graft_preview_sd;
    if (c.preview_given) memcpy(m->preview.row, c.preview, sizeof c.preview);
    /* unCLIP models were made of SD 2.1's v model. */
    bool v = c.prediction_given
                 ? c.v_prediction
                 : m->arch.unet.unclip || (family == GRAFT_FAMILY_SD2 && is_sd2_v(f, prefix));
    m->prediction = v ? GRAFT_PREDICT_V : GRAFT_PREDICT_EPS;
    return GRAFT_OK;
}

static graft_status no_unet(const graft_safetensors *f, graft_err *e)
{
    char guess[128];
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: unknown architecture: no Stable Diffusion UNet in it%s (tensor "
                      "model.diffusion_model.input_blocks.0.0.weight is missing)",
                      graft_safetensors_path(f),
                      graft_kind_guess(f, "UNETLoader", guess, sizeof guess));
}

graft_status graft_load_network(const graft_safetensors *f, const char **out, graft_net_arch *arch,
                                graft_err *e)
{
    const char *prefix = graft_load_prefix(f, graft_load_unet_prefixes, "input_blocks.0.0.weight");
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_MMDIT_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_FLUX2_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_FLUX_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_ZIMAGE_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_QWEN_IMAGE_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_QWEN_IMAGE21_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_KREA2_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_ANIMA_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_IDEOGRAM4_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_ERNIE_IMAGE_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_AURAFLOW_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_OMNIGEN2_TENSOR);
    if (!prefix) prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_HIDREAM_TENSOR);
    if (!prefix) return no_unet(f, e);
    *out = prefix;
    return graft_net_detect(f, prefix, graft_safetensors_metadata(f, "config"), arch, e);
}

graft_status graft_load_model_part(graft_engine *engine, graft_weights *file,
                                   const graft_task *task, graft_model **out, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const char *prefix;
    graft_model *m = graft_calloc(1, sizeof *m);
    graft_graph *g = NULL;
    graft_status st = GRAFT_OK;
    if (!m) return graft_fail_nomem(e, "model");
    atomic_init(&m->refs, 1);
    m->engine = engine;
    GRAFT_TRY(graft_load_network(f, &prefix, &m->arch, e));
    GRAFT_TRY(configure_model(m, f, prefix, e));
    GRAFT_TRY(graft_weights_part(file, prefix, &m->weights, e));
    const graft_net_shape shape = graft_net_some_shape(&m->arch);
    GRAFT_TRY(
        graft_load_blame(m->weights, graft_net_build(&m->arch, &shape, shape.batch, &g, e), e));
    GRAFT_TRY(graft_load_check(task ? &task->log : &engine->log, m->weights,
                               (const graft_graph *const[]){g}, 1, e));
    GRAFT_TRY(graft_quant_choice_of_weights(&m->arch, m->weights, &m->quant, e));
    *out = m;
    m = NULL;
out:
    graft_graph_destroy(g);
    graft_model_release(m);
    return st;
}
