/* The editor's graph to the API prompt. The rules are those of ComfyUI's editor, as observed: which
 * entry of `widgets_values` belongs to which input follows from the node's schema alone. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/file_name.h"
#include "host/litegraph.h"
#include "host/schema.h"
#include "host/tree.h"
#include "host/workflow.h"

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

/* Editors put "what to do with the seed after a run" behind the seed. */
static bool has_control(const graft_input *in)
{
    if (in->flags & GRAFT_INPUT_SEED) return true;
    return strcmp(in->type, "INT") == 0 &&
           (strcmp(in->name, "seed") == 0 || strcmp(in->name, "noise_seed") == 0);
}

static bool is_control(const cJSON *value)
{
    static const char *const word[] = {"fixed", "increment", "decrement", "randomize"};
    for (size_t i = 0; cJSON_IsString(value) && i < sizeof word / sizeof *word; i++)
        if (strcmp(value->valuestring, word[i]) == 0) return true;
    return false;
}

static size_t count_widgets(const graft_node *node)
{
    size_t n = 0;
    for (size_t i = 0; i < graft_schema_inputs(node); i++)
        n += graft_schema_widget(node->inputs[i]);
    return n;
}

static size_t count_values(const cJSON *value)
{
    size_t n = 0;
    for (; value; value = value->next) n++;
    return n;
}

/* Walks over `values` in the order in which an editor shows the widgets: required inputs first. */
static bool take_values(const graft_node *node, const cJSON *values, cJSON *inputs)
{
    const cJSON *value = values->child;
    size_t left = count_widgets(node), n = count_values(value);
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; value && i < graft_schema_inputs(node); i++) {
            const graft_input *in = node->inputs[i];
            if (!(in->flags & GRAFT_INPUT_OPTIONAL) != (pass == 0) || !graft_schema_widget(in))
                continue;
            if (!cJSON_IsNull(value) && !put_value(inputs, in->name, value)) return false;
            value = value->next;
            left--;
            n--;
            /* An extra entry can only be there when there are more entries than widgets. */
            if (n > left && has_control(in) && is_control(value)) {
                value = value->next;
                n--;
                if (graft_schema_combo(in) && n > left) { /* its filter text */
                    value = value->next;
                    n--;
                }
            }
            if (n > left && (in->flags & GRAFT_INPUT_IMAGE_UPLOAD)) { /* its button */
                value = value->next;
                n--;
            }
        }
    return true;
}

/* The object form names its values; only the schema's inputs are taken from it. */
static bool take_named(const graft_node *node, const cJSON *values, cJSON *inputs)
{
    for (size_t i = 0; i < graft_schema_inputs(node); i++) {
        const graft_input *in = node->inputs[i];
        const cJSON *value = graft_tree_get(values, in->name);
        if (!value || cJSON_IsNull(value) || !graft_schema_literal(in)) continue;
        if (!put_value(inputs, in->name, value)) return false;
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
    cJSON *out = cJSON_CreateObject(), *inputs = cJSON_AddObjectToObject(out, "inputs");
    bool ok = inputs && graft_tree_text(out, "class_type", n->type);
    if (ok && entry) {
        if (cJSON_IsArray(values)) ok = take_values(entry->node, values, inputs);
        if (cJSON_IsObject(values)) ok = take_named(entry->node, values, inputs);
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

graft_status graft_workflow_from_ui(const cJSON *graph, const graft_registry *r, cJSON **prompt,
                                    graft_err *e)
{
    graft_litegraph g;
    *prompt = NULL;
    graft_status st = graft_litegraph_init(&g, graph, e);
    if (st) return st;
    struct writer w = {r, cJSON_CreateObject(), e};
    st = w.prompt ? write_scope(&w, g.root) : graft_fail_nomem(e, "a prompt");
    if (!st) st = graft_file_name_fill(w.prompt, &g, e);
    graft_litegraph_finish(&g);
    if (st)
        cJSON_Delete(w.prompt);
    else
        *prompt = w.prompt;
    return st;
}
