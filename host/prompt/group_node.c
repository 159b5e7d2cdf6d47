#include "host/prompt/group_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/tree.h"
#include "host/prompt/litegraph.h"
#include "host/prompt/prompt.h"
#include "host/prompt/widgets.h"
#include "host/schema/schema.h"

enum { INPUT = 0, OUTPUT = 1 };

/* A link between nodes inside, by their places in the definition. */
struct inner {
    int from, from_slot, to, to_slot;
    const char *type;
};

/* An input or output of a node inside that an instance may show. */
struct offer {
    int at, slot; /* -1: an input that the node does not list */
    char *name;   /* that the instance shows it by */
    const char *type, *widget;
    bool taken;
};

struct group {
    const graft_registry *registry;
    const cJSON *definition, *instance, **node;
    struct inner *inner;
    struct offer *offer[2];
    size_t n_offer[2], cap[2];
    int n, n_inner;
    graft_err *e;
};

const char *graft_group_node_name(const char *type)
{
    bool is = graft_str_starts(type, "workflow>") || graft_str_starts(type, "workflow/");
    return is ? type + strlen("workflow>") : NULL;
}

bool graft_group_node_has(const cJSON *graph)
{
    const cJSON *known = graft_tree_get(graft_tree_get(graph, "extra"), "groupNodes");
    return cJSON_IsObject(known) && known->child;
}

static const cJSON *definition_of(const cJSON *root, const cJSON *node)
{
    const char *name = graft_group_node_name(graft_json_str(node, "type", ""));
    const cJSON *all = graft_tree_get(graft_tree_get(root, "extra"), "groupNodes");
    const cJSON *found = name ? graft_tree_get(all, name) : NULL;
    return cJSON_IsArray(graft_tree_get(found, "nodes")) ? found : NULL;
}

static const char *type_of(const cJSON *item)
{
    return graft_json_str(item, "type", "");
}

/* ---- What a definition has ---- */

/* Nodes of a definition say their number, or are at it. */
static int number_of(const struct group *g, int at)
{
    return (int)graft_json_int(g->node[at], "index", at);
}

static int place_of(const struct group *g, const cJSON *number)
{
    int64_t wanted;
    if (!graft_json_i64(number, &wanted)) return -1;
    for (int at = 0; at < g->n; at++)
        if (number_of(g, at) == wanted) return at;
    return -1;
}

static const cJSON *config_of(const struct group *g, int at, int kind, const char *key)
{
    char number[24];
    snprintf(number, sizeof number, "%d", number_of(g, at));
    const cJSON *node = graft_tree_get(graft_tree_get(g->definition, "config"), number);
    return graft_tree_get(graft_tree_get(node, kind == INPUT ? "input" : "output"), key);
}

static bool is_shown(const cJSON *node)
{
    return !graft_litegraph_silent(type_of(node));
}

static bool is_fed(const struct group *g, int at, int slot)
{
    for (int i = 0; i < g->n_inner; i++)
        if (g->inner[i].to == at && g->inner[i].to_slot == slot) return true;
    return false;
}

/* What a reroute carries is said by its links alone. */
static const char *carried(const struct group *g, int at, const char *given)
{
    bool passes = graft_litegraph_passes(type_of(g->node[at]));
    for (int i = 0; passes && strcmp(given, "*") == 0 && i < g->n_inner; i++)
        if (g->inner[i].from == at || g->inner[i].to == at) return g->inner[i].type;
    return given;
}

static bool is_used(const struct group *g, int kind, const char *name)
{
    for (size_t i = 0; i < g->n_offer[kind]; i++)
        if (strcmp(g->offer[kind][i].name, name) == 0) return true;
    return false;
}

/* The second of a name gets the title of its node. */
static char *name_for(const struct group *g, int kind, int at, const char *own, const char *name)
{
    const char *title = graft_json_str(g->node[at], "title", type_of(g->node[at]));
    graft_str s = GRAFT_STR_INIT;
    graft_str_puts(&s, own ? own : name);
    for (int i = 0; s.data && is_used(g, kind, s.data); i++) {
        graft_str_finish(&s);
        graft_str_printf(&s, "%s %s", title, name);
        if (i) graft_str_printf(&s, " %d", i);
    }
    return graft_str_take(&s);
}

