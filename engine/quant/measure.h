/* How much of an error each layer's quantization causes in the UNet's output, from one recorded
 * call.
 *
 * Each quantized twin runs on the recorded input. Its error is followed through the few operators
 * up to the next place that everything behind the layer must pass (a post-dominator of the graph),
 * the layer's hub. How much of what arrives at a hub reaches the output is measured once a hub,
 * with the errors of all its layers added under random signs. So a layer costs a short stretch of
 * the UNet instead of all of it, and stretches and hubs are balanced: about sqrt(layers) hubs. Of
 * layers that a pass joined each one's error is followed from where its own columns are read. */
#ifndef GRAFT_QUANT_MEASURE_H
#define GRAFT_QUANT_MEASURE_H
#include "engine/exec/run.h"
#include "engine/quant/plan.h"

typedef struct graft_quant_record {
    graft_binding *binding;   /* the whole UNet, unquantized */
    graft_binding *quantized; /* and with every layer quantized that may be */
    const void *const *in;    /* as for graft_exe_run */
    const float *weight; /* the guided output is the sum of weight[r] times row r of the batch */
} graft_quant_record;

/* Layers that the backend cannot quantize stay unmeasured; so does attention whose twin gives the
 * same bits, as libraries may compute it as it is although integers are allowed.
 *
 * Sets error[i] for layer i of the plan to the mean squared error of the guided output, NAN where
 * it could not be measured; adds the layers' seconds and the whole run's to the plan. `advance` is
 * called with the share that is done. */
graft_status graft_quant_measure(graft_quant_plan *p, const graft_quant_record *record,
                                 const graft_task *task, void (*advance)(void *ctx, double share),
                                 void *ctx, double *error, graft_err *e);
#endif
