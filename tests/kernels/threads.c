/* The cpu library's results do not depend on the number of threads, to the last bit: all that it
 * computes by itself, and what it leaves to oneDNN at the shapes that models have. oneDNN makes no
 * such promise; elsewhere its results are counted and not judged. */
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/harness.h"
#include "tests/test.h"

static const int counts[] = {1, 3, 8};
#define COUNTS (sizeof counts / sizeof *counts)

static kernel_lib cpu, lib[COUNTS];
static int same, others; /* others: differ, and are not judged */

static void compare(const kernel_case *c, graft_dtype t, bool always)
{
    float *val[GRAFT_MAX_INPUTS];
    size_t bytes = (size_t)element_count(&c->desc.out) * sizeof(float);
    graft_op_desc d = case_desc(c, t);
    if (!cpu.api->supports(cpu.device, &d)) return;
    case_values(c, t, 11, val);
    case_result want = {0};
    for (size_t i = 0; i < COUNTS; i++) {
        case_result got;
        case_run(&lib[i], c, t, -1, val, &got);
        CHECK_STR(got.fault, "");
        if (!i) {
            want = got;
            continue;
        }
        bool equal = want.out && got.out && !memcmp(want.out, got.out, bytes);
        bool judged = always || !strstr(got.variant, "dnnl") || strstr(got.variant, "dnnl int8");
        if (!equal && judged)
            fprintf(stderr, "  %s [%s, %s], %d threads: other bits\n", c->name,
                    t == GRAFT_F32 ? "f32" : "bf16", got.variant, counts[i]);
        CHECK(equal || !judged);
        same += equal;
        others += !equal;
        free(got.out);
    }
    free(want.out);
    values_free(val);
}

static void in_both(kernel_case *c, bool always)
{
    bool weights = c->desc.op == GRAFT_OP_CONV2D || c->desc.op == GRAFT_OP_LINEAR;
    bool attention = c->desc.op == GRAFT_OP_ATTENTION;
    int most = weights ? GRAFT_QUANT_INT4 : attention ? GRAFT_QUANT_INT8 : GRAFT_QUANT_NONE;
    for (int quant = 0; quant <= most; quant++) {
        c->desc.attrs.quant = (graft_quant)quant;
        compare(c, GRAFT_F32, always);
        if (!c->fixed) compare(c, GRAFT_BF16, always);
    }
}

static bool heavy(const kernel_case *c)
{
    return truth_cost(c) * (double)element_count(&c->desc.out) > 1e7;
}

static void every_operator(void)
{
    size_t n;
    kernel_case *list = kernel_cases(&n);
    for (size_t i = 0; i < n; i++)
        if (!heavy(&list[i])) in_both(&list[i], false);
    printf("%d results the same, %d of oneDNN's not\n", same, others);
    free(list);
}

static graft_tensor_desc tensor(int rank, const int64_t *dim, bool constant)
{
    graft_tensor_desc t = {.dtype = GRAFT_F32, .rank = rank, .constant = constant};
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    make_dense(&t);
    return t;
}

/* The convolutions that are no business of Winograd's: first, last and down-sampling. */
static void convolutions_of_models(void)
{
    static const struct {
        int64_t size, in, out;
        int kernel, stride, before, after;
    } shapes[] = {
        {16, 4, 320, 3, 1, 1, 1},     {16, 320, 4, 3, 1, 1, 1},   {16, 320, 320, 3, 2, 1, 1},
        {16, 1280, 1280, 3, 2, 1, 1}, {8, 1280, 640, 1, 1, 0, 0}, {32, 3, 128, 3, 1, 1, 1},
        {32, 128, 3, 3, 1, 1, 1},     {32, 128, 128, 3, 2, 0, 1}, {8, 4, 512, 3, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        kernel_case c = {.source = GRAFT_F32};
        int64_t size = shapes[i].size, in = shapes[i].in, out = shapes[i].out;
        int64_t over = size + shapes[i].before + shapes[i].after - shapes[i].kernel;
        int64_t small = over / shapes[i].stride + 1;
        graft_attrs *a = &c.desc.attrs;
        c.desc.size = sizeof c.desc;
        c.desc.op = GRAFT_OP_CONV2D;
        a->stride_h = a->stride_w = shapes[i].stride;
        a->pad_top = a->pad_left = shapes[i].before;
        a->pad_bottom = a->pad_right = shapes[i].after;
        c.desc.in[GRAFT_CONV_X] = tensor(4, (int64_t[]){1, size, size, in}, false);
        c.desc.in[GRAFT_CONV_W] =
            tensor(4, (int64_t[]){out, in, shapes[i].kernel, shapes[i].kernel}, true);
        c.desc.in[GRAFT_CONV_BIAS] = tensor(1, &out, true);
        c.desc.out = tensor(4, (int64_t[]){1, small, small, out}, false);
        snprintf(c.name, sizeof c.name, "%lldx%lld, %lld to %lld, stride %d", (long long)size,
                 (long long)size, (long long)in, (long long)out, shapes[i].stride);
        in_both(&c, true);
    }
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__)
    printf("skipped: bits are the same under sanitizers; the plain build compares them\n");
    return 0;
#endif
    setenv("OMP_NUM_THREADS", "8", 1); /* the library starts no more than that */
    if (!lib_open(GRAFT_LIB_DIR "/graft_kernels_cpu.so", &cpu)) return test_end();
    for (size_t i = 0; i < COUNTS; i++) {
        graft_kernels_host host = *lib_host();
        char text[256];
        host.threads = counts[i];
        lib[i] = cpu;
        CHECK(!cpu.api->create(&host, 0, &lib[i].device, text, sizeof text));
    }
    RUN(every_operator);
    RUN(convolutions_of_models);
    for (size_t i = 0; i < COUNTS; i++) lib_close(&lib[i]);
    lib_close(&cpu);
    return test_end();
}
