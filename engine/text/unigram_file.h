/* What stands in a SentencePiece model file, a message of Protocol Buffers ("ModelProto"), as far
 * as tokenizing needs it. Texts are spans of the file. One thread at a time. */
#ifndef GRAFT_TEXT_UNIGRAM_FILE_H
#define GRAFT_TEXT_UNIGRAM_FILE_H
#include "base/error.h"
#include "engine/text/protobuf.h"

#define GRAFT_UNIGRAM_MAX_FILE   ((size_t)64 << 20)
#define GRAFT_UNIGRAM_MAX_PIECES (1 << 20)
#define GRAFT_UNIGRAM_MAX_PIECE  512 /* bytes of one */

typedef enum graft_piece_type { /* numbers of the file */
                                GRAFT_PIECE_NORMAL = 1,
                                GRAFT_PIECE_UNKNOWN = 2, /* what is in no piece; there is one */
                                GRAFT_PIECE_CONTROL = 3, /* never in a text: start, end, padding */
                                GRAFT_PIECE_USER =
                                    4, /* taken wherever it is in a text, and not normalized */
                                GRAFT_PIECE_UNUSED = 5, /* never taken */
                                GRAFT_PIECE_BYTE = 6    /* one byte, called "<0xAB>" */
} graft_piece_type;

typedef enum graft_model_type { /* numbers of the file */
                                GRAFT_MODEL_UNIGRAM = 1,
                                GRAFT_MODEL_PAIRS = 2
} graft_model_type;

typedef struct graft_unigram_piece {
    graft_bytes text;
    float score; /* logarithm of a probability, or of pairs the larger the earlier; finite */
    graft_piece_type type;
} graft_unigram_piece;

typedef struct graft_unigram_file {
    graft_unigram_piece *piece;
    size_t count, cap;
    uint64_t model_type; /* graft_model_type */
    bool byte_fallback, space_behind;
    graft_bytes begin_name, end_name, pad_name;
    graft_bytes charsmap;
    bool dummy_prefix, trim, escape;
} graft_unigram_file;

/* GRAFT_E_FORMAT: damaged. GRAFT_E_UNSUPPORTED: of another kind. GRAFT_E_LIMIT: over the limits
 * above. On failure there is nothing to finish. */
graft_status graft_unigram_file_read(graft_bytes bytes, graft_unigram_file *out, graft_err *e);
void graft_unigram_file_finish(graft_unigram_file *f);
#endif
