/* Weights that ComfyUI's tools quantized: what they hold (golden/small/coded), which of them are
 * levels that can be multiplied as they are, and what must be refused. */
#include "engine/weights/coded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/weights/packed.h"
#include "engine/weights/quantized.h"
#include "engine/weights/slot_data.h"
#include "kernels/hadamard.h"
#include "kernels/quant.h"
#include "tests/test.h"
#include "tests/weights/coded_file.h"

#define GOLDEN GRAFT_SOURCE_DIR "/golden/small/coded/"

static graft_safetensors *opened(const char *path)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    if (!f) abort();
    return f;
}

/* ------------------------------------------------------------------ values */

static double far(const float *a, const float *b, int64_t n)
{
    double most = 0, size = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most / size;
}

static void values_are_right(void)
{
    graft_safetensors *f = opened(GOLDEN "layers.safetensors"),
                      *want = opened(GOLDEN "values.safetensors");
    size_t coded = 0;
    for (size_t i = 0; i < graft_safetensors_count(want); i++) {
        const graft_st_tensor *w = graft_safetensors_at(want, i);
        const graft_st_tensor *t = graft_safetensors_find(f, w->name);
        CHECK(t && t->rank == w->rank && !t->part);
        if (!t || t->rank != w->rank) continue;
        CHECK(memcmp(t->shape, w->shape, (size_t)t->rank * sizeof *t->shape) == 0);
        CHECK(!t->coded == (t->dtype != GRAFT_DTYPE_NONE));
        coded += t->coded != NULL;
        const int64_t n = graft_st_values(w);
        float *got = malloc((size_t)n * sizeof *got), *pieces = calloc((size_t)n, sizeof *pieces);
        if (!got || !pieces) abort();
        graft_st_to_f32(t, 0, n, got);
        for (int64_t k = 0; k < n && t->scale != 0; k++) got[k] *= t->scale;
        if (!(far(got, w->data, n) < 3e-7)) CHECK_STR(w->name, "as it was computed");
        /* Pieces that begin and end within blocks, groups and rows. */
        for (int64_t at = 0, step = 1; at < n; at += step, step = step * 3 % 701 + 1)
            graft_st_to_f32(t, at, step < n - at ? step : n - at, pieces + at);
        for (int64_t k = 0; k < n && t->scale != 0; k++) pieces[k] *= t->scale;
        CHECK(memcmp(got, pieces, (size_t)n * sizeof *got) == 0);
        free(got);
        free(pieces);
    }
    CHECK_INT(coded, 11);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        CHECK(t->part == !graft_safetensors_find(want, t->name));
    }
    graft_safetensors_close(f);
    graft_safetensors_close(want);
}

/* ------------------------------------------------------------------ levels */

static graft_weights *weights_of(const char *path)
{
    graft_weights *w = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_weights_create(opened(path), &w, &e), &e);
    if (!w) abort();
    return w;
}

/* A slot of these rows, from one tensor or from two, one behind the other. */
static graft_slot_data loaded(const graft_weights *w, const char *a, const char *b, int64_t rows,
                              int64_t columns, int32_t group)
{
    char *name[2] = {(char *)(uintptr_t)a, (char *)(uintptr_t)b};
    int64_t each[2] = {rows, rows};
    graft_gslot s = {.kind = b ? GRAFT_SLOT_ROWS : GRAFT_SLOT_PLAIN,
                     .rank = 2,
                     .dim = {b ? 2 * rows : rows, columns},
                     .n_sources = b ? 2 : 1,
                     .source = name,
                     .rows = each,
                     .hadamard = group};
    graft_slot_data d = {0};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_slot_data_load(w, &s, &d, &e), &e);
    if (!d.data) abort();
    return d;
}

