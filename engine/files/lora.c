/* LoRA: finds for each layer of the file the tensor that it changes. Nothing is computed here: the
 * weight set notes the patches, and derives a tensor when a graph is bound to it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/str.h"
#include "engine/files/kinds.h"
#include "engine/files/lora.h"
#include "engine/models/names/diffusers.h"
#include "engine/prompts/t5.h"
#include "engine/weights/patch.h"

#define PARTS 4 /* the UNet, two text encoders, T5 */

/* A tensor, or some of its rows, that a layer may change. */
typedef struct lora_target {
    const graft_st_tensor *tensor;
    size_t prefix; /* length of the part's prefix in the tensor's name */
    int64_t row, rows;
    int64_t from_row, from_rows; /* of the layer's delta, as in graft_patch */
    size_t next;                 /* 1 + the place of what the same layer changes, too; 0: nothing */
} lora_target;
#define MOST_TARGETS 4 /* of a layer: two pieces of a weight and of its bias */

typedef struct lora_job {
    const graft_lora *lora;
    graft_map index; /* plain name -> position of a target, plus one */
    lora_target *target;
    size_t n_targets, cap_targets;
    graft_weights *base[PARTS]; /* NULL: not asked for */
    bool second_is_t5;          /* as some of FLUX's files have it, others call it the third */
    float strength[PARTS];
    const char **name[PARTS]; /* of the tensors to change */
    graft_patch *patch[PARTS];
    size_t n[PARTS];
    size_t matched;
    bool misfit;      /* a layer has the name of one of the model's, and other shapes */
    graft_str missed; /* the first few layers that fit nothing */
    size_t n_missed;
} lora_job;

/* ------------------------------------------------------------------ what can be changed */

static graft_status add_name(lora_job *j, graft_lora_part part, const char *name, graft_err *e)
{
    char plain[GRAFT_LORA_NAME];
    if (!graft_lora_plain_name(part, name, plain)) return GRAFT_OK;
    return graft_map_put(&j->index, plain, (void *)j->n_targets) ? graft_fail_nomem(e, "LoRA")
                                                                 : GRAFT_OK;
}

static graft_status add_target(lora_job *j, const lora_target *t, graft_err *e)
{
    if (graft_grow(&j->target, &j->cap_targets, j->n_targets + 1, sizeof *j->target))
        return graft_fail_nomem(e, "LoRA");
    j->target[j->n_targets++] = *t;
    return GRAFT_OK;
}

/* The layer under its own name, and under `other` when that is not NULL. Attention's output goes
 * without its ".0" in some files. */
static graft_status add_layer(lora_job *j, graft_lora_part part, const lora_target *t,
                              const char *own, const char *other, graft_err *e)
{
    const char *names[2] = {own, other};
    graft_status st = add_target(j, t, e);
    for (int i = 0; i < 2 && !st && names[i]; i++) {
        char text[256];
        st = add_name(j, part, names[i], e);
        if (!graft_str_ends(names[i], ".to_out.0") || strlen(names[i]) >= sizeof text) continue;
        snprintf(text, sizeof text, "%.*s", (int)strlen(names[i]) - 2, names[i]);
        if (!st) st = add_name(j, part, text, e);
    }
    return st;
}

static graft_status add_unet_layer(lora_job *j, const graft_unet_arch *a, const lora_target *t,
                                   const char *layer, graft_err *e)
{
    char other[256];
    bool has_other = graft_diffusers_unet_name(a, layer, other, sizeof other);
    return add_layer(j, GRAFT_LORA_UNET, t, layer, has_other ? other : NULL, e);
}

/* A layer that changes the rows of t, from `from` on, and what `next` says. */
static graft_status add_rows(lora_job *j, const lora_target *t, int64_t from, int64_t rows,
                             size_t next, const char *name, graft_err *e)
{
    lora_target part = *t;
    part.row = from;
    part.rows = rows;
    part.next = next;
    return add_layer(j, GRAFT_LORA_UNET, &part, name, NULL, e);
}

