/* Qwen 3-VL's look at a picture of a size that it takes. */
#ifndef GRAFT_PROMPTS_QWEN3_VISION_H
#define GRAFT_PROMPTS_QWEN3_VISION_H
#include "engine/models/encoders/qwen3_vision.h"
#include "engine/objects/objects.h"

/* Cells (1 + deep,rows*columns,out), row by row, of normalized pixels (rows * 2 patch, columns * 2
 * patch, 3): those of the tower's end, then those that go deeper. With task->compile_only they are
 * zeros. Precision as of graft_qwen3_run(). Any thread. */
graft_status graft_qwen3_vision_run(graft_engine *engine, const graft_build_options *options,
                                    const graft_qwen3_vision_arch *arch, graft_weights *weights,
                                    const float *pixels, int64_t rows, int64_t columns,
                                    const graft_task *task, float *cells, graft_err *e);
#endif
