/* Makes a checkpoint of random weights with the names and shapes of a real one.
 *
 *   graft-make-model KIND FILE.safetensors [--dtype f16|bf16|f32|f8] [--seed N]
 *                    [--parts unet,vae,clip | --parts lora | --parts controlnet |
 *                     --parts union | --parts inpaint | --parts upscaler | --parts taesd |
 *                     --parts t5 | --parts clip2 |
 *                     --parts vision | --parts clip-vision | --parts redux |
 *                     --parts qwen3 | --parts ip-adapter | --parts ip-adapter-plus |
 *                     --parts gligen]
 *
 * KIND: one of those in model_kind.c. f8: E4M3, without scales. The names come from the same graph
 * builders that read them. Weights are normal with a spread of 1 / sqrt(inputs), so that
 * activations stay in float16's range; a tensor depends on seed and name only. Pictures made with
 * them are noise, but always the same noise. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "bench/make_control.h"
#include "bench/make_vision.h"
#include "bench/model_file.h"
#include "bench/model_kind.h"
#include "engine/models/controls/controlnet.h"
#include "engine/models/parts/folding.h"
#include "engine/models/parts/gligen.h"
#include "engine/models/parts/tensors.h"
#include "engine/models/vaes/upscaler.h"
#include "engine/models/vaes/vae.h"
#include "engine/models/vaes/wan_vae.h"

typedef model_tensor tensor;
typedef model_list list;
typedef model_kind kind;

typedef struct options {
    const kind *kind;
    const char *path, *parts;
    graft_dtype dtype;
    uint64_t seed;
    bool zeros;
} options;

/* ------------------------------------------------------------------ names and shapes */

static bool ends_with_any(const char *name, const char *const *suffix)
{
    for (; *suffix; suffix++)
        if (graft_str_ends(name, *suffix)) return true;
    return false;
}

/* 1x1 convolutions are matrices to the builders, but have four dimensions in files. */
static bool is_conv1(const char *name, bool linear_proj)
{
    static const char *const always[] = {"skip_connection.weight", "nin_shortcut.weight",
                                         "quant_conv.weight",      "attn_1.q.weight",
                                         "attn_1.k.weight",        "attn_1.v.weight",
                                         "attn_1.proj_out.weight", NULL};
    static const char *const sometimes[] = {".1.proj_in.weight", ".1.proj_out.weight", NULL};
    if (graft_str_starts(name, "zero_convs.") || graft_str_starts(name, "middle_block_out."))
        return true;
    return ends_with_any(name, always) || (!linear_proj && ends_with_any(name, sometimes));
}

static graft_status add(list *l, const char *prefix, const char *name, int rank, const int64_t *dim,
                        graft_err *e)
{
    if (l->n == l->cap && graft_grow(&l->at, &l->cap, l->n + 1, sizeof *l->at))
        return graft_fail_nomem(e, "the list of tensors");
    graft_str full = GRAFT_STR_INIT;
    graft_str_printf(&full, "%s%s", prefix, name);
    tensor t = {.name = graft_str_take(&full), .rank = rank};
    if (!t.name) return graft_fail_nomem(e, "a tensor's name");
    int64_t inputs = 1;
    for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
    for (int i = 1; i < rank; i++) inputs *= dim[i];
    if (rank == 5) inputs /= dim[2]; /* a single picture sees one of its slices */
    bool embedding = strstr(name, "embedding") != NULL;
    if (rank == 1) {
        t.mean = graft_str_ends(name, "weight") || graft_str_ends(name, "gamma") ? 1.0f : 0.0f;
        t.spread = 0.02f;
    } else {
        t.spread = embedding ? 0.05f : (float)(1.0 / sqrt((double)inputs));
    }
    l->at[l->n++] = t;
    return GRAFT_OK;
}

static bool listed(const list *l, size_t from, const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    for (size_t i = from; i < l->n; i++)
        if (strcmp(l->at[i].name + n, name) == 0) return true;
    return false;
}

/* A row for each output (outputs,values) as a kernel over two pictures and a square. */
static void spread_square(int64_t dim[5])
{
    const int64_t pixels = dim[1] / (GRAFT_QWEN_VISION_COLOURS * GRAFT_QWEN_VISION_FRAMES);
    dim[1] = GRAFT_QWEN_VISION_COLOURS;
    dim[2] = GRAFT_QWEN_VISION_FRAMES;
    dim[3] = dim[4] = (int64_t)sqrt((double)pixels);
}

