/* The editor's graph to the API prompt. The rules are those of ComfyUI's editor, as observed: which
 * entry of `widgets_values` belongs to which input follows from the node's schema alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/prompt/everywhere.h"
#include "host/prompt/file_name.h"
#include "host/prompt/group_node.h"
#include "host/prompt/litegraph.h"
#include "host/prompt/literal.h"
#include "host/schema/schema.h"
#include "base/tree.h"
#include "host/prompt/widgets.h"
#include "host/prompt/workflow.h"

struct writer {
    const graft_registry *registry;
    cJSON *prompt;
    graft_err *e;
};

/* A literal array would read as a link, so it is wrapped. */
static bool put_value(cJSON *inputs, const char *name, const cJSON *value)
{
    cJSON *copy = cJSON_Duplicate(value, 1);
    if (copy && cJSON_IsArray(copy)) {
        cJSON *wrapper = cJSON_CreateObject();
        bool ok = graft_tree_put(wrapper, "__value__", copy);
        if (!ok) cJSON_Delete(wrapper);
        copy = ok ? wrapper : NULL;
    }
    return graft_tree_set(inputs, name, copy);
}

/* What an editor shows at first; nothing for sockets, and for files: any could be meant. */
static bool put_default(cJSON *inputs, const graft_input *in)
{
    graft_literal literal;
    if (graft_literal_initial(in, &literal, NULL)) return false;
    cJSON *item = NULL;
    bool needed = true;
    if (literal.value.kind != GRAFT_NONE)
        item = graft_literal_json(in, &literal.value);
    else if (strcmp(in->type, "STRING") == 0 && graft_schema_widget(in))
        item = cJSON_CreateString("");
    else if (graft_schema_combo(in) && graft_schema_widget(in) && in->choices && *in->choices)
        item = cJSON_CreateString(*in->choices);
    else
        needed = false;
    graft_literal_finish(&literal);
    return !needed || graft_tree_set(inputs, in->name, item);
}

static bool put_or_default(cJSON *inputs, const graft_input *in, const cJSON *value)
{
    if (!value || cJSON_IsNull(value)) return put_default(inputs, in);
    return put_value(inputs, in->name, value);
}

/* Inputs of any number stand in a list one after the other, among what the editor drew between
 * them, which has a type, or by their names. */
static bool take_many(const graft_input *in, const cJSON *values, cJSON *inputs)
{
    const cJSON *value;
    size_t n = 0;
    cJSON_ArrayForEach(value, values)
    {
        char name[100];
        bool one = cJSON_IsObject(value) && value->child && !graft_tree_get(value, "type");
        if (!one || (value->string && !graft_schema_one_of(in, value->string))) continue;
        snprintf(name, sizeof name, "%.60s%zu", in->name, ++n);
        const char *called = value->string ? value->string : name;
        if (!graft_tree_put(inputs, called, cJSON_Duplicate(value, 1))) return false;
    }
    return true;
}

static bool take_all_many(const graft_node *node, const cJSON *values, cJSON *inputs)
{
    bool ok = true;
    for (size_t i = 0; ok && i < graft_schema_inputs(node); i++)
        if (node->inputs[i]->flags & GRAFT_INPUT_MANY)
            ok = take_many(node->inputs[i], values, inputs);
    return ok;
}

static bool take_values(const graft_node *node, const cJSON *values, cJSON *inputs)
{
    graft_widgets w;
    const cJSON *value;
    graft_widgets_init(&w, node, values);
    for (const graft_input *in; (in = graft_widgets_next(&w, &value));)
        if (!put_or_default(inputs, in, value)) return false;
    return true;
}

/* The object form names its values; only the schema's inputs are taken from it. */
static bool take_named(const graft_node *node, const cJSON *values, cJSON *inputs)
{
    for (size_t i = 0; i < graft_schema_inputs(node); i++) {
        const graft_input *in = node->inputs[i];
        const cJSON *value = graft_tree_get(values, in->name);
        const graft_input *decider = graft_schema_decider(node, in);
        const char *choice = decider ? graft_json_str(values, decider->name, NULL) : NULL;
        if (decider && !graft_schema_counts(in, decider, choice)) continue;
        if (graft_schema_literal(in) && !put_or_default(inputs, in, value)) return false;
    }
    return true;
}

static bool take_promoted(const graft_node *node, const graft_litegraph_node *n, cJSON *inputs)
{
    for (size_t i = 0; i < graft_schema_inputs(node); i++) {
        const graft_input *in = node->inputs[i];
        const cJSON *value = graft_litegraph_promoted(n, in->name);
        if (value && !cJSON_IsNull(value) && graft_schema_literal(in) &&
            !put_value(inputs, in->name, value))
            return false;
    }
    return true;
}

