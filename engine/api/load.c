/* Loading: which parts a file holds, and what they are. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/str.h"
#include "engine/api/control.h"
#include "engine/api/kinds.h"
#include "engine/weights/values.h"

#define SD_SCALE   0.18215
#define SDXL_SCALE 0.13025

#define LATENT_PIXELS 8 /* of the picture's width and height in one of the models' latents */

static const char *const unet_prefixes[] = {"model.diffusion_model.", "diffusion_model.", "", NULL};
static const char *const vae_prefixes[] = {"first_stage_model.", "vae.", "", NULL};

typedef struct text_place {
    const char *prefix;
    bool second; /* SDXL's second encoder */
} text_place;
static const text_place text_places[] = {{"cond_stage_model.transformer.", false},
                                         {"cond_stage_model.model.", false},
                                         {"conditioner.embedders.0.transformer.", false},
                                         {"conditioner.embedders.0.model.", true},
                                         {"conditioner.embedders.1.model.", true},
                                         {"", false},
                                         {NULL, false}};

static bool has(const graft_safetensors *f, const char *prefix, const char *name)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return graft_safetensors_find(f, full) != NULL;
}

static const char *find_prefix(const graft_safetensors *f, const char *const *prefixes,
                               const char *name)
{
    for (; *prefixes; prefixes++)
        if (has(f, *prefixes, name)) return *prefixes;
    return NULL;
}

static graft_status open_weights(const char *path, const graft_task *task, graft_weights **out,
                                 graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_task_phase(task, "load");
    graft_status st = graft_safetensors_open(path, &f, e);
    return st ? st : graft_weights_create(f, out, e);
}

/* Tensors below the prefix that the graph does not read are told, not refused: fine-tunes carry
 * leftovers. */
static graft_status report_unused(const graft_log *log, const graft_weights *w,
                                  const graft_graph *const *graph, size_t n_graphs, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(w);
    const char *prefix = graft_weights_prefix(w), *first = NULL;
    graft_map used = GRAFT_MAP_INIT;
    size_t unused = 0;
    graft_status st = GRAFT_OK;
    for (size_t n = 0; n < n_graphs && !st; n++)
        for (size_t i = 0; i < graph[n]->n_slots && !st; i++)
            for (size_t k = 0; k < graph[n]->slot[i].n_sources && !st; k++)
                if (graft_map_put(&used, graph[n]->slot[i].source[k], &used))
                    st = graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        const char *name = graft_safetensors_at(f, i)->name;
        if (graft_safetensors_at(f, i)->part || strncmp(name, prefix, strlen(prefix)) != 0)
            continue;
        if (graft_map_has(&used, name + strlen(prefix))) continue;
        if (!unused++) first = name;
    }
    graft_map_finish(&used);
    if (unused && prefix[0])
        graft_log_printf(log, GRAFT_LOG_WARN,
                         "%s: ignored %zu tensor%s that this architecture does not have: %s%s",
                         graft_safetensors_path(f), unused, unused == 1 ? "" : "s", first,
                         unused == 1 ? "" : ", …");
    return st;
}

static graft_status check_part(const graft_log *log, const graft_weights *w,
                               const graft_graph *const *graph, size_t n_graphs, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < n_graphs && !st; i++) st = graft_weights_check(w, graph[i], e);
    return st ? st : report_unused(log, w, graph, n_graphs, e);
}

/* A graph that the tensors' shapes do not add up to is the file's fault. */
static graft_status blame_file(const graft_weights *w, graft_status st, graft_err *e)
{
    if (!st || st == GRAFT_E_NOMEM) return st;
    return graft_err_prefix(e, GRAFT_E_FORMAT, "%s: the tensors below \"%s\" do not fit together",
                            graft_safetensors_path(graft_weights_file(w)), graft_weights_prefix(w));
}

/* ------------------------------------------------------------------ UNet */

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
    graft_to_f32(t->dtype, t->data, v, n);
    for (size_t i = 0; i < n; i++) mean += v[i] / (double)n;
    for (size_t i = 0; i < n; i++) var += (v[i] - mean) * (v[i] - mean) / (double)(n - 1);
    return sqrt(var) > 0.09;
}

