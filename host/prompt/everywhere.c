#include "host/prompt/everywhere.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/tree.h"
#include "host/prompt/litegraph.h"
#include "host/prompt/pattern.h"

#define TITLE_HEIGHT 30    /* of a node in an editor, above its place */
#define SUBGRAPH     "-10" /* where links from a sub-graph's own inputs begin */

static const struct {
    const char *type;
    double priority;
} nodes[] = {{"Anything Everywhere?", 10},
             {"Seed Everywhere", 5},
             {"Prompts Everywhere", 5},
             {"Anything Everywhere", 2},
             {"Anything Everywhere3", 0}};

static int number_of(const char *type)
{
    for (int i = 0; i < (int)(sizeof nodes / sizeof *nodes); i++)
        if (strcmp(type, nodes[i].type) == 0) return i;
    return -1;
}

static const cJSON *rules_of(const cJSON *node)
{
    return graft_tree_get(graft_tree_get(node, "properties"), "ue_properties");
}

static const cJSON *property(const cJSON *node, const char *name)
{
    return graft_tree_get(graft_tree_get(node, "properties"), name);
}

/* As JavaScript reads a value that may be true, a number or nothing. */
static double number(const cJSON *item)
{
    if (cJSON_IsNumber(item)) return item->valuedouble;
    return cJSON_IsTrue(item) ? 1 : 0;
}

static bool is_true(const cJSON *item)
{
    return number(item) != 0 || (cJSON_IsString(item) && *item->valuestring);
}

static const char *type_of(const cJSON *node)
{
    return graft_json_str(node, "type", "");
}

static bool sends(const cJSON *node)
{
    return number_of(type_of(node)) >= 0 || is_true(property(node, "ue_convert"));
}

static bool any_sends(const cJSON *graph)
{
    const cJSON *node;
    cJSON_ArrayForEach(node, graft_tree_get(graph, "nodes")) if (sends(node)) return true;
    return false;
}

static const cJSON *subgraphs(const cJSON *graph)
{
    return graft_tree_get(graft_tree_get(graph, "definitions"), "subgraphs");
}

bool graft_everywhere_has(const cJSON *graph)
{
    const cJSON *inner;
    if (any_sends(graph)) return true;
    cJSON_ArrayForEach(inner, subgraphs(graph)) if (any_sends(inner)) return true;
    return false;
}

/* A regular expression, or what does not match it; NULL: any text will do. */
struct test {
    graft_pattern *pattern;
    bool invert;
};

/* A node that sends, and its rules. */
struct sender {
    const cJSON *node;
    struct test title, group, input[2]; /* the second for the second input of Prompts Everywhere */
    int groups, colours, rule;          /* as in the extension's files */
    double priority;
    bool now, to_combos;
};

struct broadcast {
    const struct sender *from;
    const struct test *input;
    const char *type;
    const cJSON *origin; /* id of a node */
    int64_t slot;
    const char
        *named; /* of several of a type in one node: what the input must be called; or NULL */
};

struct everywhere {
    const graft_registry *registry;
    cJSON *graph;
    graft_err *e;
    bool old; /* of an editor that has only linked widgets among the inputs */
    graft_map by_id, links;
    struct sender *sender;
    struct broadcast *broadcast;
    size_t n_sender, n_broadcast, broadcast_cap;
    int64_t last_link;
};

/* GRAFT_OK and *readable false for what is no expression. */
static graft_status read_test(struct everywhere *w, const cJSON *text, const cJSON *invert,
                              struct test *out, bool *readable)
{
    if (!cJSON_IsString(text) || !*text->valuestring || strcmp(text->valuestring, ".*") == 0)
        return GRAFT_OK;
    graft_status st = graft_pattern_create(text->valuestring, &out->pattern, w->e);
    out->invert = is_true(invert);
    if (st) *readable = false;
    return st == GRAFT_E_NOMEM ? st : GRAFT_OK;
}

static graft_status read_text(struct everywhere *w, const char *text, struct test *out)
{
    return graft_pattern_create(text, &out->pattern, w->e);
}

