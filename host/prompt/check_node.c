#include "host/prompt/check_node.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/tree.h"
#include "host/prompt/hint.h"
#include "host/schema/object_info.h"
#include "host/schema/schema.h"
#include "host/services/services.h"

/* The input's description, or null where it was told already and is long. NULL: out of memory. */
static cJSON *config_of(graft_check *c, const graft_node *node, const graft_input *in)
{
    graft_offer *offer = NULL;
    cJSON *description;
    if (graft_schema_combo(in)) {
        if (graft_offers_get(&c->offers, c->host, node, in, &offer, NULL)) return NULL;
        if (offer->described && offer->choices.count > GRAFT_OFFERS_LONG) return cJSON_CreateNull();
        offer->described = true;
    }
    bool made = !graft_object_info_input(in, offer ? &offer->choices : NULL, &description, NULL);
    return made ? description : NULL;
}

/* {input_name, input_config, received_value}; `config` false: null in its place. */
static cJSON *extra_for(graft_check *c, size_t node, const graft_input *in, bool config,
                        const cJSON *received)
{
    const graft_node *schema = c->p->node[node].entry->node;
    cJSON *extra = cJSON_CreateObject();
    bool ok = graft_tree_text(extra, "input_name", in->name);
    ok = graft_tree_put(extra, "input_config",
                        config ? config_of(c, schema, in) : cJSON_CreateNull()) &&
         ok;
    if (received) ok = graft_tree_put(extra, "received_value", cJSON_Duplicate(received, 1)) && ok;
    if (ok) return extra;
    cJSON_Delete(extra);
    return NULL;
}

static graft_status link_fault(graft_check *c, size_t node, const graft_input *in,
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
    return graft_check_fault(
        c, node, outer ? "exception_during_validation" : "exception_during_inner_validation",
        outer ? "Exception when validating node" : "Exception when validating inner node", reason,
        extra);
}

static graft_status type_fault(graft_check *c, size_t node, const graft_input *in,
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
    return graft_check_fault(c, node, "return_type_mismatch",
                             "Return type mismatch between linked nodes", details, extra);
}

/* What the node's own check says that it takes; NULL when it says nothing. */
static const graft_validate2_api *own_check(const graft_check *c, size_t node)
{
    return graft_schema_table(c->p->node[node].entry->node, GRAFT_VALIDATE2_ID);
}

static bool is_taken(const graft_validate2_api *api, const char *name)
{
    if (!api) return false;
    if (api->flags & GRAFT_VALIDATE_ALL) return true;
    for (size_t i = 0; api->inputs && api->inputs[i]; i++)
        if (strcmp(api->inputs[i], name) == 0) return true;
    return false;
}

static graft_status check_link(graft_check *c, size_t node, const graft_input *in,
                               const cJSON *value, graft_prompt_input *out)
{
    const cJSON *id = cJSON_GetArrayItem(value, 0), *slot = cJSON_GetArrayItem(value, 1);
    int64_t at;
    if (cJSON_GetArraySize(value) != 2 || !cJSON_IsString(id) || !graft_json_i64(slot, &at))
        return graft_check_fault(
            c, node, "bad_linked_input",
            "Bad linked input, must be a length-2 list of [node_id, slot_index]", in->name,
            extra_for(c, node, in, true, value));
    size_t origin = graft_check_find(c, id->valuestring), number = origin - 1;
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
    const graft_validate2_api *own = own_check(c, node);
    out->type = received;
    if (own && own->flags & GRAFT_VALIDATE_TYPES) return GRAFT_OK;
    if (graft_schema_match(received, in->type)) return GRAFT_OK;
    return type_fault(c, node, in, value, received);
}

/* Where a file was looked for, which the protocol has no word for. */
static bool put_folder(cJSON *extra, const char *folder)
{
    return !*folder || graft_tree_text(extra, "folder", folder);
}

