/* Weight sets: content hashes, reading by rows, and what is not finite. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/half.h"
#include "engine/weights/patch.h"
#include "engine/weights/slot_data.h"
#include "tests/test.h"

enum { ROWS = 96, COLUMNS = 3001 }; /* more than a piece in each dtype, and no round number */

static int warnings;
static char last[256];

static void count_line(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    warnings += level >= GRAFT_LOG_WARN;
    snprintf(last, sizeof last, "%s", text);
}

/* A file with the tensors "a" (ROWS rows) and "b" (half of them); value `at` of a is replaced. */
static graft_weights *make_set(graft_dtype t, long at, float value)
{
    char path[256];
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f = NULL;
    graft_weights *w = NULL;
    size_t n = (size_t)ROWS * COLUMNS, size = graft_dtype_size(t);
    float *v = malloc(n * sizeof *v);
    char *data = malloc(n * size);
    for (size_t i = 0; i < n; i++) v[i] = (float)((int)(i * 7 % 2001) - 1000) / 16;
    v[17] = 65504.0f; /* the largest of float16 is finite */
    if (at >= 0) v[at] = value;
    if (t == GRAFT_F32) memcpy(data, v, n * size);
    if (t == GRAFT_F16) graft_f32_to_f16_array(v, data, n);
    if (t == GRAFT_BF16) graft_f32_to_bf16_array(v, data, n);
    graft_st_tensor both[2] = {
        {"a", t, 2, {ROWS, COLUMNS}, data, n * size, 0, 0, NULL, NULL, NULL},
        {"b", t, 2, {ROWS / 2, COLUMNS}, data, n / 2 * size, 0, 0, NULL, NULL, NULL}};
    snprintf(path, sizeof path, "%s/weights-%ld.safetensors", GRAFT_BINARY_DIR, (long)getpid());
    CHECK_OK(graft_safetensors_write(path, both, 2, NULL, 1, &e), &e);
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    CHECK_OK(graft_weights_create(f, &w, &e), &e);
    unlink(path);
    free(v);
    free(data);
    return w;
}

static char *names[] = {"a", "b", "a"};
static int64_t row_counts[] = {ROWS, ROWS / 2, ROWS};
static graft_gslot one = {GRAFT_SLOT_PLAIN, 2, {ROWS, COLUMNS}, 1, names, NULL, 0};
static graft_gslot joined = {GRAFT_SLOT_ROWS, 2, {2 * ROWS + ROWS / 2, COLUMNS}, 3, names,
                             row_counts,      0};

/* Row by row the same bytes as at once, and the hash is known afterwards and right. */
static void read_by_rows(void)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16};
    for (int k = 0; k < 6; k++) {
        const graft_gslot *slot = k % 2 ? &joined : &one;
        graft_err e = GRAFT_ERR_INIT;
        graft_weights *w = make_set(dtypes[k / 2], -1, 0), *again = make_set(dtypes[k / 2], -1, 0);
        graft_slot_data whole;
        graft_slot_reader *r = NULL;
        graft_dtype t;
        const void *data;
        graft_hash got, want;
        CHECK_OK(graft_slot_data_load(again, slot, &whole, &e), &e);
        CHECK_OK(graft_weights_slot_hash(again, slot, &want, &e), &e);
        CHECK_OK(graft_slot_reader_create(w, slot, 16, &r, &e), &e);
        CHECK(r != NULL && !graft_weights_slot_hashed(w, slot));
        int64_t row = 0, wrong = 0;
        size_t row_bytes = COLUMNS * graft_dtype_size(dtypes[k / 2]);
        for (int64_t n; (n = graft_slot_reader_next(r, 16, &t, &data)) > 0; row += n) {
            CHECK(row % 16 == 0 && t == whole.dtype && row + n <= slot->dim[0]);
            wrong += memcmp(data, (const char *)whole.data + (size_t)row * row_bytes,
                            (size_t)n * row_bytes) != 0;
        }
        CHECK_INT(row, slot->dim[0]);
        CHECK_INT(wrong, 0);
        CHECK(graft_weights_slot_hashed(w, slot));
        CHECK_OK(graft_weights_slot_hash(w, slot, &got, &e), &e);
        CHECK(graft_hash_equal(got, want));
        graft_slot_reader_destroy(r);
        graft_slot_data_finish(&whole);
        graft_weights_release(w);
        graft_weights_release(again);
    }
}