static graft_status configure_model(graft_model *m, const graft_safetensors *f, const char *prefix,
                                    graft_err *e)
{
    graft_checkpoint_config c;
    graft_status st = graft_checkpoint_config_read(f, &c, e);
    if (st) return st;
    graft_family family = graft_unet_family(&m->arch);
    m->beta_start = c.beta_start;
    m->beta_end = c.beta_end;
    m->zsnr = c.zsnr;
    m->scale_factor = c.scale_factor > 0            ? c.scale_factor
                      : family == GRAFT_FAMILY_SDXL ? SDXL_SCALE
                                                    : SD_SCALE;
    m->preview = family == GRAFT_FAMILY_SDXL ? graft_preview_sdxl : graft_preview_sd;
    if (c.preview_given) memcpy(m->preview.row, c.preview, sizeof c.preview);
    bool v =
        c.prediction_given ? c.v_prediction : family == GRAFT_FAMILY_SD2 && is_sd2_v(f, prefix);
    m->prediction = v ? GRAFT_PREDICT_V : GRAFT_PREDICT_EPS;
    return GRAFT_OK;
}

static graft_status no_unet(const graft_safetensors *f, graft_err *e)
{
    const char *what = graft_kind_guess(f);
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: unknown architecture: no Stable Diffusion UNet in it%s%s (tensor "
                      "model.diffusion_model.input_blocks.0.0.weight is missing)",
                      graft_safetensors_path(f), what ? "; it seems to be " : "", what ? what : "");
}

static graft_status make_model(graft_engine *engine, graft_weights *file, const graft_task *task,
                               graft_model **out, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const char *prefix = find_prefix(f, unet_prefixes, "input_blocks.0.0.weight");
    if (!prefix) return no_unet(f, e);
    graft_model *m = graft_calloc(1, sizeof *m);
    graft_graph *g = NULL;
    graft_status st = GRAFT_OK;
    if (!m) return graft_fail_nomem(e, "model");
    atomic_init(&m->refs, 1);
    m->engine = engine;
    GRAFT_TRY(graft_unet_detect(f, prefix, graft_safetensors_metadata(f, "config"), &m->arch, e));
    GRAFT_TRY(configure_model(m, f, prefix, e));
    GRAFT_TRY(graft_weights_part(file, prefix, &m->weights, e));
    const graft_unet_shape shape = {
        .batch = 1, .height = 64, .width = 64, .tokens = 77, .act_dtype = GRAFT_F32};
    GRAFT_TRY(blame_file(m->weights, graft_unet_build(&m->arch, &shape, &g, e), e));
    GRAFT_TRY(check_part(task ? &task->log : &engine->log, m->weights,
                         (const graft_graph *const[]){g}, 1, e));
    GRAFT_TRY(graft_quant_choice_of_weights(&m->arch, m->weights, &m->quant, e));
    *out = m;
    m = NULL;
out:
    graft_graph_destroy(g);
    graft_model_release(m);
    return st;
}

/* ------------------------------------------------------------------ VAE */

/* "taesdxl_decoder.safetensors", "sdxl-tiny" */
static bool says_xl(const char *name, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if ((name[i] | 32) == 'x' && (name[i + 1] | 32) == 'l') return true;
    return false;
}

/* SDXL's TAESD has the same tensors in the same shapes as that of the others; what tells them apart
 * is what people call them: the file, or where all files have one name, its folder. */
static bool named_xl(const char *path)
{
    const char *name = strrchr(path, '/');
    if (!name) return says_xl(path, strlen(path));
    const char *folder = name;
    while (folder > path && folder[-1] != '/') folder--;
    return says_xl(name, strlen(name)) || says_xl(folder, (size_t)(name - folder));
}

/* Whose latents they are: what the file's config says; in a checkpoint, what its UNet is. */
static graft_status configure_tiny(graft_vae *v, const graft_safetensors *f, graft_err *e)
{
    graft_checkpoint_config c;
    graft_status st = graft_checkpoint_config_read(f, &c, e);
    if (st) return st;
    const char *unet = find_prefix(f, unet_prefixes, "input_blocks.0.0.weight");
    bool xl = unet ? has(f, unet, "label_emb.0.0.weight") : named_xl(graft_safetensors_path(f));
    v->scale_factor = c.scale_factor > 0 ? c.scale_factor : xl ? SDXL_SCALE : SD_SCALE;
    v->colours = xl ? graft_preview_sdxl : graft_preview_sd;
    if (c.preview_given) memcpy(v->colours.row, c.preview, sizeof c.preview);
    return GRAFT_OK;
}

/* Unlike elsewhere, a tensor that the graph does not read makes it a network of another kind: it
 * has no norms that would hide what is missing. */
