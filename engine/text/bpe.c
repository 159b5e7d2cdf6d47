#include "engine/text/bpe.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/size.h"
#include "engine/text/unicode.h"

enum { BPE_BYTES = 256, BPE_MAX_FILE = 64 << 20 };
#define BPE_NONE UINT32_MAX
#define WORD_END "</w>"

typedef struct pair {
    uint32_t left, right;
} pair;

/* The names of the tokens: of merges needed while their list is read. */
typedef struct names {
    char *pool;
    size_t used;
    uint32_t *end;  /* name i is pool[end[i - 1]..end[i]) */
    uint32_t *slot; /* token + 1 by hash of the name, 0 for none; as many as the merges have */
    size_t slots;
    uint32_t count;
} names;

struct graft_bpe {
    bool ends;                  /* a byte at the end of a word is a token of its own */
    uint32_t base, count, room; /* tokens of bytes; merges, and how many there may be */
    uint32_t byte_token[BPE_BYTES];
    pair *merge;    /* of `room` */
    uint32_t *slot; /* merge number + 1 by hash of the pair, 0 for none */
    int slot_bits;  /* at least twice as many slots as there are tokens */
    bool ranked; /* the tokens themselves are the list: base is 0, and a merge's number its token */
    names rank;
    size_t longest; /* of their names */
};

typedef struct span {
    const char *s;
    size_t n;
} span;

static span name_at(const names *t, uint32_t token)
{
    uint32_t begin = token == 0 ? 0 : t->end[token - 1];
    return (span){t->pool + begin, t->end[token] - begin};
}

/* Slot that holds the name, or the free one where it belongs. */
static uint32_t *name_slot(const names *t, span name)
{
    size_t i = graft_hash64(name.s, name.n) & (t->slots - 1);
    for (;; i = (i + 1) & (t->slots - 1)) {
        if (t->slot[i] == 0) return &t->slot[i];
        span other = name_at(t, t->slot[i] - 1);
        if (other.n == name.n && memcmp(other.s, name.s, name.n) == 0) return &t->slot[i];
    }
}

/* Adds head+tail as the next token; false if there is such a name already. The pool has room. */
static bool name_add(names *t, span head, span tail)
{
    char *at = t->pool + t->used;
    memcpy(at, head.s, head.n);
    memcpy(at + head.n, tail.s, tail.n);
    uint32_t *slot = name_slot(t, (span){at, head.n + tail.n});
    if (*slot != 0) return false;
    t->used += head.n + tail.n;
    t->end[t->count] = (uint32_t)t->used;
    *slot = ++t->count;
    return true;
}

/* CLIP's byte alphabet: bytes that print in Latin-1 stand for themselves and come first; the others
 * follow as U+0100 and up. */
static bool byte_prints(unsigned b)
{
    return (b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad);
}

static void add_alphabet(graft_bpe *b, names *t)
{
    for (int pass = 0; pass < 1 + b->ends; pass++) {
        span suffix = pass == 0 ? (span){"", 0} : (span){WORD_END, strlen(WORD_END)};
        uint32_t other = 0x100;
        for (int printing = 1; printing >= 0; printing--)
            for (unsigned i = 0; i < BPE_BYTES; i++) {
                if (byte_prints(i) != (printing == 1)) continue;
                uint8_t utf8[4];
                size_t n = graft_unicode_encode(printing ? i : other++, utf8);
                if (pass == 0) b->byte_token[i] = t->count;
                bool added = name_add(t, (span){(const char *)utf8, n}, suffix);
                assert(added);
                (void)added;
            }
    }
    assert(t->count == b->base);
}

static size_t next_slot(const graft_bpe *b, size_t i)
{
    return (i + 1) & (((size_t)1 << b->slot_bits) - 1);
}

