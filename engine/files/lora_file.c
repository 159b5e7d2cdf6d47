#include "engine/files/lora_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/str.h"
#include "engine/weights/values.h"

static const struct {
    const char *suffix;
    graft_lora_role role;
    graft_patch_form form; /* of roles that several forms have */
} suffixes[] = {{".lora_up.weight", GRAFT_LORA_UP, 0},
                {".lora_down.weight", GRAFT_LORA_DOWN, 0},
                {".lora_mid.weight", GRAFT_LORA_MID, 0},
                {".alpha", GRAFT_LORA_ALPHA, 0},
                {".lora_B.weight", GRAFT_LORA_UP, 0},
                {".lora_A.weight", GRAFT_LORA_DOWN, 0},
                {".lora_B.default.weight", GRAFT_LORA_UP, 0},
                {".lora_A.default.weight", GRAFT_LORA_DOWN, 0},
                {".lora.up.weight", GRAFT_LORA_UP, 0},
                {".lora.down.weight", GRAFT_LORA_DOWN, 0},
                {".lora_linear_layer.up.weight", GRAFT_LORA_UP, 0},
                {".lora_linear_layer.down.weight", GRAFT_LORA_DOWN, 0},
                {"_lora.up.weight", GRAFT_LORA_UP, 0},
                {"_lora.down.weight", GRAFT_LORA_DOWN, 0},
                {".hada_w1_a", GRAFT_LORA_W1_A, GRAFT_PATCH_HADAMARD},
                {".hada_w1_b", GRAFT_LORA_W1_B, GRAFT_PATCH_HADAMARD},
                {".hada_t1", GRAFT_LORA_T1, GRAFT_PATCH_HADAMARD},
                {".hada_w2_a", GRAFT_LORA_W2_A, GRAFT_PATCH_HADAMARD},
                {".hada_w2_b", GRAFT_LORA_W2_B, GRAFT_PATCH_HADAMARD},
                {".hada_t2", GRAFT_LORA_T2, GRAFT_PATCH_HADAMARD},
                {".lokr_w1", GRAFT_LORA_W1, GRAFT_PATCH_KRONECKER},
                {".lokr_w1_a", GRAFT_LORA_W1_A, GRAFT_PATCH_KRONECKER},
                {".lokr_w1_b", GRAFT_LORA_W1_B, GRAFT_PATCH_KRONECKER},
                {".lokr_t1", GRAFT_LORA_T1, GRAFT_PATCH_KRONECKER},
                {".lokr_w2", GRAFT_LORA_W2, GRAFT_PATCH_KRONECKER},
                {".lokr_w2_a", GRAFT_LORA_W2_A, GRAFT_PATCH_KRONECKER},
                {".lokr_w2_b", GRAFT_LORA_W2_B, GRAFT_PATCH_KRONECKER},
                {".lokr_t2", GRAFT_LORA_T2, GRAFT_PATCH_KRONECKER},
                {".diff", GRAFT_LORA_DIFF, 0},
                {".diff_b", GRAFT_LORA_BIAS_DIFF, 0},
                {".w_norm", GRAFT_LORA_DIFF, 0},
                {".b_norm", GRAFT_LORA_BIAS_DIFF, 0},
                {".dora_scale", GRAFT_LORA_MAGNITUDE, 0},
                {".lora_magnitude_vector", GRAFT_LORA_MAGNITUDE, 0},
                {".lora_magnitude_vector.weight", GRAFT_LORA_MAGNITUDE, 0},
                {".lora_magnitude_vector.default.weight", GRAFT_LORA_MAGNITUDE, 0}};
#define N_SUFFIXES (sizeof suffixes / sizeof *suffixes)

/* What PEFT puts before everything. */
#define WRAPPED "base_model_model_"

