/* Weights in oneDNN's layouts: the same bytes as oneDNN's own reorder, for every instruction set,
 * source dtype, layout and odd shape, in one piece and by rows. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "kernels/cpu/primitive.h"
#include "tests/kernels/tables.h"
#include "tests/test.h"

static const struct {
    dnnl_format_tag_t tag;
    int rank, output_dim;
    const char *name;
} layouts[] = {
    {dnnl_ABcd8b16a2b, 4, 0, "ABcd8b16a2b"},
    {dnnl_ABcd16b64a2b, 4, 0, "ABcd16b64a2b"},
    {dnnl_AcdB64a2b, 4, 0, "AcdB64a2b"},
    {dnnl_AcdB16a2b, 4, 0, "AcdB16a2b"},
    {dnnl_ABcd16b16a, 4, 0, "ABcd16b16a"},
    {dnnl_Acdb16a, 4, 0, "Acdb16a"},
    {dnnl_ABcd8b8a, 4, 0, "ABcd8b8a"},
    {dnnl_Acdb8a, 4, 0, "Acdb8a"},
    {dnnl_aBcd16b, 4, 0, "aBcd16b"},
    {dnnl_ABcd4b16a4b, 4, 0, "ABcd4b16a4b"},
    {dnnl_abcd, 4, 0, "abcd"},
    {dnnl_cdba, 4, 0, "cdba"},
    {dnnl_BA16a64b2a, 2, 1, "BA16a64b2a"},
    {dnnl_BA16a16b2a, 2, 1, "BA16a16b2a"},
    {dnnl_BA16a64b, 2, 1, "BA16a64b"},
    {dnnl_AB16b64a2b, 2, 0, "AB16b64a2b"},
    {dnnl_ab, 2, 1, "ab"},
    {dnnl_ba, 2, 1, "ba"},
    {dnnl_ab, 2, 0, "ab"},
};

/* outputs, inputs, height, width */
static const int64_t shapes[][4] = {
    {64, 64, 3, 3},  {80, 36, 3, 3},  {16, 32, 3, 3},  {17, 33, 3, 3},   {1, 1, 3, 3},
    {31, 5, 1, 1},   {8, 8, 1, 1},    {128, 96, 1, 1}, {100, 601, 1, 1}, {64, 1200, 1, 1},
    {15, 2, 5, 2},   {65, 6, 17, 18}, {48, 70, 1, 3},  {320, 4, 3, 3},   {4, 130, 3, 3},
    {193, 64, 2, 2}, {72, 40, 3, 3},  {24, 31, 3, 3},
};

static const graft_dtype sources[] = {GRAFT_F32, GRAFT_F16,     GRAFT_BF16,
                                      GRAFT_F64, GRAFT_F8_E4M3, GRAFT_F8_E5M2};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static graft_device device;

/* Whether oneDNN's reorder leaves zeros their sign. */
static bool keeps_signs(void)
{
    return graft_cpu_uses(dnnl_cpu_isa_avx512_core);
}

/* Random values of the dtype and what they are worth; no two neighbours are alike. */
static void *make_source(graft_dtype t, float *value, int64_t n)
{
    const uint8_t without = keeps_signs() ? 0xb7 : 0x37; /* of a zero in 8 bits */
    char *p = malloc((size_t)n * graft_dtype_size(t) + 2);
    uint32_t state = 12345;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        float f = ((float)(state >> 8) / (1 << 24) - 0.5f) * (float)(1 << (state >> 5 & 7)) * 0.01f;
        double d = f;
        uint16_t half = graft_f32_to_f16(f);
        void *at = graft_cpu_at_mut(p, t, i);
        if (t == GRAFT_F32) memcpy(at, &f, 4);
        if (t == GRAFT_F64) memcpy(at, &d, 8);
        if (t == GRAFT_F16) memcpy(at, &half, 2);
        half = graft_f32_to_bf16(f);
        if (t == GRAFT_BF16) memcpy(at, &half, 2);
        if (t == GRAFT_F8_E4M3 || t == GRAFT_F8_E5M2) {
            uint8_t bits = (uint8_t)(state >> 24 & 0xb7);
            *(uint8_t *)at = bits == 0x80 ? bits & without : bits;
        }
    }
    graft_cpu_to_f32(t, p, 0, value, n);
    return p;
}

