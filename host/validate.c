#include "host/validate.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "host/object_info.h"
#include "host/tree.h"

struct check {
    const graft_registry *registry;
    const graft_host *host;
    graft_prompt *p;
    const graft_outer *outer; /* NULL: a whole prompt */
    graft_map index;          /* id -> node number + 1 */
    cJSON **faults;           /* per node: array of errors, or NULL */
    bool *bad;                /* per output node: it, or something it needs, is at fault */
    bool *moved;              /* per node: its faults belong to node_errors by now */
    graft_err *e;
};

static size_t find_node(const struct check *c, const char *id)
{
    return (size_t)(uintptr_t)graft_map_get(&c->index, id);
}

/* The node of this prompt to which an input is linked. */
static bool inner(const graft_prompt_input *in)
{
    return in->linked && !in->outer;
}

static cJSON *make_error(const char *type, const char *message, const char *details, cJSON *extra)
{
    cJSON *error = cJSON_CreateObject();
    bool ok = graft_tree_text(error, "type", type) && graft_tree_text(error, "message", message) &&
              graft_tree_text(error, "details", details);
    if (graft_tree_put(error, "extra_info", extra) && ok) return error;
    cJSON_Delete(error);
    return NULL;
}

/* Adds a fault to a node; takes `extra`. */
static graft_status add_fault(struct check *c, size_t node, const char *type, const char *message,
                              const char *details, cJSON *extra)
{
    if (!c->faults[node]) c->faults[node] = cJSON_CreateArray();
    if (graft_tree_push(c->faults[node], make_error(type, message, details, extra)))
        return GRAFT_OK;
    return graft_fail_nomem(c->e, "the list of faults");
}

/* {input_name, input_config, received_value}; `config` false: null in its place. */
static cJSON *extra_for(struct check *c, size_t node, const graft_input *in, bool config,
                        const cJSON *received)
{
    const graft_node *schema = c->p->node[node].entry->node;
    cJSON *extra = cJSON_CreateObject(), *description = NULL;
    bool ok = graft_tree_text(extra, "input_name", in->name);
    if (!config)
        description = cJSON_CreateNull();
    else if (graft_object_info_input(c->host, schema, in, &description, NULL))
        ok = false;
    ok = graft_tree_put(extra, "input_config", description) && ok;
    if (received) ok = graft_tree_put(extra, "received_value", cJSON_Duplicate(received, 1)) && ok;
    if (ok) return extra;
    cJSON_Delete(extra);
    return NULL;
}

static graft_status link_fault(struct check *c, size_t node, const graft_input *in,
                               const cJSON *link, const char *reason, const char *kind)
{
    bool outer = c->p->node[node].output;
    cJSON *extra = extra_for(c, node, in, true, NULL);
    bool ok = graft_tree_text(extra, "exception_message", reason) &&
              graft_tree_text(extra, "exception_type", kind) &&
              graft_tree_put(extra, "traceback", cJSON_CreateArray()) &&
              graft_tree_put(extra, "linked_node", cJSON_Duplicate(link, 1));
    if (!ok) {
        cJSON_Delete(extra);
        return graft_fail_nomem(c->e, "the list of faults");
    }
    return add_fault(
        c, node, outer ? "exception_during_validation" : "exception_during_inner_validation",
        outer ? "Exception when validating node" : "Exception when validating inner node", reason,
        extra);
}

static graft_status type_fault(struct check *c, size_t node, const graft_input *in,
                               const cJSON *link, const char *received)
{
    char details[400];
    snprintf(details, sizeof details, "%s, received_type(%s) mismatch input_type(%s)", in->name,
             received, in->type);
    cJSON *extra = extra_for(c, node, in, true, NULL);
    bool ok = graft_tree_text(extra, "received_type", received) &&
              graft_tree_put(extra, "linked_node", cJSON_Duplicate(link, 1));
    if (!ok) {
        cJSON_Delete(extra);
        return graft_fail_nomem(c->e, "the list of faults");
    }
    return add_fault(c, node, "return_type_mismatch", "Return type mismatch between linked nodes",
                     details, extra);
}

