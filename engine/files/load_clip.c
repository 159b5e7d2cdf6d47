/* Text encoders: of a checkpoint, or of files of their own. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/files/kinds.h"
#include "engine/files/llama_rows.h"
#include "engine/files/load.h"
#include "engine/files/mmproj.h"
#include "engine/models/detect/detect.h"
#include "engine/prompts/qwen3.h"
#include "engine/prompts/t5.h"

/* In a checkpoint; a file of its own has the last. */
static const char *const places[] = {"cond_stage_model.transformer.",
                                     "cond_stage_model.model.",
                                     "conditioner.embedders.0.transformer.",
                                     "conditioner.embedders.0.model.",
                                     "conditioner.embedders.1.model.",
                                     "text_encoders.clip_l.transformer.",
                                     "text_encoders.clip_g.transformer.",
                                     "",
                                     NULL};

static graft_status check_encoder(const graft_encoder *n, graft_err *e)
{
    graft_graph *g = NULL;
    graft_textenc_shape shape = {1, GRAFT_TEXT_CHUNK, n->arch.layers, true, true, true, GRAFT_F32};
    graft_status st = graft_textenc_build(&n->arch, &shape, &g, e);
    st = st ? graft_load_blame(n->weights, st, e) : graft_weights_check(n->weights, g, e);
    graft_graph_destroy(g);
    return st;
}

/* SD 2's encoder has 24 layers, of which the last is not used: diffusers does not keep it. */
static bool is_cut(const graft_text_arch *a)
{
    return a->layout == GRAFT_TEXT_HF && a->width == 1024 && a->layers == 23;
}

/* Looks for one encoder at a place; *found is false when there is none. Of several the hidden state
 * is the last but one, without norm. */
static graft_status add_encoder(graft_clip *c, graft_weights *file, const char *place, bool *found,
                                graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const bool several = c->kind != GRAFT_CLIP_ONE;
    *found = graft_load_has(f, place, "positional_embedding") ||
             graft_load_has(f, place, "text_model.embeddings.position_embedding.weight");
    if (!*found) return GRAFT_OK;
    if (c->n_encoders == 2)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: more than two text encoders",
                          graft_safetensors_path(f));
    graft_encoder *n = &c->encoder[c->n_encoders];
    graft_status st =
        graft_text_detect(f, place, graft_safetensors_metadata(f, "config"), &n->arch, e);
    if (st) return st;
    bool big = n->arch.layout == GRAFT_TEXT_OPENCLIP || n->arch.width >= 1024;
    n->pad_token = big ? 0 : 49407;
    n->cut = is_cut(&n->arch);
    n->large = n->arch.width == 1280 || strstr(place, "clip_g");
    n->layer = (several || big ? 2 : 1) - n->cut;
    n->hidden_norm = !several;

    st = graft_weights_part(file, place, &n->weights, e);
    if (st) return st;
    c->n_encoders++;
    return check_encoder(n, e);
}

/* In a checkpoint; a file of its own has the last. */
static const char *const t5_places[] = {"text_encoders.t5xxl.transformer.",
                                        "text_encoders.pile_t5xl.transformer.", "", NULL};

#define PILE_T5_WIDTH 2048 /* of the one that AuraFlow reads */

/* Each network was trained with one of the two kinds. */
static graft_status check_t5(const graft_clip *c, const graft_safetensors *f, const char *place,
                             graft_err *e)
{
    const bool pile = c->kind == GRAFT_CLIP_AURAFLOW;
    graft_t5_arch a;
    graft_status st = graft_t5_detect(f, place, &a, e);
    if (st) return st;
    if (a.own_bias && (!pile || a.width > PILE_T5_WIDTH))
        return graft_fail(
            e, GRAFT_E_UNSUPPORTED,
            "%s: a UMT5, whose layers have a bias of their own each, %d numbers wide: "
            "only AuraFlow reads one, Pile-T5-XL of %d",
            graft_safetensors_path(f), a.width, PILE_T5_WIDTH);
    if (pile && !a.own_bias)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a T5 whose layers share a bias; AuraFlow reads Pile-T5",
                          graft_safetensors_path(f));
    return GRAFT_OK;
}