static void not_by_rows(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_weights *w = make_set(GRAFT_F32, -1, 0);
    graft_gslot turned = {GRAFT_SLOT_TRANSPOSE, 2, {COLUMNS, ROWS}, 1, names, NULL, 0};
    graft_slot_reader *r;
    CHECK_OK(graft_slot_reader_create(w, &turned, 16, &r, &e), &e);
    CHECK(r == NULL);
    CHECK_OK(graft_slot_reader_create(w, &joined, 64, &r, &e), &e); /* 96 is no multiple */
    CHECK(r == NULL);
    graft_weights_release(w);
}

/* A set of one tensor (8,6,3), whose values say where they stand. */
static graft_weights *make_places(graft_dtype t)
{
    enum { N = 8 * 6 * 3 };
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f = NULL;
    graft_weights *w = NULL;
    char path[300];
    float v[N];
    uint16_t half[N];
    for (int i = 0; i < N; i++) v[i] = (float)i;
    for (int i = 0; i < N; i++) half[i] = graft_f32_to_f16(v[i]);
    const graft_st_tensor a = {.name = "a",
                               .dtype = t,
                               .rank = 3,
                               .shape = {8, 6, 3},
                               .data = t == GRAFT_F32 ? (void *)v : half,
                               .bytes = N * graft_dtype_size(t)};
    snprintf(path, sizeof path, "%s/places-%ld.safetensors", GRAFT_BINARY_DIR, (long)getpid());
    CHECK_OK(graft_safetensors_write(path, &a, 1, NULL, 1, &e), &e);
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    CHECK_OK(graft_weights_create(f, &w, &e), &e);
    unlink(path);
    return w;
}

/* The first half of each row, the sum of both halves, the lower half of the rows: each has a name
 * of its own. */
static void parts(void)
{
    int64_t two = 2;
    const graft_gslot slot[3] = {{GRAFT_SLOT_FIRST, 3, {8, 3, 3}, 1, names, &two, 0},
                                 {GRAFT_SLOT_SUM, 3, {8, 3, 3}, 1, names, &two, 0},
                                 {GRAFT_SLOT_BOTTOM, 3, {4, 6, 3}, 1, names, &two, 0}};
    for (int k = 0; k < 6; k++) {
        const graft_dtype t = k < 3 ? GRAFT_F32 : GRAFT_F16;
        const graft_gslot *s = &slot[k % 3];
        graft_err e = GRAFT_ERR_INIT;
        graft_weights *w = make_places(t);
        graft_slot_data part;
        graft_slot_reader *r;
        graft_hash hash[2];
        CHECK_OK(graft_slot_data_load(w, s, &part, &e), &e);
        CHECK(part.owned && part.dtype == (k % 3 == 1 ? GRAFT_F32 : t));
        for (int i = 0; i < 72; i++) {
            const float got = part.dtype == GRAFT_F32
                                  ? ((const float *)part.data)[i]
                                  : graft_f16_to_f32(((const uint16_t *)part.data)[i]);
            const int first = i / 9 * 18 + i % 9;
            CHECK(got == (float)(k % 3 == 0 ? first : k % 3 == 1 ? 2 * first + 9 : 72 + i));
        }
        CHECK_OK(graft_weights_slot_hash(w, s, &hash[0], &e), &e);
        CHECK_OK(graft_weights_slot_hash(w, &slot[(k + 1) % 3], &hash[1], &e), &e);
        CHECK(!graft_hash_equal(hash[0], hash[1]));
        CHECK_OK(graft_slot_reader_create(w, s, 16, &r, &e), &e);
        CHECK(r == NULL);
        graft_slot_data_finish(&part);
        graft_weights_release(w);
    }
    const graft_gslot odd = {GRAFT_SLOT_FIRST, 3, {8, 4, 3}, 1, names, &two, 0};
    graft_err e = GRAFT_ERR_INIT;
    graft_weights *w = make_places(GRAFT_F32);
    graft_slot_data part;
    CHECK_INT(graft_slot_data_load(w, &odd, &part, &e), GRAFT_E_FORMAT);
    CHECK(strstr(e.text, "(8,6,3) where (8,8,3) belongs") != NULL);
    graft_weights_release(w);
}

