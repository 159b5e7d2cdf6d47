#include "engine/text/protobuf.h"

#include <assert.h>
#include <string.h>

static bool read_varint(graft_bytes *s, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; s->n > 0 && shift < 64; shift += 7) {
        const uint8_t byte = *s->at++;
        s->n--;
        if (shift == 63 && byte > 1) return false;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* Little-endian, whatever this machine is. */
static bool read_fixed(graft_bytes *s, size_t bytes, uint64_t *out)
{
    *out = 0;
    if (s->n < bytes) return false;
    for (size_t i = 0; i < bytes; i++) *out |= (uint64_t)s->at[i] << (8 * i);
    s->at += bytes;
    s->n -= bytes;
    return true;
}

static bool read_bytes(graft_bytes *s, graft_bytes *out)
{
    uint64_t n;
    if (!read_varint(s, &n) || n > s->n) return false;
    *out = (graft_bytes){s->at, (size_t)n};
    s->at += n;
    s->n -= (size_t)n;
    return true;
}

static bool read_field(graft_bytes *s, graft_protobuf_field *out)
{
    uint64_t key;
    if (!read_varint(s, &key) || key >> 3 == 0 || key >> 3 >= 1u << 29) return false;
    *out = (graft_protobuf_field){.number = (uint32_t)(key >> 3), .wire = (graft_wire)(key & 7)};
    switch (key & 7) {
    case GRAFT_WIRE_VARINT:
        return read_varint(s, &out->value);
    case GRAFT_WIRE_64:
        return read_fixed(s, 8, &out->value);
    case GRAFT_WIRE_BYTES:
        return read_bytes(s, &out->bytes);
    case GRAFT_WIRE_32:
        return read_fixed(s, 4, &out->value);
    default:
        return false;
    }
}

bool graft_protobuf_next(graft_protobuf *p, graft_protobuf_field *out)
{
    assert(p && out);
    if (p->bad || p->rest.n == 0) return false;
    p->bad = !read_field(&p->rest, out);
    return !p->bad;
}

float graft_protobuf_float(const graft_protobuf_field *f)
{
    float v = 0.0f;
    const uint32_t bits = (uint32_t)f->value;
    if (f->wire == GRAFT_WIRE_32) memcpy(&v, &bits, sizeof v);
    return v;
}
