#include "engine/weights/safetensors_inside.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/str.h"
#include "engine/weights/safetensors_dtype.h"
#include "engine/weights/safetensors_foreign.h"

#define LENGTH_BYTES 8
#define MAX_HEADER   100000000u

/* ------------------------------------------------------------------ text */

/* The header is one object of a fixed shape, so it is read in one pass without a tree: time and
 * memory stay proportional to its length, and nothing recurses. */
typedef struct reader {
    const uint8_t *begin, *p, *end;
    char *text; /* next free byte of the string pool, which is as long as the header */
    const uint8_t *data;
    uint64_t data_size;
    graft_safetensors *f;
    const graft_st_file *file;
    size_t first; /* tensor of this file */
    graft_err *e;
} reader;

static graft_status bad_text(const reader *r, const char *problem)
{
    return graft_fail(r->e, GRAFT_E_FORMAT, "%s: header byte %zu: %s", r->file->path,
                      (size_t)(r->p - r->begin), problem);
}

static void skip_space(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

/* Skips white space, then `c` if it is next. */
static bool accept(reader *r, char c)
{
    skip_space(r);
    if (r->p == r->end || *r->p != (uint8_t)c) return false;
    r->p++;
    return true;
}

static graft_status expect(reader *r, char c)
{
    if (accept(r, c)) return GRAFT_OK;
    char problem[] = "expected ' '";
    problem[10] = c;
    return bad_text(r, problem);
}

static bool read_hex4(reader *r, uint32_t *out)
{
    if (r->end - r->p < 4) return false;
    *out = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = *r->p++;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* After "\u": one or two groups of hexadecimal digits, appended as UTF-8. */
static bool read_unicode_escape(reader *r, char **out)
{
    uint32_t c, low;
    if (!read_hex4(r, &c) || (c >= 0xdc00 && c < 0xe000)) return false;
    if (c >= 0xd800 && c < 0xdc00) {
        if (r->end - r->p < 2 || r->p[0] != '\\' || r->p[1] != 'u') return false;
        r->p += 2;
        if (!read_hex4(r, &low) || low < 0xdc00 || low >= 0xe000) return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    char *o = *out;
    if (c < 0x80) {
        *o++ = (char)c;
    } else if (c < 0x800) {
        *o++ = (char)(0xc0 | c >> 6);
        *o++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *o++ = (char)(0xe0 | c >> 12);
        *o++ = (char)(0x80 | (c >> 6 & 0x3f));
        *o++ = (char)(0x80 | (c & 0x3f));
    } else {
        *o++ = (char)(0xf0 | c >> 18);
        *o++ = (char)(0x80 | (c >> 12 & 0x3f));
        *o++ = (char)(0x80 | (c >> 6 & 0x3f));
        *o++ = (char)(0x80 | (c & 0x3f));
    }
    *out = o;
    return true;
}

static bool read_escape(reader *r, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->p == r->end) return false;
    uint8_t c = *r->p++;
    if (c == 'u') return read_unicode_escape(r, out);
    const char *at = c ? strchr(from, c) : NULL;
    if (!at) return false;
    *(*out)++ = to[at - from];
    return true;
}

/* Unescaped text is never longer than its source, so the pool cannot overflow. */
static graft_status read_string(reader *r, const char **out, size_t *length)
{
    graft_status st = expect(r, '"');
    if (st) return st;
    char *o = r->text;
    while (r->p < r->end && *r->p != '"') {
        if (*r->p == '\\') {
            r->p++;
            if (!read_escape(r, &o)) return bad_text(r, "bad escape in a string");
            continue;
        }
        size_t n = graft_str_utf8((const char *)r->p, (const char *)r->end);
        if (n == 0) return bad_text(r, "text is not UTF-8");
        if (*r->p < 0x20) return bad_text(r, "control character in a string");
        memcpy(o, r->p, n);
        o += n;
        r->p += n;
    }
    if (r->p == r->end) return bad_text(r, "the string does not end");
    r->p++;
    *out = r->text;
    *length = (size_t)(o - r->text);
    *o = 0;
    r->text = o + 1;
    return GRAFT_OK;
}

/* A string that names something: no zero character inside. */
static graft_status read_name(reader *r, const char **out)
{
    size_t length;
    graft_status st = read_string(r, out, &length);
    if (st) return st;
    return strlen(*out) == length ? GRAFT_OK : bad_text(r, "zero character in a name");
}

static graft_status read_count(reader *r, uint64_t *out)
{
    skip_space(r);
    if (r->p < r->end && *r->p == '-') return bad_text(r, "negative number");
    const uint8_t *first = r->p;
    uint64_t n = 0;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
        if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*r->p - '0'), &n) || n > INT64_MAX)
            return bad_text(r, "number too large");
        r->p++;
    }
    if (r->p == first) return bad_text(r, "expected a whole number");
    if (*first == '0' && r->p - first > 1) return bad_text(r, "number with leading zeros");
    if (r->p < r->end && (*r->p == '.' || *r->p == 'e' || *r->p == 'E'))
        return bad_text(r, "expected a whole number");
    *out = n;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ header */