/* `offer`: of a COMBO. */
static graft_status literal_fault(graft_check *c, size_t node, const graft_input *in,
                                  const graft_offer *offer, const cJSON *received,
                                  const graft_literal_fault *fault)
{
    cJSON *extra = extra_for(c, node, in, !fault->no_config, received);
    bool ok = true;
    if (offer && strcmp(fault->type, "value_not_in_list") == 0)
        ok = put_folder(extra, offer->folder) && graft_hint_choice(c, extra, offer, received);
    if (fault->exception) ok = ok && graft_tree_text(extra, "exception_message", fault->exception);
    if (!ok) {
        cJSON_Delete(extra);
        return graft_fail_nomem(c->e, "the list of faults");
    }
    return graft_check_fault(c, node, fault->type, fault->message, fault->details, extra);
}

/* `inputs` holds the member that is checked; the converted value takes its place. */
static graft_status check_literal(graft_check *c, size_t node, const graft_input *in, cJSON *inputs,
                                  const cJSON *item, graft_prompt_input *out)
{
    const graft_node *schema = c->p->node[node].entry->node;
    /* A node that checks uploaded names itself also knows names that are not in the list. */
    bool uploaded =
        (in->flags & GRAFT_INPUT_IMAGE_UPLOAD) && graft_schema_table(schema, GRAFT_VALIDATE_ID);
    bool left = uploaded || is_taken(own_check(c, node), in->name);
    graft_literal_fault fault = {0};
    graft_offer *offer = NULL;
    graft_status st = GRAFT_OK;
    if (graft_schema_combo(in) && !(left && cJSON_IsString(item)))
        st = graft_offers_get(&c->offers, c->host, schema, in, &offer, c->e);
    if (!st) st = graft_literal_read(offer, in, item, left, &out->literal, &fault, c->e);
    if (!st && out->literal.value.kind != GRAFT_NONE) {
        cJSON *converted = graft_literal_json(in, &out->literal.value);
        if (!graft_tree_set(inputs, in->name, converted)) st = graft_fail_nomem(c->e, "an input");
        item = graft_tree_get(inputs, in->name);
    }
    if (!st && fault.type) st = literal_fault(c, node, in, offer, item, &fault);
    graft_literal_fault_finish(&fault);
    return st;
}

/* An input that stands for many gets all of them. */
static graft_status take_many(const graft_input *in, const cJSON *inputs, graft_literal *out,
                              graft_err *e)
{
    cJSON *all = cJSON_CreateObject();
    const cJSON *item;
    bool ok = all;
    cJSON_ArrayForEach(item, inputs)
    {
        if (!ok || cJSON_IsArray(item) || cJSON_IsNull(item)) continue;
        if (graft_schema_one_of(in, item->string))
            ok = graft_tree_put(all, item->string, cJSON_Duplicate(item, 1));
    }
    if (ok && all->child) {
        out->text = graft_json_print(all);
        ok = out->text;
        if (ok) out->value = (graft_arg){.kind = GRAFT_STRING, .u.s = out->text};
    }
    cJSON_Delete(all);
    return ok ? GRAFT_OK : graft_fail_nomem(e, "a node's inputs");
}

/* Whether it counts, by the choice that decides that. Where a link gives that one, nobody knows
 * yet: it does when it is there. */
static bool counts(const graft_node *node, const graft_input *in, const cJSON *inputs)
{
    const graft_input *decider = graft_schema_decider(node, in);
    const cJSON *choice = decider ? graft_tree_get(inputs, decider->name) : NULL;
    if (!decider) return true;
    if (cJSON_IsArray(choice)) return graft_tree_get(inputs, in->name);
    return graft_schema_counts(in, decider, cJSON_IsString(choice) ? choice->valuestring : NULL);
}

