/* Upkeep of the cache on disk. */
#include "base/alloc.h"
#include "engine/objects/objects.h"

const char *graft_cache_folder(const graft_engine *engine)
{
    return engine->disk ? graft_disk_cache_folder(engine->disk) : NULL;
}

graft_status graft_cache_list(graft_engine *engine, bool verify, graft_cache_visit *visit,
                              void *ctx, graft_err *e)
{
    graft_disk_entry *list;
    size_t n;
    if (!engine->disk) return GRAFT_OK;
    graft_status st = graft_disk_cache_list(engine->disk, verify, &list, &n, e);
    if (st) return st;
    for (size_t i = 0; i < n; i++)
        visit(ctx, list[i].name, list[i].bytes, list[i].modified, list[i].good);
    graft_free(list);
    return GRAFT_OK;
}

bool graft_cache_old(const graft_engine *engine, const char *name)
{
    return engine->disk && graft_disk_cache_old(engine->disk, name);
}

graft_status graft_cache_clear(graft_engine *engine, uint64_t *count, graft_err *e)
{
    size_t n = 0;
    graft_status st = engine->disk ? graft_disk_cache_clear(engine->disk, &n, e) : GRAFT_OK;
    *count = n;
    return st;
}
