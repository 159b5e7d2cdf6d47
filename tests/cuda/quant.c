/* Quantized CONV2D and LINEAR of the CUDA library against ref: every case of tests/kernels, all
 * variants, the limits of floats, since sums of levels are exact. Weights that come quantized must
 * give the bytes that they give as floats. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "kernels/quant.h"
#include "tests/cuda/backend.h"
#include "tests/cuda/compare.h"
#include "tests/cuda/machine_code.h"

#define MOST_PRODUCTS 2e5 /* of a case that is emulated; GRAFT_TEST_CUDA=all: 1e6 */
#define SOME          3   /* FP8 shares all but two functions with int8: every third case */
#if defined(__SANITIZE_ADDRESS__)
enum { LEAST_RUN = 80, DTYPES = 1 }; /* of each case, in turn: the emulator is ten times slower */
#else
enum { LEAST_RUN = 200, DTYPES = 3 };
#endif

static double most_products(void)
{
    const char *all = getenv("GRAFT_TEST_CUDA");
    return all && strcmp(all, "all") == 0 ? 1e6 : MOST_PRODUCTS;
}

static kernel_lib cuda, ref;

static double products(const graft_op_desc *d)
{
    const int64_t *w = d->in[1].dim;
    double n = (double)element_count(&d->out);
    return d->op == GRAFT_OP_CONV2D ? n * (double)(w[1] * w[2] * w[3]) : n * (double)w[1];
}

static bool weighted(const kernel_case *c)
{
    return c->desc.op == GRAFT_OP_CONV2D || c->desc.op == GRAFT_OP_LINEAR;
}

static int64_t to_16(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* With widths that cuDNN's 8 bits take; rows of `gap` more. */
static kernel_case rounded(const kernel_case *given, int64_t gap)
{
    kernel_case c = *given;
    graft_op_desc *d = &c.desc;
    bool geglu = d->op == GRAFT_OP_LINEAR && d->attrs.act == GRAFT_ACT_GEGLU;
    int64_t in = to_16(d->in[1].dim[1]), out = to_16(d->out.dim[d->out.rank - 1]);
    d->in[0].dim[d->in[0].rank - 1] = d->in[1].dim[1] = in;
    d->in[1].dim[0] = geglu ? 2 * out : out;
    for (int i = 2; i < GRAFT_MAX_INPUTS; i++)
        if (d->in[i].dtype) d->in[i].dim[d->in[i].rank - 1] = i == 2 ? d->in[1].dim[0] : out;
    d->out.dim[d->out.rank - 1] = out;
    for (int i = 0; i <= GRAFT_MAX_INPUTS; i++) {
        graft_tensor_desc *t = i < GRAFT_MAX_INPUTS ? &d->in[i] : &d->out;
        if (!t->dtype) continue;
        make_dense(t);
        for (int k = t->rank - 2; k >= 0 && gap && !t->constant; k--)
            t->stride[k] = t->stride[k] / t->dim[t->rank - 1] * (t->dim[t->rank - 1] + gap);
    }
    snprintf(c.name + strlen(c.name), sizeof c.name - strlen(c.name), " rounded %d", (int)gap);
    return c;
}

/* Rows that begin at multiples of 16 bytes, as a plan needs them, and cases that are not. */
static void library_plans(void)
{
    static const graft_dtype dtypes[] = {GRAFT_BF16, GRAFT_F16};
    size_t cases;
    int run = 0;
    kernel_case *list = kernel_cases(&cases);
    by_library = 0;
    for (size_t i = 0; i < cases; i++) {
        if (!weighted(&list[i])) continue;
        kernel_case c = rounded(&list[i], i % 3 * 8);
        if (products(&c.desc) > most_products()) continue;
        for (int fp8 = 0; fp8 < (i % SOME ? 1 : 2); fp8++) {
            c.desc.attrs.quant = fp8 ? GRAFT_QUANT_FP8 : GRAFT_QUANT_INT8;
            run += compare_variants(&cuda, &ref, &c, dtypes[i % 2], i);
        }
    }
    printf("  %d cases and variants run, %d by libraries\n", run, by_library);
    CHECK(run > LEAST_RUN / 2 && by_library > run / 3);
    CHECK_INT(refused, 0);
    free(list);
}

static void against_ref(void)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
    size_t cases;
    int run[4] = {0}, large = 0;
    kernel_case *list = kernel_cases(&cases);
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < cases; i++) {
            kernel_case c = list[i];
            if (!weighted(&c) || (i / 3 + t) % 3 >= DTYPES) continue;
            for (graft_quant q = GRAFT_QUANT_INT8; q <= GRAFT_QUANT_FP8; q++) {
                if (q == GRAFT_QUANT_FP8 && (i + t) % SOME) continue;
                c.desc.attrs.quant = q;
                graft_op_desc d = case_desc(&c, dtypes[t]);
                if (products(&d) > most_products()) {
                    large++;
                    continue;
                }
                CHECK(cuda.api->supports(cuda.device, &d));
                run[q] += compare_variants(&cuda, &ref, &c, dtypes[t], i);
            }
        }
    printf(
        "  %d cases and variants of int8 run, %d of 4 bits, %d of FP8, %d too large to emulate\n",
        run[1], run[2], run[3], large);
    CHECK(run[1] > LEAST_RUN && run[2] > LEAST_RUN && run[3] > LEAST_RUN / 4);
    free(list);
}