/* Levels of the file go as they are to whoever turns rows as it does; others get floats. */
static void levels_stay(void)
{
    graft_weights *w = weights_of(GOLDEN "layers.safetensors");
    const graft_st_tensor *t = graft_weights_find(w, "turned.weight");
    const graft_st_tensor *s = graft_weights_find(w, "turned.weight_scale");
    graft_slot_data d = loaded(w, "turned.weight", "turned.weight", 6, 512, 256);
    CHECK_INT(d.dtype, GRAFT_Q8);
    for (int k = 0; k < 2; k++) {
        CHECK(memcmp((const char *)d.data + k * t->bytes, t->data, t->bytes) == 0);
        CHECK(memcmp((const char *)d.data + 2 * t->bytes + k * s->bytes, s->data, s->bytes) == 0);
    }
    graft_slot_data_finish(&d);
    static const int32_t others[] = {0, 64, 16};
    float back[6 * 512], want[6 * 512];
    graft_st_to_f32(t, 0, 6 * 512, want);
    for (int i = 0; i < 3; i++) {
        d = loaded(w, "turned.weight", NULL, 6, 512, others[i]);
        CHECK_INT(d.dtype, GRAFT_F32);
        memcpy(back, d.data, sizeof back);
        if (others[i]) graft_hadamard(back, 6 * 512, others[i]);
        CHECK(far(back, want, 6 * 512) < 1e-6);
        graft_slot_data_finish(&d);
    }
    d = loaded(w, "row.weight", NULL, 12, 40, 0); /* not turned */
    CHECK_INT(d.dtype, GRAFT_Q8);
    graft_slot_data_finish(&d);
    d = loaded(w, "int4.weight", NULL, 3, 128, 64); /* four bits are levels, too */
    CHECK_INT(d.dtype, GRAFT_Q8);
    float values[3 * 128];
    graft_quantized_to_f32(GRAFT_Q8, d.data, 3, 128, values);
    graft_hadamard(values, 3 * 128, 64);
    graft_st_to_f32(graft_weights_find(w, "int4.weight"), 0, 3 * 128, want);
    CHECK(memcmp(values, want, sizeof values) == 0);
    graft_slot_data_finish(&d);
    d = loaded(w, "plain.weight", NULL, 3, 5, 0);
    CHECK_INT(d.dtype, GRAFT_F32);
    graft_slot_data_finish(&d);
    graft_weights_release(w);
}

/* ------------------------------------------------------------------ blocks */

/* The tensor twice, one behind the other, as a weight of blocks: every value has the bits that it
 * has as a float. */
static void check_blocks(const graft_weights *w, const graft_st_tensor *t, int32_t type)
{
    char *name[2] = {(char *)(uintptr_t)t->name, (char *)(uintptr_t)t->name};
    const int64_t rows = t->shape[0], n = t->shape[1];
    int64_t each[2] = {rows, rows};
    graft_gslot s = {.kind = GRAFT_SLOT_ROWS,
                     .rank = 2,
                     .dim = {2 * rows, n},
                     .n_sources = 2,
                     .source = name,
                     .rows = each};
    graft_slot_data d = {0};
    graft_err e = GRAFT_ERR_INIT;
    float got[1024], want[1024];
    const graft_dtype other =
        GRAFT_BLOCKS + (type == GRAFT_FLOAT_E4M3 ? GRAFT_FLOAT_E5M2 : GRAFT_FLOAT_E4M3);
    if (n > 1024) abort();
    CHECK_OK(graft_slot_data_blocks(w, &s, other, &d, &e), &e);
    CHECK(!d.data);
    CHECK_OK(graft_slot_data_blocks(w, &s, GRAFT_BLOCKS + type, &d, &e), &e);
    if (!d.data) abort();
    CHECK_INT(d.dtype, GRAFT_BLOCKS + type);
    const graft_blocks_weight packed = {type, d.data, 2 * rows, n};
    for (int64_t r = 0; r < 2 * rows; r++) {
        graft_st_to_f32(t, r % rows * n, n, want);
        for (int64_t k = 0; k < n && t->scale != 0; k++) want[k] *= t->scale;
        graft_blocks_to_f32(&packed, r, 0, n, got);
        if (memcmp(got, want, (size_t)n * sizeof *got)) CHECK_STR(t->name, "the same bits");
        for (int64_t at = 0, step = 1; at < n; at += step, step = step * 3 % 41 + 1)
            graft_blocks_to_f32(&packed, r, at, step < n - at ? step : n - at, got + at);
        CHECK(memcmp(got, want, (size_t)n * sizeof *got) == 0);
    }
    graft_slot_data_finish(&d);
}