/* A layer that changes two of ours, each by half of its rows. */
static graft_status add_half(lora_job *j, const lora_target *t, const graft_diffusers_rows *theirs,
                             graft_err *e)
{
    const int64_t rows = t->tensor->shape[0];
    char plain[GRAFT_LORA_NAME];
    lora_target half = *t;
    half.from_rows = 2 * rows;
    half.from_row = theirs->half == 2 ? rows : 0;
    if (!graft_lora_plain_name(GRAFT_LORA_UNET, theirs->name[0].text, plain)) return GRAFT_OK;
    const size_t other = (size_t)graft_map_get(&j->index, plain);
    return add_rows(j, &half, 0, rows, other, theirs->name[0].text, e);
}

/* diffusers names q, k and v apart, and has the halves of some layers the other way round. */
static graft_status add_transformer_layer(lora_job *j, const lora_target *t, const char *layer,
                                          const graft_diffusers_rows *theirs, graft_err *e)
{
    const int64_t rows = t->tensor->shape[0];
    const bool same = theirs && theirs->pieces == 1 && !theirs->exchanged && !theirs->half;
    graft_status st =
        add_layer(j, GRAFT_LORA_UNET, t, layer, same ? theirs->name[0].text : NULL, e);
    if (!theirs || same || st) return st;
    if (theirs->half) return add_half(j, t, theirs, e);
    if (theirs->exchanged && rows % 2 == 0) {
        lora_target half = *t;
        half.from_rows = rows;
        half.from_row = half.rows = rows / 2;
        st = add_target(j, &half, e);
        half.from_row = 0;
        return st ? st
                  : add_rows(j, &half, rows / 2, rows / 2, j->n_targets, theirs->name[0].text, e);
    }
    if (theirs->exchanged || (!theirs->rows[0] && rows % theirs->pieces)) return GRAFT_OK;
    for (int64_t i = 0, from = 0, n; i < theirs->pieces && !st; i++, from += n) {
        n = theirs->rows[i] ? theirs->rows[i] : rows / theirs->pieces;
        if (from + n <= rows) st = add_rows(j, t, from, n, 0, theirs->name[i].text, e);
    }
    return st;
}

static graft_status add_net_layer(lora_job *j, const graft_net_arch *a, const lora_target *t,
                                  const char *layer, graft_err *e)
{
    graft_diffusers_rows theirs;
    if (graft_net_is_unet(a)) return add_unet_layer(j, &a->unet, t, layer, e);
    if (a->kind == GRAFT_NET_QWEN_IMAGE || a->kind == GRAFT_NET_ERNIE_IMAGE ||
        a->kind == GRAFT_NET_OMNIGEN2 || a->kind == GRAFT_NET_HIDREAM) /* diffusers' names */
        return add_layer(j, GRAFT_LORA_UNET, t, layer, NULL, e);
    const bool known =
        a->kind == GRAFT_NET_FLUX        ? graft_diffusers_flux_name(&a->flux, layer, &theirs)
        : a->zimage.key_heads            ? graft_diffusers_lumina2_name(&a->zimage, layer, &theirs)
        : a->kind == GRAFT_NET_ZIMAGE    ? graft_diffusers_zimage_name(layer, &theirs)
        : a->kind == GRAFT_NET_FLUX2     ? graft_diffusers_flux2_name(layer, &theirs)
        : a->kind == GRAFT_NET_KREA2     ? graft_diffusers_krea2_name(layer, &theirs)
        : a->kind == GRAFT_NET_ANIMA     ? graft_diffusers_anima_name(layer, &theirs)
        : a->kind == GRAFT_NET_IDEOGRAM4 ? graft_diffusers_ideogram4_name(layer, &theirs)
        : a->kind == GRAFT_NET_AURAFLOW  ? graft_diffusers_auraflow_name(layer, &theirs)
        : a->kind == GRAFT_NET_QWEN_IMAGE21 ? graft_diffusers_qwen_image21_name(layer, &theirs)
                                            : graft_diffusers_mmdit_name(&a->mmdit, layer, &theirs);
    return add_transformer_layer(j, t, layer, known ? &theirs : NULL, e);
}