static graft_status check_tiny(const graft_vae *v, const graft_graph *g, bool decoder, graft_err *e)
{
    const graft_weights *w = graft_vae_weights(v, decoder);
    const graft_safetensors *f = graft_weights_file(w);
    const char *layers = decoder ? "decoder.layers." : "encoder.layers.", *name;
    graft_str below = GRAFT_STR_INIT;
    graft_map used = GRAFT_MAP_INIT;
    graft_status st = GRAFT_OK;
    graft_str_printf(&below, "%s%s", graft_weights_prefix(w),
                     v->arch.names == GRAFT_TINY_LAYERS ? layers : "");
    if (below.failed) st = graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < g->n_slots && !st; i++)
        if (graft_map_put(&used, g->slot[i].source[0], &used))
            st = graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        name = graft_safetensors_at(f, i)->name;
        if (!graft_str_starts(name, below.data)) continue;
        if (!graft_map_has(&used, name + strlen(graft_weights_prefix(w))))
            st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                            "%s: a tiny autoencoder of an unknown kind: a TAESD has no tensor %s",
                            graft_safetensors_path(f), name);
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
    st = st ? blame_file(w, st, e) : graft_weights_check(w, g, e);
    if (!st && v->arch.kind == GRAFT_VAE_TINY) st = check_tiny(v, g, decoder, e);
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

static graft_status make_vae(graft_engine *engine, graft_weights *file, graft_vae **out,
                             graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const char *prefix = find_prefix(f, vae_prefixes, "decoder.conv_in.weight");
    graft_vae *v = NULL;
    graft_status st = GRAFT_OK;
    if (!prefix) prefix = find_prefix(f, vae_prefixes, "decoder.layers.0.weight");
    if (!prefix)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: no VAE in it (tensor first_stage_model.decoder.conv_in.weight is "
                          "missing)",
                          graft_safetensors_path(f));
    GRAFT_TRY(new_vae(engine, &v, e));
    GRAFT_TRY(graft_vae_detect(f, prefix, &v->arch, e));
    GRAFT_TRY(graft_weights_part(file, prefix, &v->weights, e));
    if (v->arch.kind == GRAFT_VAE_TINY) GRAFT_TRY(configure_tiny(v, f, e));
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
    graft_status st = open_weights(path, task, &file, e);
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
        st = make_vae(engine, file, out, e);
    }
    graft_weights_release(file);
    return st;
}

static graft_status open_half(const char *path, graft_tiny_part part, const graft_task *task,
                              graft_weights **out, graft_err *e)
{
    graft_status st = open_weights(path, task, out, e);
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
    return v->arch.kind == GRAFT_VAE_TINY && graft_vae_factor(&v->arch) <= LATENT_PIXELS &&
           v->scale_factor == m->scale_factor &&
           memcmp(&v->colours, &m->preview, sizeof v->colours) == 0;
}

/* ------------------------------------------------------------------ ControlNet */

/* Relatives of ControlNets that steer a UNet in other ways. */
static graft_status no_controlnet(const graft_safetensors *f, graft_err *e)
{
    const char *path = graft_safetensors_path(f);
    if (has(f, "", "lora_controlnet"))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a Control-LoRA, which is made of parts of the model; only whole "
                          "ControlNets are supported",
                          path);
    if (has(f, "", "body.0.resnets.0.block1.weight") || has(f, "", "adapter.body.0.in_conv.weight"))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a T2I adapter; only ControlNets are supported", path);
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s: no ControlNet in it (tensor control_model.input_hint_block.0.weight is "
                      "missing)",
                      path);
}

/* Whether the copy of a UNet in it is one of differences. Norms tell: their scales lie about 1 in a
 * network, and about 0 in what training has changed of them. */
static bool holds_differences(const graft_weights *w, const graft_graph *g)
{
    double sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < g->n_slots; i++) {
        const graft_gslot *s = &g->slot[i];
        float v[4096];
        if (s->rank != 1 || s->dim[0] > 4096 || !graft_str_ends(s->source[0], ".weight")) continue;
        if (graft_weights_values(w, s->source[0], 0, s->dim[0], v, NULL)) continue;
        for (int64_t k = 0; k < s->dim[0]; k++) sum += fabs((double)v[k]);
        count += s->dim[0];
    }
    return count && sum < 0.1 * (double)count;
}

static graft_status add_model(graft_controlnet *n, const graft_model *m, const graft_graph *g,
                              graft_err *e)
{
    graft_weights *sum;
    graft_status st;
    if (n->arch.diffusers)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: differences in diffusers' names; only those in LDM's names are "
                          "supported",
                          graft_safetensors_path(graft_weights_file(n->weights)));
    GRAFT_TRY(graft_control_check(m, n, e));
    GRAFT_TRY(graft_weights_add(n->weights, m->weights, &sum, e));
    graft_weights_release(n->weights);
    n->weights = sum;
    GRAFT_TRY(graft_weights_check(sum, g, e));
