/* Tensors of a file whose rows are others than the file has them: joined from several, as rows or
 * as slices, with their halves exchanged, or with pairs as halves (graft_st_alias), or whose values
 * are. What is paired, or less, is neither joined nor exchanged. */
#ifndef GRAFT_WEIGHTS_SAFETENSORS_ROWS_H
#define GRAFT_WEIGHTS_SAFETENSORS_ROWS_H
#include "engine/weights/coded.h"
#include "engine/weights/safetensors.h"

/* Gives tensors of alias[i] that say so their shape and data; pieces stay in the list. Those in NF4
 * and FP4 get scales in float32 besides, which their places in `coded`, the file's, then tell of.
 * *rows: all of these data, graft_free(); NULL where there are none.
 *
 * GRAFT_E_FORMAT for rows that do not fit each other, GRAFT_E_UNSUPPORTED for those that have
 * different scales, or are quantized in another way. */
graft_status graft_st_rows_make(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                                graft_coded *coded, const graft_st_alias *alias, uint8_t **rows,
                                graft_err *e);
#endif
