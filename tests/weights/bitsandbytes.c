/* Weights that bitsandbytes quantized to 4 bits: what they hold (golden/small/bitsandbytes), which
 * of them can be multiplied as they are, and what must be refused. */
#include "engine/weights/bitsandbytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/weights/packed.h"
#include "engine/weights/tensor_scan.h"
#include "kernels/blocks.h"
#include "tests/test.h"
#include "tests/weights/coded_file.h"

#define GOLDEN GRAFT_SOURCE_DIR "/golden/small/bitsandbytes/"

static graft_safetensors *opened(const char *path)
{
    graft_safetensors *f = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    if (!f) abort();
    return f;
}

static float *floats(int64_t n)
{
    float *p = calloc((size_t)n, sizeof *p);
    if (!p) abort();
    return p;
}

/* ------------------------------------------------------------------ values */

static void values_are_right(void)
{
    graft_safetensors *f = opened(GOLDEN "layers.safetensors"),
                      *want = opened(GOLDEN "values.safetensors");
    size_t coded = 0, parts = 0;
    for (size_t i = 0; i < graft_safetensors_count(want); i++) {
        const graft_st_tensor *w = graft_safetensors_at(want, i);
        const graft_st_tensor *t = graft_safetensors_find(f, w->name);
        CHECK(t && t->rank == w->rank && !t->part);
        if (!t || t->rank != w->rank) continue;
        CHECK(memcmp(t->shape, w->shape, (size_t)t->rank * sizeof *t->shape) == 0);
        CHECK(!t->coded == (t->dtype != GRAFT_DTYPE_NONE));
        coded += t->coded != NULL;
        const int64_t n = graft_st_values(w);
        float *got = floats(n), *pieces = floats(n);
        graft_st_to_f32(t, 0, n, got);
        if (memcmp(got, w->data, (size_t)n * sizeof *got)) CHECK_STR(w->name, "the same bits");
        /* Pieces that begin and end within bytes, blocks and rows. */
        for (int64_t at = 0, step = 1; at < n; at += step, step = step * 3 % 701 + 1)
            graft_st_to_f32(t, at, step < n - at ? step : n - at, pieces + at);
        CHECK(memcmp(got, pieces, (size_t)n * sizeof *got) == 0);
        free(got);
        free(pieces);
    }
    CHECK_INT(coded, 12);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        CHECK(t->part == !graft_safetensors_find(want, t->name));
        parts += t->part != 0;
    }
    CHECK_INT(parts, 12 * 3 + 2 * 5);
    graft_safetensors_close(f);
    graft_safetensors_close(want);
}

/* ------------------------------------------------------------------ blocks */

/* As a weight of blocks every value has the bits that it has as a float. */
static void check_blocks(const graft_st_tensor *t, int32_t type)
{
    const int64_t rows = t->coded->rows, n = t->coded->columns;
    uint8_t *p = malloc((size_t)graft_blocks_bytes(type, rows, n));
    float *got = floats(n), *want = floats(n);
    if (!p) abort();
    graft_packed_copy(t, p, p + graft_blocks_level_bytes(type, rows * n));
    const graft_blocks_weight packed = {type, p, rows, n};
    for (int64_t r = 0; r < rows; r++) {
        graft_st_to_f32(t, r * n, n, want);
        graft_blocks_to_f32(&packed, r, 0, n, got);
        if (memcmp(got, want, (size_t)n * sizeof *got)) CHECK_STR(t->name, "the same bits");
        for (int64_t at = 0, step = 1; at < n; at += step, step = step * 3 % 41 + 1)
            graft_blocks_to_f32(&packed, r, at, step < n - at ? step : n - at, got + at);
        CHECK(memcmp(got, want, (size_t)n * sizeof *got) == 0);
    }
    free(p);
    free(got);
    free(want);
}

/* Blocks of 64 values, and larger ones in pieces, can be multiplied as they are; what else there is
 * becomes floats, and not blocks of another kind. */
static void blocks_stay(void)
{
    static const char *const floats_of[] = {"small", "into_the_next_row", "odd", "plain"};
    graft_safetensors *f = opened(GOLDEN "layers.safetensors");
    size_t seen[2] = {0}, others = 0;
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        int32_t type = t->part || !t->coded                ? 0
                       : t->coded->form == GRAFT_CODED_NF4 ? GRAFT_FLOAT_NF4
                                                           : GRAFT_FLOAT_FP4;
        for (size_t k = 0; k < sizeof floats_of / sizeof *floats_of; k++)
            if (strncmp(t->name, floats_of[k], strlen(floats_of[k])) == 0) type = 0;
        CHECK_INT(graft_packed_type(t), type);
        CHECK_INT(graft_packed_as(t), type);
        if (type) check_blocks(t, type);
        if (type) seen[type - GRAFT_FLOAT_NF4]++;
        others += !type && !t->part;
    }
    CHECK_INT(seen[0], 6);
    CHECK_INT(seen[1], 3);
    CHECK_INT(others, 4);
    graft_safetensors_close(f);
}

