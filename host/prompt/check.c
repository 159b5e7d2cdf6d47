#include "host/prompt/check.h"

#include "base/tree.h"

size_t graft_check_find(const graft_check *c, const char *id)
{
    return (size_t)(uintptr_t)graft_map_get(&c->index, id);
}

cJSON *graft_check_error(const char *type, const char *message, const char *details, cJSON *extra)
{
    cJSON *error = cJSON_CreateObject();
    bool ok = graft_tree_text(error, "type", type) && graft_tree_text(error, "message", message) &&
              graft_tree_text(error, "details", details);
    if (graft_tree_put(error, "extra_info", extra) && ok) return error;
    cJSON_Delete(error);
    return NULL;
}

graft_status graft_check_fault(graft_check *c, size_t node, const char *type, const char *message,
                               const char *details, cJSON *extra)
{
    if (!c->faults[node]) c->faults[node] = cJSON_CreateArray();
    if (graft_tree_push(c->faults[node], graft_check_error(type, message, details, extra)))
        return GRAFT_OK;
    return graft_fail_nomem(c->e, "the list of faults");
}
