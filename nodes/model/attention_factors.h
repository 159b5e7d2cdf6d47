/* The inputs of the nodes that multiply an attention's weights. */
#ifndef GRAFT_NODES_ATTENTION_FACTORS_H
#define GRAFT_NODES_ATTENTION_FACTORS_H
#include "nodes/node.h"

#define IN_ATTENTION_FACTOR(name, what)                                                            \
    IN_FLOAT(name, 1.0, 0.0, 10.0, 0.01, "Factor of the weights and biases of " what "; 1: as is.")
/* Inputs 1 to 4. */
#define IN_ATTENTION_FACTORS                                                                       \
    IN_ATTENTION_FACTOR("q", "queries"), IN_ATTENTION_FACTOR("k", "keys"),                         \
        IN_ATTENTION_FACTOR("v", "values"),                                                        \
        IN_ATTENTION_FACTOR("out", "the layer behind attention")

static inline graft_attention_factors graft_arg_attention_factors(const graft_call *c)
{
    return (graft_attention_factors){graft_arg_f64(c, 1), graft_arg_f64(c, 2), graft_arg_f64(c, 3),
                                     graft_arg_f64(c, 4)};
}
#endif