static graft_status holds(struct everywhere *w, const struct test *t, const char *text, bool *out)
{
    bool found = false;
    *out = true;
    if (!t->pattern) return GRAFT_OK;
    graft_status st = graft_pattern_find(t->pattern, text, &found, w->e);
    *out = !st && found != t->invert;
    return st == GRAFT_E_NOMEM ? st : GRAFT_OK;
}

static void read_priority(struct sender *s, int kind)
{
    bool special = strcmp(nodes[kind].type, "Seed Everywhere") == 0 ||
                   strcmp(nodes[kind].type, "Prompts Everywhere") == 0;
    bool tested = s->title.pattern || s->input[0].pattern || s->group.pattern;
    double given = number(graft_tree_get(rules_of(s->node), "priority"));
    if (s->now)
        s->priority = given ? given
                            : 10 + (special ? 10 : 0) + (tested ? 20 : 0) + (s->groups ? 3 : 0) +
                                  (s->colours ? 6 : 0);
    else
        s->priority = nodes[kind].priority + (s->groups ? 0.1 : 0) + (s->colours ? 0.3 : 0) +
                      number(property(s->node, "priority_boost"));
}

/* Version 7 keeps all rules in properties.ue_properties, those before it in the node's values and
 * beside that. */
static graft_status read_rules(struct everywhere *w, struct sender *s, bool *readable)
{
    const cJSON *rules = rules_of(s->node);
    s->now = graft_tree_get(rules, "version") != NULL;
    const cJSON *from = s->now ? rules : graft_tree_get(s->node, "properties");
    const cJSON *values = graft_tree_get(s->node, "widgets_values"), *text[3] = {NULL};
    static const char *const name[] = {"title_regex", "input_regex", "group_regex"};
    static const char *const inverted[] = {"title_regex_invert", "input_regex_invert",
                                           "group_regex_invert"};
    struct test *test[] = {&s->title, &s->input[0], &s->group};
    bool valued = strcmp(type_of(s->node), "Anything Everywhere?") == 0 && cJSON_IsArray(values);
    graft_status st = GRAFT_OK;
    for (int i = 0; i < 3 && !st; i++) {
        text[i] = s->now ? graft_tree_get(rules, name[i]) : NULL;
        if (!s->now && valued) text[i] = cJSON_GetArrayItem(values, i);
        st = read_test(w, text[i], s->now ? graft_tree_get(rules, inverted[i]) : NULL, test[i],
                       readable);
    }
    s->groups = (int)number(graft_tree_get(from, "group_restricted"));
    s->colours = (int)number(graft_tree_get(from, "color_restricted"));
    s->rule = (int)number(graft_tree_get(rules, "repeated_type_rule"));
    s->to_combos = number(graft_tree_get(rules, "string_to_combo")) > 0;
    return st;
}

static const cJSON *link_part(const cJSON *link, int i)
{
    static const char *const name[] = {"id",        "origin_id",   "origin_slot",
                                       "target_id", "target_slot", "type"};
    return cJSON_IsArray(link) ? cJSON_GetArrayItem(link, i) : graft_tree_get(link, name[i]);
}

static const cJSON *found(const graft_map *map, const cJSON *id)
{
    char text[GRAFT_LITEGRAPH_ID];
    return graft_litegraph_id(id, text) ? graft_map_get(map, text) : NULL;
}

static graft_status add(struct everywhere *w, struct broadcast b)
{
    if (graft_grow(&w->broadcast, &w->broadcast_cap, w->n_broadcast + 1, sizeof *w->broadcast))
        return graft_fail_nomem(w->e, "a graph");
    w->broadcast[w->n_broadcast++] = b;
    return GRAFT_OK;
}

