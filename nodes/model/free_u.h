/* What the two versions of FreeU have in common. */
#ifndef GRAFT_NODES_FREE_U_H
#define GRAFT_NODES_FREE_U_H
#include "nodes/node.h"

enum { FREE_U_MODEL, FREE_U_B1, FREE_U_B2, FREE_U_S1, FREE_U_S2 };
#define IN_FREE_U(name, standard, text) IN_FLOAT(name, standard, 0.0, 10.0, 0.01, text)
#define IN_FREE_U_MODEL()               IN_OBJECT("model", "MODEL", "The diffusion model.")
#define IN_FREE_U_S1()                                                                             \
    IN_FREE_U("s1", 0.9,                                                                           \
              "How much of the coarsest waves the shortcuts bring to where b1 counts: less keeps " \
              "a high b1 from smoothing everything. 1 changes nothing.")
#define IN_FREE_U_S2() IN_FREE_U("s2", 0.2, "The same where b2 counts.")

static inline graft_status free_u_run(graft_call *c, int64_t version)
{
    graft_model *model = NULL;
    const graft_freeu_options options = {.version = version,
                                         .b1 = graft_arg_f64(c, FREE_U_B1),
                                         .b2 = graft_arg_f64(c, FREE_U_B2),
                                         .s1 = graft_arg_f64(c, FREE_U_S1),
                                         .s2 = graft_arg_f64(c, FREE_U_S2)};
    graft_status st =
        graft_model_freeu(graft_arg_model(c, FREE_U_MODEL), &options, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}
#endif
