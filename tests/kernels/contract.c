/* What the kernel ABI promises besides numbers: refusals with a reason, memory failures survived,
 * packings that mean what their number says. */
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "tests/kernels/harness.h"
#include "tests/test.h"

#define REF_PATH GRAFT_LIB_DIR "/graft_kernels_ref.so"
#define CPU_PATH GRAFT_LIB_DIR "/graft_kernels_cpu.so"

static kernel_lib ref;

static kernel_case find_case(graft_op op)
{
    size_t count;
    kernel_case *list = kernel_cases(&count), found = {0};
    for (size_t i = 0; i < count && !found.desc.op; i++)
        if (list[i].desc.op == op) found = list[i];
    free(list);
    return found;
}

/* prepare() and supports() refuse together, and prepare() says why. */
static bool refused(const kernel_lib *lib, const graft_op_desc *d)
{
    graft_kernel *k = (graft_kernel *)1;
    graft_kernel_info info = {.size = sizeof info};
    char text[256] = "";
    int32_t supported = lib->api->supports(lib->device, d);
    graft_status st = lib->api->prepare(lib->device, d, -1, &k, &info, text, sizeof text);
    CHECK_INT(supported, st == GRAFT_OK);
    CHECK(st == GRAFT_OK || (k == NULL && text[0]));
    if (st == GRAFT_OK) lib->api->release(k);
    return st != GRAFT_OK;
}

static void entry_is_complete(void)
{
    CHECK_STR(ref.kernels->name, "ref");
    CHECK(ref.kernels->version && ref.kernels->version[0]);
    CHECK_INT(ref.kernels->score(), 1);
    CHECK_INT(ref.kernels->device_count(), 1);
    CHECK_INT(ref.info.host_memory, 1);
    CHECK_INT(ref.info.alignment % 64, 0);
    CHECK(ref.info.name[0] && ref.info.identity[0]);
    ref.api->release(NULL);
    ref.api->free(ref.device, NULL);
    void *nothing = ref.api->alloc(ref.device, 0);
    CHECK(nothing != NULL);
    ref.api->free(ref.device, nothing);
    CHECK(ref.api->alloc(ref.device, UINT64_MAX) == NULL);
}

/* Its memory is counted, and can be told to run out. */
static const graft_kernels_host *counted_host(void)
{
    static graft_kernels_host host;
    host = *lib_host();
    host.alloc = graft_malloc_aligned;
    host.free = graft_free;
    return &host;
}

static void create_refuses(void)
{
    graft_device *d = (graft_device *)1;
    char text[128] = "";
    CHECK_INT(ref.api->create(lib_host(), 1, &d, text, sizeof text), GRAFT_E_NOTFOUND);
    CHECK(d == NULL && text[0]);
    graft_kernels_host host = *lib_host();
    host.size = 8;
    CHECK_INT(ref.api->create(&host, 0, &d, text, sizeof text), GRAFT_E_ARG);
    host.size = GRAFT_KERNELS_HOST_SIZE - 1;
    CHECK_INT(ref.api->create(&host, 0, &d, text, sizeof text), GRAFT_E_ARG);
    graft_alloc_fail_at(1);
    CHECK_INT(ref.api->create(counted_host(), 0, &d, text, sizeof text), GRAFT_E_NOMEM);
    graft_alloc_fail_at(0);
    CHECK_INT(ref.api->create(lib_host(), 1, &d, NULL, 0), GRAFT_E_NOTFOUND);
}

/* An older engine's record ends before what came later, which nobody reads then. */
static void older_hosts(void)
{
    static const char *const libs[] = {GRAFT_LIB_DIR "/graft_kernels_ref.so",
                                       GRAFT_LIB_DIR "/graft_kernels_cpu.so"};
    struct {
        graft_kernels_host host;
        char behind[64];
    } r;
    for (int i = 0; i < 2; i++) {
        kernel_lib lib;
        graft_device *d = NULL;
        char text[128] = "";
        if (!lib_open(libs[i], &lib)) continue;
        memset(&r, 0x5a, sizeof r);
        memcpy(&r.host, lib_host(), GRAFT_KERNELS_HOST_SIZE);
        r.host.size = GRAFT_KERNELS_HOST_SIZE;
        CHECK_INT(lib.api->create(&r.host, 0, &d, text, sizeof text), GRAFT_OK);
        const graft_op_desc op = find_case(GRAFT_OP_LINEAR).desc;
        graft_kernel_info info = {.size = sizeof info};
        graft_kernel *k = NULL;
        if (d) CHECK_INT(lib.api->prepare(d, &op, -1, &k, &info, text, sizeof text), GRAFT_OK);
        if (k) lib.api->release(k);
        if (d) lib.api->destroy(d);
        lib_close(&lib);
    }
}

