/* The tokenizer of Llama 3: byte-pair encoding by ranks (bpe.h) of pieces of text, as Hugging
 * Face's tokenizers run its tokenizer.json.
 *
 * Marks such as "<|eot_id|>" give their tokens wherever they stand. What is between them is cut up
 * as Qwen's is (qwen.h), but that up to three numbers are one piece, and a text is not normalized.
 *
 * A vocabulary is the list of tokens in the order of their ranks, which are their numbers; the
 * first 256 are single bytes. The marks stand behind all of them in an order that is the same in
 * all files. */
#ifndef GRAFT_TEXT_LLAMA3_H
#define GRAFT_TEXT_LLAMA3_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GRAFT_LLAMA3_MAX_FILE ((size_t)64 << 20) /* bytes of any of the files below */

typedef enum graft_llama3_mark {
    GRAFT_LLAMA3_BEGIN = 0, /* "<|begin_of_text|>", with which texts begin */
    GRAFT_LLAMA3_TURN = 9   /* "<|eot_id|>", which fills texts up */
} graft_llama3_mark;

/* Immutable once made: any thread. */
typedef struct graft_llama3 graft_llama3;
/* From a list of tokens, one a line in GPT-2's byte alphabet. GRAFT_E_FORMAT names the line at
 * fault. */
graft_status graft_llama3_create(const char *tokens, size_t n, graft_llama3 **out, graft_err *e);
/* From the text of a tokenizer.json, which `what` names in messages. GRAFT_E_UNSUPPORTED: of
 * another kind; GRAFT_E_FORMAT: damaged. */
graft_status graft_llama3_create_json(const char *json, size_t n, const char *what,
                                      graft_llama3 **out, graft_err *e);
void graft_llama3_destroy(graft_llama3 *t); /* NULL is fine */
/* How many tokens there are, marks among them. */
int32_t graft_llama3_tokens(const graft_llama3 *t);
int32_t graft_llama3_token(const graft_llama3 *t, graft_llama3_mark mark);
/* The mark at the beginning of n bytes, counted from the first one; its length in *bytes. -1: none.
 */
int32_t graft_llama3_mark_at(const char *text, size_t n, size_t *bytes);
/* Tokens of a text, without the mark that it begins with. *ids is freed with graft_free(), NULL
 * when there are none. GRAFT_E_LIMIT over GRAFT_TEXT_MAX_BYTES (tokenizer.h). */
graft_status graft_llama3_encode(const graft_llama3 *t, const char *text, size_t n, int32_t **ids,
                                 size_t *count, graft_err *e);
#endif