/* Values far apart, zeros, infinities of scale: what activations may be. */
static void extreme_values(void)
{
    size_t cases;
    kernel_case *list = kernel_cases(&cases);
    int run = 0;
    for (size_t i = 0; i < cases && run < 24; i++) {
        kernel_case c = list[i];
        c.desc.attrs.quant = run % 8 < 4 ? GRAFT_QUANT_INT8 : GRAFT_QUANT_FP8;
        if (!weighted(&c) || products(&c.desc) > MOST_PRODUCTS / 8) continue;
        float *val[GRAFT_MAX_INPUTS];
        case_result want;
        case_values(&c, GRAFT_F32, i, val);
        int64_t n = element_count(&c.desc.in[0]), wn = element_count(&c.desc.in[1]);
        for (int64_t k = 0; k < n; k++)
            val[0][k] = run % 3 == 0 ? 0 : run % 3 == 1 ? val[0][k] * 1e-30f : -1.0f;
        for (int64_t k = 0; k < wn; k++) val[1][k] = run % 4 == 0 ? 127.0f : val[1][k] * 1e10f;
        c.source = GRAFT_F32;
        case_want(&ref, &c, GRAFT_F32, val, &want);
        compare(&cuda, &c, GRAFT_F32, -1, val, &want);
        free(want.out);
        values_free(val);
        run++;
    }
    CHECK_INT(run, 24);
    free(list);
}

/* ------------------------------------------------------------------ FP8 by its own instructions */

static char noted[300];

static void note(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) snprintf(noted, sizeof noted, "%s", text);
}

static void fp8_cases(void)
{
    static const graft_dtype dtypes[] = {GRAFT_BF16, GRAFT_F16, GRAFT_F32};
    size_t cases, turn = 0; /* of the dtypes, whichever cases there are beside */
    int run[3] = {0};
    kernel_case *list = kernel_cases(&cases);
    for (size_t i = 0; i < cases; i++) {
        kernel_case c = list[i];
        if (!weighted(&c)) continue;
        c.desc.attrs.quant = GRAFT_QUANT_FP8;
        graft_op_desc d = case_desc(&c, dtypes[turn % 3]);
        if (products(&d) > most_products()) continue;
        graft_kernel_info info = {.size = sizeof info};
        graft_kernel *k = NULL;
        CHECK_INT(cuda.api->prepare(cuda.device, &d, 0, &k, &info, NULL, 0), GRAFT_OK);
        cuda.api->release(k);
        bool f32 = turn % 3 == 2, large = strcmp(info.variant, "own fp8 mma 128x128") == 0;
        /* A result in float32 is for sums in float32. */
        if (f32)
            CHECK_STR(info.variant, "own fp8 as f16 mma 128x64");
        else
            CHECK(large || strcmp(info.variant, "own fp8 mma 64x64") == 0);
        run[f32 ? 2 : large] += compare_variants(&cuda, &ref, &c, dtypes[turn % 3], i);
        turn++;
    }
    printf("  %d cases with small tiles, %d with large ones, %d in float32\n", run[0], run[1],
           run[2]);
    CHECK(run[0] > 20 && run[1] > 5 && run[2] > 10);
    free(list);
}