/* What is stored by how far it is from 1: a value of float32 whatever the file has, by another name
 * than the tensor as it is. */
static void one_more(void)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16};
    const graft_gslot more = {GRAFT_SLOT_MORE, 2, {ROWS, COLUMNS}, 1, names, NULL, 0};
    for (int k = 0; k < 3; k++) {
        graft_err e = GRAFT_ERR_INIT;
        graft_weights *w = make_set(dtypes[k], -1, 0);
        graft_slot_data plain, data;
        graft_slot_reader *r;
        graft_hash hash[2];
        size_t wrong = 0;
        CHECK_OK(graft_slot_data_load(w, &one, &plain, &e), &e);
        CHECK_OK(graft_slot_data_load(w, &more, &data, &e), &e);
        CHECK(plain.dtype == dtypes[k] && data.dtype == GRAFT_F32 && data.owned);
        for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
            const uint16_t *half = plain.data;
            const float from = k == 0   ? ((const float *)plain.data)[i]
                               : k == 1 ? graft_f16_to_f32(half[i])
                                        : graft_bf16_to_f32(half[i]);
            wrong += ((const float *)data.data)[i] != from + 1;
        }
        CHECK_INT(wrong, 0);
        CHECK_OK(graft_weights_slot_hash(w, &one, &hash[0], &e), &e);
        CHECK_OK(graft_weights_slot_hash(w, &more, &hash[1], &e), &e);
        CHECK(!graft_hash_equal(hash[0], hash[1]));
        CHECK_OK(graft_slot_reader_create(w, &more, 16, &r, &e), &e);
        CHECK(r == NULL);
        graft_slot_data_finish(&plain);
        graft_slot_data_finish(&data);
        graft_weights_release(w);
    }
}

/* Equal values give equal samples and hashes; what differs anywhere differs in its hash. */
static void names_of_content(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_hash sample[3], hash[3];
    graft_weights *w[3] = {make_set(GRAFT_F16, -1, 0), make_set(GRAFT_F16, -1, 0),
                           make_set(GRAFT_F16, 100, 3)};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(graft_weights_slot_sample(w[i], &joined, &sample[i], &e), &e);
        CHECK(!graft_weights_slot_hashed(w[i], &joined));
        CHECK_OK(graft_weights_slot_hash(w[i], &joined, &hash[i], &e), &e);
    }
    CHECK(graft_hash_equal(sample[0], sample[1]) && graft_hash_equal(hash[0], hash[1]));
    CHECK(graft_hash_equal(sample[0], sample[2])); /* where no sample is taken */
    CHECK(!graft_hash_equal(hash[0], hash[2]));
    for (int i = 0; i < 3; i++) graft_weights_release(w[i]);
}

static void not_finite(void)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16};
    static const long places[] = {
        -1, 0, 1, 2, 3, 31, 32, 131071, 131072, 131073, 65535, 65536, (long)ROWS * COLUMNS - 1};
    const float values[] = {INFINITY, -INFINITY, NAN};
    const graft_log log = {.line = count_line};
    for (size_t t = 0; t < 3; t++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            graft_err e = GRAFT_ERR_INIT;
            graft_hash h;
            graft_weights *w = make_set(dtypes[t], places[p], values[p % 3]);
            warnings = 0;
            graft_weights_report(w, &one, &log); /* nothing was read yet */
            CHECK_INT(warnings, 0);
            CHECK_OK(graft_weights_slot_hash(w, &one, &h, &e), &e);
            graft_weights_report(w, &one, &log);
            graft_weights_report(w, &one, &log);
            CHECK_INT(warnings, places[p] >= 0);
            if (warnings) CHECK(strstr(last, "tensor a holds values that are not finite") != NULL);
            graft_weights_release(w);
        }
}

/* A sum of a float16 and a bfloat16 set: rows are what is loaded at once, and that is the sum; its
 * name is of the parts and the factors. */