static int32_t type_of(const graft_st_tensor *t)
{
    const graft_dtype d = t->coded ? t->coded->dtype : t->dtype;
    if (t->coded && t->coded->form == GRAFT_CODED_MXFP8) return GRAFT_FLOAT_MXFP8;
    if (t->coded && t->coded->form == GRAFT_CODED_NVFP4) return GRAFT_FLOAT_NVFP4;
    return d == GRAFT_F8_E4M3 ? GRAFT_FLOAT_E4M3 : d == GRAFT_F8_E5M2 ? GRAFT_FLOAT_E5M2 : 0;
}

/* Floats of 8 and 4 bits can be multiplied as they are; integers are levels, not blocks. */
static void blocks_stay(void)
{
    graft_weights *w = weights_of(GOLDEN "layers.safetensors");
    graft_safetensors *f = opened(GOLDEN "layers.safetensors");
    size_t seen[4] = {0}, scaled = 0, others = 0, turned = 0;
    uint64_t values = 0;
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        const int32_t type = t->part || t->rank < 2 ? 0 : type_of(t);
        const bool integers = t->coded && !t->part && !type;
        CHECK_INT(graft_packed_type(t), type);
        CHECK_INT(graft_packed_as(t), integers ? GRAFT_GGML_Q8_0 : type);
        if (type && t->rank == 2) check_blocks(w, t, type);
        values += type || integers ? (uint64_t)graft_st_values(t) : 0;
        turned += integers && t->coded->hadamard;
        others += !type;
        scaled += type && !t->coded && t->scale != 0;
        if (type) seen[type - GRAFT_FLOAT_E4M3]++;
    }
    CHECK(seen[0] > 1 && seen[1] && seen[2] && seen[3] && scaled && others > 3 && turned);
    CHECK_INT(graft_weights_packed_values(w), values);
    graft_safetensors_close(f);
    graft_weights_release(w);
}

/* ------------------------------------------------------------------ files that are made here */

/* A file of a layer "x": what is said of it, and its tensors. */
static graft_status open_layer(const char *says, const part *p, size_t n, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_status st = open_parts("x.comfy_quant", says, p, n, &f, e);
    graft_safetensors_close(f);
    return st;
}

static const int8_t levels[64 * 64];
static const float scales[64] = {1, 1, 1, 1, 1, 1, 1, 1}, lost[8] = {1, 1, NAN, 1, 1, 1, 1, 1},
                   below[8] = {1, 1, 1, -1, 1, 1, 1, 1}, endless[1] = {INFINITY};
static const uint8_t tile[512];

#define INT8_LAYER "{\"format\":\"int8_tensorwise\"}"
#define TURNED(group)                                                                              \
    "{\"format\":\"int8_tensorwise\",\"convrot\":true,\"convrot_groupsize\":" #group "}"