/* What comes by a link into one of these nodes; false where nothing does. */
static bool source_of(const struct everywhere *w, const cJSON *slot, struct broadcast *out)
{
    char id[GRAFT_LITEGRAPH_ID];
    const cJSON *link = found(&w->links, graft_tree_get(slot, "link"));
    out->origin = link_part(link, 1);
    if (!link || graft_tree_get(slot, "widget") || !graft_litegraph_id(out->origin, id) ||
        !graft_json_i64(link_part(link, 2), &out->slot) || out->slot < 0 || out->slot > 10000)
        return false;
    const cJSON *node = graft_map_get(&w->by_id, id);
    bool inside = strcmp(id, SUBGRAPH) == 0;
    if (!inside && (!node || graft_json_int(node, "mode", 0) == GRAFT_LITEGRAPH_NEVER))
        return false;
    const cJSON *list =
        inside ? graft_tree_get(w->graph, "inputs") : graft_tree_get(node, "outputs");
    out->type = graft_json_str(cJSON_GetArrayItem(list, (int)out->slot), "type", "*");
    if (strcmp(out->type, "*") == 0 && cJSON_IsString(link_part(link, 5)))
        out->type = link_part(link, 5)->valuestring;
    if (strcmp(out->type, "*") == 0) out->type = graft_json_str(slot, "name", "*");
    return true;
}

static const char *label_of(const cJSON *slot, bool local)
{
    const char *label = graft_json_str(slot, "label", "");
    if (!*label && local) label = graft_json_str(slot, "localized_name", "");
    return *label ? label : graft_json_str(slot, "name", "");
}

/* Whether another input of the node gets the same type. */
static bool is_again(const struct everywhere *w, const cJSON *node, const cJSON *slot,
                     const char *type)
{
    const cJSON *other;
    struct broadcast b = {.type = NULL};
    cJSON_ArrayForEach(
        other, graft_tree_get(node, "inputs")) if (other != slot && source_of(w, other, &b) &&
                                                   strcmp(b.type, type) == 0) return true;
    return false;
}

static graft_status add_inputs(struct everywhere *w, struct sender *s, bool prompts)
{
    const cJSON *slot;
    graft_status st = GRAFT_OK;
    int i = 0;
    cJSON_ArrayForEach(slot, graft_tree_get(s->node, "inputs"))
    {
        struct broadcast b = {.from = s, .input = &s->input[prompts && i == 1]};
        bool sent = source_of(w, slot, &b) && (!prompts || i < 2);
        i++;
        if (!sent) continue;
        if (s->now && !prompts && is_again(w, s->node, slot, b.type))
            b.named = label_of(slot, false);
        if ((st = add(w, b))) return st;
    }
    return st;
}

/* What the inputs must be called that Prompts Everywhere and Seed Everywhere send to, unless the
 * node says something else. */
static graft_status read_names(struct everywhere *w, struct sender *s, bool prompts, bool *readable)
{
    static const char *const own[] = {"prompt_regex", "negative_regex"};
    static const char *const not [] = {"prompt_regex_invert", "negative_regex_invert"};
    static const char *const usual[] = {"(_|\\b)pos(itive|_|\\b)|^prompt|正面",
                                        "(_|\\b)neg(ative|_|\\b)|负面"};
    const cJSON *rules = rules_of(s->node);
    graft_status st = GRAFT_OK;
    if (!prompts) return s->input[0].pattern ? st : read_text(w, "seed|随机种", &s->input[0]);
    graft_pattern_destroy(s->input[0].pattern);
    s->input[0] = (struct test){NULL, false};
    for (int i = 0; i < 2 && !st; i++) {
        st = read_test(w, graft_tree_get(rules, own[i]), graft_tree_get(rules, not [i]),
                       &s->input[i], readable);
        if (!st && !s->input[i].pattern) st = read_text(w, usual[i], &s->input[i]);
    }
    return st;
}

static graft_status add_sender(struct everywhere *w, const cJSON *node, int kind)
{
    bool readable = true, seed = strcmp(nodes[kind].type, "Seed Everywhere") == 0;
    bool prompts = strcmp(nodes[kind].type, "Prompts Everywhere") == 0;
    struct sender *s = &w->sender[w->n_sender++];
    s->node = node;
    graft_status st = read_rules(w, s, &readable);
    read_priority(s, kind);
    if (!st && (seed || prompts)) st = read_names(w, s, prompts, &readable);
    if (st || !readable) return st; /* an expression that nothing can read sends nothing */
    struct broadcast b = {s, &s->input[0], "INT", graft_tree_get(node, "id"), 0, NULL};
    return seed ? add(w, b) : add_inputs(w, s, prompts);
}

