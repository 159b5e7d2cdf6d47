/* Convolutions of our own, Winograd's for every instruction set and those of matrix instructions
 * where there are any: all sizes of tile, several panels, parts of the inputs and results written
 * past the caches. Winograd's sums have the error of their tile's size
 * (kernels/cpu/simd/winograd.c); bfloat16 may be off by its own rounding and hardly more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/tables.h"
#include "tests/test.h"

#define CPU_PATH GRAFT_LIB_DIR "/graft_kernels_cpu.so"
#define MATRIX   "amx"
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FEW = 1 }; /* large results are slow under them */
#else
enum { FEW = 0 };
#endif

typedef struct row {
    int32_t n, h, w, c, o, upsample, extras, act, gap; /* upsample 3: doubled but for a row */
    int32_t stride;                                    /* 0: 1 */
} row;
enum { ADD = 1, RESIDUAL = 2, BOTH = 3, SAMPLES = 400, SIDES = 6 };

static const row rows[] = {
    {1, 6, 6, 16, 16, 0, BOTH, GRAFT_ACT_SILU, 0, 0},    /* one tile */
    {1, 13, 21, 64, 32, 0, 0, GRAFT_ACT_LEAKY, 0, 0},    /* super resolution's */
    {2, 31, 37, 48, 80, 0, BOTH, GRAFT_ACT_SILU, 0, 0},  /* pictures that share a panel */
    {1, 100, 107, 96, 64, 0, RESIDUAL, 0, 5, 0},         /* panels to take in turn */
    {1, 22, 19, 160, 96, 3, ADD, GRAFT_ACT_GELU, 16, 0}, /* doubled pixels, some of them */
    {1, 22, 19, 160, 96, 2, ADD, GRAFT_ACT_GELU, 16, 0}, /* and all */
    {2, 8, 12, 48, 80, 2, BOTH, GRAFT_ACT_SILU, 3, 0},   /* tiles that fit */
    {1, 53, 50, 64, 32, 2, RESIDUAL, 0, 0, 0},           /* several panels */
    {1, 9, 80, 704, 32, 0, ADD, 0, 0, 0},                /* chunks of inputs */
    {2, 16, 16, 352, 32, 0, BOTH, 0, 0, 0},              /* tiles that fit */
    {1, 8, 24, 64, 48, 0, RESIDUAL, 0, 3, 0},            /* a few of them */
    {1, 24, 20, 64, 32, 0, ADD, GRAFT_ACT_SILU, 0, 0},   /* longer than wide, also in bfloat16 */
};
/* Not Winograd's: rows and columns that are left out, and odd channels. */
static const row others[] = {
    {2, 17, 22, 96, 48, 0, ADD, GRAFT_ACT_SILU, 0, 2},
    {1, 70, 131, 64, 32, 0, RESIDUAL, 0, 5, 2},
    {1, 16, 15, 37, 16, 0, 0, GRAFT_ACT_GELU, 0, 1},
    {3, 5, 4, 700, 32, 0, RESIDUAL, 0, 0, 3},
    {1, 9, 12, 33, 32, 2, ADD, 0, 4, 2},
};
/* x of 32 MiB and more, with twice the channels of the result at least, which takes its place. */
static const row halved[] = {{1, 192, 181, 512, 64, 0, 0, GRAFT_ACT_SILU, 0, 0},
                             {2, 264, 68, 480, 128, 0, ADD, 0, 0, 0},
                             {1, 141, 240, 512, 32, 0, 0, 0, 0, 0}}; /* its last tiles are cut */
/* Results of 32 MiB and more, in float32 and in bfloat16; whole lines. */
static const row large[] = {{1, 523, 517, 16, 64, 0, RESIDUAL, 0, 0, 0},
                            {1, 523, 517, 16, 64, 0, 0, GRAFT_ACT_SILU, 0, 0}};

static graft_tensor_desc tensor(int64_t a, int64_t b, int64_t c, int64_t d, int64_t gap)
{
    graft_tensor_desc t = {.dtype = GRAFT_F32, .dim = {a, b, c, d}};
    while (t.rank < GRAFT_MAX_RANK && t.dim[t.rank] > 0) t.rank++;
    make_dense(&t);
    for (int i = t.rank - 2, first = 1; i >= 0 && gap; i--, first = 0)
        t.stride[i] = first ? t.dim[i + 1] + gap : t.stride[i + 1] * t.dim[i + 1];
    return t;
}

