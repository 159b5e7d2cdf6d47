#include "engine/text/pieces.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* The members that a node stands for, while the trie is made: those that begin like it. */
typedef struct range {
    size_t begin, end;
    size_t depth; /* how many bytes they have in common */
} range;

typedef struct maker {
    graft_pieces *p;
    size_t cap;
    range *range; /* of each node */
    size_t range_cap;
    const graft_piece *list;
    graft_err *e;
} maker;

static int by_text(const void *a, const void *b)
{
    const graft_bytes x = ((const graft_piece *)a)->text, y = ((const graft_piece *)b)->text;
    const int order = memcmp(x.at, y.at, x.n < y.n ? x.n : y.n);
    return order != 0 ? order : (x.n > y.n) - (x.n < y.n);
}

static graft_status add_node(maker *m, uint8_t byte, range r)
{
    graft_pieces *p = m->p;
    if (p->count >= UINT32_MAX)
        return graft_fail(m->e, GRAFT_E_LIMIT, "the tokenizer's pieces are too many");
    if (graft_grow(&p->node, &m->cap, p->count + 1, sizeof *p->node) != 0 ||
        graft_grow(&m->range, &m->range_cap, p->count + 1, sizeof *m->range) != 0)
        return graft_fail_nomem(m->e, "the tokenizer's pieces");
    p->node[p->count] = (graft_pieces_node){.byte = byte, .id = GRAFT_PIECES_NONE};
    m->range[p->count++] = r;
    return GRAFT_OK;
}

/* Appends a node for each byte that goes on from this one. */
static graft_status add_children(maker *m, size_t node)
{
    range r = m->range[node];
    const size_t first = m->p->count;
    if (r.begin < r.end && m->list[r.begin].text.n == r.depth) /* the shortest comes first */
        m->p->node[node].id = m->list[r.begin++].id;
    while (r.begin < r.end) {
        const uint8_t byte = m->list[r.begin].text.at[r.depth];
        range child = {r.begin, r.begin, r.depth + 1};
        while (child.end < r.end && m->list[child.end].text.at[r.depth] == byte) child.end++;
        graft_status st = add_node(m, byte, child);
        if (st) return st;
        r.begin = child.end;
    }
    m->p->node[node].first = (uint32_t)first;
    m->p->node[node].children = (uint16_t)(m->p->count - first);
    return GRAFT_OK;
}

static graft_status refuse_twice(const graft_piece *list, size_t count, graft_err *e)
{
    for (size_t i = 1; i < count; i++)
        if (by_text(&list[i - 1], &list[i]) == 0)
            return graft_fail(e, GRAFT_E_FORMAT, "the tokenizer's pieces %d and %d are the same",
                              list[i - 1].id, list[i].id);
    return GRAFT_OK;
}

graft_status graft_pieces_init(graft_pieces *p, graft_piece *list, size_t count, graft_err *e)
{
    graft_status st;
    maker m = {.p = p, .list = list, .e = e};
    *p = (graft_pieces){0};
    if (count == 0) return GRAFT_OK;
    qsort(list, count, sizeof *list, by_text);
    GRAFT_TRY(refuse_twice(list, count, e));
    GRAFT_TRY(add_node(&m, 0, (range){0, count, 0}));
    for (size_t i = 0; i < p->count; i++) GRAFT_TRY(add_children(&m, i));
out:
    graft_free(m.range);
    if (st) graft_pieces_finish(p);
    return st;
}

void graft_pieces_finish(graft_pieces *p)
{
    graft_free(p->node);
    *p = (graft_pieces){0};
}

uint32_t graft_pieces_step(const graft_pieces *p, uint32_t node, uint8_t byte)
{
    if (p->count == 0) return GRAFT_PIECES_ROOT;
    assert(node < p->count);
    uint32_t low = p->node[node].first, high = low + p->node[node].children;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p->node[middle].byte == byte) return middle;
        if (p->node[middle].byte < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return GRAFT_PIECES_ROOT;
}

size_t graft_pieces_longest(const graft_pieces *p, graft_bytes text)
{
    size_t length = 0;
    uint32_t node = GRAFT_PIECES_ROOT;
    for (size_t i = 0; i < text.n; i++) {
        node = graft_pieces_step(p, node, text.at[i]);
        if (node == GRAFT_PIECES_ROOT) break;
        if (p->node[node].id != GRAFT_PIECES_NONE) length = i + 1;
    }
    return length;
}