/* Of float32, or of int8 if that is what md has. */
static bool reorder(const dnnl_memory_desc_t *md, int output_dim, const void *value, void *dst)
{
    dnnl_memory_desc_t dense;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t p;
    dnnl_memory_t from, to;
    dnnl_stream_t stream;
    union {
        const void *in;
        void *out;
    } handle = {value};
    if (dnnl_memory_desc_init_by_tag(&dense, md->ndims, md->dims,
                                     md->data_type == dnnl_s8 ? dnnl_s8 : dnnl_f32,
                                     md->ndims == 4 ? dnnl_abcd
                                     : output_dim   ? dnnl_ba
                                                    : dnnl_ab) ||
        dnnl_reorder_primitive_desc_create(&pd, &dense, device.engine, md, device.engine, NULL))
        return false;
    dnnl_primitive_create(&p, pd);
    dnnl_memory_create(&from, &dense, device.engine, handle.out);
    dnnl_memory_create(&to, md, device.engine, dst);
    dnnl_stream_create(&stream, device.engine, dnnl_stream_default_flags);
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    bool ok = !dnnl_primitive_execute(p, stream, 2, args) && !dnnl_stream_wait(stream);
    dnnl_stream_destroy(stream);
    dnnl_memory_destroy(from);
    dnnl_memory_destroy(to);
    dnnl_primitive_destroy(p);
    dnnl_primitive_desc_destroy(pd);
    return ok;
}

/* One layout, shape and packed dtype: every source dtype. */
static void compare(size_t layout, const int64_t shape[4], dnnl_data_type_t type)
{
    int rank = layouts[layout].rank, out_dim = layouts[layout].output_dim;
    dnnl_dims_t dims = {shape[out_dim], shape[1 - out_dim], shape[2], shape[3]};
    int64_t row = rank == 4 ? shape[1] * shape[2] * shape[3] : shape[1], n = shape[0] * row;
    dnnl_memory_desc_t md;
    if (dnnl_memory_desc_init_by_tag(&md, rank, dims, type, layouts[layout].tag)) return;
    size_t bytes = dnnl_memory_desc_get_size(&md);
    unsigned char *want = graft_malloc_aligned(64, bytes), *got = graft_malloc_aligned(64, bytes);
    float *value = malloc((size_t)n * sizeof *value);
    for (size_t s = 0; s < COUNT(sources); s++) {
        graft_dtype t = sources[s];
        char *src = make_source(t, value, n);
        memset(want, 0xa5, bytes);
        bool known = reorder(&md, out_dim, value, want);
        for (size_t k = 0; k < TABLES && known; k++) {
            device.simd = graft_cpu_simd_best(tables[k]);
            memset(got, 0x5a, bytes);
            CHECK_INT(graft_cpu_pack_weights(&device, &md, out_dim, t, src, got), GRAFT_OK);
            bool whole = memcmp(got, want, bytes) == 0;
            memset(got, 0x3c, bytes);
            for (int64_t o = 0, rows; o < shape[0]; o += rows) {
                rows = GRAFT_PACK_ROWS * (1 + (int64_t)s % 4);
                if (rows > shape[0] - o) rows = shape[0] - o;
                CHECK_INT(graft_cpu_pack_weight_rows(&device, &md, out_dim, t,
                                                     graft_cpu_at(src, t, o * row), got, o, rows),
                          GRAFT_OK);
            }
            bool by_rows = memcmp(got, want, bytes) == 0;
            CHECK(whole && by_rows);
            if (!whole || !by_rows)
                printf("  %s %s, source %d, %lldx%lldx%lldx%lld, %s%s%s\n", layouts[layout].name,
                       type == dnnl_f32 ? "f32" : "bf16", (int)t, (long long)shape[0],
                       (long long)shape[1], (long long)shape[2], (long long)shape[3],
                       device.simd->name, whole ? "" : ", whole", by_rows ? "" : ", by rows");
        }
        free(src);
    }
    free(value);
    graft_free(want);
    graft_free(got);
}

static void as_reorder(void)
{
    bool bf16 = keeps_signs();
    if (!bf16) printf("skipped bf16, and zeros with a sign: oneDNN takes it from them\n");
    for (size_t i = 0; i < COUNT(layouts); i++)
        for (size_t k = 0; k < COUNT(shapes); k++) {
            compare(i, shapes[k], dnnl_f32);
            if (bf16) compare(i, shapes[k], dnnl_bf16);
        }
}