/* OpenCLIP keeps q, k and v in one matrix; LoRA files name them apart, as transformers does. */
static graft_status add_joined_attention(lora_job *j, graft_lora_part part, lora_target t,
                                         const char *name, graft_err *e)
{
    static const char *const piece[3] = {"q_proj", "k_proj", "v_proj"};
    int layer, n = 0;
    if (sscanf(name, "transformer.resblocks.%d.attn.in_proj_weight%n", &layer, &n) != 1 || !n)
        return GRAFT_OK;
    t.rows = t.tensor->shape[0] / 3;
    graft_status st = GRAFT_OK;
    for (int i = 0; i < 3 && !st && t.rows > 0; i++) {
        char own[128];
        snprintf(own, sizeof own, "text_model.encoder.layers.%d.self_attn.%s", layer, piece[i]);
        t.row = i * t.rows;
        st = add_layer(j, part, &t, own, NULL, e);
    }
    return st;
}

/* The oldest diffusers files call a text encoder's projections to_q … to_out. */
static graft_status add_text_layer(lora_job *j, graft_lora_part part, const lora_target *t,
                                   const char *layer, graft_err *e)
{
    char other[256], old[300];
    bool has_other = graft_diffusers_text_name(layer, other, sizeof other);
    const char *name = has_other ? other : layer;
    const char *at = strstr(name, ".self_attn.");
    graft_status st = add_layer(j, part, t, layer, has_other ? other : NULL, e);
    if (st || !at || !graft_str_ends(at, "_proj")) return st;
    at += strlen(".self_attn.");
    snprintf(old, sizeof old, "%.*sto_%.*s", (int)(at - name), name, (int)strlen(at) - 5, at);
    return add_name(j, part, old, e);
}

static graft_status add_t5_layer(lora_job *j, const lora_target *t, const char *layer, graft_err *e)
{
    if (strcmp(t->tensor->name + t->prefix, graft_t5_bias_name()) == 0) return GRAFT_OK;
    if (!graft_str_starts(layer, "encoder.block.")) return GRAFT_OK; /* tables, the last norm */
    graft_status st = add_layer(j, GRAFT_LORA_TEXT3, t, layer, NULL, e);
    return st || !j->second_is_t5 ? st : add_name(j, GRAFT_LORA_TEXT2, layer, e);
}

/* Every layer with weights below the set's prefix; `net` or `text` is NULL. The token table is
 * read past the weight set, so a patch on it would have no effect: it is left out. */
static graft_status add_part(lora_job *j, graft_lora_part part, const graft_net_arch *net,
                             const graft_text_arch *text, graft_err *e)
{
    const graft_weights *w = j->base[part];
    const graft_safetensors *f = graft_weights_file(w);
    size_t prefix = strlen(graft_weights_prefix(w));
    char table[256] = "";
    graft_status st = GRAFT_OK;
    if (text) graft_textenc_table_name(text, table, sizeof table);
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        lora_target target = {.tensor = t, .prefix = prefix};
        char layer[256];
        if (t->rank < 1 || strncmp(t->name, graft_weights_prefix(w), prefix) != 0) continue;
        const char *name = t->name + prefix;
        size_t n = strlen(name);
        if (text && graft_str_ends(name, ".attn.in_proj_weight")) {
            st = add_joined_attention(j, part, target, name, e);
            continue;
        }
        if (!graft_str_ends(name, ".weight") || n >= sizeof layer || strcmp(name, table) == 0)
            continue;
        snprintf(layer, sizeof layer, "%.*s", (int)n - 7, name);
        st = net                        ? add_net_layer(j, net, &target, layer, e)
             : part == GRAFT_LORA_TEXT3 ? add_t5_layer(j, &target, layer, e)
                                        : add_text_layer(j, part, &target, layer, e);
    }
    return st;
}

/* ------------------------------------------------------------------ matching */