/* The same for T5, of which there is one. */
static graft_status add_t5(graft_clip *c, graft_weights *file, const char *place,
                           const graft_task *task, bool *found, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    *found = graft_load_has(f, place, GRAFT_T5_TENSOR);
    if (!*found) return GRAFT_OK;
    if (c->t5)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: more than one T5",
                          graft_safetensors_path(f));
    graft_status st = check_t5(c, f, place, e);
    if (!st) st = graft_t5_load(file, place, task, &c->t5, e);
    if (!st) c->width = c->t5->arch.width;
    return st;
}

/* In a checkpoint; a file of its own has the last. */
static const char *const qwen3_places[] = {"text_encoders.qwen3_4b.transformer.",
                                           "text_encoders.qwen3_8b.transformer.",
                                           "text_encoders.qwen3vl_4b.transformer.",
                                           "text_encoders.qwen3vl_8b.transformer.",
                                           "text_encoders.qwen3_06b.transformer.",
                                           "text_encoders.qwen3_2b.transformer.",
                                           "",
                                           "model.language_",
                                           "llm.", /* Ovis 2.5's */
                                           NULL};
/* Likewise; transformers calls the language model beside one for pictures model.language_model. */
static const char *const qwen25_places[] = {"text_encoders.qwen25_7b.transformer.",
                                            "text_encoders.qwen25_3b.transformer.", "",
                                            "model.language_", NULL};

/* Likewise; transformers has both names for Mistral's beside one for pictures. */
static const char *const mistral_places[] = {"text_encoders.mistral3_24b.transformer.",
                                             "text_encoders.ministral3_3b.transformer.",
                                             "",
                                             "language_model.",
                                             "model.language_",
                                             NULL};

/* Likewise. */
static const char *const gemma2_places[] = {"text_encoders.gemma2_2b.transformer.", "", NULL};

/* NULL: there is none. */
static const char *mistral_place(const graft_safetensors *f)
{
    const char *place = graft_load_prefix(f, mistral_places, GRAFT_MISTRAL_TENSOR);
    return place && graft_qwen3_is_mistral(f, place) && !graft_qwen3_is_llama(f, place) ? place
                                                                                        : NULL;
}

/* Likewise. */
static const char *const llama_places[] = {"text_encoders.llama.transformer.", "",
                                           "model.language_", NULL};

static bool takes_qwen25(graft_clip_kind kind)
{
    return kind == GRAFT_CLIP_QWEN_IMAGE || kind == GRAFT_CLIP_LONGCAT ||
           kind == GRAFT_CLIP_OMNIGEN2;
}

static const char *qwen_place(const graft_safetensors *f, graft_clip_kind kind)
{
    const bool ernie = kind == GRAFT_CLIP_ERNIE_IMAGE;
    if (kind == GRAFT_CLIP_LUMINA2) return graft_load_prefix(f, gemma2_places, GRAFT_GEMMA2_TENSOR);
    const char *mistral = kind == GRAFT_CLIP_FLUX2 || ernie ? mistral_place(f) : NULL;
    if (mistral || ernie) return mistral;
    return takes_qwen25(kind) ? graft_load_prefix(f, qwen25_places, GRAFT_QWEN25_TENSOR)
                              : graft_load_prefix(f, qwen3_places, GRAFT_QWEN3_TENSOR);
}