/* What a layer may have, right or wrong. */
enum {
    NOTHING,
    LEVELS,
    FLOATS,
    VECTOR,
    EMPTY,
    PICTURE,
    NIBBLES,
    SHORT_ROWS,
    E4M3,
    SCALES,
    SEVEN_SCALES,
    LEVEL_SCALES,
    LOST_SCALES,
    SCALES_BELOW,
    ENDLESS_SCALE,
    TILES,
    FEW_BLOCKS,
    POWERS,
    WHOLE,
    ENDLESS_WHOLE,
    BEFORE
};
static const part parts[] = {[LEVELS] = {".weight", "I8", "8,16", levels, 128},
                             [FLOATS] = {".weight", "F32", "8,4", scales, 128},
                             [VECTOR] = {".weight", "I8", "128", levels, 128},
                             [EMPTY] = {".weight", "I8", "0,16", levels, 0},
                             [PICTURE] = {".weight", "I8", "8,4,2,2", levels, 128},
                             [NIBBLES] = {".weight", "U8", "8,16", levels, 128},
                             [SHORT_ROWS] = {".weight", "U8", "8,12", levels, 96},
                             [E4M3] = {".weight", "F8_E4M3", "8,64", levels, 512},
                             [SCALES] = {".weight_scale", "F32", "8,1", scales, 32},
                             [SEVEN_SCALES] = {".weight_scale", "F32", "7", scales, 28},
                             [LEVEL_SCALES] = {".weight_scale", "I8", "8", levels, 8},
                             [LOST_SCALES] = {".weight_scale", "F32", "8", lost, 32},
                             [SCALES_BELOW] = {".weight_scale", "F32", "8", below, 32},
                             [ENDLESS_SCALE] = {".weight_scale", "F32", "", endless, 4},
                             [TILES] = {".weight_scale", "F8_E4M3", "128,4", tile, 512},
                             [FEW_BLOCKS] = {".weight_scale", "F8_E4M3", "8,2", tile, 16},
                             [POWERS] = {".weight_scale", "U8", "128,4", tile, 512},
                             [WHOLE] = {".weight_scale_2", "F32", "", scales, 4},
                             [ENDLESS_WHOLE] = {".weight_scale_2", "F32", "", endless, 4},
                             [BEFORE] = {".pre_quant_scale", "F32", "32", scales, 128}};

#define NVFP4 "{\"format\":\"nvfp4\"}"
#define MXFP8 "{\"format\":\"mxfp8\"}"
static const struct {
    const char *says;
    int part[4];
    graft_status st;
    const char *text; /* of the message */
} cases[] = {
    {INT8_LAYER, {LEVELS, SCALES}, GRAFT_OK, ""},
    {TURNED(16), {LEVELS, SCALES}, GRAFT_OK, ""},
    {NVFP4, {NIBBLES, TILES, WHOLE}, GRAFT_OK, ""},
    {MXFP8, {E4M3, POWERS}, GRAFT_OK, ""},
    {"{\"format\":\"float8_e4m3fn\"}", {E4M3}, GRAFT_OK, ""},
    {"{\"format\":\"asym_w4a8_int8\"}", {LEVELS}, GRAFT_E_UNSUPPORTED, "\"asym_w4a8_int8\" is not"},
    {"{\"format\":\"int8_blockwise\"}", {LEVELS}, GRAFT_E_UNSUPPORTED, "\"int8_blockwise\" is not"},
    {"{\"format\":\"float8_e5m2\"}", {LEVELS, SCALES}, GRAFT_E_FORMAT, "not of FP8"},
    {"{}", {LEVELS, SCALES}, GRAFT_E_FORMAT, "no format"},
    {"{\"format\":", {LEVELS, SCALES}, GRAFT_E_FORMAT, "x.comfy_quant"},
    {INT8_LAYER, {SCALES}, GRAFT_E_FORMAT, "its weight is missing"},
    {INT8_LAYER, {LEVELS}, GRAFT_E_FORMAT, "its weight_scale is missing"},
    {INT8_LAYER, {FLOATS, SCALES}, GRAFT_E_FORMAT, "not of integers"},
    {INT8_LAYER, {VECTOR, SCALES}, GRAFT_E_FORMAT, "none of a layer"},
    {INT8_LAYER, {EMPTY, SCALES}, GRAFT_E_FORMAT, "none of a layer"},
    {INT8_LAYER, {LEVELS, SEVEN_SCALES}, GRAFT_E_FORMAT, "one for each row"},
    {INT8_LAYER, {LEVELS, LEVEL_SCALES}, GRAFT_E_FORMAT, "one for each row"},
    {INT8_LAYER, {LEVELS, LOST_SCALES}, GRAFT_E_FORMAT, "negative or not finite"},
    {INT8_LAYER, {LEVELS, SCALES_BELOW}, GRAFT_E_FORMAT, "negative or not finite"},
    {INT8_LAYER, {LEVELS, ENDLESS_SCALE}, GRAFT_E_FORMAT, "negative or not finite"},
    {TURNED(64), {LEVELS, SCALES}, GRAFT_E_UNSUPPORTED, "convrot_groupsize"},
    {TURNED(8), {LEVELS, SCALES}, GRAFT_E_UNSUPPORTED, "convrot_groupsize"},
    {TURNED(0), {LEVELS, SCALES}, GRAFT_E_UNSUPPORTED, "convrot_groupsize"},
    {TURNED(-4), {LEVELS, SCALES}, GRAFT_E_UNSUPPORTED, "convrot_groupsize"},
    {TURNED(4), {PICTURE, SCALES}, GRAFT_E_UNSUPPORTED, "convrot_groupsize"},
    {"{\"format\":\"convrot_w4a4\"}", {LEVELS, SCALES}, GRAFT_E_UNSUPPORTED, "convrot_groupsize"},
    {NVFP4, {NIBBLES, TILES}, GRAFT_E_FORMAT, "weight_scale_2"},
    {NVFP4, {NIBBLES, TILES, ENDLESS_WHOLE}, GRAFT_E_FORMAT, "weight_scale_2 is not finite"},
    {NVFP4, {E4M3, TILES, WHOLE}, GRAFT_E_FORMAT, "not U8"},
    {NVFP4, {NIBBLES, FEW_BLOCKS, WHOLE}, GRAFT_E_FORMAT, "one for each block"},
    {NVFP4, {SHORT_ROWS, TILES, WHOLE}, GRAFT_E_FORMAT, "no whole blocks"},
    {NVFP4, {NIBBLES, TILES, WHOLE, BEFORE}, GRAFT_E_UNSUPPORTED, "pre_quant_scale"},
    {MXFP8, {LEVELS, POWERS}, GRAFT_E_FORMAT, "not F8_E4M3"},
    {MXFP8, {E4M3, SCALES}, GRAFT_E_FORMAT, "one for each block"},
};

