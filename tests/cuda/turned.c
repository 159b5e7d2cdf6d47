/* LINEAR of integers whose rows are turned (kernels/hadamard.h): the CUDA library's levels and
 * scales are the host's bit for bit, in every kernel that turns; the layer, normed or not, is what
 * ref gives, in all variants; what is refused. */
#include <stdlib.h>
#include <string.h>

#include "kernels/hadamard.h"
#include "kernels/quant.h"
#include "tests/cuda/backend.h"
#include "tests/cuda/compare.h"
#include "tests/kernels/cases.h"
#include "tests/test.h"

static kernel_lib cuda, ref;
static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16};

typedef struct shape {
    int64_t rows, columns, outputs, gap; /* gap: between the rows of x */
    int32_t group;
    bool bias, residual, norm;
    graft_act act;
} shape;

static kernel_case case_of(const shape *s)
{
    kernel_case c = {.source = GRAFT_F32};
    graft_op_desc *d = &c.desc;
    int64_t out = s->act == GRAFT_ACT_GEGLU ? s->outputs / 2 : s->outputs;
    d->size = sizeof *d;
    d->op = GRAFT_OP_LINEAR;
    d->attrs = (graft_attrs){.act = s->act, .quant = GRAFT_QUANT_INT8, .groups = s->group};
    d->in[GRAFT_LINEAR_X] = gapped(act_of(1, s->rows, s->columns, 0), s->gap);
    d->in[GRAFT_LINEAR_W] = weight_of(s->outputs, s->columns, 0, 0);
    d->out = act_of(1, s->rows, out, 0);
    if (s->bias) d->in[GRAFT_LINEAR_BIAS] = weight_of(s->outputs, 0, 0, 0);
    if (s->residual) d->in[GRAFT_LINEAR_RESIDUAL] = d->out;
    if (s->norm) {
        d->in[GRAFT_LINEAR_GAMMA] = d->in[GRAFT_LINEAR_BETA] = weight_of(s->columns, 0, 0, 0);
        d->attrs.eps = 1e-5f;
    }
    snprintf(c.name, sizeof c.name, "%d rows of %d in groups of %d to %d, gap %d%s%s%s%s",
             (int)s->rows, (int)s->columns, (int)s->group, (int)s->outputs, (int)s->gap,
             s->bias ? " bias" : "", s->residual ? " residual" : "", s->norm ? " norm" : "",
             act_name[s->act]);
    return c;
}

/* ------------------------------------------------------------------ levels */

/* One that stands out, zeros, what is no number or has none after it was turned. */
static void strange_rows(const shape *s, graft_dtype dtype, float *x)
{
    for (int64_t r = 0; r < s->rows; r++) {
        float *row = x + r * s->columns;
        row[r * 13 % s->columns] = 300.0f;
        if (r % 8 == 3) memset(row, 0, (size_t)s->columns * sizeof *row);
        if (r % 8 == 4) row[s->columns / 2] = NAN;
        if (r % 8 == 5) row[s->columns - 1] = dtype == GRAFT_BF16 ? INFINITY : 6e4f;
    }
}

/* By kernels/hadamard.h and quant.h alone, padded as the device has them. */
static void host_levels(const shape *s, float *x, uint8_t *level, float *scale)
{
    int64_t n = s->columns, padded = (n + 15) / 16 * 16;
    memset(level, 0, (size_t)(s->rows * padded));
    for (int64_t r = 0; r < s->rows; r++) {
        float *row = x + r * n;
        graft_hadamard(row, n, s->group);
        scale[r] = graft_quant8_scale(GRAFT_QUANT_INT8, graft_quant_absmax(row, n));
        for (int64_t i = 0; i < n; i++)
            level[r * padded + i] =
                graft_quant8_level(GRAFT_QUANT_INT8, row[i], graft_quant_inverse(scale[r]));
    }
}

