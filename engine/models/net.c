#include "engine/models/net.h"

#include <stddef.h>
#include <string.h>

#include "engine/models/detect/detect_parts.h"
#include "engine/models/transformers/anima.h"
#include "engine/models/transformers/auraflow.h"
#include "engine/models/transformers/ernie_image.h"
#include "engine/models/transformers/flux.h"
#include "engine/models/transformers/flux2.h"
#include "engine/models/transformers/hidream.h"
#include "engine/models/transformers/ideogram4.h"
#include "engine/models/transformers/krea2.h"
#include "engine/models/transformers/mmdit.h"
#include "engine/models/transformers/omnigen2.h"
#include "engine/models/transformers/qwen_image.h"
#include "engine/models/transformers/qwen_image21.h"
#include "engine/models/transformers/zimage.h"

void graft_net_of_unet(const graft_unet_arch *a, graft_net_arch *out)
{
    memset(out, 0, sizeof *out);
    out->kind = GRAFT_NET_UNET;
    out->in_channels = a->in_channels;
    out->latent_channels = graft_unet_latent_channels(a);
    if (out->in_channels > out->latent_channels)
        out->beside = out->in_channels == 2 * out->latent_channels ? GRAFT_BESIDE_PICTURE
                                                                   : GRAFT_BESIDE_MASKED;
    out->context_dim = a->context_dim;
    out->adm_channels = a->adm_channels;
    memcpy(&out->unet, a, sizeof *a);
}

/* Of a transformer: what all kinds say alike. `part`: the kind's own in *out. */
static void of_kind(graft_net_arch *out, graft_net_kind kind, int32_t channels, int32_t context_dim,
                    void *part, const void *a, size_t size)
{
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->in_channels = out->latent_channels = channels;
    out->context_dim = context_dim;
    memcpy(part, a, size);
}
#define OF(KIND, part, a)                                                                          \
    of_kind(out, GRAFT_NET_##KIND, (a)->channels, (a)->context_dim, &out->part, a, sizeof *(a))

static void of_mmdit(const graft_mmdit_arch *a, graft_net_arch *out)
{
    OF(MMDIT, mmdit, a);
    out->adm_channels = a->pooled_dim;
}

static void of_flux(const graft_flux_arch *a, graft_net_arch *out)
{
    OF(FLUX, flux, a);
    out->in_channels += a->beside;
    if (a->beside)
        out->beside = a->beside == a->channels ? GRAFT_BESIDE_PICTURE : GRAFT_BESIDE_FILL;
    out->adm_channels = graft_flux_y_width(a);
}

static void of_zimage(const graft_zimage_arch *a, graft_net_arch *out)
{
    OF(ZIMAGE, zimage, a);
    out->adm_channels = a->key_heads ? 0 : GRAFT_ZIMAGE_TOKENS;
}

static void of_flux2(const graft_flux2_arch *a, graft_net_arch *out)
{
    OF(FLUX2, flux2, a);
    out->adm_channels = a->guidance;
}

static void of_krea2(const graft_krea2_arch *a, graft_net_arch *out)
{
    of_kind(out, GRAFT_NET_KREA2, a->channels, graft_krea2_context(a), &out->krea2, a, sizeof *a);
}

static void of_hidream(const graft_hidream_arch *a, graft_net_arch *out)
{
    of_kind(out, GRAFT_NET_HIDREAM, a->channels, (int32_t)graft_hidream_context(a), &out->hidream,
            a, sizeof *a);
    out->adm_channels = a->pooled_dim;
}

static void of_anima(const graft_anima_arch *a, graft_net_arch *out)
{
    OF(ANIMA, anima, a);
    out->adm_channels = GRAFT_ANIMA_TOLD;
}

/* Of those that are looked for last; a UNet where none of them is there. */
static graft_status detect_last(const graft_safetensors *f, const char *prefix, const char *config,
                                graft_net_arch *out, graft_err *e)
{
    graft_unet_arch unet;
    graft_qwen_image21_arch qwen_image21;
    graft_ernie_image_arch ernie_image;
    graft_auraflow_arch auraflow;
    graft_omnigen2_arch omnigen2;
    graft_hidream_arch hidream;
    if (graft_detect_find(f, prefix, GRAFT_QWEN_IMAGE21_TENSOR)) {
        graft_status st = graft_qwen_image21_detect(f, prefix, config, &qwen_image21, e);
        if (!st) OF(QWEN_IMAGE21, qwen_image21, &qwen_image21);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_ERNIE_IMAGE_TENSOR)) {
        graft_status st = graft_ernie_image_detect(f, prefix, config, &ernie_image, e);
        if (!st) OF(ERNIE_IMAGE, ernie_image, &ernie_image);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_AURAFLOW_TENSOR)) {
        graft_status st = graft_auraflow_detect(f, prefix, config, &auraflow, e);
        if (!st) OF(AURAFLOW, auraflow, &auraflow);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_OMNIGEN2_TENSOR)) {
        graft_status st = graft_omnigen2_detect(f, prefix, config, &omnigen2, e);
        if (!st) OF(OMNIGEN2, omnigen2, &omnigen2);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_HIDREAM_TENSOR)) {
        graft_status st = graft_hidream_detect(f, prefix, config, &hidream, e);
        if (!st) of_hidream(&hidream, out);
        return st;
    }
    graft_status st = graft_unet_detect(f, prefix, config, &unet, e);
    if (!st) graft_net_of_unet(&unet, out);
    return st;
}

