/* SentencePiece's normalization table ("precompiled_charsmap"): strings of bytes, and what each of
 * them becomes.
 *
 * The table is a double array (Aoe 1989; in the form of darts-clone,
 * https://github.com/s-yata/darts-clone) behind its size in bytes, and behind it the results, each
 * ended by a zero. All numbers are 32 bits, little-endian. A unit of the array has in its lowest 8
 * bits the byte that leads to it, in bit 8 whether a key ends here, in bit 9 whether its offset
 * counts in steps of 256, and in the bits from 10 on the offset; or, with bit 31, it is the result
 * of a key: where among the results it begins. */
#ifndef GRAFT_TEXT_CHARSMAP_H
#define GRAFT_TEXT_CHARSMAP_H
#include "base/error.h"
#include "engine/text/protobuf.h"

#define GRAFT_CHARSMAP_MAX_KEY 256 /* bytes; longer keys are not found */

/* Immutable once made: any thread. Zeroed: an empty table. */
typedef struct graft_charsmap {
    uint32_t *unit;
    size_t n_units;
    char *results; /* ends with a zero */
    size_t n_results;
} graft_charsmap;

/* Copies what it needs of `blob`; an empty one gives an empty table. GRAFT_E_FORMAT. */
graft_status graft_charsmap_init(graft_charsmap *m, graft_bytes blob, graft_err *e);
void graft_charsmap_finish(graft_charsmap *m);
/* The longest key at the beginning of `text`: its length is in *length, 0 when there is none, and
 * what it becomes in *result, which the table holds. GRAFT_E_FORMAT where the table is damaged. */
graft_status graft_charsmap_find(const graft_charsmap *m, graft_bytes text, size_t *length,
                                 graft_bytes *result, graft_err *e);
#endif