/* Krea 2's vectors, one row in the graph: those of a block are one in its file, and those behind
 * the last two. Returns the rank. */
static int of_vectors(const char *name, int64_t dim[2], int rank)
{
    if (rank != 2 || !graft_str_ends(name, ".lin")) return rank;
    if (strcmp(name, "last.modulation.lin") == 0) {
        dim[0] = 2;
        dim[1] /= 2;
        return 2;
    }
    dim[0] = dim[1];
    return 1;
}

/* The weights that a graph reads, as files store them. */
static graft_status add_slots(list *l, const char *prefix, const graft_graph *g, bool linear_proj,
                              graft_err *e)
{
    graft_status st = GRAFT_OK;
    size_t from = l->n;
    for (size_t i = 0; i < g->n_slots && !st; i++) {
        const graft_gslot *s = &g->slot[i];
        const char *name = s->source[0];
        int64_t dim[GRAFT_MAX_RANK + 1];
        int rank = s->rank, skip = s->rank == 3; /* (1,T,W): position tables */
        for (int k = skip; k < rank; k++) dim[k - skip] = s->dim[k];
        rank -= skip;
        if (s->kind == GRAFT_SLOT_TRANSPOSE) {
            dim[0] = s->dim[1];
            dim[1] = s->dim[0];
        }
        if (graft_gslot_crop(s)) {
            dim[0] = 1;
            dim[1] = s->rows[0] * s->rows[0];
            dim[2] = s->dim[3];
            rank = 3;
        }
        if (graft_gslot_part(s)) graft_gslot_part_shape(s, dim);
        if (s->kind == GRAFT_SLOT_LAST) {
            dim[4] = dim[3];
            dim[3] = dim[2];
            dim[2] = s->rows[0];
            rank = 5;
        }
        if (rank == 2 && is_conv1(name, linear_proj)) {
            dim[2] = dim[3] = 1;
            rank = 4;
        }
        rank = of_vectors(name, dim, rank);
        if (strcmp(name, GRAFT_QWEN_VISION_TENSOR) == 0) {
            spread_square(dim);
            rank = 5;
        }
        if (!listed(l, from, prefix, name)) st = add(l, prefix, name, rank, dim, e);
    }
    return st;
}

static void fill_unet(const kind *k, graft_unet_arch *a)
{
    memset(a, 0, sizeof *a);
    a->in_channels = a->out_channels = 4;
    a->model_channels = k->model_channels;
    a->time_dim = 4 * k->model_channels;
    a->context_dim = k->context_dim;
    a->adm_channels = k->adm_channels;
    a->linear_proj = k->linear_proj;
    a->num_heads = k->num_heads;
    a->head_dim = k->head_dim;
    a->middle_residual = 2 - k->middle_pruned;
    a->middle_transformer = k->middle;
    a->input[a->n_input++].channels = k->model_channels;
    for (int l = 0; l < k->levels; l++) {
        int32_t channels = k->mult[l] * k->model_channels;
        for (int i = 0; i < k->res_blocks; i++)
            a->input[a->n_input++] = (graft_unet_block){channels, k->depth[l], 0, 0};
        if (l + 1 < k->levels) a->input[a->n_input++].down = 1;
    }
    const bool own = k->depth_after[0] > 0;
    for (int l = k->levels - 1; l >= 0; l--)
        for (int i = 0; i <= k->res_blocks; i++, a->n_output++)
            a->output[a->n_output] =
                (graft_unet_block){.channels = k->mult[l] * k->model_channels,
                                   .transformer = own ? k->depth_after[a->n_output] : k->depth[l],
                                   .up = l && i == k->res_blocks};
}

static bool is_transformer(const kind *k)
{
    return k->mmdit.depth || k->flux.depth || k->zimage.depth || k->flux2.depth ||
           k->qwen_image.depth || k->qwen_image21.depth || k->krea2.depth || k->anima.depth ||
           k->ideogram4.depth || k->ernie_image.depth || k->auraflow.depth || k->omnigen2.depth ||
           k->hidream.depth;
}

/* Whether its VAE is SDXL's or older. */
static bool has_four_planes(const kind *k)
{
    return !is_transformer(k) || k->auraflow.depth;
}

