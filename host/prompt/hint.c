#include "host/prompt/hint.h"

#include <string.h>

#include "base/alloc.h"
#include "base/part.h"
#include "host/schema/describe.h"
#include "host/schema/schema.h"
#include "base/tree.h"

enum { HINTS = 16, NAMES_MAX = 2000, SHOWN = 3 };

/* Whether one more fault may be explained. */
static bool may(graft_check *c)
{
    return c->hints < HINTS && ++c->hints;
}

static bool put_near(cJSON *extra, const graft_near *near)
{
    cJSON *list = near->count ? cJSON_AddArrayToObject(extra, "suggestions") : NULL;
    bool ok = list || !near->count;
    for (size_t i = 0; ok && i < near->count; i++) {
        char *name = graft_strndup(near->at[i].name, near->at[i].length);
        ok = name && graft_tree_push(list, cJSON_CreateString(name));
        graft_free(name);
    }
    return ok;
}

/* Among the choices of a node may be names that stand for files elsewhere, as those of VAELoader's
 * tiny autoencoders; they are no files of the folder. */
static bool is_file(const char *name)
{
    const char *slash = strrchr(name, '/');
    return strchr(slash ? slash : name, '.') != NULL;
}

static bool put_available(cJSON *extra, const char *const *name, size_t count)
{
    cJSON *list = cJSON_AddArrayToObject(extra, "available");
    bool models = graft_str_starts(graft_json_str(extra, "folder", ""), "models/"), ok = list;
    size_t files = 0;
    for (size_t i = 0; ok && i < count; i++) {
        if (models && !is_file(name[i])) continue;
        if (files++ < SHOWN) ok = graft_tree_push(list, cJSON_CreateString(name[i]));
    }
    return ok && cJSON_AddNumberToObject(extra, "count", (double)files);
}

static bool has(const char *const *name, size_t count, const char *wanted)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name[i], wanted) == 0) return true;
    return false;
}

/* Of a model in parts lists have the first alone, which is what to choose. */
static bool put_first_part(cJSON *extra, const char *const *name, size_t count, const char *wanted,
                           const graft_part *part)
{
    char *first = graft_part_path(wanted, part, 1);
    bool ok = first && graft_tree_text(extra, "first_part", first);
    if (ok && has(name, count, first)) {
        cJSON *list = cJSON_AddArrayToObject(extra, "suggestions");
        ok = list && graft_tree_push(list, cJSON_CreateString(first));
    }
    graft_free(first);
    return ok;
}

static bool put_names(cJSON *extra, const char *const *name, size_t count, bool files,
                      const cJSON *value)
{
    const char *wanted = cJSON_IsString(value) ? value->valuestring : "";
    graft_part part;
    if (files && graft_part_of(wanted, &part) && part.number > 1)
        return put_first_part(extra, name, count, wanted, &part);
    graft_near near;
    graft_near_init(&near, wanted);
    for (size_t i = 0; i < count && i < NAMES_MAX; i++) graft_near_add(&near, name[i]);
    return near.count || !files ? put_near(extra, &near) : put_available(extra, name, count);
}

bool graft_hint_class(graft_check *c, cJSON *extra, const char *class_type)
{
    graft_near near;
    if (!may(c)) return true;
    graft_near_init(&near, class_type);
    graft_describe_near(c->registry, &near);
    return put_near(extra, &near);
}

bool graft_hint_choice(graft_check *c, cJSON *extra, const graft_offer *offer, const cJSON *value)
{
    return !may(c) || put_names(extra, (const char *const *)offer->choices.name,
                                offer->choices.count, offer->folder[0], value);
}

bool graft_hint_file(graft_check *c, cJSON *extra, const char *folder, const cJSON *value)
{
    const graft_folders_api *api = *folder ? c->host->query(c->host, GRAFT_FOLDERS_ID) : NULL;
    const cJSON *member = cJSON_IsObject(value) ? value->child : NULL;
    while (member && !cJSON_IsString(member)) member = member->next;
    if (member) value = member; /* of an object the first text names a file */
    if (!api || !cJSON_IsString(value) || !may(c)) return true;
    const char *slash = strrchr(folder, '/');
    char **names = api->list(c->host, slash ? slash + 1 : folder);
    size_t n = 0;
    while (names && names[n]) n++;
    bool ok = !names || put_names(extra, (const char *const *)names, n, true, value);
    if (names) api->free_names(c->host, names);
    return ok;
}

bool graft_hint_missing(graft_check *c, cJSON *extra, size_t node, const char *input)
{
    const graft_prompt_node *n = &c->p->node[node];
    const cJSON *item, *inputs = graft_tree_get(n->json, "inputs");
    graft_near near;
    size_t seen = 0;
    if (!may(c)) return true;
    graft_near_init(&near, input);
    cJSON_ArrayForEach(item, inputs)
    {
        bool known = false;
        if (++seen > NAMES_MAX) break;
        for (size_t i = 0; i < n->n_in && !known; i++)
            known = strcmp(n->inputs[i]->name, item->string) == 0;
        if (!known) graft_near_add(&near, item->string);
    }
    if (!near.count) return true;
    char *name = graft_strndup(near.at[0].name, near.at[0].length);
    bool ok = name && graft_tree_text(extra, "given", name);
    graft_free(name);
    return ok;
}

/* Looks among the inputs that the prompt does not give. */
static void check_stray(const graft_prompt_node *n, const cJSON *inputs, const char *name,
                        const graft_log *log)
{
    char text[GRAFT_NEAR_TEXT];
    graft_near near;
    graft_near_init(&near, name);
    for (size_t i = 0; i < n->n_in; i++) {
        if (strcmp(n->inputs[i]->name, name) == 0) return;
        if (graft_schema_one_of(n->inputs[i], name)) return;
        if (!graft_tree_get(inputs, n->inputs[i]->name)) graft_near_add(&near, n->inputs[i]->name);
    }
    if (near.count)
        graft_log_printf(log, GRAFT_LOG_WARN, "node %.80s (%s) has no input \"%.80s\"%s", n->id,
                         n->entry->node->id, name, graft_near_text(&near, text));
}

void graft_hint_strays(const graft_prompt *p, const graft_log *log)
{
    for (size_t i = 0; i < p->count; i++) {
        const graft_prompt_node *n = &p->node[i];
        const cJSON *item, *inputs = graft_tree_get(n->json, "inputs");
        bool any = n->entry->node->flags & GRAFT_NODE_DYNAMIC;
        if (n->in && !any)
            cJSON_ArrayForEach(item, inputs) check_stray(n, inputs, item->string, log);
    }
}
