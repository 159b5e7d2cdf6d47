#include "engine/weights/safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "base/str.h"
#include "engine/weights/coded.h"
#include "engine/weights/gguf.h"
#include "engine/weights/quantized.h"
#include "engine/weights/scaled.h"
#include "engine/weights/safetensors_dtype.h"
#include "engine/weights/safetensors_foreign.h"
#include "engine/weights/safetensors_rows.h"

#define LENGTH_BYTES 8
#define MAX_HEADER   100000000u

/* Open addressing over an array of `stride`-byte elements that begin with their name. */
typedef struct name_index {
    uint32_t *slot; /* element number + 1; 0: free */
    size_t cap;     /* power of two, at least twice the elements */
} name_index;

struct graft_safetensors {
    graft_mapping map; /* empty when the bytes are the caller's */
    graft_file_id id;  /* of the mapped file, when it was opened */
    char *what;
    char *text;         /* all strings of the header, unescaped, each with its terminator */
    char *aliases;      /* likewise of names given later; NULL: none */
    graft_coded *coded; /* what tensors point to; NULL: none */
    uint8_t *rows;      /* data of tensors whose rows are others than in the file; NULL: none */
    uint8_t *made; /* data of the tensor that was made from a GGUF file's metadata; NULL: none */
    graft_st_tensor *tensor;
    size_t n_tensors, cap_tensors;
    graft_st_pair *meta;
    size_t n_meta, cap_meta;
    name_index by_name, by_key;
    bool gguf;
};

/* ------------------------------------------------------------------ names */

static const char *name_at(const void *array, size_t stride, size_t i)
{
    const char *name;
    memcpy(&name, (const char *)array + i * stride, sizeof name);
    return name;
}

static uint32_t *index_place(const name_index *x, const void *array, size_t stride,
                             const char *name)
{
    size_t i = (size_t)graft_hash64(name, strlen(name)) & (x->cap - 1);
    while (x->slot[i] && strcmp(name_at(array, stride, x->slot[i] - 1), name) != 0)
        i = (i + 1) & (x->cap - 1);
    return &x->slot[i];
}

/* *twice: a name that occurs twice, or NULL. */
static graft_status index_build(name_index *x, const void *array, size_t stride, size_t n,
                                const char **twice, graft_err *e)
{
    *twice = NULL;
    for (x->cap = 4; x->cap < 2 * n;) x->cap *= 2;
    x->slot = graft_calloc(x->cap, sizeof *x->slot);
    if (!x->slot) return graft_fail_nomem(e, "an index of tensor names");
    for (size_t i = 0; i < n; i++) {
        const char *name = name_at(array, stride, i);
        uint32_t *place = index_place(x, array, stride, name);
        if (*place) {
            *twice = name;
            return GRAFT_OK;
        }
        *place = (uint32_t)i + 1;
    }
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ text */

/* The header is one object of a fixed shape, so it is read in one pass without a tree: time and
 * memory stay proportional to its length, and nothing recurses. */
typedef struct reader {
    const uint8_t *begin, *p, *end;
    char *text; /* next free byte of the string pool, which is as long as the header */
    const uint8_t *data;
    uint64_t data_size;
    graft_safetensors *f;
    graft_err *e;
} reader;

static graft_status bad_text(const reader *r, const char *problem)
{
    return graft_fail(r->e, GRAFT_E_FORMAT, "%s: header byte %zu: %s", r->f->what,
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
    return graft_fail(r->e, code, "%s: tensor \"%.200s\": %s", r->f->what, t->name, problem);
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
                          r->f->what, t->name, name);
    }
    return graft_fail(r->e, GRAFT_E_FORMAT, "%s: tensor \"%.200s\": unknown dtype \"%.40s\"",
                      r->f->what, t->name, name);
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
            r->f->what, t->name, end, r->data_size);
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
                          r->f->what, t->name, bytes, t->bytes);
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

