#include "host/prompt/validate.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "host/prompt/check_node.h"
#include "host/prompt/hint.h"
#include "base/tree.h"

#define LONG_CYCLE 1000 /* characters */
/* What listing the outputs behind faults may cost: a step from node to node is 1, an entry more. */
#define NOTES ((size_t)1 << 24)

/* The node of this prompt to which an input is linked. */
static bool inner(const graft_prompt_input *in)
{
    return in->linked && !in->outer;
}

/* Checks every node that an output needs, each once. */
static graft_status check_reached(graft_check *c)
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
            st = graft_check_node(c, at);
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

/* The nodes that take something of node i, once a link: to[first[i]] … to[first[i + 1] - 1]. */
struct behind {
    size_t *first, *to;
};

static void behind_finish(struct behind *b)
{
    graft_free(b->first);
    graft_free(b->to);
}

static graft_status behind_init(struct behind *b, const graft_prompt *p, graft_err *e)
{
    size_t links = 0;
    b->to = NULL;
    b->first = graft_calloc(p->count + 2, sizeof *b->first);
    if (!b->first) return graft_fail_nomem(e, "a prompt");
    /* Counted two places on, so that filling the lists leaves each end one place on. */
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; p->node[i].in && k < p->node[i].n_in; k++)
            if (inner(&p->node[i].in[k])) {
                b->first[p->node[i].in[k].node + 2]++;
                links++;
            }
    for (size_t i = 2; i < p->count + 2; i++) b->first[i] += b->first[i - 1];
    b->to = graft_malloc_array(links, sizeof *b->to);
    if (!b->to) return graft_fail_nomem(e, "a prompt");
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; p->node[i].in && k < p->node[i].n_in; k++)
            if (inner(&p->node[i].in[k])) b->to[b->first[p->node[i].in[k].node + 1]++] = i;
    return GRAFT_OK;
}

/* Removes nodes without a remaining edge in one direction until none is left to remove; what stays
 * in `kept` after both directions lies on a cycle or between two of them. */
static void trim(const graft_prompt *p, const struct behind *b, bool *kept, size_t *degree,
                 size_t *stack, bool upstream)
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
        for (size_t k = b->first[gone]; k < b->first[gone + 1]; k++)
            if (kept[b->to[k]] && !--degree[b->to[k]]) stack[depth++] = b->to[k];
    }
}

/* The origin of a node's first input that leads on to a cycle. */
static size_t onward(const graft_prompt *p, const bool *kept, size_t at)
{
    for (size_t k = 0; k < p->node[at].n_in; k++)
        if (inner(&p->node[at].in[k]) && kept[p->node[at].in[k].node])
            return p->node[at].in[k].node;
    return at;
}

/* Tells every node of a cycle. Each is told all of it, so what is told of a long one is cut, and
 * names that are long themselves are left out. */
static graft_status cycle_faults(graft_check *c, const bool *kept, size_t first)
{
    const graft_prompt_node *node = c->p->node;
    graft_status st = GRAFT_OK;
    graft_str path = GRAFT_STR_INIT;
    cJSON *ids = cJSON_CreateArray();
    bool ok = ids, cut = false;
    size_t at = first;
    do {
        cut = cut || path.len + strlen(node[at].id) > LONG_CYCLE;
        if (!cut) {
            graft_str_printf(&path, "%s (%s) -> ", node[at].id, node[at].entry->node->id);
            ok = ok && graft_tree_push(ids, cJSON_CreateString(node[at].id));
        }
        at = onward(c->p, kept, at);
    } while (at != first);
    graft_str_printf(&path, "%s%s (%s)", cut ? "... -> " : "",
                     strlen(node[first].id) > LONG_CYCLE ? "..." : node[first].id,
                     node[first].entry->node->id);
    ok = ok && !path.failed;
    do {
        cJSON *extra = cJSON_CreateObject();
        ok = ok && graft_tree_text(extra, "node_id", node[at].id) &&
             graft_tree_put(extra, "cycle_nodes", cJSON_Duplicate(ids, 1));
        if (!ok) {
            cJSON_Delete(extra);
            st = graft_fail_nomem(c->e, "the faults");
            goto out;
        }
        GRAFT_TRY(graft_check_fault(c, at, "dependency_cycle", "Dependency cycle detected",
                                    path.data, extra));
        at = onward(c->p, kept, at);
    } while (at != first);
out:
    graft_str_finish(&path);
    cJSON_Delete(ids);
    return st;
}