static graft_status bad_tensor(const reader *r, const graft_st_tensor *t, graft_status code,
                               const char *problem)
{
    return graft_fail(r->e, code, "%s: tensor \"%.200s\": %s", r->file->path, t->name, problem);
}

static graft_status read_dtype(reader *r, graft_st_tensor *t)
{
    const char *name;
    graft_status st = read_name(r, &name);
    if (st) return st;
    for (int i = 0; i < GRAFT_ST_DTYPE_COUNT; i++) {
        if (strcmp(graft_st_dtype_names[i].name, name) != 0) continue;
        t->dtype = graft_st_dtype_names[i].dtype;
        if (t->dtype != GRAFT_DTYPE_NONE) return GRAFT_OK;
        return graft_fail(r->e, GRAFT_E_UNSUPPORTED,
                          "%s: tensor \"%.200s\": elements of type %s are not supported",
                          r->file->path, t->name, name);
    }
    return graft_fail(r->e, GRAFT_E_FORMAT, "%s: tensor \"%.200s\": unknown dtype \"%.40s\"",
                      r->file->path, t->name, name);
}

static graft_status read_shape(reader *r, graft_st_tensor *t)
{
    graft_status st = expect(r, '[');
    if (st || accept(r, ']')) return st;
    do {
        uint64_t n;
        if ((st = read_count(r, &n))) return st;
        if (t->rank == GRAFT_SAFETENSORS_MAX_RANK)
            return bad_tensor(r, t, GRAFT_E_UNSUPPORTED, "more than 8 dimensions");
        t->shape[t->rank++] = (int64_t)n;
    } while (accept(r, ','));
    return expect(r, ']');
}

static graft_status read_offsets(reader *r, graft_st_tensor *t)
{
    uint64_t begin, end;
    graft_status st = GRAFT_OK;
    GRAFT_TRY(expect(r, '['));
    GRAFT_TRY(read_count(r, &begin));
    GRAFT_TRY(expect(r, ','));
    GRAFT_TRY(read_count(r, &end));
    GRAFT_TRY(expect(r, ']'));
    if (begin > end) return bad_tensor(r, t, GRAFT_E_FORMAT, "data_offsets in the wrong order");
    if (end > r->data_size)
        return graft_fail(
            r->e, GRAFT_E_FORMAT,
            "%s: the file is cut off, perhaps a download did not end: tensor \"%.200s\" ends "
            "at byte %" PRIu64 " of the data, but the data has %" PRIu64 " bytes",
            r->file->path, t->name, end, r->data_size);
    t->data = r->data + begin;
    t->bytes = end - begin;
out:
    return st;
}

static graft_status check_bytes(const reader *r, const graft_st_tensor *t)
{
    int64_t elements;
    uint64_t bytes;
    if (!graft_size_product(t->shape, t->rank, &elements) ||
        __builtin_mul_overflow((uint64_t)elements, (uint64_t)graft_dtype_size(t->dtype), &bytes))
        return bad_tensor(r, t, GRAFT_E_FORMAT, "the shape is too large");
    if (bytes != t->bytes)
        return graft_fail(r->e, GRAFT_E_FORMAT,
                          "%s: tensor \"%.200s\": shape and dtype need %" PRIu64
                          " bytes, data_offsets give %" PRIu64,
                          r->file->path, t->name, bytes, t->bytes);
    return GRAFT_OK;
}

static graft_status read_tensor(reader *r, const char *name)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    graft_st_tensor t = {.name = name};
    unsigned seen = 0;
    graft_status st = expect(r, '{');
    if (st) return st;
    if (!accept(r, '}')) {
        do {
            const char *member;
            GRAFT_TRY(read_name(r, &member));
            GRAFT_TRY(expect(r, ':'));
            unsigned bit = strcmp(member, "dtype") == 0          ? DTYPE
                           : strcmp(member, "shape") == 0        ? SHAPE
                           : strcmp(member, "data_offsets") == 0 ? OFFSETS
                                                                 : 0;
            if (!bit) return bad_tensor(r, &t, GRAFT_E_FORMAT, "unknown member");
            if (seen & bit) return bad_tensor(r, &t, GRAFT_E_FORMAT, "duplicate member");
            seen |= bit;
            GRAFT_TRY(bit == DTYPE   ? read_dtype(r, &t)
                      : bit == SHAPE ? read_shape(r, &t)
                                     : read_offsets(r, &t));
        } while (accept(r, ','));
        GRAFT_TRY(expect(r, '}'));
    }
    if (seen != (DTYPE | SHAPE | OFFSETS))
        return bad_tensor(r, &t, GRAFT_E_FORMAT, "dtype, shape or data_offsets is missing");
    GRAFT_TRY(check_bytes(r, &t));
    graft_safetensors *f = r->f;
    if (graft_grow(&f->tensor, &f->cap_tensors, f->n_tensors + 1, sizeof *f->tensor))
        return graft_fail_nomem(r->e, "the list of tensors");
    f->tensor[f->n_tensors++] = t;