/* In a process of its own, since the driver's state is the process's. */
static void fp8_on(const char *capability, bool expected, int skip)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        graft_kernels_host host = *lib_host();
        graft_device_info info = {.size = sizeof info};
        graft_device *d = NULL;
        setenv("FAKE_CUDA_CAPABILITY", capability, 1);
        fake_driver_state()->skip_launch = skip;
        host.log = note;
        bool good = cuda.api->create(&host, 0, &d, NULL, 0) == GRAFT_OK &&
                    cuda.api->info(d, &info) == GRAFT_OK &&
                    (strstr(info.identity, " fp8 ") != NULL) == expected &&
                    (strstr(noted, "FP8") != NULL) == (skip != 0);
        if (!good) fprintf(stderr, "  %s: %s; %s\n", capability, info.identity, noted);
        cuda.device = d;
        if (good && strcmp(capability, "89") == 0 && expected) fp8_cases();
        if (d) cuda.api->destroy(d);
        _exit(good && !test_failures && fake_driver_state()->misuse == 0 ? 0 : 1);
    }
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
}

/* Ada has the instructions, Hopper has others for them, and where their test fails all is as if
 * there were none. */
static void fp8_instructions(void)
{
    fp8_on("80", false, 0);
    fp8_on("86", false, 0);
    fp8_on("89", true, 0);
    fp8_on("90", false, 0);
    fp8_on("100", false, 0);
    fp8_on("120", true, 0);
    fp8_on("89", false, 3); /* bfloat16, int8, FP8 */
    setenv("GRAFT_CUDA_FP8", "off", 1);
    fp8_on("89", false, 0);
    unsetenv("GRAFT_CUDA_FP8");
}

static int fp8_kernels;

static void look_at_ada(const char *name, const char *code, uint64_t bytes)
{
    int fp8 = count_opcode(code, bytes, OPCODE_QMMA);
    bool own =
        strncmp(name, "graft_fp8_large", 15) == 0 || strncmp(name, "graft_fp8_small", 15) == 0;
    if (own) CHECK_INT(count_opcode(code, bytes, OPCODE_HMMA), 0);
    if (own)
        CHECK(fp8 >= 8);
    else
        CHECK_INT(fp8, 0);
    fp8_kernels += own;
}

static void fp8_in_machine_code(void)
{
    each_kernel("sm_89", look_at_ada);
    CHECK_INT(fp8_kernels, 4);
}

/* ------------------------------------------------------------------ weights */

/* The packed bytes of input 1, downloaded; free(). */
static char *packed(const kernel_case *c, graft_dtype from, const void *src, uint64_t *bytes)
{
    graft_op_desc d = case_desc(c, GRAFT_BF16);
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    char text[200];
    CHECK_INT(cuda.api->prepare(cuda.device, &d, -1, &k, &info, text, sizeof text), GRAFT_OK);
    *bytes = info.packed_bytes[1];
    char *out = calloc(1, *bytes);
    void *on_device = cuda.api->alloc(cuda.device, *bytes);
    CHECK(out && on_device && k);
    CHECK_INT(cuda.api->upload(cuda.device, on_device, out, *bytes), GRAFT_OK);
    CHECK_INT(cuda.api->pack(k, 1, from, src, on_device), GRAFT_OK);
    CHECK_INT(cuda.api->download(cuda.device, out, on_device, *bytes), GRAFT_OK);
    cuda.api->free(cuda.device, on_device);
    cuda.api->release(k);
    return out;
}

