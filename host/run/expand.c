#include "host/run/expand.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/tree.h"
#include "host/prompt/validate.h"

#define MAX_ID 16384 /* bytes: each expansion within an expansion makes ids longer */

void graft_expansion_finish(graft_expansion *x)
{
    graft_result_release(x->partial);
    cJSON_Delete(x->list);
    graft_free(x->hole);
    memset(x, 0, sizeof *x);
}

/* ---- what a call gave */

static graft_status add_hole(graft_expansion *x, const graft_hole *hole, graft_err *e)
{
    if (graft_grow(&x->hole, &x->cap_hole, x->n_hole + 1, sizeof *x->hole))
        return graft_fail_nomem(e, "an expansion");
    x->hole[x->n_hole++] = *hole;
    return GRAFT_OK;
}

static graft_status read_links(graft_expansion *x, const cJSON *links, size_t call,
                               const graft_result *r, bool *open, graft_err *e)
{
    if (!cJSON_IsArray(links) || (size_t)cJSON_GetArraySize(links) != r->n_out)
        return graft_fail(e, GRAFT_E_FORMAT, "the expansion's results are not %zu links or nulls",
                          r->n_out);
    const cJSON *link = links->child;
    for (size_t i = 0; i < r->n_out; i++, link = link->next) {
        const cJSON *id = cJSON_GetArrayItem(link, 0);
        int64_t slot;
        if (cJSON_IsNull(link)) continue;
        if (cJSON_GetArraySize(link) != 2 || !cJSON_IsString(id) ||
            !graft_json_i64(cJSON_GetArrayItem(link, 1), &slot) || slot < 0 || slot > INT32_MAX)
            return graft_fail(e, GRAFT_E_FORMAT, "result %zu of the expansion is not a link", i);
        const graft_hole hole = {i, r->slot[i].count, call, id->valuestring, (uint32_t)slot, 0};
        graft_status st = add_hole(x, &hole, e);
        if (st) return st;
        open[i] = true;
    }
    return GRAFT_OK;
}

graft_status graft_expansion_take(graft_expansion *x, graft_job *job, size_t call,
                                  const graft_result *r, bool *open, graft_err *e)
{
    memset(open, 0, r->n_out * sizeof *open);
    if (!job->part) return GRAFT_OK;
    if (!cJSON_IsObject(job->part))
        return graft_fail(e, GRAFT_E_FORMAT, "the expansion is not an object of nodes");
    cJSON *entry = cJSON_CreateObject(), *links = job->links;
    bool ok = graft_tree_put(entry, "call", cJSON_CreateNumber((double)call));
    ok = graft_tree_put(entry, "part", job->part) && ok;
    ok = graft_tree_put(entry, "links", job->links) && ok;
    job->part = job->links = NULL;
    if (!x->list) x->list = cJSON_CreateArray();
    if (!ok || !x->list || !cJSON_AddItemToArray(x->list, entry)) {
        cJSON_Delete(entry);
        return graft_fail_nomem(e, "an expansion");
    }
    return read_links(x, links, call, r, open, e);
}

/* ---- as a part of the run */

/* PARENT.CALL.0.ID; false when memory is short. */
static bool put_id(graft_str *s, const char *parent, size_t call, const char *id)
{
    s->len = 0;
    graft_str_printf(s, "%s.%zu.0.%s", parent, call, id);
    return !s->failed;
}

/* Links to nodes of the part follow their new names. */
static bool rename_links(cJSON *inputs, const cJSON *part, const char *parent, size_t call,
                         graft_str *s)
{
    cJSON *link;
    cJSON_ArrayForEach(link, inputs)
    {
        cJSON *id = cJSON_IsArray(link) ? link->child : NULL;
        if (!id || !cJSON_IsString(id) || !graft_tree_get(part, id->valuestring)) continue;
        if (!put_id(s, parent, call, id->valuestring)) return false;
        cJSON *name = cJSON_CreateString(s->data);
        if (!name) return false;
        cJSON_ReplaceItemViaPointer(link, id, name);
    }
    return true;
}