static size_t pair_hash(const graft_bpe *b, uint32_t left, uint32_t right)
{
    return (size_t)(((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u >> (64 - b->slot_bits));
}

/* Number of the merge of two tokens, or BPE_NONE. */
static uint32_t find_merge(const graft_bpe *b, uint32_t left, uint32_t right)
{
    for (size_t i = pair_hash(b, left, right);; i = next_slot(b, i)) {
        uint32_t m = b->slot[i];
        if (m == 0) return BPE_NONE;
        if (b->merge[m - 1].left == left && b->merge[m - 1].right == right) return m - 1;
    }
}

/* The token of these bytes, or BPE_NONE. */
static uint32_t find_rank(const graft_bpe *b, const uint8_t *bytes, size_t n)
{
    if (n > b->longest) return BPE_NONE;
    const uint32_t token = *name_slot(&b->rank, (span){(const char *)bytes, n});
    return token ? token - 1 : BPE_NONE;
}

static void add_merge(graft_bpe *b, uint32_t left, uint32_t right)
{
    size_t i = pair_hash(b, left, right);
    while (b->slot[i] != 0) i = next_slot(b, i);
    b->merge[b->count] = (pair){left, right};
    b->slot[i] = ++b->count;
}

static graft_status read_line(graft_bpe *b, names *t, span line, size_t number, graft_err *e)
{
    const char *space = memchr(line.s, ' ', line.n);
    span left = {line.s, space ? (size_t)(space - line.s) : 0};
    span right = {line.s + left.n + 1, space ? line.n - left.n - 1 : 0};
    if (left.n == 0 || right.n == 0 || memchr(right.s, ' ', right.n))
        return graft_fail(e, GRAFT_E_FORMAT,
                          "merges line %zu: expected two tokens with a space between them", number);
    uint32_t l = *name_slot(t, left), r = *name_slot(t, right);
    if (l == 0 || r == 0)
        return graft_fail(e, GRAFT_E_FORMAT, "merges line %zu: \"%.*s\" was not made before",
                          number, (int)(l == 0 ? left : right).n, (l == 0 ? left : right).s);
    if (!name_add(t, left, right))
        return graft_fail(e, GRAFT_E_FORMAT, "merges line %zu makes a token that exists", number);
    add_merge(b, l - 1, r - 1);
    return GRAFT_OK;
}

static graft_status read_merges(graft_bpe *b, names *t, const char *text, size_t n, graft_err *e)
{
    static const char version[] = "#version";
    graft_status st = GRAFT_OK;
    const char *end = text + n;
    for (size_t number = 1; text < end && b->count < b->room && st == GRAFT_OK; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) stop = end;
        span line = {text, (size_t)(stop - text)};
        text = stop < end ? stop + 1 : end;
        if (line.n > 0 && line.s[line.n - 1] == '\r') line.n--;
        size_t v = sizeof version - 1;
        if (line.n == 0 || (number == 1 && line.n >= v && memcmp(line.s, version, v) == 0))
            continue;
        st = read_line(b, t, line, number, e);
    }
    if (st == GRAFT_OK && b->count == 0)
        st = graft_fail(e, GRAFT_E_FORMAT, "the list of merges is empty");
    return st;
}

/* Merges that the text may have, a line each. */
static size_t count_lines(const char *text, size_t n)
{
    size_t lines = n > 0;
    for (const char *end = text + n;
         text < end && (text = memchr(text, '\n', (size_t)(end - text))); text++)
        lines++;
    return lines;
}

static int slot_bits(size_t tokens)
{
    int bits = 10;
    while (((size_t)1 << bits) < 2 * tokens) bits++;
    return bits;
}

static bool names_room(names *t, size_t tokens, size_t bytes)
{
    t->slots = (size_t)1 << slot_bits(tokens);
    t->end = graft_malloc_array(tokens, sizeof *t->end);
    t->slot = graft_calloc(t->slots, sizeof *t->slot);
    t->pool = graft_malloc(bytes);
    return t->end && t->slot && t->pool;
}

static void names_finish(names *t)
{
    graft_free(t->pool);
    graft_free(t->end);
    graft_free(t->slot);
}

static graft_status make_room(graft_bpe *b, names *t, size_t bytes, graft_err *e)
{
    const size_t tokens = (size_t)b->base + b->room;
    size_t pool;
    b->slot_bits = slot_bits(tokens);
    b->merge = graft_malloc_array((size_t)b->room + 1, sizeof *b->merge);
    b->slot = graft_calloc((size_t)1 << b->slot_bits, sizeof *b->slot);
    /* A name is never longer than its line. */
    return graft_size_add(bytes, b->base * (2 + strlen(WORD_END)), &pool) &&
                   names_room(t, tokens, pool) && b->merge && b->slot
               ? GRAFT_OK
               : graft_fail_nomem(e, "the tokenizer's list of merges");
}

graft_status graft_bpe_create(const char *merges, size_t n, graft_bpe_kind kind, graft_bpe **out,
                              graft_err *e)
{
    graft_status st = GRAFT_OK;
    names t = {0};
    assert(out && (merges || n == 0));
    *out = NULL;
    if (n > BPE_MAX_FILE)
        return graft_fail(e, GRAFT_E_LIMIT, "the list of merges has over %d bytes", BPE_MAX_FILE);
    const size_t lines = n ? count_lines(merges, n) : 0;
    graft_bpe *b = graft_calloc(1, sizeof *b);
    if (!b) return graft_fail_nomem(e, "the tokenizer's list of merges");
    b->ends = kind == GRAFT_BPE_WORDS;
    b->base = b->ends ? 2 * BPE_BYTES : BPE_BYTES;
    const size_t most = b->ends ? GRAFT_BPE_MERGES : GRAFT_BPE_MOST;
    b->room = (uint32_t)(lines < most ? lines : most);
    GRAFT_TRY(make_room(b, &t, n, e));
    add_alphabet(b, &t);
    GRAFT_TRY(read_merges(b, &t, merges, n, e));
    *out = b;
    b = NULL;
out:
    names_finish(&t);
    graft_bpe_destroy(b);
    return st;
}

graft_status graft_bpe_create_ranks(const uint8_t *bytes, const uint32_t *end, uint32_t tokens,
                                    bool in_order, graft_bpe **out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    assert(out && bytes && end && tokens >= BPE_BYTES && tokens <= GRAFT_BPE_MOST);
    *out = NULL;
    graft_bpe *b = graft_calloc(1, sizeof *b);
    if (!b || !names_room(&b->rank, tokens, (size_t)end[tokens - 1] + 1)) {
        st = graft_fail_nomem(e, "the tokenizer's list of tokens");
        goto out;
    }
    b->ranked = true;
    b->count = tokens;
    for (uint32_t i = 0; i < tokens; i++) {
        const uint32_t at = i ? end[i - 1] : 0;
        const span name = {(const char *)bytes + at, end[i] - at};
        if (i < BPE_BYTES && name.n == 1) b->byte_token[bytes[at]] = i;
        if (name.n == 0 || (i < BPE_BYTES && (name.n > 1 || (in_order && bytes[at] != i))) ||
            !name_add(&b->rank, name, (span){"", 0})) {
            st = graft_fail(e, GRAFT_E_FORMAT,
                            i < BPE_BYTES ? "token %u is not its byte"
                                          : "token %u is empty or there already",
                            i);
            goto out;
        }
        if (name.n > b->longest) b->longest = name.n;
    }
    *out = b;
    b = NULL;
out:
    graft_bpe_destroy(b);
    return st;
}

void graft_bpe_destroy(graft_bpe *b)
{
    if (!b) return;
    names_finish(&b->rank);
    graft_free(b->merge);
    graft_free(b->slot);
    graft_free(b);
}

uint32_t graft_bpe_tokens(const graft_bpe *b)
{
    return b->base + b->count;
}

size_t graft_bpe_bytes(const char *name, size_t n, uint8_t *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp, other = 0x100, b = 0;
        i += graft_unicode_decode((const uint8_t *)name + i, n - i, &cp);
        if (cp < BPE_BYTES && byte_prints(cp)) {
            out[bytes++] = (uint8_t)cp;
            continue;
        }
        while (b < BPE_BYTES && (byte_prints(b) || other++ != cp)) b++;
        if (b == BPE_BYTES) return 0;
        out[bytes++] = (uint8_t)b;
    }
    return bytes;
}

