/* A checkpoint with its UNet's chosen layers quantized. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/str.h"
#include "engine/calibrate/quantize.h"
#include "engine/weights/quantized.h"
#include "engine/weights/scaled.h"
#include "kernels/quant.h"

typedef struct saved {
    graft_st_tensor *tensor;
    size_t n, cap;
    void **owned; /* names and data that were made for this */
    size_t n_owned, cap_owned;
    size_t quantized;
} saved;

static void finish(saved *s)
{
    for (size_t i = 0; i < s->n_owned; i++) graft_free(s->owned[i]);
    graft_free(s->owned);
    graft_free(s->tensor);
}

static graft_status own(saved *s, void *p, graft_err *e)
{
    if (p && !graft_grow(&s->owned, &s->cap_owned, s->n_owned + 1, sizeof *s->owned)) {
        s->owned[s->n_owned++] = p;
        return GRAFT_OK;
    }
    graft_free(p);
    return graft_fail_nomem(e, "a quantized file");
}

static graft_status add(saved *s, const graft_st_tensor *t, graft_err *e)
{
    if (graft_grow(&s->tensor, &s->cap, s->n + 1, sizeof *s->tensor))
        return graft_fail_nomem(e, "a quantized file");
    s->tensor[s->n++] = *t;
    return GRAFT_OK;
}

/* Adds NAME_suffix with the data, which the list owns or shares. */
static graft_status add_part(saved *s, const char *name, const char *suffix, graft_dtype dtype,
                             int rank, const int64_t *shape, const void *data, graft_err *e)
{
    graft_str full = GRAFT_STR_INIT;
    graft_st_tensor t = {.dtype = dtype, .rank = rank, .data = data};
    graft_str_printf(&full, "%s%s", name, suffix);
    char *text = graft_str_take(&full);
    graft_str_finish(&full);
    graft_status st = own(s, text, e);
    if (st) return st;
    t.name = text;
    t.bytes = graft_dtype_size(dtype);
    for (int i = 0; i < rank; i++) {
        t.shape[i] = shape[i];
        t.bytes *= (uint64_t)shape[i];
    }
    return add(s, &t, e);
}

static graft_status quantize(const graft_st_tensor *t, graft_dtype kind, void **out, graft_err *e)
{
    int64_t all = 1;
    for (int i = 0; i < t->rank; i++) all *= t->shape[i];
    float *values = graft_malloc_array((size_t)all, sizeof *values);
    *out = graft_malloc_aligned(
        64, (size_t)graft_quantized_bytes(kind, t->shape[0], all / t->shape[0]));
    graft_status st = values && *out ? GRAFT_OK : graft_fail_nomem(e, "a quantized file");
    if (!st) {
        graft_st_to_f32(t, 0, all, values);
        for (int64_t i = 0; t->scale != 0 && i < all; i++) values[i] *= t->scale;
        graft_quantized_from_f32(kind, values, t->shape[0], all / t->shape[0], *out);
    }
    graft_free(values);
    return st;
}

static graft_status add_quantized(saved *s, const graft_st_tensor *t, graft_dtype kind,
                                  graft_err *e)
{
    void *block = NULL;
    int64_t n = 1;
    for (int i = 1; i < t->rank; i++) n *= t->shape[i];
    graft_status st = quantize(t, kind, &block, e);
    if (st) {
        graft_free(block);
        return st;
    }
    st = own(s, block, e);
    if (st) return st;
    uint64_t level = graft_quantized_level_bytes(kind, t->shape[0], n);
    const void *scale = (const uint8_t *)block + level;
    int64_t groups = (n + 63) / 64;
    s->quantized++;
    if (kind != GRAFT_Q4) {
        st = add_part(s, t->name, "", kind == GRAFT_Q8 ? GRAFT_I8 : GRAFT_F8_E4M3, t->rank,
                      t->shape, block, e);
        return st ? st : add_part(s, t->name, "_scale", GRAFT_F32, 1, t->shape, scale, e);
    }
    st = add_part(s, t->name, "", GRAFT_U8, 2, (const int64_t[]){t->shape[0], 32 * groups}, block,
                  e);
    if (!st)
        st = add_part(s, t->name, "_scale", GRAFT_F32, 2, (const int64_t[]){t->shape[0], groups},
                      scale, e);
    if (!st)
        st = add_part(s, t->name, "_shape", GRAFT_I64, 1, (const int64_t[]){t->rank}, t->shape, e);
    return st;
}

