#include "bench/quantized.h"

graft_status quantize_all(const graft_model *m, graft_model **out, graft_err *e)
{
    const graft_quant_limits all = {{true, true, true}, {1, 1, 1}, 0};
    graft_net_shape shape = {
        .batch = 2, .height = 64, .width = 64, .tokens = 77, .act_dtype = GRAFT_F32};
    graft_quant_plan *p = NULL;
    graft_status st = graft_quant_plan_create(&m->arch, &shape, &p, e);
    if (st) return st;
    graft_quant_plan_select(p, &all);
    st = graft_model_with_plan(m, p, out, e);
    graft_quant_plan_destroy(p);
    return st;
}
