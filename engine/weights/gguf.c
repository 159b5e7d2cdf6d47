#include "engine/weights/gguf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/size.h"
#include "base/str.h"
#include "engine/weights/ggml_blocks.h"
#include "engine/weights/gguf_tokenizer.h"

#define ORIGINAL_SHAPE "comfy.gguf.orig_shape."

enum { MAGIC_BYTES = 4, MAX_RANK = 4, MAX_NESTING = 4, DEFAULT_ALIGNMENT = 32 };
enum { DIGITS = 20 };                /* of the largest number */
enum { LEAST_INFO = 8 + 4 + 4 + 8 }; /* bytes that the header has for a tensor */

/* A metadata value's type. */
typedef enum value_type {
    VALUE_U32 = 4,
    VALUE_I32 = 5,
    VALUE_F32 = 6,
    VALUE_BOOL = 7,
    VALUE_STRING = 8,
    VALUE_ARRAY = 9,
    VALUE_U64 = 10,
    VALUE_I64 = 11,
    VALUE_TYPES = 13
} value_type;
/* Bytes by type; 0: those that vary. */
static const uint8_t value_bytes[VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

typedef struct shape {
    int rank;
    int64_t dim[MAX_RANK];
} shape;

typedef struct text {
    const char *at; /* not terminated; NULL: it is the number n */
    size_t n;
} text;

/* Reads on; what reaches past the end sets `cut`, and all reads are 0 from then on. */
typedef struct reader {
    const uint8_t *begin, *p, *end;
    const char *what;
    graft_err *e;
    bool cut;
    uint64_t alignment;
    bool first; /* part; of others metadata counts as far as it is about the file */
    graft_gguf_common *common;
    struct text *pair; /* keys and texts in turn */
    size_t n_texts, cap_texts;
    graft_gguf_tokenizer tokenizer;
    graft_gguf *out;
    uint64_t *offset; /* of each tensor's data, from where all data begins */
    char *next;       /* free byte of out->text */
} reader;

/* ------------------------------------------------------------------ numbers and texts */

static const uint8_t *take(reader *r, uint64_t n)
{
    if (r->cut || n > (uint64_t)(r->end - r->p)) {
        r->cut = true;
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += n;
    return p;
}

static uint64_t number(reader *r, size_t bytes)
{
    const uint8_t *p = take(r, bytes);
    uint64_t v = 0;
    for (size_t i = 0; p && i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static uint32_t read_u32(reader *r)
{
    return (uint32_t)number(r, 4);
}

static text read_text(reader *r)
{
    uint64_t n = number(r, 8);
    const uint8_t *p = take(r, n);
    return (text){(const char *)p, p ? (size_t)n : 0};
}

static bool is(text t, const char *word)
{
    return t.n == strlen(word) && memcmp(t.at, word, t.n) == 0;
}

static graft_status bad(const reader *r, graft_status st, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static graft_status bad(const reader *r, graft_status st, const char *fmt, ...)
{
    char why[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return graft_fail(r->e, st, "%s: %s", r->what, why);
}

static graft_status cut_short(const reader *r)
{
    return bad(r, GRAFT_E_FORMAT,
               "cut short: its header is not whole; perhaps a download did not end");
}

/* ------------------------------------------------------------------ metadata */

static graft_status skip_value(reader *r, uint32_t type, int depth)
{
    if (type == VALUE_STRING) {
        read_text(r);
    } else if (type == VALUE_ARRAY) {
        uint32_t of = read_u32(r);
        uint64_t n = number(r, 8), bytes;
        if (depth == MAX_NESTING) return bad(r, GRAFT_E_FORMAT, "metadata nested too deep");
        if (of < VALUE_TYPES && value_bytes[of]) {
            take(r,
                 __builtin_mul_overflow(n, (uint64_t)value_bytes[of], &bytes) ? UINT64_MAX : bytes);
            return GRAFT_OK;
        }
        for (uint64_t i = 0; i < n && !r->cut; i++) {
            graft_status st = skip_value(r, of, depth + 1);
            if (st) return st;
        }
    } else if (type < VALUE_TYPES) {
        take(r, value_bytes[type]);
    } else if (!r->cut) {
        return bad(r, GRAFT_E_FORMAT, "metadata of the unknown type %" PRIu32, type);
    }
    return GRAFT_OK;
}

/* An array of I32: the dimensions of tensor `name`. */
static graft_status read_shape(reader *r, text name)
{
    uint32_t of = read_u32(r);
    uint64_t rank = number(r, 8);
    char key[512];
    if (r->cut) return GRAFT_OK; /* told at the end */
    if (of != VALUE_I32 || rank < 1 || rank > MAX_RANK || name.n >= sizeof key)
        return bad(r, GRAFT_E_FORMAT, "\"" ORIGINAL_SHAPE "%.*s\" is no shape",
                   (int)(name.n < 200 ? name.n : 200), name.at);
    snprintf(key, sizeof key, "%.*s", (int)name.n, name.at);
    if (graft_map_has(&r->common->shape, key))
        return bad(r, GRAFT_E_FORMAT, "\"" ORIGINAL_SHAPE "%.200s\" occurs twice", key);
    shape *s = graft_calloc(1, sizeof *s);
    if (!s) return graft_fail_nomem(r->e, "a shape");
    s->rank = (int)rank;
    for (int i = 0; i < s->rank; i++) s->dim[i] = (int32_t)read_u32(r);
    if (graft_map_put(&r->common->shape, key, s) == 0) return GRAFT_OK;
    graft_free(s);
    return graft_fail_nomem(r->e, "a shape");
}

/* What llama.cpp calls otherwise than its authors, in a model of this kind; NULL: nothing. */
static graft_gguf_name_fn *names_of(text kind)
{
    static const struct {
        const char *kind;
        graft_gguf_name_fn *names;
    } all[] = {{"t5", graft_gguf_name_t5},
               {"t5encoder", graft_gguf_name_t5},
               {"qwen3", graft_gguf_name_language},
               {"qwen3vl", graft_gguf_name_language},
               {"qwen2vl", graft_gguf_name_language},
               {"qwen2", graft_gguf_name_language},
               {"llama", graft_gguf_name_language},
               {"mistral3", graft_gguf_name_language},
               {"gemma2", graft_gguf_name_gemma2}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is(kind, all[i].kind)) return all[i].names;
    return NULL;
}

static graft_status keep_pair(reader *r, text key, text value)
{
    if (r->cut || memchr(key.at, 0, key.n)) return GRAFT_OK;
    if (graft_grow(&r->pair, &r->cap_texts, r->n_texts + 2, sizeof *r->pair))
        return graft_fail_nomem(r->e, "the metadata of a GGUF file");
    r->pair[r->n_texts++] = key;
    r->pair[r->n_texts++] = value;
    return GRAFT_OK;
}

static graft_status read_string(reader *r, text key)
{
    text value = read_text(r);
    if (is(key, "general.architecture")) r->common->rename = names_of(value);
    if (is(key, "tokenizer.ggml.model")) {
        r->tokenizer.t5 = is(value, "t5");
        r->tokenizer.pairs = is(value, "llama");
        r->tokenizer.bytes = is(value, "gpt2");
    }
    if (is(key, "tokenizer.ggml.pre")) {
        r->tokenizer.qwen = is(value, "qwen2");
        r->tokenizer.tekken = is(value, "tekken");
        r->tokenizer.llama = is(value, "llama-bpe");
    }
    return keep_pair(r, key, value);
}

static graft_status read_small(reader *r, text key)
{
    const uint32_t value = read_u32(r);
    uint32_t *token = is(key, "tokenizer.ggml.bos_token_id")       ? &r->tokenizer.begin
                      : is(key, "tokenizer.ggml.eos_token_id")     ? &r->tokenizer.end
                      : is(key, "tokenizer.ggml.padding_token_id") ? &r->tokenizer.pad
                                                                   : NULL;
    if (token) *token = value + 1; /* the largest number, which is no token's, becomes none */
    return keep_pair(r, key, (text){.n = value});
}

/* What a tokenizer has of lists and flags; of anything else nothing is kept. */
static graft_status read_tokenizer(reader *r, text key, uint32_t type)
{
    graft_gguf_tokenizer *t = &r->tokenizer;
    graft_gguf_list *list = is(key, "tokenizer.ggml.tokens")                 ? &t->token
                            : is(key, "tokenizer.ggml.scores")               ? &t->score
                            : is(key, "tokenizer.ggml.token_type")           ? &t->kind
                            : is(key, "tokenizer.ggml.precompiled_charsmap") ? &t->charsmap
                            : is(key, "tokenizer.ggml.merges")               ? &t->merge
                                                                             : NULL;
    reader at = *r;
    graft_status st = skip_value(r, type, 0);
    if (st || r->cut) return st;
    if (type == VALUE_ARRAY && list) {
        list->type = read_u32(&at);
        list->n = number(&at, 8);
        list->at = at.p;
    }
    if (type == VALUE_BOOL && is(key, "tokenizer.ggml.add_space_prefix")) t->bare = !*at.p;
    if (type == VALUE_BOOL && is(key, "tokenizer.ggml.remove_extra_whitespaces"))
        t->keeps_space = !*at.p;
    return GRAFT_OK;
}

/* Whether the key is about parts, and what it says. */
static bool about_parts(reader *r, text key, uint64_t **out)
{
    *out = is(key, "split.no")              ? &r->out->part
           : is(key, "split.count")         ? &r->out->parts
           : is(key, "split.tensors.count") ? &r->out->part_tensors
                                            : NULL;
    return *out != NULL;
}

static graft_status read_whole(reader *r, text key, uint32_t type, uint64_t *out)
{
    if (type < VALUE_F32 || type == VALUE_U64 || type == VALUE_I64) {
        *out = number(r, value_bytes[type]);
        return GRAFT_OK;
    }
    return bad(r, GRAFT_E_FORMAT, "\"%.*s\" is no whole number", (int)key.n, key.at);
}

static graft_status read_pair(reader *r)
{
    text key = read_text(r);
    uint32_t type = read_u32(r);
    const size_t prefix = strlen(ORIGINAL_SHAPE);
    uint64_t *whole;
    if (r->cut) return GRAFT_OK;
    if (is(key, "general.alignment") && type == VALUE_U32) {
        r->alignment = read_u32(r);
        if (r->cut || (r->alignment && !(r->alignment & (r->alignment - 1)))) return GRAFT_OK;
        return bad(r, GRAFT_E_FORMAT, "an alignment of %" PRIu64 " bytes", r->alignment);
    }
    if (about_parts(r, key, &whole)) return read_whole(r, key, type, whole);
    if (!r->first) return skip_value(r, type, 0);
    if (type == VALUE_STRING) return read_string(r, key);
    if (type == VALUE_U32) return read_small(r, key);
    if (key.n > prefix && memcmp(key.at, ORIGINAL_SHAPE, prefix) == 0 && type == VALUE_ARRAY)
        return read_shape(r, (text){key.at + prefix, key.n - prefix});
    return read_tokenizer(r, key, type);
}

/* ------------------------------------------------------------------ names */

static const char *keep(reader *r, const char *name, size_t n)
{
    char *p = r->next;
    memcpy(p, name, n);
    p[n] = '\0';
    r->next += n + 1;
    return p;
}

/* Bytes that are enough for a key or a value. */
static size_t room_of(text t)
{
    return (t.at ? t.n : DIGITS) + 1;
}

static const char *keep_text(reader *r, text t)
{
    char digits[DIGITS + 1];
    if (t.at) return keep(r, t.at, t.n);
    return keep(r, digits, (size_t)snprintf(digits, sizeof digits, "%zu", t.n));
}

static void keep_pairs(reader *r)
{
    graft_gguf *g = r->out;
    for (size_t i = 0; i < r->n_texts; i += 2) {
        const char *key = keep_text(r, r->pair[i]);
        g->meta[g->n_meta++] = (graft_st_pair){key, keep_text(r, r->pair[i + 1])};
    }
}

static void set_name(reader *r, text name, graft_st_tensor *t)
{
    char other[GRAFT_GGUF_NAME];
    t->name = keep(r, name.at, name.n);
    if (!r->common->rename || !r->common->rename(t->name, other, sizeof other)) return;
    t->called = t->name;
    t->name = keep(r, other, strlen(other));
}

/* ------------------------------------------------------------------ tensors */

static graft_dtype plain_type(uint32_t id)
{
    switch (id) {
    case 0:
        return GRAFT_F32;
    case 1:
        return GRAFT_F16;
    case 24:
        return GRAFT_I8;
    case 26:
        return GRAFT_I32;
    case 27:
        return GRAFT_I64;
    case 28:
        return GRAFT_F64;
    case 30:
        return GRAFT_BF16;
    default:
        return GRAFT_DTYPE_NONE;
    }
}

static graft_status set_type(const reader *r, graft_st_tensor *t, uint32_t id)
{
    int64_t values, row = t->rank ? t->shape[t->rank - 1] : 1;
    uint64_t each, units;
    t->dtype = plain_type(id);
    t->blocks = graft_ggml_blocks_find(id);
    if (!t->dtype && !t->blocks) {
        const char *name = graft_ggml_type_name(id);
        return bad(r, GRAFT_E_UNSUPPORTED,
                   "tensor \"%.200s\" is packed as %s, which is not read: Q8_0, Q4_0 to Q5_1, "
                   "Q2_K to Q6_K, IQ4_NL and IQ4_XS are",
                   t->name, name ? name : "a type of another version of ggml");
    }
    if (!graft_size_product(t->shape, t->rank, &values))
        return bad(r, GRAFT_E_FORMAT, "tensor \"%.200s\": the shape is too large", t->name);
    if (t->blocks && row % t->blocks->values)
        return bad(r, GRAFT_E_FORMAT, "tensor \"%.200s\": its rows are no whole blocks of %s",
                   t->name, t->blocks->name);
    each = t->blocks ? t->blocks->bytes : graft_dtype_size(t->dtype);
    units = (uint64_t)values / (t->blocks ? t->blocks->values : 1);
    if (__builtin_mul_overflow(units, each, &t->bytes))
        return bad(r, GRAFT_E_FORMAT, "tensor \"%.200s\": the shape is too large", t->name);
    return GRAFT_OK;
}

/* The shape that it had before it was packed. */
static graft_status restore_shape(const reader *r, graft_st_tensor *t)
{
    const shape *s = graft_map_get(&r->common->shape, graft_st_called(t));
    int64_t values;
    if (!s) return GRAFT_OK;
    if (!graft_size_product(s->dim, s->rank, &values) || values != graft_st_values(t))
        return bad(r, GRAFT_E_FORMAT, "tensor \"%.200s\": its original shape has other values",
                   graft_st_called(t));
    t->rank = s->rank;
    memcpy(t->shape, s->dim, sizeof s->dim);
    return GRAFT_OK;
}

/* One tensor but for where its data is. */
static graft_status read_tensor(reader *r, graft_st_tensor *t, uint64_t *offset)
{
    text name = read_text(r);
    uint32_t rank = read_u32(r);
    if (r->cut) return cut_short(r);
    if (memchr(name.at, '\0', name.n)) return bad(r, GRAFT_E_FORMAT, "a zero in a tensor's name");
    *t = (graft_st_tensor){.rank = (int)rank};
    set_name(r, name, t);
    if (rank > MAX_RANK)
        return bad(r, GRAFT_E_FORMAT, "tensor \"%.200s\" has %" PRIu32 " dimensions", t->name,
                   rank);
    for (int i = t->rank; i-- > 0;) {
        uint64_t n = number(r, 8);
        if (n > INT64_MAX)
            return bad(r, GRAFT_E_FORMAT, "tensor \"%.200s\": the shape is too large", t->name);
        t->shape[i] = (int64_t)n;
    }
    uint32_t type = read_u32(r);
    *offset = number(r, 8);
    if (r->cut) return cut_short(r);
    graft_status st = set_type(r, t, type);
    return st ? st : restore_shape(r, t);
}

/* Room for the names of all tensors from here on, and for the pairs before. */
static graft_status make_room(reader *at, uint64_t n)
{
    reader r = *at;
    size_t bytes = 1;
    for (uint64_t i = 0; i < n && !r.cut; i++) {
        text name = read_text(&r);
        uint32_t rank = read_u32(&r);
        take(&r, (uint64_t)rank * 8 + 4 + 8);
        bytes += name.n + 1 + GRAFT_GGUF_NAME;
    }
    if (r.cut) return cut_short(at);
    for (size_t i = 0; i < r.n_texts; i++) bytes += room_of(r.pair[i]);
    at->out->meta = graft_calloc(r.n_texts / 2 + 1, sizeof *at->out->meta);
    at->out->text = graft_malloc(bytes);
    at->out->tensor = graft_calloc((size_t)n + 1, sizeof *at->out->tensor);
    at->offset = graft_calloc((size_t)n + 1, sizeof *at->offset);
    if (!at->out->text || !at->out->tensor || !at->out->meta || !at->offset)
        return graft_fail_nomem(at->e, "the tensors of a GGUF file");
    return GRAFT_OK;
}

static graft_status place_all(reader *r)
{
    graft_gguf *g = r->out;
    const size_t size = (size_t)(r->end - r->begin);
    size_t base;
    if (!graft_size_round_up((size_t)(r->p - r->begin), (size_t)r->alignment, &base) ||
        (base > size && g->n))
        return cut_short(r);
    for (size_t i = 0; i < g->n; i++) {
        graft_st_tensor *t = &g->tensor[i];
        uint64_t offset = r->offset[i];
        if (offset % r->alignment)
            return bad(r, GRAFT_E_FORMAT, "tensor \"%.200s\": its data is not aligned", t->name);
        if (offset > size - base || t->bytes > size - base - offset)
            return bad(r, GRAFT_E_FORMAT,
                       "tensor \"%.200s\" reaches past the end of the file; perhaps a download did "
                       "not end",
                       t->name);
        t->data = r->begin + base + offset;
    }
    graft_st_sort(g->tensor, g->n);
    for (size_t i = 1; i < g->n; i++) {
        const graft_st_tensor *a = &g->tensor[i - 1], *b = &g->tensor[i];
        if ((const uint8_t *)b->data - (const uint8_t *)a->data < (ptrdiff_t)a->bytes)
            return bad(r, GRAFT_E_FORMAT, "the data of tensors \"%.150s\" and \"%.150s\" overlaps",
                       a->name, b->name);
    }
    return GRAFT_OK;
}

/* One tensor more, behind the others: there is room for it. */
static graft_status add_tokenizer(reader *r)
{
    graft_gguf *g = r->out;
    const char *name;
    size_t n;
    bool nomem;
    g->tokenizer = graft_gguf_tokenizer_file(&r->tokenizer, &name, &n, &nomem);
    if (nomem) return graft_fail_nomem(r->e, "a tokenizer");
    if (g->tokenizer)
        g->tensor[g->n++] = (graft_st_tensor){.name = name,
                                              .dtype = GRAFT_U8,
                                              .rank = 1,
                                              .shape = {(int64_t)n},
                                              .data = g->tokenizer,
                                              .bytes = n};
    return GRAFT_OK;
}

static graft_status read_all(reader *r)
{
    graft_status st = GRAFT_OK;
    take(r, MAGIC_BYTES);
    uint32_t version = read_u32(r);
    uint64_t tensors = number(r, 8), pairs = number(r, 8);
    if (r->cut) return cut_short(r);
    if (version != 2 && version != 3)
        return bad(r, GRAFT_E_UNSUPPORTED,
                   version & 0xffff || !version ? "a GGUF file of version %" PRIu32
                                                  "; 2 and 3 are read"
                                                : "a big-endian GGUF file (version %" PRIx32 ")",
                   version);
    for (uint64_t i = 0; i < pairs && !r->cut; i++) GRAFT_TRY(read_pair(r));
    if (r->cut || tensors > (uint64_t)(r->end - r->p) / LEAST_INFO) return cut_short(r);
    GRAFT_TRY(make_room(r, tensors));
    r->next = r->out->text;
    keep_pairs(r);
    for (size_t n = 0; n < tensors; n = ++r->out->n)
        GRAFT_TRY(read_tensor(r, &r->out->tensor[n], &r->offset[n]));
    GRAFT_TRY(place_all(r));
    GRAFT_TRY(add_tokenizer(r));
out:
    return st;
}

bool graft_gguf_is_one(const void *data, size_t size)
{
    return size >= MAGIC_BYTES && memcmp(data, "GGUF", MAGIC_BYTES) == 0;
}

graft_status graft_gguf_read(const void *data, size_t size, const char *what, bool first,
                             graft_gguf_common *common, graft_gguf *out, graft_err *e)
{
    const uint8_t *p = data;
    reader r = {.begin = p,
                .p = p,
                .end = p + size,
                .what = what,
                .e = e,
                .alignment = DEFAULT_ALIGNMENT,
                .first = first,
                .common = common,
                .out = out};
    *out = (graft_gguf){0};
    graft_status st = read_all(&r);
    graft_free(r.offset);
    graft_free(r.pair);
    if (st) graft_gguf_finish(out);
    return st;
}

void graft_gguf_common_finish(graft_gguf_common *c)
{
    const graft_map_entry *entry;
    for (size_t at = 0; (entry = graft_map_next(&c->shape, &at));) graft_free(entry->value);
    graft_map_finish(&c->shape);
    *c = (graft_gguf_common){0};
}

void graft_gguf_finish(graft_gguf *g)
{
    graft_free(g->tensor);
    graft_free(g->meta);
    graft_free(g->text);
    graft_free(g->tokenizer);
    *g = (graft_gguf){0};
}