/* What lies in blocks, or was quantized by others, as float16. */
static graft_status add_unpacked(saved *s, const graft_st_tensor *t, graft_err *e)
{
    graft_st_tensor out = *t;
    uint16_t *values;
    graft_status st = graft_st_as_f16(t, &values, e);
    if (!st) st = own(s, values, e);
    if (st) return st;
    out.blocks = NULL;
    out.coded = NULL;
    out.dtype = GRAFT_F16;
    out.data = values;
    out.bytes = (uint64_t)graft_st_values(t) * sizeof *values;
    return add(s, &out, e);
}

/* A tensor as it is; one that is scaled keeps its scale beside it. */
static graft_status add_plain(saved *s, const graft_st_tensor *t, graft_err *e)
{
    graft_str layer = GRAFT_STR_INIT;
    if (graft_st_packed(t)) return add_unpacked(s, t, e);
    graft_status st = add(s, t, e);
    if (st || t->scale == 0) return st;
    graft_str_printf(&layer, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
    if (!layer.data || layer.failed)
        st = graft_fail_nomem(e, "a quantized file");
    else
        st = add_part(s, layer.data, GRAFT_SCALED_SUFFIX, GRAFT_F32, 0, NULL, &t->scale, e);
    graft_str_finish(&layer);
    return st;
}

/* The names of the chosen weights in the file, as keys. */
static graft_status chosen_names(const graft_model *m, const graft_quant_choice *c,
                                 graft_map *names, graft_err *e)
{
    graft_quant_plan *all = NULL;
    graft_str name = GRAFT_STR_INIT;
    graft_status st = graft_quant_layers(&m->arch, &all, e);
    for (size_t i = 0; !st && i < all->n; i++) {
        if (!(c->set[i / 8] >> i % 8 & 1) || all->layer[i].kind == GRAFT_LAYER_ATTENTION) continue;
        graft_str_finish(&name);
        graft_str_printf(&name, "%s%s.weight", graft_weights_prefix(m->weights),
                         all->layer[i].name);
        if (!name.data || name.failed || graft_map_put(names, name.data, names))
            st = graft_fail_nomem(e, "a quantized file");
    }
    graft_str_finish(&name);
    graft_quant_plan_destroy(all);
    return st;
}

/* The names of the chosen attentions, joined by commas. */
static graft_status attention_names(const graft_model *m, const graft_quant_choice *c,
                                    graft_str *names, graft_err *e)
{
    graft_quant_plan *all = NULL;
    graft_status st = graft_quant_layers(&m->arch, &all, e);
    for (size_t i = 0; !st && i < all->n; i++)
        if (c->set[i / 8] >> i % 8 & 1 && all->layer[i].kind == GRAFT_LAYER_ATTENTION)
            graft_str_printf(names, "%s%s", names->len ? "," : "", all->layer[i].name);
    if (!st && names->failed) st = graft_fail_nomem(e, "a quantized file");
    graft_quant_plan_destroy(all);
    return st;
}

/* The model's choice, or the one that its first sampling run has made since. */
static graft_status find_choice(const graft_model *m, graft_quant_choice *c, graft_err *e)
{
    graft_quantizer *q = m->quantizer;
    bool waits = false;
    memcpy(c, &m->quant, sizeof *c);
    if (!c->bits && q) {
        pthread_mutex_lock(&q->lock);
        memcpy(c, &q->choice, sizeof *c);
        waits = !q->plan;
        pthread_mutex_unlock(&q->lock);
    }
    return waits ? graft_fail(e, GRAFT_E_ARG,
                              "the model waits for its first sampling run to be calibrated: give "
                              "QuantizeModel positive, negative and latent_image to save it")
                 : GRAFT_OK;
}

static graft_status check(const graft_model *m, const graft_quant_choice *c, graft_err *e)
{
    size_t tensors, patches;
    graft_weights_patch_count(m->weights, &tensors, &patches);
    if (!c->bits)
        return graft_fail(e, GRAFT_E_ARG,
                          "no layer of this model is quantized: there is nothing to save");
    if (patches)
        return graft_fail(e, GRAFT_E_ARG,
                          "the model has LoRAs, which a quantized file cannot hold: save it "
                          "without them");
    if (graft_weights_is_sum(m->weights))
        return graft_fail(e, GRAFT_E_ARG,
                          "the model is a merge, which a quantized file is not made of: save it "
                          "with CheckpointSave, and quantize that file");
    if (graft_safetensors_metadata(graft_weights_file(m->weights), GRAFT_QUANTIZED_KEY))
        return graft_fail(e, GRAFT_E_ARG, "%s is a quantized file already",
                          graft_safetensors_path(graft_weights_file(m->weights)));
    return GRAFT_OK;
}

/* The file's own pairs, and what this layout and choice are. */
static graft_status write(const graft_model *m, const graft_quant_choice *c, const saved *s,
                          const char *attention, const char *path, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(m->weights);
    const char *key, *value;
    size_t n = 0, at = 0;
    char hash[33], count[24];
    graft_quant quant = graft_quant_of(c->bits, c->format);
    snprintf(count, sizeof count, "%zu", s->quantized);
    graft_hash_hex(graft_hash128(c, sizeof *c), hash);
    while (graft_safetensors_metadata_at(f, n, NULL)) n++;
    const char **pairs = graft_malloc_array(2 * n + 11, sizeof *pairs);
    if (!pairs) return graft_fail_nomem(e, "a quantized file");
    for (size_t i = 0; i < n; i++) {
        key = graft_safetensors_metadata_at(f, i, &value);
        pairs[at++] = key;
        pairs[at++] = value;
    }
    pairs[at++] = GRAFT_QUANTIZED_KEY;
    pairs[at++] = GRAFT_QUANTIZED_VERSION;
    pairs[at++] = "graft.quantized.scheme";
    pairs[at++] = quant == GRAFT_QUANT_INT8   ? "int8 per output"
                  : quant == GRAFT_QUANT_INT4 ? "int4 per 64"
                                              : "fp8_e4m3fn per output";
    pairs[at++] = "graft.quantized.plan";
    pairs[at++] = hash;
    if (attention) {
        pairs[at++] = GRAFT_QUANTIZED_ATTENTION;
        pairs[at++] = attention;
    }
    if (quant == GRAFT_QUANT_FP8) {
        pairs[at++] = GRAFT_QUANTIZED_COUNT;
        pairs[at++] = count;
    }
    pairs[at] = NULL;
    graft_status st = graft_safetensors_write(path, s->tensor, s->n, pairs, 0, e);
    graft_free(pairs);
    return st;
}

graft_status graft_model_save_quantized(const graft_model *m, const char *path,
                                        const graft_task *task, graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(m->weights);
    graft_map names = GRAFT_MAP_INIT;
    graft_str attention = GRAFT_STR_INIT;
    graft_quant_choice choice;
    graft_dtype kind;
    saved s = {0};
    graft_status st;
    GRAFT_TRY(find_choice(m, &choice, e));
    GRAFT_TRY(check(m, &choice, e));
    GRAFT_TRY(chosen_names(m, &choice, &names, e));
    GRAFT_TRY(attention_names(m, &choice, &attention, e));
    kind = graft_quant_dtype(graft_quant_of(choice.bits, choice.format));
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (graft_task_cancelled(task)) {
            st = graft_fail(e, GRAFT_E_CANCEL, "cancelled");
            goto out;
        }
        graft_task_progress(task, i, graft_safetensors_count(f));
        if (t->part) continue; /* comes with its tensor */
        if (graft_map_has(&names, t->name))
            GRAFT_TRY(add_quantized(&s, t, kind, e));
        else
            GRAFT_TRY(add_plain(&s, t, e));
    }
    GRAFT_TRY(write(m, &choice, &s, attention.len ? attention.data : NULL, path, e));
out:
    graft_str_finish(&attention);
    graft_map_finish(&names);
    finish(&s);
    return st;
}
