/* Byte-pair encoding: a list of merges or of tokens, and its use on one word.
 *
 * A word is a string of bytes. Each byte starts as its own token; then, as long as two neighbours
 * are in the list of merges, the pair that stands first in the list becomes one token (Sennrich et
 * al., arXiv:1508.07909). Token numbers: 0-255 bytes in the order of GPT-2's byte alphabet, 256 + i
 * the result of merge i. CLIP's words have their last byte marked, which is another token then:
 * 256-511 the bytes at the end of a word, 512 + i the result of merge i.
 *
 * By ranks there is a list of tokens instead, as tiktoken has it (MIT): two neighbours become one
 * token where the list has what they are together, the one that stands first in it before others;
 * and a word that is in the list is that token, whatever it would be made of. Token numbers are
 * places in the list, which begins with the 256 bytes: in their order, or in any. */
#ifndef GRAFT_TEXT_BPE_H
#define GRAFT_TEXT_BPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* CLIP's number of merges, and what others may have; longer lists are read up to there. */
#define GRAFT_BPE_MERGES 48894
#define GRAFT_BPE_MOST   (1 << 20)

typedef enum graft_bpe_kind {
    GRAFT_BPE_PIECES = 0, /* GPT-2's, and Qwen's */
    GRAFT_BPE_WORDS = 1   /* CLIP's, with ends of words */
} graft_bpe_kind;

/* Immutable once made: any thread. */
typedef struct graft_bpe graft_bpe;
/* Reads merges.txt: two tokens a line with a space between them, each of them a byte's character or
 * made by an earlier line. A first line that begins with "#version" and empty lines are skipped.
 * GRAFT_E_FORMAT names the line at fault. */
graft_status graft_bpe_create(const char *merges, size_t n, graft_bpe_kind kind, graft_bpe **out,
                              graft_err *e);
/* By ranks: token i is bytes[end[i - 1]..end[i]). What they point to is copied. GRAFT_E_FORMAT
 * names the token at fault: one that is empty or there already, or of the first 256 not its byte,
 * or, where these are not in order, no byte. */
graft_status graft_bpe_create_ranks(const uint8_t *bytes, const uint32_t *end, uint32_t tokens,
                                    bool in_order, graft_bpe **out, graft_err *e);
void graft_bpe_destroy(graft_bpe *b); /* NULL is fine */
/* How many there are. */
uint32_t graft_bpe_tokens(const graft_bpe *b);
/* The bytes of a name in the byte alphabet, at most n; returns how many, 0 where a character is
 * none of it. */
size_t graft_bpe_bytes(const char *name, size_t n, uint8_t *out);

/* Reusable memory for one thread, zeroed before its first use. */
typedef struct graft_bpe_work {
    uint32_t *token; /* the result of the last call */
    size_t count;
    uint32_t *next, *prev;
    uint64_t *heap;
    size_t cap, heap_len;
} graft_bpe_work;
void graft_bpe_work_finish(graft_bpe_work *w);
/* Tokens of a word of `n` > 0 bytes, left in w->token[0..w->count). Time n log n. */
graft_status graft_bpe_word(const graft_bpe *b, const uint8_t *word, size_t n, graft_bpe_work *w,
                            graft_err *e);
#endif
