#include "engine/models/encoders/redux.h"

#include "engine/models/parts/build.h"

graft_status graft_redux_build(const graft_redux_arch *a, int64_t tokens, graft_dtype act_dtype,
                               graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "Redux's graph");
    const graft_build b = {g, act_dtype};
    const int64_t dim[3] = {1, tokens, a->seen};
    graft_vid x = graft_build_cast(&b, graft_graph_input(g, GRAFT_F32, 3, dim), act_dtype);
    x = graft_build_linear(&b, graft_name_make("redux_up"), x, a->inner, true);
    x = graft_build_act(&b, x, GRAFT_ACT_SILU);
    x = graft_build_linear(&b, graft_name_make("redux_down"), x, a->width, true);
    graft_graph_output(g, graft_build_cast(&b, x, GRAFT_F32));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
