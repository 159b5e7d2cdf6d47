/* The tokenizer that llama.cpp keeps in the metadata of a text encoder's GGUF file
 * (tokenizer.ggml.…), as the file that it was made from: of T5 and Gemma the SentencePiece model
 * (engine/text/unigram.h), of Qwen the list of merges (engine/text/qwen.h), of Mistral and
 * Llama 3 the list of tokens by ranks (engine/text/tekken.h, llama3.h). */
#ifndef GRAFT_WEIGHTS_GGUF_TOKENIZER_H
#define GRAFT_WEIGHTS_GGUF_TOKENIZER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tensors that have such a file. */
#define GRAFT_T5_TOKENIZER      "spiece_model" /* and Gemma's */
#define GRAFT_QWEN_TOKENIZER    "merges_txt"
#define GRAFT_MISTRAL_TOKENIZER "tekken_model"
#define GRAFT_LLAMA_TOKENIZER   "llama_tokens"

/* An array of metadata. Its bytes are in the file. */
typedef struct graft_gguf_list {
    uint32_t type; /* of its values, by GGUF's numbers */
    uint64_t n;
    const uint8_t *at; /* NULL: there is none */
} graft_gguf_list;

typedef struct graft_gguf_tokenizer {
    bool t5;    /* of this kind: unigram */
    bool pairs; /* of that one, "llama": pairs of characters, which are bytes where they are unknown
                 */
    uint32_t begin, end, pad; /* their tokens and one more; 0: it has none */
    bool bytes; /* of that one: pairs of bytes, and texts cut up as one of these does */
    bool qwen, tekken, llama;
    graft_gguf_list token, score, kind, charsmap; /* charsmap: normalization */
    graft_gguf_list merge;
    bool keeps_space, bare; /* white space is not trimmed; a text is not begun with a space */
} graft_gguf_tokenizer;

/* The file, freed with graft_free(): *n bytes, of the tensor *name. NULL when there is none, when
 * what is there does not fit together, or when out of memory, which *nomem tells. */
uint8_t *graft_gguf_tokenizer_file(const graft_gguf_tokenizer *t, const char **name, size_t *n,
                                   bool *nomem);
#endif
