/* Rows of queries and keys as llama.cpp keeps them for models that it calls llama and mistral3
 * (https://github.com/ggml-org/llama.cpp, conversion/llama.py and mistral3.py, and the types of
 * rotary embedding in src/llama-model.cpp, MIT): places turn numbers of a head that stand side by
 * side, and so the rows of each head are in another order than in transformers' files, whose halves
 * turn against each other. And the norms of what it calls gemma2 (conversion/gemma.py): whole,
 * where transformers' files have them less one. */
#ifndef GRAFT_FILES_LLAMA_ROWS_H
#define GRAFT_FILES_LLAMA_ROWS_H
#include "engine/weights/safetensors.h"

/* For graft_load_open(), and before such a file is converted: GGUF files of these kinds that have
 * llama.cpp's names get transformers' order of rows, or their norms; nothing is done to others.
 * Whatever is made of the file is then as if it were of its authors': what is converted or saved of
 * it, too.
 *
 * The rows are copied as they are packed: of Mistral Small a twenty-third of the file.
 * GRAFT_E_FORMAT where they are not whole heads. */
graft_status graft_llama_rows_adopt(graft_safetensors *f, graft_err *e);
#endif
