/* Tensors and batches beyond what kernels count. */
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
    d.attrs = (graft_attrs){.kernel_h = 3,
                            .kernel_w = 3,
                            .stride_h = 1,
                            .stride_w = 1,
                            .pad_top = 1,
                            .pad_left = 1,
                            .pad_bottom = 1,
                            .pad_right = 1};
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

/* cuDNN is handed a doubled copy, which is counted in 32 bits. */
static void doubled_beyond_counting(void)
{
    graft_op_desc fits = conv_of(1, 1024, 1024, 192, 64, true);
    graft_op_desc large = conv_of(1, 3072, 2048, 192, 64, true);
    bool library = false;
    CHECK(choices(&fits, &library) > 1 && library);
    CHECK(choices(&large, &library) == 1 && !library);
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

int main(void)
{
    use_fake_driver();
    if (!lib_open(CUDA_LIBRARY, &cuda)) return 1;
    RUN(doubled_beyond_counting);
    RUN(many_pictures);
    lib_close(&cuda);
    return test_end();
}