static void note_missed(lora_job *j, const char *name)
{
    enum { SHOWN = 5 };
    if (j->n_missed < SHOWN) graft_str_printf(&j->missed, "%s%s", j->n_missed ? ", " : "", name);
    if (j->n_missed == SHOWN) graft_str_puts(&j->missed, ", …");
    j->n_missed++;
}

static graft_status add_patch(lora_job *j, graft_lora_part part, const graft_patch_source *source,
                              const lora_target *t, const graft_st_tensor *tensor, graft_err *e)
{
    graft_patch p = graft_patch_make(source, t->row, t->rows);
    if (t->from_rows) graft_patch_take_rows(&p, t->from_row, t->from_rows);
    graft_status st = graft_patch_check(&p, tensor, e);
    j->misfit = st == GRAFT_E_FORMAT;
    if (st) return st;
    p.strength = j->strength[part];
    size_t i = j->n[part]++;
    j->name[part][i] = tensor->name + t->prefix;
    j->patch[part][i] = p;
    return GRAFT_OK;
}

/* The bias of the layer whose weight the target is: "….bias", or "…in_proj_bias" of a joined one.
 */
static const graft_st_tensor *bias_of(const lora_job *j, graft_lora_part part, const lora_target *t)
{
    static const char word[] = "weight";
    const char *name = t->tensor->name + t->prefix;
    char own[256];
    int stem = (int)strlen(name) - (int)strlen(word);
    int n = snprintf(own, sizeof own, "%.*sbias", stem, name);
    return n < (int)sizeof own ? graft_weights_find(j->base[part], own) : NULL;
}

static graft_status add_target_patches(lora_job *j, const graft_lora_layer *k, const lora_target *t,
                                       graft_err *e)
{
    graft_patch_source to_weight, to_bias;
    bool weight, bias;
    graft_status st = graft_lora_sources(k, &to_weight, &weight, &to_bias, &bias, e);
    if (!st && weight) st = add_patch(j, k->part, &to_weight, t, t->tensor, e);
    if (st || !bias) return st;
    const graft_st_tensor *tensor = bias_of(j, k->part, t), *given = to_bias.part[0].whole;
    if (!tensor)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: the layer of %s has no bias", given->name,
                          t->tensor->name);
    return add_patch(j, k->part, &to_bias, t, tensor, e);
}

static graft_status match_layer(lora_job *j, const graft_lora_layer *k, graft_err *e)
{
    graft_lora_layer own = *k;
    if (k->part == GRAFT_LORA_TEXT2 && j->second_is_t5) own.part = GRAFT_LORA_TEXT3;
    if (!j->base[own.part]) return GRAFT_OK;
    size_t at = (size_t)graft_map_get(&j->index, k->plain);
    graft_status st = GRAFT_OK;
    if (!at) {
        note_missed(j, graft_lora_any(k)->name);
        return GRAFT_OK;
    }
    for (; at && !st; at = j->target[at - 1].next)
        st = add_target_patches(j, &own, &j->target[at - 1], e);
    j->matched++;
    return st;
}

static graft_status match_all(lora_job *j, bool may_lack, const graft_task *task, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < j->lora->file.n && !st; i++) {
        if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        st = match_layer(j, &j->lora->file.layer[i], e);
    }
    for (size_t i = 0; i < j->lora->file.n_foreign; i++) note_missed(j, j->lora->file.foreign[i]);
    if (st)
        return graft_err_prefix(e, st, "%s%s", j->lora->path,
                                j->misfit ? ": perhaps a LoRA for another kind of model" : "");
    if (j->missed.failed) return graft_fail_nomem(e, "LoRA");
    if (j->matched || may_lack) return GRAFT_OK;
    if (!j->n_missed)
        return graft_fail(e, GRAFT_E_ARG, "%s holds nothing for what it is applied to",
                          j->lora->path);
    char guess[128];
    return graft_fail(
        e, GRAFT_E_ARG, "%s fits no layer of this model%s: %zu %s not match (%s)", j->lora->path,
        graft_kind_guess(graft_weights_file(j->lora->owner), "LoraLoader", guess, sizeof guess),
        j->n_missed, j->n_missed == 1 ? "key does" : "keys do", j->missed.data);
}