static graft_status index_graph(struct everywhere *w)
{
    const cJSON *item;
    char id[GRAFT_LITEGRAPH_ID];
    size_t n = 0;
    cJSON_ArrayForEach(item, graft_tree_get(w->graph, "nodes"))
    {
        n += number_of(type_of(item)) >= 0;
        if (graft_litegraph_id(graft_tree_get(item, "id"), id) &&
            graft_map_put(&w->by_id, id, (void *)(uintptr_t)item))
            return graft_fail_nomem(w->e, "a graph");
    }
    cJSON_ArrayForEach(item, graft_tree_get(w->graph, "links"))
    {
        int64_t number = 0;
        if (graft_json_i64(link_part(item, 0), &number) && number > w->last_link &&
            number < INT64_MAX / 2)
            w->last_link = number;
        if (graft_litegraph_id(link_part(item, 0), id) &&
            graft_map_put(&w->links, id, (void *)(uintptr_t)item))
            return graft_fail_nomem(w->e, "a graph");
    }
    w->sender = graft_calloc(n, sizeof *w->sender);
    return w->sender ? GRAFT_OK : graft_fail_nomem(w->e, "a graph");
}

static double part_of(const cJSON *pair, int i)
{
    const cJSON *item =
        cJSON_IsArray(pair) ? cJSON_GetArrayItem(pair, i) : graft_tree_get(pair, i ? "1" : "0");
    return number(item);
}

/* As editors take a node for a part of a group: its middle, with its title, is inside. */
static bool is_inside(const cJSON *group, const cJSON *node)
{
    const cJSON *bounding = graft_tree_get(group, "bounding"), *size = graft_tree_get(node, "size");
    const cJSON *pos = graft_tree_get(node, "pos");
    double box[4];
    for (int i = 0; i < 4; i++) box[i] = number(cJSON_GetArrayItem(bounding, i));
    double x = part_of(pos, 0) + part_of(size, 0) / 2;
    double y = part_of(pos, 1) + (part_of(size, 1) - TITLE_HEIGHT) / 2;
    return x >= box[0] && x < box[0] + box[2] && y >= box[1] && y < box[1] + box[3];
}

/* Whether groups and colours let the node get what is sent. */
static graft_status may_get(struct everywhere *w, const struct sender *s, const cJSON *node,
                            bool *out)
{
    const cJSON *group;
    bool together = false, named = !s->group.pattern, fits;
    const char *colour = graft_json_str(s->node, "color", "");
    cJSON_ArrayForEach(group, graft_tree_get(w->graph, "groups"))
    {
        if (!is_inside(group, node)) continue;
        together = together || is_inside(group, s->node);
        graft_status st = holds(w, &s->group, graft_json_str(group, "title", ""), &fits);
        if (st) return st;
        named = named || fits;
    }
    bool same = strcmp(colour, graft_json_str(node, "color", "")) == 0;
    *out = named && (!s->groups || together == (s->groups == 1)) &&
           (!s->colours || same == (s->colours == 1));
    return GRAFT_OK;
}

static bool name_fits(const struct broadcast *b, const char *title, const cJSON *slot)
{
    if (!b->named) return true;
    const char *other = b->from->rule == 3 ? title : label_of(slot, false);
    size_t mine = strlen(b->named), its = strlen(other), both = mine < its ? mine : its;
    if (b->from->rule == 1) return strncmp(b->named, other, both) == 0;
    if (b->from->rule == 2) return strcmp(b->named + mine - both, other + its - both) == 0;
    return strcmp(b->named, other) == 0;
}

static const char *title_of(const struct everywhere *w, const cJSON *node)
{
    const char *title = graft_json_str(node, "title", "");
    const graft_registry_node *entry = graft_registry_find(w->registry, type_of(node));
    if (!*title && entry && entry->node->title) title = entry->node->title;
    return *title ? title : type_of(node);
}