/* What a quantized file would have, as kernels/quant.h lays it out. */
static void *quantized(const float *w, int64_t rows, int64_t n, graft_quant q)
{
    if (q == GRAFT_QUANT_INT4) {
        void *out = malloc(graft_quant4_bytes(rows, n));
        if (out) graft_quant4_pack_rows(w, 0, rows, rows, n, out);
        return out;
    }
    uint8_t *out = malloc((size_t)(rows * (n + 4)));
    for (int64_t r = 0; out && r < rows; r++) {
        float scale = graft_quant8_scale(q, graft_quant_absmax(w + r * n, n));
        float inverse = graft_quant_inverse(scale);
        for (int64_t i = 0; i < n; i++)
            out[r * n + i] = graft_quant8_level(q, w[r * n + i], inverse);
        memcpy(out + rows * n + r * 4, &scale, sizeof scale);
    }
    return out;
}

static void quantized_sources(void)
{
    size_t cases;
    kernel_case *list = kernel_cases(&cases);
    int run = 0, pairs = 0;
    for (size_t i = 0; i < cases; i++) {
        kernel_case c = list[i];
        const graft_tensor_desc *w = &c.desc.in[1];
        int64_t rows = w->dim[0], n = weighted(&c) ? element_count(w) / rows : 0;
        if (!n || rows * n > 40000) continue;
        float *val[GRAFT_MAX_INPUTS];
        c.source = GRAFT_F32;
        case_values(&c, GRAFT_F32, i, val);
        for (graft_quant q = GRAFT_QUANT_INT8; q <= GRAFT_QUANT_FP8; q++) {
            uint64_t bytes, again;
            c.desc.attrs.quant = q;
            void *src = quantized(val[1], rows, n, q);
            if (!src) abort();
            char *a = packed(&c, GRAFT_F32, val[1], &bytes);
            char *b = packed(&c, graft_quant_dtype(q), src, &again);
            CHECK(bytes == again && memcmp(a, b, bytes) == 0);
            if (memcmp(a, b, bytes)) fprintf(stderr, "  quant %d: %s\n", (int)q, c.name);
            free(src);
            free(a);
            free(b);
            run++;
            pairs += c.desc.attrs.act == GRAFT_ACT_GEGLU;
        }
        values_free(val);
    }
    printf("  %d weights, %d of them in pairs\n", run, pairs);
    CHECK(run > 60 && pairs > 4);
    free(list);
}

/* 16 outputs of 16 weights, which are all the codes of E4M3; NaN is left out unless `nan`. */
static void all_codes(uint8_t block[256 + 64], bool nan)
{
    const float one = 1;
    for (int i = 0; i < 256; i++) block[i] = (uint8_t)(i * 37); /* in some order */
    for (int i = 0; i < 256; i++)
        if ((block[i] & 0x7f) == 0x7f && !nan) block[i] = 0;
    for (int o = 0; o < 16; o++) memcpy(block + 256 + o * 4, &one, sizeof one);
}

/* The own product on the rows of the identity: what each code is worth, exactly. */
static void every_code(void)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR};
    graft_tensor_desc square = {.dtype = GRAFT_F32, .rank = 2, .dim = {16, 16}, .stride = {16, 1}};
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    float x[256] = {0}, out[256];
    uint8_t block[256 + 64];
    char text[200];
    d.in[0] = d.in[1] = d.out = square;
    d.in[1].constant = 1;
    d.attrs.quant = GRAFT_QUANT_FP8;
    for (int i = 0; i < 16; i++) x[17 * i] = 1;
    CHECK_INT(cuda.api->prepare(cuda.device, &d, 0, &k, &info, text, sizeof text), GRAFT_OK);
    char *at = cuda.api->alloc(cuda.device, 4096), *ws;
    ws = cuda.api->alloc(cuda.device, info.workspace_bytes);
    CHECK(k && at && ws && info.packed_bytes[1] <= 1024);
    CHECK_INT(cuda.api->upload(cuda.device, at + 1024, x, sizeof x), GRAFT_OK);
    for (int nan = 0; nan < 2; nan++) {
        const void *in[GRAFT_MAX_INPUTS] = {at + 1024, at};
        all_codes(block, nan);
        CHECK_INT(cuda.api->pack(k, 1, GRAFT_QF8, block, at), GRAFT_OK);
        CHECK_INT(cuda.api->launch(k, in, at + 2048, ws), GRAFT_OK);
        CHECK_INT(cuda.api->download(cuda.device, out, at + 2048, sizeof out), GRAFT_OK);
        int wrong = 0, nans = 0;
        for (int i = 0; i < 256; i++) {
            wrong += out[i] != graft_f8_e4m3_to_f32(block[i % 16 * 16 + i / 16]);
            nans += isnan(out[i]);
        }
        CHECK_INT(nans, nan ? 32 : 0); /* of two outputs all that is added is */
        CHECK_INT(wrong, nans);
    }
    cuda.api->free(cuda.device, at);
    cuda.api->free(cuda.device, ws);
    cuda.api->release(k);
}