static graft_status add_transformer(const kind *k, list *l, graft_err *e)
{
    graft_net_shape shape = {
        .batch = 1, .height = 8, .width = 8, .tokens = 32, .act_dtype = GRAFT_F32};
    graft_graph *g = NULL;
    if (k->omnigen2.depth) /* what is read of pictures that are shown, too */
        shape.references = (graft_references){.n = 1, .of = {{8, 8}}};
    graft_status st =
        k->qwen_image21.depth  ? graft_qwen_image21_build(&k->qwen_image21, &shape, &g, e)
        : k->krea2.depth       ? graft_krea2_build(&k->krea2, &shape, &g, e)
        : k->anima.depth       ? graft_anima_build(&k->anima, &shape, &g, e)
        : k->ideogram4.depth   ? graft_ideogram4_build(&k->ideogram4, &shape, &g, e)
        : k->ernie_image.depth ? graft_ernie_image_build(&k->ernie_image, &shape, &g, e)
        : k->hidream.depth     ? graft_hidream_build(&k->hidream, &shape, &g, e)
        : k->auraflow.depth    ? graft_auraflow_build(&k->auraflow, &shape, &g, e)
        : k->omnigen2.depth    ? graft_omnigen2_build(&k->omnigen2, &shape, &g, e)
        : k->qwen_image.depth  ? graft_qwen_image_build(&k->qwen_image, &shape, &g, e)
        : k->flux2.depth       ? graft_flux2_build(&k->flux2, &shape, &g, e)
        : k->zimage.depth      ? graft_zimage_build(&k->zimage, &shape, &g, e)
        : k->flux.depth        ? graft_flux_build(&k->flux, &shape, &g, e)
                               : graft_mmdit_build(&k->mmdit, &shape, &g, e);
    if (!st) st = add_slots(l, "model.diffusion_model.", g, true, e);
    graft_graph_destroy(g);
    return st;
}

static graft_status add_unet(const kind *k, list *l, graft_err *e)
{
    if (is_transformer(k)) return add_transformer(k, l, e);
    graft_unet_arch a;
    graft_net_shape shape = {
        .batch = 1, .height = 64, .width = 64, .tokens = 77, .act_dtype = GRAFT_F32};
    graft_graph *g = NULL;
    fill_unet(k, &a);
    graft_status st = graft_unet_build(&a, &shape, &g, e);
    if (!st) st = add_slots(l, "model.diffusion_model.", g, k->linear_proj, e);
    graft_graph_destroy(g);
    return st;
}

static graft_status add_control_of_transformer(const kind *k, int32_t types, bool masks, list *l,
                                               graft_err *e)
{
    graft_control_arch a = {0};
    graft_graph *net = NULL, *first = NULL;
    /* Files of SD 3's have diffusers' names. */
    if ((!k->flux.depth && !k->zimage.depth && !k->qwen_image.depth) || k->zimage.key_heads)
        return graft_fail(
            e, GRAFT_E_ARG,
            "of transformers only FLUX's, Z-Image's and Qwen-Image's have ControlNets here");
    if (k->zimage.depth)
        make_control_of_zimage(&k->zimage, types, &a);
    else if (k->qwen_image.depth)
        make_control_of_qwen_image(&k->qwen_image, &a);
    else
        make_control_of_flux(&k->flux, types, &a);
    if (masks && k->zimage.depth)
        return graft_fail(e, GRAFT_E_ARG, "Z-Image's see a mask with --parts union");
    if (masks) a.hint_channels++;
    const graft_control_shape shape = graft_control_some_shape(&a);
    graft_status st = graft_control_build(&a, &shape, &net, e);
    if (!st) st = graft_control_hint_build(&a, 1, shape.height, shape.width, GRAFT_F32, &first, e);
    if (!st) st = add_slots(l, "", net, true, e);
    if (!st) st = add_slots(l, "", first, true, e);
    graft_graph_destroy(net);
    graft_graph_destroy(first);
    return st;
}

/* For this kind's UNet; types: of pictures, if it is to be a union ControlNet; masks: it is to see
 * a mask, of a transformer's. */
