/* Tekken, the tokenizer of Mistral's models since 2024: byte-pair encoding by ranks (bpe.h) of
 * pieces of text, as mistral-common runs it (Apache-2.0).
 *
 * Marks such as "[INST]" give their tokens wherever they stand. What is between them is cut, from
 * left to right, into the first of these that fits, each with one character before it that is
 * neither a letter nor a number nor the end of a line: capitals and then small letters, of which
 * there is one at least; capitals. Letters without a case, and marks on letters, count as either.
 * Then: one number; anything else but white space, with a space before it and ends of lines and
 * slashes behind it; white space up to its last end of a line; white space but for its last
 * character, which goes with what follows. A text is not normalized. Bytes that are no UTF-8 are
 * U+FFFD.
 *
 * A vocabulary is a tekken.json: config.pattern, which must say the above; vocab, with the bytes of
 * each token in base64, in the order of their ranks, of which config.default_vocab_size less
 * config.default_num_special_tokens are used; special_tokens, or none, and then they are those of
 * the first of these files. Ranks come behind the special tokens. */
#ifndef GRAFT_TEXT_TEKKEN_H
#define GRAFT_TEXT_TEKKEN_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/text/bpe.h"

#define GRAFT_TEKKEN_MAX_FILE ((size_t)64 << 20) /* bytes */

/* What config.pattern has to be. */
#define GRAFT_TEKKEN_PATTERN                                                                       \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"   \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"   \
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef enum graft_tekken_mark {
    GRAFT_TEKKEN_BEGIN = 1,       /* "<s>" */
    GRAFT_TEKKEN_USER = 3,        /* "[INST]" */
    GRAFT_TEKKEN_USER_END = 4,    /* "[/INST]" */
    GRAFT_TEKKEN_PICTURE = 10,    /* "[IMG]" */
    GRAFT_TEKKEN_PAD = 11,        /* "<pad>" */
    GRAFT_TEKKEN_SYSTEM = 17,     /* "[SYSTEM_PROMPT]" */
    GRAFT_TEKKEN_SYSTEM_END = 18, /* "[/SYSTEM_PROMPT]" */
    GRAFT_TEKKEN_MARKS = 20
} graft_tekken_mark;

/* Immutable once made: any thread. */
typedef struct graft_tekken graft_tekken;
/* From the text of a tekken.json, which `what` names in messages. GRAFT_E_UNSUPPORTED: of another
 * kind, or without one of the marks above; GRAFT_E_FORMAT: damaged. */
graft_status graft_tekken_create_json(const char *json, size_t n, const char *what,
                                      graft_tekken **out, graft_err *e);
/* Takes the vocabulary. id[i] is the token of mark i, or -1: there is none; `first` that of the
 * first rank. */
graft_status graft_tekken_create(graft_bpe *bpe, uint32_t first,
                                 const int32_t id[GRAFT_TEKKEN_MARKS], graft_tekken **out,
                                 graft_err *e);
void graft_tekken_destroy(graft_tekken *t); /* NULL is fine */
/* How many tokens there are, special ones among them. */
int32_t graft_tekken_tokens(const graft_tekken *t);
/* The token of a mark; -1: it has none. */
int32_t graft_tekken_token(const graft_tekken *t, graft_tekken_mark mark);
/* How a mark is written. Static. */
const char *graft_tekken_name(graft_tekken_mark mark);
/* Tokens of a text. *ids is freed with graft_free(), NULL when there are none. GRAFT_E_LIMIT over
 * GRAFT_TEXT_MAX_BYTES (tokenizer.h). */
graft_status graft_tekken_encode(const graft_tekken *t, const char *text, size_t n, int32_t **ids,
                                 size_t *count, graft_err *e);
#endif