/* Longer prefixes stand before those that they begin with. */
static const struct {
    const char *prefix;
    graft_lora_part part;
    bool stays; /* it is the beginning of a layer's name */
} prefixes[] = {{"lora_unet_", GRAFT_LORA_UNET, false},
                {"lora_transformer_", GRAFT_LORA_UNET, false},
                {"lycoris_", GRAFT_LORA_UNET, false},
                {"lora_te1_", GRAFT_LORA_TEXT1, false},
                {"lora_te2_", GRAFT_LORA_TEXT2, false},
                {"lora_te3_", GRAFT_LORA_TEXT3, false},
                {"lora_te_", GRAFT_LORA_TEXT1, false},
                {"unet_", GRAFT_LORA_UNET, false},
                {"transformer_blocks_", GRAFT_LORA_UNET, true},
                {"single_transformer_blocks_", GRAFT_LORA_UNET, true},
                {"double_blocks_", GRAFT_LORA_UNET, true},
                {"single_blocks_", GRAFT_LORA_UNET, true},
                {"transformer_", GRAFT_LORA_UNET, false},
                {"text_encoder_2_", GRAFT_LORA_TEXT2, false},
                {"text_encoder_3_", GRAFT_LORA_TEXT3, false},
                {"text_encoder_", GRAFT_LORA_TEXT1, false},
                {"model_diffusion_model_", GRAFT_LORA_UNET, false},
                {"diffusion_model_", GRAFT_LORA_UNET, false}};
#define N_PREFIXES (sizeof prefixes / sizeof *prefixes)

/* What a key's last words begin with when it is of another form. */
static const struct {
    const char *word, *what;
    bool whole;
} unsupported[] = {{"oft_", "an OFT layer", false},
                   {"boft_", "an OFT layer", false},
                   {"a1", "a GLoRA layer", true},
                   {"b1", "a GLoRA layer", true}};

static const char *const part_names[] = {"unet", "te1", "te2", "te3"};

/* Whether one of the words between dots says that this key is of another kind. */
static const char *foreign_kind(const char *key)
{
    for (const char *word = key; word; word = strchr(word, '.')) {
        word += *word == '.';
        size_t n = strcspn(word, ".");
        for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
            size_t m = strlen(unsupported[i].word);
            if (n >= m && (!unsupported[i].whole || n == m) &&
                strncmp(word, unsupported[i].word, m) == 0)
                return unsupported[i].what;
        }
    }
    return NULL;
}

/* Which suffix the key ends with, N_SUFFIXES: none. */
static size_t suffix_of(const char *key)
{
    size_t i = 0;
    while (i < N_SUFFIXES && !graft_str_ends(key, suffixes[i].suffix)) i++;
    return i;
}

bool graft_lora_plain_name(graft_lora_part part, const char *name, char out[GRAFT_LORA_NAME])
{
    int n = snprintf(out, GRAFT_LORA_NAME, "%s/%s", part_names[part], name);
    for (char *p = out; *p; p++)
        if (*p == '.') *p = '_';
    return n < GRAFT_LORA_NAME;
}

/* diffusers' attention processors: "attn1.processor.to_q" is layer "attn1.to_q". */
static void drop_processor(char *stem)
{
    static const char word[] = "_processor_to_";
    char *p = strstr(stem, word);
    if (p) memmove(p, p + strlen("_processor"), strlen(p + strlen("_processor")) + 1);
}

static bool plain_of(const char *key, size_t stem, char out[GRAFT_LORA_NAME], graft_lora_part *part)
{
    char text[GRAFT_LORA_NAME];
    if (stem >= sizeof text) return false;
    memcpy(text, key, stem);
    text[stem] = 0;
    for (char *p = text; *p; p++)
        if (*p == '.') *p = '_';
    drop_processor(text);
    *part = GRAFT_LORA_UNET; /* what names no part is of the oldest files, with a UNet alone */
    const char *name = text + (graft_str_starts(text, WRAPPED) ? strlen(WRAPPED) : 0);
    size_t i = 0;
    while (i < N_PREFIXES && !graft_str_starts(name, prefixes[i].prefix)) i++;
    if (i < N_PREFIXES) {
        *part = prefixes[i].part;
        if (!prefixes[i].stays) name += strlen(prefixes[i].prefix);
    }
    return graft_lora_plain_name(*part, name, out);
}

