/* The tokenizer of Qwen 2 and 3: byte-pair encoding of pieces of text, as Hugging Face's
 * tokenizers run its tokenizer.json.
 *
 * Marks such as "<|im_start|>" give their tokens wherever they stand. What is between them is
 * brought to NFC and cut, from left to right, into the first of these that fits: the endings 's 't
 * 're 've 'm 'll 'd in either case; letters, with one character before them that is neither a
 * letter nor a number nor the end of a line; one number; anything else but white space, with a
 * space before it and ends of lines behind it; white space up to its last end of a line; white
 * space but for its last character, which goes with what follows. Bytes that are no UTF-8 are
 * U+FFFD.
 *
 * A vocabulary is its list of merges alone: token 256 + i is what merge i makes, and the marks
 * stand behind all of them in an order that is the same in all files. Those that number their
 * tokens otherwise are refused. */
#ifndef GRAFT_TEXT_QWEN_H
#define GRAFT_TEXT_QWEN_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/text/bpe.h"

#define GRAFT_QWEN_MAX_FILE ((size_t)64 << 20) /* bytes of any of the files below */

/* Immutable once made: any thread. */
typedef struct graft_qwen graft_qwen;
/* From the text of a merges.txt. */
graft_status graft_qwen_create(const char *merges, size_t n, graft_qwen **out, graft_err *e);
/* The vocabulary that was built in. GRAFT_E_NOTFOUND: this build has none. */
graft_status graft_qwen_create_own(graft_qwen **out, graft_err *e);
/* From the text of a tokenizer.json, which `what` names in messages. GRAFT_E_UNSUPPORTED: of
 * another kind; GRAFT_E_FORMAT: damaged. */
graft_status graft_qwen_create_json(const char *json, size_t n, const char *what, graft_qwen **out,
                                    graft_err *e);
/* Whether a vocab.json numbers the tokens as the merges do; else GRAFT_E_UNSUPPORTED. */
graft_status graft_qwen_check(const graft_qwen *q, const char *json, size_t n, const char *what,
                              graft_err *e);
void graft_qwen_destroy(graft_qwen *q); /* NULL is fine */
const graft_bpe *graft_qwen_bpe(const graft_qwen *q);
/* How many tokens there are, marks among them. */
int32_t graft_qwen_tokens(const graft_qwen *q);
/* Tokens of a text. *ids is freed with graft_free(), NULL when there are none. GRAFT_E_LIMIT over
 * GRAFT_TEXT_MAX_BYTES (tokenizer.h). */
graft_status graft_qwen_encode(const graft_qwen *q, const char *text, size_t n, int32_t **ids,
                               size_t *count, graft_err *e);
/* The mark at the beginning of n bytes, counted from the first one; its length in *bytes. -1: none.
 */
int32_t graft_qwen_mark(const char *text, size_t n, size_t *bytes);
#endif