/* Of one whose layers the network reads: how wide its prompts are, and whether it has them. */
static graft_status settle_layers(graft_clip *c, const graft_safetensors *f, graft_err *e)
{
    const bool mistral = c->qwen3->arch.mistral;
    const struct {
        graft_clip_kind kind;
        int32_t layers, last;
        const char *network;
    } reads[] = {
        {GRAFT_CLIP_FLUX2, GRAFT_QWEN3_JOINED,
         mistral ? GRAFT_MISTRAL_JOINED_LEAST - 1 : GRAFT_QWEN3_JOINED_END, "FLUX.2"},
        {GRAFT_CLIP_KREA2, GRAFT_QWEN3_LAYERED, GRAFT_QWEN3_LAYERED_END, "Krea 2"},
        {GRAFT_CLIP_IDEOGRAM4, GRAFT_QWEN3_STACKED, GRAFT_QWEN3_STACKED_END, "Ideogram 4"}};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        if (reads[i].kind != c->kind) continue;
        c->width *= reads[i].layers;
        if (c->qwen3->arch.layers <= reads[i].last)
            return graft_fail(
                e, GRAFT_E_UNSUPPORTED,
                "%s: a %s of %d layers; %s wants what layer %d of one with more gives",
                graft_safetensors_path(f), graft_qwen3_family(&c->qwen3->arch),
                c->qwen3->arch.layers, reads[i].network, reads[i].last);
    }
    return mistral && c->kind != GRAFT_CLIP_ERNIE_IMAGE
               ? graft_qwen3_check(c->qwen3, GRAFT_QWEN3_TAKE_LED, e)
           : c->kind == GRAFT_CLIP_IDEOGRAM4
               ? graft_qwen3_check(c->qwen3, GRAFT_QWEN3_TAKE_STACKED, e)
               : GRAFT_OK;
}

/* The same for Qwen, which is alone, in any of its places. */
static graft_status add_qwen3(graft_clip *c, graft_weights *file, const graft_task *task,
                              bool *found, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const char *place = qwen_place(f, c->kind);
    *found = place != NULL;
    if (!place) return GRAFT_OK;
    graft_status st = graft_qwen3_load(c->engine, file, place, task, &c->qwen3, e);
    if (st) return st;
    c->width = c->qwen3->arch.width;
    if (c->kind == GRAFT_CLIP_ANIMA) return graft_qwen3_take_words(c->qwen3, f, place, task, e);
    if (c->kind == GRAFT_CLIP_QWEN_IMAGE21)
        return graft_qwen3_check(c->qwen3, GRAFT_QWEN3_TAKE_WHOLE, e);
    if (c->kind == GRAFT_CLIP_ERNIE_IMAGE && !c->qwen3->arch.ministral)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a Mistral of %d layers; ERNIE-Image reads a Ministral 3 of %d",
                          graft_safetensors_path(f), c->qwen3->arch.layers, GRAFT_MINISTRAL_LAYERS);
    return settle_layers(c, f, e);
}

/* The same for Llama 3.1, of which there is one, beside others. */
static graft_status add_llama(graft_clip *c, graft_weights *file, const graft_task *task,
                              bool *found, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    const char *place = graft_load_prefix(f, llama_places, GRAFT_MISTRAL_TENSOR);
    *found = place && graft_qwen3_is_llama(f, place);
    if (!*found) return GRAFT_OK;
    if (c->qwen3)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: more than one Llama",
                          graft_safetensors_path(f));
    return graft_qwen3_load(c->engine, file, place, task, &c->qwen3, e);
}

/* A checkpoint's. Without its tokenizer the network is there all the same. */
static graft_status add_checkpoint_llama(graft_clip *c, graft_weights *file, const graft_task *task,
                                         graft_err *e)
{
    bool found;
    if (c->kind != GRAFT_CLIP_HIDREAM) return GRAFT_OK;
    graft_status st = add_llama(c, file, task, &found, e);
    if (st != GRAFT_E_NOTFOUND) return st;
    graft_fail(&c->missing, st, "%s", e->text);
    return GRAFT_OK;
}