/* `key`: what the definition's settings call it by. */
static graft_status add_offer(struct group *g, int kind, struct offer o, const char *key,
                              const char *name)
{
    const cJSON *config = config_of(g, o.at, kind, key);
    if (cJSON_IsFalse(graft_tree_get(config, "visible"))) return GRAFT_OK;
    if (graft_grow(&g->offer[kind], &g->cap[kind], g->n_offer[kind] + 1, sizeof o))
        return graft_fail_nomem(g->e, "a graph");
    o.name = name_for(g, kind, o.at, graft_json_str(config, "name", NULL), name);
    if (!o.name) return graft_fail_nomem(g->e, "a graph");
    g->offer[kind][g->n_offer[kind]++] = o;
    return GRAFT_OK;
}

static bool lists(const cJSON *node, const char *name)
{
    const cJSON *slot;
    cJSON_ArrayForEach(slot,
                       graft_tree_get(node, "inputs")) if (strcmp(graft_json_str(slot, "name", ""),
                                                                  name) == 0) return true;
    return false;
}

/* Those that are not fed inside; also widgets that an older editor does not list among the inputs.
 */
static graft_status offer_inputs(struct group *g, int at)
{
    const cJSON *slot;
    graft_status st = GRAFT_OK;
    int i = -1;
    cJSON_ArrayForEach(slot, graft_tree_get(g->node[at], "inputs"))
    {
        if (is_fed(g, at, ++i)) continue;
        const char *type = carried(g, at, graft_json_str(slot, "type", "*"));
        const char *name = graft_json_str(slot, "name", "");
        if (!*name) name = type;
        struct offer o = {
            at, i, NULL, type, graft_json_str(graft_tree_get(slot, "widget"), "name", NULL), false};
        if ((st = add_offer(g, INPUT, o, name, name))) return st;
    }
    const graft_registry_node *known = graft_registry_find(g->registry, type_of(g->node[at]));
    for (size_t k = 0; known && k < graft_schema_inputs(known->node); k++) {
        const graft_input *in = known->node->inputs[k];
        struct offer o = {at, -1, NULL, in->type, in->name, false};
        if (graft_schema_widget(in) && !lists(g->node[at], in->name) &&
            (st = add_offer(g, INPUT, o, in->name, in->name)))
            return st;
    }
    return GRAFT_OK;
}

static bool is_external(const struct group *g, int at, int slot)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, graft_tree_get(g->definition, "external"))
    {
        const cJSON *node = cJSON_GetArrayItem(entry, 0), *index = graft_tree_get(node, "index");
        int64_t out;
        if (place_of(g, index ? index : node) == at &&
            graft_json_i64(cJSON_GetArrayItem(entry, 1), &out) && out == slot)
            return true;
    }
    return false;
}

static graft_status offer_outputs(struct group *g, int at)
{
    const cJSON *slot;
    int i = -1;
    cJSON_ArrayForEach(slot, graft_tree_get(g->node[at], "outputs"))
    {
        bool used = false;
        char key[24];
        i++;
        for (int k = 0; k < g->n_inner; k++)
            used = used || (g->inner[k].from == at && g->inner[k].from_slot == i);
        if (used && !is_external(g, at, i)) continue;
        const char *type = carried(g, at, graft_json_str(slot, "type", "*"));
        const char *name = graft_json_str(slot, "name", "");
        snprintf(key, sizeof key, "%d", i);
        graft_status st = add_offer(g, OUTPUT, (struct offer){at, i, NULL, type, NULL, false}, key,
                                    *name ? name : type);
        if (st) return st;
    }
    return GRAFT_OK;
}

