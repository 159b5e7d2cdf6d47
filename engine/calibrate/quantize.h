/* How a plan of quantization comes about, and what is told of it. */
#ifndef GRAFT_CALIBRATE_QUANTIZE_H
#define GRAFT_CALIBRATE_QUANTIZE_H
#include "base/str.h"
#include "engine/objects/objects.h"
#include "engine/objects/quantizer.h"

/* What to calibrate on. */
typedef struct graft_calibration {
    const graft_sampling *sampling; /* of the model, with `negative` given */
    const graft_latent *latent;
    int32_t bits;
    graft_quant_format format;
    graft_quant_limits limits;
    bool unmeasured;
} graft_calibration;

/* Samples twice, thrice when the joint error asks for it, and measures every layer on one recorded
 * step in between. Always with default precision and variants, so that the plan does not depend on
 * whether the model was compiled before or will be after. Progress in thousandths of the whole,
 * phase "calibrate". A model without a layer above the density is not sampled, nor is one that is
 * to be unmeasured: its layers are chosen by kind and density alone, and it need not fit into
 * memory as it is. */
graft_status graft_calibrate(const graft_calibration *c, const graft_task *task,
                             graft_quant_plan **out, graft_err *e);

/* Before a sampling run, `negative` given: *out is the model to run when the sampling's waits for a
 * calibration or got one since it was made, else NULL. The first run calibrates. */
graft_status graft_quantizer_settle(const graft_sampling *s, const graft_latent *latent,
                                    const graft_task *task, graft_model **out, graft_err *e);
/* What was chosen, what it brings and costs, and what would bring more. */
graft_status graft_quantizer_report(const graft_model *m, graft_str *s, graft_err *e);
/* Layers by density and error. */
graft_status graft_quant_plan_draw(const graft_quant_plan *p, graft_image **out, graft_err *e);
#endif