graft_status graft_net_detect(const graft_safetensors *f, const char *prefix, const char *config,
                              graft_net_arch *out, graft_err *e)
{
    graft_mmdit_arch mmdit;
    graft_flux_arch flux;
    graft_zimage_arch zimage;
    graft_flux2_arch flux2;
    graft_qwen_image_arch qwen_image;
    graft_krea2_arch krea2;
    graft_anima_arch anima;
    graft_ideogram4_arch ideogram4;
    if (graft_detect_find(f, prefix, GRAFT_IDEOGRAM4_TENSOR)) {
        graft_status st = graft_ideogram4_detect(f, prefix, config, &ideogram4, e);
        if (!st) OF(IDEOGRAM4, ideogram4, &ideogram4);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_ANIMA_TENSOR)) {
        graft_status st = graft_anima_detect(f, prefix, config, &anima, e);
        if (!st) of_anima(&anima, out);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_MMDIT_TENSOR)) {
        graft_status st = graft_mmdit_detect(f, prefix, config, &mmdit, e);
        if (!st) of_mmdit(&mmdit, out);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_FLUX2_TENSOR)) {
        graft_status st = graft_flux2_detect(f, prefix, &flux2, e);
        if (!st) of_flux2(&flux2, out);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_FLUX_TENSOR)) {
        graft_status st = graft_flux_detect(f, prefix, config, &flux, e);
        if (!st) of_flux(&flux, out);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_ZIMAGE_TENSOR)) {
        graft_status st = graft_zimage_detect(f, prefix, config, &zimage, e);
        if (!st) of_zimage(&zimage, out);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_QWEN_IMAGE_TENSOR)) {
        graft_status st = graft_qwen_image_detect(f, prefix, config, &qwen_image, e);
        if (!st) OF(QWEN_IMAGE, qwen_image, &qwen_image);
        return st;
    }
    if (graft_detect_find(f, prefix, GRAFT_KREA2_TENSOR)) {
        graft_status st = graft_krea2_detect(f, prefix, config, &krea2, e);
        if (!st) of_krea2(&krea2, out);
        return st;
    }
    return detect_last(f, prefix, config, out, e);
}

graft_status graft_net_build(const graft_net_arch *a, const graft_net_shape *shape,
                             int64_t pictures, graft_graph **out, graft_err *e)
{
    if (shape->references.n && !graft_net_takes_references(a))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "this network takes no reference pictures");
    if (shape->references.layers && !graft_net_makes_layers(a))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "this network makes no layers");
    if (shape->within && a->kind != GRAFT_NET_QWEN_IMAGE)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "no ControlNets run within this network");
    switch (a->kind) {
    case GRAFT_NET_MMDIT:
        return graft_mmdit_build(&a->mmdit, shape, out, e);
    case GRAFT_NET_FLUX:
        return graft_flux_build(&a->flux, shape, out, e);
    case GRAFT_NET_ZIMAGE:
        return graft_zimage_build(&a->zimage, shape, out, e);
    case GRAFT_NET_FLUX2:
        return graft_flux2_build(&a->flux2, shape, out, e);
    case GRAFT_NET_QWEN_IMAGE:
        return graft_qwen_image_build(&a->qwen_image, shape, out, e);
    case GRAFT_NET_KREA2:
        return graft_krea2_build(&a->krea2, shape, out, e);
    case GRAFT_NET_ANIMA:
        return graft_anima_build(&a->anima, shape, out, e);
    case GRAFT_NET_QWEN_IMAGE21:
        return graft_qwen_image21_build(&a->qwen_image21, shape, out, e);
    case GRAFT_NET_IDEOGRAM4:
        return graft_ideogram4_build(&a->ideogram4, shape, out, e);
    case GRAFT_NET_ERNIE_IMAGE:
        return graft_ernie_image_build(&a->ernie_image, shape, out, e);
    case GRAFT_NET_AURAFLOW:
        return graft_auraflow_build(&a->auraflow, shape, out, e);
    case GRAFT_NET_OMNIGEN2:
        return graft_omnigen2_build(&a->omnigen2, shape, out, e);
    case GRAFT_NET_HIDREAM:
        return graft_hidream_build(&a->hidream, shape, out, e);
    default:
        return graft_unet_build_guided(&a->unet, shape, pictures, out, e);
    }
}