static bool may_have_t5(const graft_clip *c)
{
    return c->kind == GRAFT_CLIP_SD3 || c->kind == GRAFT_CLIP_HIDREAM ||
           c->kind == GRAFT_CLIP_FLUX || c->kind == GRAFT_CLIP_CHROMA ||
           c->kind == GRAFT_CLIP_AURAFLOW;
}

/* A checkpoint's T5. Without its tokenizer the other encoders do, as SD 3 was made to; FLUX and
 * Chroma were not. AuraFlow's checkpoints have none, so that its network is there all the same. */
static graft_status add_checkpoint_t5(graft_clip *c, graft_weights *file, const graft_task *task,
                                      graft_err *e)
{
    bool found;
    const char *place = graft_load_prefix(graft_weights_file(file), t5_places, GRAFT_T5_TENSOR);
    if (!may_have_t5(c) || !place || !place[0]) return GRAFT_OK;
    graft_status st = add_t5(c, file, place, task, &found, e);
    if (st == GRAFT_E_NOTFOUND && c->kind == GRAFT_CLIP_AURAFLOW) {
        graft_fail(&c->missing, st, "%s", e->text);
        return GRAFT_OK;
    }
    if (st != GRAFT_E_NOTFOUND || c->kind != GRAFT_CLIP_SD3) return st;
    graft_log_printf(task ? &task->log : &c->engine->log, GRAFT_LOG_WARN,
                     "T5 is left out of the prompts: %s", e->text);
    return GRAFT_OK;
}

