/* Which linear layers keep their weights as a file packs them (kernels/blocks.h: GGUF, FP8, MXFP8,
 * NVFP4), to become floats just ahead of each multiplication. Any thread. */
#ifndef GRAFT_QUANT_KEPT_H
#define GRAFT_QUANT_KEPT_H
#include "engine/quant/plan.h"

/* A choice of GRAFT_FORMAT_BLOCKS, or nothing. A layer whose tensor is a file's own has the type of
 * that. One that is patched or a sum, of tensors that are all of blocks, is Q8_0, which costs 8.5
 * bits a value: so a LoRA of another strength, or another on the same layers, is no other choice.
 * Embeddings and other layers that are never quantized are floats, as are those that the
 * architecture joins of several tensors. Nothing where all that would be chosen has at most so many
 * values. */
graft_status graft_kept_choose(const graft_net_arch *a, const graft_weights *w, uint64_t most,
                               graft_quant_choice *out, graft_err *e);
/* The types of such a choice as in "Q4_K, Q6_K"; appends nothing where there are none. */
void graft_kept_print(const graft_quant_choice *c, graft_str *out);
#endif