/* By place; among tensors at one place those without bytes come first, then the header's order
 * decides, which is the order of the names in the pool. */
static int by_data(const void *pa, const void *pb)
{
    const graft_st_tensor *a = pa, *b = pb;
    if (a->data != b->data) return (uintptr_t)a->data < (uintptr_t)b->data ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return (uintptr_t)a->name < (uintptr_t)b->name ? -1 : a->name != b->name;
}

void graft_st_sort(graft_st_tensor *tensor, size_t n)
{
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++) sorted = by_data(&tensor[i - 1], &tensor[i]) < 0;
    if (!sorted) qsort(tensor, n, sizeof *tensor, by_data);
}

static graft_status order_tensors(reader *r)
{
    graft_safetensors *f = r->f;
    graft_st_sort(f->tensor, f->n_tensors);
    uint64_t at = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        uint64_t begin = (uint64_t)((const uint8_t *)t->data - r->data);
        if (begin > at) return bad_tensor(r, t, GRAFT_E_FORMAT, "a gap before its data");
        if (begin < at)
            return bad_tensor(r, t, GRAFT_E_FORMAT, "its data overlaps another tensor's");
        at = begin + t->bytes;
    }
    if (at != r->data_size)
        return graft_fail(r->e, GRAFT_E_FORMAT,
                          "%s: %" PRIu64 " bytes of data after the last tensor", f->what,
                          r->data_size - at);
    return GRAFT_OK;
}

static graft_status index_names(graft_safetensors *f, graft_err *e)
{
    const char *twice;
    graft_status st =
        index_build(&f->by_name, f->tensor, sizeof *f->tensor, f->n_tensors, &twice, e);
    if (st) return st;
    if (twice)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: tensor \"%.200s\" occurs twice", f->what, twice);
    st = index_build(&f->by_key, f->meta, sizeof *f->meta, f->n_meta, &twice, e);
    if (st) return st;
    if (twice)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: metadata \"%.200s\" occurs twice", f->what,
                          twice);
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ open */

/* What a file is whose first bytes are a length that no header has, or no length at all. */
static graft_status not_safetensors(const graft_safetensors *f, const uint8_t *bytes, size_t size,
                                    uint64_t length, graft_err *e)
{
    const char *seems = graft_safetensors_foreign(bytes, size);
    if (seems) return graft_fail(e, GRAFT_E_FORMAT, "%s: %s", f->what, seems);
    if (size < LENGTH_BYTES)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: too short for a safetensors file (%zu bytes)",
                          f->what, size);
    /* Read as a length, the beginnings of zip archives and of what came before them are too large.
     */
    if (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "\x80\x02\x8a", 3) == 0)
        return graft_fail(
            e, GRAFT_E_FORMAT,
            "%s: a PyTorch file; \"graft convert %s\" makes a safetensors file from it", f->what,
            f->what);
    return graft_fail(e, GRAFT_E_FORMAT,
                      "%s: not a safetensors file: header of %" PRIu64 " bytes (at most %u)",
                      f->what, length, MAX_HEADER);
}

static graft_status parse_gguf(graft_safetensors *f, const uint8_t *bytes, size_t size,
                               graft_err *e)
{
    graft_gguf g;
    graft_status st = graft_gguf_read(bytes, size, f->what, &g, e);
    if (st) return st;
    f->text = g.text;
    f->tensor = g.tensor;
    f->n_tensors = g.n;
    f->meta = g.meta;
    f->n_meta = g.n_meta;
    f->made = g.tokenizer;
    f->gguf = true;
    return index_names(f, e);
}