/* A checkpoint's Qwen. Without T5's tokenizer Anima's network is there all the same. */
static graft_status add_checkpoint_qwen3(graft_clip *c, graft_weights *file, const graft_task *task,
                                         bool *found, graft_err *e)
{
    graft_status st = add_qwen3(c, file, task, found, e);
    if (st != GRAFT_E_NOTFOUND || c->kind != GRAFT_CLIP_ANIMA) return st;
    graft_fail(&c->missing, st, "%s", e->text);
    return GRAFT_OK;
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

static bool is_qwen3(graft_clip_kind kind)
{
    return kind == GRAFT_CLIP_QWEN3 || kind == GRAFT_CLIP_FLUX2 || kind == GRAFT_CLIP_QWEN_IMAGE ||
           kind == GRAFT_CLIP_KREA2 || kind == GRAFT_CLIP_ANIMA ||
           kind == GRAFT_CLIP_QWEN_IMAGE21 || kind == GRAFT_CLIP_IDEOGRAM4 ||
           kind == GRAFT_CLIP_LONGCAT || kind == GRAFT_CLIP_OVIS ||
           kind == GRAFT_CLIP_ERNIE_IMAGE || kind == GRAFT_CLIP_LUMINA2 ||
           kind == GRAFT_CLIP_OMNIGEN2;
}

/* Whether a file that was asked for as this kind is Anima's text encoder: the Qwen 3 of 0.6 billion
 * weights, whatever it was asked for as, as in ComfyUI; or a smaller one where it was asked for as
 * Stable Diffusion's, which have none. */
static bool is_anima(const graft_safetensors *f, graft_clip_kind kind)
{
    enum { WIDTH = 1024 };
    char name[128];
    const char *place = graft_load_prefix(f, qwen3_places, GRAFT_QWEN3_TENSOR);
    if (!place) return false;
    snprintf(name, sizeof name, "%smodel.norm.weight", place);
    const graft_st_tensor *t = graft_safetensors_find(f, name);
    return t && t->rank == 1 &&
           (t->shape[0] == WIDTH || (kind == GRAFT_CLIP_ONE && t->shape[0] < WIDTH));
}

/* Whether a file that was asked for as FLUX.2's, or as Stable Diffusion's, which have none, is
 * ERNIE-Image's: a Ministral 3 in place of Mistral Small. */
static bool is_ernie_image(const graft_safetensors *f, graft_clip_kind kind)
{
    const char *place =
        kind == GRAFT_CLIP_FLUX2 || kind == GRAFT_CLIP_ONE ? mistral_place(f) : NULL;
    return place && graft_qwen3_is_ministral(f, place);
}

/* Whether a file that was asked for as Z-Image's, or as Stable Diffusion's, which have none, is
 * Lumina-Image 2.0's, which has the type of the former. */
static bool is_lumina2(const graft_safetensors *f, graft_clip_kind kind)
{
    return (kind == GRAFT_CLIP_QWEN3 || kind == GRAFT_CLIP_ONE) &&
           graft_load_prefix(f, gemma2_places, GRAFT_GEMMA2_TENSOR);
}

/* Whether a file that was asked for as Qwen-Image's is Qwen-Image 2.1's, which has the same type:
 * a Qwen 3 in place of Qwen 2.5. */
static bool is_qwen_image21(const graft_safetensors *f)
{
    return !graft_load_prefix(f, qwen25_places, GRAFT_QWEN25_TENSOR) &&
           graft_load_prefix(f, qwen3_places, GRAFT_QWEN3_TENSOR);
}

static const char *qwen_name(graft_clip_kind kind)
{
    return takes_qwen25(kind)               ? "Qwen 2.5"
           : kind == GRAFT_CLIP_FLUX2       ? "Qwen 3 or Mistral"
           : kind == GRAFT_CLIP_ERNIE_IMAGE ? "Ministral 3"
           : kind == GRAFT_CLIP_LUMINA2     ? "Gemma 2"
                                            : "Qwen 3";
}

/* Whether it has T5 alone. */
static bool is_t5(graft_clip_kind kind)
{
    return kind == GRAFT_CLIP_CHROMA || kind == GRAFT_CLIP_AURAFLOW;
}

/* Whether a file that was asked for as a kind that may be a T5, or as Stable Diffusion's, which
 * have none, is AuraFlow's. */
static bool is_auraflow(const graft_safetensors *f, graft_clip_kind kind)
{
    const char *place =
        kind == GRAFT_CLIP_ONE || kind == GRAFT_CLIP_SD3 || kind == GRAFT_CLIP_CHROMA
            ? graft_load_prefix(f, t5_places, GRAFT_UMT5_TENSOR)
            : NULL;
    return place != NULL;
}

/* Whether it has one encoder, which is none of CLIP's. */
static bool is_alone(graft_clip_kind kind)
{
    return is_qwen3(kind) || is_t5(kind);
}

static graft_status no_encoder(const graft_safetensors *f, graft_clip_kind kind, graft_err *e)
{
    char guess[128];
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: no %s text encoder in it%s",
                      graft_safetensors_path(f),
                      is_qwen3(kind)               ? qwen_name(kind)
                      : is_t5(kind)                ? "T5"
                      : kind == GRAFT_CLIP_HIDREAM ? "CLIP, T5 or Llama 3.1"
                                                   : "CLIP",
                      graft_kind_guess(f, "CLIPLoader", guess, sizeof guess));
}

/* Checkpoints may come without text encoders, which then are files of their own: what is missing is
 * told when somebody wants it. */
static void note_missing(graft_clip *c, const graft_safetensors *f, const char *what)
{
    graft_fail(&c->missing, GRAFT_E_UNSUPPORTED,
               "%s: %s; %s opens text encoders that are files of their own",
               graft_safetensors_path(f), what,
               c->kind == GRAFT_CLIP_ONE || is_alone(c->kind) ? "CLIPLoader" : "DualCLIPLoader");
}

/* What is known once all encoders are there: SDXL's refiner has one of SDXL's; of two the second is
 * CLIP-G, which pads as OpenCLIP does, in whichever names; and SD 3 and FLUX take L's pooled output
 * as it is, though the file may have a projection, which HiDream's goes through. */
