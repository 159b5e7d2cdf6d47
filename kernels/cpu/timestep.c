/* TIMESTEP: cos then sin of t * 10000^(-i / (dim / 2)) (Vaswani et al., 2017).
 *
 * The frequencies and their products with t are rounded to float32 step by step, because trained
 * models saw them so: at t = 999 the rounding of an angle is 3e-5. */
#include <math.h>

#include "base/half.h"
#include "kernels/cpu/cpu.h"

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *t = &op->in[0], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(t, 1, "timestep_embedding: t", e));
    GRAFT_TRY(graft_cpu_check_float(y, 2, "timestep_embedding: output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 1, e));
    if (t->constant || t->dtype != GRAFT_F32)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "timestep_embedding: t must be float32");
    if (y->dim[0] != t->dim[0] || y->dim[1] % 2)
        st = graft_fail(e, GRAFT_E_ARG, "timestep_embedding: the output must be (N, even)");
out:
    return st;
}

static void put(void *p, graft_dtype t, int64_t at, float v)
{
    if (t == GRAFT_F32) {
        ((float *)p)[at] = v;
    } else {
        ((uint16_t *)p)[at] = graft_f32_to_bf16(v);
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const graft_tensor_desc *t = &k->op.in[0], *y = &k->op.out;
    int64_t half = y->dim[1] / 2;
    (void)workspace;
    for (int64_t i = 0; i < half; i++) {
        float exponent = -9.210340371976184f * (float)i; /* -ln 10000 */
        float frequency = (float)exp((double)(exponent / (float)half));
        for (int64_t n = 0; n < t->dim[0]; n++) {
            float angle = ((const float *)in[0])[n * t->stride[0]] * frequency;
            put(out, y->dtype, n * y->stride[0] + i, (float)cos((double)angle));
            put(out, y->dtype, n * y->stride[0] + half + i, (float)sin((double)angle));
        }
    }
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_timestep = {check, NULL, NULL, NULL, launch, NULL};
