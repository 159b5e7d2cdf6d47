#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/text/number.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

enum {
    TOKEN_START = 49406,
    TOKEN_END = 49407,
    PROMPT_LONG = 8,        /* a segment with this many tokens may be split across chunks */
    PROMPT_MAX_DEPTH = 1000 /* of brackets; ComfyUI stops near this as well */
};
#define PROMPT_DROPPED INT32_MIN /* a vector that only takes a place */

/* Stand for \( and \) while brackets are read: bytes that UTF-8 never has. */
#define ESCAPED_OPEN  '\xfe'
#define ESCAPED_CLOSE '\xff'

#define EMBEDDING "embedding:"

typedef struct prompt {
    const graft_tokenizer *t; /* NULL: only the names of embeddings are wanted, or segments */
    const graft_text_embeddings *embeddings;
    graft_prompt_segment_fn *each; /* NULL: segments are not wanted */
    void *ctx;
    size_t named; /* embeddings so far */
    bool dropped; /* there are PROMPT_DROPPED tokens */
    graft_err *e;
    int32_t pad;
    graft_chunks *out;
    size_t token_cap, weight_cap; /* in numbers, not chunks */
    size_t fill;                  /* numbers written to the last chunk, without end and rest */
} prompt;

void graft_chunks_finish(graft_chunks *c)
{
    graft_free(c->tokens);
    graft_free(c->weights);
    graft_free(c->vectors);
    *c = (graft_chunks){0};
}

static void put(prompt *p, int32_t token, double weight)
{
    assert(p->out->count > 0 && p->fill < GRAFT_TEXT_CHUNK);
    size_t at = (p->out->count - 1) * GRAFT_TEXT_CHUNK + p->fill++;
    p->out->tokens[at] = token;
    p->out->weights[at] = (float)weight;
}

static graft_status begin_chunk(prompt *p)
{
    graft_chunks *c = p->out;
    size_t need = (c->count + 1) * GRAFT_TEXT_CHUNK;
    if (graft_grow(&c->tokens, &p->token_cap, need, sizeof *c->tokens) != 0 ||
        graft_grow(&c->weights, &p->weight_cap, need, sizeof *c->weights) != 0)
        return graft_fail_nomem(p->e, "the chunks of a prompt");
    c->count++;
    p->fill = 0;
    put(p, TOKEN_START, 1.0);
    return GRAFT_OK;
}

static void end_chunk(prompt *p)
{
    put(p, TOKEN_END, 1.0);
    while (p->fill < GRAFT_TEXT_CHUNK) put(p, p->pad, 1.0);
}

/* Adds a segment's tokens: a short one goes whole into this chunk or the next, a long one fills up
 * this chunk first. */
static graft_status add_tokens(prompt *p, const int32_t *ids, size_t n, double weight)
{
    graft_status st = GRAFT_OK;
    bool may_split = n >= PROMPT_LONG;
    while (n > 0) {
        size_t room = GRAFT_TEXT_CHUNK - 1 - p->fill;
        size_t take = n <= room ? n : may_split ? room : 0;
        for (size_t i = 0; i < take; i++) put(p, ids[i], weight);
        ids += take;
        n -= take;
        if (n == 0) break;
        end_chunk(p);
        GRAFT_TRY(begin_chunk(p));
    }
out:
    return st;
}

static graft_status add_text(prompt *p, const char *text, size_t n, double weight)
{
    int32_t *ids = NULL;
    size_t count = 0;
    graft_status st = GRAFT_OK;
    if (n > 0 && p->each) return p->each(p->ctx, text, n, weight, p->e);
    if (n == 0 || !p->t) return GRAFT_OK;
    GRAFT_TRY(graft_tokenizer_encode(p->t, text, n, &ids, &count, p->e));
    GRAFT_TRY(add_tokens(p, ids, count, weight));
out:
    graft_free(ids);
    return st;
}

static bool starts_embedding(const char *text, size_t n)
{
    const size_t len = sizeof EMBEDDING - 1;
    return n >= len && memcmp(text, EMBEDDING, len) == 0;
}

/* Where the next embedding's name begins after text[from]: behind white space. n if nowhere. */
static size_t find_embedding(const char *text, size_t from, size_t n)
{
    while (from < n) {
        uint32_t cp;
        from += graft_unicode_decode((const uint8_t *)text + from, n - from, &cp);
        if (graft_unicode_is_space(cp) && starts_embedding(text + from, n - from)) return from;
    }
    return n;
}