static void settle(graft_clip *c)
{
    if (c->kind == GRAFT_CLIP_SDXL && c->n_encoders == 1) c->kind = GRAFT_CLIP_ONE;
    for (size_t i = 0; i < c->n_encoders; i++) {
        graft_encoder *n = &c->encoder[i];
        if (c->n_encoders == 2) n->large = i == 1;
        if (n->large) n->pad_token = 0;
        if (may_have_t5(c) && c->kind != GRAFT_CLIP_HIDREAM && !n->large) n->arch.projection = 0;
    }
}

/* Of a checkpoint of FLUX.1, or of a relative. */
static graft_clip_kind flux_kind(const graft_safetensors *f)
{
    const char *prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_FLUX_TENSOR);
    const graft_flux_relative relative = graft_flux_relative_of(f, prefix);
    return relative == GRAFT_FLUX_LONGCAT ? GRAFT_CLIP_LONGCAT
           : relative == GRAFT_FLUX_OVIS  ? GRAFT_CLIP_OVIS
                                          : GRAFT_CLIP_FLUX;
}

/* Whether a checkpoint is Lumina-Image 2.0's, by its network or its text encoder. */
static bool has_lumina2(const graft_safetensors *f)
{
    const char *prefix = graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_ZIMAGE_TENSOR);
    return (prefix && graft_zimage_is_lumina2(f, prefix)) ||
           graft_load_prefix(f, gemma2_places, GRAFT_GEMMA2_TENSOR);
}

/* What a checkpoint's encoders are for. */
static graft_clip_kind kind_of(const graft_safetensors *f)
{
    static const char token[] = "text_model.embeddings.token_embedding.weight";
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_ANIMA_TENSOR)) return GRAFT_CLIP_ANIMA;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_FLUX2_TENSOR)) return GRAFT_CLIP_FLUX2;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_KREA2_TENSOR)) return GRAFT_CLIP_KREA2;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_QWEN_IMAGE21_TENSOR))
        return GRAFT_CLIP_QWEN_IMAGE21;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_IDEOGRAM4_TENSOR))
        return GRAFT_CLIP_IDEOGRAM4;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_ERNIE_IMAGE_TENSOR))
        return GRAFT_CLIP_ERNIE_IMAGE;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_AURAFLOW_TENSOR))
        return GRAFT_CLIP_AURAFLOW;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_HIDREAM_TENSOR))
        return GRAFT_CLIP_HIDREAM;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_QWEN_IMAGE_TENSOR))
        return GRAFT_CLIP_QWEN_IMAGE;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_OMNIGEN2_TENSOR))
        return GRAFT_CLIP_OMNIGEN2;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_CHROMA_TENSOR))
        return GRAFT_CLIP_CHROMA;
    if (graft_load_prefix(f, graft_load_unet_prefixes, GRAFT_FLUX_TENSOR)) return flux_kind(f);
    if (has_lumina2(f)) return GRAFT_CLIP_LUMINA2;
    if (graft_load_prefix(f, qwen25_places, GRAFT_QWEN25_TENSOR)) return GRAFT_CLIP_QWEN_IMAGE;
    if (graft_load_prefix(f, qwen3_places, GRAFT_QWEN3_TENSOR)) return GRAFT_CLIP_QWEN3;
    if (graft_load_has(f, "text_encoders.clip_l.transformer.", token) ||
        graft_load_has(f, "text_encoders.clip_g.transformer.", token))
        return GRAFT_CLIP_SD3;
    bool sdxl = graft_load_has(f, "conditioner.embedders.1.model.", "positional_embedding") ||
                graft_load_has(f, "conditioner.embedders.0.model.", "positional_embedding");
    return sdxl ? GRAFT_CLIP_SDXL : GRAFT_CLIP_ONE;
}

/* What the checkpoint's transformer takes, or all published ones. */
static int64_t context_width(const graft_safetensors *f)
{
    const graft_st_tensor *t =
        graft_safetensors_find(f, "model.diffusion_model.context_embedder.weight");
    return t && t->rank == 2 ? t->shape[1] : GRAFT_SD3_CONTEXT;
}

