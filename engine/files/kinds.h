/* What a file is that is not what was asked for, in words for people. */
#ifndef GRAFT_FILES_KINDS_H
#define GRAFT_FILES_KINDS_H
#include "engine/weights/safetensors.h"

/* A guess from the tensors' names, to go on with in a message of `loader`, which found nothing in
 * the file: "; it seems to be a LoRA, which LoraLoader applies". Empty where there is no idea. Cut
 * if `out` is too small for it; returns `out`. Any thread. */
const char *graft_kind_guess(const graft_safetensors *f, const char *loader, char *out,
                             size_t size);
#endif
