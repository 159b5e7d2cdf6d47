/* Small additions to cJSON's builders: a failed step frees what it was given, so that callers chain
 * steps with && and check once. */
#ifndef GRAFT_BASE_TREE_H
#define GRAFT_BASE_TREE_H
#include <stdbool.h>

#include "base/json.h"

/* Takes `item` in any case; false when it is NULL or memory is short. */
static inline bool graft_tree_put(cJSON *object, const char *name, cJSON *item)
{
    if (object && item && cJSON_AddItemToObject(object, name, item)) return true;
    cJSON_Delete(item);
    return false;
}
static inline bool graft_tree_push(cJSON *array, cJSON *item)
{
    if (array && item && cJSON_AddItemToArray(array, item)) return true;
    cJSON_Delete(item);
    return false;
}
static inline bool graft_tree_text(cJSON *object, const char *name, const char *text)
{
    return graft_tree_put(object, name, cJSON_CreateString(text));
}
/* Puts a member, or replaces it in its place. cJSON's own replacement loses the member's name when
 * memory is short, so the name is attached first. */
static inline bool graft_tree_set(cJSON *object, const char *name, cJSON *item)
{
    cJSON holder = {.type = cJSON_Object};
    cJSON *old = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!old) return graft_tree_put(object, name, item);
    if (!graft_tree_put(&holder, name, item)) return false;
    cJSON_DetachItemViaPointer(&holder, item);
    return cJSON_ReplaceItemViaPointer(object, old, item);
}
static inline cJSON *graft_tree_get(const cJSON *object, const char *name)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
}
#endif