void graft_bpe_work_finish(graft_bpe_work *w)
{
    graft_free(w->token);
    graft_free(w->next);
    graft_free(w->prev);
    graft_free(w->heap);
    *w = (graft_bpe_work){0};
}

static graft_status work_reserve(graft_bpe_work *w, size_t n, graft_err *e)
{
    if (n <= w->cap) return GRAFT_OK;
    if (n >= UINT32_MAX / 4) return graft_fail(e, GRAFT_E_LIMIT, "a word of %zu bytes", n);
    size_t cap = n < 64 ? 64 : n + n / 2;
    graft_bpe_work_finish(w);
    w->token = graft_malloc_array(cap, sizeof *w->token);
    w->next = graft_malloc_array(cap, sizeof *w->next);
    w->prev = graft_malloc_array(cap, sizeof *w->prev);
    w->heap = graft_malloc_array(cap, 3 * sizeof *w->heap);
    if (!w->token || !w->next || !w->prev || !w->heap) {
        graft_bpe_work_finish(w);
        return graft_fail_nomem(e, "the tokens of a word");
    }
    w->cap = cap;
    return GRAFT_OK;
}

/* The heap gives the lowest merge number first and, among equals, the leftmost place. */
static void heap_push(graft_bpe_work *w, uint64_t v)
{
    size_t i = w->heap_len++;
    assert(i < 3 * w->cap);
    for (; i > 0 && w->heap[(i - 1) / 2] > v; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = v;
}

static uint64_t heap_pop(graft_bpe_work *w)
{
    uint64_t top = w->heap[0], v = w->heap[--w->heap_len];
    size_t i = 0, n = w->heap_len;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && w->heap[child + 1] < w->heap[child]) child++;
        if (w->heap[child] >= v) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = v;
    return top;
}

