/* Checkpoints from models, text encoders and VAEs: one tensor after the other, with what LoRAs and
 * merges make of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/prompts/qwen3.h"
#include "engine/prompts/t5.h"
#include "engine/models/names/diffusers.h"
#include "engine/models/vaes/taesd.h"
#include "engine/weights/quantized.h"
#include "engine/models/parts/tensors.h"

/* Where a tensor of the file comes from. */
typedef struct saved_tensor {
    graft_weights *set; /* NULL: a mark without values */
    const char *name;   /* in the set */
    const graft_st_tensor *base;
    bool stored; /* base's bytes as they are */
    /* Otherwise: tensors of base's shape whose rows follow, or NULL. */
    const graft_st_tensor *behind[2];
    bool transposed; /* a matrix whose rows become columns */
} saved_tensor;

typedef struct save_job {
    const graft_task *task;
    graft_st_tensor *tensor; /* n; names are owned */
    saved_tensor *from;      /* n */
    size_t n, cap, cap_from;
    float *values; /* of the tensor on its way */
    void *narrow;  /* the same in its type */
    float *turned; /* room for a matrix that is transposed; NULL: there is none */
} save_job;

static void finish(save_job *j)
{
    for (size_t i = 0; i < j->n; i++) graft_free((char *)j->tensor[i].name);
    graft_free(j->tensor);
    graft_free(j->from);
    graft_free(j->values);
    graft_free(j->narrow);
    graft_free(j->turned);
}

/* ------------------------------------------------------------------ what is written */

/* Numbers that are no weights: the first set's stay. */
static bool is_fixed(const char *name)
{
    return graft_str_ends(name, "position_ids") || graft_str_ends(name, "logit_scale");
}

/* Whether all files of the sum have the tensor; one that the network does not read may be missing,
 * and is copied from the first. */
static bool is_summed(const graft_weights *w, const char *name, const graft_st_tensor *base)
{
    graft_weight_term t;
    if (!graft_st_is_weight(base) || is_fixed(name)) return false;
    for (size_t at = 0; graft_weights_next_term(w, name, &at, &t);)
        if (!t.tensor || !graft_st_is_weight(t.tensor) ||
            graft_st_values(t.tensor) != graft_st_values(base))
            return false;
    return true;
}

/* The type in which all parts of the tensor are stored. Where they differ float32 has the values of
 * all; for the types of 8 bits, in which a sum would lose most of what it is, float16 has. */
static graft_dtype type_of(const graft_weights *w, const char *name, const graft_st_tensor *base)
{
    graft_weight_term t;
    graft_dtype all = GRAFT_DTYPE_NONE;
    for (size_t at = 0; graft_weights_next_term(w, name, &at, &t);) {
        graft_dtype own = t.tensor->dtype;
        if (own == GRAFT_F8_E4M3 || own == GRAFT_F8_E5M2 || graft_is_quantized(own) ||
            graft_st_packed(t.tensor))
            own = GRAFT_F16;
        if (all && own != all) return GRAFT_F32;
        all = own;
    }
    if (!all) all = base->dtype;
    return all == GRAFT_F16 || all == GRAFT_BF16 ? all : GRAFT_F32;
}

/* `called`: what the file calls it behind the prefix. */
static graft_status add(save_job *j, const char *prefix, const char *called,
                        const saved_tensor *from, const graft_st_tensor *shape, graft_dtype dtype,
                        graft_err *e)
{
    graft_str name = GRAFT_STR_INIT;
    if (graft_grow(&j->tensor, &j->cap, j->n + 1, sizeof *j->tensor) ||
        graft_grow(&j->from, &j->cap_from, j->n + 1, sizeof *j->from))
        return graft_fail_nomem(e, "a checkpoint");
    graft_str_printf(&name, "%s%s", prefix, called);
    graft_st_tensor t = {.name = graft_str_take(&name), .dtype = dtype, .rank = shape->rank};
    graft_str_finish(&name);
    if (!t.name) return graft_fail_nomem(e, "a checkpoint");
    memcpy(t.shape, shape->shape, sizeof t.shape);
    t.bytes =
        from->stored ? shape->bytes : (uint64_t)graft_st_values(shape) * graft_dtype_size(dtype);
    j->from[j->n] = *from;
    j->tensor[j->n++] = t;
    return GRAFT_OK;
}

