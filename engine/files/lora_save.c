/* LoRAs from differences of models: one layer after the other, each as a product of two thin
 * matrices or as it is. */
#include "engine/lora_made.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/str.h"
#include "engine/models/names/diffusers.h"
#include "engine/objects/objects.h"
#include "engine/prompts/t5.h"
#include "engine/weights/thin.h"
#include "engine/weights/quantized.h"

/* A layer's tensor, or some of its rows: what one or two tensors of the file are made of. */
typedef struct made_layer {
    graft_weights *set;
    const graft_st_tensor *base; /* of the set's first file */
    int64_t row, rows;           /* rows of the tensor's first dimension */
    char *stem;                  /* of the names in the file; owned */
    const char *ending;          /* of a difference as it is; NULL: two factors */
    int64_t rank;                /* of these */
} made_layer;

typedef struct lora_save {
    const graft_lora_made *made;
    const graft_task *task;
    made_layer *layer;
    size_t n, cap;
    graft_st_tensor *tensor; /* of the file; names are owned */
    size_t *from;            /* the layer of each */
    size_t n_tensors;
    float *values, *up, *down;
    uint16_t *narrow;
} lora_save;

static void finish(lora_save *j)
{
    for (size_t i = 0; i < j->n; i++) graft_free(j->layer[i].stem);
    for (size_t i = 0; i < j->n_tensors; i++) graft_free((char *)j->tensor[i].name);
    graft_free(j->layer);
    graft_free(j->tensor);
    graft_free(j->from);
    graft_free(j->values);
    graft_free(j->up);
    graft_free(j->down);
    graft_free(j->narrow);
}

/* ------------------------------------------------------------------ layers */

static int64_t row_values(const graft_st_tensor *t)
{
    return t->shape[0] ? graft_st_values(t) / t->shape[0] : 0;
}

static const char *own_name(const made_layer *k)
{
    return k->base->name + strlen(graft_weights_prefix(k->set));
}

/* Whether all files that the tensor is a sum of have it. */
static bool is_there(const graft_weights *w, const char *name, const graft_st_tensor *base)
{
    graft_weight_term t;
    if (!graft_st_is_weight(base) || base->rank < 1 || !graft_st_values(base)) return false;
    for (size_t at = 0; graft_weights_next_term(w, name, &at, &t);)
        if (!t.tensor || !graft_st_is_weight(t.tensor) ||
            graft_st_values(t.tensor) != graft_st_values(base))
            return false;
    return true;
}

/* Takes over the stem. */
static graft_status add_layer(lora_save *j, const made_layer *k, graft_str *stem, graft_err *e)
{
    if (stem->failed || graft_grow(&j->layer, &j->cap, j->n + 1, sizeof *j->layer))
        return graft_fail_nomem(e, "a LoRA");
    j->layer[j->n] = *k;
    j->layer[j->n].stem = graft_str_take(stem);
    if (!j->layer[j->n].stem) return graft_fail_nomem(e, "a LoRA");
    j->n++;
    return GRAFT_OK;
}

/* What becomes of the tensor of a layer: "….weight" (or in_proj_weight) and "….bias"; false:
 * nothing. */
static bool plan(const lora_save *j, bool bias, made_layer *k)
{
    const int64_t columns = row_values(k->base), least = k->rows < columns ? k->rows : columns;
    if ((bias || k->base->rank < 2) && !j->made->biases) return false;
    k->ending = bias ? ".diff_b" : k->base->rank < 2 || j->made->whole ? ".diff" : NULL;
    k->rank = j->made->rank < least ? j->made->rank : least;
    return true;
}

/* `layer` is the name without its ending, below `prefix` in the file; text: dots become '_'. */
static graft_status add(lora_save *j, made_layer k, bool bias, const char *prefix,
                        const char *layer, bool text, graft_err *e)
{
    graft_str stem = GRAFT_STR_INIT;
    graft_status st = GRAFT_OK;
    if (plan(j, bias, &k)) {
        graft_str_printf(&stem, "%s%s", prefix, layer);
        for (size_t i = strlen(prefix); text && !stem.failed && i < stem.len; i++)
            if (stem.data[i] == '.') stem.data[i] = '_';
        st = add_layer(j, &k, &stem, e);
    }
    graft_str_finish(&stem);
    return st;
}

/* OpenCLIP's queries, keys and values apart, as other files have them. */
static graft_status add_joined(lora_save *j, made_layer k, bool bias, const char *prefix,
                               const char *name, graft_err *e)
{
    static const char *const piece[3] = {"q_proj", "k_proj", "v_proj"};
    int layer;
    graft_status st = GRAFT_OK;
    if (sscanf(name, "transformer.resblocks.%d.attn.", &layer) != 1) return GRAFT_OK;
    k.rows = k.base->shape[0] / 3;
    for (int i = 0; i < 3 && !st; i++) {
        char own[128];
        snprintf(own, sizeof own, "text_model.encoder.layers.%d.self_attn.%s", layer, piece[i]);
        k.row = i * k.rows;
        st = add(j, k, bias, prefix, own, true, e);
    }
    return st;
}

