#include "engine/api/lora_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/str.h"
#include "engine/weights/values.h"

typedef enum lora_role { ROLE_NONE, ROLE_UP, ROLE_DOWN, ROLE_MID, ROLE_ALPHA } lora_role;

static const struct {
    const char *suffix;
    lora_role role;
} suffixes[] = {{".lora_up.weight", ROLE_UP},
                {".lora_down.weight", ROLE_DOWN},
                {".lora_mid.weight", ROLE_MID},
                {".alpha", ROLE_ALPHA},
                {".lora_B.weight", ROLE_UP},
                {".lora_A.weight", ROLE_DOWN},
                {".lora_B.default.weight", ROLE_UP},
                {".lora_A.default.weight", ROLE_DOWN},
                {".lora.up.weight", ROLE_UP},
                {".lora.down.weight", ROLE_DOWN},
                {".lora_linear_layer.up.weight", ROLE_UP},
                {".lora_linear_layer.down.weight", ROLE_DOWN},
                {"_lora.up.weight", ROLE_UP},
                {"_lora.down.weight", ROLE_DOWN}};

/* What PEFT puts before everything. */
#define WRAPPED "base_model_model_"

/* Longer prefixes stand before those that they begin with. */
static const struct {
    const char *prefix;
    graft_lora_part part;
    bool stays; /* it is the beginning of a layer's name */
} prefixes[] = {{"lora_unet_", GRAFT_LORA_UNET, false},
                {"lora_transformer_", GRAFT_LORA_UNET, false},
                {"lora_te1_", GRAFT_LORA_TEXT1, false},
                {"lora_te2_", GRAFT_LORA_TEXT2, false},
                {"lora_te3_", GRAFT_LORA_TEXT3, false},
                {"lora_te_", GRAFT_LORA_TEXT1, false},
                {"unet_", GRAFT_LORA_UNET, false},
                {"transformer_blocks_", GRAFT_LORA_UNET, true},
                {"transformer_", GRAFT_LORA_UNET, false},
                {"text_encoder_2_", GRAFT_LORA_TEXT2, false},
                {"text_encoder_3_", GRAFT_LORA_TEXT3, false},
                {"text_encoder_", GRAFT_LORA_TEXT1, false},
                {"model_diffusion_model_", GRAFT_LORA_UNET, false},
                {"diffusion_model_", GRAFT_LORA_UNET, false}};
#define N_PREFIXES (sizeof prefixes / sizeof *prefixes)

/* What a key's last words begin with when it is no plain LoRA. */
static const struct {
    const char *word, *what;
    bool whole;
} unsupported[] = {{"hada_", "a LyCORIS LoHa layer", false},
                   {"lokr_", "a LyCORIS LoKr layer", false},
                   {"dora_scale", "a DoRA layer", false},
                   {"lora_magnitude", "a DoRA layer", false},
                   {"oft_", "an OFT layer", false},
                   {"boft_", "an OFT layer", false},
                   {"diff", "a full weight difference", true},
                   {"diff_b", "a bias difference", true},
                   {"w_norm", "a norm difference", true},
                   {"b_norm", "a norm difference", true},
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

static lora_role role_of(const char *key, size_t *stem)
{
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!graft_str_ends(key, suffixes[i].suffix)) continue;
        *stem = strlen(key) - strlen(suffixes[i].suffix);
        return suffixes[i].role;
    }
    return ROLE_NONE;
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
    lora_role role = role_of(t->name, &stem);
    if (role == ROLE_NONE || !plain_of(t->name, stem, plain, &part)) {
        l->foreign[l->n_foreign++] = t->name;
        return GRAFT_OK;
    }
    graft_lora_layer *k = layer_of(l, index, plain, part);
    if (!k) return graft_fail_nomem(e, "LoRA");
    const graft_st_tensor **place = role == ROLE_UP     ? &k->up
                                    : role == ROLE_DOWN ? &k->down
                                    : role == ROLE_MID  ? &k->mid
                                                        : &k->alpha;
    if (*place)
        return graft_fail(e, GRAFT_E_FORMAT, "%s and %s are the same", (*place)->name, t->name);
    *place = t;
    return role == ROLE_ALPHA ? GRAFT_OK : check_finite(t, e);
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

graft_status graft_lora_alpha(const graft_lora_layer *k, float *out, graft_err *e)
{
    const graft_st_tensor *t = k->alpha;
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