/* A record from an engine that knows more: fine as long as what is new is zero. */
static void records_may_grow(void)
{
    struct {
        graft_op_desc desc;
        int64_t more;
    } big = {.desc = find_case(GRAFT_OP_CONV2D).desc, .more = 0};
    big.desc.size = sizeof big;
    CHECK(!refused(&ref, &big.desc));
    big.more = 1;
    CHECK(refused(&ref, &big.desc));
    big.desc.size = sizeof big.desc - 8;
    CHECK(refused(&ref, &big.desc));
    big.desc.size = 0;
    CHECK(refused(&ref, &big.desc));

    graft_op_desc d = find_case(GRAFT_OP_ACT).desc;
    graft_kernel *k;
    graft_kernel_info info;
    memset(&info, 0x5a, sizeof info);
    info.size = 16; /* an older engine's record: nothing behind it is written */
    CHECK_INT(ref.api->prepare(ref.device, &d, 0, &k, &info, NULL, 0), GRAFT_OK);
    CHECK_INT(info.packed_bytes[0], 0x5a5a5a5a5a5a5a5a);
    ref.api->release(k);
    info.size = sizeof info;
    CHECK_INT(ref.api->prepare(ref.device, &d, 1, &k, &info, NULL, 0), GRAFT_E_ARG);
}

static void unknown_operators(void)
{
    graft_op_desc d = find_case(GRAFT_OP_ACT).desc;
    const graft_op none[] = {
        0, -1, GRAFT_OP_END, INT32_MAX, GRAFT_OP_QUANTIZE, GRAFT_OP_DEQUANTIZE};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        d.op = none[i];
        CHECK(refused(&ref, &d));
    }
}

static void conv_refuses(void)
{
    const graft_op_desc good = find_case(GRAFT_OP_CONV2D).desc;
    graft_op_desc d;
    CHECK(!refused(&ref, &good));
#define REFUSES(change)                                                                            \
    do {                                                                                           \
        d = good;                                                                                  \
        change;                                                                                    \
        CHECK(refused(&ref, &d));                                                                  \
    } while (0)
    REFUSES(d.attrs.stride_h = 0);
    REFUSES(d.attrs.stride_w = -1);
    REFUSES(d.attrs.pad_top = -1);
    REFUSES(d.attrs.pad_bottom = 5);
    REFUSES(d.attrs.kernel_h = 2);
    REFUSES(d.attrs.act = GRAFT_ACT_GEGLU);
    REFUSES(d.attrs.act = 77);
    REFUSES(d.attrs.upsample = 3);
    REFUSES(d.attrs.upsample = 2); /* without a size */
    REFUSES((d.attrs.upsample = 2, d.attrs.up_h = 17, d.attrs.up_w = 16));
    REFUSES(d.in[GRAFT_CONV_W].constant = 0);
    REFUSES(d.in[GRAFT_CONV_W].dtype = GRAFT_DTYPE_NONE);
    REFUSES(d.in[GRAFT_CONV_W].dim[1]++);
    REFUSES(d.in[GRAFT_CONV_BIAS].dim[0]++);
    REFUSES(d.in[GRAFT_CONV_X].dtype = GRAFT_BF16);
    REFUSES(d.in[GRAFT_CONV_X].dtype = 99);
    REFUSES(d.in[GRAFT_CONV_X].rank = 3);
    REFUSES(d.in[GRAFT_CONV_X].rank = 5);
    REFUSES(d.in[GRAFT_CONV_X].rank = -1);
    REFUSES(d.in[GRAFT_CONV_X].dim[0] = 0);
    REFUSES(d.in[GRAFT_CONV_X].dim[1] = INT64_MAX);
    REFUSES(d.in[GRAFT_CONV_X].stride[3] = 2);
    REFUSES(d.in[GRAFT_CONV_X].stride[1] = -32);
    REFUSES(d.in[GRAFT_CONV_X].stride[1] = INT64_MAX);
    REFUSES(d.in[5] = d.in[0]); /* no such input */
    REFUSES(d.out.dim[1]++);
    REFUSES(d.out.dim[3]++);
    REFUSES(d.out.stride[2] = 1); /* pixels overlap */
    REFUSES(d.out.dtype = GRAFT_DTYPE_NONE);
#undef REFUSES
}