static graft_status check_cycles(graft_check *c, const struct behind *b)
{
    graft_prompt *p = c->p;
    graft_status st = GRAFT_OK;
    bool *kept = graft_calloc(p->count, sizeof *kept);
    size_t *work = graft_calloc(2 * p->count, sizeof *work), *walk = work;
    if (!kept || !work) {
        st = graft_fail_nomem(c->e, "a prompt");
        goto out;
    }
    for (size_t i = 0; i < p->count; i++) kept[i] = p->node[i].in;
    trim(p, b, kept, work, work + p->count, false);
    trim(p, b, kept, work, work + p->count, true);
    memset(walk, 0, p->count * sizeof *walk); /* the number of the walk that came by, from 1 */
    for (size_t i = 0; i < p->count; i++) {
        size_t at = i;
        if (!kept[i] || walk[i]) continue;
        for (; !walk[at]; at = onward(p, kept, at)) walk[at] = i + 1;
        if (walk[at] == i + 1) GRAFT_TRY(cycle_faults(c, kept, at));
    }
out:
    graft_free(kept);
    graft_free(work);
    return st;
}

static graft_status node_entry(graft_check *c, size_t node, cJSON *node_errors)
{
    const graft_prompt_node *n = &c->p->node[node];
    const cJSON *class_type = graft_tree_get(n->json, "class_type");
    cJSON *entry = cJSON_CreateObject();
    bool ok = entry && cJSON_AddItemToObject(entry, "errors", c->faults[node]);
    c->moved[node] = ok;
    c->dependent[node] = cJSON_AddArrayToObject(entry, "dependent_outputs");
    ok = ok && c->dependent[node] &&
         graft_tree_put(entry, "class_type",
                        class_type ? cJSON_Duplicate(class_type, 1) : cJSON_CreateNull());
    if (!ok) {
        cJSON_Delete(entry);
        entry = NULL;
    }
    return graft_tree_put(node_errors, n->id, entry) ? GRAFT_OK
                                                     : graft_fail_nomem(c->e, "the faults");
}

/* Marks what is at fault and all that is behind it. */
static void mark_bad(graft_check *c, const struct behind *b, size_t *stack)
{
    size_t depth = 0;
    for (size_t i = 0; i < c->p->count; i++) {
        if (!c->faults[i]) continue;
        c->bad[i] = true;
        stack[depth++] = i;
    }
    while (depth) {
        size_t at = stack[--depth];
        for (size_t k = b->first[at]; k < b->first[at + 1]; k++) {
            if (c->bad[b->to[k]]) continue;
            c->bad[b->to[k]] = true;
            stack[depth++] = b->to[k];
        }
    }
}

static size_t pay(size_t left, size_t cost)
{
    return cost < left ? left - cost : 0;
}

/* Notes `output` at each faulty node it needs. With many outputs and faults the lists would be as
 * long as one times the other, so they stop to grow when `left` is used up. */
static graft_status note_output(graft_check *c, size_t output, size_t *stack, size_t *seen,
                                size_t *left)
{
    const char *id = c->p->node[output].id;
    size_t depth = 0, cost = 64 + strlen(id);
    stack[depth++] = output;
    seen[output] = output + 1;
    while (depth && *left) {
        size_t at = stack[--depth];
        const graft_prompt_node *n = &c->p->node[at];
        if (c->faults[at]) {
            *left = pay(*left, cost);
            if (!graft_tree_push(c->dependent[at], cJSON_CreateString(id)))
                return graft_fail_nomem(c->e, "the faults");
        }
        *left = pay(*left, n->n_in);
        for (size_t k = 0; k < n->n_in; k++) {
            const graft_prompt_input *in = &n->in[k];
            if (!inner(in) || !c->bad[in->node] || seen[in->node] == output + 1) continue;
            seen[in->node] = output + 1;
            stack[depth++] = in->node;
        }
    }
    return GRAFT_OK;
}

/* "message: details" of the faults of the output nodes themselves. */
static cJSON *all_failed(const graft_check *c)
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
        error = graft_check_error("prompt_outputs_failed_validation",
                                  "Prompt outputs failed validation", s.data ? s.data : "",
                                  cJSON_CreateObject());
    graft_str_finish(&s);
    return error;
}