static graft_status add_control(const kind *k, int32_t types, bool masks, list *l, graft_err *e)
{
    static const int32_t hint[7] = {16, 16, 32, 32, 96, 96, 256};
    graft_control_arch a = {.hint_channels = 3, .n_hint = 8};
    const graft_control_shape shape = graft_control_some_shape(&a);
    if (is_transformer(k)) return add_control_of_transformer(k, types, masks, l, e);
    if (masks) return graft_fail(e, GRAFT_E_ARG, "only transformers have --parts inpaint");
    graft_graph *net = NULL, *first = NULL;
    fill_unet(k, &a.half);
    a.half.n_output = 0;
    memcpy(a.hint, hint, sizeof hint);
    a.hint[7] = a.half.model_channels;
    a.types = types;
    a.type_dim = 256;
    a.type_layers = 1;
    graft_status st = graft_control_build(&a, &shape, &net, e);
    if (!st) st = graft_control_hint_build(&a, 1, 64, 64, GRAFT_F32, &first, e);
    if (!st) st = add_slots(l, "control_model.", net, k->linear_proj, e);
    if (!st) st = add_slots(l, "control_model.", first, false, e);
    graft_graph_destroy(net);
    graft_graph_destroy(first);
    return st;
}

/* An RRDBNet for four times the size: ESRGAN's own, or a small one. */
static graft_status add_upscaler(const kind *k, list *l, graft_err *e)
{
    bool small = graft_str_starts(k->name, "tiny");
    graft_upscaler_arch a = {.kind = GRAFT_UPSCALER_RRDB, .unshuffle = 1, .doublings = 2};
    graft_graph *g = NULL;
    a.features = small ? 8 : 64;
    a.growth = small ? 4 : 32;
    a.blocks = small ? 1 : 23;
    graft_status st = graft_upscaler_build(&a, 8, 8, GRAFT_F32, &g, e);
    if (!st) st = add_slots(l, "", g, false, e);
    graft_graph_destroy(g);
    return st;
}

/* What FLUX.2's latents are normalized by: variances of about 1. */
static graft_status add_statistics(list *l, graft_err *e)
{
    const int64_t planes = GRAFT_VAE_FOLDED_PLANES;
    graft_status st = add(l, "", GRAFT_VAE_MEAN, 1, &planes, e);
    if (!st) l->at[l->n - 1].spread = 0.3f;
    if (!st) st = add(l, "", GRAFT_VAE_VARIANCE, 1, &planes, e);
    if (!st) l->at[l->n - 1].mean = 1.0f;
    if (!st) l->at[l->n - 1].spread = 0.1f;
    return st;
}

static graft_status add_vae(const kind *k, list *l, graft_err *e)
{
    const bool residual = k->vae_decoder_channels; /* Qwen-Image 2.1's, with transparency */
    const int32_t colours = residual || k->vae_alpha ? 4 : 3;
    const int32_t channels = residual             ? GRAFT_QWEN_IMAGE21_PLANES
                             : k->vae_folds       ? 32
                             : has_four_planes(k) ? 4
                                                  : 16;
    const char *prefix = k->vae_folds ? "" : "first_stage_model.";
    graft_vae_arch a = {.in_channels = colours,
                        .out_channels = colours,
                        .z_channels = channels,
                        .embed_dim = channels,
                        .levels = residual ? 5 : 4,
                        .residual = residual,
                        .res_blocks = k->vae_res_blocks,
                        .kind = k->vae_wan ? GRAFT_VAE_WAN : GRAFT_VAE_KL,
                        .quant_conv = k->vae_folds         ? GRAFT_QUANT_CONV_WITHIN
                                      : has_four_planes(k) ? GRAFT_QUANT_CONV_BESIDE
                                                           : GRAFT_QUANT_CONV_NONE,
                        .encoder = 1,
                        .decoder = 1};
    for (int i = 0; i < a.levels; i++) {
        a.channels[i] = k->vae_mult[i] * k->vae_channels;
        a.decoder_channels[i] = k->vae_mult[i] * k->vae_decoder_channels;
        a.temporal[i] = residual && i > 0;
    }
    graft_graph *in = NULL, *out = NULL;
    graft_status st = graft_vae_encoder_build(&a, 1, 64, 64, GRAFT_F32, &in, e);
    if (!st) st = graft_vae_decoder_build(&a, 1, 8, 8, GRAFT_F32, &out, e);
    if (!st) st = add_slots(l, prefix, in, false, e);
    if (!st) st = add_slots(l, prefix, out, false, e);
    if (!st && k->vae_folds) st = add_statistics(l, e);
    graft_graph_destroy(in);
    graft_graph_destroy(out);
    return st;
}