/* A copy of the part with ids that no other node has. NULL when memory is short. */
static cJSON *renamed(const cJSON *part, const char *parent, size_t call)
{
    graft_str s = GRAFT_STR_INIT;
    cJSON *out = cJSON_CreateObject();
    const cJSON *node;
    bool ok = out;
    cJSON_ArrayForEach(node, part)
    {
        cJSON *copy = ok ? cJSON_Duplicate(node, 1) : NULL;
        ok = copy && rename_links(graft_tree_get(copy, "inputs"), part, parent, call, &s) &&
             put_id(&s, parent, call, node->string);
        if (ok)
            ok = graft_tree_put(out, s.data, copy);
        else
            cJSON_Delete(copy);
        if (!ok) break;
    }
    graft_str_finish(&s);
    if (ok) return out;
    cJSON_Delete(out);
    return NULL;
}

static const graft_prompt_node *find_outer(const void *ctx, const char *id, size_t *number)
{
    const graft_agenda *a = ctx;
    *number = graft_agenda_find(a, id);
    return *number == GRAFT_AGENDA_NONE ? NULL : a->node[*number].n;
}

/* The new ids of the nodes from which results come: `wanted` gets owned texts, NULL for nodes that
 * are not of the part. */
static graft_status name_wanted(const graft_expansion *x, const cJSON *part, const char *parent,
                                size_t call, char **wanted, graft_err *e)
{
    for (size_t i = 0; i < x->n_hole; i++) {
        graft_str s = GRAFT_STR_INIT;
        if (x->hole[i].call != call || !graft_tree_get(part, x->hole[i].id)) continue;
        if (put_id(&s, parent, call, x->hole[i].id)) wanted[i] = graft_str_take(&s);
        graft_str_finish(&s);
        if (!wanted[i]) return graft_fail_nomem(e, "an expansion");
    }
    return GRAFT_OK;
}

static graft_status fill_holes(graft_expansion *x, const graft_agenda *a, size_t call,
                               char **wanted, graft_err *e)
{
    for (size_t i = 0; i < x->n_hole; i++) {
        graft_hole *hole = &x->hole[i];
        if (hole->call != call) continue;
        hole->node = graft_agenda_find(a, wanted[i] ? wanted[i] : hole->id);
        if (hole->node == GRAFT_AGENDA_NONE || hole->slot >= a->node[hole->node].n->n_out)
            return graft_fail(e, GRAFT_E_ARG,
                              "the expansion's result %zu is output %u of node %s, "
                              "which does not exist",
                              hole->output, hole->slot, hole->id);
    }
    return GRAFT_OK;
}

/* The part of one call. */
static graft_status add_part(graft_expansion *x, graft_agenda *a, size_t node, const cJSON *entry,
                             const graft_host *host, graft_err *e)
{
    graft_status st = GRAFT_OK;
    const cJSON *part = graft_tree_get(entry, "part");
    const char *parent = a->node[node].where.id;
    size_t call = (size_t)graft_json_int(entry, "call", 0), base = a->count, n = 0;
    char **wanted = graft_calloc(x->n_hole, sizeof *wanted);
    const char **names = graft_calloc(x->n_hole, sizeof *names);
    const graft_outer outer = {a, find_outer, base};
    graft_prompt *prompt = NULL;
    if (!wanted || !names) {
        st = graft_fail_nomem(e, "an expansion");
        goto out;
    }
    if (strlen(parent) > MAX_ID) {
        st = graft_fail(e, GRAFT_E_LIMIT,
                        "its id has more than %d characters: expansions lie too deep in one "
                        "another",
                        MAX_ID);
        goto out;
    }
    if (base + (size_t)cJSON_GetArraySize(part) > GRAFT_PROMPT_MAX_NODES) {
        st = graft_fail(e, GRAFT_E_LIMIT, "the run expands to more than %d nodes",
                        GRAFT_PROMPT_MAX_NODES);
        goto out;
    }
    GRAFT_TRY(name_wanted(x, part, parent, call, wanted, e));
    for (size_t i = 0; i < x->n_hole; i++)
        if (wanted[i]) names[n++] = wanted[i];
    cJSON *json = renamed(part, parent, call);
    if (!json) {
        st = graft_fail_nomem(e, "an expansion");
        goto out;
    }
    GRAFT_TRY(
        graft_validate_part(a->part[0].prompt->registry, host, json, names, n, &outer, &prompt, e));
    GRAFT_TRY(graft_agenda_add(a, prompt, node, e));
    GRAFT_TRY(fill_holes(x, a, call, wanted, e));
out:
    for (size_t i = 0; wanted && i < x->n_hole; i++) graft_free(wanted[i]);
    graft_free(wanted);
    graft_free(names);
    return st;
}

