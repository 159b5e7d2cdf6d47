/* What the nodes that show pictures to a model share. */
#ifndef GRAFT_NODES_IP_ADAPTER_H
#define GRAFT_NODES_IP_ADAPTER_H
#include "nodes/node.h"

/* Inputs of a node, by their numbers; -1: it has no such input. */
typedef struct graft_ip_adapter_inputs {
    int model, ipadapter, image, negative, vision, mask, weight, start, end;
} graft_ip_adapter_inputs;

/* The call's model with the pictures, as its output 0. */
graft_status graft_ip_adapter_apply(graft_call *c, const graft_ip_adapter_inputs *in);
#endif