static int64_t nasty(uint64_t *state)
{
    static const int64_t value[] = {0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    5,
                                    7,
                                    16,
                                    64,
                                    4096,
                                    INT32_MAX,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_C(1) << 40,
                                    INT64_C(1) << 62};
    return value[random_next(state) % (sizeof value / sizeof *value)];
}

static void mutate(graft_op_desc *d, uint64_t *state)
{
    uint64_t pick = random_next(state) % 7;
    graft_tensor_desc *t = &d->in[random_next(state) % GRAFT_MAX_INPUTS];
    if (pick < 4 && random_next(state) % 3 == 0) t = &d->out;
    switch (pick) {
    case 0:
        t->dim[random_next(state) % GRAFT_MAX_RANK] = nasty(state);
        break;
    case 1:
        t->stride[random_next(state) % GRAFT_MAX_RANK] = nasty(state);
        break;
    case 2:
        t->rank = (int32_t)nasty(state);
        break;
    case 3:
        t->dtype = (graft_dtype)(random_next(state) % 14);
        break;
    case 4:
        t->constant = !t->constant;
        break;
    case 5:
        d->op = (graft_op)(random_next(state) % (GRAFT_OP_END + 1));
        break;
    default: {
        int32_t value = (int32_t)nasty(state);
        size_t field = random_next(state) % (sizeof d->attrs / sizeof value);
        memcpy((char *)&d->attrs + field * sizeof value, &value, sizeof value);
    }
    }
}

/* Broken records are refused or understood, and never crash; both functions agree. */
static void mutations_are_survived(void)
{
    size_t count;
    kernel_case *list = kernel_cases(&count);
    uint64_t state = 3;
    int ok = 0, bad = 0;
    for (int i = 0; i < 100000; i++) {
        graft_op_desc d = list[random_next(&state) % count].desc;
        for (uint64_t n = 1 + random_next(&state) % 3; n > 0; n--) mutate(&d, &state);
        if (refused(&ref, &d))
            bad++;
        else
            ok++;
    }
    CHECK(ok > 1000 && bad > 10000);
    free(list);
}

/* Each allocation fails in turn: E_NOMEM, nothing leaks, and the next try works. */
static void memory_failures(void)
{
    graft_op_desc d = find_case(GRAFT_OP_CONV2D).desc;
    graft_kernel_info info = {.size = sizeof info};
    graft_alloc_stats before, after;
    graft_kernel *k;
    char text[128] = "";
    graft_alloc_stats_get(&before);
    graft_alloc_fail_at(1);
    CHECK_INT(ref.api->prepare(ref.device, &d, -1, &k, &info, text, sizeof text), GRAFT_E_NOMEM);
    CHECK(k == NULL && text[0]);
    graft_alloc_fail_at(1);
    CHECK(ref.api->alloc(ref.device, 64) == NULL);
    graft_alloc_fail_at(0);
    CHECK_INT(ref.api->prepare(ref.device, &d, -1, &k, &info, text, sizeof text), GRAFT_OK);
    int64_t n = element_count(&d.in[GRAFT_CONV_W]);
    float *w = calloc((size_t)n, sizeof *w), *packed = calloc((size_t)n, sizeof *w);
    graft_alloc_fail_at(1);
    CHECK_INT(ref.api->pack(k, GRAFT_CONV_W, GRAFT_F32, w, packed), GRAFT_E_NOMEM);
    graft_alloc_fail_at(0);
    CHECK_INT(ref.api->pack(k, GRAFT_CONV_W, GRAFT_F32, w, packed), GRAFT_OK);
    CHECK_INT(ref.api->pack(k, GRAFT_CONV_W, GRAFT_I8, w, packed), GRAFT_E_UNSUPPORTED);
    CHECK_INT(ref.api->pack(k, GRAFT_CONV_X, GRAFT_F32, w, packed), GRAFT_E_ARG);
    CHECK_INT(ref.api->pack(k, 9, GRAFT_F32, w, packed), GRAFT_E_ARG);
    CHECK_INT(ref.api->pack(k, -1, GRAFT_F32, w, packed), GRAFT_E_ARG);
    const void *in[GRAFT_MAX_INPUTS] = {packed, packed, NULL}; /* the bias is missing */
    CHECK_INT(ref.api->launch(k, in, w, NULL), GRAFT_E_ARG);
    ref.api->release(k);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
    free(w);
    free(packed);
}