/* One tensor of the set's first file; `called`: NULL for its own name. */
static graft_status add_tensor(save_job *j, graft_weights *w, const char *prefix,
                               const char *called, const graft_st_tensor *t, graft_err *e)
{
    saved_tensor from = {.set = w, .name = t->name + strlen(graft_weights_prefix(w)), .base = t};
    graft_weight_term term;
    graft_dtype dtype = t->dtype;
    if (!is_summed(w, from.name, t)) {
        from.stored = true;
    } else if (graft_weights_stored(w, from.name, &term) &&
               !graft_is_quantized(term.tensor->dtype)) {
        from.stored = true;
        from.base = term.tensor;
        dtype = term.tensor->dtype;
    } else {
        dtype = type_of(w, from.name, t);
    }
    return add(j, prefix, called ? called : from.name, &from, from.base, dtype, e);
}

/* What CLIP's authors keep in one file with its text encoder. */
static bool is_vision(const char *name)
{
    return graft_str_starts(name, "vision_model.") || graft_str_starts(name, "visual");
}

/* All tensors below the set's prefix. */
static graft_status add_part(save_job *j, graft_weights *w, const char *prefix, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(w);
    const char *own = graft_weights_prefix(w);
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (!t->part && graft_str_starts(t->name, own) && !is_vision(t->name + strlen(own)))
            st = add_tensor(j, w, prefix, NULL, t, e);
    }
    return st;
}

/* A file of a TAESD's author, in the names that diffusers has: both halves are one file there. */
static graft_status add_tiny_half(save_job *j, graft_weights *w, bool decoder, const char *prefix,
                                  graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(w);
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        char called[128];
        if (!graft_taesd_diffusers_name(decoder, t->name, called, sizeof called))
            st = graft_fail(e, GRAFT_E_UNSUPPORTED, "%s: there is no other name for tensor %.80s",
                            graft_safetensors_path(f), t->name);
        if (!st) st = add_tensor(j, w, prefix, called, t, e);
    }
    return st;
}

static bool is_of_raw_latents(const graft_vae *v)
{
    return v->arch.kind == GRAFT_VAE_TAEHV && !v->planes;
}

static graft_status add_vae(save_job *j, const graft_checkpoint *c, const char *prefix,
                            graft_err *e)
{
    const graft_vae *v = c->vae;
    const char *path = graft_safetensors_path(graft_weights_file(v->weights));
    if (graft_vae_is_tiny(&v->arch) && c->model && !graft_vae_is_for(v, c->model))
        return graft_fail(e, GRAFT_E_ARG,
                          "%s: a tiny autoencoder of other latents than the model's, whose it "
                          "would be in one file with it",
                          path);
    if (is_of_raw_latents(v) && (c->model || c->clip))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "%s: a checkpoint would not tell in which form this takes latents", path);
    if (v->arch.names != GRAFT_TINY_NUMBERS) return add_part(j, v->weights, prefix, e);
    graft_status st =
        v->encoder_weights ? add_tiny_half(j, v->encoder_weights, false, prefix, e) : GRAFT_OK;
    return st ? st : add_tiny_half(j, v->weights, true, prefix, e);
}

static graft_status add_mark(save_job *j, const char *name, graft_err *e)
{
    const graft_st_tensor nothing = {.rank = 1};
    const saved_tensor mark = {.name = name, .stored = true};
    return add(j, "", name, &mark, &nothing, GRAFT_F32, e);
}

/* A tokenizer beside a part that cannot be used without, wherever the file had that from; `called`:
 * what it is below the part. */
