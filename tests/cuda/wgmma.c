/* The own kernels for Hopper: that they are offered on Hopper alone and only where the device
 * passes its test, that they compute what ref does, and that the compiler made of them what was
 * meant. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "kernels/cuda/gpu/params.h"
#include "tests/cuda/backend.h"
#include "tests/cuda/machine_code.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/limits.h"
#include "tests/test.h"

#define GRAFT_CUDA_EMULATOR "tests/cuda/emulator.h"
#include "kernels/cuda/gpu/math.h"

#if defined(__SANITIZE_ADDRESS__)
#define MOST_PRODUCTS 2e7
#define LEAST_RUN     10
#else
#define MOST_PRODUCTS 1e8
#define LEAST_RUN     20
#endif
/* Of the kernels that fail, which opens a device for each: what a sanitizer sees is the same. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY = 5 };
#else
enum { EVERY = 1 };
#endif

/* Of a dtype: products, with those by turns; for attention, and those that are ahead. */
enum { PLAIN = 3, KERNELS = 4, FLASH = 8, AHEAD = 5 };

/* ------------------------------------------------------------------ results */

static double products_of(const graft_op_desc *d)
{
    const int64_t *w = d->in[1].dim;
    double n = (double)element_count(&d->out);
    return d->op == GRAFT_OP_LINEAR      ? n * (double)w[1]
           : d->op == GRAFT_OP_CONV2D    ? n * (double)(w[1] * w[2] * w[3])
           : d->op == GRAFT_OP_ATTENTION ? 2 * n * (double)w[1]
                                         : 1e300;
}

/* Emulated by loops of the host, these are fast: cases that are too large for other kernels. */
static bool is_product(const char *variant)
{
    return strstr(variant, "wgmma") || strstr(variant, "products by") ||
           strstr(variant, "unfolded");
}

static bool compare(const case_result *got, const case_result *want, const kernel_case *c,
                    graft_dtype dtype)
{
    error_sum sum = {0};
    double nmse = 0, max = 0;
    for (int64_t i = 0; i < element_count(&c->desc.out); i++)
        error_add(&sum, (double)got->out[i], (double)want->out[i]);
    bool ok = !got->fault[0] && error_within(&sum, limit_of(c->desc.op, dtype), &nmse, &max);
    if (!ok)
        fprintf(stderr, "  [%s] dtype %d: %s: %s nmse %.3g, max %.3g\n", got->variant, (int)dtype,
                c->name, got->fault, nmse, max);
    return ok;
}

static int32_t variants_of(const kernel_lib *cuda, const graft_op_desc *d)
{
    graft_kernel *k = NULL;
    graft_kernel_info info = {.size = sizeof info};
    if (cuda->api->prepare(cuda->device, d, 0, &k, &info, NULL, 0)) return 0;
    cuda->api->release(k);
    return info.variant_count;
}

/* Every variant of the case that is such a product; of levels those for Hopper alone. */
static int run_case(const kernel_lib *cuda, const kernel_lib *ref, const kernel_case *c,
                    graft_dtype dtype, uint64_t seed)
{
    float *val[GRAFT_MAX_INPUTS];
    case_result want = {0}, got;
    bool levels = c->desc.attrs.quant != GRAFT_QUANT_NONE;
    int run = 0;
    graft_op_desc d = case_desc(c, dtype);
    int32_t variants = variants_of(cuda, &d);
    for (int32_t v = 1; v < variants; v++) {
        graft_kernel_info one = {.size = sizeof one};
        graft_kernel *k = NULL;
        CHECK_INT(cuda->api->prepare(cuda->device, &d, v, &k, &one, NULL, 0), GRAFT_OK);
        cuda->api->release(k);
        CHECK_INT(one.variant_index, v);
        if (levels ? !strstr(one.variant, "int8 wgmma") : !is_product(one.variant)) continue;
        if (!want.out) {
            case_values(c, dtype, seed, val);
            case_want(ref, c, GRAFT_F32, val, &want);
        }
        case_run(cuda, c, dtype, v, val, &got);
        CHECK(compare(&got, &want, c, dtype));
        free(got.out);
        run++;
    }
    if (want.out) values_free(val);
    free(want.out);
    return run;
}