/* FLUX needs both; it has no place for more. */
static bool is_whole(const graft_clip *c)
{
    return c->kind != GRAFT_CLIP_FLUX || (c->n_encoders == 1 && !c->encoder[0].large && c->t5);
}

graft_status graft_load_clip_part(graft_engine *engine, graft_weights *file, const graft_task *task,
                                  graft_clip **out, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(file);
    graft_clip *c = new_clip(engine);
    graft_status st = GRAFT_OK;
    if (!c) return graft_fail_nomem(e, "text encoder");
    c->kind = kind_of(f);
    c->width = context_width(f);
    for (const char *const *p = places; (*p)[0] && !is_alone(c->kind); p++) {
        bool found;
        GRAFT_TRY(add_encoder(c, file, *p, &found, e));
    }
    if (is_qwen3(c->kind)) {
        bool found;
        GRAFT_TRY(add_checkpoint_qwen3(c, file, task, &found, e));
        if (!found) {
            char what[64];
            snprintf(what, sizeof what, "no %s in it", qwen_name(c->kind));
            note_missing(c, f, what);
        }
    } else if (is_t5(c->kind)) {
        GRAFT_TRY(add_checkpoint_t5(c, file, task, e));
        if (!c->t5 && !c->missing.text[0])
            note_missing(c, f, c->kind == GRAFT_CLIP_AURAFLOW ? "no Pile-T5 in it" : "no T5 in it");
    } else if (c->n_encoders) {
        GRAFT_TRY(add_checkpoint_t5(c, file, task, e));
        GRAFT_TRY(add_checkpoint_llama(c, file, task, e));
        settle(c);
        if (!is_whole(c)) note_missing(c, f, "it has one of FLUX's text encoders, CLIP-L and T5");
    } else {
        note_missing(c, f,
                     "no CLIP text encoder in it (no cond_stage_model.*, conditioner.embedders.* "
                     "or text_encoders.* tensors)");
    }
    *out = c;
    c = NULL;
out:
    graft_clip_release(c);
    return st;
}

/* The encoder in a file of its own, of those that the kind may have; alone: there is no other. */
static graft_status add_any(graft_clip *c, graft_weights *file, bool alone, const graft_task *task,
                            bool *found, graft_err *e)
{
    graft_status st = GRAFT_OK;
    *found = false;
    const char *t5 = graft_load_prefix(graft_weights_file(file), t5_places, GRAFT_T5_TENSOR);
    if (is_lumina2(graft_weights_file(file), c->kind)) c->kind = GRAFT_CLIP_LUMINA2;
    if (is_ernie_image(graft_weights_file(file), c->kind)) c->kind = GRAFT_CLIP_ERNIE_IMAGE;
    if (alone && is_auraflow(graft_weights_file(file), c->kind)) c->kind = GRAFT_CLIP_AURAFLOW;
    if (!c->n_encoders && is_anima(graft_weights_file(file), c->kind)) c->kind = GRAFT_CLIP_ANIMA;
    if (c->kind == GRAFT_CLIP_QWEN_IMAGE && is_qwen_image21(graft_weights_file(file)))
        c->kind = GRAFT_CLIP_QWEN_IMAGE21;
    if (is_qwen3(c->kind)) return add_qwen3(c, file, task, found, e);
    for (const char *const *p = places; *p && !*found && !st && !is_alone(c->kind); p++)
        st = add_encoder(c, file, *p, found, e);
    if (!st && !*found && may_have_t5(c) && t5) st = add_t5(c, file, t5, task, found, e);
    if (!st && !*found && c->kind == GRAFT_CLIP_HIDREAM) st = add_llama(c, file, task, found, e);
    return st;
}

/* What llama.cpp has otherwise, or in a file beside. */
static graft_status adopt(graft_safetensors *f, graft_err *e)
{
    graft_status st = graft_mmproj_adopt(f, e);
    return st ? st : graft_llama_rows_adopt(f, e);
}

