/* What the authors of a text encoder call the tensors that have other names in llama.cpp's files.
 * Pure, any thread. */
#ifndef GRAFT_WEIGHTS_GGUF_NAMES_H
#define GRAFT_WEIGHTS_GGUF_NAMES_H
#include <stdbool.h>
#include <stddef.h>

enum { GRAFT_GGUF_NAME = 128 }; /* bytes that are enough for any */

/* Writes it; false: the tensor keeps its name. */
typedef bool graft_gguf_name_fn(const char *name, char *out, size_t size);
graft_gguf_name_fn graft_gguf_name_t5;
/* Of Qwen 2, 2.5 and 3, of Mistral, and of other models with layers as LLaMA's. */
graft_gguf_name_fn graft_gguf_name_language;
/* Of Gemma 2, where the norm before an MLP is not that behind attention. */
graft_gguf_name_fn graft_gguf_name_gemma2;
/* Of files for pictures ("mmproj"): the towers of Qwen 2.5-VL and of Qwen 3-VL, in whose names
 * layers that go deeper keep the number that they have here. */
graft_gguf_name_fn graft_gguf_name_qwen_vision, graft_gguf_name_qwen3_vision;
#endif