int graft_net_residuals(const graft_net_arch *a, const graft_net_shape *shape)
{
    if (graft_net_is_unet(a)) return graft_unet_residuals(&a->unet, shape);
    return shape->control ? graft_steered_all(&shape->steered) : 0;
}

void graft_net_residual_shape(const graft_net_arch *a, const graft_net_shape *shape, int i,
                              int64_t dim[4])
{
    if (graft_net_is_unet(a)) {
        graft_unet_residual_shape(&a->unet, shape, i, dim);
        return;
    }
    dim[0] = shape->batch;
    if (a->kind == GRAFT_NET_ZIMAGE) {
        graft_net_features_shape(a, shape, dim);
        dim[1] = graft_zimage_tokens(dim[1] * dim[2]);
        if (i >= graft_steered_count(&shape->steered, 0)) dim[1] += shape->tokens;
        dim[2] = 1;
        return;
    }
    dim[1] = graft_net_side(a, shape->height) / graft_net_patch(a);
    dim[2] = graft_net_side(a, shape->width) / graft_net_patch(a);
    dim[3] = a->kind == GRAFT_NET_FLUX         ? a->flux.hidden
             : a->kind == GRAFT_NET_QWEN_IMAGE ? a->qwen_image.hidden
                                               : a->mmdit.hidden;
}

void graft_net_features_shape(const graft_net_arch *a, const graft_net_shape *shape, int64_t dim[4])
{
    if (a->kind != GRAFT_NET_ZIMAGE) {
        graft_net_residual_shape(a, shape, 0, dim);
        return;
    }
    dim[0] = shape->batch;
    dim[1] = graft_net_side(a, shape->height) / graft_net_patch(a);
    dim[2] = graft_net_side(a, shape->width) / graft_net_patch(a);
    dim[3] = a->zimage.hidden;
}

graft_net_shape graft_net_some_shape(const graft_net_arch *a)
{
    int64_t side = graft_net_is_unet(a) ? 64 : graft_net_patch(a);
    graft_net_shape s = {.batch = 1,
                         .height = side,
                         .width = side,
                         .tokens = graft_net_tokens(a, 1),
                         .act_dtype = GRAFT_F32};
    graft_net_read_all(a, &s);
    return s;
}

void graft_net_read_all(const graft_net_arch *a, graft_net_shape *shape)
{
    const int32_t side = (int32_t)graft_net_patch(a);
    if (a->kind != GRAFT_NET_OMNIGEN2 || shape->references.n) return;
    shape->references.n = 1;
    shape->references.of[0] = (graft_grid){side, side};
}

bool graft_net_takes_references(const graft_net_arch *a)
{
    return (a->kind == GRAFT_NET_FLUX && !a->beside && !a->flux.approximator && !a->flux.gated) ||
           a->kind == GRAFT_NET_FLUX2 || a->kind == GRAFT_NET_QWEN_IMAGE ||
           a->kind == GRAFT_NET_QWEN_IMAGE21 || a->kind == GRAFT_NET_OMNIGEN2;
}

bool graft_net_makes_layers(const graft_net_arch *a)
{
    return a->qwen_image.layered;
}

bool graft_net_told_guidance(const graft_net_arch *a)
{
    return a->flux.guidance || a->flux2.guidance;
}

int64_t graft_net_cell(const graft_net_arch *a)
{
    return a->kind == GRAFT_NET_FLUX2 || a->kind == GRAFT_NET_ERNIE_IMAGE ? GRAFT_FLUX2_CELL
           : a->kind == GRAFT_NET_IDEOGRAM4                               ? GRAFT_IDEOGRAM4_CELL
           : a->kind == GRAFT_NET_QWEN_IMAGE21                            ? GRAFT_QWEN_IMAGE21_CELL
                                                                          : 8;
}

int64_t graft_net_x_values(const graft_net_arch *a, int64_t height, int64_t width,
                           const graft_references *r)
{
    return a->in_channels * height * width +
           a->latent_channels * graft_references_cells(r, graft_net_patch(a));
}

int64_t graft_net_side(const graft_net_arch *a, int64_t cells)
{
    return graft_reference_side(cells, graft_net_patch(a));
}

int64_t graft_net_stacked(const graft_net_arch *a, int64_t cells, int64_t layers)
{
    layers = graft_layers_of(layers);
    return layers * graft_net_side(a, cells / layers);
}