static graft_status check_link(struct check *c, size_t node, const graft_input *in,
                               const cJSON *value, graft_prompt_input *out)
{
    const cJSON *id = cJSON_GetArrayItem(value, 0), *slot = cJSON_GetArrayItem(value, 1);
    int64_t at;
    if (cJSON_GetArraySize(value) != 2 || !cJSON_IsString(id) || !graft_json_i64(slot, &at))
        return add_fault(c, node, "bad_linked_input",
                         "Bad linked input, must be a length-2 list of [node_id, slot_index]",
                         in->name, extra_for(c, node, in, true, value));
    size_t origin = find_node(c, id->valuestring), number = origin - 1;
    const graft_prompt_node *from = origin ? &c->p->node[number] : NULL;
    if (!from && c->outer) {
        from = c->outer->find(c->outer->ctx, id->valuestring, &number);
        out->outer = from;
    }
    if (!from) {
        char reason[300];
        snprintf(reason, sizeof reason, "'%s'", id->valuestring);
        return link_fault(c, node, in, value, reason, "KeyError");
    }
    if (at < 0 || (uint64_t)at >= from->n_out)
        return link_fault(c, node, in, value, "tuple index out of range", "IndexError");
    out->linked = true;
    out->node = number;
    out->slot = (uint32_t)at;
    const char *received = from->entry->node->outputs[at]->type;
    if (graft_schema_match(received, in->type)) return GRAFT_OK;
    return type_fault(c, node, in, value, received);
}

static graft_status literal_fault(struct check *c, size_t node, const graft_input *in,
                                  const cJSON *received, const graft_literal_fault *fault)
{
    cJSON *extra = extra_for(c, node, in, !fault->no_config, received);
    if (fault->exception && !graft_tree_text(extra, "exception_message", fault->exception)) {
        cJSON_Delete(extra);
        return graft_fail_nomem(c->e, "the list of faults");
    }
    return add_fault(c, node, fault->type, fault->message, fault->details, extra);
}

/* `inputs` holds the member that is checked; the converted value takes its place. */
static graft_status check_literal(struct check *c, size_t node, const graft_input *in,
                                  cJSON *inputs, const cJSON *item, graft_prompt_input *out)
{
    const graft_node *schema = c->p->node[node].entry->node;
    /* A node that checks uploaded names itself also knows names that are not in the list. */
    bool any =
        (in->flags & GRAFT_INPUT_IMAGE_UPLOAD) && graft_schema_table(schema, GRAFT_VALIDATE_ID);
    graft_literal_fault fault;
    graft_status st =
        graft_literal_read(c->host, schema, in, item, any, &out->literal, &fault, c->e);
    if (!st && out->literal.value.kind != GRAFT_NONE) {
        cJSON *converted = graft_literal_json(in, &out->literal.value);
        if (!graft_tree_set(inputs, in->name, converted)) st = graft_fail_nomem(c->e, "an input");
        item = graft_tree_get(inputs, in->name);
    }
    if (!st && fault.type) st = literal_fault(c, node, in, item, &fault);
    graft_literal_fault_finish(&fault);
    return st;
}

static graft_status check_input(struct check *c, size_t node, const graft_input *in, cJSON *inputs,
                                graft_prompt_input *out)
{
    bool optional = in->flags & GRAFT_INPUT_OPTIONAL;
    const cJSON *item = graft_tree_get(inputs, in->name);
    if (!item || (cJSON_IsNull(item) && optional)) {
        if (optional) return graft_literal_initial(in, &out->literal, c->e);
        cJSON *extra = cJSON_CreateObject();
        if (!graft_tree_text(extra, "input_name", in->name)) {
            cJSON_Delete(extra);
            return graft_fail_nomem(c->e, "the list of faults");
        }
        return add_fault(c, node, "required_input_missing", "Required input is missing", in->name,
                         extra);
    }
    if (cJSON_IsArray(item)) return check_link(c, node, in, item, out);
    const cJSON *wrapped = graft_tree_get(item, "__value__");
    return check_literal(c, node, in, inputs, wrapped ? wrapped : item, out);
}

