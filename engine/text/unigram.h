/* SentencePiece's tokenizers (Kudo and Richardson 2018, arXiv:1808.06226): the unigram one, which
 * T5 reads text by (Kudo 2018, arXiv:1804.10959), of all ways to cut a text into known pieces takes
 * the one whose probability is largest, the pieces' own being independent; that of pairs, which
 * Gemma reads text by, puts characters together (unigram_pairs.h).
 *
 * Everything is in the model file ("spiece.model", "tokenizer.model"): which of the two it is,
 * pieces with the logarithms of their probabilities, or the ranks of pairs, the table that
 * normalizes characters (T5's has NFKC's rules and some for white space), and whether white space
 * is trimmed, written as U+2581, and put before a text. What is no UTF-8 reads as U+FFFD. A run of
 * characters that are in no piece is one unknown token, or its bytes' tokens if the model has
 * those. What a text says like a control token's name ("</s>") is text. Equal to libsentencepiece
 * 0.1.97, down to the rounding by which it decides between ways that are equally good. */
#ifndef GRAFT_TEXT_UNIGRAM_H
#define GRAFT_TEXT_UNIGRAM_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GRAFT_UNIGRAM_MAX_TEXT   ((size_t)4 << 20)  /* bytes */
#define GRAFT_UNIGRAM_MAX_NORMAL ((size_t)16 << 20) /* bytes of a text when it is normalized */

/* Immutable once made: any thread. */
typedef struct graft_unigram graft_unigram;
/* From the n bytes of a model file, which are not needed afterwards. GRAFT_E_FORMAT: it is none, or
 * a damaged one; GRAFT_E_UNSUPPORTED: a SentencePiece model of another kind than
 * these;
 * GRAFT_E_LIMIT: over the limits of unigram_file.h. */
graft_status graft_unigram_create(const void *model, size_t n, graft_unigram **out, graft_err *e);
void graft_unigram_destroy(graft_unigram *u);

/* Numbers of tokens: how many there are, and of those that stand for no text; -1: there is none. */
typedef struct graft_unigram_tokens {
    int32_t count;
    int32_t unknown;
    int32_t begin, end, pad; /* T5: none, 1, 0; Gemma: 2, 1, 0 */
} graft_unigram_tokens;
graft_unigram_tokens graft_unigram_tokens_of(const graft_unigram *u);

/* Tokens of n bytes of text, which may contain zeros, without an end. *ids is freed with
 * graft_free(), NULL when there are none. GRAFT_E_LIMIT over the limits above; GRAFT_E_FORMAT where
 * the text meets damage in the normalization table. */
graft_status graft_unigram_encode(const graft_unigram *u, const char *text, size_t n, int32_t **ids,
                                  size_t *count, graft_err *e);
#endif
