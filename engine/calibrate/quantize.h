/* What QuantizeModel leaves in a model, and how a plan comes about. */
#ifndef GRAFT_CALIBRATE_QUANTIZE_H
#define GRAFT_CALIBRATE_QUANTIZE_H
#include "base/str.h"
#include "engine/objects/objects.h"

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

/* One use of QuantizeModel, shared by all models that come from it. Any thread. */
struct graft_quantizer {
    _Atomic int refs;
    pthread_mutex_t lock;   /* guards what follows */
    graft_quant_plan *plan; /* NULL until the first sampling run has calibrated; then it stays */
    graft_quant_choice choice;
    int32_t bits;
    graft_quant_format format;
    graft_quant_limits limits;
    bool unmeasured;
    char *path; /* NULL: the plan is not kept */
};
/* What was chosen, what it brings and costs, and what would bring more. */
graft_status graft_quantizer_report(const graft_model *m, graft_str *s, graft_err *e);
/* Layers by density and error. */
graft_status graft_quant_plan_draw(const graft_quant_plan *p, graft_image **out, graft_err *e);
#endif