static void sums(void)
{
    const double some[3] = {0.375, 1, 1}, rest[3] = {0.625, 1, 1}, other[3] = {0.5, 1, 1};
    graft_err e = GRAFT_ERR_INIT;
    graft_weights *a = make_set(GRAFT_F16, -1, 0), *b = make_set(GRAFT_BF16, 100, 3);
    graft_weights *w[3];
    graft_hash hash[3], sample[3];
    graft_slot_data x, y, z;
    graft_slot_reader *r = NULL;
    graft_dtype t;
    const void *data;
    CHECK_OK(graft_weights_sum(a, some, b, rest, &w[0], &e), &e);
    CHECK_OK(graft_weights_sum(a, some, b, rest, &w[1], &e), &e);
    CHECK_OK(graft_weights_sum(a, some, b, other, &w[2], &e), &e);
    for (int i = 0; i < 3; i++) {
        CHECK(graft_weights_is_sum(w[i]) && graft_weights_slot_derived(w[i], &joined));
        CHECK(!graft_weights_slot_patched(w[i], &joined));
        CHECK_OK(graft_weights_slot_sample(w[i], &joined, &sample[i], &e), &e);
        CHECK_OK(graft_weights_slot_hash(w[i], &joined, &hash[i], &e), &e);
        CHECK(graft_weights_slot_hashed(w[i], &joined));
    }
    CHECK(graft_hash_equal(hash[0], hash[1]) && graft_hash_equal(sample[0], sample[1]));
    CHECK(!graft_hash_equal(hash[0], hash[2]) && !graft_hash_equal(sample[0], sample[2]));
    CHECK_OK(graft_slot_data_load(a, &one, &x, &e), &e);
    CHECK_OK(graft_slot_data_load(b, &one, &y, &e), &e);
    CHECK_OK(graft_slot_data_load(w[0], &joined, &z, &e), &e);
    CHECK_INT(z.dtype, GRAFT_F32);
    const float *sum = z.data;
    int64_t wrong = 0, row = 0;
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        float p = graft_f16_to_f32(((const uint16_t *)x.data)[i]);
        float q = graft_bf16_to_f32(((const uint16_t *)y.data)[i]);
        wrong += fabs((double)sum[i] - (0.375 * (double)p + 0.625 * (double)q)) >
                 1e-6 * fabs((double)sum[i]) + 1e-6;
    }
    CHECK_INT(wrong, 0);
    CHECK_OK(graft_slot_reader_create(w[0], &joined, 16, &r, &e), &e);
    for (int64_t n; r && (n = graft_slot_reader_next(r, 16, &t, &data)) > 0; row += n) {
        CHECK(row % 16 == 0 && t == GRAFT_F32 && row + n <= joined.dim[0]);
        wrong += memcmp(data, sum + row * COLUMNS, (size_t)(n * COLUMNS) * sizeof *sum) != 0;
    }
    CHECK_INT(row, joined.dim[0]);
    CHECK_INT(wrong, 0);
    graft_slot_reader_destroy(r);
    graft_slot_data_finish(&x), graft_slot_data_finish(&y), graft_slot_data_finish(&z);
    graft_weights_release(a), graft_weights_release(b); /* sums keep their files */
    CHECK_OK(graft_slot_data_load(w[1], &one, &z, &e), &e);
    graft_slot_data_finish(&z);
    for (int i = 0; i < 3; i++) graft_weights_release(w[i]);
}

/* Scales are counted by the file's first dimension, so that may not be one that the weight lacks.
 */
