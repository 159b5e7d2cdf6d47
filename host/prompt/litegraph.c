#include "host/prompt/litegraph.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "host/prompt/prompt.h"
#include "base/tree.h"

#define MAX_DEPTH   16   /* sub-graphs within sub-graphs */
#define MAX_HOPS    1000 /* links followed from one input; ends rings of reroutes */
#define INPUT_NODE  "-10"
#define OUTPUT_NODE "-20"

bool graft_litegraph_id(const cJSON *item, char out[GRAFT_LITEGRAPH_ID])
{
    int64_t i;
    out[0] = 0;
    if (graft_json_i64(item, &i)) {
        snprintf(out, GRAFT_LITEGRAPH_ID, "%lld", (long long)i);
        return true;
    }
    if (!cJSON_IsString(item) || strlen(item->valuestring) >= GRAFT_LITEGRAPH_ID) return false;
    snprintf(out, GRAFT_LITEGRAPH_ID, "%s", item->valuestring);
    return out[0] != 0;
}

static graft_status read_links(graft_litegraph_scope *s, graft_err *e)
{
    static const char *const member[] = {"id", "origin_id", "origin_slot", "target_id",
                                         "target_slot"};
    const cJSON *list = graft_tree_get(s->json, "links"), *item;
    size_t n = 0;
    cJSON_ArrayForEach(item, list) n++;
    s->link = graft_calloc(n, sizeof *s->link);
    if (!s->link) return graft_fail_nomem(e, "a graph");
    cJSON_ArrayForEach(item, list)
    {
        const cJSON *field[5];
        const cJSON *next = cJSON_IsArray(item) ? item->child : NULL;
        for (int i = 0; i < 5; i++) {
            field[i] = cJSON_IsObject(item) ? graft_tree_get(item, member[i]) : next;
            if (next) next = next->next;
        }
        graft_litegraph_link *l = &s->link[s->n_link];
        char id[GRAFT_LITEGRAPH_ID];
        if (!graft_litegraph_id(field[0], id) || !graft_litegraph_id(field[1], l->origin) ||
            !graft_litegraph_id(field[3], l->target) || !graft_json_i64(field[2], &l->slot) ||
            !graft_json_i64(field[4], &l->target_slot))
            continue; /* editors leave such remains behind; nothing can hang on them */
        if (graft_map_put(&s->by_link, id, l)) return graft_fail_nomem(e, "a graph");
        s->n_link++;
    }
    return GRAFT_OK;
}

static const cJSON *find_definition(const graft_litegraph *g, const char *type)
{
    const cJSON *list = graft_tree_get(graft_tree_get(g->json, "definitions"), "subgraphs"), *def;
    cJSON_ArrayForEach(def, list) if (strcmp(graft_json_str(def, "id", ""), type) == 0) return def;
    return NULL;
}

/* What an editor does with a node that no server sees; virtual.def says what they mean. */
typedef enum virtual_role {
    ROLE_NONE, /* it runs */
    ROLE_SILENT,
    ROLE_PASS,
    ROLE_FIRST,
    ROLE_VALUE,
    ROLE_SET,
    ROLE_GET,
} virtual_role;

static virtual_role role_of(const char *type)
{
    static const struct {
        const char *type;
        virtual_role role;
    } list[] = {
#define VIRTUAL(type, role) {type, ROLE_##role},
#include "host/prompt/virtual.def"
#undef VIRTUAL
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(type, list[i].type) == 0) return list[i].role;
    return ROLE_NONE;
}

bool graft_litegraph_virtual(const graft_litegraph_node *n)
{
    return role_of(n->type) != ROLE_NONE;
}

bool graft_litegraph_silent(const char *type)
{
    return role_of(type) == ROLE_SILENT;
}

bool graft_litegraph_passes(const char *type)
{
    return role_of(type) == ROLE_PASS;
}

/* Entry number `i` of a list member, or NULL. */
static const cJSON *entry_at(const cJSON *object, const char *member, int64_t i)
{
    const cJSON *list = graft_tree_get(object, member);
    return cJSON_IsArray(list) && i >= 0 && i < (1 << 24) ? cJSON_GetArrayItem(list, (int)i) : NULL;
}

/* The name that a node gives to a link, or looks for. */
static const char *name_of(const graft_litegraph_node *n)
{
    return cJSON_GetStringValue(entry_at(n->json, "widgets_values", 0));
}

