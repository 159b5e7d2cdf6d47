#include "engine/text/unigram_file.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* Field numbers of the messages, and what a field is that a file leaves out. */
enum {
    MODEL_PIECE = 1,
    MODEL_TRAINER = 2,
    MODEL_NORMALIZER = 3,
    PIECE_TEXT = 1,
    PIECE_SCORE = 2,
    PIECE_TYPE = 3,
    TRAINER_MODEL_TYPE = 3,
    TRAINER_SPACE_BEHIND = 24,
    TRAINER_BYTE_FALLBACK = 35,
    TRAINER_BEGIN_NAME = 46,
    TRAINER_END_NAME = 47,
    TRAINER_PAD_NAME = 48,
    NORMALIZER_CHARSMAP = 2,
    NORMALIZER_DUMMY_PREFIX = 3,
    NORMALIZER_TRIM = 4,
    NORMALIZER_ESCAPE = 5
};

static graft_status damaged(const graft_protobuf *p, const char *what, graft_err *e)
{
    if (!p->bad) return GRAFT_OK;
    return graft_fail(
        e, GRAFT_E_FORMAT,
        "this is not a SentencePiece model, or a damaged one (%s, %zu bytes before its end)", what,
        p->rest.n);
}

/* A field of another kind than the format's is unknown, and left out as such. */
static bool is(const graft_protobuf_field *f, uint32_t number, graft_wire wire)
{
    return f->number == number && f->wire == wire;
}

static graft_status read_piece(graft_unigram_file *m, graft_bytes message, graft_err *e)
{
    graft_protobuf p = graft_protobuf_init(message);
    graft_protobuf_field f;
    graft_unigram_piece piece = {.type = GRAFT_PIECE_NORMAL};
    uint64_t type = GRAFT_PIECE_NORMAL;
    while (graft_protobuf_next(&p, &f)) {
        if (is(&f, PIECE_TEXT, GRAFT_WIRE_BYTES)) piece.text = f.bytes;
        if (is(&f, PIECE_SCORE, GRAFT_WIRE_32)) piece.score = graft_protobuf_float(&f);
        if (is(&f, PIECE_TYPE, GRAFT_WIRE_VARINT)) type = f.value;
    }
    graft_status st = damaged(&p, "a piece", e);
    if (st) return st;
    if (type < GRAFT_PIECE_NORMAL || type > GRAFT_PIECE_BYTE || piece.text.n == 0 ||
        !isfinite(piece.score))
        return graft_fail(e, GRAFT_E_FORMAT,
                          "the tokenizer's piece %zu has no text, a score that is no number, or is "
                          "of an unknown type",
                          m->count);
    piece.type = (graft_piece_type)type;
    if (piece.text.n > GRAFT_UNIGRAM_MAX_PIECE || m->count >= GRAFT_UNIGRAM_MAX_PIECES)
        return graft_fail(
            e, GRAFT_E_LIMIT,
            "the tokenizer's piece %zu has %zu bytes; at most %d pieces of %d are read", m->count,
            piece.text.n, GRAFT_UNIGRAM_MAX_PIECES, GRAFT_UNIGRAM_MAX_PIECE);
    if (graft_grow(&m->piece, &m->cap, m->count + 1, sizeof *m->piece) != 0)
        return graft_fail_nomem(e, "a tokenizer");
    m->piece[m->count++] = piece;
    return GRAFT_OK;
}

static graft_status read_trainer(graft_unigram_file *m, graft_bytes message, graft_err *e)
{
    graft_protobuf p = graft_protobuf_init(message);
    graft_protobuf_field f;
    while (graft_protobuf_next(&p, &f)) {
        if (is(&f, TRAINER_MODEL_TYPE, GRAFT_WIRE_VARINT)) m->model_type = f.value;
        if (is(&f, TRAINER_SPACE_BEHIND, GRAFT_WIRE_VARINT)) m->space_behind = f.value != 0;
        if (is(&f, TRAINER_BYTE_FALLBACK, GRAFT_WIRE_VARINT)) m->byte_fallback = f.value != 0;
        if (is(&f, TRAINER_BEGIN_NAME, GRAFT_WIRE_BYTES)) m->begin_name = f.bytes;
        if (is(&f, TRAINER_END_NAME, GRAFT_WIRE_BYTES)) m->end_name = f.bytes;
        if (is(&f, TRAINER_PAD_NAME, GRAFT_WIRE_BYTES)) m->pad_name = f.bytes;
    }
    return damaged(&p, "the trainer's part", e);
}

static graft_status read_normalizer(graft_unigram_file *m, graft_bytes message, graft_err *e)
{
    graft_protobuf p = graft_protobuf_init(message);
    graft_protobuf_field f;
    while (graft_protobuf_next(&p, &f)) {
        if (is(&f, NORMALIZER_CHARSMAP, GRAFT_WIRE_BYTES)) m->charsmap = f.bytes;
        if (is(&f, NORMALIZER_DUMMY_PREFIX, GRAFT_WIRE_VARINT)) m->dummy_prefix = f.value != 0;
        if (is(&f, NORMALIZER_TRIM, GRAFT_WIRE_VARINT)) m->trim = f.value != 0;
        if (is(&f, NORMALIZER_ESCAPE, GRAFT_WIRE_VARINT)) m->escape = f.value != 0;
    }
    return damaged(&p, "the normalizer's part", e);
}

static graft_bytes name(const char *text)
{
    return (graft_bytes){(const uint8_t *)text, strlen(text)};
}

graft_status graft_unigram_file_read(graft_bytes bytes, graft_unigram_file *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    graft_protobuf p = graft_protobuf_init(bytes);
    graft_protobuf_field f;
    *out = (graft_unigram_file){.model_type = GRAFT_MODEL_UNIGRAM,
                                .begin_name = name("<s>"),
                                .end_name = name("</s>"),
                                .pad_name = name("<pad>"),
                                .dummy_prefix = true,
                                .trim = true,
                                .escape = true};
    if (bytes.n > GRAFT_UNIGRAM_MAX_FILE)
        return graft_fail(e, GRAFT_E_LIMIT, "a tokenizer of %zu bytes; at most %zu are read",
                          bytes.n, GRAFT_UNIGRAM_MAX_FILE);
    while (graft_protobuf_next(&p, &f)) {
        if (is(&f, MODEL_PIECE, GRAFT_WIRE_BYTES)) GRAFT_TRY(read_piece(out, f.bytes, e));
        if (is(&f, MODEL_TRAINER, GRAFT_WIRE_BYTES)) GRAFT_TRY(read_trainer(out, f.bytes, e));
        if (is(&f, MODEL_NORMALIZER, GRAFT_WIRE_BYTES)) GRAFT_TRY(read_normalizer(out, f.bytes, e));
    }
    GRAFT_TRY(damaged(&p, "its outermost part", e));
    if (out->model_type != GRAFT_MODEL_UNIGRAM && out->model_type != GRAFT_MODEL_PAIRS)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "a SentencePiece model of type %llu; only those of unigrams (1) and of "
                        "pairs (2) are read",
                        (unsigned long long)out->model_type);
out:
    if (st) graft_unigram_file_finish(out);
    return st;
}

void graft_unigram_file_finish(graft_unigram_file *f)
{
    graft_free(f->piece);
    *f = (graft_unigram_file){0};
}