/* The node's own check of its literals, when all of them are fine by themselves. */
static graft_status check_custom(struct check *c, size_t node)
{
    graft_prompt_node *n = &c->p->node[node];
    const graft_validate_api *api = graft_schema_table(n->entry->node, GRAFT_VALIDATE_ID);
    if (!api || c->faults[node]) return GRAFT_OK;
    graft_arg *args = graft_calloc(n->n_in, sizeof *args);
    if (!args) return graft_fail_nomem(c->e, "a node's inputs");
    for (size_t i = 0; i < n->n_in; i++)
        if (!n->in[i].linked) args[i] = n->in[i].literal.value;
    char text[512] = "", details[800];
    const char *input = NULL;
    graft_status st = api->check(c->host, args, &input, text, sizeof text);
    graft_free(args);
    if (st == GRAFT_OK) return GRAFT_OK;
    if (st == GRAFT_E_NOMEM) return graft_fail_nomem(c->e, "a check");
    snprintf(details, sizeof details, "%s%s%s", input ? input : "", input && *text ? " - " : "",
             text);
    cJSON *extra = cJSON_CreateObject();
    if (!extra || (input && !graft_tree_text(extra, "input_name", input))) {
        cJSON_Delete(extra);
        return graft_fail_nomem(c->e, "the list of faults");
    }
    return add_fault(c, node, "custom_validation_failed", "Custom validation failed for node",
                     details, extra);
}

static graft_status check_node(struct check *c, size_t node)
{
    graft_prompt_node *n = &c->p->node[node];
    cJSON *inputs = graft_tree_get(n->json, "inputs");
    if (!cJSON_IsObject(inputs)) {
        inputs = cJSON_CreateObject();
        if (!graft_tree_set(n->json, "inputs", inputs))
            return graft_fail_nomem(c->e, "a node's inputs");
    }
    n->in = graft_calloc(n->n_in, sizeof *n->in);
    if (!n->in) return graft_fail_nomem(c->e, "a node's inputs");
    for (size_t i = 0; i < n->n_in; i++) {
        graft_status st = check_input(c, node, n->inputs[i], inputs, &n->in[i]);
        if (st) return st;
    }
    return check_custom(c, node);
}

/* Checks every node that an output needs, each once. */
static graft_status check_reached(struct check *c)
{
    graft_status st = GRAFT_OK;
    size_t *stack = graft_malloc_array(c->p->count, sizeof *stack), depth = 0;
    bool *seen = graft_calloc(c->p->count, sizeof *seen);
    if (!stack || !seen) st = graft_fail_nomem(c->e, "a prompt");
    for (size_t i = 0; !st && i < c->p->count; i++) {
        if (!c->p->node[i].output || seen[i]) continue;
        seen[i] = true;
        stack[depth++] = i;
        while (!st && depth) {
            size_t at = stack[--depth];
            st = check_node(c, at);
            const graft_prompt_node *n = &c->p->node[at];
            for (size_t k = 0; !st && k < n->n_in; k++) {
                if (!inner(&n->in[k]) || seen[n->in[k].node]) continue;
                seen[n->in[k].node] = true;
                stack[depth++] = n->in[k].node;
            }
        }
    }
    graft_free(stack);
    graft_free(seen);
    return st;
}

/* Removes nodes without a remaining edge in one direction until none is left to remove; what stays
 * in `kept` after both directions lies on a cycle or between two of them. */
static void trim(const graft_prompt *p, bool *kept, size_t *degree, size_t *stack, bool upstream)
{
    size_t depth = 0;
    memset(degree, 0, p->count * sizeof *degree);
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; kept[i] && k < p->node[i].n_in; k++) {
            const graft_prompt_input *in = &p->node[i].in[k];
            if (inner(in) && kept[in->node]) degree[upstream ? i : in->node]++;
        }
    for (size_t i = 0; i < p->count; i++)
        if (kept[i] && !degree[i]) stack[depth++] = i;
    while (depth) {
        size_t gone = stack[--depth];
        kept[gone] = false;
        if (!upstream) {
            for (size_t k = 0; k < p->node[gone].n_in; k++) {
                const graft_prompt_input *in = &p->node[gone].in[k];
                if (inner(in) && kept[in->node] && !--degree[in->node]) stack[depth++] = in->node;
            }
            continue;
        }
        for (size_t i = 0; i < p->count; i++)
            for (size_t k = 0; kept[i] && k < p->node[i].n_in; k++) {
                const graft_prompt_input *in = &p->node[i].in[k];
                if (inner(in) && in->node == gone && !--degree[i]) stack[depth++] = i;
            }
    }
}