static void products_in(graft_quant quant)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
    kernel_lib cuda, ref;
    size_t n;
    int run[3][GRAFT_OP_END] = {{0}};
    CHECK(lib_open(GRAFT_LIB_DIR "/graft_kernels_ref.so", &ref));
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    if (!cuda.device || !ref.device) return;
    kernel_case *list = kernel_cases(&n);
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < n; i++) {
            kernel_case c = list[i];
            if (quant && c.desc.op != GRAFT_OP_LINEAR) continue;
            c.desc.attrs.quant = quant;
            if (products_of(&c.desc) < MOST_PRODUCTS)
                run[t][c.desc.op] += run_case(&cuda, &ref, &c, dtypes[t], i);
        }
    for (size_t t = 0; t < 3; t++)
        printf("     %d products, %d convolutions, %d attentions\n", run[t][GRAFT_OP_LINEAR],
               run[t][GRAFT_OP_CONV2D], run[t][GRAFT_OP_ATTENTION]);
    CHECK_INT(run[0][GRAFT_OP_LINEAR], 0); /* no tensor cores for float32 */
    CHECK_INT(run[0][GRAFT_OP_CONV2D] + run[0][GRAFT_OP_ATTENTION], 0);
    CHECK(run[1][GRAFT_OP_LINEAR] >= LEAST_RUN);
    CHECK(quant || run[1][GRAFT_OP_CONV2D] >= LEAST_RUN);
    CHECK(quant || run[1][GRAFT_OP_ATTENTION] >= LEAST_RUN);
    for (int op = 0; op < GRAFT_OP_END; op++) CHECK_INT(run[1][op], run[2][op]);
    free(list);
    lib_close(&cuda);
    lib_close(&ref);
}

static void products_are_right(void)
{
    products_in(GRAFT_QUANT_NONE);
}

static void products_of_levels_are_right(void)
{
    products_in(GRAFT_QUANT_INT8);
}

static void every_tile_once(void)
{
    for (int32_t m = 1; m <= 40; m++)
        for (int32_t n = 1; n <= 33; n += 4) {
            char seen[40 * 33] = {0};
            int wrong = 0;
            for (int32_t b = 0; b < m * n; b++) {
                int32_t i = -1, j = -1;
                graft_tile_of(b, m, n, &i, &j);
                if (i < 0 || i >= m || j < 0 || j >= n || seen[i * n + j]++) wrong++;
            }
            CHECK_INT(wrong, 0);
        }
}

/* ------------------------------------------------------------------ where they are offered */

static char warned[400];

static void note(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    if (level >= GRAFT_LOG_WARN) snprintf(warned, sizeof warned, "%s", text);
}

static graft_op_desc product(int64_t m, int64_t n, int64_t k, graft_dtype dtype)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_LINEAR};
    d.in[0] = (graft_tensor_desc){.dtype = dtype, .rank = 2, .dim = {m, k}};
    d.in[1] = (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 2, .dim = {n, k}, .constant = 1};
    d.out = (graft_tensor_desc){.dtype = dtype, .rank = 2, .dim = {m, n}};
    make_dense(&d.in[0]);
    make_dense(&d.in[1]);
    make_dense(&d.out);
    return d;
}

static graft_op_desc levels(int64_t m, int64_t n, int64_t k, graft_dtype dtype)
{
    graft_op_desc d = product(m, n, k, dtype);
    d.attrs.quant = GRAFT_QUANT_INT8;
    return d;
}

static graft_op_desc attention(int64_t queries, int64_t keys, int32_t heads, int64_t head_dim,
                               graft_dtype dtype)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_ATTENTION};
    d.attrs.heads = heads;
    d.attrs.scale = 0.125f;
    for (int i = 0; i < 3; i++)
        d.in[i] = (graft_tensor_desc){
            .dtype = dtype, .rank = 3, .dim = {2, i ? keys : queries, heads * head_dim}};
    d.out = d.in[0];
    for (int i = 0; i < 3; i++) make_dense(&d.in[i]);
    make_dense(&d.out);
    return d;
}

/* How many of these kernels this device offers for the product. */
static int offers(const kernel_lib *cuda, graft_op_desc d)
{
    graft_kernel_info info = {.size = sizeof info, .variant_count = 1};
    int n = 0;
    for (int32_t v = 0; v < info.variant_count; v++) {
        graft_kernel *k = NULL;
        if (cuda->api->prepare(cuda->device, &d, v, &k, &info, NULL, 0)) break;
        n += strstr(info.variant, "wgmma") != NULL;
        cuda->api->release(k);
    }
    return n;
}

