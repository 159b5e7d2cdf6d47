/* Encoders of pictures and style models from the inside: recipes, as in objects.h. */
#ifndef GRAFT_PROMPTS_VISION_H
#define GRAFT_PROMPTS_VISION_H
#include "engine/models/encoders/redux.h"
#include "engine/models/encoders/vision.h"
#include "engine/objects/objects.h"
#include "engine/objects/vision_output.h"

struct graft_vision {
    _Atomic int refs;
    graft_engine *engine;
    graft_vision_arch arch;
    graft_weights *weights;
    graft_build_options options; /* float32, as of CLIP's text encoders */
};
struct graft_style {
    _Atomic int refs;
    graft_engine *engine;
    graft_redux_arch arch;
    graft_weights *weights;
    graft_build_options options;
};

struct graft_ip_adapter {
    _Atomic int refs;
    graft_engine *engine;
    graft_ip_adapter_arch arch;
    graft_weights *weights;
    graft_build_options options;
};

/* Tokens (1,tokens,width) and pooled, NULL where there is none, of ready-made pixels (vision.h in
 * models). With task->compile_only both are zeros. For graft_vision_encode(), and tests. */
graft_status graft_vision_run(const graft_vision *v, const float *pixels, const graft_task *task,
                              float *tokens, float *pooled, graft_err *e);
/* The tokens that go into the last layer. Of CLIP's encoders. */
graft_status graft_vision_run_early(const graft_vision *v, const float *pixels,
                                    const graft_task *task, float *tokens, graft_err *e);
/* The pixels of picture `index` of a batch. */
graft_status graft_vision_pixels(const graft_vision *v, const graft_image *image, int64_t index,
                                 bool center, float *out, graft_err *e);
#endif
