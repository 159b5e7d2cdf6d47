/* T5's encoder on a backend: tokens to hidden states. */
#ifndef GRAFT_API_T5_H
#define GRAFT_API_T5_H
#include "engine/api/objects.h"
#include "engine/models/t5.h"

/* hidden (batch,tokens,arch->width) float32 of ids (batch,tokens), padding included by the caller:
 * all tokens are attended to. `weights` is the encoder's part, whose names begin with "encoder."
 * and "shared.". Precision and device are those of the options, but for float16, which T5 is not
 * made for: bfloat16 takes its place, or float32 where the backend has no bfloat16. Compiled once
 * for each batch and number of tokens; with task->compile_only, hidden is all zeros. GRAFT_E_ARG
 * for tokens outside of the table, GRAFT_E_LIMIT over GRAFT_T5_MAX_TOKENS. Any thread. */
graft_status graft_t5_run(graft_engine *engine, const graft_build_options *options,
                          const graft_t5_arch *arch, graft_weights *weights, const int32_t *ids,
                          int64_t batch, int64_t tokens, const graft_task *task, float *hidden,
                          graft_err *e);
#endif
