/* String-keyed hash map of pointers; keys are copied. Any number of threads may read a map while
 * none changes it. */
#ifndef GRAFT_BASE_MAP_H
#define GRAFT_BASE_MAP_H
#include <stdbool.h>
#include <stddef.h>

typedef struct graft_map_entry {
    char *key; /* NULL: free place */
    void *value;
} graft_map_entry;
typedef struct graft_map {
    graft_map_entry *entry;
    size_t cap, count;
} graft_map;

#define GRAFT_MAP_INIT                                                                             \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

/* Frees keys and the table; values are the caller's. */
void graft_map_finish(graft_map *m);
/* NULL when absent. */
void *graft_map_get(const graft_map *m, const char *key);
bool graft_map_has(const graft_map *m, const char *key);
/* Adds or replaces; 0, or -1 when out of memory (the map is unchanged). */
int graft_map_put(graft_map *m, const char *key, void *value);
/* Walks the map in no particular order: start with *pos = 0; NULL at the end. */
const graft_map_entry *graft_map_next(const graft_map *m, size_t *pos);
#endif
