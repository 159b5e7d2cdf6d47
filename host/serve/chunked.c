#include "host/serve/chunked.h"

#define DIGITS 15 /* of a size: no sum of such sizes overflows */

/* A piece is its size in hexadecimal digits, perhaps an extension, a line end, its bytes and a line
 * end. The piece of size 0 is the last one; behind it come lines of trailers and an empty line. */
enum { SIZE, EXTENSION, SIZE_END, DATA, DATA_CR, DATA_LF, LINE, TRAILER, TRAILER_LF, END_LF };

static int digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Only CR LF ends a line, and neither is anywhere else: whoever stands between a client and this
 * server must not read other borders than it does. */
static int after_size(graft_chunked *c, uint8_t b)
{
    if (b == '\r') return c->digits ? SIZE_END : -1;
    if (c->state == SIZE) {
        int d = digit(b);
        if (d >= 0) {
            c->left = c->left << 4 | (uint64_t)d;
            return ++c->digits <= DIGITS ? SIZE : -1;
        }
        if (!c->digits || (b != ';' && b != ' ' && b != '\t')) return -1;
    }
    return b == '\n' || ++c->extra > GRAFT_CHUNKED_EXTRA ? -1 : EXTENSION;
}

static int in_trailers(graft_chunked *c, uint8_t b)
{
    if (b == '\r') return c->state == LINE ? END_LF : TRAILER_LF;
    return b == '\n' || ++c->extra > GRAFT_CHUNKED_EXTRA ? -1 : TRAILER;
}

/* The state behind one byte that is no data; -1: it may not be there. */
static int step(graft_chunked *c, uint8_t b)
{
    switch (c->state) {
    case SIZE:
    case EXTENSION:
        return after_size(c, b);
    case SIZE_END:
        c->digits = 0;
        if (b != '\n') return -1;
        return c->left ? DATA : LINE;
    case DATA_CR:
        return b == '\r' ? DATA_LF : -1;
    case DATA_LF:
        return b == '\n' ? SIZE : -1;
    case TRAILER_LF:
        return b == '\n' ? LINE : -1;
    default:
        return in_trailers(c, b);
    }
}

graft_chunked_event graft_chunked_next(graft_chunked *c, const uint8_t **in, const uint8_t *end,
                                       const uint8_t **data, size_t *size)
{
    while (*in < end) {
        if (c->state == DATA) {
            size_t n = (size_t)(end - *in);
            if (n > c->left) n = (size_t)c->left;
            *data = *in;
            *size = n;
            *in += n;
            c->left -= n;
            if (!c->left) c->state = DATA_CR;
            return GRAFT_CHUNKED_DATA;
        }
        uint8_t b = *(*in)++;
        if (c->state == END_LF) return b == '\n' ? GRAFT_CHUNKED_END : GRAFT_CHUNKED_BAD;
        c->state = step(c, b);
        if (c->state < 0) return GRAFT_CHUNKED_BAD;
    }
    return GRAFT_CHUNKED_MORE;
}