static kernel_case make_case(const row *r)
{
    int32_t h = r->upsample ? 2 * r->h - (r->upsample == 3) : r->h;
    int32_t w = r->upsample ? 2 * r->w : r->w, stride = r->stride ? r->stride : 1;
    kernel_case c = {.source = GRAFT_F32};
    graft_op_desc *d = &c.desc;
    d->size = sizeof *d;
    d->op = GRAFT_OP_CONV2D;
    d->attrs = (graft_attrs){ATTRS_3X3, .act = r->act, .upsample = r->upsample ? 2 : 0};
    if (r->upsample) d->attrs.up_h = h, d->attrs.up_w = w;
    d->attrs.stride_h = d->attrs.stride_w = stride;
    h = (h - 1) / stride + 1;
    w = (w - 1) / stride + 1;
    d->in[GRAFT_CONV_X] = tensor(r->n, r->h, r->w, r->c, r->gap);
    d->in[GRAFT_CONV_W] = tensor(r->o, r->c, 3, 3, 0);
    d->in[GRAFT_CONV_BIAS] = tensor(r->o, 0, 0, 0, 0);
    if (r->extras & ADD) d->in[GRAFT_CONV_CHANNEL_ADD] = tensor(r->n, r->o, 0, 0, r->gap);
    if (r->extras & RESIDUAL) d->in[GRAFT_CONV_RESIDUAL] = tensor(r->n, h, w, r->o, 2 * r->gap);
    d->in[GRAFT_CONV_W].constant = d->in[GRAFT_CONV_BIAS].constant = 1;
    d->out = tensor(r->n, h, w, r->o, r->gap);
    snprintf(c.name, sizeof c.name, "%dx%dx%dx%d to %d%s", r->n, r->h, r->w, r->c, r->o,
             stride > 1         ? " in steps"
             : r->upsample == 3 ? " doubled, odd"
             : r->upsample      ? " doubled"
                                : "");
    return c;
}

/* The variant whose name begins so; -1: there is none. */
static int32_t variant_of(const kernel_lib *lib, const graft_op_desc *d, const char *name)
{
    int32_t found = -1, count = 1;
    for (int32_t v = 0; v < count && found < 0; v++) {
        graft_kernel *k = NULL;
        graft_kernel_info info = {.size = sizeof info};
        char text[256];
        if (lib->api->prepare(lib->device, d, v, &k, &info, text, sizeof text)) return -1;
        count = info.variant_count;
        if (strncmp(info.variant, name, strlen(name)) == 0) found = v;
        lib->api->release(k);
    }
    return found;
}

/* Random places, and more of them at the borders, where tiles are cut. */
static void pick(const graft_tensor_desc *t, uint64_t *state, int i, int64_t at[GRAFT_MAX_RANK])
{
    for (int d = 0; d < 4; d++) at[d] = (int64_t)(random_next(state) % (uint64_t)t->dim[d]);
    if (i % 3 == 0) at[1] = t->dim[1] - 1 - at[1] % (at[1] < SIDES ? at[1] + 1 : SIDES);
    if (i % 5 == 0) at[2] = t->dim[2] - 1 - at[2] % (at[2] < SIDES ? at[2] + 1 : SIDES);
}

static void judge(const kernel_case *c, graft_dtype dtype, const case_result *got,
                  float *const *val)
{
    const graft_tensor_desc *y = &c->desc.out;
    double top = 0, worst = 0, want[SAMPLES], off[SAMPLES];
    uint64_t state = 7;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t at[GRAFT_MAX_RANK] = {0};
        pick(y, &state, i, at);
        int64_t k = ((at[0] * y->dim[1] + at[1]) * y->dim[2] + at[2]) * y->dim[3] + at[3];
        want[i] = truth_at(c, val, at);
        off[i] = fabs((double)got->out[k] - want[i]);
        if (fabs(want[i]) > top) top = fabs(want[i]);
    }
    for (int i = 0; i < SAMPLES; i++) {
        double rounding = dtype == GRAFT_F32 ? 0 : fabs(want[i]) / 256;
        if (!(off[i] - rounding <= worst)) worst = off[i] - rounding;
    }
    bool fine = strstr(got->variant, "4x4") || strstr(got->variant, "doubled") ||
                strstr(got->variant, MATRIX);
    double most = fine ? 1.5e-6 : strstr(got->variant, "8x8") ? 4e-5 : 7e-6;
    CHECK(worst <= most * top);
    printf("  %-28s %-4s %-24s %.1e\n", c->name, dtype == GRAFT_F32 ? "f32" : "bf16", got->variant,
           top > 0 ? worst / top : 0);
}