/* Ids outside the table give zeros, and are not followed. */
static void wild_ids(void)
{
    graft_op_desc d = find_case(GRAFT_OP_EMBEDDING).desc;
    d.in[0].rank = d.in[1].rank = d.out.rank = 1;
    d.in[0].dim[0] = d.out.dim[0] = 6;
    d.in[1].rank = d.out.rank = 2;
    d.in[1].dim[0] = d.in[1].dim[1] = d.out.dim[1] = 2;
    make_dense(&d.in[0]), make_dense(&d.in[1]), make_dense(&d.out);
    const int32_t ids[6] = {0, -1, 1, 2, INT32_MAX, INT32_MIN};
    const int64_t wide[6] = {0, -1, 1, 2, INT64_MAX, INT64_MIN};
    const float table[4] = {1, 2, 3, 4}, want[12] = {1, 2, 0, 0, 3, 4};
    for (int w = 0; w < 2; w++) {
        graft_kernel_info info = {.size = sizeof info};
        graft_kernel *k;
        float packed[4], out[12];
        d.in[0].dtype = w ? GRAFT_I64 : GRAFT_I32;
        memset(out, 0xff, sizeof out);
        CHECK_INT(ref.api->prepare(ref.device, &d, -1, &k, &info, NULL, 0), GRAFT_OK);
        CHECK_INT(ref.api->pack(k, 1, GRAFT_F32, table, packed), GRAFT_OK);
        const void *in[GRAFT_MAX_INPUTS] = {w ? (const void *)wide : ids, packed};
        CHECK_INT(ref.api->launch(k, in, out, NULL), GRAFT_OK);
        CHECK(memcmp(out, want, sizeof out) == 0);
        ref.api->release(k);
    }
}

/* To whole numbers: nearest, ties to even, clamped; NaN gives 0. */
static void copies_to_whole_numbers(void)
{
    kernel_case c = {.desc = {.size = sizeof c.desc, .op = GRAFT_OP_COPY}};
    c.desc.in[0] = (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 1, .dim = {9}, .stride = {1}};
    c.desc.out = c.desc.in[0];
    c.desc.out.dtype = GRAFT_I8;
    const float x[9] = {0.5f, 1.5f, -2.5f, 127.6f, -1e30f, INFINITY, -INFINITY, NAN, -0.4f};
    const int8_t want[9] = {0, 2, -2, 127, -128, 127, -128, 0, 0};
    graft_kernel_info info = {.size = sizeof info};
    const void *in[GRAFT_MAX_INPUTS] = {x};
    graft_kernel *k;
    int8_t out[9];
    CHECK_INT(ref.api->prepare(ref.device, &c.desc, -1, &k, &info, NULL, 0), GRAFT_OK);
    CHECK_INT(ref.api->launch(k, in, out, NULL), GRAFT_OK);
    for (int i = 0; i < 9; i++) CHECK_INT(out[i], want[i]);
    ref.api->release(k);
}