static void quantized_rows(void)
{
    static int8_t values[4 * 64];
    static const float scales[4] = {1, 2, 3, 4};
    const struct {
        int rank;
        int64_t shape[3];
        uint64_t scale_bytes;
        graft_status status;
    } cases[] = {{2, {4, 64}, 16, GRAFT_OK},
                 {3, {4, 64, 1}, 16, GRAFT_OK},
                 {3, {1, 4, 64}, 4, GRAFT_E_FORMAT}};
    static char *name[] = {"w"};
    const graft_gslot slot = {GRAFT_SLOT_PLAIN, 2, {4, 64}, 1, name, NULL, 0};
    const char *metadata[] = {"graft.quantized", "1", NULL};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        graft_err e = GRAFT_ERR_INIT;
        graft_safetensors *f = NULL;
        graft_weights *w = NULL;
        graft_slot_data x;
        const int64_t *s = cases[i].shape;
        graft_st_tensor both[2] = {{"w",
                                    GRAFT_I8,
                                    cases[i].rank,
                                    {s[0], s[1], s[2]},
                                    values,
                                    sizeof values,
                                    0,
                                    0,
                                    NULL,
                                    NULL,
                                    NULL},
                                   {"w_scale",
                                    GRAFT_F32,
                                    1,
                                    {s[0]},
                                    scales,
                                    cases[i].scale_bytes,
                                    0,
                                    0,
                                    NULL,
                                    NULL,
                                    NULL}};
        snprintf(path, sizeof path, "%s/weights-rows-%ld.safetensors", GRAFT_BINARY_DIR,
                 (long)getpid());
        CHECK_OK(graft_safetensors_write(path, both, 2, metadata, 1, &e), &e);
        CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
        CHECK_OK(graft_weights_create(f, &w, &e), &e);
        CHECK_INT(graft_weights_find(w, "w")->dtype, GRAFT_Q8);
        graft_status st = graft_slot_data_load(w, &slot, &x, &e);
        CHECK_INT(st, cases[i].status);
        if (!st) graft_slot_data_finish(&x);
        if (st) CHECK(strstr(e.text, "has the shape (1,4,64) where (4,64) belongs") != NULL);
        graft_weights_release(w);
        unlink(path);
    }
}

/* Where all cancels out there is nothing to sum up, and nothing twice is nothing. */
static void sums_of_nothing(void)
{
    const double plus[3] = {1, 1, 1}, minus[3] = {-1, -1, -1};
    graft_err e = GRAFT_ERR_INIT;
    graft_weights *a = make_set(GRAFT_F16, -1, 0), *none = NULL, *twice = NULL;
    graft_slot_data x;
    CHECK_OK(graft_weights_sum(a, plus, a, minus, &none, &e), &e);
    CHECK_OK(graft_weights_sum(none, plus, none, plus, &twice, &e), &e);
    CHECK_OK(graft_slot_data_load(twice, &one, &x, &e), &e);
    const float *v = x.data;
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i += 97) CHECK(v[i] == 0);
    graft_slot_data_finish(&x);
    graft_weights_release(a), graft_weights_release(none), graft_weights_release(twice);
}

/* `base` with the LoRA in the file, which nobody else has open. */
static graft_weights *patched(graft_weights *base, const char *path)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_safetensors *f = NULL;
    graft_weights *owner = NULL, *w = NULL;
    CHECK_OK(graft_safetensors_open(path, &f, &e), &e);
    CHECK_OK(graft_weights_create(f, &owner, &e), &e);
    const graft_patch_source source = {
        .part = {{.a = graft_weights_find(owner, "up"), .b = graft_weights_find(owner, "down")}},
        .alpha = NAN};
    graft_patch p = graft_patch_make(&source, 0, 0);
    p.strength = 0.5f;
    CHECK_OK(graft_weights_patch(base, (const char *[]){"a"}, &p, 1, owner, &w, &e), &e);
    graft_weights_release(owner);
    return w;
}

