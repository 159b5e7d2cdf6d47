/* The other of SentencePiece's two ways to cut a text into known pieces, Gemma's and Llama's: pairs
 * of neighbours become one again and again, the pair first whose piece has the best score (byte
 * pair encoding, Sennrich et al. 2016, arXiv:1508.07909). One thread at a time per call. */
#ifndef GRAFT_TEXT_UNIGRAM_PAIRS_H
#define GRAFT_TEXT_UNIGRAM_PAIRS_H
#include <stdbool.h>

#include "engine/text/pieces.h"

/* A place between two bytes of a text, and a piece of a way through it: the one that ends there,
 * or, once the way is turned round, the one that begins there. */
typedef struct graft_unigram_place {
    float score; /* of the way up to here */
    int32_t token;
    uint32_t from; /* the piece's other end */
} graft_unigram_place;

typedef struct graft_unigram_pairs {
    graft_pieces pieces;  /* all that text can become, */
    graft_pieces symbols; /* and of those the user's, which are taken first and stay as they are */
    const float *score;   /* of each token */
    const bool *unused;   /* of each token: it is taken apart again in the end; NULL: none is */
    int32_t count, unknown;
} graft_unigram_pairs;

/* Bytes of a character by its first one, as the library counts them: also where it is no UTF-8. */
static inline size_t graft_unigram_char(uint8_t first)
{
    return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Fills a way through the text, turned round, at all places where its pieces begin; the others stay
 * as they are. `way` has a place for each byte, of which there are fewer than INT32_MAX and at
 * least one. Only memory can fail. */
graft_status graft_unigram_pairs_cut(const graft_unigram_pairs *p, graft_bytes text,
                                     graft_unigram_place *way, graft_err *e);
#endif
