/* What the tokenizer needs of Unicode: reading UTF-8, character classes, composition, upper and
 * lower case.
 *
 * The tables are of the Unicode version that engine/text/unicode_tables.h names. All functions: any
 * thread. Code points are uint32_t; surrogates never occur. */
#ifndef GRAFT_TEXT_UNICODE_H
#define GRAFT_TEXT_UNICODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAFT_UNICODE_INVALID 0xfffdu /* U+FFFD, what a byte that is no UTF-8 reads as */

/* Reads one character of the n > 0 bytes at s and returns its length; *cp is GRAFT_UNICODE_INVALID
 * and the length 1 for a byte that begins none. Over-long forms and surrogates are invalid. */
size_t graft_unicode_decode(const uint8_t *s, size_t n, uint32_t *cp);
/* Writes 1-4 bytes and returns how many. */
size_t graft_unicode_encode(uint32_t cp, uint8_t out[4]);

typedef enum graft_unicode_kind {
    GRAFT_UNICODE_OTHER = 0,  /* punctuation, symbols, marks */
    GRAFT_UNICODE_LETTER = 1, /* category L */
    GRAFT_UNICODE_NUMBER = 2, /* category N */
    GRAFT_UNICODE_SPACE = 3,  /* category Z; tab, line feed, carriage return */
    GRAFT_UNICODE_DROP = 4    /* category C without those three; U+FFFD */
} graft_unicode_kind;
graft_unicode_kind graft_unicode_class(uint32_t cp);

typedef enum graft_unicode_letter_kind {
    GRAFT_UNICODE_NO_LETTER = 0,
    GRAFT_UNICODE_UPPER = 1, /* categories Lu and Lt */
    GRAFT_UNICODE_LOWER = 2, /* Ll */
    GRAFT_UNICODE_EITHER = 3 /* Lm and Lo, and M: marks on letters */
} graft_unicode_letter_kind;
graft_unicode_letter_kind graft_unicode_letter(uint32_t cp);

/* White space as Python's str.isspace() and the \s of its patterns have it: wider than the class,
 * for it includes some controls. */
bool graft_unicode_is_space(uint32_t cp);
/* 0-9 for a decimal digit of any script, -1 for everything else. */
int graft_unicode_digit(uint32_t cp);

/* Composed normal form (NFC, UAX #15) of the n code points in `text`. The result is in `text`, its
 * length is returned. `text` and `scratch` hold graft_unicode_nfc_room(n) code points each. */
size_t graft_unicode_nfc(uint32_t *text, size_t n, uint32_t *scratch);
/* Room for the longest decomposition of n code points; SIZE_MAX if that overflows. */
size_t graft_unicode_nfc_room(size_t n);

/* Lower case of in[0..n), as Python's str.lower(): Greek sigma by its place in the word, dotted
 * capital I as two code points. `out` holds 2*n code points and does not overlap `in`. */
size_t graft_unicode_lower(const uint32_t *in, size_t n, uint32_t *out);
/* Upper case, as Python's str.upper(). `out` holds 3*n. */
size_t graft_unicode_upper(const uint32_t *in, size_t n, uint32_t *out);
/* The first letter of each word in title case, the others in lower case, as Python's str.title(),
 * where words are what stands between characters that are no letters with a case, apostrophes among
 * them; or first_only: of the whole text, as its str.capitalize(). `out` holds 3*n. */
size_t graft_unicode_title(const uint32_t *in, size_t n, bool first_only, uint32_t *out);
#endif
