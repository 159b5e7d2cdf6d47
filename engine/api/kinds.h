/* What a file is that is not what was asked for, in words for people. */
#ifndef GRAFT_API_KINDS_H
#define GRAFT_API_KINDS_H
#include "engine/weights/safetensors.h"

/* A guess from the tensors' names: "a LoRA, which LoraLoader applies". NULL: no idea. Any thread.
 */
const char *graft_kind_guess(const graft_safetensors *f);
#endif
