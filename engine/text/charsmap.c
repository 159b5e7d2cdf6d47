#include "engine/text/charsmap.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

static uint32_t read_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

graft_status graft_charsmap_init(graft_charsmap *m, graft_bytes blob, graft_err *e)
{
    const size_t head = sizeof(uint32_t);
    *m = (graft_charsmap){0};
    if (blob.n == 0) return GRAFT_OK;
    const size_t trie = blob.n > head ? read_u32(blob.at) : 0;
    if (trie == 0 || trie % head != 0 || trie >= blob.n - head || blob.at[blob.n - 1] != 0)
        return graft_fail(e, GRAFT_E_FORMAT, "the normalization table of %zu bytes is damaged",
                          blob.n);
    m->n_units = trie / head;
    m->n_results = blob.n - head - trie;
    m->unit = graft_malloc_array(m->n_units, sizeof *m->unit);
    m->results = graft_malloc(m->n_results);
    if (!m->unit || !m->results) {
        graft_charsmap_finish(m);
        return graft_fail_nomem(e, "a normalization table");
    }
    for (size_t i = 0; i < m->n_units; i++) m->unit[i] = read_u32(blob.at + head + i * head);
    memcpy(m->results, blob.at + head + trie, m->n_results);
    return GRAFT_OK;
}

void graft_charsmap_finish(graft_charsmap *m)
{
    graft_free(m->unit);
    graft_free(m->results);
    *m = (graft_charsmap){0};
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << (unit & 1u << 9 ? 8 : 0);
}

static graft_status damaged(size_t at, graft_err *e)
{
    return graft_fail(e, GRAFT_E_FORMAT, "the normalization table is damaged: it has no place %zu",
                      at);
}

graft_status graft_charsmap_find(const graft_charsmap *m, graft_bytes text, size_t *length,
                                 graft_bytes *result, graft_err *e)
{
    assert(m && length && result);
    *length = 0;
    *result = (graft_bytes){(const uint8_t *)"", 0};
    if (m->n_units == 0) return GRAFT_OK;
    const size_t n = text.n < GRAFT_CHARSMAP_MAX_KEY ? text.n : GRAFT_CHARSMAP_MAX_KEY;
    size_t at = offset_of(m->unit[0]), found = 0;
    for (size_t i = 0; i < n; i++) {
        at ^= text.at[i];
        if (at >= m->n_units) return damaged(at, e);
        const uint32_t unit = m->unit[at];
        if ((unit & (1u << 31 | 0xff)) != text.at[i]) break;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        if (at >= m->n_units) return damaged(at, e);
        found = m->unit[at] & ~(1u << 31);
        *length = i + 1;
    }
    if (*length == 0) return GRAFT_OK;
    if (found >= m->n_results) return damaged(found, e);
    *result = (graft_bytes){(const uint8_t *)m->results + found, strlen(m->results + found)};
    return GRAFT_OK;
}