/* The result's case_result.placed. */
static int run_row(const kernel_lib *lib, const row *r, graft_dtype dtype, const char *name,
                   uint64_t seed)
{
    kernel_case c = make_case(r);
    float *val[GRAFT_MAX_INPUTS];
    case_result got;
    graft_op_desc d = case_desc(&c, dtype);
    if (!lib->api->supports(lib->device, &d)) {
        printf("  %s: skipped, not supported\n", c.name);
        return -1;
    }
    int32_t variant = variant_of(lib, &d, name);
    bool both = (r->extras & BOTH) == BOTH; /* which matrix instructions leave to others */
    CHECK((variant >= 0) == (strcmp(name, MATRIX) != 0 || !both));
    if (variant < 0) return -1;
    case_values(&c, dtype, seed, val);
    case_run(lib, &c, dtype, variant, val, &got);
    CHECK_STR(got.fault, "");
    if (!got.fault[0]) judge(&c, dtype, &got, val);
    free(got.out);
    values_free(val);
    return got.placed;
}

/* With this instruction set (NULL: the best), unless it is one of those tried. */
static void run_rows(const row *list, size_t n, const char *isa, tables_tried *tried)
{
    kernel_lib lib;
    if (isa)
        setenv("GRAFT_CPU_ISA", isa, 1);
    else
        unsetenv("GRAFT_CPU_ISA");
    if (!lib_open(CPU_PATH, &lib)) return;
    if (tables_new(tried, isa ? isa : "", lib.info.identity)) {
        printf("  %s\n", lib.info.identity);
        for (size_t i = 0; i < 2 * n; i++)
            run_row(&lib, &list[i / 2], i % 2 ? GRAFT_BF16 : GRAFT_F32, "winograd", i);
    }
    lib_close(&lib);
    unsetenv("GRAFT_CPU_ISA");
}

/* Whether this machine's library uses matrix instructions; says so where not. */
static bool has_matrix(const kernel_lib *lib)
{
    const kernel_case c = make_case(&rows[1]);
    const graft_op_desc d = case_desc(&c, GRAFT_BF16);
    bool has = lib->api->supports(lib->device, &d) && variant_of(lib, &d, MATRIX) >= 0;
    if (!has) printf("skipped: no matrix instructions here\n");
    return has;
}

static void matrix_instructions(void)
{
    kernel_lib lib;
    if (!lib_open(CPU_PATH, &lib)) return;
    if (has_matrix(&lib)) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            run_row(&lib, &rows[i], GRAFT_BF16, MATRIX, i);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            run_row(&lib, &others[i], GRAFT_BF16, MATRIX, i);
        run_row(&lib, &large[0], GRAFT_BF16, MATRIX, 1);
    }
    lib_close(&lib);
}

static void every_instruction_set(void)
{
    tables_tried tried = {0};
    for (size_t i = 0; i < TABLES; i++)
        run_rows(rows, sizeof rows / sizeof *rows, tables[i], &tried);
}

static void past_the_caches(void)
{
    tables_tried tried = {0};
    run_rows(large, sizeof large / sizeof *large, NULL, &tried);
}