static void read_inner(struct group *g, const cJSON *list)
{
    const cJSON *link;
    cJSON_ArrayForEach(link, list)
    {
        int64_t from_slot, to_slot;
        struct inner one = {.from = place_of(g, cJSON_GetArrayItem(link, 0)),
                            .to = place_of(g, cJSON_GetArrayItem(link, 2)),
                            .type = cJSON_GetStringValue(cJSON_GetArrayItem(link, 5))};
        if (!cJSON_IsArray(link) || one.from < 0 || one.to < 0 ||
            !graft_json_i64(cJSON_GetArrayItem(link, 1), &from_slot) ||
            !graft_json_i64(cJSON_GetArrayItem(link, 3), &to_slot) || from_slot < 0 ||
            to_slot < 0 || from_slot > 10000 || to_slot > 10000)
            continue;
        if (!one.type) one.type = "*";
        one.from_slot = (int)from_slot;
        one.to_slot = (int)to_slot;
        g->inner[g->n_inner++] = one;
    }
}

static graft_status open_group(struct group *g)
{
    const cJSON *nodes = graft_tree_get(g->definition, "nodes"), *item;
    const cJSON *links = graft_tree_get(g->definition, "links");
    int count = cJSON_GetArraySize(nodes);
    g->node = graft_calloc((size_t)count, sizeof *g->node);
    g->inner = graft_calloc((size_t)cJSON_GetArraySize(links), sizeof *g->inner);
    if (!g->node || !g->inner) return graft_fail_nomem(g->e, "a graph");
    cJSON_ArrayForEach(item, nodes) g->node[g->n++] = item;
    read_inner(g, links);
    for (int at = 0; at < g->n; at++) {
        if (!is_shown(g->node[at])) continue;
        graft_status st = offer_inputs(g, at);
        if (!st) st = offer_outputs(g, at);
        if (st) return st;
    }
    return GRAFT_OK;
}

static void close_group(struct group *g)
{
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < g->n_offer[kind]; i++) graft_free(g->offer[kind][i].name);
        graft_free(g->offer[kind]);
    }
    graft_free(g->node);
    graft_free(g->inner);
}

/* ---- Its values ---- */

/* Which widgets have no value among the instance's: those that are linked inside; all that are
 * listed among the inputs, of editors that list only linked ones; those that are linked at all. */
enum way { LINKED_INSIDE, LISTED, LINKED, WAYS };

static bool is_linked_outside(const struct group *g, const char *name)
{
    const cJSON *slot;
    cJSON_ArrayForEach(slot, graft_tree_get(g->instance, "inputs"))
    {
        const cJSON *link = graft_tree_get(slot, "link");
        if (graft_tree_get(slot, "widget") && link && !cJSON_IsNull(link) &&
            strcmp(graft_json_str(slot, "name", ""), name) == 0)
            return true;
    }
    return false;
}

static bool is_gone(const struct group *g, int at, const char *widget, enum way way)
{
    const cJSON *slot;
    int i = -1;
    cJSON_ArrayForEach(slot, graft_tree_get(g->node[at], "inputs"))
    {
        i++;
        const char *own = graft_json_str(graft_tree_get(slot, "widget"), "name", NULL);
        if (!own || strcmp(own, widget) != 0) continue;
        if (way == LISTED || is_fed(g, at, i)) return true;
        if (way == LINKED && is_linked_outside(g, graft_json_str(slot, "name", ""))) return true;
    }
    return false;
}

/* Whether entry `i` of a node's values belongs to a widget that has none. */
static bool is_entry_gone(const struct group *g, int at, int i, enum way way)
{
    const graft_registry_node *known = graft_registry_find(g->registry, type_of(g->node[at]));
    graft_widgets w;
    const cJSON *value;
    if (!known) return false;
    graft_widgets_init(&w, known->node, graft_tree_get(g->node[at], "widgets_values"));
    for (;;) {
        int begin = w.place;
        const graft_input *in = graft_widgets_next(&w, &value);
        if (!in) return false;
        if (i >= begin && i < w.place) return is_gone(g, at, in->name, way);
    }
}

