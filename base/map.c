#include "base/map.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

void graft_map_finish(graft_map *m)
{
    for (size_t i = 0; i < m->cap; i++) graft_free(m->entry[i].key);
    graft_free(m->entry);
    *m = (graft_map)GRAFT_MAP_INIT;
}

/* The place of `key`, or the free place where it would go. The table is never full. */
static graft_map_entry *find(const graft_map *m, const char *key)
{
    size_t i = (size_t)graft_hash64(key, strlen(key)) & (m->cap - 1);
    while (m->entry[i].key && strcmp(m->entry[i].key, key) != 0) i = (i + 1) & (m->cap - 1);
    return &m->entry[i];
}

void *graft_map_get(const graft_map *m, const char *key)
{
    if (!m->count) return NULL;
    graft_map_entry *e = find(m, key);
    return e->key ? e->value : NULL;
}

bool graft_map_has(const graft_map *m, const char *key)
{
    return m->count && find(m, key)->key;
}

static int grow(graft_map *m)
{
    graft_map bigger = {NULL, m->cap ? m->cap * 2 : 16, m->count};
    bigger.entry = graft_calloc(bigger.cap, sizeof *bigger.entry);
    if (!bigger.entry) return -1;
    for (size_t i = 0; i < m->cap; i++)
        if (m->entry[i].key) *find(&bigger, m->entry[i].key) = m->entry[i];
    graft_free(m->entry);
    *m = bigger;
    return 0;
}

int graft_map_put(graft_map *m, const char *key, void *value)
{
    if ((m->count + 1) * 4 > m->cap * 3 && grow(m)) return -1;
    graft_map_entry *e = find(m, key);
    if (!e->key) {
        char *copy = graft_strdup(key);
        if (!copy) return -1;
        e->key = copy;
        m->count++;
    }
    e->value = value;
    return 0;
}

const graft_map_entry *graft_map_next(const graft_map *m, size_t *pos)
{
    while (*pos < m->cap)
        if (m->entry[(*pos)++].key) return &m->entry[*pos - 1];
    return NULL;
}