static graft_status check_finite(const graft_st_tensor *t, graft_err *e)
{
    float v[1024];
    size_t size = graft_dtype_size(t->dtype), n = size ? (size_t)t->bytes / size : 0;
    bool floats = t->dtype == GRAFT_F32 || t->dtype == GRAFT_F16 || t->dtype == GRAFT_BF16 ||
                  t->dtype == GRAFT_F64 || t->dtype == GRAFT_F8_E4M3 || t->dtype == GRAFT_F8_E5M2;
    if (!floats)
        return graft_fail(e, GRAFT_E_FORMAT, "%s holds no floating-point numbers", t->name);
    for (size_t at = 0; at < n; at += 1024) {
        size_t count = n - at < 1024 ? n - at : 1024;
        float sum = 0.0f; /* 0 * x is not 0 for what is not finite */
        graft_to_f32(t->dtype, (const uint8_t *)t->data + at * size, v, count);
        for (size_t i = 0; i < count; i++) sum += v[i] * 0.0f;
        if (sum != 0.0f)
            return graft_fail(e, GRAFT_E_FORMAT, "%s holds values that are not finite", t->name);
    }
    return GRAFT_OK;
}

/* The layer of this plain name, made when it is new; NULL when out of memory. `index` holds
 * positions plus one. */
static graft_lora_layer *layer_of(graft_lora_file *l, graft_map *index, const char *plain,
                                  graft_lora_part part)
{
    size_t at = (size_t)graft_map_get(index, plain);
    if (at) return &l->layer[at - 1];
    if (graft_grow(&l->layer, &l->cap, l->n + 1, sizeof *l->layer)) return NULL;
    char *copy = graft_strdup(plain);
    if (!copy || graft_map_put(index, plain, (void *)(l->n + 1))) {
        graft_free(copy);
        return NULL;
    }
    l->layer[l->n] = (graft_lora_layer){.plain = copy, .part = part};
    return &l->layer[l->n++];
}

static graft_status add_key(graft_lora_file *l, graft_map *index, const graft_st_tensor *t,
                            graft_err *e)
{
    char plain[GRAFT_LORA_NAME];
    size_t stem = 0;
    graft_lora_part part;
    const char *kind = foreign_kind(t->name);
    if (kind) return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s is %s: not supported", t->name, kind);
    size_t i = suffix_of(t->name);
    if (i < N_SUFFIXES) stem = strlen(t->name) - strlen(suffixes[i].suffix);
    if (i == N_SUFFIXES || !plain_of(t->name, stem, plain, &part)) {
        l->foreign[l->n_foreign++] = t->name;
        return GRAFT_OK;
    }
    graft_lora_layer *k = layer_of(l, index, plain, part);
    if (!k) return graft_fail_nomem(e, "LoRA");
    const graft_st_tensor **place = &k->tensor[suffixes[i].role];
    if (*place)
        return graft_fail(e, GRAFT_E_FORMAT, "%s and %s are the same", (*place)->name, t->name);
    *place = t;
    if (suffixes[i].form && k->form && suffixes[i].form != k->form)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: the layer has parts of LoHa and of LoKr",
                          t->name);
    if (suffixes[i].form) k->form = suffixes[i].form;
    return suffixes[i].role == GRAFT_LORA_ALPHA ? GRAFT_OK : check_finite(t, e);
}

graft_status graft_lora_file_read(const graft_safetensors *f, graft_lora_file *out, graft_err *e)
{
    graft_map index = GRAFT_MAP_INIT;
    graft_lora_file l = {0};
    graft_status st = GRAFT_OK;
    size_t n = graft_safetensors_count(f);
    l.foreign = graft_malloc_array(n, sizeof *l.foreign);
    if (!l.foreign) return graft_fail_nomem(e, "LoRA");
    for (size_t i = 0; i < n && !st; i++) st = add_key(&l, &index, graft_safetensors_at(f, i), e);
    graft_map_finish(&index);
    if (st)
        graft_lora_file_finish(&l);
    else
        *out = l;
    return st;
}

void graft_lora_file_finish(graft_lora_file *l)
{
    for (size_t i = 0; i < l->n; i++) graft_free(l->layer[i].plain);
    graft_free(l->layer);
    graft_free(l->foreign);
    *l = (graft_lora_file){0};
}

/* ------------------------------------------------------------------ what a layer does */