/* Gives the node inside its values, and *next behind them; *even false where there are too few. */
static graft_status fill_node(const struct group *g, int at, cJSON *node, enum way way,
                              const cJSON **next, bool *even)
{
    cJSON *list = graft_tree_get(node, "widgets_values");
    int n = cJSON_IsArray(list) && is_shown(node) ? cJSON_GetArraySize(list) : 0;
    for (int i = 0; i < n; i++) {
        /* What becomes of a seed after a run is not always there. */
        bool control = graft_widgets_is_control(cJSON_GetArrayItem(list, i)) &&
                       !(*next && graft_widgets_is_control(*next));
        if (control || is_entry_gone(g, at, i, way)) continue;
        *even = *next != NULL;
        if (!*even) return GRAFT_OK;
        cJSON *copy = cJSON_Duplicate(*next, 1);
        if (!copy || !cJSON_ReplaceItemInArray(list, i, copy)) {
            cJSON_Delete(copy);
            return graft_fail_nomem(g->e, "a graph");
        }
        *next = (*next)->next;
    }
    return GRAFT_OK;
}

/* Copies of the nodes inside, with the values that the instance has for them; *out NULL where these
 * do not come out even. */
static graft_status fill(const struct group *g, enum way way, cJSON **out)
{
    const cJSON *values = graft_tree_get(g->instance, "widgets_values");
    const cJSON *next = cJSON_IsArray(values) ? values->child : NULL;
    bool given = next != NULL, even = true;
    cJSON *nodes = cJSON_CreateArray();
    graft_status st = nodes ? GRAFT_OK : graft_fail_nomem(g->e, "a graph");
    for (int at = 0; at < g->n && even && !st; at++) {
        cJSON *copy = cJSON_Duplicate(g->node[at], 1);
        if (!graft_tree_push(nodes, copy) ||
            !graft_tree_set(copy, "id", graft_json_new_i64(at + 1)))
            st = graft_fail_nomem(g->e, "a graph");
        else if (given)
            st = fill_node(g, at, copy, way, &next, &even);
    }
    bool done = !st && even && !next;
    *out = done ? nodes : NULL;
    if (!done) cJSON_Delete(nodes);
    return st;
}

/* ---- The sub-graph ---- */

static struct offer *find_offer(const struct group *g, int kind, const cJSON *slot, bool by_name)
{
    const char *name = graft_json_str(slot, "name", ""), *type = type_of(slot);
    bool widget = graft_tree_get(slot, "widget") != NULL;
    for (size_t i = 0; i < g->n_offer[kind]; i++) {
        struct offer *o = &g->offer[kind][i];
        bool any = strcmp(type, "*") == 0 || strcmp(o->type, "*") == 0;
        bool same = strcmp(type, o->type) == 0;
        if (o->taken) continue;
        if (by_name ? (any || same) && strcmp(name, o->name) == 0 : same && widget == !!o->widget)
            return o;
    }
    return NULL;
}

/* Which offer each slot of the instance is: the one of its name and type, else the next of its
 * type. */
static void match(const struct group *g, int kind, const cJSON *slots, struct offer **out)
{
    const cJSON *slot;
    int n = cJSON_GetArraySize(slots);
    bool all = kind == OUTPUT && (size_t)n == g->n_offer[kind];
    for (int pass = 0; pass < 2; pass++) {
        int i = 0;
        cJSON_ArrayForEach(slot, slots)
        {
            if (!out[i]) out[i] = all ? &g->offer[kind][i] : find_offer(g, kind, slot, pass == 0);
            if (out[i]) out[i]->taken = true;
            i++;
        }
    }
}

static bool add_link(cJSON *links, int from, int from_slot, int to, int to_slot)
{
    const int part[] = {cJSON_GetArraySize(links) + 1, from, from_slot, to, to_slot};
    cJSON *link = cJSON_CreateArray();
    bool ok = link != NULL;
    for (int i = 0; i < 5 && ok; i++) ok = graft_tree_push(link, graft_json_new_i64(part[i]));
    if (!ok) cJSON_Delete(link);
    return ok && graft_tree_push(links, link);
}