static graft_status check_cycles(struct check *c)
{
    graft_prompt *p = c->p;
    graft_status st = GRAFT_OK;
    bool *kept = graft_calloc(p->count, sizeof *kept);
    size_t *work = graft_calloc(2 * p->count, sizeof *work);
    graft_str names = GRAFT_STR_INIT;
    if (!kept || !work) {
        st = graft_fail_nomem(c->e, "a prompt");
        goto out;
    }
    for (size_t i = 0; i < p->count; i++) kept[i] = p->node[i].in;
    trim(p, kept, work, work + p->count, false);
    trim(p, kept, work, work + p->count, true);
    for (size_t i = 0; i < p->count; i++)
        if (kept[i]) graft_str_printf(&names, "%s%s", names.len ? ", " : "", p->node[i].id);
    if (names.failed) {
        st = graft_fail_nomem(c->e, "a message");
        goto out;
    }
    for (size_t i = 0; i < p->count; i++)
        if (kept[i])
            GRAFT_TRY(add_fault(c, i, "dependency_cycle", "Dependency cycle detected", names.data,
                                cJSON_CreateObject()));
out:
    graft_free(kept);
    graft_free(work);
    graft_str_finish(&names);
    return st;
}

static graft_status node_entry(struct check *c, size_t node, cJSON *node_errors)
{
    const graft_prompt_node *n = &c->p->node[node];
    const cJSON *class_type = graft_tree_get(n->json, "class_type");
    cJSON *entry = cJSON_CreateObject();
    bool ok = entry && cJSON_AddItemToObject(entry, "errors", c->faults[node]);
    c->moved[node] = ok;
    ok = ok && graft_tree_put(entry, "dependent_outputs", cJSON_CreateArray()) &&
         graft_tree_put(entry, "class_type",
                        class_type ? cJSON_Duplicate(class_type, 1) : cJSON_CreateNull());
    if (!ok) {
        cJSON_Delete(entry);
        entry = NULL;
    }
    return graft_tree_put(node_errors, n->id, entry) ? GRAFT_OK
                                                     : graft_fail_nomem(c->e, "the faults");
}

/* Notes `output` at each faulty node it needs, and whether there is any. */
static graft_status note_output(struct check *c, size_t output, cJSON *node_errors, size_t *stack,
                                size_t *seen)
{
    size_t depth = 0;
    stack[depth++] = output;
    seen[output] = output + 1;
    while (depth) {
        size_t at = stack[--depth];
        const graft_prompt_node *n = &c->p->node[at];
        if (c->faults[at]) {
            c->bad[output] = true;
            cJSON *entry = cJSON_GetObjectItemCaseSensitive(node_errors, n->id);
            if (!graft_tree_push(graft_tree_get(entry, "dependent_outputs"),
                                 cJSON_CreateString(c->p->node[output].id)))
                return graft_fail_nomem(c->e, "the faults");
        }
        for (size_t k = 0; k < n->n_in; k++) {
            const graft_prompt_input *in = &n->in[k];
            if (!inner(in) || seen[in->node] == output + 1) continue;
            seen[in->node] = output + 1;
            stack[depth++] = in->node;
        }
    }
    return GRAFT_OK;
}

/* "message: details" of the faults of the output nodes themselves. */
static cJSON *all_failed(const struct check *c)
{
    graft_str s = GRAFT_STR_INIT;
    for (size_t i = 0; i < c->p->count; i++) {
        if (!c->p->node[i].output) continue;
        for (const cJSON *f = c->faults[i] ? c->faults[i]->child : NULL; f; f = f->next)
            graft_str_printf(&s, "%s%s: %s", s.len ? "\n" : "", graft_json_str(f, "message", ""),
                             graft_json_str(f, "details", ""));
    }
    cJSON *error = NULL;
    if (!s.failed)
        error = make_error("prompt_outputs_failed_validation", "Prompt outputs failed validation",
                           s.data ? s.data : "", cJSON_CreateObject());
    graft_str_finish(&s);
    return error;
}