graft_status graft_clip_load(graft_engine *engine, const char *const *paths, size_t n_paths,
                             const char *type, const graft_task *task, graft_clip **out,
                             graft_err *e)
{
    const struct {
        const char *name;
        size_t least, most;
    } kinds[] = {[GRAFT_CLIP_ONE] = {"stable_diffusion", 1, 1},
                 [GRAFT_CLIP_SDXL] = {"sdxl", 2, 2},
                 [GRAFT_CLIP_SD3] = {"sd3", 1, 3},
                 [GRAFT_CLIP_FLUX] = {"flux", 2, 2},
                 [GRAFT_CLIP_QWEN3] = {"lumina2", 1, 1},
                 [GRAFT_CLIP_FLUX2] = {"flux2", 1, 1},
                 [GRAFT_CLIP_CHROMA] = {"chroma", 1, 1},
                 [GRAFT_CLIP_QWEN_IMAGE] = {"qwen_image", 1, 1},
                 [GRAFT_CLIP_KREA2] = {"krea2", 1, 1},
                 [GRAFT_CLIP_ANIMA] = {"", 1, 1},        /* told by its file */
                 [GRAFT_CLIP_QWEN_IMAGE21] = {"", 1, 1}, /* likewise */
                 [GRAFT_CLIP_IDEOGRAM4] = {"ideogram4", 1, 1},
                 [GRAFT_CLIP_LONGCAT] = {"longcat_image", 1, 1},
                 [GRAFT_CLIP_OVIS] = {"ovis", 1, 1},
                 [GRAFT_CLIP_ERNIE_IMAGE] = {"", 1, 1}, /* likewise */
                 [GRAFT_CLIP_LUMINA2] = {"", 1, 1},     /* likewise */
                 [GRAFT_CLIP_AURAFLOW] = {"", 1, 1},    /* likewise */
                 [GRAFT_CLIP_OMNIGEN2] = {"omnigen2", 1, 1},
                 [GRAFT_CLIP_HIDREAM] = {"hidream", 1, 4}};
    size_t kind = 0, n_kinds = sizeof kinds / sizeof *kinds;
    while (kind < n_kinds && strcmp(kinds[kind].name, type) != 0) kind++;
    if (kind == n_kinds)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "text encoders of type %s are not supported",
                          type);
    if (n_paths < kinds[kind].least || n_paths > kinds[kind].most)
        return graft_fail(e, GRAFT_E_ARG, "text encoders of type %s are not made of %zu file%s",
                          type, n_paths, n_paths == 1 ? "" : "s");
    graft_clip *c = new_clip(engine);
    graft_weights *file = NULL;
    graft_status st = GRAFT_OK;
    if (!c) return graft_fail_nomem(e, "text encoder");
    c->kind = (graft_clip_kind)kind;
    c->width = GRAFT_SD3_CONTEXT;
    for (size_t i = 0; i < n_paths; i++) {
        bool found = false;
        GRAFT_TRY(graft_load_open(paths[i], adopt, task, &file, e));
        GRAFT_TRY(add_any(c, file, n_paths == 1, task, &found, e));
        if (!found) {
            st = no_encoder(graft_weights_file(file), c->kind, e);
            goto out;
        }
        graft_weights_release(file);
        file = NULL;
    }
    if (n_paths > 1 && c->n_encoders == 2 && c->encoder[0].arch.width > c->encoder[1].arch.width) {
        graft_encoder t = c->encoder[0];
        c->encoder[0] = c->encoder[1];
        c->encoder[1] = t;
    }
    settle(c);
    if (!is_whole(c)) {
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "FLUX's text encoders are CLIP-L and T5, and these are not both");
        goto out;
    }
    *out = c;
    c = NULL;
out:
    graft_weights_release(file);
    graft_clip_release(c);
    return st;
}