static void inplace_where_dense(void)
{
    static const graft_op yes[] = {GRAFT_OP_ACT,       GRAFT_OP_ADD,      GRAFT_OP_MUL,
                                   GRAFT_OP_SCALE,     GRAFT_OP_PRELU,    GRAFT_OP_MEAN_SCALE,
                                   GRAFT_OP_LOW_SCALE, GRAFT_OP_RMS_NORM, GRAFT_OP_ROPE};
    for (graft_op op = 1; op < GRAFT_OP_END; op++) {
        if (op == GRAFT_OP_QUANTIZE || op == GRAFT_OP_DEQUANTIZE) continue;
        graft_op_desc d = find_case(op).desc;
        graft_kernel_info info = {.size = sizeof info};
        graft_kernel *k;
        int expected = 0;
        for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) expected |= op == yes[i];
        CHECK_INT(ref.api->prepare(ref.device, &d, -1, &k, &info, NULL, 0), GRAFT_OK);
        CHECK_INT(ref.api->inplace(k, 0), expected);
        CHECK_INT(ref.api->inplace(k, 1), 0);
        CHECK_INT(ref.api->inplace(k, -1), 0);
        ref.api->release(k);
    }
}

typedef struct weight {
    unsigned char *data; /* NULL: refused */
    graft_kernel_info info;
} weight;

/* What `lib` packs for the weight of a LINEAR with `size` outputs and inputs. */
static weight packed_weight(const kernel_lib *lib, graft_dtype dtype, int64_t rows,
                            const int64_t size[2], int32_t variant, const float *w)
{
    kernel_case c = {.desc = {.size = sizeof c.desc, .op = GRAFT_OP_LINEAR}};
    c.desc.in[0] = c.desc.out =
        (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 2, .dim = {rows, size[1]}};
    c.desc.out.dim[1] = size[0];
    c.desc.in[1] = (graft_tensor_desc){
        .dtype = GRAFT_F32, .rank = 2, .dim = {size[0], size[1]}, .constant = 1};
    make_dense(&c.desc.in[0]), make_dense(&c.desc.in[1]), make_dense(&c.desc.out);
    graft_op_desc d = case_desc(&c, dtype);
    graft_kernel *k;
    weight p = {NULL, {.size = sizeof p.info}};
    if (lib->api->prepare(lib->device, &d, variant, &k, &p.info, NULL, 0)) return p;
    size_t bytes = (size_t)p.info.packed_bytes[1];
    void *device = lib->api->alloc(lib->device, bytes);
    p.data = calloc(bytes, 1);
    CHECK_INT(lib->api->pack(k, 1, GRAFT_F32, w, device), GRAFT_OK);
    lib->api->download(lib->device, p.data, device, bytes);
    lib->api->free(lib->device, device);
    lib->api->release(k);
    return p;
}

static void same_where_equal(const weight *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            const graft_kernel_info *a = &list[i].info, *b = &list[k].info;
            if (!list[i].data || !list[k].data || a->packing[1] != b->packing[1]) continue;
            CHECK_INT(a->packed_bytes[1], b->packed_bytes[1]);
            bool same = memcmp(list[i].data, list[k].data, (size_t)a->packed_bytes[1]) == 0;
            CHECK(same);
            if (!same) printf("  %s, %s\n", a->variant, b->variant);
        }
}

/* Equal packing numbers mean equal bytes, whatever the number of rows and whichever the variant;
 * where there are as many inputs as outputs, other kernels' layouts look alike. */
static void packings_of(const kernel_lib *lib)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
    static const int64_t rows[] = {1, 2, 7, 64, 77, 1024};
    static const int64_t sizes[][2] = {{80, 96}, {4, 4}, {8, 8}, {96, 96}};
    enum { ROWS = 6, VARIANTS = 4 };
    float w[96 * 96];
    for (int i = 0; i < 96 * 96; i++) w[i] = (float)(i % 513 - 256) / 256;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t t = 0; t < 3; t++) {
            weight list[ROWS * VARIANTS];
            size_t n = 0;
            for (size_t i = 0; i < ROWS; i++)
                for (int32_t v = 0, count = 1; v < count && v < VARIANTS; v++) {
                    list[n] = packed_weight(lib, dtypes[t], rows[i], sizes[s], v, w);
                    count = list[n++].info.variant_count;
                }
            same_where_equal(list, n);
            for (size_t i = 0; i < n; i++) free(list[i].data);
        }
}