static graft_status add_words(save_job *j, graft_weights *w, const graft_st_tensor *file,
                              const char *called, const char *prefix, graft_err *e)
{
    graft_str name = GRAFT_STR_INIT;
    const saved_tensor model = {.set = w, .name = file->name, .base = file, .stored = true};
    graft_status st = GRAFT_OK;
    graft_str_printf(&name, "%s%s", graft_weights_prefix(w), called);
    if (name.failed) st = graft_fail_nomem(e, "a checkpoint");
    if (!st && !graft_safetensors_find(graft_weights_file(w), name.data))
        st = add(j, prefix, called, &model, file, file->dtype, e);
    graft_str_finish(&name);
    return st;
}

static graft_status add_t5(save_job *j, const graft_t5 *t, const char *prefix, graft_err *e)
{
    graft_status st = add_part(j, t->weights, prefix, e);
    return st ? st : add_words(j, t->weights, &t->model, GRAFT_T5_TOKENIZER, prefix, e);
}

/* Below which prefix encoder i is found again. */
static graft_status encoder_prefix(const graft_clip *c, size_t i, const char **out, graft_err *e)
{
    bool openclip = c->encoder[i].arch.layout == GRAFT_TEXT_OPENCLIP;
    const char *own = graft_weights_prefix(c->encoder[i].weights);
    if (c->kind == GRAFT_CLIP_SD3 || c->kind == GRAFT_CLIP_FLUX || c->kind == GRAFT_CLIP_HIDREAM) {
        *out = c->encoder[i].large ? "text_encoders.clip_g.transformer."
                                   : "text_encoders.clip_l.transformer.";
        if (!openclip) return GRAFT_OK;
        return graft_fail(
            e, GRAFT_E_UNSUPPORTED,
            "a text encoder (%s) has the names of OpenCLIP, which checkpoints of SD 3 "
            "and its relatives do not have",
            graft_safetensors_path(graft_weights_file(c->encoder[i].weights)));
    }
    if (c->n_encoders == 1) {
        *out = own[0]     ? own
               : openclip ? "cond_stage_model.model."
                          : "cond_stage_model.transformer.";
        return GRAFT_OK;
    }
    *out = i ? "conditioner.embedders.1.model." : "conditioner.embedders.0.transformer.";
    if (i || !openclip) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "text encoder 1 (%s) has the names of OpenCLIP, which checkpoints of SDXL do "
                      "not have in its place",
                      graft_safetensors_path(graft_weights_file(c->encoder[i].weights)));
}

/* ------------------------------------------------------------------ OpenCLIP's names */

static graft_dtype wider(graft_dtype a, graft_dtype b)
{
    return a == b ? a : GRAFT_F32;
}

/* A tensor made of others, which are in the set: one transposed, or three below each other. Its
 * shape is rows x columns, or rows alone with columns 0. */
static graft_status add_made(save_job *j, const char *prefix, const char *called,
                             const saved_tensor *from, int64_t rows, int64_t columns, graft_err *e)
{
    const graft_st_tensor shape = {.rank = columns ? 2 : 1, .shape = {rows, columns}};
    const size_t own = strlen(graft_weights_prefix(from->set));
    graft_dtype dtype = type_of(from->set, from->name, from->base);
    for (int i = 0; i < 2 && from->behind[i]; i++)
        dtype = wider(dtype, type_of(from->set, from->behind[i]->name + own, from->behind[i]));
    return add(j, prefix, called, from, &shape, dtype, e);
}

static graft_status add_called(save_job *j, graft_weights *w, const char *prefix,
                               const char *called, const char *name, graft_err *e)
{
    return add_tensor(j, w, prefix, called, graft_weights_find(w, name), e);
}

/* Queries, keys and values of a layer, which OpenCLIP has in one. */
static graft_status add_attention(save_job *j, const graft_encoder *n, const char *prefix,
                                  int layer, const char *ending, graft_err *e)
{
    static const char piece[3] = {'q', 'k', 'v'};
    graft_weights *w = n->weights;
    const graft_st_tensor *t[3];
    char name[128], called[128];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "text_model.encoder.layers.%d.self_attn.%c_proj.%s", layer,
                 piece[i], ending);
        t[i] = graft_weights_find(w, name);
    }
    snprintf(called, sizeof called, "transformer.resblocks.%d.attn.in_proj_%s", layer, ending);
    const saved_tensor from = {.set = w,
                               .name = t[0]->name + strlen(graft_weights_prefix(w)),
                               .base = t[0],
                               .behind = {t[1], t[2]}};
    int64_t columns = strcmp(ending, "weight") == 0 ? n->arch.width : 0;
    return add_made(j, prefix, called, &from, 3 * (int64_t)n->arch.width, columns, e);
}