static graft_status collect(graft_check *c, const struct behind *b, graft_validation *out)
{
    graft_prompt *p = c->p;
    graft_status st = GRAFT_OK;
    size_t left = NOTES;
    size_t *work = graft_calloc(2 * p->count, sizeof *work);
    p->output = graft_malloc_array(p->count, sizeof *p->output);
    if (!work || !p->output) {
        st = graft_fail_nomem(c->e, "a prompt");
        goto out;
    }
    for (size_t i = 0; i < p->count; i++)
        if (c->faults[i]) GRAFT_TRY(node_entry(c, i, out->node_errors));
    mark_bad(c, b, work);
    for (size_t i = 0; i < p->count; i++) {
        if (!p->node[i].output) continue;
        if (c->bad[i])
            GRAFT_TRY(note_output(c, i, work, work + p->count, &left));
        else
            p->output[p->n_output++] = i;
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
static graft_status unknown_node(graft_check *c, size_t node, const char *class_type,
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
                 graft_tree_text(extra, "node_title", title_of(n->json, class_type)) &&
                 graft_hint_class(c, extra, class_type);
        if (!ok) {
            cJSON_Delete(extra);
            return graft_fail_nomem(c->e, "the faults");
        }
        const char *type = class_type ? "missing_node_type" : "invalid_prompt";
        if (i) {
            graft_status st = graft_check_fault(c, node, type, message, details, extra);
            if (st) return st;
        } else if (out->error) {
            cJSON_Delete(extra);
        } else if (!(out->error = graft_check_error(type, message, details, extra))) {
            return graft_fail_nomem(c->e, "the faults");
        }
    }
    return node_entry(c, node, out->node_errors);
}

/* Fills the table of nodes and looks up their classes. */
static graft_status look_up(graft_check *c, graft_validation *out)
{
    size_t n = 0;
    cJSON *first = cJSON_IsObject(c->p->json) ? c->p->json->child : NULL; /* as was counted */
    for (cJSON *json = first; json; json = json->next, n++) {
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

static size_t mark_outputs(graft_check *c, const char *const *target, size_t n_target)
{
    size_t n = 0;
    for (size_t k = 0; k < n_target; k++) {
        size_t at = graft_check_find(c, target[k]);
        if (at) c->p->node[at - 1].output = true;
    }
    for (size_t i = 0; i < c->p->count; i++) {
        graft_prompt_node *node = &c->p->node[i];
        /* Of two members with one name the last counts, as everywhere in JSON's habits. */
        bool last = graft_check_find(c, node->id) == i + 1, wanted = node->output;
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

static graft_status run_checks(graft_check *c, const char *const *target, size_t n_target,
                               graft_validation *out)
{
    graft_status st = look_up(c, out);
    if (st || out->error) return st;
    if (!mark_outputs(c, target, n_target) && !c->outer) {
        out->error = graft_check_error("prompt_no_outputs", "Prompt has no outputs", "",
                                       cJSON_CreateObject());
        return out->error ? GRAFT_OK : graft_fail_nomem(c->e, "the faults");
    }
    struct behind behind = {NULL, NULL};
    st = check_reached(c);
    if (!st) st = behind_init(&behind, c->p, c->e);
    if (!st) st = check_cycles(c, &behind);
    if (!st) st = collect(c, &behind, out);
    behind_finish(&behind);
    return st;
}

static graft_status validate(graft_check c, cJSON *json, const char *const *target, size_t n_target,
                             graft_validation *out)
{
    graft_err *e = c.e;
    memset(out, 0, sizeof *out);
    graft_status st = make_prompt(c.registry, json, &c.p, e);
    if (st) return st;
    out->node_errors = cJSON_CreateObject();
    c.faults = graft_calloc(c.p->count, sizeof *c.faults);
    c.bad = graft_calloc(c.p->count, sizeof *c.bad);
    c.moved = graft_calloc(c.p->count, sizeof *c.moved);
    c.dependent = graft_calloc(c.p->count, sizeof *c.dependent);
    if (out->node_errors && c.faults && c.bad && c.moved && c.dependent)
        st = run_checks(&c, target, n_target, out);
    else
        st = graft_fail_nomem(e, "a prompt");
    for (size_t i = 0; c.faults && i < c.p->count; i++)
        if (!c.moved || !c.moved[i]) cJSON_Delete(c.faults[i]);
    graft_free(c.faults);
    graft_free(c.bad);
    graft_free(c.moved);
    graft_free(c.dependent);
    graft_map_finish(&c.index);
    graft_offers_finish(&c.offers);
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
    const graft_check c = {.registry = r, .host = host, .e = e};
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
    graft_validation_text(v, "the expansion", NULL, &text);
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
    const graft_check c = {.registry = r, .host = host, .outer = outer, .e = e};
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