/* Runs the own product on x, and downloads what its workspace begins with. */
static void device_levels(const kernel_case *c, graft_dtype dtype, const float *x, uint64_t bytes,
                          char *got)
{
    graft_op_desc d = case_desc(c, dtype);
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    const graft_tensor_desc *t = &d.in[0];
    char text[200] = "", *buffer[4];
    const uint64_t values = (uint64_t)(t->dim[0] * t->dim[1] * t->stride[1]);
    const uint64_t size = graft_dtype_size(dtype);
    CHECK_INT(cuda.api->prepare(cuda.device, &d, 0, &k, &info, text, sizeof text), GRAFT_OK);
    CHECK(info.workspace_bytes >= bytes);
    const uint64_t sizes[4] = {values * size, info.packed_bytes[1],
                               (uint64_t)element_count(&d.out) * size, info.workspace_bytes};
    char *raw = calloc(1, values * size);
    float *w = calloc((size_t)element_count(&d.in[1]), sizeof *w);
    if (!raw || !w) abort();
    for (int64_t r = 0; r < t->dim[1]; r++)
        for (int64_t i = 0; i < t->dim[2]; i++)
            element_put(dtype, raw, r * t->stride[1] + i, (double)x[r * t->dim[2] + i]);
    for (int i = 0; i < 4; i++) buffer[i] = cuda.api->alloc(cuda.device, sizes[i]);
    const void *in[GRAFT_MAX_INPUTS] = {buffer[0], buffer[1]};
    CHECK_INT(cuda.api->upload(cuda.device, buffer[0], raw, sizes[0]), GRAFT_OK);
    CHECK_INT(cuda.api->pack(k, 1, GRAFT_F32, w, buffer[1]), GRAFT_OK);
    CHECK_INT(cuda.api->launch(k, in, buffer[2], buffer[3]), GRAFT_OK);
    CHECK_INT(cuda.api->download(cuda.device, got, buffer[3], bytes), GRAFT_OK);
    for (int i = 0; i < 4; i++) cuda.api->free(cuda.device, buffer[i]);
    cuda.api->release(k);
    free(raw);
    free(w);
}

static void check_levels(const shape *s, graft_dtype dtype, uint64_t seed)
{
    kernel_case c = case_of(s);
    float *val[GRAFT_MAX_INPUTS];
    uint64_t levels = (uint64_t)(s->rows * ((s->columns + 15) / 16 * 16));
    uint64_t at = (levels + 255) / 256 * 256, rows = (uint64_t)s->rows;
    char *got = calloc(1, at + rows * sizeof(float));
    uint8_t *level = malloc(levels);
    float *scale = malloc(rows * sizeof *scale);
    if (!got || !level || !scale) abort();
    case_values(&c, dtype, seed, val);
    strange_rows(s, dtype, val[0]);
    device_levels(&c, dtype, val[0], at + rows * sizeof(float), got);
    host_levels(s, val[0], level, scale);
    bool same =
        memcmp(got, level, levels) == 0 && memcmp(got + at, scale, rows * sizeof *scale) == 0;
    if (!same) fprintf(stderr, "  dtype %d: %s\n", (int)dtype, c.name);
    CHECK(same);
    values_free(val);
    free(got);
    free(level);
    free(scale);
}

/* One to eight warps a row in each of the kernels, blocks that are not full; rows that are read one
 * by one. */
static void levels_are_the_hosts(void)
{
    static const struct {
        int64_t rows, columns, gap;
        int32_t group;
    } of[] = {{5, 320, 0, 64},     {9, 1024, 0, 1024}, {17, 48, 0, 16},      {7, 2048, 8, 256},
              {9, 3072, 0, 256},   {3, 5120, 0, 1024}, {2, 8192, 0, 64},     {11, 1280, 0, 4},
              {10, 4096, 0, 4096}, {3, 8448, 0, 256},  {3, 15360, 16, 1024}, {1, 32768, 0, 4096},
              {13, 20, 0, 4},      {6, 36, 1, 4},      {5, 64, 3, 64},       {2, 12288, 1, 4096},
              {9, 1024, 5, 16}};
    int run = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const shape s = {.rows = of[i].rows,
                         .columns = of[i].columns,
                         .outputs = 8,
                         .gap = of[i].gap,
                         .group = of[i].group};
        for (size_t t = 0; t < 3; t++, run++) check_levels(&s, dtypes[t], i);
    }
    printf("     %d layers\n", run);
    CHECK_INT(run, 51);
}

/* ------------------------------------------------------------------ layers */

/* Behind a norm that is off by its last bit a level may fall to the other side of a half. */
static bool near(const case_result *got, const case_result *want, const kernel_case *c,
                 graft_dtype dtype)
{
    error_sum sum = {0};
    double nmse = 0, max = 0;
    bool normed = c->desc.in[GRAFT_LINEAR_GAMMA].dtype != GRAFT_DTYPE_NONE;
    for (int64_t i = 0; i < element_count(&c->desc.out) && !got->fault[0]; i++)
        error_add(&sum, (double)got->out[i], (double)want->out[i]);
    bool good = error_within(&sum, limit_for(&c->desc, dtype), &nmse, &max) && !got->fault[0];
    if (normed) good = !got->fault[0] && nmse < 3e-5 && max < 1e-2;
    if (!good)
        fprintf(stderr, "  [%s] dtype %d: %s: %s nmse %.3g, max %.3g\n", got->variant, (int)dtype,
                c->name, got->fault, nmse, max);
    return good;
}

static int libraries, hopper;