static graft_status add_openclip_layer(save_job *j, const graft_encoder *n, const char *prefix,
                                       int layer, graft_err *e)
{
    static const char *const layers[] = {"ln_1", "ln_2", "mlp.c_fc", "mlp.c_proj", "attn.out_proj"};
    static const char *const endings[] = {"weight", "bias"};
    graft_status st = GRAFT_OK;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 5; i++) {
            char ours[128], name[160], called[160];
            snprintf(ours, sizeof ours, "transformer.resblocks.%d.%s", layer, layers[i]);
            if (!graft_diffusers_text_name(ours, name, 128)) continue;
            snprintf(name + strlen(name), sizeof name - strlen(name), ".%s", endings[k]);
            snprintf(called, sizeof called, "%s.%s", ours, endings[k]);
            GRAFT_TRY(add_called(j, n->weights, prefix, called, name, e));
        }
        GRAFT_TRY(add_attention(j, n, prefix, layer, endings[k], e));
    }
out:
    return st;
}

/* A text encoder in transformers' names, where checkpoints have OpenCLIP's. What it does not read
 * stays behind. */
static graft_status add_as_openclip(save_job *j, const graft_encoder *n, const char *prefix,
                                    graft_err *e)
{
    static const char *const names[][2] = {
        {"token_embedding.weight", "text_model.embeddings.token_embedding.weight"},
        {"positional_embedding", "text_model.embeddings.position_embedding.weight"},
        {"ln_final.weight", "text_model.final_layer_norm.weight"},
        {"ln_final.bias", "text_model.final_layer_norm.bias"}};
    static const char projection[] = "text_projection.weight";
    graft_weights *w = n->weights;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        GRAFT_TRY(add_called(j, w, prefix, names[i][0], names[i][1], e));
    for (int i = 0; i < n->arch.layers; i++) GRAFT_TRY(add_openclip_layer(j, n, prefix, i, e));
    if (n->arch.projection) {
        const graft_st_tensor *t = graft_weights_find(w, projection);
        const saved_tensor from = {.set = w, .name = projection, .base = t, .transposed = true};
        GRAFT_TRY(
            add_made(j, prefix, "text_projection", &from, n->arch.width, n->arch.projection, e));
    }
out:
    return st;
}

/* Whether it is T5 alone. */
static bool is_t5(const graft_checkpoint *c)
{
    return c->clip && c->clip->t5 && c->encoder == (int64_t)c->clip->n_encoders + 1;
}

/* With what looks at pictures, and the tokenizers that files have beside it. */
static graft_status add_qwen(save_job *j, const graft_qwen3 *q, const char *prefix, graft_err *e)
{
    graft_str beside = GRAFT_STR_INIT;
    const char *own = q->arch.llama ? GRAFT_LLAMA_TOKENIZER : GRAFT_MISTRAL_TOKENIZER;
    const graft_st_tensor *mistral =
        q->arch.mistral ? graft_safetensors_find(graft_weights_file(q->weights), own) : NULL;
    graft_status st = add_part(j, q->weights, prefix, e);
    if (!st && q->words)
        st = add_words(j, q->weights, &q->words_file, GRAFT_T5_TOKENIZER, prefix, e);
    if (!st && mistral) st = add_words(j, q->weights, mistral, own, prefix, e);
    if (st || !q->sight) return st;
    graft_str_printf(&beside, "%svisual.", prefix);
    st =
        beside.failed ? graft_fail_nomem(e, "a checkpoint") : add_part(j, q->sight, beside.data, e);
    graft_str_finish(&beside);
    return st;
}