/* Bytes for other kernels are never taken for these; 8 bits are half of 16, 4 bits a quarter and
 * their scales. A quantized source is for kernels that quantize likewise only. */
static void packings(void)
{
    size_t cases;
    kernel_case *list = kernel_cases(&cases);
    for (size_t i = 0; i < cases; i++) {
        if (!weighted(&list[i])) continue;
        graft_kernel_info info[4];
        for (graft_quant q = 0; q < 4; q++) {
            kernel_case c = list[i];
            graft_kernel *k = NULL;
            char text[200];
            int8_t some = 0, to = 0;
            c.desc.attrs.quant = q;
            graft_op_desc d = case_desc(&c, GRAFT_BF16);
            info[q] = (graft_kernel_info){.size = sizeof *info};
            CHECK_INT(cuda.api->prepare(cuda.device, &d, 0, &k, &info[q], text, sizeof text),
                      GRAFT_OK);
            for (graft_quant other = 1; other < 4; other++)
                if (other != q)
                    CHECK_INT(cuda.api->pack(k, 1, graft_quant_dtype(other), &some, &to),
                              GRAFT_E_UNSUPPORTED);
            cuda.api->release(k);
        }
        for (int q = 0; q < 4; q++)
            for (int r = 0; r < q; r++) CHECK(info[q].packing[1] != info[r].packing[1]);
        CHECK_INT(info[3].packed_bytes[1], info[1].packed_bytes[1]);
        const graft_tensor_desc *w = &list[i].desc.in[1];
        int64_t n = element_count(w) / w->dim[0];
        CHECK_INT(info[2].packed_bytes[1], graft_quant4_bytes(w->dim[0], n));
        if (w->dim[1] % 16 == 0)
            CHECK(info[1].packed_bytes[1] <=
                  info[0].packed_bytes[1] / 2 + 4 * (uint64_t)w->dim[0] + 256);
    }
    free(list);
}

static void refusals(void)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR};
    graft_tensor_desc x = {
        .dtype = GRAFT_BF16, .rank = 2, .dim = {1, 140000}, .stride = {140000, 1}};
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    char text[200] = "";
    d.in[0] = d.in[1] = d.out = x;
    d.in[1].constant = 1;
    d.out.dim[1] = d.out.stride[0] = 1;
    CHECK(cuda.api->supports(cuda.device, &d));
    d.attrs.quant = GRAFT_QUANT_INT8;
    CHECK(!cuda.api->supports(cuda.device, &d));
    CHECK_INT(cuda.api->prepare(cuda.device, &d, -1, &k, &info, text, sizeof text),
              GRAFT_E_UNSUPPORTED);
    CHECK(!k && strstr(text, "140000 products"));
    d.attrs.quant = GRAFT_QUANT_FP8; /* sums of floats do not overflow */
    CHECK(cuda.api->supports(cuda.device, &d));
    d.attrs.quant = 7;
    CHECK(!cuda.api->supports(cuda.device, &d));
}

int main(void)
{
    use_fake_driver();
    if (!lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref) || !lib_open(CUDA_LIBRARY, &cuda))
        return 1;
    RUN(against_ref);
    RUN(library_plans);
    RUN(fp8_instructions);
    RUN(fp8_in_machine_code);
    RUN(extreme_values);
    RUN(quantized_sources);
    RUN(every_code);
    RUN(packings);
    RUN(refusals);
    lib_close(&cuda);
    lib_close(&ref);
    fake_cuda_state *fake = fake_driver_state();
    CHECK_INT(fake->live_blocks, 0);
    CHECK_INT(fake->live_objects, 0);
    CHECK_INT(fake->misuse, 0);
    return test_end();
}