/* The same of a new device, which tries its kernels first; -1: there is none. */
static int offered(graft_op_desc d)
{
    void *h = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const graft_kernels *lib = h ? dlsym(h, GRAFT_KERNELS_SYMBOL) : NULL;
    graft_kernels_host host = *lib_host();
    kernel_lib cuda = {.api = lib ? lib->api : NULL};
    host.log = note;
    warned[0] = 0;
    if (!lib || lib->api->create(&host, 0, &cuda.device, NULL, 0)) return -1;
    int n = offers(&cuda, d);
    lib->api->destroy(cuda.device);
    return n;
}

static void on_capability(const char *capability, int expected)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("FAKE_CUDA_CAPABILITY", capability, 1);
        int n = offered(product(256, 256, 256, GRAFT_BF16));
        if (n != expected) fprintf(stderr, "  capability %s: %d\n", capability, n);
        _exit(n == expected && !warned[0] ? 0 : 1);
    }
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
}

static void on_hopper_alone(void)
{
    kernel_lib cuda;
    on_capability("80", 0);
    on_capability("89", 0);
    on_capability("90", KERNELS);
    on_capability("100", 0);
    on_capability("120", 0);
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    if (!cuda.device) return;
    CHECK_INT(offers(&cuda, product(64, 64, 64, GRAFT_F16)), KERNELS);
    CHECK_INT(offers(&cuda, product(63, 64, 64, GRAFT_F16)), 0);
    /* Rows of x not at multiples of 16 bytes; rows of levels are padded. */
    CHECK_INT(offers(&cuda, product(64, 64, 68, GRAFT_F16)), 0);
    CHECK_INT(offers(&cuda, product(256, 256, 256, GRAFT_F32)), 0);
    CHECK_INT(offers(&cuda, levels(64, 64, 64, GRAFT_BF16)), KERNELS);
    CHECK_INT(offers(&cuda, levels(64, 64, 68, GRAFT_F16)), KERNELS);
    CHECK_INT(offers(&cuda, levels(64, 63, 64, GRAFT_F16)), 0);
    CHECK_INT(offers(&cuda, levels(256, 256, 256, GRAFT_F32)), 0);
    graft_op_desc d = levels(256, 256, 256, GRAFT_F16);
    d.attrs.quant = GRAFT_QUANT_FP8;
    CHECK_INT(offers(&cuda, d), 0);
    lib_close(&cuda);
}

/* What has run on no device is there for those who ask for it. */
static void the_tried_ones_unasked(void)
{
    unsetenv("GRAFT_CUDA_WGMMA");
    CHECK_INT(offered(product(256, 256, 256, GRAFT_BF16)), PLAIN);
    CHECK_INT(offered(levels(256, 256, 256, GRAFT_BF16)), 0);
    CHECK_INT(offered(attention(256, 256, 8, 64, GRAFT_BF16)), 3);
    setenv("GRAFT_CUDA_WGMMA", "all", 1);
}

/* What the library takes for d when nobody asks for a number. */
static void chosen(const kernel_lib *cuda, graft_op_desc d, const char *name)
{
    graft_kernel *k = NULL;
    graft_kernel_info info = {.size = sizeof info}, same = info;
    CHECK_INT(cuda->api->prepare(cuda->device, &d, -1, &k, &info, NULL, 0), GRAFT_OK);
    cuda->api->release(k);
    CHECK_INT(cuda->api->prepare(cuda->device, &d, info.variant_index, &k, &same, NULL, 0),
              GRAFT_OK);
    cuda->api->release(k);
    CHECK(strncmp(info.variant, name, strlen(name)) == 0);
    CHECK_STR(same.variant, info.variant);
}

static void levels_where_no_library_takes_them(void)
{
    kernel_lib cuda;
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    if (!cuda.device) return;
    chosen(&cuda, levels(256, 256, 256, GRAFT_BF16), "cudnn");
    chosen(&cuda, levels(256, 264, 256, GRAFT_BF16),
           "own int8 wgmma 128x160"); /* not a multiple of 16 */
    chosen(&cuda, levels(32, 264, 256, GRAFT_BF16), "own int8 mma");
    chosen(&cuda, product(256, 264, 256, GRAFT_BF16), "cublasLt");
    lib_close(&cuda);
}