static graft_status check_input(graft_check *c, size_t node, const graft_input *in, cJSON *inputs,
                                graft_prompt_input *out)
{
    if (!counts(c->p->node[node].entry->node, in, inputs))
        return graft_literal_initial(in, &out->literal, c->e);
    if (in->flags & GRAFT_INPUT_MANY) return take_many(in, inputs, &out->literal, c->e);
    bool optional = in->flags & GRAFT_INPUT_OPTIONAL;
    const cJSON *item = graft_tree_get(inputs, in->name);
    if (!item || (cJSON_IsNull(item) && optional)) {
        if (optional) return graft_literal_initial(in, &out->literal, c->e);
        cJSON *extra = cJSON_CreateObject();
        if (!graft_tree_text(extra, "input_name", in->name) ||
            !graft_hint_missing(c, extra, node, in->name)) {
            cJSON_Delete(extra);
            return graft_fail_nomem(c->e, "the list of faults");
        }
        return graft_check_fault(c, node, "required_input_missing", "Required input is missing",
                                 in->name, extra);
    }
    if (cJSON_IsArray(item)) return check_link(c, node, in, item, out);
    const cJSON *wrapped = graft_tree_get(item, "__value__");
    return check_literal(c, node, in, inputs, wrapped ? wrapped : item, out);
}

/* "NAME - reason", or the name alone; `input` NULL: no input is at fault. */
static graft_status custom_fault(graft_check *c, size_t node, const char *input, const char *text,
                                 const graft_lookup *lookup)
{
    char details[800];
    snprintf(details, sizeof details, "%s%s%s", input ? input : "", input && *text ? " - " : "",
             text);
    cJSON *extra = cJSON_CreateObject();
    const cJSON *inputs = graft_tree_get(c->p->node[node].json, "inputs");
    bool ok = extra && (!input || graft_tree_text(extra, "input_name", input));
    ok = ok && put_folder(extra, lookup->folder);
    if (!ok ||
        (input && !graft_hint_file(c, extra, lookup->folder, graft_tree_get(inputs, input)))) {
        cJSON_Delete(extra);
        return graft_fail_nomem(c->e, "the list of faults");
    }
    return graft_check_fault(c, node, "custom_validation_failed",
                             "Custom validation failed for node", details, extra);
}

/* A check that says what it takes is at fault with each of these inputs. */
static graft_status own_faults(graft_check *c, size_t node, const graft_validate2_api *api,
                               const char *text, const graft_lookup *lookup)
{
    const graft_prompt_node *n = &c->p->node[node];
    const cJSON *inputs = graft_tree_get(n->json, "inputs");
    size_t told = 0;
    for (size_t i = 0; i < n->n_in; i++) {
        const char *name = n->inputs[i]->name;
        if (!is_taken(api, name) || !graft_tree_get(inputs, name)) continue;
        graft_status st = custom_fault(c, node, name, text, lookup);
        if (st) return st;
        told++;
    }
    /* The name that ComfyUI has for the types of all links. */
    return told ? GRAFT_OK : custom_fault(c, node, "input_types", text, lookup);
}

/* The node's own check, when all literals and links are fine by themselves. */
static graft_status check_custom(graft_check *c, size_t node)
{
    graft_prompt_node *n = &c->p->node[node];
    const graft_validate_api *first = graft_schema_table(n->entry->node, GRAFT_VALIDATE_ID);
    const graft_validate2_api *second = own_check(c, node);
    if ((!first && !second) || c->faults[node]) return GRAFT_OK;
    char text[512] = "";
    const char *input = NULL;
    graft_lookup lookup;
    graft_status st = GRAFT_E_NOMEM;
    graft_arg *args = graft_calloc(n->n_in, sizeof *args);
    const char **types = graft_calloc(n->n_in, sizeof *types);
    for (size_t i = 0; args && types && i < n->n_in; i++) {
        if (!n->in[i].linked) args[i] = n->in[i].literal.value;
        types[i] = n->in[i].type;
    }
    graft_lookup_begin(&lookup, c->host);
    if (args && types && second)
        st = second->check(c->host, args, second->flags & GRAFT_VALIDATE_TYPES ? types : NULL, text,
                           sizeof text);
    else if (args && types)
        st = first->check(c->host, args, &input, text, sizeof text);
    graft_lookup_end(&lookup, c->host);
    graft_free(args);
    graft_free(types);
    if (st == GRAFT_OK) return GRAFT_OK;
    if (st == GRAFT_E_NOMEM) return graft_fail_nomem(c->e, "a check");
    text[sizeof text - 1] = 0;
    return second ? own_faults(c, node, second, text, &lookup)
                  : custom_fault(c, node, input, text, &lookup);
}

graft_status graft_check_node(graft_check *c, size_t node)
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
