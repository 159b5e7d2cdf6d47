#include "nodes/merging/merge_parts.h"

graft_status graft_merge_parts_run(graft_call *c, const graft_input *const *inputs)
{
    graft_merge_part part[GRAFT_CALL_MAX_INPUTS];
    graft_model *model;
    size_t n = 0;
    for (int i = 2; inputs[i] && n < GRAFT_CALL_MAX_INPUTS; i++)
        part[n++] = (graft_merge_part){inputs[i]->name, graft_arg_f64(c, i)};
    graft_call_blame(c, 1); /* may be of another architecture */
    graft_status st = graft_model_merge_parts(graft_arg_model(c, 0), graft_arg_model(c, 1), part, n,
                                              &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}