static void attention_as_far_as_it_goes(void)
{
    kernel_lib cuda;
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    if (!cuda.device) return;
    CHECK_INT(offers(&cuda, attention(256, 256, 8, 40, GRAFT_BF16)), 4);
    CHECK_INT(offers(&cuda, attention(256, 77, 10, 64, GRAFT_F16)), 5);
    CHECK_INT(offers(&cuda, attention(1, 1, 1, 48, GRAFT_F16)), 5);
    CHECK_INT(offers(&cuda, attention(256, 256, 8, 80, GRAFT_BF16)), 2);
    CHECK_INT(offers(&cuda, attention(64, 64, 8, 160, GRAFT_BF16)), 1);
    CHECK_INT(offers(&cuda, attention(64, 64, 8, 168, GRAFT_BF16)), 0);
    CHECK_INT(offers(&cuda, attention(64, 64, 8, 44, GRAFT_BF16)), 0);
    CHECK_INT(offers(&cuda, attention(256, 256, 8, 40, GRAFT_F32)), 0);
    graft_op_desc d = attention(256, 256, 8, 64, GRAFT_BF16);
    d.attrs.causal = 1;
    CHECK_INT(offers(&cuda, d), 0);
    d = attention(256, 256, 8, 64, GRAFT_BF16);
    d.in[1].stride[1] += 4; /* keys not at multiples of 16 bytes */
    CHECK_INT(offers(&cuda, d), 0);
    lib_close(&cuda);
}

/* What the library launches before it tries these kernels, one launch each. */
static int launches_before(void)
{
    uint64_t launches = fake_driver_state()->launches;
    setenv("GRAFT_CUDA_WGMMA", "off", 1);
    setenv("GRAFT_CUDA_PDL", "off", 1); /* that test comes behind them */
    CHECK_INT(offered(product(256, 256, 256, GRAFT_BF16)), 0);
    setenv("GRAFT_CUDA_WGMMA", "all", 1);
    unsetenv("GRAFT_CUDA_PDL");
    return (int)(fake_driver_state()->launches - launches);
}

/* `n` launches behind the first `before` ones write nothing, each on a device of its own: `left`
 * kernels are offered for d then, and the last warning has these words. */
static void skipped_one_by_one(int before, int n, graft_op_desc d, int left, const char *words)
{
    for (int launch = 1; launch <= n; launch += EVERY) {
        fake_driver_state()->skip_launch = before + launch;
        CHECK_INT(offered(d), left);
        CHECK(strstr(warned, words) != NULL && strstr(warned, "wgmma") != NULL);
    }
}

static void not_where_the_test_fails(void)
{
    const graft_op_desc d = product(256, 256, 256, GRAFT_BF16);
    const graft_op_desc attended = attention(256, 256, 8, 64, GRAFT_BF16);
    int before = launches_before(), turns = before + 2 * PLAIN, flash = before + 2 * KERNELS;
    CHECK(before > 0);
    skipped_one_by_one(before, 2 * PLAIN, d, 0, "kernels with Hopper");
    skipped_one_by_one(turns, 2 * (KERNELS - PLAIN), d, PLAIN, "by turns with Hopper");
    setenv("GRAFT_CUDA_WGMMA", "on", 1); /* no turns, and nothing behind attention */
    skipped_one_by_one(turns, 2 * FLASH, attended, 0, "attention with Hopper");
    setenv("GRAFT_CUDA_WGMMA", "all", 1);
    skipped_one_by_one(flash + 2 * FLASH, 2 * AHEAD, attended, 3, "attention ahead with Hopper");
    skipped_one_by_one(flash + 2 * (FLASH + AHEAD), 2 * KERNELS, levels(256, 256, 256, GRAFT_BF16),
                       0, "8 bits with Hopper");
    fake_driver_state()->skip_launch = before + 2 * PLAIN + 1; /* which levels survive */
    CHECK_INT(offered(levels(256, 256, 256, GRAFT_BF16)), KERNELS);
    fake_driver_state()->skip_launch = before + 2 * KERNELS + 1; /* which products survive */
    CHECK_INT(offered(product(256, 256, 256, GRAFT_BF16)), KERNELS);
    fake_driver_state()->skip_launch = before + 2 * (KERNELS + FLASH + AHEAD) + 1;
    CHECK_INT(offered(product(256, 256, 256, GRAFT_BF16)), KERNELS);
    fake_driver_state()->skip_launch = 0;
    CHECK_INT(offered(product(256, 256, 256, GRAFT_BF16)), KERNELS);
    CHECK_STR(warned, "");
    fake_driver_state()->fail_launch =
        before + 2; /* an error that stays: there is no device then */
    CHECK_INT(offered(product(256, 256, 256, GRAFT_BF16)), -1);
    setenv("GRAFT_CUDA_WGMMA", "off", 1); /* leaves out what would fail */
    CHECK_INT(offered(product(256, 256, 256, GRAFT_BF16)), 0);
    CHECK_STR(warned, "");
    setenv("GRAFT_CUDA_WGMMA", "all", 1);
    fake_driver_state()->fail_launch = 0;
    CHECK_INT(offered(product(256, 256, 256, GRAFT_BF16)), KERNELS);
}