out:
    return st;
}

static graft_status read_metadata(reader *r)
{
    graft_safetensors *f = r->f;
    graft_status st = expect(r, '{');
    if (st || accept(r, '}')) return st;
    do {
        graft_st_pair kv;
        size_t length;
        GRAFT_TRY(read_name(r, &kv.key));
        GRAFT_TRY(expect(r, ':'));
        GRAFT_TRY(read_string(r, &kv.value, &length));
        if (r->file != r->f->file) continue; /* the first part speaks for all */
        if (graft_grow(&f->meta, &f->cap_meta, f->n_meta + 1, sizeof *f->meta))
            return graft_fail_nomem(r->e, "the metadata of a safetensors file");
        f->meta[f->n_meta++] = kv;
    } while (accept(r, ','));
    GRAFT_TRY(expect(r, '}'));
out:
    return st;
}

static graft_status read_header(reader *r)
{
    bool metadata = false;
    graft_status st = GRAFT_OK;
    if (r->p == r->end || *r->p != '{') return bad_text(r, "expected '{'");
    r->p++;
    if (!accept(r, '}')) {
        do {
            const char *name;
            GRAFT_TRY(read_name(r, &name));
            GRAFT_TRY(expect(r, ':'));
            if (strcmp(name, "__metadata__") != 0) {
                GRAFT_TRY(read_tensor(r, name));
                continue;
            }
            if (metadata) return bad_text(r, "duplicate __metadata__");
            metadata = true;
            GRAFT_TRY(read_metadata(r));
        } while (accept(r, ','));
        GRAFT_TRY(expect(r, '}'));
    }
    skip_space(r);
    if (r->p != r->end) return bad_text(r, "text after the header's object");
out:
    return st;
}
/* ------------------------------------------------------------------ order */

static graft_status order_tensors(reader *r)
{
    const size_t n = r->f->n_tensors - r->first;
    graft_st_tensor *first = n ? r->f->tensor + r->first : NULL;
    if (n) graft_st_sort(first, n);
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const graft_st_tensor *t = &first[i];
        uint64_t begin = (uint64_t)((const uint8_t *)t->data - r->data);
        if (begin > at) return bad_tensor(r, t, GRAFT_E_FORMAT, "a gap before its data");
        if (begin < at)
            return bad_tensor(r, t, GRAFT_E_FORMAT, "its data overlaps another tensor's");
        at = begin + t->bytes;
    }
    if (at != r->data_size)
        return graft_fail(r->e, GRAFT_E_FORMAT,
                          "%s: %" PRIu64 " bytes of data after the last tensor", r->file->path,
                          r->data_size - at);
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ file */

/* What a file is whose first bytes are a length that no header has, or no length at all. */
static graft_status not_safetensors(const graft_st_file *file, const uint8_t *bytes, size_t size,
                                    uint64_t length, graft_err *e)
{
    const char *seems = graft_safetensors_foreign(bytes, size);
    if (seems) return graft_fail(e, GRAFT_E_FORMAT, "%s: %s", file->path, seems);
    if (size < LENGTH_BYTES)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: too short for a safetensors file (%zu bytes)",
                          file->path, size);
    /* Read as a length, the beginnings of zip archives and of what came before them are too large.
     */
    if (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "\x80\x02\x8a", 3) == 0)
        return graft_fail(
            e, GRAFT_E_FORMAT,
            "%s: a PyTorch file; \"graft convert %s\" makes a safetensors file from it", file->path,
            file->path);
    return graft_fail(e, GRAFT_E_FORMAT,
                      "%s: not a safetensors file: header of %" PRIu64 " bytes (at most %u)",
                      file->path, length, MAX_HEADER);
}

graft_status graft_st_read_header(graft_safetensors *f, graft_st_file *file, const uint8_t *bytes,
                                  size_t size, graft_err *e)
{
    uint64_t length = 0;
    for (size_t i = 0; i < LENGTH_BYTES && i < size; i++) length |= (uint64_t)bytes[i] << (8 * i);
    if (size < LENGTH_BYTES || length > MAX_HEADER)
        return not_safetensors(file, bytes, size, length, e);
    if (length > size - LENGTH_BYTES)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: cut short: the header needs %" PRIu64
                          " bytes, the file has %zu; perhaps a download did not end",
                          file->path, length + LENGTH_BYTES, size);
    file->text = graft_malloc((size_t)length + 1);
    if (!file->text) return graft_fail_nomem(e, "the names in a safetensors file");
    const uint8_t *begin = bytes + LENGTH_BYTES;
    reader r = {.begin = begin,
                .p = begin,
                .end = begin + length,
                .text = file->text,
                .data = begin + length,
                .data_size = size - LENGTH_BYTES - length,
                .f = f,
                .file = file,
                .first = f->n_tensors,
                .e = e};
    graft_status st = read_header(&r);
    assert(r.text <= file->text + length);
    return st ? st : order_tensors(&r);
}
