/* What QuantizeModel leaves in a model. */
#ifndef GRAFT_OBJECTS_QUANTIZER_H
#define GRAFT_OBJECTS_QUANTIZER_H
#include "engine/objects/objects.h"

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
graft_quantizer *graft_quantizer_retain(graft_quantizer *q); /* NULL is fine */
void graft_quantizer_release(graft_quantizer *q);
#endif