/* The first of a name is the one that counts. */
static graft_status keep_name(graft_litegraph_scope *s, graft_litegraph_node *n, graft_err *e)
{
    const char *name = role_of(n->type) == ROLE_SET ? name_of(n) : NULL;
    if (!name || graft_map_get(&s->by_name, name)) return GRAFT_OK;
    return graft_map_put(&s->by_name, name, n) ? graft_fail_nomem(e, "a graph") : GRAFT_OK;
}

static graft_status open_scope(graft_litegraph *g, const cJSON *json, graft_litegraph_scope *parent,
                               graft_litegraph_node *instance, int depth,
                               graft_litegraph_scope **out, graft_err *e);

static graft_status read_node(graft_litegraph *g, graft_litegraph_scope *s, const cJSON *json,
                              int depth, graft_err *e)
{
    graft_litegraph_node *n = &s->node[s->n_node];
    n->type = graft_json_str(json, "type", NULL);
    if (!graft_litegraph_id(graft_tree_get(json, "id"), n->local) || !n->type)
        return graft_fail(e, GRAFT_E_FORMAT, "a node of the graph has no id or no type");
    if (++g->n_nodes > GRAFT_PROMPT_MAX_NODES)
        return graft_fail(e, GRAFT_E_LIMIT, "the graph has more than %d nodes",
                          GRAFT_PROMPT_MAX_NODES);
    s->n_node++;
    n->json = json;
    n->scope = s;
    n->mode = graft_json_int(json, "mode", 0);
    n->order = graft_json_int(json, "order", 0);
    graft_str id = GRAFT_STR_INIT;
    if (s->instance) graft_str_printf(&id, "%s:", s->instance->id);
    graft_str_puts(&id, n->local);
    n->id = graft_str_take(&id);
    if (!n->id || graft_map_put(&s->by_id, n->local, n)) return graft_fail_nomem(e, "a graph");
    graft_status st = keep_name(s, n, e);
    if (st) return st;
    const cJSON *definition = find_definition(g, n->type);
    if (!definition || n->mode == GRAFT_LITEGRAPH_NEVER || n->mode == GRAFT_LITEGRAPH_BYPASS)
        return GRAFT_OK;
    return open_scope(g, definition, s, n, depth + 1, &n->inner, e);
}

static graft_status open_scope(graft_litegraph *g, const cJSON *json, graft_litegraph_scope *parent,
                               graft_litegraph_node *instance, int depth,
                               graft_litegraph_scope **out, graft_err *e)
{
    const cJSON *list = graft_tree_get(json, "nodes"), *item;
    size_t n = 0;
    if (depth > MAX_DEPTH)
        return graft_fail(e, GRAFT_E_LIMIT, "sub-graphs lie more than %d deep in one another",
                          MAX_DEPTH);
    graft_litegraph_scope *s = graft_calloc(1, sizeof *s);
    *out = s;
    if (!s) return graft_fail_nomem(e, "a graph");
    s->json = json;
    s->parent = parent;
    s->instance = instance;
    graft_status st = read_links(s, e);
    if (st) return st;
    cJSON_ArrayForEach(item, list) n++;
    s->node = graft_calloc(n, sizeof *s->node);
    if (!s->node) return graft_fail_nomem(e, "a graph");
    cJSON_ArrayForEach(item, list) if ((st = read_node(g, s, item, depth, e))) return st;
    return GRAFT_OK;
}

static void close_scope(graft_litegraph_scope *s)
{
    if (!s) return;
    for (size_t i = 0; s->node && i < s->n_node; i++) {
        close_scope(s->node[i].inner);
        graft_free(s->node[i].id);
    }
    graft_free(s->node);
    graft_free(s->link);
    graft_map_finish(&s->by_id);
    graft_map_finish(&s->by_link);
    graft_map_finish(&s->by_name);
    graft_free(s);
}

graft_status graft_litegraph_init(graft_litegraph *g, const cJSON *json, graft_err *e)
{
    memset(g, 0, sizeof *g);
    g->json = json;
    graft_status st = open_scope(g, json, NULL, NULL, 0, &g->root, e);
    if (st) graft_litegraph_finish(g);
    return st;
}

void graft_litegraph_finish(graft_litegraph *g)
{
    close_scope(g->root);
    g->root = NULL;
}

static const cJSON *linked(const cJSON *input)
{
    const cJSON *link = graft_tree_get(input, "link");
    return link && !cJSON_IsNull(link) ? link : NULL;
}

/* Which of a bypassed node's links takes the place of its output `slot`: the input in the same
 * place, else the first of the same type, else the first that could be connected. */
