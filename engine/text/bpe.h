/* Byte-pair encoding: a list of merges, and its use on one word.
 *
 * A word is a string of bytes. Each byte starts as its own token, the last one marked as the end of
 * the word; then, as long as two neighbours are in the list of merges, the pair that stands first
 * in the list becomes one token (Sennrich et al., arXiv:1508.07909). Token numbers: 0-255 bytes
 * in the order of CLIP's byte alphabet, 256-511 the same at the end of a word, 512 + i the result
 * of merge i. */
#ifndef GRAFT_TEXT_BPE_H
#define GRAFT_TEXT_BPE_H
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GRAFT_BPE_MERGES 48894 /* CLIP's number; longer lists are read up to here */

/* Immutable once made: any thread. */
typedef struct graft_bpe graft_bpe;
/* Reads merges.txt: two tokens a line with a space between them, each of them a byte's character or
 * made by an earlier line. A first line that begins with "#version" and empty lines are skipped.
 * GRAFT_E_FORMAT names the line at fault. */
graft_status graft_bpe_create(const char *merges, size_t n, graft_bpe **out, graft_err *e);
void graft_bpe_destroy(graft_bpe *b);

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
