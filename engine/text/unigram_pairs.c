#include "engine/text/unigram_pairs.h"

#include "base/alloc.h"
#include "engine/text/unigram_file.h"

#define NONE (-1)

/* Bytes of the text that stay together; n 0: it has become part of the one before. */
typedef struct symbol {
    uint32_t at, n;
    int32_t before, behind;
    bool frozen; /* the user's */
} symbol;

/* Two neighbours that would be a piece; n: bytes of both, by which it is known whether they still
 * are what they were. */
typedef struct pair {
    float score;
    int32_t left, right;
    uint32_t n;
} pair;

typedef struct cutting {
    const graft_unigram_pairs *p;
    graft_bytes text;
    symbol *symbol;
    size_t symbols;
    pair *heap; /* the best first */
    size_t pairs, cap;
    uint16_t *split; /* of each unused token: bytes of its left half when it was last seen */
    graft_unigram_place *way;
    graft_err *e;
} cutting;

/* ------------------------------------------------------------------ the heap */

/* Whether a comes before b: of equal ones that stands first in the text. */
static bool better(const pair *a, const pair *b)
{
    return a->score > b->score || (!(a->score < b->score) && a->left < b->left);
}

static void swap(pair *a, pair *b)
{
    const pair t = *a;
    *a = *b;
    *b = t;
}

static graft_status push(cutting *c, pair p)
{
    if (graft_grow(&c->heap, &c->cap, c->pairs + 1, sizeof *c->heap) != 0)
        return graft_fail_nomem(c->e, "the tokens of a prompt");
    size_t i = c->pairs++;
    c->heap[i] = p;
    for (size_t up; i > 0 && better(&c->heap[i], &c->heap[up = (i - 1) / 2]); i = up)
        swap(&c->heap[i], &c->heap[up]);
    return GRAFT_OK;
}

static pair pop(cutting *c)
{
    const pair top = c->heap[0];
    c->heap[0] = c->heap[--c->pairs];
    for (size_t i = 0;;) {
        size_t best = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < c->pairs; k++)
            if (better(&c->heap[k], &c->heap[best])) best = k;
        if (best == i) return top;
        swap(&c->heap[i], &c->heap[best]);
        i = best;
    }
}

/* ------------------------------------------------------------------ pieces */

/* The token of n bytes; NONE: there is none. */
static int32_t token_of(const cutting *c, size_t at, size_t n)
{
    const graft_pieces *p = &c->p->pieces;
    uint32_t node = GRAFT_PIECES_ROOT;
    if (n > GRAFT_UNIGRAM_MAX_PIECE) return NONE;
    for (size_t i = 0; i < n; i++) {
        node = graft_pieces_step(p, node, c->text.at[at + i]);
        if (node == GRAFT_PIECES_ROOT) return NONE;
    }
    return n ? p->node[node].id : NONE;
}

static bool is_unused(const cutting *c, int32_t token)
{
    return token != NONE && c->p->unused && c->p->unused[token];
}

static graft_status offer(cutting *c, int32_t left, int32_t right)
{
    if (left == NONE || right == NONE) return GRAFT_OK;
    const symbol *a = &c->symbol[left], *b = &c->symbol[right];
    if (a->frozen || b->frozen) return GRAFT_OK;
    const uint32_t n = a->n + b->n;
    const int32_t token = token_of(c, a->at, n);
    if (token == NONE) return GRAFT_OK;
    if (is_unused(c, token)) c->split[token] = (uint16_t)a->n;
    return push(c, (pair){c->p->score[token], left, right, n});
}

/* Characters, and the user's symbols. */
static void begin(cutting *c)
{
    for (size_t at = 0; at < c->text.n;) {
        const size_t left = c->text.n - at;
        const size_t found =
            graft_pieces_longest(&c->p->symbols, (graft_bytes){c->text.at + at, left});
        size_t n = found ? found : graft_unigram_char(c->text.at[at]);
        if (n > left) n = left;
        const int32_t i = (int32_t)c->symbols++;
        c->symbol[i] = (symbol){.at = (uint32_t)at,
                                .n = (uint32_t)n,
                                .before = i - 1, /* of the first NONE */
                                .behind = n < left ? i + 1 : NONE,
                                .frozen = found > 0};
        at += n;
    }
}

static graft_status merge(cutting *c)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 1; i < c->symbols; i++) GRAFT_TRY(offer(c, (int32_t)i - 1, (int32_t)i));
    while (c->pairs > 0) {
        const pair top = pop(c);
        symbol *a = &c->symbol[top.left], *b = &c->symbol[top.right];
        if (!a->n || !b->n || a->n + b->n != top.n) continue;
        a->n = top.n;
        a->behind = b->behind;
        if (b->behind != NONE) c->symbol[b->behind].before = top.left;
        b->n = 0;
        GRAFT_TRY(offer(c, a->before, top.left));
        GRAFT_TRY(offer(c, top.left, a->behind));
    }
out:
    return st;
}

/* What has an unused piece becomes its halves again, and these likewise. A piece has fewer halves
 * in turn than bytes. */
static void finish(cutting *c, size_t at, size_t n)
{
    const size_t end = at + n;
    size_t stop[GRAFT_UNIGRAM_MAX_PIECE + 1];
    size_t depth = 0;
    for (stop[0] = end; at < end;) {
        const int32_t token = token_of(c, at, stop[depth] - at);
        if (is_unused(c, token) && c->split[token]) {
            stop[depth + 1] = at + c->split[token];
            depth++;
            continue;
        }
        c->way[at] =
            (graft_unigram_place){0, token == NONE ? c->p->unknown : token, (uint32_t)stop[depth]};
        at = stop[depth];
        if (depth > 0) depth--;
    }
}

graft_status graft_unigram_pairs_cut(const graft_unigram_pairs *p, graft_bytes text,
                                     graft_unigram_place *way, graft_err *e)
{
    graft_status st = GRAFT_OK;
    cutting c = {.p = p, .text = text, .way = way, .e = e};
    c.symbol = graft_malloc_array(text.n, sizeof *c.symbol);
    if (p->unused) c.split = graft_calloc((size_t)p->count, sizeof *c.split);
    if (!c.symbol || (p->unused && !c.split)) {
        st = graft_fail_nomem(e, "the tokens of a prompt");
        goto out;
    }
    begin(&c);
    GRAFT_TRY(merge(&c));
    for (int32_t i = 0; i != NONE; i = c.symbol[i].behind)
        finish(&c, c.symbol[i].at, c.symbol[i].n);
out:
    graft_free(c.symbol);
    graft_free(c.heap);
    graft_free(c.split);
    return st;
}