static graft_status parse(graft_safetensors *f, const uint8_t *bytes, size_t size, graft_err *e)
{
    uint64_t length = 0;
    if (graft_gguf_is_one(bytes, size)) return parse_gguf(f, bytes, size, e);
    for (size_t i = 0; i < LENGTH_BYTES && i < size; i++) length |= (uint64_t)bytes[i] << (8 * i);
    if (size < LENGTH_BYTES || length > MAX_HEADER)
        return not_safetensors(f, bytes, size, length, e);
    if (length > size - LENGTH_BYTES)
        return graft_fail(e, GRAFT_E_FORMAT,
                          "%s: cut short: the header needs %" PRIu64
                          " bytes, the file has %zu; perhaps a download did not end",
                          f->what, length + LENGTH_BYTES, size);
    f->text = graft_malloc((size_t)length + 1);
    if (!f->text) return graft_fail_nomem(e, "the names in a safetensors file");
    const uint8_t *begin = bytes + LENGTH_BYTES;
    reader r = {.begin = begin,
                .p = begin,
                .end = begin + length,
                .text = f->text,
                .data = begin + length,
                .data_size = size - LENGTH_BYTES - length,
                .f = f,
                .e = e};
    graft_status st = GRAFT_OK;
    GRAFT_TRY(read_header(&r));
    assert(r.text <= f->text + length);
    GRAFT_TRY(order_tensors(&r));
    GRAFT_TRY(index_names(f, e));
    GRAFT_TRY(graft_quantized_adopt(f, f->tensor, f->n_tensors, e));
    GRAFT_TRY(graft_coded_adopt(f, f->tensor, f->n_tensors, &f->coded, e));
    GRAFT_TRY(graft_scaled_adopt(f, f->tensor, f->n_tensors, e));
out:
    return st;
}

static graft_status create(const char *what, graft_safetensors **out, graft_err *e)
{
    graft_safetensors *f = graft_calloc(1, sizeof *f);
    if (f) f->what = graft_strdup(what);
    if (!f || !f->what) {
        graft_free(f);
        return graft_fail_nomem(e, "a safetensors file");
    }
    *out = f;
    return GRAFT_OK;
}

graft_status graft_safetensors_open(const char *path, graft_safetensors **out, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    GRAFT_TRY(create(path, &f, e));
    GRAFT_TRY(graft_file_map_identified(path, &f->map, &f->id, e));
    GRAFT_TRY(parse(f, f->map.data, f->map.size, e));
    *out = f;
    f = NULL;
out:
    graft_safetensors_close(f);
    return st;
}

graft_status graft_safetensors_open_memory(const void *data, size_t size, const char *what,
                                           graft_safetensors **out, graft_err *e)
{
    graft_safetensors *f = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    GRAFT_TRY(create(what, &f, e));
    GRAFT_TRY(parse(f, data, size, e));
    *out = f;
    f = NULL;
out:
    graft_safetensors_close(f);
    return st;
}

void graft_safetensors_close(graft_safetensors *f)
{
    if (!f) return;
    graft_file_unmap(&f->map);
    graft_free(f->by_name.slot);
    graft_free(f->by_key.slot);
    graft_free(f->tensor);
    graft_free(f->meta);
    graft_free(f->text);
    graft_free(f->aliases);
    graft_free(f->rows);
    graft_free(f->coded);
    graft_free(f->made);
    graft_free(f->what);
    graft_free(f);
}

/* ------------------------------------------------------------------ names given later */

static graft_status index_again(graft_safetensors *f, graft_err *e)
{
    const char *twice;
    graft_free(f->by_name.slot);
    f->by_name.slot = NULL;
    graft_status st =
        index_build(&f->by_name, f->tensor, sizeof *f->tensor, f->n_tensors, &twice, e);
    if (st || !twice) return st;
    const char *called[2] = {"", ""};
    for (size_t i = 0, n = 0; i < f->n_tensors && n < 2; i++)
        if (strcmp(f->tensor[i].name, twice) == 0) called[n++] = graft_st_called(&f->tensor[i]);
    return graft_fail(e, GRAFT_E_FORMAT, "%s: tensors %.200s and %.200s are the same one", f->what,
                      called[0], called[1]);
}

