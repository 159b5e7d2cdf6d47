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

/* Stand for \( and \) while brackets are read: bytes that UTF-8 never has. */
#define ESCAPED_OPEN  '\xfe'
#define ESCAPED_CLOSE '\xff'

#define EMBEDDING "embedding:"

typedef struct prompt {
    const graft_tokenizer *t;
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
    if (n == 0) return GRAFT_OK;
    GRAFT_TRY(graft_tokenizer_encode(p->t, text, n, &ids, &count, p->e));
    GRAFT_TRY(add_tokens(p, ids, count, weight));
out:
    graft_free(ids);
    return st;
}

/* Where the next embedding's name begins after text[from]: behind white space. n if nowhere. */
static size_t find_embedding(const char *text, size_t from, size_t n)
{
    const size_t len = sizeof EMBEDDING - 1;
    while (from < n) {
        uint32_t cp;
        from += graft_unicode_decode((const uint8_t *)text + from, n - from, &cp);
        if (graft_unicode_is_space(cp) && n - from >= len &&
            memcmp(text + from, EMBEDDING, len) == 0)
            return from;
    }
    return n;
}

/* Text of one weight. Embeddings' names stand as segments of their own even though they are read
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
        GRAFT_TRY(add_text(p, text + at, next - at, weight));
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

graft_status graft_prompt_chunks(const graft_tokenizer *t, const char *text, int32_t pad_token,
                                 graft_chunks *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    assert(t && text && out);
    *out = (graft_chunks){0};
    size_t n = strlen(text);
    if (n > GRAFT_TEXT_MAX_BYTES)
        return graft_fail(e, GRAFT_E_LIMIT, "a prompt of %zu bytes; at most %zu are read", n,
                          GRAFT_TEXT_MAX_BYTES);
    prompt p = {.t = t, .e = e, .pad = pad_token, .out = out};
    char *copy = escape(text, &n);
    if (!copy) return graft_fail_nomem(e, "a prompt");
    GRAFT_TRY(begin_chunk(&p));
    GRAFT_TRY(add_range(&p, copy, n, 1.0, 0));
    end_chunk(&p);
out:
    graft_free(copy);
    if (st != GRAFT_OK) graft_chunks_finish(out);
    return st;
}
