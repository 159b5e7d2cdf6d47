#include "host/serve/inbox.h"

#include <string.h>

#include "base/alloc.h"
#include "base/tree.h"

void graft_inbox_finish(graft_inbox *b)
{
    graft_free(b->text);
    b->text = NULL;
    b->size = 0;
}

/* True when it is about features. */
static bool read_message(graft_inbox *b)
{
    cJSON *json = NULL;
    if (graft_json_parse(b->text, b->size, "a message", &json, NULL)) return false;
    bool features = strcmp(graft_json_str(json, "type", ""), "feature_flags") == 0;
    if (features)
        b->rich =
            cJSON_IsTrue(graft_tree_get(graft_tree_get(json, "data"), "supports_preview_metadata"));
    cJSON_Delete(json);
    return features;
}

graft_inbox_result graft_inbox_take(graft_inbox *b, const void *data, size_t n, bool last,
                                    bool binary)
{
    if (n > GRAFT_INBOX_MAX - b->size) return GRAFT_INBOX_TOO_LONG;
    char *text = graft_realloc(b->text, b->size + n + 1, 1);
    if (!text) return GRAFT_INBOX_NOMEM;
    b->text = text;
    if (n) memcpy(text + b->size, data, n);
    b->size += n;
    if (!last) return GRAFT_INBOX_OK;
    bool features = !binary && !b->spoke && read_message(b);
    b->spoke |= !binary;
    graft_inbox_finish(b);
    return features ? GRAFT_INBOX_FEATURES : GRAFT_INBOX_OK;
}