#define NO_PLACE UINT32_MAX

/* Number of the merge of the tokens at this place and at the next one, or BPE_NONE. A place is the
 * number of its first byte. */
static uint32_t merge_at(const graft_bpe *b, const graft_bpe_work *w, const uint8_t *word,
                         uint32_t at)
{
    const uint32_t left = w->token[at], right = w->token[w->next[at]];
    if (!b->ranked) return find_merge(b, left, right);
    return find_rank(b, word + at, name_at(&b->rank, left).n + name_at(&b->rank, right).n);
}

static void push_pair(const graft_bpe *b, graft_bpe_work *w, const uint8_t *word, uint32_t at)
{
    if (at == NO_PLACE || w->next[at] == NO_PLACE) return;
    uint32_t m = merge_at(b, w, word, at);
    if (m != BPE_NONE) heap_push(w, (uint64_t)m << 32 | at);
}

graft_status graft_bpe_word(const graft_bpe *b, const uint8_t *word, size_t n, graft_bpe_work *w,
                            graft_err *e)
{
    graft_status st;
    assert(b && word && n > 0);
    GRAFT_TRY(work_reserve(w, n, e));
    w->heap_len = 0;
    if (b->ranked && (w->token[0] = find_rank(b, word, n)) != BPE_NONE) {
        w->count = 1;
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        w->token[i] = b->byte_token[word[i]] + (b->ends && i + 1 == n ? BPE_BYTES : 0u);
        w->prev[i] = i == 0 ? NO_PLACE : (uint32_t)i - 1;
        w->next[i] = i + 1 == n ? NO_PLACE : (uint32_t)i + 1;
    }
    for (size_t i = 0; i < n; i++) push_pair(b, w, word, (uint32_t)i);
    /* Entries go stale when a neighbour merges first; the pair is looked at again to tell. A place
     * that was merged away has itself as its next, which no live place has. */
    while (w->heap_len > 0) {
        uint64_t top = heap_pop(w);
        uint32_t m = (uint32_t)(top >> 32), at = (uint32_t)top, right = w->next[at];
        if (right == NO_PLACE || right == at || merge_at(b, w, word, at) != m) continue;
        w->token[at] = b->base + m;
        w->next[at] = w->next[right];
        if (w->next[at] != NO_PLACE) w->prev[w->next[at]] = at;
        w->next[right] = right;
        push_pair(b, w, word, w->prev[at]);
        push_pair(b, w, word, at);
    }
    w->count = 0;
    for (uint32_t i = 0; i != NO_PLACE;) { /* place 0 is never merged away */
        uint32_t next = w->next[i];
        w->token[w->count++] = w->token[i];
        i = next;
    }
out:
    return st;
}
