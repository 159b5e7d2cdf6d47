#include "kernels/ref/ref.h"

/* QUANTIZE and DEQUANTIZE: the oracle computes in float32 only. */
static graft_status check(const graft_op_desc *d, graft_err *e)
{
    (void)d;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "this library computes in float32");
}

static void run(const graft_op_desc *d, const void *const *in, void *out, float *workspace)
{
    (void)d, (void)in, (void)out, (void)workspace; /* not reached: check() refuses */
}

const graft_ref_op graft_ref_op_QUANTIZE = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = GRAFT_MAX_INPUTS, .optional = ~0u};
const graft_ref_op graft_ref_op_DEQUANTIZE = {
    .check = check, .run = GRAFT_REF_CODE(run), .inputs = GRAFT_MAX_INPUTS, .optional = ~0u};