int64_t graft_net_patch(const graft_net_arch *a)
{
    switch (a->kind) {
    case GRAFT_NET_MMDIT:
        return a->mmdit.patch;
    case GRAFT_NET_FLUX:
        return a->flux.patch;
    case GRAFT_NET_ZIMAGE:
        return a->zimage.patch;
    case GRAFT_NET_QWEN_IMAGE:
        return a->qwen_image.patch;
    case GRAFT_NET_KREA2:
        return a->krea2.patch;
    case GRAFT_NET_ANIMA:
        return a->anima.patch;
    case GRAFT_NET_AURAFLOW:
        return a->auraflow.patch;
    case GRAFT_NET_OMNIGEN2:
        return a->omnigen2.patch;
    case GRAFT_NET_HIDREAM:
        return a->hidream.patch;
    default:
        return 1;
    }
}

bool graft_net_counts_tokens(const graft_net_arch *a, int64_t tokens)
{
    switch (a->kind) {
    case GRAFT_NET_MMDIT:
        return graft_mmdit_counts_tokens(tokens);
    case GRAFT_NET_FLUX:
        return graft_flux_counts_tokens(&a->flux, tokens);
    case GRAFT_NET_AURAFLOW:
        return graft_auraflow_counts_tokens(tokens);
    default:
        return a->kind == GRAFT_NET_QWEN_IMAGE || a->kind == GRAFT_NET_KREA2 ||
               a->kind == GRAFT_NET_ANIMA || a->kind == GRAFT_NET_QWEN_IMAGE21 ||
               a->kind == GRAFT_NET_IDEOGRAM4 || a->kind == GRAFT_NET_ERNIE_IMAGE ||
               a->kind == GRAFT_NET_OMNIGEN2 || a->zimage.key_heads > 0;
    }
}

int64_t graft_net_y_width(const graft_net_arch *a, int64_t tokens)
{
    return a->adm_channels + graft_net_counts_tokens(a, tokens);
}

int64_t graft_net_tokens(const graft_net_arch *a, int64_t tokens)
{
    if (a->kind == GRAFT_NET_ZIMAGE && !a->zimage.key_heads) return graft_zimage_tokens(tokens);
    if (!graft_net_counts_tokens(a, tokens) || tokens > INT64_MAX - GRAFT_NET_TOKENS) return tokens;
    const int64_t steps = (tokens + GRAFT_NET_TOKENS - 1) / GRAFT_NET_TOKENS;
    return (steps > 0 ? steps : 1) * GRAFT_NET_TOKENS;
}

graft_hash graft_net_hash(const graft_net_arch *a)
{
    switch (a->kind) {
    case GRAFT_NET_MMDIT:
        return graft_hash128(&a->mmdit, sizeof a->mmdit);
    case GRAFT_NET_FLUX: /* each one's is that of what there was when it came */
        return graft_hash128(&a->flux, a->flux.words ? sizeof a->flux
                                       : a->flux.approximator
                                           ? offsetof(graft_flux_arch, words)
                                           : offsetof(graft_flux_arch, approximator));
    case GRAFT_NET_ZIMAGE: /* likewise, before there was Lumina-Image */
        return graft_hash128(&a->zimage, a->zimage.key_heads
                                             ? sizeof a->zimage
                                             : offsetof(graft_zimage_arch, key_heads));
    case GRAFT_NET_FLUX2:
        return graft_hash128(&a->flux2, sizeof a->flux2);
    case GRAFT_NET_QWEN_IMAGE: /* likewise, before there was its 2511, or the layered one */
        return graft_hash128(&a->qwen_image,
                             a->qwen_image.layered ? sizeof a->qwen_image
                             : a->qwen_image.clean_references
                                 ? offsetof(graft_qwen_image_arch, layered)
                                 : offsetof(graft_qwen_image_arch, clean_references));
    case GRAFT_NET_KREA2:
        return graft_hash128(&a->krea2, sizeof a->krea2);
    case GRAFT_NET_ANIMA:
        return graft_hash128(&a->anima, sizeof a->anima);
    case GRAFT_NET_QWEN_IMAGE21:
        return graft_hash128(&a->qwen_image21, sizeof a->qwen_image21);
    case GRAFT_NET_IDEOGRAM4:
        return graft_hash128(&a->ideogram4, sizeof a->ideogram4);
    case GRAFT_NET_ERNIE_IMAGE:
        return graft_hash128(&a->ernie_image, sizeof a->ernie_image);
    case GRAFT_NET_AURAFLOW:
        return graft_hash128(&a->auraflow, sizeof a->auraflow);
    case GRAFT_NET_OMNIGEN2:
        return graft_hash128(&a->omnigen2, sizeof a->omnigen2);
    case GRAFT_NET_HIDREAM:
        return graft_hash128(&a->hidream, sizeof a->hidream);
    default:
        return graft_hash128(&a->unet, sizeof a->unet);
    }
}