static bool take_links(const graft_litegraph_node *n, cJSON *inputs)
{
    const cJSON *input;
    cJSON_ArrayForEach(input, graft_tree_get(n->json, "inputs"))
    {
        const char *name = graft_json_str(input, "name", NULL);
        const cJSON *link = graft_tree_get(input, "link");
        if (!name || !link || cJSON_IsNull(link)) continue;
        graft_litegraph_source source = graft_litegraph_resolve(n->scope, link);
        if (source.value && !cJSON_IsNull(source.value)) {
            if (!put_value(inputs, name, source.value)) return false;
        } else if (source.node) {
            cJSON *pair = cJSON_CreateArray();
            if (!graft_tree_push(pair, cJSON_CreateString(source.node->id)) ||
                !graft_tree_push(pair, graft_json_new_i64(source.slot))) {
                cJSON_Delete(pair);
                return false;
            }
            if (!graft_tree_set(inputs, name, pair)) return false;
        }
    }
    return true;
}

static graft_status write_node(struct writer *w, const graft_litegraph_node *n)
{
    const graft_registry_node *entry = graft_registry_find(w->registry, n->type);
    const cJSON *values = graft_tree_get(n->json, "widgets_values");
    const char *title = graft_json_str(n->json, "title", NULL);
    if (!entry && graft_group_node_name(n->type))
        return graft_fail(w->e, GRAFT_E_UNSUPPORTED,
                          "node %s (%.80s): the file does not say what this group node is made of",
                          n->id, n->type);
    cJSON *out = cJSON_CreateObject(), *inputs = cJSON_AddObjectToObject(out, "inputs");
    bool ok = inputs && graft_tree_text(out, "class_type", n->type);
    if (ok && entry) {
        ok = cJSON_IsObject(values) ? take_named(entry->node, values, inputs)
                                    : take_values(entry->node, values, inputs);
        ok = ok && take_all_many(entry->node, values, inputs);
        ok = ok && take_promoted(entry->node, n, inputs);
    }
    ok = ok && take_links(n, inputs);
    if (!title || !*title) title = entry ? entry->node->title : n->type;
    cJSON *meta = ok ? cJSON_AddObjectToObject(out, "_meta") : NULL;
    ok = ok && graft_tree_text(meta, "title", title ? title : n->type);
    if (!ok) cJSON_Delete(out);
    if (!ok || !graft_tree_put(w->prompt, n->id, out)) return graft_fail_nomem(w->e, "a prompt");
    return GRAFT_OK;
}

static int by_order(const void *a, const void *b)
{
    const graft_litegraph_node *x = *(const graft_litegraph_node *const *)a;
    const graft_litegraph_node *y = *(const graft_litegraph_node *const *)b;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return x < y ? -1 : x > y;
}

static graft_status write_scope(struct writer *w, const graft_litegraph_scope *s)
{
    graft_status st = GRAFT_OK;
    const graft_litegraph_node **list = graft_calloc(s->n_node, sizeof *list);
    if (!list) return graft_fail_nomem(w->e, "a prompt");
    for (size_t i = 0; i < s->n_node; i++) list[i] = &s->node[i];
    if (s->n_node > 1) qsort(list, s->n_node, sizeof *list, by_order);
    for (size_t i = 0; i < s->n_node && !st; i++) {
        const graft_litegraph_node *n = list[i];
        if (n->mode == GRAFT_LITEGRAPH_NEVER || n->mode == GRAFT_LITEGRAPH_BYPASS) continue;
        if (n->inner)
            st = write_scope(w, n->inner);
        else if (!graft_litegraph_virtual(n))
            st = write_node(w, n);
    }
    graft_free(list);
    return st;
}

/* The graph as links alone tell it; *copy is to be deleted. */
static graft_status prepare(const cJSON *graph, const graft_registry *r, cJSON **copy, graft_err *e)
{
    *copy = NULL;
    if (!graft_everywhere_has(graph) && !graft_group_node_has(graph)) return GRAFT_OK;
    *copy = cJSON_Duplicate(graph, 1);
    if (!*copy) return graft_fail_nomem(e, "a graph");
    graft_status st = graft_group_node_expand(*copy, r, e);
    return st ? st : graft_everywhere_link(*copy, r, e);
}

graft_status graft_workflow_from_ui(const cJSON *graph, const graft_registry *r, cJSON **prompt,
                                    graft_err *e)
{
    graft_litegraph g = {NULL};
    struct writer w = {r, NULL, e};
    cJSON *copy;
    *prompt = NULL;
    graft_status st = prepare(graph, r, &copy, e);
    if (!st) st = graft_litegraph_init(&g, copy ? copy : graph, e);
    if (!st && !(w.prompt = cJSON_CreateObject())) st = graft_fail_nomem(e, "a prompt");
    if (!st) st = write_scope(&w, g.root);
    if (!st) st = graft_file_name_fill(w.prompt, &g, e);
    graft_litegraph_finish(&g);
    cJSON_Delete(copy);
    if (st)
        cJSON_Delete(w.prompt);
    else
        *prompt = w.prompt;
    return st;
}
