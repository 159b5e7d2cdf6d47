/* Reading a message in Protocol Buffers' wire format: a sequence of numbered fields
 * (https://protobuf.dev/programming-guides/encoding). Bytes are from files that anybody made:
 * nothing is read outside of them, and there is no recursion, as a message inside of another is
 * just a field of bytes. One thread at a time per reader. */
#ifndef GRAFT_TEXT_PROTOBUF_H
#define GRAFT_TEXT_PROTOBUF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct graft_bytes {
    const uint8_t *at;
    size_t n;
} graft_bytes;

/* Groups, which are numbers 3 and 4, went out of use before the files that are read here. */
typedef enum graft_wire {
    GRAFT_WIRE_VARINT = 0,
    GRAFT_WIRE_64 = 1,
    GRAFT_WIRE_BYTES = 2,
    GRAFT_WIRE_32 = 5
} graft_wire;

typedef struct graft_protobuf_field {
    uint32_t number;
    graft_wire wire;
    uint64_t value;    /* of all but BYTES */
    graft_bytes bytes; /* BYTES: in the message */
} graft_protobuf_field;

typedef struct graft_protobuf {
    graft_bytes rest;
    bool bad; /* the message is damaged from `rest` on */
} graft_protobuf;

static inline graft_protobuf graft_protobuf_init(graft_bytes message)
{
    return (graft_protobuf){message, false};
}
/* The next field; false at the end, and where the message is damaged. */
bool graft_protobuf_next(graft_protobuf *p, graft_protobuf_field *out);
/* A field's value as a float; 0 for fields that have no 32 bits. */
float graft_protobuf_float(const graft_protobuf_field *f);
#endif