/* More rows than 32 bits count: prepared or refused, but the process lives. */
static void far_too_many_rows(const kernel_lib *lib)
{
    static const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
    const float w[80 * 96] = {0};
    for (size_t t = 0; t < 3; t++)
        for (int bits = 30; bits < 40; bits++) {
            static const int64_t size[2] = {80, 96};
            free(packed_weight(lib, dtypes[t], INT64_C(1) << bits, size, -1, w).data);
        }
}

/* As many pixels as 16384 x 16384: likewise. */
static void far_too_many_pixels(const kernel_lib *lib)
{
    for (int bits = 10; bits < 20; bits++) {
        kernel_case c = {.desc = {.size = sizeof c.desc, .op = GRAFT_OP_CONV2D}};
        graft_kernel *k;
        graft_kernel_info info = {.size = sizeof info};
        c.desc.in[GRAFT_CONV_X] = c.desc.out = (graft_tensor_desc){
            .dtype = GRAFT_F32, .rank = 4, .dim = {1, INT64_C(1) << bits, INT64_C(1) << bits, 32}};
        c.desc.in[GRAFT_CONV_W] = (graft_tensor_desc){
            .dtype = GRAFT_F32, .rank = 4, .dim = {32, 32, 3, 3}, .constant = 1};
        c.desc.attrs.kernel_h = c.desc.attrs.kernel_w = 3;
        c.desc.attrs.stride_h = c.desc.attrs.stride_w = 1;
        c.desc.attrs.pad_top = c.desc.attrs.pad_bottom = 1;
        c.desc.attrs.pad_left = c.desc.attrs.pad_right = 1;
        make_dense(&c.desc.in[GRAFT_CONV_X]), make_dense(&c.desc.in[GRAFT_CONV_W]);
        make_dense(&c.desc.out);
        char text[256];
        graft_status st = lib->api->prepare(lib->device, &c.desc, -1, &k, &info, text, sizeof text);
        CHECK(bits > 10 || !st); /* the record is a right one */
        if (!st) lib->api->release(k);
    }
}

/* What is no number stays none, in vectors and behind the last whole one. */
static void prelu_of_no_number(const kernel_lib *lib)
{
    enum { N = 37 };
    kernel_case c = {.desc = {.size = sizeof c.desc, .op = GRAFT_OP_PRELU}};
    graft_tensor_desc *in = c.desc.in;
    in[0] = c.desc.out = (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 2, .dim = {1, N}};
    in[1] = (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 1, .dim = {N}, .constant = 1};
    make_dense(&in[0]), make_dense(&in[1]), make_dense(&c.desc.out);
    float x[N] = {0}, slope[N], packed[N], out[N] = {0};
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k;
    char text[256] = "";
    for (int i = 0; i < N; i++) slope[i] = 0.25f;
    x[0] = x[N - 1] = NAN;
    x[1] = -INFINITY;
    x[2] = INFINITY;
    if (!lib->info.host_memory) return; /* where these arrays are not */
    CHECK_INT(lib->api->prepare(lib->device, &c.desc, -1, &k, &info, text, sizeof text), GRAFT_OK);
    if (!k) return;
    CHECK(info.packed_bytes[1] <= sizeof packed);
    CHECK_INT(lib->api->pack(k, 1, GRAFT_F32, slope, packed), GRAFT_OK);
    CHECK_INT(lib->api->launch(k, (const void *[GRAFT_MAX_INPUTS]){x, packed}, out, NULL),
              GRAFT_OK);
    CHECK(isnan(out[0]) && isnan(out[N - 1]));
    CHECK(out[1] == -INFINITY && out[2] == INFINITY && out[3] == 0);
    lib->api->release(k);
}

