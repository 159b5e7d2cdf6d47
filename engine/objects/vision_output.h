/* What an encoder of pictures made of a batch, from the inside. Immutable; any thread. */
#ifndef GRAFT_OBJECTS_VISION_OUTPUT_H
#define GRAFT_OBJECTS_VISION_OUTPUT_H
#include "engine/engine.h"

struct graft_vision_output {
    _Atomic int refs;
    int64_t pictures, tokens, width;
    int64_t pooled_width; /* 0: none */
    float *data;          /* (pictures,tokens,width) */
    float *pooled;        /* (pictures,pooled_width) or NULL */
};
#endif