static int all_variants(const shape *s, graft_dtype dtype, uint64_t seed)
{
    kernel_case c = case_of(s);
    float *val[GRAFT_MAX_INPUTS];
    case_result want, got = {.variants = 1};
    int run = 0;
    case_values(&c, dtype, seed, val);
    for (int64_t r = 0; r < s->rows; r++) /* what a turn is for */
        val[0][r * s->columns + r * 13 % s->columns] = 64.0f;
    case_want(&ref, &c, GRAFT_F32, val, &want);
    CHECK_STR(want.fault, "");
    for (int32_t v = -1; v < got.variants; v++, run++) {
        case_run(&cuda, &c, dtype, v, val, &got);
        CHECK(near(&got, &want, &c, dtype));
        hopper += strstr(got.variant, "wgmma") != NULL;
        libraries += strncmp(got.variant, "cudnn", 5) == 0;
        CHECK(!strstr(got.variant, ", refused"));
        free(got.out);
    }
    free(want.out);
    values_free(val);
    return run;
}

static void layers_are_refs(void)
{
    static const shape shapes[] = {
        {70, 320, 64, 0, 64, true, false, false, GRAFT_ACT_NONE},
        {65, 1024, 80, 8, 1024, true, true, false, GRAFT_ACT_NONE},
        {66, 256, 128, 0, 256, true, false, false, GRAFT_ACT_GEGLU},
        {7, 68, 40, 3, 4, true, true, false, GRAFT_ACT_SILU},
        {3, 4096, 16, 0, 4096, false, true, false, GRAFT_ACT_NONE},
        {40, 320, 64, 0, 64, true, false, true, GRAFT_ACT_NONE},
        {65, 1280, 80, 8, 256, true, true, true, GRAFT_ACT_NONE},
        {17, 2048, 32, 0, 1024, true, false, true, GRAFT_ACT_GEGLU},
        {5, 1028, 24, 1, 4, false, false, true, GRAFT_ACT_SILU},
    };
    int run = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t t = 0; t < 3; t++) run += all_variants(&shapes[i], dtypes[t], i);
    printf("     %d runs, %d by cuDNN, %d by wgmma\n", run, libraries, hopper);
    CHECK(run > 50 && libraries >= 6 && hopper >= 6);
}

/* ------------------------------------------------------------------ refusals */

static bool supported(const kernel_lib *lib, const shape *s, graft_quant quant, graft_dtype dtype)
{
    kernel_case c = case_of(s);
    c.desc.attrs.quant = quant;
    graft_op_desc d = case_desc(&c, dtype);
    return lib->api->supports(lib->device, &d);
}

static void refusals(void)
{
    shape s = {2, 4096, 16, 0, 256, true, false, false, GRAFT_ACT_NONE};
    static const int32_t wrong[] = {-4, 1, 2, 3, 8, 12, 128, 4098, 16384};
    CHECK(cuda.kernels->more->wants & GRAFT_WANTS_HADAMARD);
    CHECK(supported(&cuda, &s, GRAFT_QUANT_INT8, GRAFT_BF16));
    for (graft_quant q = GRAFT_QUANT_NONE; q <= GRAFT_QUANT_FP8; q++) {
        if (q == GRAFT_QUANT_INT8) continue;
        CHECK(!supported(&cuda, &s, q, GRAFT_BF16));
        CHECK(!supported(&cuda, &s, q, GRAFT_F32) && !supported(&ref, &s, q, GRAFT_F32));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        s.group = wrong[i];
        CHECK(!supported(&cuda, &s, GRAFT_QUANT_INT8, GRAFT_F32));
        CHECK(!supported(&ref, &s, GRAFT_QUANT_INT8, GRAFT_F32));
    }
    s = (shape){2, 4160, 16, 0, 256, true, false, false, GRAFT_ACT_NONE};
    CHECK(!supported(&cuda, &s, GRAFT_QUANT_INT8, GRAFT_BF16)); /* not in whole groups */
    s.columns = 32768;
    CHECK(supported(&cuda, &s, GRAFT_QUANT_INT8, GRAFT_BF16));
    s.columns = 32768 + 256;
    CHECK(!supported(&cuda, &s, GRAFT_QUANT_INT8, GRAFT_BF16));
    CHECK(supported(&ref, &s, GRAFT_QUANT_INT8, GRAFT_F32));
    s.group = 0;
    CHECK(supported(&cuda, &s, GRAFT_QUANT_INT8, GRAFT_BF16));
    s = (shape){2, 2304, 16, 0, 256, true, false, true, GRAFT_ACT_NONE};
    CHECK(!supported(&cuda, &s, GRAFT_QUANT_INT8, GRAFT_BF16)); /* normed rows are shorter */
}

int main(void)
{
    use_fake_driver();
    setenv("GRAFT_CUDA_WGMMA", "all", 1);
    fake_cuda_state *fake = fake_driver_state();
    CHECK(fake != NULL);
    if (!fake || !lib_open(CUDA_LIBRARY, &cuda) ||
        !lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref))
        return test_end() + 1;
    RUN(levels_are_the_hosts);
    RUN(layers_are_refs);
    RUN(refusals);
    lib_close(&ref);
    lib_close(&cuda);
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