/* A layer of blocks, of CLIP's or T5's encoder: tables and the last norm are none. */
static graft_status add_text(lora_save *j, const made_layer *k, bool bias, const char *prefix,
                             const char *layer, graft_err *e)
{
    char other[256];
    const char *name = graft_diffusers_text_name(layer, other, sizeof other) ? other : layer;
    if (strcmp(own_name(k), graft_t5_bias_name()) == 0) return GRAFT_OK;
    if (!graft_str_starts(name, "text_model.encoder.layers.") &&
        !graft_str_starts(name, "encoder.block."))
        return GRAFT_OK;
    return add(j, *k, bias, prefix, name, true, e);
}

/* All layers of a set. */
static graft_status add_set(lora_save *j, graft_weights *w, bool text, const char *prefix,
                            graft_err *e)
{
    const graft_safetensors *f = graft_weights_file(w);
    const char *own = graft_weights_prefix(w);
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < graft_safetensors_count(f) && !st; i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        if (t->part || !graft_str_starts(t->name, own)) continue;
        const char *name = t->name + strlen(own);
        const bool bias = graft_str_ends(name, ".bias") || graft_str_ends(name, ".in_proj_bias");
        const bool joined =
            bias ? graft_str_ends(name, "in_proj_bias") : graft_str_ends(name, ".in_proj_weight");
        char layer[256];
        const size_t n = strlen(name), less = bias ? 5 : 7;
        if (!(bias || joined || graft_str_ends(name, ".weight")) || n >= sizeof layer ||
            !is_there(w, name, t))
            continue;
        const made_layer k = {.set = w, .base = t, .rows = t->shape[0]};
        snprintf(layer, sizeof layer, "%.*s", (int)(n - less), name);
        st = joined && text ? add_joined(j, k, bias, prefix, name, e)
             : joined       ? GRAFT_OK
             : text         ? add_text(j, &k, bias, prefix, layer, e)
                            : add(j, k, bias, prefix, layer, false, e);
    }
    return st;
}

/* kohya's names of text encoders, which say which one it is. */
static const char *encoder_prefix(const graft_clip *c, size_t i)
{
    if (c->kind == GRAFT_CLIP_SD3) return c->encoder[i].large ? "lora_te2_" : "lora_te1_";
    return c->kind == GRAFT_CLIP_ONE ? "lora_te_" : i ? "lora_te2_" : "lora_te1_";
}

static graft_status collect(lora_save *j, graft_err *e)
{
    const graft_lora_made *m = j->made;
    const graft_clip *c = m->clip;
    graft_status st = c ? graft_clip_there(c, e) : GRAFT_OK;
    if (!st && m->rank < 1)
        st = graft_fail(e, GRAFT_E_ARG, "a rank of %lld is below 1", (long long)m->rank);
    if (!st && c && c->qwen3)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "there are no LoRAs for Qwen as text encoder");
    if (!st && m->model) st = add_set(j, m->model->weights, false, "diffusion_model.", e);
    for (size_t i = 0; c && i < c->n_encoders && !st; i++)
        st = add_set(j, c->encoder[i].weights, true, encoder_prefix(c, i), e);
    if (!st && c && c->t5)
        st = add_set(j, c->t5->weights, true,
                     c->kind == GRAFT_CLIP_FLUX ? "lora_te2_" : "lora_te3_", e);
    return st;
}

/* ------------------------------------------------------------------ values */

/* Room for the largest layer. */
static graft_status make_room(lora_save *j, graft_err *e)
{
    int64_t most = 1, up = 1, down = 1;
    for (size_t i = 0; i < j->n; i++) {
        const made_layer *k = &j->layer[i];
        const int64_t n = graft_st_values(k->base), columns = row_values(k->base);
        if (n > most) most = n;
        if (!k->ending && k->rank * k->rows > up) up = k->rank * k->rows;
        if (!k->ending && k->rank * columns > down) down = k->rank * columns;
    }
    const int64_t narrow = most > up ? most : up;
    j->values = graft_malloc_array((size_t)most, sizeof *j->values);
    j->up = graft_malloc_array((size_t)up, sizeof *j->up);
    j->down = graft_malloc_array((size_t)down, sizeof *j->down);
    j->narrow = graft_malloc_array((size_t)narrow, sizeof *j->narrow);
    return j->values && j->up && j->down && j->narrow ? GRAFT_OK : graft_fail_nomem(e, "a LoRA");
}