static const cJSON *bypass(const graft_litegraph_node *n, int64_t slot)
{
    const char *type = graft_json_str(entry_at(n->json, "outputs", slot), "type", "*");
    const cJSON *same = entry_at(n->json, "inputs", slot), *input;
    const cJSON *list = graft_tree_get(n->json, "inputs"), *compatible = NULL;
    if (linked(same) && strcmp(graft_json_str(same, "type", ""), type) == 0) return linked(same);
    cJSON_ArrayForEach(input, list)
    {
        const char *own = graft_json_str(input, "type", "");
        if (!linked(input)) continue;
        if (strcmp(own, type) == 0) return linked(input);
        if (!compatible && graft_schema_match(own, type)) compatible = linked(input);
    }
    return compatible;
}

/* The values that an instance shows for its sub-graph: by the name of one of its own inputs, or of
 * an inner node's widget (`local` not NULL). */
static const cJSON *instance_value(const graft_litegraph_node *instance, const char *local,
                                   const char *name)
{
    const cJSON *values = graft_tree_get(instance->json, "widgets_values"), *item;
    const cJSON *proxies =
        graft_tree_get(graft_tree_get(instance->json, "properties"), "proxyWidgets");
    int i = 0;
    if (cJSON_IsObject(values)) return local ? NULL : graft_tree_get(values, name);
    if (!cJSON_IsArray(values)) return NULL;
    if (cJSON_IsArray(proxies) && cJSON_GetArraySize(proxies) == cJSON_GetArraySize(values)) {
        cJSON_ArrayForEach(item, proxies)
        {
            const char *node = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
            const char *widget = cJSON_GetStringValue(cJSON_GetArrayItem(item, 1));
            if (node && widget && strcmp(node, local ? local : "-1") == 0 &&
                strcmp(widget, name) == 0)
                return cJSON_GetArrayItem(values, i);
            i++;
        }
        return NULL;
    }
    if (local) return NULL;
    cJSON_ArrayForEach(item, graft_tree_get(instance->json, "inputs"))
    {
        if (!cJSON_IsObject(graft_tree_get(item, "widget"))) continue;
        if (strcmp(graft_json_str(item, "name", ""), name) == 0)
            return cJSON_GetArrayItem(values, i);
        i++;
    }
    return NULL;
}

/* Whether the widget that the instance has by this name is the one of `local`, as in
 * instance_value(): where it shows several of a name that is the first. */
static bool means(const graft_litegraph_node *instance, const char *local, const char *name)
{
    const cJSON *proxies =
        graft_tree_get(graft_tree_get(instance->json, "properties"), "proxyWidgets");
    const cJSON *item;
    cJSON_ArrayForEach(item, proxies)
    {
        const char *node = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
        const char *widget = cJSON_GetStringValue(cJSON_GetArrayItem(item, 1));
        if (node && widget && strcmp(widget, name) == 0)
            return strcmp(node, local ? local : "-1") == 0;
    }
    return !local;
}

/* The same from the outside in: what an instance shows may be shown by the one around it, too,
 * which then has the say. */
static const cJSON *shown_value(const graft_litegraph_node *instance, const char *local,
                                const char *name)
{
    const cJSON *value = NULL;
    for (int i = 0; instance && i <= MAX_DEPTH; i++) {
        const cJSON *given = instance_value(instance, local, name);
        if (given && !cJSON_IsNull(given)) value = given;
        if (!means(instance, local, name)) break;
        local = instance->local;
        instance = instance->scope->instance;
    }
    return value;
}

const cJSON *graft_litegraph_promoted(const graft_litegraph_node *n, const char *widget)
{
    const graft_litegraph_node *instance = n->scope->instance;
    return instance ? shown_value(instance, n->local, widget) : NULL;
}

/* From the inside of a sub-graph to the link (or value) on its instance. */
static const cJSON *leave(const graft_litegraph_scope *s, int64_t slot, const cJSON **value)
{
    const char *name = graft_json_str(entry_at(s->json, "inputs", slot), "name", NULL);
    const cJSON *input, *found = NULL;
    cJSON_ArrayForEach(
        input, graft_tree_get(s->instance->json,
                              "inputs")) if (name && strcmp(graft_json_str(input, "name", ""),
                                                            name) == 0) found = input;
    if (!found) found = entry_at(s->instance->json, "inputs", slot);
    if (linked(found)) return linked(found);
    if (name) *value = shown_value(s->instance, NULL, name);
    return NULL;
}