/* ------------------------------------------------------------------ the job */

graft_status graft_lora_open(const char *path, const graft_task *task, graft_lora *out,
                             graft_err *e)
{
    graft_safetensors *f = NULL;
    *out = (graft_lora){.path = graft_strdup(path)};
    if (!out->path) return graft_fail_nomem(e, "LoRA");
    graft_task_phase(task, "load");
    graft_status st = graft_safetensors_open(path, &f, e);
    if (!st) st = graft_weights_create(f, &out->owner, e);
    if (st) return st;
    st = graft_lora_file_read(graft_weights_file(out->owner), &out->file, e);
    return st ? graft_err_prefix(e, st, "%s", path) : GRAFT_OK;
}

void graft_lora_finish(graft_lora *l)
{
    graft_lora_file_finish(&l->file);
    graft_weights_release(l->owner);
    graft_free(l->path);
}

static graft_status job_begin(lora_job *j, graft_err *e)
{
    const size_t most = MOST_TARGETS * sizeof(graft_patch);
    for (int i = 0; i < PARTS; i++) {
        j->name[i] = graft_malloc_array(j->lora->file.n, MOST_TARGETS * sizeof *j->name[i]);
        j->patch[i] = graft_malloc_array(j->lora->file.n, most);
        if (!j->name[i] || !j->patch[i]) return graft_fail_nomem(e, "LoRA");
    }
    return GRAFT_OK;
}

static void job_finish(lora_job *j)
{
    graft_map_finish(&j->index);
    graft_free(j->target);
    for (int i = 0; i < PARTS; i++) {
        graft_free(j->name[i]);
        graft_free(j->patch[i]);
    }
    graft_str_finish(&j->missed);
}

static void warn(const lora_job *j, const graft_engine *engine, const graft_task *task)
{
    const graft_log *log = task && task->log.line ? &task->log : &engine->log;
    if (j->n_missed)
        graft_log_printf(log, GRAFT_LOG_WARN, "%s: %zu %s: %s", j->lora->path, j->n_missed,
                         j->n_missed == 1 ? "key matches nothing and is left out"
                                          : "keys match nothing and are left out",
                         j->missed.data);
}

/* Replaces *weights by a set with the part's patches; without any, or at strength 0, it stays. */
static graft_status patch_part(const lora_job *j, graft_lora_part part, graft_weights **weights,
                               graft_err *e)
{
    graft_weights *w = NULL;
    if (!j->n[part] || j->strength[part] == 0.0f) return GRAFT_OK;
    graft_status st = graft_weights_patch(*weights, j->name[part], j->patch[part], j->n[part],
                                          j->lora->owner, &w, e);
    if (st) return st;
    graft_weights_release(*weights); /* the input's, which holds it */
    *weights = w;
    return GRAFT_OK;
}

static graft_status patch_t5(const lora_job *j, graft_t5 **t5, graft_err *e)
{
    if (!*t5) return GRAFT_OK;
    graft_t5 *r = NULL;
    graft_weights *w = graft_weights_retain((*t5)->weights);
    graft_status st = patch_part(j, GRAFT_LORA_TEXT3, &w, e);
    if (!st && w != (*t5)->weights) st = graft_t5_with_weights(*t5, w, &r, e);
    graft_weights_release(w);
    if (!r) return st;
    graft_t5_release(*t5);
    *t5 = r;
    return GRAFT_OK;
}

/* Stable Diffusion 3's two encoders may be there one without the other. */
static graft_lora_part part_of(const graft_clip *c, size_t encoder)
{
    if (c->kind == GRAFT_CLIP_SD3)
        return c->encoder[encoder].large ? GRAFT_LORA_TEXT2 : GRAFT_LORA_TEXT1;
    return GRAFT_LORA_TEXT1 + (graft_lora_part)encoder;
}