/* The patches of one LoRA that was opened twice, of which a sum takes those of the second. */
static void patches_outlive_their_set(void)
{
    enum { RANK = 2 };
    static float up[ROWS * RANK], down[RANK * COLUMNS];
    const graft_st_tensor part[2] = {
        {"up", GRAFT_F32, 2, {ROWS, RANK}, up, sizeof up, 0, 0, NULL, NULL, NULL},
        {"down", GRAFT_F32, 2, {RANK, COLUMNS}, down, sizeof down, 0, 0, NULL, NULL, NULL}};
    const double none[3] = {0, 1, 1}, all[3] = {1, 1, 1};
    graft_span strength[GRAFT_REGIONS];
    char path[256];
    graft_err e = GRAFT_ERR_INIT;
    graft_weights *a = make_set(GRAFT_F32, -1, 0), *b = make_set(GRAFT_F32, 100, 3), *sum = NULL;
    graft_slot_data want, got;
    for (int i = 0; i < ROWS * RANK; i++) up[i] = (float)(i % 7) / 8;
    for (int i = 0; i < RANK * COLUMNS; i++) down[i] = (float)(i % 5) / 4;
    snprintf(path, sizeof path, "%s/weights-lora-%ld.safetensors", GRAFT_BINARY_DIR,
             (long)getpid());
    CHECK_OK(graft_safetensors_write(path, part, 2, NULL, 1, &e), &e);
    graft_weights *first = patched(a, path), *second = patched(b, path);
    unlink(path);
    CHECK_OK(graft_slot_data_load(second, &one, &want, &e), &e);
    CHECK_OK(graft_weights_sum(first, none, second, all, &sum, &e), &e);
    graft_weights_release(first), graft_weights_release(second);
    CHECK_OK(graft_slot_data_load(sum, &one, &got, &e), &e);
    CHECK(memcmp(got.data, want.data, (size_t)ROWS * COLUMNS * sizeof(float)) == 0);
    double all_of = 0; /* one LoRA, however often opened */
    for (size_t i = 0; graft_weights_owner(sum, i, strength); i++) {
        CHECK(strength[0].least == strength[0].most);
        all_of += strength[0].most;
    }
    CHECK(all_of == 0.5);
    graft_slot_data_finish(&want), graft_slot_data_finish(&got);
    graft_weights_release(a), graft_weights_release(b), graft_weights_release(sum);
}

static void check_value(const graft_weights *w, const char *name, float want)
{
    float got = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_weights_values(w, name, 5, 1, &got, &e), &e);
    CHECK(got == want);
}

/* Two sets with names of their own beside a third, all of whose tensors are called alike. */
static void beside(void)
{
    static const char *const absent[] = {"x.2.a", "x.0.", "x.0.c", "x.a"};
    graft_err e = GRAFT_ERR_INIT;
    graft_weights *w = make_set(GRAFT_F32, 5, 7), *all;
    graft_weights *const own[2] = {make_set(GRAFT_F32, 5, 8), make_set(GRAFT_F16, 5, 9)};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(graft_weights_beside(own[i], i ? "x.1." : "x.0.", w, &all, &e), &e);
        graft_weights_release(w);
        graft_weights_release(own[i]);
        w = all;
    }
    CHECK_OK(graft_weights_plain(w, &all, &e), &e); /* keeps all of that */
    graft_weights_release(w);
    check_value(all, "a", 7);
    check_value(all, "x.0.a", 8);
    check_value(all, "x.1.a", 9);
    check_value(all, "x.1.b", 9);
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        char *name[] = {(char *)(uintptr_t)absent[i]};
        const graft_gslot slot = {GRAFT_SLOT_PLAIN, 2, {ROWS, COLUMNS}, 1, name, NULL, 0};
        graft_hash h;
        CHECK_INT(graft_weights_slot_hash(all, &slot, &h, &e), GRAFT_E_FORMAT);
        CHECK(strstr(e.text, absent[i]) != NULL);
    }
    CHECK_INT(graft_weights_stored_bytes(all), ROWS * COLUMNS * 3 / 2 * (4 + 4 + 2));
    graft_weights_release(all);
}

static void regions(void)
{
    static const struct {
        const char *name;
        graft_region region;
    } cases[] = {{"input_blocks.0.0.weight", GRAFT_REGION_FIRST},
                 {"time_embed.2.bias", GRAFT_REGION_FIRST},
                 {"label_emb.0.0.weight", GRAFT_REGION_FIRST},
                 {"middle_block.1.proj_in.weight", GRAFT_REGION_MIDDLE},
                 {"output_blocks.11.0.in_layers.2.weight", GRAFT_REGION_LAST},
                 {"out.2.weight", GRAFT_REGION_LAST},
                 {"outer.weight", GRAFT_REGION_FIRST}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_INT(graft_region_of(cases[i].name), cases[i].region);
}

int main(void)
{
    RUN(read_by_rows);
    RUN(not_by_rows);
    RUN(parts);
    RUN(one_more);
    RUN(sums);
    RUN(quantized_rows);
    RUN(sums_of_nothing);
    RUN(patches_outlive_their_set);
    RUN(beside);
    RUN(regions);
    RUN(names_of_content);
    RUN(not_finite);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