/* ------------------------------------------------------------------ files that are made here */

/* A file of a weight "x": its tensors, and what is said of it in the tensor of that name. */
static graft_status open_weight(const char *mark, const char *says, const part *p, size_t n,
                                graft_err *e)
{
    char name[64];
    graft_safetensors *f = NULL;
    snprintf(name, sizeof name, "x.quant_state.bitsandbytes__%s", mark);
    graft_status st = open_parts(name, says, p, n, &f, e);
    if (!st) {
        const graft_st_tensor *t = graft_safetensors_find(f, "x");
        float values[256];
        CHECK(t && t->coded && graft_st_values(t) == 256);
        graft_st_to_f32(t, 0, 256, values);
    }
    graft_safetensors_close(f);
    return st;
}

static const uint8_t codes[160];
static const float ones[256] = {1, 1, 1, 1}, lost[256] = {1, 1, NAN, 1}, endless[1] = {INFINITY};

/* What a weight (4,64) may have, right or wrong. */
enum {
    NOTHING,
    CODES,
    STORED,
    SHORT,
    LONG,
    TABLE,
    TABLE_FP4,
    FEW_TABLE,
    ABSMAX,
    ABSMAX_FEW,
    ABSMAX_MANY,
    ABSMAX_WORDS,
    BYTES,
    MAP,
    MAP_FEW,
    MAP_LOST,
    MAP_HALF,
    NESTED,
    NESTED_TWO,
    NESTED_LOST
};
static const part parts[] = {
    [CODES] = {"", "U8", "128,1", codes, 128},
    [STORED] = {"", "F32", "32,1", codes, 128},
    [SHORT] = {"", "U8", "127,1", codes, 127},
    [LONG] = {"", "U8", "129,1", codes, 129},
    [TABLE] = {".quant_map", "F32", "16", graft_float_nf4, 64},
    [TABLE_FP4] = {".quant_map", "F32", "16", graft_float_fp4, 64},
    [FEW_TABLE] = {".quant_map", "F32", "15", graft_float_nf4, 60},
    [ABSMAX] = {".absmax", "F32", "4", ones, 16},
    [ABSMAX_FEW] = {".absmax", "F32", "3", ones, 12},
    [ABSMAX_MANY] = {".absmax", "F32", "5", ones, 20},
    [ABSMAX_WORDS] = {".absmax", "I32", "4", ones, 16},
    [BYTES] = {".absmax", "U8", "4", codes, 4},
    [MAP] = {".nested_quant_map", "F32", "256", ones, 1024},
    [MAP_FEW] = {".nested_quant_map", "F32", "255", ones, 1020},
    [MAP_LOST] = {".nested_quant_map", "F32", "256", lost, 1024},
    [MAP_HALF] = {".nested_quant_map", "F16", "256", ones, 512},
    [NESTED] = {".nested_absmax", "F32", "1", ones, 4},
    [NESTED_TWO] = {".nested_absmax", "F32", "2", ones, 8},
    [NESTED_LOST] = {".nested_absmax", "F32", "1", endless, 4},
};

#define SAYS(type, block, shape)                                                                   \
    "{\"quant_type\":\"" type "\",\"blocksize\":" block ",\"dtype\":\"float16\",\"shape\":" shape
#define PLAIN         SAYS("nf4", "64", "[4,64]") "}"
#define WITH(block)   SAYS("nf4", block, "[4,64]") "}"
#define SHAPED(shape) SAYS("nf4", "64", shape) "}"
#define TWICE(block, offset)                                                                       \
    SAYS("nf4", "64", "[4,64]")                                                                    \
    ",\"nested_blocksize\":" block ",\"nested_dtype\":\"float32\",\"nested_offset\":" offset "}"