/* A tiny autoencoder of the kind's latents in one file, of a TAESD in diffusers' names: as wide as
 * its author's, or a small one. */
static graft_status add_taesd(const kind *k, list *l, graft_err *e)
{
    const bool small = graft_str_starts(k->name, "tiny");
    const int32_t width = small ? 8 : 64, pooled = k->vae_folds;
    const int32_t channels = k->vae_folds ? 32 : has_four_planes(k) ? 4 : 16;
    const graft_vae_arch a = {
        .in_channels = 3,
        .out_channels = 3,
        .z_channels = channels,
        .embed_dim = channels,
        .levels = 4,
        .encoder = 1,
        .decoder = 1,
        .kind = k->vae_wan ? GRAFT_VAE_TAEHV : GRAFT_VAE_TINY,
        .names = GRAFT_TINY_LAYERS,
        .channels = {width, width, 2 * width, 4 * width},
        .half = {{.width = width, .blocks = {!k->vae_wan, 3, 3, 3}, .pooled = pooled},
                 {.width = width, .blocks = {3, 3, 3, !k->vae_wan}, .pooled = pooled}}};
    graft_graph *in = NULL, *out = NULL;
    graft_status st = graft_vae_encoder_build(&a, 1, 64, 64, GRAFT_F32, &in, e);
    if (!st) st = graft_vae_decoder_build(&a, 1, 8, 8, GRAFT_F32, &out, e);
    if (!st) st = add_slots(l, "", in, false, e);
    if (!st) st = add_slots(l, "", out, false, e);
    graft_graph_destroy(in);
    graft_graph_destroy(out);
    return st;
}

static graft_status add_encoder(const model_encoder *n, list *l, graft_err *e)
{
    const graft_text_arch *a = &n->arch;
    graft_textenc_shape shape = {1, a->positions, a->layers, true, true, true, GRAFT_F32};
    graft_graph *g = NULL;
    char table[256];
    int64_t dim[2] = {a->vocab, a->width}, ids[2] = {1, a->positions};
    graft_textenc_table_name(a, table, sizeof table);
    graft_status st = graft_textenc_build(a, &shape, &g, e);
    if (!st) st = add(l, n->prefix, table, 2, dim, e);
    if (!st) st = add_slots(l, n->prefix, g, false, e);
    if (!st && a->layout == GRAFT_TEXT_HF) {
        st = add(l, n->prefix, "text_model.embeddings.position_ids", 2, ids, e);
        if (!st) l->at[l->n - 1].index = true;
    }
    graft_graph_destroy(g);
    return st;
}

/* The layer's name as kohya's trainer writes it, with the lower or the upper matrix; NULL for
 * tensors that are none of attention's query and value projections, joined or not. */
static char *lora_name(const tensor *t, const char *matrix)
{
    static const char *const layers[] = {"to_q.weight",   "to_v.weight", "q_proj.weight",
                                         "v_proj.weight", "qkv.weight",  NULL};
    static const char *const prefixes[][2] = {{"model.diffusion_model.", "lora_unet_"},
                                              {SD1_TEXT, "lora_te_"},
                                              {SD3_TEXT_L, "lora_te1_"},
                                              {SDXL_TEXT_L, "lora_te1_"}};
    graft_str s = GRAFT_STR_INIT;
    for (size_t i = 0; t->rank == 2 && i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t n = strlen(prefixes[i][0]);
        if (strncmp(t->name, prefixes[i][0], n) != 0 || !ends_with_any(t->name, layers)) continue;
        size_t start = strlen(prefixes[i][1]);
        graft_str_printf(&s, "%s%.*s", prefixes[i][1],
                         (int)(strlen(t->name) - n - strlen(".weight")), t->name + n);
        for (size_t k = start; k < s.len; k++)
            if (s.data[k] == '.') s.data[k] = '_';
        graft_str_printf(&s, ".%s.weight", matrix);
    }
    return s.data ? graft_str_take(&s) : NULL;
}