static graft_status collect(struct check *c, graft_validation *out)
{
    graft_prompt *p = c->p;
    graft_status st = GRAFT_OK;
    bool faulty = false;
    size_t *work = graft_calloc(2 * p->count, sizeof *work);
    p->output = graft_malloc_array(p->count, sizeof *p->output);
    if (!work || !p->output) {
        st = graft_fail_nomem(c->e, "a prompt");
        goto out;
    }
    for (size_t i = 0; i < p->count; i++) {
        if (!c->faults[i]) continue;
        faulty = true;
        GRAFT_TRY(node_entry(c, i, out->node_errors));
    }
    for (size_t i = 0; i < p->count; i++) {
        if (!p->node[i].output) continue;
        if (faulty) GRAFT_TRY(note_output(c, i, out->node_errors, work, work + p->count));
        if (!c->bad[i]) p->output[p->n_output++] = i;
    }
    if (!p->n_output && !c->outer && !(out->error = all_failed(c)))
        st = graft_fail_nomem(c->e, "the faults");
out:
    graft_free(work);
    return st;
}

static const char *title_of(const cJSON *json, const char *fallback)
{
    const char *title = graft_json_str(graft_tree_get(json, "_meta"), "title", fallback);
    return *title ? title : fallback;
}

/* A node that cannot be looked up: the first of them is the error of the whole prompt. */
static graft_status unknown_node(struct check *c, size_t node, const char *class_type,
                                 graft_validation *out)
{
    const graft_prompt_node *n = &c->p->node[node];
    char message[400], details[200];
    if (class_type)
        snprintf(message, sizeof message, "Cannot execute because node %s does not exist.",
                 class_type);
    else
        snprintf(message, sizeof message,
                 "Cannot execute because a node is missing the class_type property.");
    snprintf(details, sizeof details, "Node ID '#%s'", n->id);
    for (int i = 0; i < 2; i++) {
        cJSON *extra = cJSON_CreateObject();
        bool ok = graft_tree_text(extra, "node_id", n->id);
        if (class_type)
            ok = ok && graft_tree_text(extra, "class_type", class_type) &&
                 graft_tree_text(extra, "node_title", title_of(n->json, class_type));
        if (!ok) {
            cJSON_Delete(extra);
            return graft_fail_nomem(c->e, "the faults");
        }
        const char *type = class_type ? "missing_node_type" : "invalid_prompt";
        if (i) {
            graft_status st = add_fault(c, node, type, message, details, extra);
            if (st) return st;
        } else if (out->error) {
            cJSON_Delete(extra);
        } else if (!(out->error = make_error(type, message, details, extra))) {
            return graft_fail_nomem(c->e, "the faults");
        }
    }
    return node_entry(c, node, out->node_errors);
}

/* Fills the table of nodes and looks up their classes. */
static graft_status look_up(struct check *c, graft_validation *out)
{
    size_t n = 0;
    for (cJSON *json = c->p->json->child; json; json = json->next, n++) {
        graft_prompt_node *node = &c->p->node[n];
        const char *class_type = graft_json_str(json, "class_type", NULL);
        node->id = json->string;
        node->json = json;
        node->entry = class_type ? graft_registry_find(c->registry, class_type) : NULL;
        if (!node->entry) {
            graft_status st = unknown_node(c, n, class_type, out);
            if (st) return st;
            continue;
        }
        node->title = title_of(json, node->entry->node->title ? node->entry->node->title
                                                              : node->entry->node->id);
        graft_status inputs = graft_prompt_node_inputs(node, graft_tree_get(json, "inputs"), c->e);
        if (inputs) return inputs;
        node->n_out = graft_schema_outputs(node->entry->node);
        if (graft_map_put(&c->index, node->id, (void *)(uintptr_t)(n + 1)))
            return graft_fail_nomem(c->e, "a prompt");
    }
    return GRAFT_OK;
}

