/* Which of oneDNN's convolutions are taken; docs/architecture.md, "Processors", says more. */
#include <string.h>

#include "kernels/cpu/conv2d.h"

/* Steps over rows or columns: the kernel is smaller than the stride, the last ones are read by no
 * output, or the last row of outputs reads none. */
static bool steps_over(const graft_op_desc *op)
{
    const graft_attrs *a = &op->attrs;
    const graft_tensor_desc *y = &op->out, *w = &op->in[GRAFT_CONV_W];
    int64_t height, width;
    graft_cpu_conv2d_input_size(op, &height, &width);
    int64_t last_y = (y->dim[1] - 1) * a->stride_h - a->pad_top;
    int64_t last_x = (y->dim[2] - 1) * a->stride_w - a->pad_left;
    return w->dim[2] < a->stride_h || w->dim[3] < a->stride_w || last_y + w->dim[2] < height ||
           last_x + w->dim[3] < width || last_y >= height;
}

/* Whether some outputs read less than half of a kernel, or none of it. */
static bool pads_widely(const graft_op_desc *op)
{
    const graft_attrs *a = &op->attrs;
    const int64_t *w = op->in[GRAFT_CONV_W].dim;
    return a->pad_top > w[2] / 2 || a->pad_bottom > w[2] / 2 || a->pad_left > w[3] / 2 ||
           a->pad_right > w[3] / 2;
}

/* With AMX oneDNN 2.6.3 has two convolutions that go wrong. The one by blocks of pictures copies
 * rows ahead; where a stride leaves some out it calls code that it did not generate, or multiplies
 * what it did not copy; with more than half a kernel of padding it looks behind the end of a table
 * while it is made, which AddressSanitizer's memory shows. The one of 1 x 1 without blocks writes
 * pixels behind the output's last. */
static bool is_sound(const graft_op_desc *op, const_dnnl_primitive_desc_t pd)
{
    const char *name = graft_cpu_primitive_name(pd);
    if (strstr(name, "jit_1x1:avx512_core_amx")) return false;
    if (!strstr(name, "brgconv:avx512_core_amx")) return true;
    if (pads_widely(op)) return false;
    return (op->attrs.stride_h == 1 && op->attrs.stride_w == 1) || !steps_over(op);
}

dnnl_status_t graft_cpu_conv2d_create(graft_device *d, const graft_op_desc *op,
                                      const dnnl_convolution_desc_t *cd,
                                      const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd,
                                      bool *passed)
{
    dnnl_primitive_desc_iterator_t each = NULL;
    dnnl_status_t st = dnnl_primitive_desc_iterator_create(&each, cd, attr, d->engine, NULL);
    *pd = NULL;
    *passed = false;
    while (!st) {
        *pd = dnnl_primitive_desc_iterator_fetch(each);
        if (!*pd) st = dnnl_out_of_memory;
        if (st || is_sound(op, *pd)) break;
        dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
        *passed = true;
        st = dnnl_primitive_desc_iterator_next(each);
        if (st == dnnl_iterator_ends) st = dnnl_unimplemented;
    }
    if (each) dnnl_primitive_desc_iterator_destroy(each);
    return st;
}