/* The emulator's: how many threads of a block, from block *patience on, give up their waits; how
 * long the longest of these was; how many blocks have begun. */
static uint32_t *hurry, *blocks, *patience;
static uint64_t *longest;

/* Of this device `left` such kernels are offered for d, and the last warning is of `what`: those
 * that come later give up, too. */
static void gives_up_from(uint32_t block, graft_op_desc d, int left, const char *what)
{
    *patience = block;
    *blocks = 0;
    *longest = 0;
    *hurry = 256; /* all that multiply */
    CHECK_INT(offered(d), left);
    CHECK(strstr(warned, what) != NULL && strstr(warned, "wgmma") != NULL);
    CHECK(*longest > 500000000 && *longest < 700000000);
    *hurry = 0;
}

static uint32_t blocks_with(const char *how, graft_op_desc d, int kernels)
{
    setenv("GRAFT_CUDA_WGMMA", how, 1);
    *blocks = 0;
    CHECK_INT(offered(d), kernels);
    return *blocks;
}

/* Threads that give up a wait end the kernel with a wrong result, and not while tiles are on their
 * way: the emulator would end the process. Half a second is what they have, however long the device
 * takes to say that a barrier is not there yet. */
static void gives_up_in_order(void)
{
    void *h = dlopen(FAKE_DRIVER_DIR "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const graft_op_desc d = product(256, 256, 256, GRAFT_BF16);
    const graft_op_desc attended = attention(256, 256, 8, 64, GRAFT_BF16);
    hurry = h ? dlsym(h, "hopper_hurry") : NULL;
    longest = h ? dlsym(h, "hopper_longest_ns") : NULL;
    blocks = h ? dlsym(h, "hopper_blocks") : NULL;
    patience = h ? dlsym(h, "hopper_patience") : NULL;
    CHECK(hurry && longest && blocks && patience);
    if (!hurry || !longest || !blocks || !patience) return;
    gives_up_from(0, d, 0, "Hopper");
    /* Attention's are the last, one block a kernel; before them those by turns, of two each. */
    uint32_t plain = blocks_with("on", d, PLAIN) - 2 * FLASH;
    for (uint32_t i = 0; i < 2 * FLASH; i += EVERY)
        gives_up_from(plain + i, attended, 0, "attention");
    blocks_with("all", d, KERNELS);
    for (uint32_t i = 0; i < 4; i += 3) gives_up_from(plain + i, d, PLAIN, "8 bits");
    uint32_t before = plain + 4 + 2 * FLASH;
    for (uint32_t i = 0; i < 2 * AHEAD; i += 2) gives_up_from(before + i, attended, 3, "8 bits");
    before += 2 * AHEAD;
    /* Those of levels come last, and in the same number as the others. */
    for (uint32_t i = 0; i < plain; i += plain / 2 - 1)
        gives_up_from(before + i, levels(256, 256, 256, GRAFT_BF16), 0, "8 bits");
    gives_up_from(before + plain, levels(256, 256, 256, GRAFT_BF16), 0, "8 bits");
    *patience = 0;
    CHECK_INT(offered(levels(256, 256, 256, GRAFT_BF16)), KERNELS);
}

/* ------------------------------------------------------------------ what the compiler made */

/* Instructions have 16 bytes; the low 12 bits say which. */
static int wgmma_kernels, level_kernels, flash_kernels, others;

static void look_at_hopper(const char *name, const char *code, uint64_t bytes)
{
    int wgmma = count_opcode(code, bytes, OPCODE_HGMMA);
    int mma = count_opcode(code, bytes, OPCODE_HMMA);
    int levels = count_opcode(code, bytes, OPCODE_IGMMA);
    if (strncmp(name, "graft_wgmma8", 12) == 0) {
        printf("     %-28s %d warpgroup products, %d instructions\n", name, levels,
               (int)(bytes / 16));
        CHECK(levels >= 4 && wgmma == 0 && mma == 0);
        level_kernels++;
    } else if (strncmp(name, "graft_wgmma", 11) == 0) {
        printf("     %-28s %d warpgroup products, %d instructions\n", name, wgmma,
               (int)(bytes / 16));
        CHECK(wgmma >= 4 && mma == 0);
        wgmma_kernels++;
    } else if (strncmp(name, "graft_flash_hopper", 18) == 0) {
        int values = count_opcode(code, bytes, OPCODE_HGMMA_R);
        printf("     %-28s %d and %d warpgroup products, %d instructions\n", name, wgmma, values,
               (int)(bytes / 16));
        CHECK(wgmma >= 6 && values >= 6 && mma == 0);
        flash_kernels++;
    } else {
        CHECK_INT(wgmma + levels, 0);
    }
    if (strncmp(name, "graft_matmul_large", 18) == 0) CHECK(mma >= 16); /* the count works */
    /* Two values are rounded by one instruction; gelu calls nothing and does not branch into what
     * it would call; what the norm keeps of a group comes from shared memory four values at a time.
     */
    if (strcmp(name, "graft_pairs_bf16") == 0) {
        CHECK_INT(count_opcode(code, bytes, OPCODE_F2FP), 4);
        CHECK_INT(count_opcode(code, bytes, OPCODE_CALL), 0);
        CHECK(bytes / 16 < 240);
        others++;
    }
    if (strcmp(name, "graft_group_norm8_bf16") == 0) {
        CHECK_INT(count_opcode(code, bytes, OPCODE_LDS), 4);
        CHECK_INT(count_opcode(code, bytes, OPCODE_F2FP), 4 * GRAFT_CUDA_NORM_AHEAD);
        others++;
    }
}

static void kernels_have_their_instructions(void)
{
    each_kernel("sm_90a", look_at_hopper);
    CHECK_INT(wgmma_kernels, 2 * KERNELS);
    CHECK_INT(level_kernels, 2 * KERNELS);
    CHECK_INT(flash_kernels, 2 * (FLASH + AHEAD));
    CHECK_INT(others, 2);
}

/* ptxas makes products wait for each other where it cannot follow their sums, and says so. */
static void products_overlap(void)
{
    char *log = NULL;
    size_t size = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_file_read(GRAFT_BINARY_DIR "/kernels/cuda/ptxas.log", 1 << 24, &log, &size, &e),
             &e);
    CHECK(log && strstr(log, "graft_wgmma_256x160_bf16") != NULL);
    CHECK(log && strstr(log, "graft_wgmma8_256x160_bf16") != NULL);
    CHECK(log && strstr(log, "graft_flash_hopper_64_bf16") != NULL);
    CHECK(log && strstr(log, "serialized") == NULL);
    graft_free(log);
}

static void failures(void)
{
    if (EVERY > 1) puts("skipped: most of the kernels that fail; the plain build tries each");
    RUN(not_where_the_test_fails);
    RUN(gives_up_in_order);
}

static int end(void)
{
    CHECK_INT(fake_driver_state()->live_blocks, 0);
    CHECK_INT(fake_driver_state()->live_objects, 0);
    CHECK_INT(fake_driver_state()->misuse, 0);
    return test_end();
}

/* With an argument no more than what sanitizers have some of. */
int main(int argc, char **argv)
{
    (void)argv;
    use_fake_driver();
    setenv("GRAFT_CUDA_WGMMA", "all", 1);
    if (argc > 1) {
        failures();
        return end();
    }
    RUN(every_tile_once);
    RUN(products_are_right);
    RUN(products_of_levels_are_right);
    RUN(on_hopper_alone);
    RUN(the_tried_ones_unasked);
    RUN(levels_where_no_library_takes_them);
    RUN(attention_as_far_as_it_goes);
    failures();
    RUN(kernels_have_their_instructions);
    RUN(products_overlap);
    return end();
}