/* The link inside a sub-graph that feeds its output `slot`. */
static const graft_litegraph_link *enter(const graft_litegraph_scope *inner, int64_t slot)
{
    for (size_t i = 0; i < inner->n_link; i++)
        if (strcmp(inner->link[i].target, OUTPUT_NODE) == 0 && inner->link[i].target_slot == slot)
            return &inner->link[i];
    return NULL;
}

static const graft_litegraph_link *find_link(const graft_litegraph_scope *s, const cJSON *id)
{
    char text[GRAFT_LITEGRAPH_ID];
    return id && graft_litegraph_id(id, text) ? graft_map_get(&s->by_link, text) : NULL;
}

/* The value of a node that gives one. */
static const cJSON *own_value(const graft_litegraph_node *n)
{
    const cJSON *shown = graft_litegraph_promoted(n, "value");
    return shown ? shown : entry_at(n->json, "widgets_values", 0);
}

/* The node that has the name which `n` looks for, here or around this sub-graph. */
static const graft_litegraph_node *find_named(const graft_litegraph_node *n)
{
    const char *name = name_of(n);
    const graft_litegraph_node *found = NULL;
    for (const graft_litegraph_scope *s = n->scope; name && s && !found; s = s->parent)
        found = graft_map_get(&s->by_name, name);
    return found && found->mode != GRAFT_LITEGRAPH_NEVER ? found : NULL;
}

/* What goes through a node that no server sees: the next link, in *scope; or NULL and perhaps a
 * value. */
static const graft_litegraph_link *through(const graft_litegraph_node *n, virtual_role role,
                                           const graft_litegraph_scope **scope, const cJSON **value)
{
    if (role == ROLE_VALUE) *value = own_value(n);
    if (role == ROLE_GET) n = find_named(n);
    if (role == ROLE_VALUE || role == ROLE_SILENT || !n) return NULL;
    *scope = n->scope;
    return find_link(n->scope, linked(entry_at(n->json, "inputs", 0)));
}

static graft_litegraph_source resolve(const graft_litegraph_scope *scope, const cJSON *link_id,
                                      int depth);

/* What a switch gives; one that feeds itself gives nothing. Looked for once: switches behind
 * switches would else double the work each. */
static graft_litegraph_source pick(graft_litegraph_node *n, int depth)
{
    const cJSON *input;
    if (n->picks || depth >= MAX_HOPS) return n->picked;
    n->picks = true;
    cJSON_ArrayForEach(input, graft_tree_get(n->json, "inputs"))
    {
        if (!linked(input)) continue;
        n->picked = resolve(n->scope, linked(input), depth + 1);
        if (n->picked.node || (n->picked.value && !cJSON_IsNull(n->picked.value))) break;
    }
    return n->picked;
}

static graft_litegraph_source resolve(const graft_litegraph_scope *scope, const cJSON *link_id,
                                      int depth)
{
    const graft_litegraph_source nothing = {NULL, 0, NULL};
    const graft_litegraph_link *link = find_link(scope, link_id);
    for (int hop = 0; link && hop < MAX_HOPS; hop++) {
        if (scope->instance && strcmp(link->origin, INPUT_NODE) == 0) {
            const cJSON *value = NULL, *next = leave(scope, link->slot, &value);
            if (!next) return (graft_litegraph_source){NULL, 0, value};
            scope = scope->parent;
            link = find_link(scope, next);
            continue;
        }
        graft_litegraph_node *n = graft_map_get(&scope->by_id, link->origin);
        if (!n || n->mode == GRAFT_LITEGRAPH_NEVER) return nothing;
        virtual_role role = role_of(n->type);
        if (n->mode == GRAFT_LITEGRAPH_BYPASS) {
            link = find_link(scope, bypass(n, link->slot));
        } else if (n->inner) {
            scope = n->inner;
            link = enter(scope, link->slot);
        } else if (role == ROLE_FIRST) {
            return pick(n, depth);
        } else if (role != ROLE_NONE) {
            const cJSON *value = NULL;
            link = through(n, role, &scope, &value);
            if (!link) return (graft_litegraph_source){NULL, 0, value};
        } else {
            return (graft_litegraph_source){n, link->slot, NULL};
        }
    }
    return nothing;
}

graft_litegraph_source graft_litegraph_resolve(const graft_litegraph_scope *scope,
                                               const cJSON *link_id)
{
    return resolve(scope, link_id, 0);
}