/* A LoRA of rank RANK instead of a checkpoint, about as strong as the weights it is added to. */
static graft_status to_lora(const list *model, list *l, graft_err *e)
{
    enum { RANK = 4 };
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < model->n && !st; i++)
        for (int up = 0; up < 2 && !st; up++) {
            const tensor *t = &model->at[i];
            char *name = lora_name(t, up ? "lora_up" : "lora_down");
            int64_t dim[2] = {up ? t->dim[0] : RANK, up ? RANK : t->dim[1]};
            if (name) st = add(l, "", name, 2, dim, e);
            graft_free(name);
        }
    return st;
}

static void list_finish(list *l)
{
    for (size_t i = 0; i < l->n; i++) graft_free(l->at[i].name);
    graft_free(l->at);
}

static graft_status add_lora(const options *o, list *l, graft_err *e)
{
    list model = {0};
    graft_status st = add_unet(o->kind, &model, e);
    if (!st && o->kind->text[0].prefix) st = add_encoder(&o->kind->text[0], &model, e);
    if (!st) st = to_lora(&model, l, e);
    list_finish(&model);
    return st;
}

/* Without spiece.model, which is a file of its own or a tensor that somebody adds. */
static graft_status add_t5(const graft_t5_arch *a, const char *prefix, list *l, graft_err *e)
{
    const graft_t5_shape shape = {.batch = 1, .tokens = 77, .act_dtype = GRAFT_F32};
    graft_graph *g = NULL;
    if (!a->layers) return graft_fail(e, GRAFT_E_ARG, "this kind has no T5");
    graft_status st = graft_t5_build(a, &shape, &g, e);
    if (!st) st = add_slots(l, prefix, g, true, e);
    if (!st)
        st = add(l, prefix, graft_t5_embeddings_name(a), 2, (int64_t[]){a->vocab, a->width}, e);
    if (!st) l->at[l->n - 1].spread = 1.0f;
    if (!st && !a->own_bias)
        st = add(l, prefix, graft_t5_bias_name(), 2, (int64_t[]){a->buckets, a->heads}, e);
    if (!st) l->at[l->n - 1].spread = 1.0f;
    graft_graph_destroy(g);
    return st;
}

/* An encoder of pictures, Redux, or an IP-Adapter: a file of its own. */
static graft_status add_seeing(const options *o, list *l, graft_err *e)
{
    const bool small = graft_str_starts(o->kind->name, "tiny");
    const graft_vision_arch *a = make_vision_arch(small, strcmp(o->parts, "clip-vision") == 0);
    make_vision_first first = {graft_vision_first(a), 1, {a->width}};
    graft_unet_arch unet;
    graft_graph *g = NULL;
    fill_unet(o->kind, &unet);
    graft_status st = strcmp(o->parts, "redux") == 0
                          ? make_redux_graph(small, o->kind->flux.context_dim, &g, e)
                      : graft_str_starts(o->parts, "ip-adapter")
                          ? make_ip_adapter_graph(small, o->parts, &unet, &first, &g, e)
                          : graft_vision_build(a, GRAFT_F32, &g, e);
    if (!st) st = add_slots(l, "", g, true, e);
    if (!st && first.name) st = add(l, "", first.name, first.rank, first.dim, e);
    graft_graph_destroy(g);
    return st;
}

/* A GLIGEN for this UNet and its text encoder, as the published one is: a file of its own. */
static graft_status add_gligen(const options *o, list *l, graft_err *e)
{
    const bool small = graft_str_starts(o->kind->name, "tiny");
    graft_gligen_arch a = {.text = o->kind->text[0].arch.width,
                           .waves = 64,
                           .hidden = small ? 32 : 512,
                           .width = small ? 48 : 768};
    const int64_t text = a.text, waves = a.waves;
    graft_unet_arch unet;
    graft_graph *tokens = NULL, *blocks = NULL;
    fill_unet(o->kind, &unet);
    if (!graft_gligen_places(&unet, &a) || !a.n)
        return graft_fail(e, GRAFT_E_ARG, "this kind has no GLIGEN");
    graft_status st = graft_gligen_build(&a, GRAFT_F32, &tokens, e);
    if (!st) st = graft_gligen_build_all(&a, &blocks, e);
    if (!st) st = add_slots(l, "", tokens, true, e);
    if (!st) st = add_slots(l, "", blocks, true, e);
    if (!st) st = add(l, "", GRAFT_GLIGEN_NO_TEXT, 1, &text, e);
    if (!st) st = add(l, "", GRAFT_GLIGEN_NO_BOX, 1, &waves, e);
    graft_graph_destroy(tokens);
    graft_graph_destroy(blocks);
    return st;
}

