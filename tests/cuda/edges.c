/* Tensors and batches beyond what kernels count; where norms of groups go which way. */
#include "tests/cuda/backend.h"
#include "tests/kernels/harness.h"
#include "tests/test.h"

static kernel_lib cuda;

static graft_op_desc conv_of(int64_t n, int64_t h, int64_t w, int64_t c, int64_t o, bool up)
{
    int64_t side = up ? 2 : 1;
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_CONV2D};
    d.in[GRAFT_CONV_X] = tensor_of(4, n, h, w, c);
    d.in[GRAFT_CONV_W] = tensor_of(4, o, c, 3, 3);
    d.in[GRAFT_CONV_W].constant = 1;
    d.out = tensor_of(4, n, side * h, side * w, o);
    d.attrs = (graft_attrs){ATTRS_3X3};
    if (!up) return d;
    d.attrs.upsample = 2;
    d.attrs.up_h = (int32_t)(2 * h);
    d.attrs.up_w = (int32_t)(2 * w);
    return d;
}

/* How many kernels there are to choose from, and whether cuDNN's is the first choice. */
static int32_t choices(const graft_op_desc *d, bool *library)
{
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    char text[200] = "";
    CHECK_INT(cuda.api->prepare(cuda.device, d, -1, &k, &info, text, sizeof text), GRAFT_OK);
    if (k) cuda.api->release(k);
    *library = strncmp(info.variant, "own", 3) != 0;
    return info.variant_count;
}

/* cuDNN is handed a doubled copy, which is counted in 32 bits, or bands of it (conv2d_bands.h); the
 * smaller convolution needs none (conv2d_corners.h), but is nobody's first choice. */
static void doubled_beyond_counting(void)
{
    graft_op_desc fits = conv_of(1, 1024, 1024, 192, 64, true);
    graft_op_desc large = conv_of(1, 3072, 2048, 192, 64, true);
    bool library = false;
    CHECK(choices(&fits, &library) > 1 && library);
    CHECK(choices(&large, &library) > 1 && library);
    lib_close(&cuda);
    setenv("GRAFT_CUDA_BANDS", "off", 1);
    CHECK(lib_open(CUDA_LIBRARY, &cuda));
    CHECK(choices(&fits, &library) > 1 && library);
    CHECK(choices(&large, &library) > 1 && !library);
    unsetenv("GRAFT_CUDA_BANDS");
}

/* Pictures are a dimension of the grid, of which there are 65535. */
static void many_pictures(void)
{
    static const int32_t levels[] = {GRAFT_QUANT_INT8, GRAFT_QUANT_FP8};
    for (int i = 0; i < 2; i++) {
        graft_op_desc d = conv_of(65535, 1, 1, 16, 16, false);
        d.attrs.quant = levels[i];
        CHECK(cuda.api->supports(cuda.device, &d));
        d = conv_of(65536, 1, 1, 16, 16, false);
        CHECK(cuda.api->supports(cuda.device, &d));
        d.attrs.quant = levels[i];
        CHECK(!cuda.api->supports(cuda.device, &d));
    }
}

static graft_op_desc norm_of(int64_t n, int64_t side, int64_t channels, int32_t groups)
{
    graft_op_desc d = {.size = sizeof d, .op = GRAFT_OP_GROUP_NORM};
    d.in[GRAFT_NORM_X] = d.out = tensor_of(4, n, side, side, channels);
    d.in[GRAFT_NORM_GAMMA] = d.in[GRAFT_NORM_BETA] = tensor_of(1, channels, 0, 0, 0);
    d.in[GRAFT_NORM_GAMMA].constant = d.in[GRAFT_NORM_BETA].constant = 1;
    d.attrs = (graft_attrs){.groups = groups, .act = GRAFT_ACT_SILU, .eps = 1e-5f};
    return d;
}

/* Of how many ways GROUP_NORM has the choice, and which it chooses itself. */
static void norm_is(graft_op_desc d, int32_t ways, int32_t own)
{
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    CHECK_INT(cuda.api->prepare(cuda.device, &d, -1, &k, &info, NULL, 0), GRAFT_OK);
    if (k) cuda.api->release(k);
    CHECK_INT(info.variant_count, ways);
    CHECK_INT(info.variant_index, own);
}

static void ways_to_norm_groups(void)
{
    norm_is(norm_of(2, 8, 1280, 32), 3, 2);
    norm_is(norm_of(2, 16, 1280, 32), 3, 2);
    norm_is(norm_of(2, 64, 320, 32), 2, 1);
    norm_is(norm_of(1, 512, 128, 32), 2, 0); /* parts would be joined too often */
    norm_is(norm_of(1, 8, 1032, 2), 1, 0);   /* no slice of whole groups */
    norm_is(norm_of(1, 8, 36, 2), 1, 0);     /* no eights */
    graft_op_desc d = norm_of(2, 8, 1280, 32);
    d.in[GRAFT_NORM_MOMENTS] = tensor_of(3, 2, 32, 2, 0);
    d.in[GRAFT_NORM_MOMENTS].dtype = GRAFT_F32;
    norm_is(d, 1, 0);
    d = norm_of(2, 8, 1280, 32);
    d.attrs.act = GRAFT_ACT_GELU;
    norm_is(d, 1, 0);
    graft_kernel_info info = {.size = sizeof info};
    graft_kernel *k = NULL;
    d = norm_of(2, 64, 320, 32);
    CHECK_INT(cuda.api->prepare(cuda.device, &d, 2, &k, &info, NULL, 0), GRAFT_E_ARG);
}

int main(void)
{
    use_fake_driver();
    if (!lib_open(CUDA_LIBRARY, &cuda)) return 1;
    RUN(doubled_beyond_counting);
    RUN(many_pictures);
    RUN(ways_to_norm_groups);
    lib_close(&cuda);
    return test_end();
}