static size_t mark_outputs(struct check *c, const char *const *target, size_t n_target)
{
    size_t n = 0;
    for (size_t i = 0; i < c->p->count; i++) {
        graft_prompt_node *node = &c->p->node[i];
        /* Of two members with one name the last counts, as everywhere in JSON's habits. */
        bool last = find_node(c, node->id) == i + 1, wanted = false;
        for (size_t k = 0; k < n_target; k++) wanted |= strcmp(target[k], node->id) == 0;
        node->output = last && (node->entry->node->flags & GRAFT_NODE_OUTPUT);
        if (c->outer)
            node->output = last && (wanted || node->output);
        else if (target)
            node->output = node->output && wanted;
        n += node->output;
    }
    return n;
}

static graft_status make_prompt(const graft_registry *r, cJSON *json, graft_prompt **out,
                                graft_err *e)
{
    size_t count = 0;
    *out = NULL;
    for (const cJSON *j = cJSON_IsObject(json) ? json->child : NULL; j; j = j->next) count++;
    if (count > GRAFT_PROMPT_MAX_NODES) {
        cJSON_Delete(json);
        return graft_fail(e, GRAFT_E_LIMIT, "the prompt has %zu nodes; at most %d are accepted",
                          count, GRAFT_PROMPT_MAX_NODES);
    }
    graft_prompt *p = graft_calloc(1, sizeof *p);
    if (p) p->node = graft_calloc(count, sizeof *p->node);
    if (!p || !p->node) {
        graft_free(p);
        cJSON_Delete(json);
        return graft_fail_nomem(e, "a prompt");
    }
    p->registry = r;
    p->json = json;
    p->count = count;
    *out = p;
    return GRAFT_OK;
}

static graft_status run_checks(struct check *c, const char *const *target, size_t n_target,
                               graft_validation *out)
{
    graft_status st = look_up(c, out);
    if (st || out->error) return st;
    if (!mark_outputs(c, target, n_target) && !c->outer) {
        out->error =
            make_error("prompt_no_outputs", "Prompt has no outputs", "", cJSON_CreateObject());
        return out->error ? GRAFT_OK : graft_fail_nomem(c->e, "the faults");
    }
    st = check_reached(c);
    if (!st) st = check_cycles(c);
    return st ? st : collect(c, out);
}

static graft_status validate(struct check c, cJSON *json, const char *const *target,
                             size_t n_target, graft_validation *out)
{
    graft_err *e = c.e;
    memset(out, 0, sizeof *out);
    graft_status st = make_prompt(c.registry, json, &c.p, e);
    if (st) return st;
    out->node_errors = cJSON_CreateObject();
    c.faults = graft_calloc(c.p->count, sizeof *c.faults);
    c.bad = graft_calloc(c.p->count, sizeof *c.bad);
    c.moved = graft_calloc(c.p->count, sizeof *c.moved);
    if (out->node_errors && c.faults && c.bad && c.moved)
        st = run_checks(&c, target, n_target, out);
    else
        st = graft_fail_nomem(e, "a prompt");
    for (size_t i = 0; c.faults && i < c.p->count; i++)
        if (!c.moved || !c.moved[i]) cJSON_Delete(c.faults[i]);
    graft_free(c.faults);
    graft_free(c.bad);
    graft_free(c.moved);
    graft_map_finish(&c.index);
    if (st || out->error)
        graft_prompt_destroy(c.p);
    else
        out->prompt = c.p;
    if (st) graft_validation_finish(out);
    return st;
}

graft_status graft_validate(const graft_registry *r, const graft_host *host, cJSON *json,
                            const char *const *target, size_t n_target, graft_validation *out,
                            graft_err *e)
{
    const struct check c = {.registry = r, .host = host, .e = e};
    return validate(c, json, target, n_target, out);
}

/* Numbers of the part's own nodes become those they have in the whole. */
static void number_from(graft_prompt *p, size_t first)
{
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; p->node[i].in && k < p->node[i].n_in; k++)
            if (inner(&p->node[i].in[k])) p->node[i].in[k].node += first;
}

static graft_status first_fault(const graft_validation *v, graft_err *e)
{
    graft_str text = GRAFT_STR_INIT;
    graft_validation_text(v, "the expansion", &text);
    graft_status st =
        text.failed ? graft_fail_nomem(e, "the faults")
                    : graft_fail(e, GRAFT_E_ARG, "%.*s", (int)strcspn(text.data, "\n"), text.data);
    graft_str_finish(&text);
    return st;
}