graft_status graft_expansion_add(graft_expansion *x, graft_agenda *a, const graft_host *host,
                                 size_t node, graft_err *e)
{
    const cJSON *entry;
    a->node[node].expanding = true;
    x->first_part = a->n_part;
    cJSON_ArrayForEach(entry, x->list)
    {
        graft_status st = add_part(x, a, node, entry, host, e);
        if (st) return st;
        x->n_part++;
    }
    return GRAFT_OK;
}

graft_status graft_expansion_follow(graft_expansion *x, graft_agenda *a, size_t node, graft_err *e)
{
    for (size_t i = x->first_part; i < x->first_part + x->n_part; i++) {
        const graft_prompt *p = a->part[i].prompt;
        for (size_t o = 0; o < p->n_output; o++)
            graft_agenda_stage(a, a->part[i].base + p->output[o]);
    }
    for (size_t i = 0; i < x->n_hole; i++) {
        graft_status st = graft_agenda_follow(a, node, x->hole[i].node, e);
        if (st) return st;
    }
    return GRAFT_OK;
}

/* ---- as a result */

static graft_status push_copies(graft_slot *to, const graft_slot *from, size_t first, size_t n,
                                graft_err *e)
{
    for (size_t i = first; i < first + n; i++) {
        graft_arg own;
        graft_status st = graft_arg_copy(&from->item[i], &own, e);
        if (!st) st = graft_slot_push(to, &own, e);
        if (st) return st;
    }
    return GRAFT_OK;
}

static graft_status fill_slot(const graft_expansion *x, const graft_agenda *a, size_t i,
                              graft_slot *to, graft_err *e)
{
    const graft_slot *own = &x->partial->slot[i];
    size_t used = 0;
    graft_status st = GRAFT_OK;
    for (size_t h = 0; !st && h < x->n_hole; h++) {
        const graft_hole *hole = &x->hole[h];
        if (hole->output != i) continue;
        const graft_slot *from = &a->node[hole->node].result->slot[hole->slot];
        st = push_copies(to, own, used, hole->at - used, e);
        if (!st) st = push_copies(to, from, 0, from->count, e);
        used = hole->at;
    }
    return st ? st : push_copies(to, own, used, own->count - used, e);
}

graft_status graft_expansion_result(graft_expansion *x, const graft_agenda *a, graft_result **out,
                                    graft_err *e)
{
    graft_result *r = graft_result_create(x->partial->n_out);
    *out = NULL;
    if (!r) return graft_fail_nomem(e, "an expansion");
    for (size_t i = 0; i < r->n_out; i++) {
        graft_status st = fill_slot(x, a, i, &r->slot[i], e);
        if (!st) continue;
        graft_result_release(r);
        return st;
    }
    r->ui = x->partial->ui;
    r->warnings = x->partial->warnings;
    x->partial->ui = x->partial->warnings = NULL;
    *out = r;
    return GRAFT_OK;
}