/* Below its name, or that of the most usual one. */
static graft_status add_named_qwen(save_job *j, const graft_qwen3 *q, graft_err *e)
{
    const char *name = graft_qwen3_name(q);
    char prefix[64];
    if (strcmp(name, "qwen3") == 0) name = "qwen3_4b";
    snprintf(prefix, sizeof prefix, "text_encoders.%s.transformer.", name);
    return add_qwen(j, q, prefix, e);
}

static graft_status collect(save_job *j, const graft_checkpoint *c, graft_err *e)
{
    const char *prefix;
    bool alone = !c->model && !c->clip;
    graft_status st = c->clip ? graft_clip_there(c->clip, e) : GRAFT_OK;
    if (st) return st;
    if (c->encoder && (!c->clip || !graft_clip_encoder_name(c->clip, (size_t)c->encoder - 1)))
        return graft_fail(e, GRAFT_E_ARG, "there is no text encoder %lld", (long long)c->encoder);
    if (is_t5(c)) return add_t5(j, c->clip->t5, "", e);
    if (c->encoder > (c->clip ? (int64_t)c->clip->n_encoders : 0) && c->clip->qwen3)
        return add_qwen(j, c->clip->qwen3, "", e);
    if (c->encoder) return add_part(j, c->clip->encoder[c->encoder - 1].weights, "", e);
    if (c->model && c->model->arch.unet.unclip)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "an unCLIP model cannot be saved: what its checkpoint has beside text "
                          "encoder and VAE would be lost");
    if (c->model) {
        GRAFT_TRY(add_part(j, c->model->weights, "model.diffusion_model.", e));
        if (c->model->prediction == GRAFT_PREDICT_V &&
            c->model->continuous.time == GRAFT_TIME_STEPS)
            GRAFT_TRY(add_mark(j, "v_pred", e));
        if (c->model->zsnr) GRAFT_TRY(add_mark(j, "ztsnr", e));
    }
    for (size_t i = 0; c->clip && i < c->clip->n_encoders; i++) {
        const graft_encoder *n = &c->clip->encoder[i];
        GRAFT_TRY(encoder_prefix(c->clip, i, &prefix, e));
        bool turn = c->clip->kind == GRAFT_CLIP_SDXL && i && n->arch.layout == GRAFT_TEXT_HF;
        GRAFT_TRY(turn ? add_as_openclip(j, n, prefix, e) : add_part(j, n->weights, prefix, e));
    }
    if (c->clip && c->clip->t5)
        GRAFT_TRY(add_t5(j, c->clip->t5,
                         c->clip->t5->arch.own_bias ? "text_encoders.pile_t5xl.transformer."
                                                    : "text_encoders.t5xxl.transformer.",
                         e));
    if (c->clip && c->clip->qwen3) GRAFT_TRY(add_named_qwen(j, c->clip->qwen3, e));
    if (c->vae) GRAFT_TRY(add_vae(j, c, alone ? "" : "first_stage_model.", e));
    if (!j->n) st = graft_fail(e, GRAFT_E_ARG, "there is nothing to save");
out:
    return st;
}

/* ------------------------------------------------------------------ values */

static bool fits(const float *x, int64_t n, graft_dtype dtype)
{
    /* The last before what rounds to infinity: 65520, and 0x1.ffp127. */
    float most = dtype == GRAFT_F16 ? 0x1.ffdffep15f : 0x1.fefffep127f;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i]) && fabsf(x[i]) > most) return false;
    return true;
}

static graft_status narrow(save_job *j, const graft_st_tensor *t, int64_t n, graft_err *e)
{
    if (!fits(j->values, n, t->dtype))
        return graft_fail(e, GRAFT_E_LIMIT,
                          "tensor %s has a value beyond the range of %s, in which its parts are "
                          "stored",
                          t->name, t->dtype == GRAFT_F16 ? "float16" : "bfloat16");
    if (t->dtype == GRAFT_F16)
        graft_f32_to_f16_array(j->values, j->narrow, (size_t)n);
    else
        graft_f32_to_bf16_array(j->values, j->narrow, (size_t)n);
    return GRAFT_OK;
}

