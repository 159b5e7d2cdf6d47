/* The GGUF format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3,
 * little-endian: what llama.cpp, stable-diffusion.cpp and ComfyUI-GGUF keep models in. Every number
 * in the header is checked before it is used.
 *
 * Tensors have their shape as safetensors files do, outermost dimension first; one that was laid
 * out anew to be packed has its own again ("comfy.gguf.orig_shape.NAME"). Values are plain
 * (F32, F16, BF16, F64, integers) or in ggml's blocks. The names of llama.cpp's T5 encoders, of
 * its Qwens, of Gemma 2 and of what it calls llama and mistral3 become those of their authors, and
 * the tokenizer a tensor: "spiece_model" or "tekken_model", as other programs keep it, or
 * "merges_txt". Rows stay where they are (files/llama_rows.h).
 *
 * A model may be in several files, as llama.cpp's gguf-split (tools/gguf-split, MIT) and converter
 * write it: each says which of them it is, how many there are and how many tensors all have
 * (split.no from 0, split.count, split.tensors.count). The first has all other metadata, and
 * tensors or none; what it says of names and shapes counts for the tensors of all.
 *
 * GRAFT_E_UNSUPPORTED: other versions, big-endian files, types of blocks that are not read.
 * GRAFT_E_FORMAT: what reaches past the end, overlaps, or fits no rule. */
#ifndef GRAFT_WEIGHTS_GGUF_H
#define GRAFT_WEIGHTS_GGUF_H
#include "base/map.h"
#include "engine/weights/gguf_names.h"
#include "engine/weights/st_tensor.h"

/* What the first part of a model says of the tensors of all; of a file by itself likewise. */
typedef struct graft_gguf_common {
    graft_gguf_name_fn *rename; /* llama.cpp's names; NULL: they stay */
    graft_map shape;            /* tensor name -> shape, of those that were laid out anew */
} graft_gguf_common;

/* What a file has; `data` of tensors points into it. */
typedef struct graft_gguf {
    graft_st_tensor *tensor; /* in the order of the data */
    size_t n;
    graft_st_pair *meta; /* those of metadata that are texts, or numbers (U32); of the first part */
    size_t n_meta;
    char *text;            /* all names, keys and texts */
    uint8_t *tokenizer;    /* the data of the last tensor, where metadata has one; or NULL */
    uint64_t part, parts;  /* which of how many it is, from 0; parts is 0: the file says nothing */
    uint64_t part_tensors; /* how many all parts have */
} graft_gguf;

bool graft_gguf_is_one(const void *data, size_t size);
/* `what` names the file in messages. Common is all zeros for a first part, which fills it, and as
 * that left it for the parts behind it. */
graft_status graft_gguf_read(const void *data, size_t size, const char *what, bool first,
                             graft_gguf_common *common, graft_gguf *out, graft_err *e);
void graft_gguf_finish(graft_gguf *g);
void graft_gguf_common_finish(graft_gguf_common *c);
#endif
