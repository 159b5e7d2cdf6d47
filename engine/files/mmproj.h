/* What looks at pictures for a text encoder in GGUF: llama.cpp keeps it in a file of its own, which
 * has "mmproj" in its name (https://github.com/ggml-org/llama.cpp, conversion/qwenvl.py and
 * qwen3vl.py, MIT). */
#ifndef GRAFT_FILES_MMPROJ_H
#define GRAFT_FILES_MMPROJ_H
#include "engine/weights/safetensors.h"

/* For graft_load_open(): Qwen 2.5-VL's and Qwen 3-VL's language models in GGUF get the tensors of
 * such a file that lies beside them, in the names of transformers ("visual.…"). It is the one that
 * is called as the model without what its quantization is called (NAME-mmproj-F16.gguf for
 * NAME-Q4_K_M.gguf, also the other way round), as ComfyUI-GGUF has it; else the only one whose name
 * begins with "mmproj". Without one, and for other files, nothing is done.
 *
 * The parts of layers that are one are copied: a quarter of Qwen 2.5-VL's file. Fails as opening
 * does, with that file's name. */
graft_status graft_mmproj_adopt(graft_safetensors *f, graft_err *e);
#endif