/* j->values, a matrix. */
static void transpose(save_job *j, int64_t rows, int64_t columns)
{
    memcpy(j->turned, j->values, (size_t)(rows * columns) * sizeof *j->turned);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++) j->values[k * rows + i] = j->turned[i * columns + k];
}

static graft_status compute(save_job *j, const saved_tensor *from, const graft_st_tensor *t,
                            const void **data, graft_err *e)
{
    int64_t n = graft_st_values(t), own = graft_st_values(from->base);
    graft_status st =
        graft_weights_patched_values(from->set, from->name, from->base, own, j->values, e);
    for (int i = 0; i < 2 && from->behind[i] && !st; i++)
        st = graft_weights_patched_values(
            from->set, from->behind[i]->name + strlen(graft_weights_prefix(from->set)),
            from->behind[i], own, j->values + (i + 1) * own, e);
    if (from->transposed && !st) transpose(j, t->shape[1], t->shape[0]);
    *data = j->values;
    if (st || t->dtype == GRAFT_F32) return st;
    *data = j->narrow;
    return narrow(j, t, n, e);
}

static graft_status give(void *ctx, size_t i, const void **data, graft_err *e)
{
    save_job *j = ctx;
    const saved_tensor *from = &j->from[i];
    graft_weight_term t;
    if (graft_task_cancelled(j->task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
    graft_task_progress(j->task, i, j->n);
    graft_status st = graft_weights_unchanged(from->set, e);
    if (st) return st;
    *data = from->base->data;
    if (!from->stored) st = compute(j, from, &j->tensor[i], data, e);
    for (size_t at = 0; !from->stored && graft_weights_next_term(from->set, from->name, &at, &t);)
        graft_safetensors_forget(t.file, t.tensor);
    return st;
}

/* Room for the largest tensor that is computed. */
static graft_status make_room(save_job *j, graft_err *e)
{
    int64_t most = 1, turned = 0;
    for (size_t i = 0; i < j->n; i++) {
        int64_t n = j->from[i].stored ? 0 : graft_st_values(&j->tensor[i]);
        if (n > most) most = n;
        if (n > turned && j->from[i].transposed) turned = n;
    }
    if (turned && !(j->turned = graft_malloc_array((size_t)turned, sizeof *j->turned)))
        return graft_fail_nomem(e, "a checkpoint");
    j->values = graft_malloc_aligned(64, (size_t)most * sizeof *j->values);
    j->narrow = graft_malloc_aligned(64, (size_t)most * sizeof(uint16_t));
    return j->values && j->narrow ? GRAFT_OK : graft_fail_nomem(e, "a checkpoint");
}

/* Whose latents a TAESD takes: in its own file the name says so, which a saved one has no more. Of
 * other numbers of channels those say it. Likewise in which form a TAEHV takes them. */
static bool needs_config(const graft_checkpoint *c)
{
    if (c->model || c->clip) return false;
    return is_of_raw_latents(c->vae) || (c->vae->arch.kind == GRAFT_VAE_TINY &&
                                         c->vae->arch.z_channels == GRAFT_PREVIEW_CHANNELS);
}

static graft_status write_config(const graft_vae *v, graft_str *out, graft_err *e)
{
    if (is_of_raw_latents(v)) {
        graft_str_puts(out, "{\"raw_latents\":true}");
        return out->failed ? graft_fail_nomem(e, "a checkpoint") : GRAFT_OK;
    }
    graft_str_printf(out, "{\"scale_factor\":%.17g,\"latent_rgb\":[", v->scale_factor);
    for (int i = 0; i <= GRAFT_PREVIEW_CHANNELS; i++) {
        const float *row = v->colours.row[i];
        graft_str_printf(out, "%s[%.9g,%.9g,%.9g]", i ? "," : "", (double)row[0], (double)row[1],
                         (double)row[2]);
    }
    graft_str_puts(out, "]}");
    return out->failed ? graft_fail_nomem(e, "a checkpoint") : GRAFT_OK;
}

static const graft_weights *text_weights(const graft_checkpoint *c)
{
    const size_t one = (size_t)c->encoder, clips = c->clip->n_encoders;
    if (is_t5(c)) return c->clip->t5->weights;
    if (one && one <= clips) return c->clip->encoder[one - 1].weights;
    if (c->clip->qwen3) return c->clip->qwen3->weights;
    return clips ? c->clip->encoder[0].weights : c->clip->t5->weights;
}

/* What the parts' shapes do not tell, as the first part's file has it. */
static const char *first_config(const graft_checkpoint *c)
{
    const graft_weights *w = c->model  ? c->model->weights
                             : c->clip ? text_weights(c)
                                       : c->vae->weights;
    return graft_safetensors_metadata(graft_weights_file(w), "config");
}

/* A text encoder whose shapes do not tell of how many numbers heads are, as Qwen 3's norms do. It
 * may not be the first part, and in a GGUF file another key says so. NULL: there is none. */
static const graft_qwen3_arch *unmeasured(const graft_checkpoint *c)
{
    const graft_qwen3 *q = c->clip ? c->clip->qwen3 : NULL;
    return q && !graft_weights_find(q->weights, GRAFT_QWEN3_TENSOR) ? &q->arch : NULL;
}

/* The config, or a new one, with these heads; *out (graft_free) NULL: it is right as it is. */
static graft_status config_of_heads(const char *config, int32_t head_dim, char **out, graft_err *e)
{
    static const char name[] = "head_dim";
    cJSON *root = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    if (config) st = graft_json_parse(config, strlen(config), "__metadata__.config", &root, e);
    if (st) return st;
    if (!cJSON_IsObject(root)) { /* there was none, or one that says nothing */
        cJSON_Delete(root);
        if (!(root = cJSON_CreateObject())) return graft_fail_nomem(e, "a checkpoint");
    }
    cJSON *unet = cJSON_GetObjectItemCaseSensitive(root, "unet"); /* numbers are looked for there */
    cJSON *at = cJSON_IsObject(unet) ? unet : root;
    if (graft_json_int(at, name, 0) != head_dim) {
        cJSON_DeleteItemFromObjectCaseSensitive(at, name);
        if (cJSON_AddNumberToObject(at, name, head_dim)) *out = graft_json_print(root);
        if (!*out) st = graft_fail_nomem(e, "a checkpoint");
    }
    cJSON_Delete(root);
    return st;
}

/* *out: what is written as config, which may be *made (graft_free). */
static graft_status config_of(const graft_checkpoint *c, const char **out, char **made,
                              graft_err *e)
{
    const graft_qwen3_arch *a = unmeasured(c);
    graft_str tiny = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    *made = NULL;
    *out = first_config(c);
    if (a) {
        st = config_of_heads(*out, a->head_dim, made, e);
    } else if (!*out && needs_config(c)) {
        st = write_config(c->vae, &tiny, e);
        if (!st) *made = graft_str_take(&tiny);
        graft_str_finish(&tiny);
    }
    if (*made) *out = *made;
    return st;
}

graft_status graft_checkpoint_save(const graft_checkpoint *c, const char *path,
                                   const char *const *metadata, const graft_task *task,
                                   graft_err *e)
{
    save_job j = {.task = task};
    const char **pairs = NULL;
    const char *config = NULL;
    char *made = NULL;
    size_t n = 0;
    graft_status st;
    GRAFT_TRY(collect(&j, c, e));
    GRAFT_TRY(make_room(&j, e));
    while (metadata && metadata[n]) n++;
    pairs = graft_malloc_array(n + 5, sizeof *pairs);
    if (!pairs) {
        st = graft_fail_nomem(e, "a checkpoint");
        goto out;
    }
    for (size_t i = 0; i < n; i++) pairs[i] = metadata[i];
    GRAFT_TRY(config_of(c, &config, &made, e));
    pairs[n] = config ? "config" : NULL;
    pairs[n + 1] = config;
    pairs[n + 2] = NULL;
    GRAFT_TRY(graft_safetensors_write_from(path, j.tensor, j.n, pairs, false, give, &j, e));
    graft_task_progress(task, j.n, j.n);
out:
    graft_free(pairs);
    graft_free(made);
    finish(&j);
    return st;
}