/* What an unCLIP checkpoint has besides. */
static graft_status add_unclip(list *l, graft_err *e)
{
    graft_vision_arch a = *make_vision_arch(true, true);
    const int64_t width = a.width, pooled[2] = {1, a.projection};
    graft_graph *g = NULL;
    a.layout = GRAFT_TEXT_OPENCLIP;
    graft_status st = graft_vision_build(&a, GRAFT_F32, &g, e);
    if (!st) st = add_slots(l, "embedder.model.", g, true, e);
    if (!st) st = add(l, "embedder.model.", graft_vision_first(&a), 1, &width, e);
    if (!st) st = add(l, "", "noise_augmentor.data_mean", 2, pooled, e);
    if (!st) st = add(l, "", "noise_augmentor.data_std", 2, pooled, e);
    graft_graph_destroy(g);
    return st;
}

/* With the last layer and the norm, which prompts do not need where they are Qwen 3's, Ministral
 * 3's or Gemma 2's; of Mistral without, as its files for FLUX.2 are. */
static graft_status add_qwen3(const graft_qwen3_arch *a, list *l, graft_err *e)
{
    const graft_qwen3_shape shape = {.batch = 1,
                                     .tokens = 32,
                                     .act_dtype = GRAFT_F32,
                                     .normed = a->biased,
                                     .joined = graft_qwen3_is_led(a) ? GRAFT_QWEN3_DEV : 0,
                                     .every = a->llama,
                                     .placed = graft_qwen3_is_placed(a)};
    graft_qwen3_arch whole = *a;
    graft_graph *g = NULL;
    /* Nothing reads the last layer. */
    const bool third = !a->biased && !shape.joined && !shape.every;
    whole.layers += third;
    if (!a->layers) return graft_fail(e, GRAFT_E_ARG, "this kind has no Qwen");
    graft_status st = graft_qwen3_build(&whole, &shape, &g, e);
    if (!st) st = add_slots(l, "", g, true, e);
    if (!st && third) st = add(l, "", "model.norm.weight", 1, (int64_t[]){a->width}, e);
    if (!st) st = add(l, "", graft_qwen3_embeddings_name(), 2, (int64_t[]){a->vocab, a->width}, e);
    if (!st) l->at[l->n - 1].spread = 1.0f;
    graft_graph_destroy(g);
    return st;
}

/* What looks at pictures beside a Qwen 2.5, or beside a Qwen 3. */
static graft_status add_sight(const kind *k, list *l, graft_err *e)
{
    const graft_qwen_vision_shape shape = {.rows = 1, .columns = 1, .act_dtype = GRAFT_F32};
    const graft_qwen3_vision_shape shape3 = {.rows = 1, .columns = 1, .act_dtype = GRAFT_F32};
    const graft_qwen3_vision_arch *third = &k->qwen3_vision;
    const int64_t table[2] = {(int64_t)third->side * third->side, third->width};
    graft_graph *g = NULL;
    if (!k->qwen_vision.layers && !third->layers) return GRAFT_OK;
    graft_status st = third->layers ? graft_qwen3_vision_build(third, &shape3, &g, e)
                                    : graft_qwen_vision_build(&k->qwen_vision, &shape, &g, e);
    if (!st) st = add_slots(l, "visual.", g, true, e);
    if (!st && third->layers) st = add(l, "visual.", graft_qwen3_vision_table(), 2, table, e);
    graft_graph_destroy(g);
    return st;
}