static graft_status add_vectors(prompt *p, size_t first, size_t n, double weight)
{
    graft_status st = GRAFT_OK;
    bool dropped = first == GRAFT_TEXT_NO_VECTOR;
    if (n == 0 || !p->t) return GRAFT_OK;
    assert(dropped || (first <= INT32_MAX && n <= INT32_MAX - first));
    int32_t *ids = graft_malloc_array(n, sizeof *ids);
    if (!ids) return graft_fail_nomem(p->e, "an embedding");
    for (size_t i = 0; i < n; i++) ids[i] = dropped ? PROMPT_DROPPED : -1 - (int32_t)(first + i);
    p->dropped = p->dropped || dropped;
    GRAFT_TRY(add_tokens(p, ids, n, weight));
out:
    graft_free(ids);
    return st;
}

/* The first place from text[from] on with white space (or without), or n. */
static size_t find_space(const char *text, size_t from, size_t n, bool space)
{
    while (from < n) {
        uint32_t cp;
        size_t len = graft_unicode_decode((const uint8_t *)text + from, n - from, &cp);
        if (graft_unicode_is_space(cp) == space) return from;
        from += len;
    }
    return n;
}

/* Asks for the name of n bytes; the byte behind it is the text's or its terminator. */
static graft_status ask(prompt *p, char *name, size_t n, bool last, size_t *first, size_t *count)
{
    char behind = name[n];
    name[n] = '\0';
    *first = *count = 0;
    graft_status st = p->embeddings->find(p->embeddings->ctx, name, last, first, count, p->e);
    name[n] = behind;
    return st;
}

/* An embedding's name and the text behind it. */
static graft_status add_embedding(prompt *p, char *text, size_t n, double weight)
{
    size_t begin = find_space(text, sizeof EMBEDDING - 1, n, false);
    size_t end = find_space(text, begin, n, true), bare = end, first, count;
    if (++p->named > GRAFT_TEXT_MAX_EMBEDDINGS)
        return graft_fail(p->e, GRAFT_E_LIMIT, "the prompt names more than %d embeddings",
                          GRAFT_TEXT_MAX_EMBEDDINGS);
    while (bare > begin && text[bare - 1] == ',') bare--;
    bool once = bare == begin || bare == end;
    graft_status st = ask(p, text + begin, end - begin, once, &first, &count);
    if (st == GRAFT_E_NOTFOUND) {
        end = bare;
        if (!once) st = ask(p, text + begin, end - begin, true, &first, &count);
    }
    if (st == GRAFT_E_NOTFOUND) st = GRAFT_OK, count = 0;
    if (st) return st;
    GRAFT_TRY(add_vectors(p, first, count, weight));
    GRAFT_TRY(add_text(p, text + end, n - end, weight));
out:
    return st;
}

/* Text of one weight. Embeddings' names stand as segments of their own even where they are read
 * as words, so that the rest of a prompt keeps its places. */
static graft_status add_segment(prompt *p, char *text, size_t n, double weight)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ESCAPED_OPEN) text[i] = '(';
        if (text[i] == ESCAPED_CLOSE) text[i] = ')';
    }
    for (size_t at = 0; at < n;) {
        size_t next = find_embedding(text, at, n);
        bool named = p->embeddings && starts_embedding(text + at, n - at);
        GRAFT_TRY(named ? add_embedding(p, text + at, next - at, weight)
                        : add_text(p, text + at, next - at, weight));
        at = next;
    }
out:
    return st;
}

static graft_status add_range(prompt *p, char *text, size_t n, double weight, int depth);

/* A stretch that is either a group, brackets included, or text outside of groups. */
static graft_status add_item(prompt *p, char *text, size_t n, double weight, int depth)
{
    graft_status st;
    if (n < 2 || text[0] != '(' || text[n - 1] != ')') return add_segment(p, text, n, weight);
    if (depth >= PROMPT_MAX_DEPTH)
        return graft_fail(p->e, GRAFT_E_LIMIT, "the prompt's brackets are nested over %d deep",
                          PROMPT_MAX_DEPTH);
    text++;
    n -= 2;
    weight *= 1.1;
    const char *colon = n > 0 ? memrchr(text, ':', n) : NULL;
    if (colon > text) {
        double value;
        bool ok;
        size_t head = (size_t)(colon - text);
        GRAFT_TRY(graft_number_parse(colon + 1, n - head - 1, &value, &ok, p->e));
        if (ok) {
            weight = value;
            n = head;
        }
    }
    GRAFT_TRY(add_range(p, text, n, weight, depth + 1));
out:
    return st;
}