/* The layer's difference; *out lies in j->values. */
static graft_status read(lora_save *j, const made_layer *k, const float **out, graft_err *e)
{
    const int64_t all = graft_st_values(k->base), columns = row_values(k->base);
    graft_weight_term t;
    if (graft_task_cancelled(j->task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
    graft_status st = graft_weights_unchanged(k->set, e);
    if (!st) st = graft_weights_patched_values(k->set, own_name(k), k->base, all, j->values, e);
    for (size_t at = 0; !st && graft_weights_next_term(k->set, own_name(k), &at, &t);)
        graft_safetensors_forget(t.file, t.tensor);
    *out = j->values + k->row * columns;
    for (int64_t i = 0; i < k->rows * columns && !st; i++)
        if (!isfinite((*out)[i]))
            st = graft_fail(e, GRAFT_E_FORMAT, "tensor %s has values that are not finite",
                            k->base->name);
    return st;
}

/* Layers that do not differ go. */
static graft_status drop_equal(lora_save *j, graft_err *e)
{
    size_t kept = 0;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < j->n; i++) {
        const float *v = NULL;
        bool differs = false;
        if (!st) graft_task_progress(j->task, i, 2 * j->n);
        if (!st) st = read(j, &j->layer[i], &v, e);
        const int64_t n = j->layer[i].rows * row_values(j->layer[i].base);
        for (int64_t k = 0; k < n && !st && !differs; k++) differs = v[k] != 0;
        if (differs || st)
            j->layer[kept++] = j->layer[i];
        else
            graft_free(j->layer[i].stem);
    }
    j->n = kept;
    if (!st && !kept) st = graft_fail(e, GRAFT_E_ARG, "nothing differs that a LoRA could hold");
    return st;
}

static graft_status add_tensor(lora_save *j, size_t layer, const char *ending, int64_t rows,
                               int64_t columns, int rank, const int64_t *rest, graft_err *e)
{
    graft_str name = GRAFT_STR_INIT;
    graft_str_printf(&name, "%s%s", j->layer[layer].stem, ending);
    graft_st_tensor t = {.name = graft_str_take(&name), .dtype = GRAFT_F16, .rank = rank};
    graft_str_finish(&name);
    if (!t.name) return graft_fail_nomem(e, "a LoRA");
    t.shape[0] = rows;
    if (rank > 1) t.shape[1] = columns;
    for (int i = 2; i < rank; i++) t.shape[i] = rest ? rest[i] : 1;
    t.bytes = (uint64_t)graft_st_values(&t) * sizeof(uint16_t);
    j->from[j->n_tensors] = layer;
    j->tensor[j->n_tensors++] = t;
    return GRAFT_OK;
}

static graft_status name_tensors(lora_save *j, graft_err *e)
{
    graft_status st = GRAFT_OK;
    j->tensor = graft_malloc_array(2 * j->n, sizeof *j->tensor);
    j->from = graft_malloc_array(2 * j->n, sizeof *j->from);
    if (!j->tensor || !j->from) return graft_fail_nomem(e, "a LoRA");
    for (size_t i = 0; i < j->n && !st; i++) {
        const made_layer *k = &j->layer[i];
        const graft_st_tensor *b = k->base;
        const int64_t columns = b->rank > 1 ? b->shape[1] : 0;
        if (k->ending) {
            st = add_tensor(j, i, k->ending, k->rows, columns, b->rank, b->shape, e);
            continue;
        }
        st = add_tensor(j, i, ".lora_up.weight", k->rows, k->rank, b->rank, NULL, e);
        if (!st) st = add_tensor(j, i, ".lora_down.weight", k->rank, columns, b->rank, b->shape, e);
    }
    return st;
}

static graft_status narrow(lora_save *j, const graft_st_tensor *t, const float *v, graft_err *e)
{
    const int64_t n = graft_st_values(t);
    for (int64_t i = 0; i < n; i++)
        if (fabsf(v[i]) > 65504)
            return graft_fail(e, GRAFT_E_LIMIT, "tensor %s has a value beyond the range of float16",
                              t->name);
    graft_f32_to_f16_array(v, j->narrow, (size_t)n);
    return GRAFT_OK;
}

/* A layer's first tensor comes first, and leaves the other one's values. */
static graft_status give(void *ctx, size_t i, const void **data, graft_err *e)
{
    lora_save *j = ctx;
    const made_layer *k = &j->layer[j->from[i]];
    const bool second = i > 0 && j->from[i - 1] == j->from[i];
    const float *v = j->down;
    graft_status st = GRAFT_OK;
    if (!second) {
        graft_task_progress(j->task, j->n + j->from[i], 2 * j->n);
        st = read(j, k, &v, e);
        if (!st && !k->ending) {
            st = graft_thin_factors(v, k->rows, row_values(k->base), k->rank, j->up, j->down,
                                    j->task, e);
            v = j->up;
        }
    }
    *data = j->narrow;
    return st ? st : narrow(j, &j->tensor[i], v, e);
}

graft_status graft_lora_save(const graft_lora_made *made, const char *path,
                             const char *const *metadata, const graft_task *task, graft_err *e)
{
    lora_save j = {.made = made, .task = task};
    graft_status st = collect(&j, e);
    if (!st) st = make_room(&j, e);
    if (!st) st = drop_equal(&j, e);
    if (!st) st = name_tensors(&j, e);
    if (!st)
        st =
            graft_safetensors_write_from(path, j.tensor, j.n_tensors, metadata, false, give, &j, e);
    if (!st) graft_task_progress(task, 2 * j.n, 2 * j.n);
    finish(&j);
    return st;
}