static void refuses(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_err e = GRAFT_ERR_INIT;
        part p[4];
        size_t n = 0;
        for (; n < 4 && cases[i].part[n]; n++) p[n] = parts[cases[i].part[n]];
        graft_status st = open_layer(cases[i].says, p, n, &e);
        if (st != cases[i].st || !strstr(e.text, cases[i].text))
            printf("case %zu: %s\n", i, e.text);
        CHECK_INT(st, cases[i].st);
        CHECK(strstr(e.text, cases[i].text) != NULL);
    }
}

/* The same bytes in another format, or with other scales, are other content. */
static void content_differs(void)
{
    graft_safetensors *f = opened(GOLDEN "layers.safetensors");
    const graft_st_tensor *t = graft_safetensors_find(f, "turned.weight");
    graft_st_tensor other = *t;
    graft_coded c = *t->coded;
    graft_tensor_state a = {0}, b = {0};
    other.coded = &c;
    CHECK(graft_hash_equal(graft_tensor_hash(&a, t), graft_tensor_hash(&b, &other)));
    CHECK(graft_hash_equal(graft_tensor_sample(&a, t), graft_tensor_sample(&b, &other)));
    c.hadamard = 64;
    graft_tensor_state d = {0};
    CHECK(!graft_hash_equal(graft_tensor_hash(&a, t), graft_tensor_hash(&d, &other)));
    CHECK(!graft_hash_equal(graft_tensor_sample(&a, t), graft_tensor_sample(&d, &other)));
    c = *t->coded;
    float own[6];
    memcpy(own, c.scale, sizeof own);
    own[5] *= 2;
    c.scale = own;
    graft_tensor_state g = {0};
    CHECK(!graft_hash_equal(graft_tensor_hash(&a, t), graft_tensor_hash(&g, &other)));
    graft_safetensors_close(f);
}

int main(void)
{
    RUN(values_are_right);
    RUN(levels_stay);
    RUN(blocks_stay);
    RUN(refuses);
    RUN(content_differs);
    return test_end();
}