out:
    return st;
}

/* m: NULL, or what differences are from. */
static graft_status add_differences(graft_controlnet *n, const graft_model *m, const graft_graph *g,
                                    const graft_log *log, graft_err *e)
{
    const char *path = graft_safetensors_path(graft_weights_file(n->weights));
    bool differences = holds_differences(n->weights, g);
    if (differences && m) return add_model(n, m, g, e);
    if (differences)
        graft_log_printf(log, GRAFT_LOG_WARN,
                         "%s: it seems to hold differences from a model's weights, which "
                         "DiffControlNetLoader adds to a model's",
                         path);
    else if (m)
        graft_log_printf(log, GRAFT_LOG_WARN,
                         "%s: it holds whole weights, no differences from a model's; nothing is "
                         "added to them",
                         path);
    return GRAFT_OK;
}

static graft_status make_controlnet(graft_engine *engine, graft_weights *file, const graft_model *m,
                                    const graft_task *task, graft_controlnet **out, graft_err *e)
{
    static const char *const prefixes[] = {"control_model.", "", NULL};
    const graft_safetensors *f = graft_weights_file(file);
    const char *prefix = find_prefix(f, prefixes, "input_hint_block.0.weight");
    if (!prefix) prefix = find_prefix(f, prefixes, "controlnet_cond_embedding.conv_in.weight");
    const graft_control_shape shape = {1, 64, 64, 77, 1, GRAFT_F32, 0};
    graft_graph *g[2] = {NULL, NULL};
    graft_status st;
    if (!prefix) return no_controlnet(f, e);
    graft_controlnet *n = graft_calloc(1, sizeof *n);
    if (!n) return graft_fail_nomem(e, "ControlNet");
    atomic_init(&n->refs, 1);
    n->engine = engine;
    GRAFT_TRY(
        graft_control_detect(f, prefix, graft_safetensors_metadata(f, "config"), &n->arch, e));
    GRAFT_TRY(graft_weights_part(file, prefix, &n->weights, e));
    GRAFT_TRY(blame_file(n->weights, graft_control_build(&n->arch, &shape, &g[0], e), e));
    GRAFT_TRY(blame_file(n->weights,
                         graft_control_hint_build(&n->arch, 1, 64, 64, GRAFT_F32, &g[1], e), e));
    const graft_log *log = task ? &task->log : &engine->log;
    GRAFT_TRY(check_part(log, n->weights, (const graft_graph *const *)g, 2, e));
    GRAFT_TRY(add_differences(n, m, g[0], log, e));
    *out = n;
    n = NULL;
out:
    graft_graph_destroy(g[0]);
    graft_graph_destroy(g[1]);
    graft_controlnet_release(n);
    return st;
}

graft_status graft_controlnet_load_diff(graft_engine *engine, const char *path,
                                        const graft_model *m, const graft_task *task,
                                        graft_controlnet **out, graft_err *e)
{
    graft_weights *file = NULL;
    graft_status st = open_weights(path, task, &file, e);
    if (!st) st = make_controlnet(engine, file, m, task, out, e);
    graft_weights_release(file);
    return st;
}

graft_status graft_controlnet_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_controlnet **out, graft_err *e)
{
    return graft_controlnet_load_diff(engine, path, NULL, task, out, e);
}

/* ------------------------------------------------------------------ text encoders */

static graft_status check_encoder(const graft_encoder *n, graft_err *e)
{
    graft_graph *g = NULL;
    graft_textenc_shape shape = {1, GRAFT_TEXT_CHUNK, n->arch.layers, true, true, true, GRAFT_F32};
    graft_status st = graft_textenc_build(&n->arch, &shape, &g, e);
    st = st ? blame_file(n->weights, st, e) : graft_weights_check(n->weights, g, e);
    graft_graph_destroy(g);
    return st;
}

/* Looks for one encoder at a place; *found is false when there is none. `sdxl`: the hidden state is
 * the last but one, without norm. */