/* A link that ends at a node inside: its input says so, too. */
static bool feed(cJSON *nodes, cJSON *links, int from, int from_slot, int at, int slot)
{
    cJSON *inputs = graft_tree_get(cJSON_GetArrayItem(nodes, at), "inputs");
    cJSON *end = cJSON_GetArrayItem(inputs, slot);
    if (!cJSON_IsObject(end)) return true; /* the definition speaks of an input that it lacks */
    return graft_tree_set(end, "link", graft_json_new_i64(cJSON_GetArraySize(links) + 1)) &&
           add_link(links, from, from_slot, at + 1, slot);
}

/* The input of an offer; one that the node does not list is added to it. */
static int slot_of(cJSON *nodes, const struct offer *o)
{
    cJSON *node = cJSON_GetArrayItem(nodes, o->at), *inputs = graft_tree_get(node, "inputs");
    if (o->slot >= 0) return o->slot;
    if (!cJSON_IsArray(inputs)) {
        if (!graft_tree_set(node, "inputs", cJSON_CreateArray())) return -1;
        inputs = graft_tree_get(node, "inputs");
    }
    cJSON *slot = cJSON_CreateObject(), *widget = cJSON_AddObjectToObject(slot, "widget");
    bool ok = graft_tree_text(slot, "name", o->widget) && graft_tree_text(slot, "type", o->type) &&
              graft_tree_text(widget, "name", o->widget);
    if (!ok) cJSON_Delete(slot);
    return ok && graft_tree_push(inputs, slot) ? cJSON_GetArraySize(inputs) - 1 : -1;
}

static bool is_linked(const cJSON *slot)
{
    const cJSON *link = graft_tree_get(slot, "link");
    return link && !cJSON_IsNull(link);
}

static bool link_inside(const struct group *g, cJSON *nodes, cJSON *links)
{
    cJSON *node, *slot;
    cJSON_ArrayForEach(node, nodes)
        cJSON_ArrayForEach(slot, graft_tree_get(node, "inputs")) if (cJSON_IsObject(slot))
            cJSON_DeleteItemFromObjectCaseSensitive(slot, "link");
    for (int i = 0; i < g->n_inner; i++) {
        const struct inner *l = &g->inner[i];
        if (!feed(nodes, links, l->from + 1, l->from_slot, l->to, l->to_slot)) return false;
    }
    return true;
}

static bool link_outside(const cJSON *inputs, struct offer **in, const cJSON *outputs,
                         struct offer **out, cJSON *nodes, cJSON *links)
{
    const cJSON *slot;
    int i = -1;
    cJSON_ArrayForEach(slot, inputs)
    {
        /* A widget that no link feeds has its own value. */
        if (!in[++i] || (in[i]->widget && !is_linked(slot))) continue;
        int end = slot_of(nodes, in[i]);
        if (end < 0 || !feed(nodes, links, -10, i, in[i]->at, end)) return false;
    }
    i = -1;
    cJSON_ArrayForEach(slot, outputs) if (out[++i] && !add_link(links, out[i]->at + 1, out[i]->slot,
                                                                -20, i)) return false;
    return true;
}

/* The definition of a sub-graph; `nodes` goes into it in any case. */
static graft_status build(const struct group *g, const char *id, cJSON *nodes, cJSON **made)
{
    const cJSON *inputs = graft_tree_get(g->instance, "inputs");
    const cJSON *outputs = graft_tree_get(g->instance, "outputs");
    graft_status st = GRAFT_OK;
    struct offer **in = graft_calloc((size_t)cJSON_GetArraySize(inputs), sizeof *in);
    struct offer **out = graft_calloc((size_t)cJSON_GetArraySize(outputs), sizeof *out);
    cJSON *graph = cJSON_CreateObject(), *links = cJSON_AddArrayToObject(graph, "links");
    bool ok = graft_tree_put(graph, "nodes", nodes) && links && in && out;
    if (ok) match(g, INPUT, inputs, in);
    if (ok) match(g, OUTPUT, outputs, out);
    ok = ok && graft_tree_text(graph, "id", id) && link_inside(g, nodes, links) &&
         link_outside(inputs, in, outputs, out, nodes, links);
    if (ok && inputs) ok = graft_tree_put(graph, "inputs", cJSON_Duplicate(inputs, 1));
    if (!ok) {
        cJSON_Delete(graph);
        graph = NULL;
        st = graft_fail_nomem(g->e, "a graph");
    }
    *made = graph;
    graft_free(in);
    graft_free(out);
    return st;
}

