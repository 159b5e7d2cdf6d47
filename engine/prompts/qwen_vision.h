/* Qwen 2.5-VL's look at a picture, and what Qwen 3-VL's has in common with it: from the picture to
 * tokens of its language model. */
#ifndef GRAFT_PROMPTS_QWEN_VISION_H
#define GRAFT_PROMPTS_QWEN_VISION_H
#include "engine/conditioning.h"
#include "engine/prompts/qwen3.h"

/* How many cells, of twice `patch` pixels a side, a picture of so many pixels has, as it was
 * trained: whole cells, nearest to the picture's size, of no fewer than `least` and no more than
 * GRAFT_QWEN_VISION_CELLS in all. GRAFT_E_ARG where one side is more than 200 times the other. */
graft_status graft_qwen_vision_size(int32_t patch, int32_t least, int64_t height, int64_t width,
                                    int32_t *rows, int32_t *columns, graft_err *e);
#define GRAFT_QWEN_VISION_LEAST  4
#define GRAFT_QWEN3_VISION_LEAST 64
/* Cells (rows*columns,out), row by row, of normalized pixels (rows * 2 patch, columns * 2 patch,
 * 3). With task->compile_only they are zeros. Precision as of graft_qwen3_run(). Any thread. */
graft_status graft_qwen_vision_run(graft_engine *engine, const graft_build_options *options,
                                   const graft_qwen_vision_arch *arch, graft_weights *weights,
                                   const float *pixels, int64_t rows, int64_t columns,
                                   const graft_task *task, float *cells, graft_err *e);
/* How many cells the tower of either kind has of a picture of so many pixels: rows and columns of
 * *out, and nothing else of it. GRAFT_E_UNSUPPORTED where the file has nothing that looks at
 * pictures; else as graft_qwen_vision_size(). */
graft_status graft_qwen3_cells(const graft_qwen3 *q, int64_t height, int64_t width,
                               graft_qwen3_picture *out, graft_err *e);
/* By the tower of either kind: the first picture of a batch, of any size. *cells, which are those
 * of *out, are freed with graft_free(); its token is left to the caller. GRAFT_E_UNSUPPORTED where
 * the file has nothing that looks at pictures. */
graft_status graft_qwen3_see(graft_engine *engine, const graft_build_options *options,
                             const graft_qwen3 *q, const graft_image *picture,
                             const graft_task *task, graft_qwen3_picture *out, float **cells,
                             graft_err *e);
/* graft_clip_encode_edit() of pictures in the sizes that they have, whatever the VAE. */
graft_status graft_clip_encode_seen(const graft_clip *c, const graft_edit_prompt *prompt,
                                    const graft_task *task, graft_cond **out, graft_err *e);
#endif
