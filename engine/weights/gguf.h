/* The GGUF format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3,
 * little-endian: what llama.cpp, stable-diffusion.cpp and ComfyUI-GGUF keep models in. Every number
 * in the header is checked before it is used.
 *
 * Tensors have their shape as safetensors files do, outermost dimension first; one that was laid
 * out anew to be packed has its own again ("comfy.gguf.orig_shape.NAME"). Values are plain
 * (F32, F16, BF16, F64, integers) or in ggml's blocks. The names of llama.cpp's T5 encoders and
 * of its Qwen 3 become those of their authors, and the tokenizer a tensor: "spiece_model", as other
 * programs keep it, or "merges_txt".
 *
 * GRAFT_E_UNSUPPORTED: other versions, big-endian files, types of blocks that are not read, files
 * in several parts. GRAFT_E_FORMAT: what reaches past the end, overlaps, or fits no rule. */
#ifndef GRAFT_WEIGHTS_GGUF_H
#define GRAFT_WEIGHTS_GGUF_H
#include "engine/weights/safetensors.h"

/* What a file has; `data` of tensors points into it. */
typedef struct graft_gguf {
    graft_st_tensor *tensor; /* in the order of the data */
    size_t n;
    graft_st_pair *meta; /* those of metadata that are texts */
    size_t n_meta;
    char *text;         /* all names, keys and texts */
    uint8_t *tokenizer; /* the data of the last tensor, where metadata has one; or NULL */
} graft_gguf;

bool graft_gguf_is_one(const void *data, size_t size);
/* `what` names the file in messages. */
graft_status graft_gguf_read(const void *data, size_t size, const char *what, graft_gguf *out,
                             graft_err *e);
void graft_gguf_finish(graft_gguf *g);
#endif