static graft_status add_parts(const options *o, list *l, graft_err *e)
{
    graft_status st = GRAFT_OK;
    if (strcmp(o->parts, "lora") == 0) return add_lora(o, l, e);
    if (strcmp(o->parts, "controlnet") == 0) return add_control(o->kind, 0, false, l, e);
    if (strcmp(o->parts, "union") == 0) return add_control(o->kind, 8, false, l, e);
    if (strcmp(o->parts, "inpaint") == 0) return add_control(o->kind, 0, true, l, e);
    if (strcmp(o->parts, "upscaler") == 0) return add_upscaler(o->kind, l, e);
    if (strcmp(o->parts, "taesd") == 0) return add_taesd(o->kind, l, e);
    if (strcmp(o->parts, "gligen") == 0) return add_gligen(o, l, e);
    if (strcmp(o->parts, "t5") == 0) return add_t5(&o->kind->t5, "", l, e);
    if (strstr(o->parts, "vision") || strcmp(o->parts, "redux") == 0 || strstr(o->parts, "ip-"))
        return add_seeing(o, l, e);
    if (strcmp(o->parts, "qwen3") == 0) {
        st = add_qwen3(&o->kind->qwen3, l, e);
        return st ? st : add_sight(o->kind, l, e);
    }
    if (strstr(o->parts, "unet")) st = add_unet(o->kind, l, e);
    if (!st && strstr(o->parts, "vae")) st = add_vae(o->kind, l, e);
    if (!st && o->kind->t5.own_bias && strstr(o->parts, "clip"))
        st = add_t5(&o->kind->t5, "text_encoders.pile_t5xl.transformer.", l, e);
    if (!st && o->kind->unclip && strstr(o->parts, "clip")) st = add_unclip(l, e);
    const bool second = strcmp(o->parts, "clip2") == 0; /* without the first */
    for (int i = second; i < 2 && !st && strstr(o->parts, "clip"); i++)
        if (o->kind->text[i].prefix) st = add_encoder(&o->kind->text[i], l, e);
    return st;
}

/* ------------------------------------------------------------------ the program */

static int usage(void)
{
    fputs("usage: graft-make-model KIND FILE.safetensors [--dtype f16|bf16|f32|f8]\n"
          "                        [--seed N | --weights zeros]\n"
          "                        [--parts unet,vae,clip | --parts lora | --parts controlnet |\n"
          "                         --parts union | --parts inpaint | --parts upscaler |\n"
          "                         --parts taesd | --parts t5 | --parts clip2 |\n"
          "                         --parts vision | --parts "
          "clip-vision |\n"
          "                         --parts redux | --parts qwen3 | --parts ip-adapter |\n"
          "                         --parts ip-adapter-plus | --parts gligen]\nkinds:",
          stderr);
    for (size_t i = 0; model_kind_at(i); i++) fprintf(stderr, " %s", model_kind_at(i)->name);
    fputs("\n", stderr);
    return 2;
}

static bool parse(int argc, char **argv, options *o)
{
    *o = (options){.parts = "unet,vae,clip", .dtype = GRAFT_F16, .seed = 1};
    if (argc < 3 || argc % 2 == 0) return false;
    for (size_t i = 0; model_kind_at(i); i++)
        if (strcmp(argv[1], model_kind_at(i)->name) == 0) o->kind = model_kind_at(i);
    o->path = argv[2];
    for (int i = 3; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--seed") == 0)
            o->seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--weights") == 0 && strcmp(value, "zeros") == 0)
            o->zeros = true;
        else if (strcmp(argv[i], "--parts") == 0)
            o->parts = value;
        else if (strcmp(argv[i], "--dtype") == 0)
            o->dtype = strcmp(value, "f16") == 0    ? GRAFT_F16
                       : strcmp(value, "bf16") == 0 ? GRAFT_BF16
                       : strcmp(value, "f32") == 0  ? GRAFT_F32
                       : strcmp(value, "f8") == 0   ? GRAFT_F8_E4M3
                                                    : GRAFT_DTYPE_NONE;
        else
            return false;
    }
    return o->kind && o->dtype != GRAFT_DTYPE_NONE;
}

int main(int argc, char **argv)
{
    options o;
    list l = {0};
    graft_err e = GRAFT_ERR_INIT;
    int64_t values = 0;
    if (!parse(argc, argv, &o)) return usage();
    graft_status st = add_parts(&o, &l, &e);
    if (!st && !l.n) st = graft_fail(&e, GRAFT_E_ARG, "this kind has no part \"%s\"", o.parts);
    const model_file file = {o.path, o.dtype, o.seed, o.zeros, o.kind->config, o.kind->model_type};
    if (!st) st = model_file_write(&file, &l, &e);
    for (size_t i = 0; i < l.n; i++) values += model_tensor_count(&l.at[i]);
    if (st)
        fprintf(stderr, "graft-make-model: %s\n", e.text);
    else
        printf("%s: %zu tensors, %.1f million weights\n", o.path, l.n, (double)values * 1e-6);
    list_finish(&l);
    return st ? 1 : 0;
}