static graft_status add_encoder(graft_clip *c, graft_weights *file, const text_place *place,
                                bool sdxl, bool *found, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    *found = has(f, place->prefix, "positional_embedding") ||
             has(f, place->prefix, "text_model.embeddings.position_embedding.weight");
    if (!*found) return GRAFT_OK;
    if (c->n_encoders == 2)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: more than two text encoders",
                          graft_safetensors_path(f));
    graft_encoder *n = &c->encoder[c->n_encoders];
    graft_status st =
        graft_text_detect(f, place->prefix, graft_safetensors_metadata(f, "config"), &n->arch, e);
    if (st) return st;
    bool big = n->arch.layout == GRAFT_TEXT_OPENCLIP || n->arch.width >= 1024;
    n->pad_token = big ? 0 : 49407;
    n->layer = sdxl || big ? 2 : 1;
    n->hidden_norm = !sdxl;
    st = graft_weights_part(file, place->prefix, &n->weights, e);
    if (st) return st;
    c->n_encoders++;
    return check_encoder(n, e);
}

static graft_clip *new_clip(graft_engine *engine)
{
    graft_clip *c = graft_calloc(1, sizeof *c);
    if (!c) return NULL;
    atomic_init(&c->refs, 1);
    c->engine = engine;
    snprintf(c->options.precision, sizeof c->options.precision, "f32");
    return c;
}

static graft_status make_clip(graft_engine *engine, graft_weights *file, graft_clip **out,
                              graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    graft_clip *c = new_clip(engine);
    graft_status st = GRAFT_OK;
    if (!c) return graft_fail_nomem(e, "text encoder");
    bool sdxl = has(f, "conditioner.embedders.1.model.", "positional_embedding") ||
                has(f, "conditioner.embedders.0.model.", "positional_embedding");
    for (const text_place *p = text_places; p->prefix && p->prefix[0]; p++) {
        bool found;
        GRAFT_TRY(add_encoder(c, file, p, sdxl, &found, e));
    }
    if (!c->n_encoders) {
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "%s: no CLIP text encoder in it (no cond_stage_model.* or "
                        "conditioner.embedders.* tensors)",
                        graft_safetensors_path(f));
        goto out;
    }
    *out = c;
    c = NULL;
out:
    graft_clip_release(c);
    return st;
}

graft_status graft_clip_load(graft_engine *engine, const char *const *paths, size_t n_paths,
                             const char *type, const graft_task *task, graft_clip **out,
                             graft_err *e)
{
    bool sdxl = strcmp(type, "sdxl") == 0;
    if (!sdxl && strcmp(type, "stable_diffusion") != 0)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "text encoders of type %s are not supported",
                          type);
    if (n_paths != (sdxl ? 2u : 1u))
        return graft_fail(e, GRAFT_E_ARG, "type %s takes %d file(s)", type, sdxl ? 2 : 1);
    graft_clip *c = new_clip(engine);
    graft_weights *file = NULL;
    graft_status st = GRAFT_OK;
    if (!c) return graft_fail_nomem(e, "text encoder");
    for (size_t i = 0; i < n_paths; i++) {
        bool found = false;
        GRAFT_TRY(open_weights(paths[i], task, &file, e));
        for (const text_place *p = text_places; p->prefix && !found; p++)
            GRAFT_TRY(add_encoder(c, file, p, sdxl, &found, e));
        if (!found) {
            st = graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: no CLIP text encoder in it", paths[i]);
            goto out;
        }
        graft_weights_release(file);
        file = NULL;
    }
    if (sdxl && c->encoder[0].arch.width > c->encoder[1].arch.width) {
        graft_encoder t = c->encoder[0];
        c->encoder[0] = c->encoder[1];
        c->encoder[1] = t;
    }
    *out = c;
    c = NULL;
out:
    graft_weights_release(file);
    graft_clip_release(c);
    return st;
}

/* ------------------------------------------------------------------ files */

graft_status graft_checkpoint_load(graft_engine *engine, const char *path, const graft_task *task,
                                   graft_model **model, graft_clip **clip, graft_vae **vae,
                                   graft_err *e)
{
    graft_weights *file = NULL;
    graft_model *m = NULL;
    graft_clip *c = NULL;
    graft_vae *v = NULL;
    graft_status st = open_weights(path, task, &file, e);
    if (st) return st;
    if (model) GRAFT_TRY(make_model(engine, file, task, &m, e));
    if (clip) GRAFT_TRY(make_clip(engine, file, &c, e));
    if (vae) GRAFT_TRY(make_vae(engine, file, &v, e));
    if (model) *model = m;
    if (clip) *clip = c;
    if (vae) *vae = v;
    m = NULL;
    c = NULL;
    v = NULL;
out:
    graft_model_release(m);
    graft_clip_release(c);
    graft_vae_release(v);
    graft_weights_release(file);
    return st;
}

graft_status graft_model_load(graft_engine *engine, const char *path, const graft_task *task,
                              graft_model **out, graft_err *e)
{
    return graft_checkpoint_load(engine, path, task, out, NULL, NULL, e);
}