/* Levels of 8 bits where oneDNN puts them, with its sums behind them or without. */
static int compare_int8(dnnl_format_tag_t tag, const int64_t shape[4], bool sums, const char *name)
{
    dnnl_dims_t dims = {shape[0], shape[1], shape[2], shape[3]};
    dnnl_memory_desc_t md;
    int compared = 0;
    int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
    if (dnnl_memory_desc_init_by_tag(&md, 4, dims, dnnl_s8, tag)) return 0;
    if (sums) {
        md.extra.flags = dnnl_memory_extra_flag_compensation_conv_s8s8;
        md.extra.compensation_mask = 1;
    }
    size_t bytes = dnnl_memory_desc_get_size(&md);
    unsigned char *want = graft_malloc_aligned(64, bytes), *got = graft_malloc_aligned(64, bytes);
    int8_t *level = malloc((size_t)n);
    uint32_t state = 99;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        level[i] = (int8_t)((int)(state >> 20) % 255 - 127);
    }
    memset(want, 0, bytes); /* oneDNN leaves sums of padding as they are */
    bool known = reorder(&md, 0, level, want);
    for (size_t k = 0; k < TABLES && known; k++) {
        graft_status st = GRAFT_E_ARG;
        device.simd = graft_cpu_simd_best(tables[k]);
        memset(got, 0x5a, bytes);
        CHECK(graft_cpu_place_int8(&device, &md, 0, level, got, &st));
        CHECK_INT(st, GRAFT_OK);
        bool same = memcmp(got, want, bytes) == 0;
        CHECK(same);
        if (!same)
            printf("  %s%s, %lldx%lldx%lldx%lld, %s\n", name, sums ? " with sums" : "",
                   (long long)shape[0], (long long)shape[1], (long long)shape[2],
                   (long long)shape[3], device.simd->name);
        compared++;
    }
    free(level);
    graft_free(want);
    graft_free(got);
    return compared;
}

static void int8_as_reorder(void)
{
    static const struct {
        dnnl_format_tag_t tag;
        const char *name;
    } tags[] = {{dnnl_OIhw4i16o4i, "OIhw4i16o4i"},
                {dnnl_OIhw16i16o4i, "OIhw16i16o4i"},
                {dnnl_OIhw4i64o4i, "OIhw4i64o4i"},
                {dnnl_OIhw2i8o4i, "OIhw2i8o4i"},
                {dnnl_OIhw16i64o4i, "OIhw16i64o4i"}};
    static const int64_t large[4] = {64, 2560, 3, 3};
    int compared = 0;
    for (size_t i = 0; i < COUNT(tags); i++) {
        for (size_t k = 0; k < COUNT(shapes); k++)
            for (int sums = 0; sums < 2; sums++)
                compared += compare_int8(tags[i].tag, shapes[k], sums, tags[i].name);
        compared += compare_int8(tags[i].tag, large, i == 0, tags[i].name);
    }
    printf("     %d compared\n", compared);
    CHECK(compared > 75 * TABLES);
}

/* Infinities, values that are none, the largest and the smallest: rounded as base/half.h says. */
static void narrow_specials(void)
{
    uint16_t half[67], got[67];
    float value[67];
    for (uint32_t base = 0; base < 65536; base += 67) {
        for (uint32_t i = 0; i < 67; i++) {
            uint32_t bits = (base + i) << 16 | ((base * 7 + i * 977) & 0xffff);
            half[i] = (uint16_t)(base + i);
            memcpy(&value[i], &bits, 4);
        }
        for (size_t k = 0; k < TABLES; k++) {
            const graft_cpu_simd *simd = graft_cpu_simd_best(tables[k]);
            int wrong = 0;
            simd->narrow(half, GRAFT_F16, got, 67);
            for (int i = 0; i < 67; i++)
                wrong += got[i] != graft_f32_to_bf16(graft_f16_to_f32(half[i]));
            simd->narrow(value, GRAFT_F32, got, 67);
            for (int i = 0; i < 67; i++) wrong += got[i] != graft_f32_to_bf16(value[i]);
            CHECK_INT(wrong, 0);
        }
    }
}

static void *host_alloc(size_t align, size_t bytes)
{
    return graft_malloc_aligned(align, bytes);
}

int main(void)
{
    device.host = (graft_kernels_host){
        .size = sizeof device.host, .threads = 1, .alloc = host_alloc, .free = graft_free};
    CHECK_INT(dnnl_engine_create(&device.engine, dnnl_cpu, 0), dnnl_success);
    RUN(as_reorder);
    RUN(int8_as_reorder);
    RUN(narrow_specials);
    dnnl_engine_destroy(device.engine);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