static void drop_pieces(graft_safetensors *f, const graft_st_alias *alias)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_tensors; i++)
        if (!alias[i].piece) f->tensor[n++] = f->tensor[i];
    f->n_tensors = n;
}

graft_status graft_safetensors_rename(graft_safetensors *f, const graft_st_alias *alias,
                                      graft_err *e)
{
    size_t bytes = 1;
    assert(!f->aliases);
    graft_status st = graft_st_rows_make(f, f->tensor, f->n_tensors, f->coded, alias, &f->rows, e);
    if (st) return st;
    for (size_t i = 0; i < f->n_tensors; i++)
        if (alias[i].name) bytes += strlen(alias[i].name) + 1;
    char *p = f->aliases = graft_malloc(bytes);
    if (!p) return graft_fail_nomem(e, "tensor names");
    for (size_t i = 0; i < f->n_tensors; i++) {
        graft_st_tensor *t = &f->tensor[i];
        if (!alias[i].name) continue;
        size_t n = strlen(alias[i].name) + 1;
        t->called = t->name;
        t->name = memcpy(p, alias[i].name, n);
        p += n;
        if (!alias[i].kernel || t->rank != 2) continue;
        t->shape[2] = t->shape[3] = 1;
        t->rank = 4;
    }
    drop_pieces(f, alias);
    return index_again(f, e);
}

/* ------------------------------------------------------------------ queries */

graft_status graft_safetensors_check(const graft_safetensors *f, graft_err *e)
{
    if (!f->map.data || !graft_file_was_changed(f->what, &f->id)) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_IO,
                      "%s was written to while it was in use: load it again (replace files by "
                      "renaming another over them)",
                      f->what);
}

bool graft_safetensors_same(const graft_safetensors *a, const graft_safetensors *b)
{
    const graft_file_id *x = &a->id, *y = &b->id;
    if (a == b) return true;
    return a->map.data && b->map.data && x->device == y->device && x->inode == y->inode &&
           x->size == y->size && x->changed_s == y->changed_s && x->changed_ns == y->changed_ns &&
           x->status_s == y->status_s && x->status_ns == y->status_ns;
}

size_t graft_safetensors_count(const graft_safetensors *f)
{
    return f->n_tensors;
}

const graft_st_tensor *graft_safetensors_at(const graft_safetensors *f, size_t i)
{
    assert(i < f->n_tensors);
    return &f->tensor[i];
}

const graft_st_tensor *graft_safetensors_find(const graft_safetensors *f, const char *name)
{
    uint32_t i = *index_place(&f->by_name, f->tensor, sizeof *f->tensor, name);
    return i ? &f->tensor[i - 1] : NULL;
}

const char *graft_safetensors_metadata(const graft_safetensors *f, const char *key)
{
    uint32_t i = *index_place(&f->by_key, f->meta, sizeof *f->meta, key);
    return i ? f->meta[i - 1].value : NULL;
}

const char *graft_safetensors_metadata_at(const graft_safetensors *f, size_t i, const char **value)
{
    if (i >= f->n_meta) return NULL;
    if (value) *value = f->meta[i].value;
    return f->meta[i].key;
}

const char *graft_safetensors_path(const graft_safetensors *f)
{
    return f->what;
}

bool graft_safetensors_is_gguf(const graft_safetensors *f)
{
    return f->gguf;
}

void graft_safetensors_forget(const graft_safetensors *f, const graft_st_tensor *t)
{
    const uint8_t *p = t->data, *begin = f->map.data;
    if (!begin || !t->bytes || p < begin || p >= begin + f->map.size) return;
    graft_file_forget(&f->map, (size_t)(p - begin), (size_t)t->bytes);
}

const char *graft_safetensors_shape_text(const int64_t *dim, int rank, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "(");
    for (int i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, i ? ",%lld" : "%lld", (long long)dim[i]);
    if (n < size) snprintf(out + n, size - n, ")");
    return out;
}