graft_status graft_validate_part(const graft_registry *r, const graft_host *host, cJSON *json,
                                 const char *const *wanted, size_t n_wanted,
                                 const graft_outer *outer, graft_prompt **out, graft_err *e)
{
    const struct check c = {.registry = r, .host = host, .outer = outer, .e = e};
    graft_validation v;
    *out = NULL;
    graft_status st = validate(c, json, wanted, n_wanted, &v);
    if (st) return st;
    if (v.error || v.node_errors->child) {
        st = first_fault(&v, e);
    } else {
        *out = v.prompt;
        v.prompt = NULL;
        number_from(*out, outer->count);
    }
    graft_validation_finish(&v);
    return st;
}

void graft_validation_finish(graft_validation *v)
{
    graft_prompt_destroy(v->prompt);
    cJSON_Delete(v->error);
    cJSON_Delete(v->node_errors);
    memset(v, 0, sizeof *v);
}

/* The words that clients of the protocol know are not those that a terminal needs; false where
 * they will do. */
static bool put_plainly(const char *type, const char *details, const cJSON *extra, graft_str *out)
{
    const cJSON *config = graft_tree_get(extra, "input_config");
    const char *wanted = cJSON_GetStringValue(cJSON_GetArrayItem(config, 0));
    bool custom = strcmp(type, "custom_validation_failed") == 0;
    if ((custom && *details) || strcmp(type, "value_not_in_list") == 0) {
        graft_str_printf(out, ": %s", details);
        if (graft_str_ends(details, " not in []"))
            graft_str_puts(out, ": there is no such file; --models and --input say where to look");
        return true;
    }
    if (wanted && strcmp(type, "return_type_mismatch") == 0) {
        graft_str_printf(out, ": takes %s, and is linked to an output of type %s", wanted,
                         graft_json_str(extra, "received_type", ""));
        return true;
    }
    if (!wanted || strcmp(type, "invalid_input_type") != 0) return false;
    char *value = graft_json_print(graft_tree_get(extra, "received_value"));
    graft_str_printf(out, ": %s is not of type %s", value ? value : "the value", wanted);
    graft_free(value);
    return true;
}

static void put_fault(const cJSON *f, graft_str *out)
{
    const char *type = graft_json_str(f, "type", ""), *details = graft_json_str(f, "details", "");
    const cJSON *extra = graft_tree_get(f, "extra_info");
    const cJSON *link = graft_tree_get(extra, "linked_node");
    const char *input = graft_json_str(extra, "input_name", NULL);
    const char *from = link ? cJSON_GetStringValue(cJSON_GetArrayItem(link, 0)) : NULL;
    if (input) graft_str_printf(out, ", input %s", input);
    if (from && strncmp(type, "exception_during", 16) == 0) {
        if (strcmp(graft_json_str(extra, "exception_type", ""), "KeyError") == 0)
            graft_str_printf(out, ": linked to node %s, which does not exist\n", from);
        else
            graft_str_printf(out, ": linked to an output that node %s does not have\n", from);
        return;
    }
    /* Node and input are named already. */
    if (strncmp(details, "Node ID", 7) == 0) details = "";
    if (input && graft_str_starts(details, input)) {
        details += strlen(input);
        details += strspn(details, ",:- ");
    }
    if (!put_plainly(type, details, extra, out)) {
        graft_str_printf(out, ": %s", graft_json_str(f, "message", ""));
        if (*details) graft_str_printf(out, " (%s)", details);
    }
    graft_str_puts(out, "\n");
}

void graft_validation_text(const graft_validation *v, const char *file, graft_str *out)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, v->node_errors)
    {
        const cJSON *class_type = graft_tree_get(entry, "class_type");
        const cJSON *fault;
        cJSON_ArrayForEach(fault, graft_tree_get(entry, "errors"))
        {
            graft_str_printf(out, "%s: node %s", file, entry->string);
            if (cJSON_IsString(class_type)) graft_str_printf(out, " (%s)", class_type->valuestring);
            put_fault(fault, out);
        }
    }
    if (v->error && !(v->node_errors && v->node_errors->child))
        graft_str_printf(out, "%s: %s\n", file, graft_json_str(v->error, "message", ""));
}