static const struct {
    const char *mark, *says;
    int part[5];
    graft_status st;
    const char *text; /* of the message */
} cases[] = {
    {"nf4", PLAIN, {CODES, TABLE, ABSMAX}, GRAFT_OK, ""},
    {"nf4", PLAIN, {STORED, TABLE, ABSMAX}, GRAFT_OK, ""},
    {"fp4", SAYS("fp4", "64", "[4,64]") "}", {CODES, TABLE_FP4, ABSMAX}, GRAFT_OK, ""},
    {"nf4", TWICE("256", "0.5"), {CODES, TABLE, BYTES, MAP, NESTED}, GRAFT_OK, ""},
    {"nf4", SHAPED("[2,8,4,4]"), {CODES, TABLE, ABSMAX}, GRAFT_OK, ""},
    {"nf4", "{", {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "x.quant_state.bitsandbytes__nf4"},
    {"nf4", "[]", {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "otherwise than its quant_type"},
    {"fp4", PLAIN, {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "otherwise than its quant_type"},
    {"nf4", PLAIN, {TABLE, ABSMAX}, GRAFT_E_FORMAT, "but not itself"},
    {"nf4", SHAPED("null"), {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "none of a layer"},
    {"nf4", SHAPED("[256]"), {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "none of a layer"},
    {"nf4", SHAPED("[2,2,2,2,16]"), {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "none of a layer"},
    {"nf4", SHAPED("[0,64]"), {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "none of a layer"},
    {"nf4", SHAPED("[-4,-64]"), {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "none of a layer"},
    {"nf4", SHAPED("[4.5,64]"), {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "none of a layer"},
    {"nf4", SHAPED("[4294967296,4294967296]"), {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "none of"},
    {"nf4", SHAPED("[8,64]"), {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "half as many"},
    {"nf4", PLAIN, {SHORT, TABLE, ABSMAX}, GRAFT_E_FORMAT, "half as many"},
    {"nf4", PLAIN, {LONG, TABLE, ABSMAX}, GRAFT_E_FORMAT, "half as many"},
    {"nf4", PLAIN, {CODES, ABSMAX}, GRAFT_E_FORMAT, "its quant_map is missing"},
    {"nf4", PLAIN, {CODES, FEW_TABLE, ABSMAX}, GRAFT_E_FORMAT, "not 16 numbers"},
    {"nf4", PLAIN, {CODES, TABLE_FP4, ABSMAX}, GRAFT_E_UNSUPPORTED, "not that of its quant_type"},
    {"nf4", WITH("0"), {CODES, TABLE, ABSMAX}, GRAFT_E_UNSUPPORTED, "its blocksize"},
    {"nf4", WITH("-64"), {CODES, TABLE, ABSMAX}, GRAFT_E_UNSUPPORTED, "its blocksize"},
    {"nf4", WITH("16"), {CODES, TABLE, ABSMAX}, GRAFT_E_UNSUPPORTED, "its blocksize"},
    {"nf4", WITH("96"), {CODES, TABLE, ABSMAX}, GRAFT_E_UNSUPPORTED, "its blocksize"},
    {"nf4", WITH("8192"), {CODES, TABLE, ABSMAX}, GRAFT_E_UNSUPPORTED, "its blocksize"},
    {"nf4", WITH("\"64\""), {CODES, TABLE, ABSMAX}, GRAFT_E_UNSUPPORTED, "its blocksize"},
    {"nf4", WITH("32"), {CODES, TABLE, ABSMAX}, GRAFT_E_FORMAT, "one scale for each block"},
    {"nf4", PLAIN, {CODES, TABLE}, GRAFT_E_FORMAT, "its absmax is missing"},
    {"nf4", PLAIN, {CODES, TABLE, ABSMAX_FEW}, GRAFT_E_FORMAT, "one scale for each block"},
    {"nf4", PLAIN, {CODES, TABLE, ABSMAX_MANY}, GRAFT_E_FORMAT, "one scale for each block"},
    {"nf4", PLAIN, {CODES, TABLE, ABSMAX_WORDS}, GRAFT_E_FORMAT, "one scale for each block"},
    {"nf4", PLAIN, {CODES, TABLE, BYTES}, GRAFT_E_UNSUPPORTED, "its nested_blocksize"},
    {"nf4", TWICE("256", "null"), {CODES, TABLE, BYTES, MAP, NESTED}, GRAFT_E_FORMAT, "_offset"},
    {"nf4", TWICE("256", "1e99"), {CODES, TABLE, BYTES, MAP, NESTED}, GRAFT_E_FORMAT, "_offset"},
    {"nf4", TWICE("256", "NaN"), {CODES, TABLE, BYTES, MAP, NESTED}, GRAFT_E_FORMAT, "quant_state"},
    {"nf4", TWICE("1", "0"), {CODES, TABLE, BYTES, MAP, NESTED}, GRAFT_E_UNSUPPORTED, "nested_b"},
    {"nf4", TWICE("256", "0"), {CODES, TABLE, BYTES, MAP}, GRAFT_E_FORMAT, "nested_absmax is"},
    {"nf4", TWICE("256", "0"), {CODES, TABLE, BYTES, NESTED}, GRAFT_E_FORMAT, "nested_quant_map"},
    {"nf4", TWICE("256", "0"), {CODES, TABLE, BYTES, MAP_FEW, NESTED}, GRAFT_E_FORMAT, "not 256"},
    {"nf4", TWICE("256", "0"), {CODES, TABLE, BYTES, MAP_LOST, NESTED}, GRAFT_E_FORMAT, "finite"},
    {"nf4", TWICE("256", "0"), {CODES, TABLE, BYTES, MAP_HALF, NESTED}, GRAFT_E_FORMAT, "in F32"},
    {"nf4", TWICE("256", "0"), {CODES, TABLE, BYTES, MAP, NESTED_TWO}, GRAFT_E_FORMAT, "not 1"},
    {"nf4", TWICE("256", "0"), {CODES, TABLE, BYTES, MAP, NESTED_LOST}, GRAFT_E_FORMAT, "finite"},
};

static void refuses(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graft_err e = GRAFT_ERR_INIT;
        part p[5];
        size_t n = 0;
        for (; n < 5 && cases[i].part[n]; n++) p[n] = parts[cases[i].part[n]];
        graft_status st = open_weight(cases[i].mark, cases[i].says, p, n, &e);
        if (st != cases[i].st || !strstr(e.text, cases[i].text))
            printf("case %zu: %s\n", i, e.text);
        CHECK_INT(st, cases[i].st);
        CHECK(strstr(e.text, cases[i].text) != NULL);
        if (st) CHECK(strstr(e.text, st == GRAFT_E_UNSUPPORTED ? "tensor \"x\"" : "x") != NULL);
    }
}

/* ------------------------------------------------------------------ content */

static bool same(const graft_st_tensor *a, const graft_coded *c)
{
    graft_st_tensor b = *a;
    graft_tensor_state s = {0}, t = {0}, u = {0}, v = {0};
    b.coded = c;
    const bool all = graft_hash_equal(graft_tensor_hash(&s, a), graft_tensor_hash(&t, &b));
    CHECK(all == graft_hash_equal(graft_tensor_sample(&u, a), graft_tensor_sample(&v, &b)));
    return all;
}

/* The same codes with other scales are other content. */
static void content_differs(void)
{
    graft_safetensors *f = opened(GOLDEN "layers.safetensors");
    const graft_st_tensor *t = graft_safetensors_find(f, "nested.weight");
    static float map[GRAFT_CODED_MAP], nested[4]; /* more than there are, for smaller blocks */
    for (int i = 0; i < 7; i++) {
        graft_coded c = *t->coded;
        memcpy(map, c.map, sizeof map);
        memcpy(nested, c.nested, 2 * sizeof *nested);
        c.map = map;
        c.nested = nested;
        if (i == 1) map[255] = 2;
        if (i == 2) nested[1] = 2;
        if (i == 3) c.offset = 2;
        if (i == 4) c.block = 128;
        if (i == 5) c.nested_block = 128;
        if (i == 6) c.form = GRAFT_CODED_FP4;
        CHECK(same(t, &c) == (i == 0));
    }
    t = graft_safetensors_find(f, "nf4.weight");
    graft_coded c = *t->coded;
    float absmax[12];
    memcpy(absmax, c.scale, sizeof absmax);
    c.scale = absmax;
    CHECK(same(t, &c));
    absmax[11] *= 2;
    CHECK(!same(t, &c));
    graft_safetensors_close(f);
}

/* Scales in float32 are as many as other weights in large files: what is wrong with them is found
 * with the content, as in floats. */
static void not_finite(void)
{
    graft_safetensors *f = opened(GOLDEN "layers.safetensors");
    graft_st_tensor t = *graft_safetensors_find(f, "nf4.weight");
    graft_coded c = *t.coded;
    float absmax[12];
    memcpy(absmax, c.scale, sizeof absmax);
    c.scale = absmax;
    t.coded = &c;
    for (int i = 0; i < 2; i++) {
        graft_tensor_state s = {0};
        absmax[7] = i ? -INFINITY : absmax[7];
        graft_tensor_hash(&s, &t);
        CHECK(s.non_finite == (i == 1));
    }
    graft_safetensors_close(f);
}

int main(void)
{
    RUN(values_are_right);
    RUN(blocks_stay);
    RUN(refuses);
    RUN(content_differs);
    RUN(not_finite);
    return test_end();
}