static bool same_id(const cJSON *a, const cJSON *b)
{
    char one[GRAFT_LITEGRAPH_ID], other[GRAFT_LITEGRAPH_ID];
    return graft_litegraph_id(a, one) && graft_litegraph_id(b, other) && strcmp(one, other) == 0;
}

static graft_status matches(struct everywhere *w, const struct broadcast *b, const cJSON *node,
                            const cJSON *slot, bool *out)
{
    const char *type = graft_json_str(slot, "type", ""), *title = title_of(w, node);
    bool combo = b->from->to_combos && strcmp(b->type, "STRING") == 0 && strcmp(type, "COMBO") == 0;
    *out = false;
    if (strcmp(b->type, type) != 0 && !combo) return GRAFT_OK;
    if (same_id(b->origin, graft_tree_get(node, "id")) || !name_fits(b, title, slot))
        return GRAFT_OK;
    graft_status st = holds(w, &b->from->title, title, out);
    if (!st && *out) st = holds(w, b->input, label_of(slot, true), out);
    if (!st && *out) st = may_get(w, b->from, node, out);
    return st;
}

/* The one with the highest priority; of two that have it neither, as the extension cannot tell. */
static graft_status best(struct everywhere *w, const cJSON *node, const cJSON *slot,
                         const struct broadcast **out)
{
    double top = 0;
    bool any = false;
    *out = NULL;
    for (size_t i = 0; i < w->n_broadcast; i++) {
        const struct broadcast *b = &w->broadcast[i];
        bool fits;
        if (any && b->from->priority < top) continue;
        graft_status st = matches(w, b, node, slot, &fits);
        if (st) return st;
        if (!fits) continue;
        *out = any && b->from->priority == top ? NULL : b;
        top = b->from->priority;
        any = true;
    }
    return GRAFT_OK;
}

/* What a newer version of the extension wrote down for an input, as long as the node that sends
 * still gets that; *origin NULL where there is nothing. */
static void written(const struct everywhere *w, const cJSON *node, int index, const cJSON **origin,
                    int64_t *slot)
{
    const cJSON *one, *list = graft_tree_get(graft_tree_get(w->graph, "extra"), "ue_links");
    cJSON_ArrayForEach(one, list)
    {
        const cJSON *upstream = graft_tree_get(one, "upstream");
        if (!same_id(graft_tree_get(one, "downstream"), graft_tree_get(node, "id")) ||
            graft_json_int(one, "downstream_slot", -1) != index ||
            !graft_json_i64(graft_tree_get(one, "upstream_slot"), slot))
            continue;
        const cJSON *from = found(&w->by_id, graft_tree_get(one, "controller"));
        if (!from || graft_json_int(from, "mode", 0) != 0) continue;
        *origin = upstream;
        if (is_true(property(from, "ue_convert")) && same_id(upstream, graft_tree_get(from, "id")))
            return;
        for (size_t i = 0; i < w->n_broadcast; i++)
            if (w->broadcast[i].from->node == from && w->broadcast[i].slot == *slot &&
                same_id(w->broadcast[i].origin, upstream))
                return;
        *origin = NULL;
    }
}

/* Whether the input waits for a link. Of widgets the extension marks those that do. */
static bool is_open(const struct everywhere *w, const cJSON *node, const cJSON *slot)
{
    const cJSON *link = graft_tree_get(slot, "link"), *rules = rules_of(node);
    const char *name = graft_json_str(slot, "name", "");
    if (!cJSON_IsObject(slot) || (link && !cJSON_IsNull(link))) return false;
    if (!cJSON_IsObject(graft_tree_get(slot, "widget")))
        return !is_true(graft_tree_get(graft_tree_get(rules, "input_ue_unconnectable"), name));
    const cJSON *marks = graft_tree_get(rules, "widget_ue_connectable");
    if (!marks) marks = property(node, "widget_ue_connectable");
    return cJSON_IsObject(marks) ? is_true(graft_tree_get(marks, name)) : w->old;
}