static graft_status run(lora_job *j, const graft_lora_use *u, const graft_task *task,
                        graft_model *new_m, graft_clip *new_c, graft_err *e)
{
    const graft_clip *c = u->clip;
    graft_status st = job_begin(j, e);
    if (!st && u->model) st = add_part(j, GRAFT_LORA_UNET, &u->model->arch, NULL, e);
    for (size_t i = 0; c && i < c->n_encoders && !st; i++)
        st = add_part(j, part_of(c, i), NULL, &c->encoder[i].arch, e);
    if (!st && j->base[GRAFT_LORA_TEXT3]) st = add_part(j, GRAFT_LORA_TEXT3, NULL, NULL, e);
    if (!st) st = match_all(j, u->may_lack, task, e);
    if (!st && new_m) st = patch_part(j, GRAFT_LORA_UNET, &new_m->weights, e);
    for (size_t i = 0; new_c && i < new_c->n_encoders && !st; i++)
        st = patch_part(j, part_of(c, i), &new_c->encoder[i].weights, e);
    return st || !new_c ? st : patch_t5(j, &new_c->t5, e);
}

/* The inputs themselves: the recipe counts references, whoever holds it. */
static void pass_through(const graft_model *m, const graft_clip *c, graft_model **out_m,
                         graft_clip **out_c)
{
    if (out_m) *out_m = m ? graft_model_retain((graft_model *)m) : NULL;
    if (out_c) *out_c = c ? graft_clip_retain((graft_clip *)c) : NULL;
}

graft_status graft_lora_put(const graft_lora *l, const graft_lora_use *u, const graft_task *task,
                            graft_model **out_m, graft_clip **out_c, graft_err *e)
{
    const graft_model *m = u->model;
    const graft_clip *c = u->clip;
    lora_job j = {.lora = l, .missed = GRAFT_STR_INIT};
    graft_model *new_m = m && out_m ? graft_model_copy(m) : NULL;
    graft_clip *new_c = c && out_c ? graft_clip_copy(c) : NULL;
    graft_status st = GRAFT_OK;
    if ((m && out_m && !new_m) || (c && out_c && !new_c)) {
        st = graft_fail_nomem(e, "LoRA");
        goto out;
    }
    if (m) j.base[GRAFT_LORA_UNET] = m->weights;
    for (size_t i = 0; c && i < c->n_encoders; i++) j.base[part_of(c, i)] = c->encoder[i].weights;
    if (c && c->t5) j.base[GRAFT_LORA_TEXT3] = c->t5->weights;
    j.second_is_t5 = c && (c->kind == GRAFT_CLIP_FLUX || c->kind == GRAFT_CLIP_CHROMA);
    j.strength[GRAFT_LORA_UNET] = (float)u->strength_model;
    for (int i = GRAFT_LORA_TEXT1; i < PARTS; i++) j.strength[i] = (float)u->strength_clip;
    GRAFT_TRY(run(&j, u, task, new_m, new_c, e));
    if (!u->silent) warn(&j, m ? m->engine : c->engine, task);
    if (out_m) *out_m = new_m;
    if (out_c) *out_c = new_c;
    new_m = NULL;
    new_c = NULL;
out:
    graft_model_release(new_m);
    graft_clip_release(new_c);
    job_finish(&j);
    return st;
}

graft_status graft_lora_apply(const graft_model *m, const graft_clip *c, const char *path,
                              double strength_model, double strength_clip, const graft_task *task,
                              graft_model **out_m, graft_clip **out_c, graft_err *e)
{
    graft_lora lora;
    if (!isfinite(strength_model) || !isfinite(strength_clip))
        return graft_fail(e, GRAFT_E_ARG, "a LoRA's strength must be a finite number");
    if (!m || !out_m) strength_model = 0;
    if (!c || !out_c) strength_clip = 0;
    if (strength_model == 0 && strength_clip == 0) {
        pass_through(m, c, out_m, out_c);
        return GRAFT_OK;
    }
    const graft_lora_use use = {m, c, strength_model, strength_clip, false, false};
    graft_status st = graft_lora_open(path, task, &lora, e);
    if (!st) st = graft_lora_put(&lora, &use, task, out_m, out_c, e);
    graft_lora_finish(&lora);
    return st;
}