static void in_place_with(int32_t threads, const row *list, size_t n)
{
    kernel_lib lib;
    graft_kernels_host host = *lib_host();
    char text[256];
    if (!lib_open(CPU_PATH, &lib)) return;
    lib.api->destroy(lib.device);
    host.threads = threads;
    CHECK_INT(lib.api->create(&host, 0, &lib.device, text, sizeof text), GRAFT_OK);
    for (size_t i = 0; i < n; i++) {
        CHECK_INT(run_row(&lib, &list[i], GRAFT_F32, "winograd", i), 2);
        int placed = run_row(&lib, &list[i], GRAFT_BF16, "winograd", i);
        if (placed >= 0) CHECK_INT(placed, 2);
    }
    lib_close(&lib);
}

/* Three threads find work for all in more rows. */
static void in_place(void)
{
    if (FEW) {
        puts("skipped: 3 of 4 results in the place of x; the plain build makes all");
        in_place_with(2, &halved[2], 1);
        return;
    }
    in_place_with(2, halved, sizeof halved / sizeof *halved);
    in_place_with(3, &halved[1], 1);
}

/* What stays apart: x that is small, not twice as large, or with a residual, gaps, doubling. */
static void not_in_place(void)
{
    static const row apart[] = {{1, 128, 64, 512, 64, 0, 0, 0, 0, 0},
                                {1, 192, 181, 512, 272, 0, 0, 0, 0, 0},
                                {1, 192, 181, 512, 64, 0, RESIDUAL, 0, 0, 0},
                                {1, 192, 181, 512, 64, 0, 0, 0, 3, 0},
                                {1, 192, 181, 512, 64, 2, 0, 0, 0, 0},
                                {1, 15, 2400, 512, 64, 0, 0, 0, 0, 0}}; /* few rows */
    kernel_lib lib;
    if (!lib_open(CPU_PATH, &lib)) return;
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        const kernel_case c = make_case(&apart[i]);
        const graft_op_desc d = case_desc(&c, GRAFT_F32);
        graft_kernel *k = NULL;
        graft_kernel_info info = {.size = sizeof info};
        char text[256];
        int32_t v = variant_of(&lib, &d, "winograd");
        CHECK_INT(lib.api->prepare(lib.device, &d, v, &k, &info, text, sizeof text), GRAFT_OK);
        if (k) CHECK_INT(lib.api->inplace(k, GRAFT_CONV_X), 0);
        lib.api->release(k);
    }
    lib_close(&lib);
}

/* The same bits whatever the number of threads: how work is cut changes no sum. */
static void threads_agree_in(graft_dtype dtype, const char *name)
{
    static const int32_t threads[] = {1, 3, 13};
    const row r = {2, 31, 37, 96, 64, 0, ADD, 0, 0, 1};
    kernel_case c = make_case(&r);
    graft_op_desc d = case_desc(&c, dtype);
    float *val[GRAFT_MAX_INPUTS];
    case_result got, first = {0};
    for (int t = 0; t < 3; t++) {
        kernel_lib lib;
        graft_kernels_host host = *lib_host();
        char text[256];
        if (!lib_open(CPU_PATH, &lib)) return;
        lib.api->destroy(lib.device);
        host.threads = threads[t];
        CHECK_INT(lib.api->create(&host, 0, &lib.device, text, sizeof text), GRAFT_OK);
        if (!lib.api->supports(lib.device, &d) || (!strcmp(name, MATRIX) && !has_matrix(&lib))) {
            printf("skipped: no bf16, or not so, here\n");
            lib_close(&lib);
            return;
        }
        case_values(&c, dtype, 1, val);
        case_run(&lib, &c, dtype, variant_of(&lib, &d, name), val, &got);
        CHECK_STR(got.fault, "");
        CHECK(strncmp(got.variant, name, strlen(name)) == 0);
        if (t == 0) {
            first = got;
        } else {
            CHECK(memcmp(got.out, first.out, (size_t)element_count(&c.desc.out) * 4) == 0);
            free(got.out);
        }
        values_free(val);
        lib_close(&lib);
    }
    free(first.out);
}

static void threads_agree(void)
{
    threads_agree_in(GRAFT_F32, "winograd");
    threads_agree_in(GRAFT_BF16, "winograd");
    threads_agree_in(GRAFT_BF16, MATRIX);
}

int main(void)
{
    RUN(every_instruction_set);
    RUN(past_the_caches);
    RUN(in_place);
    RUN(not_in_place);
    RUN(matrix_instructions);
    RUN(threads_agree);
    return test_end();
}
