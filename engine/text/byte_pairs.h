/* Tokens of a text that is cut up into pieces, each of which is encoded by byte pairs (bpe.h): how
 * the tokenizers of Qwen (qwen.h), Mistral (tekken.h) and Llama 3 (llama3.h) go through a text.
 * Marks give their tokens wherever they stand; what is between two of them is cut up from left to
 * right. Bytes that are no UTF-8 are U+FFFD. */
#ifndef GRAFT_TEXT_BYTE_PAIRS_H
#define GRAFT_TEXT_BYTE_PAIRS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/text/bpe.h"
#include "engine/text/unicode.h"

typedef struct graft_byte_pairs {
    const graft_bpe *bpe;
    uint32_t first; /* what token 0 of bpe is called */
    bool composed;  /* a text is brought to NFC */
    /* How many of n > 0 characters are the first piece: at least one. */
    size_t (*piece)(const uint32_t *cp, size_t n);
    /* The token of the mark that n > 0 bytes begin with, its length in *bytes; -1: none. */
    int32_t (*mark)(const void *ctx, const char *text, size_t n, size_t *bytes);
    const void *ctx;
} graft_byte_pairs;

/* Tokens of a text. *ids is freed with graft_free(), NULL when there are none. GRAFT_E_LIMIT over
 * GRAFT_TEXT_MAX_BYTES (tokenizer.h). Any thread. */
graft_status graft_byte_pairs_encode(const graft_byte_pairs *p, const char *text, size_t n,
                                     int32_t **ids, size_t *count, graft_err *e);

/* White space of Unicode's list; the class has its separators. */
static inline bool graft_piece_is_space(uint32_t cp)
{
    return (cp >= '\t' && cp <= '\r') || cp == 0x85 ||
           graft_unicode_class(cp) == GRAFT_UNICODE_SPACE;
}

static inline bool graft_piece_is_letter(uint32_t cp)
{
    return graft_unicode_class(cp) == GRAFT_UNICODE_LETTER;
}

static inline bool graft_piece_is_number(uint32_t cp)
{
    return graft_unicode_class(cp) == GRAFT_UNICODE_NUMBER;
}

static inline bool graft_piece_ends_line(uint32_t cp)
{
    return cp == '\r' || cp == '\n';
}

static inline bool graft_piece_is_other(uint32_t cp)
{
    return !graft_piece_is_space(cp) && !graft_piece_is_letter(cp) && !graft_piece_is_number(cp);
}

/* Of the white space that cp begins with: up to its last end of a line; or all but its last
 * character, which goes with what follows; or all. */
size_t graft_piece_space(const uint32_t *cp, size_t n);
/* The first piece of n > 0 characters as OpenAI's cl100k_base cuts them up: an English ending; or
 * letters, behind one character that is none; or up to so many numbers; or other characters, behind
 * one space and with the ends of lines behind them; or white space. */
size_t graft_piece_of_words(const uint32_t *cp, size_t n, size_t numbers);
#endif