/* One picture of 3 x 5 pixels with 7 channels through MEAN_SCALE or LOW_SCALE; factor 2.5. */
static void scale_parts(const kernel_lib *lib, graft_op op, float *x, float *out)
{
    kernel_case c = {.desc = {.size = sizeof c.desc, .op = op}};
    float factor = 2.5f, *val[GRAFT_MAX_INPUTS] = {x, &factor};
    case_result got;
    c.desc.in[0] = c.desc.out =
        (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 4, .dim = {1, 3, 5, 7}};
    c.desc.in[1] = (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 1, .dim = {1}};
    make_dense(&c.desc.in[0]), make_dense(&c.desc.in[1]), make_dense(&c.desc.out);
    case_run(lib, &c, GRAFT_F32, -1, val, &got);
    CHECK_STR(got.fault, "");
    if (got.out) memcpy(out, got.out, 3 * 5 * 7 * sizeof *out);
    free(got.out);
}

/* Pictures without any difference between their pixels stay as they are, and one mean that is no
 * number makes all of its picture's first half none; but nothing of the second. */
static void means_of_no_range(const kernel_lib *lib)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    float x[3 * 5 * 7], out[3 * 5 * 7] = {0};
    for (int i = 0; i < 3 * 5 * 7; i++) x[i] = (float)(i % 7) - 2;
    scale_parts(lib, GRAFT_OP_MEAN_SCALE, x, out);
    CHECK(memcmp(x, out, sizeof x) == 0);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 3 * 5 * 7; i++) x[i] = (float)(i % 11);
        x[7 * 4 + 6] = odd[k];
        scale_parts(lib, GRAFT_OP_MEAN_SCALE, x, out);
        for (int i = 0; i < 3 * 5 * 7; i++)
            CHECK(i % 7 < 3 ? isnan(out[i]) : i == 7 * 4 + 6 || out[i] == x[i]);
    }
}

/* What is no number reaches all of its channel, and no other one. */
static void waves_of_no_number(const kernel_lib *lib)
{
    float x[3 * 5 * 7], out[3 * 5 * 7] = {0};
    for (int i = 0; i < 3 * 5 * 7; i++) x[i] = (float)(i % 11);
    x[7 * 4 + 6] = NAN;
    scale_parts(lib, GRAFT_OP_LOW_SCALE, x, out);
    for (int i = 0; i < 3 * 5 * 7; i++) CHECK(isnan(out[i]) == (i % 7 == 6));
}

static void each_library(void)
{
    glob_t found;
    if (glob(GRAFT_LIB_DIR "/graft_kernels_*.so", 0, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        kernel_lib lib;
        if (!lib_open(found.gl_pathv[i], &lib)) continue;
        packings_of(&lib);
        far_too_many_rows(&lib);
        far_too_many_pixels(&lib);
        prelu_of_no_number(&lib);
        means_of_no_range(&lib);
        waves_of_no_number(&lib);
        lib_close(&lib);
    }
    globfree(&found);
}

/* A library for the processor has what this process may have, not what the machine has. */
static void memory_has_limits(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("  skipped: a sanitizer needs more address space\n");
#else
    kernel_lib lib;
    struct rlimit own, less;
    if (!lib_open(CPU_PATH, &lib)) return;
    uint64_t all = lib.info.memory_total;
    lib_close(&lib);
    CHECK(all > 0);
    CHECK(getrlimit(RLIMIT_AS, &own) == 0);
    less = own;
    less.rlim_cur = all / 2;
    CHECK(setrlimit(RLIMIT_AS, &less) == 0);
    if (lib_open(CPU_PATH, &lib)) {
        CHECK(lib.info.memory_total == all / 2);
        lib_close(&lib);
    }
    CHECK(setrlimit(RLIMIT_AS, &own) == 0);
#endif
}

int main(void)
{
    bool open = lib_open_with(REF_PATH, counted_host(), &ref);
    CHECK(open);
    if (!open) return test_end();
    RUN(entry_is_complete);
    RUN(create_refuses);
    RUN(older_hosts);
    RUN(records_may_grow);
    RUN(unknown_operators);
    RUN(conv_refuses);
    RUN(mutations_are_survived);
    RUN(memory_failures);
    RUN(wild_ids);
    RUN(copies_to_whole_numbers);
    RUN(inplace_where_dense);
    RUN(memory_has_limits);
    RUN(each_library);
    lib_close(&ref);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