const graft_st_tensor *graft_lora_any(const graft_lora_layer *k)
{
    int i = 0;
    while (i < GRAFT_LORA_ROLES - 1 && !k->tensor[i]) i++;
    return k->tensor[i];
}

/* NAN without one. */
static graft_status alpha_of(const graft_lora_layer *k, float *out, graft_err *e)
{
    const graft_st_tensor *t = k->tensor[GRAFT_LORA_ALPHA];
    *out = NAN;
    if (!t) return GRAFT_OK;
    if (t->bytes == graft_dtype_size(t->dtype)) {
        int64_t i64;
        int32_t i32;
        if (t->dtype == GRAFT_I64) {
            memcpy(&i64, t->data, sizeof i64);
            *out = (float)i64;
        } else if (t->dtype == GRAFT_I32) {
            memcpy(&i32, t->data, sizeof i32);
            *out = (float)i32;
        } else {
            graft_to_f32(t->dtype, t->data, out, 1);
        }
    }
    return isfinite(*out) ? GRAFT_OK
                          : graft_fail(e, GRAFT_E_FORMAT, "%s is not one finite number", t->name);
}

/* Of LoHa's and LoKr's: whole or in factors, which a core may stand between. */
static graft_status part_of(const graft_lora_layer *k, int first, graft_factors *out, graft_err *e)
{
    const graft_st_tensor *const *t = k->tensor + first; /* whole, a, b, core */
    const bool factors = t[1] || t[2] || t[3];
    if (t[0] && factors)
        return graft_fail(e, GRAFT_E_FORMAT, "%s stands beside its own factors", t[0]->name);
    if (!t[0] && (!t[1] || !t[2]))
        return graft_fail(e, GRAFT_E_FORMAT, "%s lacks %s", graft_lora_any(k)->name,
                          factors ? "a factor beside it" : "its other part");
    *out = (graft_factors){.whole = t[0], .a = t[1], .b = t[2], .core = t[3], .turned = t[3]};
    return GRAFT_OK;
}

static graft_status low_rank(const graft_lora_layer *k, graft_factors *out, graft_err *e)
{
    const graft_st_tensor *up = k->tensor[GRAFT_LORA_UP], *down = k->tensor[GRAFT_LORA_DOWN];
    if (!up || !down)
        return graft_fail(e, GRAFT_E_FORMAT, "%s has no %s beside it", graft_lora_any(k)->name,
                          up ? "down part" : "up part");
    *out = (graft_factors){.a = up, .b = down, .core = k->tensor[GRAFT_LORA_MID]};
    return GRAFT_OK;
}

graft_status graft_lora_sources(const graft_lora_layer *k, graft_patch_source *to_weight,
                                bool *weight, graft_patch_source *to_bias, bool *bias, graft_err *e)
{
    const graft_st_tensor *const *t = k->tensor;
    const bool low = t[GRAFT_LORA_UP] || t[GRAFT_LORA_DOWN] || t[GRAFT_LORA_MID];
    const bool whole = t[GRAFT_LORA_DIFF] != NULL;
    graft_patch_source w = {.form = k->form, .magnitude = t[GRAFT_LORA_MAGNITUDE]};
    graft_status st = alpha_of(k, &w.alpha, e);
    if (st) return st;
    *bias = t[GRAFT_LORA_BIAS_DIFF] != NULL;
    *weight = low || whole || k->form || w.magnitude || !*bias;
    *to_bias = (graft_patch_source){.part = {{.whole = t[GRAFT_LORA_BIAS_DIFF]}}, .alpha = NAN};
    if (!*weight) return GRAFT_OK;
    if (low + whole + (k->form != 0) > 1)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: the layer is changed in more than one form",
                          graft_lora_any(k)->name);
    if (k->form) {
        st = part_of(k, GRAFT_LORA_W1, &w.part[0], e);
        if (!st) st = part_of(k, GRAFT_LORA_W2, &w.part[1], e);
    } else if (whole) {
        w.part[0].whole = t[GRAFT_LORA_DIFF];
    } else {
        st = low_rank(k, &w.part[0], e);
    }
    *to_weight = w;
    return st;
}
