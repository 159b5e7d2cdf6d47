/* GLIGEN and texts in boxes from the inside (models/parts/gligen.h). Immutable; any thread. */
#ifndef GRAFT_OBJECTS_BOXES_H
#define GRAFT_OBJECTS_BOXES_H
#include "engine/objects/objects.h"

struct graft_gligen {
    _Atomic int refs;
    graft_engine *engine;
    graft_gligen_arch arch;
    graft_weights *weights;
    graft_build_options options; /* of what makes tokens: float32, as CLIP's text encoders */
};

/* A conditioning's boxes: the last one, which holds those before it. */
typedef struct graft_boxes {
    _Atomic int refs;
    int32_t n;                  /* of it and those before it, at most GRAFT_GLIGEN_TOKENS */
    struct graft_boxes *before; /* or NULL */
    graft_gligen *gligen;
    graft_area area;
    float *text; /* (gligen->arch.text) */
} graft_boxes;
graft_boxes *graft_boxes_retain(graft_boxes *b); /* both take NULL */
void graft_boxes_release(graft_boxes *b);

/* Whether both are of the same file. */
bool graft_gligen_same(const graft_gligen *a, const graft_gligen *b);
/* The GLIGEN of the prompts' boxes, NULL where they have none, borrowed; lists may be NULL.
 * GRAFT_E_UNSUPPORTED for a model that is no UNet, GRAFT_E_ARG for a GLIGEN of another kind of UNet
 * and for prompts with boxes of several. */
graft_status graft_gligen_check(const graft_model *m, const graft_cond *const list[], size_t n,
                                const graft_gligen **out, graft_err *e);
/* The prompts, each with one more box. text: gligen->arch.text numbers, copied. GRAFT_E_LIMIT for
 * more boxes than there are tokens, GRAFT_E_ARG beside those of another GLIGEN, and for areas that
 * are none. */
graft_status graft_cond_with_box(const graft_cond *c, graft_gligen *gligen, const graft_area *area,
                                 const float *text, graft_cond **out, graft_err *e);
#endif