static graft_status put_link(struct everywhere *w, const cJSON *node, cJSON *slot, int index,
                             const cJSON *origin, int64_t from)
{
    cJSON *list = graft_tree_get(w->graph, "links");
    if (!list) list = cJSON_AddArrayToObject(w->graph, "links");
    if (list && !cJSON_IsArray(list)) return GRAFT_OK;
    cJSON *link = cJSON_CreateArray();
    int64_t id = ++w->last_link;
    if (!graft_tree_push(link, graft_json_new_i64(id)) ||
        !graft_tree_push(link, cJSON_Duplicate(origin, 1)) ||
        !graft_tree_push(link, graft_json_new_i64(from)) ||
        !graft_tree_push(link, cJSON_Duplicate(graft_tree_get(node, "id"), 1)) ||
        !graft_tree_push(link, graft_json_new_i64(index)) ||
        !graft_tree_push(link, cJSON_CreateString(graft_json_str(slot, "type", "*")))) {
        cJSON_Delete(link);
        return graft_fail_nomem(w->e, "a graph");
    }
    if (!graft_tree_push(list, link) || !graft_tree_set(slot, "link", graft_json_new_i64(id)))
        return graft_fail_nomem(w->e, "a graph");
    return GRAFT_OK;
}

static graft_status link_node(struct everywhere *w, const cJSON *node)
{
    cJSON *slot;
    int index = -1;
    cJSON_ArrayForEach(slot, graft_tree_get(node, "inputs"))
    {
        const cJSON *origin = NULL;
        const struct broadcast *b = NULL;
        int64_t from = 0;
        index++;
        if (!is_open(w, node, slot)) continue;
        written(w, node, index, &origin, &from);
        graft_status st = origin ? GRAFT_OK : best(w, node, slot, &b);
        if (!st && b) origin = b->origin, from = b->slot;
        if (!st && origin) st = put_link(w, node, slot, index, origin, from);
        if (st) return st;
    }
    return GRAFT_OK;
}

static graft_status link_graph(cJSON *graph, const graft_registry *r, bool old, graft_err *e)
{
    struct everywhere w = {.registry = r, .graph = graph, .e = e, .old = old};
    const cJSON *node;
    graft_status st = index_graph(&w);
    cJSON_ArrayForEach(node, graft_tree_get(graph, "nodes"))
    {
        int kind = number_of(type_of(node));
        if (!st && kind >= 0 && graft_json_int(node, "mode", 0) == 0)
            st = add_sender(&w, node, kind);
    }
    cJSON_ArrayForEach(node, graft_tree_get(graph, "nodes"))
    {
        bool gets = number_of(type_of(node)) < 0 && !is_true(property(node, "rejects_ue_links"));
        if (!st && gets && graft_json_int(node, "mode", 0) != GRAFT_LITEGRAPH_NEVER)
            st = link_node(&w, node);
    }
    for (size_t i = 0; i < w.n_sender; i++) {
        graft_pattern_destroy(w.sender[i].title.pattern);
        graft_pattern_destroy(w.sender[i].group.pattern);
        for (int k = 0; k < 2; k++) graft_pattern_destroy(w.sender[i].input[k].pattern);
    }
    graft_free(w.sender);
    graft_free(w.broadcast);
    graft_map_finish(&w.by_id);
    graft_map_finish(&w.links);
    return st;
}

/* An editor before ComfyUI's 1.16 lists no widget among a node's inputs that could not be linked.
 */
static bool is_old(const cJSON *graph)
{
    int major, minor;
    const char *version = graft_json_str(graft_tree_get(graph, "extra"), "frontendVersion", NULL);
    if (!version) return true;
    return sscanf(version, "%9d.%9d", &major, &minor) == 2 &&
           (major < 1 || (major == 1 && minor < 16));
}

graft_status graft_everywhere_link(cJSON *graph, const graft_registry *r, graft_err *e)
{
    bool old = is_old(graph);
    const cJSON *list = subgraphs(graph);
    graft_status st = any_sends(graph) ? link_graph(graph, r, old, e) : GRAFT_OK;
    for (cJSON *inner = list ? list->child : NULL; inner && !st; inner = inner->next)
        if (any_sends(inner)) st = link_graph(inner, r, old, e);
    return st;
}