/* Splits at the outermost groups. An open bracket without its partner reaches to the end; after a
 * closing one too many the level is below zero, and an opening one only brings it back. */
static graft_status add_range(prompt *p, char *text, size_t n, double weight, int depth)
{
    graft_status st = GRAFT_OK;
    size_t begin = 0;
    int64_t level = 0;
    for (size_t i = 0; i < n; i++) {
        size_t end = begin;
        if (text[i] == '(' && level++ == 0) end = i;
        if (text[i] == ')' && --level == 0) end = i + 1;
        if (end == begin) continue;
        GRAFT_TRY(add_item(p, text + begin, end - begin, weight, depth));
        begin = end;
    }
    if (begin < n) GRAFT_TRY(add_item(p, text + begin, n - begin, weight, depth));
out:
    return st;
}

/* A copy with \( and \) as single bytes. Bytes of the input that look like those are not UTF-8;
 * another such byte takes their place. */
static char *escape(const char *text, size_t *n)
{
    char *copy = graft_malloc(*n + 1);
    size_t len = 0;
    if (!copy) return NULL;
    for (size_t i = 0; i < *n; i++) {
        bool bracket = text[i] == '\\' && i + 1 < *n && (text[i + 1] == '(' || text[i + 1] == ')');
        if (bracket)
            copy[len++] = text[++i] == '(' ? ESCAPED_OPEN : ESCAPED_CLOSE;
        else if (text[i] == ESCAPED_OPEN || text[i] == ESCAPED_CLOSE)
            copy[len++] = '\xc0';
        else
            copy[len++] = text[i];
    }
    *n = len;
    return copy;
}

/* Closes the gaps that vectors without values leave in their chunks. */
static void drop(graft_chunks *c, int32_t pad)
{
    for (size_t i = 0; i < c->count; i++) {
        int32_t *token = c->tokens + i * GRAFT_TEXT_CHUNK;
        float *weight = c->weights + i * GRAFT_TEXT_CHUNK;
        size_t kept = 0;
        for (size_t k = 0; k < GRAFT_TEXT_CHUNK; k++) {
            if (token[k] == PROMPT_DROPPED) continue;
            token[kept] = token[k];
            weight[kept++] = weight[k];
        }
        for (; kept < GRAFT_TEXT_CHUNK; kept++) {
            token[kept] = pad;
            weight[kept] = 1.0f;
        }
    }
}

static graft_status read_prompt(prompt *p, const char *text)
{
    graft_status st = GRAFT_OK;
    size_t n = strlen(text);
    if (n > GRAFT_TEXT_MAX_BYTES)
        return graft_fail(p->e, GRAFT_E_LIMIT, "a prompt of %zu bytes; at most %zu are read", n,
                          GRAFT_TEXT_MAX_BYTES);
    char *copy = escape(text, &n);
    if (!copy) return graft_fail_nomem(p->e, "a prompt");
    copy[n] = '\0';
    GRAFT_TRY(add_range(p, copy, n, 1.0, 0));
out:
    graft_free(copy);
    return st;
}

graft_status graft_prompt_chunks_with(const graft_tokenizer *t, const char *text, int32_t pad_token,
                                      const graft_text_embeddings *embeddings, graft_chunks *out,
                                      graft_err *e)
{
    graft_status st = GRAFT_OK;
    assert(t && text && out);
    *out = (graft_chunks){0};
    prompt p = {.t = t, .embeddings = embeddings, .e = e, .pad = pad_token, .out = out};
    GRAFT_TRY(begin_chunk(&p));
    GRAFT_TRY(read_prompt(&p, text));
    end_chunk(&p);
    if (p.dropped) drop(out, pad_token);
out:
    if (st != GRAFT_OK) graft_chunks_finish(out);
    return st;
}

graft_status graft_prompt_chunks(const graft_tokenizer *t, const char *text, int32_t pad_token,
                                 graft_chunks *out, graft_err *e)
{
    return graft_prompt_chunks_with(t, text, pad_token, NULL, out, e);
}

graft_status graft_prompt_names(const char *text, const graft_text_embeddings *embeddings,
                                graft_err *e)
{
    prompt p = {.embeddings = embeddings, .e = e};
    assert(text && embeddings);
    return read_prompt(&p, text);
}

graft_status graft_prompt_segments(const char *text, graft_prompt_segment_fn *each, void *ctx,
                                   graft_err *e)
{
    prompt p = {.each = each, .ctx = ctx, .e = e};
    assert(text && each);
    return read_prompt(&p, text);
}