static graft_status expand_node(cJSON *list, cJSON *node, struct group *g, int number)
{
    char id[40];
    cJSON *nodes = NULL, *graph = NULL;
    snprintf(id, sizeof id, "graft/group-node/%d", number);
    graft_status st = open_group(g);
    for (int way = 0; way < WAYS && !st && !nodes; way++) st = fill(g, (enum way)way, &nodes);
    if (!st && !nodes) {
        char own[GRAFT_LITEGRAPH_ID];
        graft_litegraph_id(graft_tree_get(node, "id"), own);
        return graft_fail(g->e, GRAFT_E_UNSUPPORTED,
                          "node %s (%.80s): the values of this group node do not fit what it is "
                          "made of",
                          own, type_of(node));
    }
    if (!st) st = build(g, id, nodes, &graph);
    if (!st &&
        (!graft_tree_push(list, graph) || !graft_tree_set(node, "type", cJSON_CreateString(id))))
        st = graft_fail_nomem(g->e, "a graph");
    if (!st) cJSON_DeleteItemFromObjectCaseSensitive(node, "widgets_values");
    return st;
}

static graft_status expand_graph(cJSON *root, cJSON *list, cJSON *graph, const graft_registry *r,
                                 int *made, graft_err *e)
{
    cJSON *node;
    cJSON_ArrayForEach(node, graft_tree_get(graph, "nodes"))
    {
        const cJSON *definition = definition_of(root, node);
        int64_t mode = graft_json_int(node, "mode", 0);
        if (!definition || mode == GRAFT_LITEGRAPH_NEVER || mode == GRAFT_LITEGRAPH_BYPASS)
            continue;
        *made += 1 + cJSON_GetArraySize(graft_tree_get(definition, "nodes"));
        if (*made > GRAFT_PROMPT_MAX_NODES) /* they may hold each other */
            return graft_fail(e, GRAFT_E_LIMIT, "the graph has more than %d nodes in group nodes",
                              GRAFT_PROMPT_MAX_NODES);
        struct group g = {.registry = r, .definition = definition, .instance = node, .e = e};
        graft_status st = expand_node(list, node, &g, *made);
        close_group(&g);
        if (st) return st;
    }
    return GRAFT_OK;
}

graft_status graft_group_node_expand(cJSON *graph, const graft_registry *r, graft_err *e)
{
    int made = 0;
    if (!graft_group_node_has(graph)) return GRAFT_OK;
    cJSON *holder = graft_tree_get(graph, "definitions");
    if (!cJSON_IsObject(holder)) {
        if (!graft_tree_set(graph, "definitions", cJSON_CreateObject()))
            return graft_fail_nomem(e, "a graph");
        holder = graft_tree_get(graph, "definitions");
    }
    if (!cJSON_IsArray(graft_tree_get(holder, "subgraphs")) &&
        !graft_tree_set(holder, "subgraphs", cJSON_CreateArray()))
        return graft_fail_nomem(e, "a graph");
    cJSON *list = graft_tree_get(holder, "subgraphs");
    graft_status st = expand_graph(graph, list, graph, r, &made, e);
    /* Those that are made are at the end, and may have group nodes of their own. */
    for (cJSON *inner = list->child; inner && !st; inner = inner->next)
        st = expand_graph(graph, list, inner, r, &made, e);
    return st;
}
