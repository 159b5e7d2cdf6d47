#include "host/run/executor.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "host/run/async.h"
#include "base/tree.h"

#define SHOWN_VALUES 1000 /* of an input of a node that failed */

struct instance {
    char *id; /* of the node in the prompt */
    const graft_node *node;
    void *self;
    bool used; /* by the present run */
};

struct graft_executor {
    const graft_host *host;
    bool keep;
    size_t recent; /* results beyond those of the last run */
    graft_cache cache;
    struct instance *instance;
    size_t n_instance, cap_instance;
};

struct run {
    graft_executor *x;
    const graft_run_request *rq;
    const graft_events *ev;
    graft_agenda agenda;
    graft_async async;
    graft_async_call **expanding; /* by node: what waits for the nodes that it expanded into */
    size_t n_expanding, cap_expanding;
    char *prompt_text, *pnginfo_text;
    cJSON *executed;
    graft_run_result *out;
};

graft_status graft_executor_create(const graft_host *host, bool keep, graft_executor **out,
                                   graft_err *e)
{
    *out = graft_calloc(1, sizeof **out);
    if (!*out) return graft_fail_nomem(e, "an executor");
    (*out)->host = host;
    (*out)->keep = keep;
    return GRAFT_OK;
}

void graft_executor_keep_recent(graft_executor *x, size_t n)
{
    x->recent = n;
}

static void drop_instances(graft_executor *x, bool all)
{
    size_t kept = 0;
    for (size_t i = 0; i < x->n_instance; i++) {
        struct instance *in = &x->instance[i];
        if (!all && in->used) {
            x->instance[kept++] = *in;
            continue;
        }
        if (in->node->destroy) in->node->destroy(in->self);
        graft_free(in->id);
    }
    x->n_instance = kept;
}

void graft_executor_clear(graft_executor *x)
{
    graft_cache_finish(&x->cache);
    drop_instances(x, true);
}

void graft_executor_destroy(graft_executor *x)
{
    if (!x) return;
    graft_executor_clear(x);
    graft_free(x->instance);
    graft_free(x);
}

void graft_run_result_finish(graft_run_result *r)
{
    cJSON_Delete(r->outputs);
    cJSON_Delete(r->meta);
    memset(r, 0, sizeof *r);
}

static graft_status instance_of(graft_executor *x, const graft_prompt_node *n, void **self,
                                graft_err *e)
{
    const graft_node *node = n->entry->node;
    for (size_t i = 0; i < x->n_instance; i++)
        if (x->instance[i].node == node && strcmp(x->instance[i].id, n->id) == 0) {
            x->instance[i].used = true;
            *self = x->instance[i].self;
            return GRAFT_OK;
        }
    struct instance fresh = {graft_strdup(n->id), node, NULL, true};
    if (!fresh.id ||
        graft_grow(&x->instance, &x->cap_instance, x->n_instance + 1, sizeof *x->instance)) {
        graft_free(fresh.id);
        return graft_fail_nomem(e, "a node");
    }
    graft_status st = node->create ? node->create(x->host, &fresh.self) : GRAFT_OK;
    if (st) {
        graft_free(fresh.id);
        return graft_fail(e, st, "the node could not be created: %s", graft_status_text(st));
    }
    x->instance[x->n_instance++] = fresh;
    *self = fresh.self;
    return GRAFT_OK;
}

/* ---- telling */

static graft_status no_memory(graft_err *e)
{
    return graft_fail_nomem(e, "a run");
}

/* Notes where a node came from when it is none of the prompt's. */
static bool note_meta(cJSON *meta, const graft_where *w)
{
    if (!w->parent || graft_tree_get(meta, w->id)) return true;
    cJSON *entry = cJSON_CreateObject();
    bool ok = graft_tree_text(entry, "display_node", w->display) &&
              graft_tree_text(entry, "parent_node", w->parent) &&
              graft_tree_text(entry, "real_node_id", w->real);
    if (ok) return graft_tree_put(meta, w->id, entry);
    cJSON_Delete(entry);
    return false;
}

/* Shows a node's ui, from this run or an earlier one. */
static graft_status show(struct run *r, size_t node, const cJSON *ui, bool cached, graft_err *e)
{
    const graft_where w = r->agenda.node[node].where;
    if (ui && (!graft_tree_put(r->out->outputs, w.id, cJSON_Duplicate(ui, 1)) ||
               !note_meta(r->out->meta, &w)))
        return graft_fail_nomem(e, "the outputs");
    if (r->ev->node_done && (ui || !cached)) r->ev->node_done(r->ev->ctx, &w, ui, cached);
    return GRAFT_OK;
}

/* An object is shown by its type. */
static cJSON *shown_value(const graft_input *in, const graft_arg *a)
{
    if (a->kind == GRAFT_OBJECT) return cJSON_CreateString(a->u.v->ops->type);
    return graft_literal_json(in, a);
}

/* The values of an input: of a link all that came along it, up to a limit. */
static cJSON *values_of(const graft_agenda *a, const graft_prompt_node *n, size_t input)
{
    const graft_prompt_input *in = &n->in[input];
    const graft_result *from = in->linked ? a->node[in->node].result : NULL;
    cJSON *list = cJSON_CreateArray();
    bool ok = list;
    if (!in->linked) ok = graft_tree_push(list, shown_value(n->inputs[input], &in->literal.value));
    for (size_t i = 0; ok && from && i < from->slot[in->slot].count && i < SHOWN_VALUES; i++)
        ok = graft_tree_push(list, shown_value(n->inputs[input], &from->slot[in->slot].item[i]));
    if (ok) return list;
    cJSON_Delete(list);
    return NULL;
}

/* The inputs that a failed node had, for clients that show them. NULL when memory is short. */
static cJSON *inputs_of(const graft_agenda *a, const graft_prompt_node *n)
{
    cJSON *all = cJSON_CreateObject();
    for (size_t i = 0; i < n->n_in; i++) {
        if (graft_tree_put(all, n->inputs[i]->name, values_of(a, n, i))) continue;
        cJSON_Delete(all);
        return NULL;
    }
    return all;
}

/* Clients know the nodes of the prompt only, so a failure is told as that of the node from which
 * the failed one came. */
static graft_status report(struct run *r, size_t node, const char *input, graft_status st,
                           graft_err *e)
{
    graft_err plain = *e;
    const graft_agenda_node *at = node == GRAFT_AGENDA_NONE ? NULL : &r->agenda.node[node];
    const graft_prompt_node *n = at ? at->n : NULL, *real = n;
    if (at && at->parent != GRAFT_AGENDA_NONE)
        real = r->agenda.node[graft_agenda_find(&r->agenda, at->where.real)].n;
    cJSON *inputs = n ? inputs_of(&r->agenda, n) : NULL;
    graft_run_error error = {st,    real ? real->id : "", real ? real->entry->node->id : "",
                             input, plain.text,           r->executed,
                             inputs};
    if (r->rq->cancel && atomic_load(r->rq->cancel)) error.code = GRAFT_E_CANCEL;
    if (error.code == GRAFT_E_CANCEL) {
        graft_fail(e, GRAFT_E_CANCEL, "interrupted");
    } else if (n) {
        /* Ids may be long; the reason comes last and must not be cut off. */
        graft_err_prefix(e, st, "node %.100s (%s)%s%s", n->id, n->entry->node->id,
                         *input ? ", input " : "", input);
        if (n != real) graft_err_prefix(e, st, "node %.100s (%s)", real->id, real->entry->node->id);
    }
    if (r->ev->error) r->ev->error(r->ev->ctx, &error);
    cJSON_Delete(inputs);
    return error.code;
}

static void tell_blocked(struct run *r, const graft_async_call *t)
{
    const graft_prompt_node *n = t->call.node;
    const graft_run_error why = {GRAFT_OK,    t->where.real, n->entry->node->id, "", t->call.block,
                                 r->executed, NULL};
    if (r->ev->blocked)
        r->ev->blocked(r->ev->ctx, &why);
    else if (r->ev->log)
        r->ev->log(r->ev->ctx, &t->where, GRAFT_LOG_WARN, t->call.block);
}

/* ---- results of earlier runs */

static const graft_cache_key *key_of(const void *agenda, size_t node)
{
    return &((const graft_agenda *)agenda)->node[node].key;
}

/* Takes what the cache has for the nodes that were added last, and notes their ids. */
static size_t use_cache(struct run *r, size_t first, const char **ids)
{
    graft_agenda *a = &r->agenda;
    size_t n = 0;
    for (size_t i = first; r->x->keep && i < a->n_order; i++) {
        graft_agenda_node *at = &a->node[a->order[i]];
        at->key = graft_cache_key_of(r->x->host, at->n, key_of, a);
        graft_result *hit = graft_cache_get(&r->x->cache, &at->key);
        if (!hit) continue;
        graft_result_retain(hit);
        graft_agenda_cached(a, a->order[i], hit);
        if (ids) ids[n] = at->n->id;
        n++;
    }
    r->out->cached += n;
    return n;
}

static void warn_again(const struct run *r, const graft_agenda_node *at)
{
    const cJSON *text;
    if (!r->ev->warning) return;
    cJSON_ArrayForEach(text, at->result->warnings)
        r->ev->warning(r->ev->ctx, &at->where, text->valuestring);
}

static graft_status show_cached(struct run *r, size_t first, graft_err *e)
{
    const graft_agenda *a = &r->agenda;
    graft_status st = GRAFT_OK;
    for (size_t i = first; i < a->n_order && !st; i++) {
        const graft_agenda_node *at = &a->node[a->order[i]];
        if (!at->cached) continue;
        warn_again(r, at);
        if (at->result->ui) st = show(r, a->order[i], at->result->ui, true, e);
    }
    return st;
}

static graft_status begin_cached(struct run *r, graft_err *e)
{
    const char **ids = graft_malloc_array(r->agenda.n_order, sizeof *ids);
    if (!ids) return no_memory(e);
    size_t n = use_cache(r, 0, ids);
    if (r->ev->cached) r->ev->cached(r->ev->ctx, ids, n);
    graft_free(ids);
    return show_cached(r, 0, e);
}

/* Keeps what this run had or made, what its nodes expanded into when they were computed, and as
 * much of earlier runs as is wanted. */
static void keep_used(struct run *r)
{
    graft_cache kept = {GRAFT_MAP_INIT, r->x->cache.clock};
    for (size_t i = 0; i < r->agenda.n_order; i++)
        graft_cache_keep(&r->x->cache, &kept, &r->agenda.node[r->agenda.order[i]].key);
    graft_cache_keep_recent(&r->x->cache, &kept, r->x->recent);
    graft_cache_finish(&r->x->cache);
    r->x->cache = kept;
}

/* ---- running */

/* True when the node asked for lazy inputs and waits again. */
static graft_status ask_lazy(struct run *r, graft_dispatch *call, size_t node, bool *waits,
                             graft_err *e)
{
    const graft_prompt_node *n = call->node;
    const bool *active = r->agenda.node[node].active;
    uint64_t needed;
    bool any = false;
    *waits = false;
    for (size_t k = 0; k < n->n_in; k++) any |= n->in[k].linked && !active[k];
    if (!any) return GRAFT_OK;
    graft_status st = graft_dispatch_lazy(call, &needed, e);
    if (st) return st;
    for (size_t k = 0; k < n->n_in && k < 64; k++) {
        if (!(needed >> k & 1) || !n->in[k].linked || active[k]) continue;
        graft_agenda_want(&r->agenda, node, k);
        *waits = true;
    }
    return GRAFT_OK;
}

/* What the node computed is all there; takes the result. */
static graft_status settle(struct run *r, size_t node, graft_result *result, graft_err *e)
{
    const graft_agenda_node *at = &r->agenda.node[node];
    graft_status st = GRAFT_OK;
    r->out->ran++;
    if (!graft_tree_push(r->executed, cJSON_CreateString(at->n->id))) st = no_memory(e);
    if (!st) st = show(r, node, result->ui, false, e);
    if (r->x->keep) graft_cache_put(&r->x->cache, &at->key, result);
    graft_agenda_done(&r->agenda, node, result);
    return st;
}

/* Notes under which keys the cache has what `node` expanded into. */
static graft_status note_inner(const graft_agenda *a, size_t node, graft_result *result,
                               graft_err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_order; i++) n += a->node[a->order[i]].parent == node;
    result->inner = graft_malloc_array(n, sizeof *result->inner);
    if (!result->inner) return no_memory(e);
    for (size_t i = 0; i < a->n_order; i++) {
        const graft_agenda_node *at = &a->node[a->order[i]];
        if (at->parent == node && at->key.usable) result->inner[result->n_inner++] = at->key.hash;
    }
    return GRAFT_OK;
}

/* Makes the nodes that came in place of values a part of the run; `t` waits for them. */
static graft_status expand(struct run *r, graft_async_call *t, graft_err *e)
{
    graft_agenda *a = &r->agenda;
    size_t first = a->n_order, node = t->node;
    graft_status st = GRAFT_OK;
    if (graft_grow(&r->expanding, &r->cap_expanding, r->n_expanding + 1, sizeof *r->expanding)) {
        graft_async_call_destroy(t);
        return no_memory(e);
    }
    r->expanding[r->n_expanding++] = t;
    GRAFT_TRY(graft_expansion_add(&t->call.expansion, a, r->x->host, node, e));
    use_cache(r, first, NULL);
    GRAFT_TRY(show_cached(r, first, e));
    GRAFT_TRY(graft_expansion_follow(&t->call.expansion, a, node, e));
out:
    return st;
}

/* All that a node expanded into is there. */
static graft_status collapse(struct run *r, size_t node, graft_err *e)
{
    graft_result *result = NULL;
    size_t i = 0;
    while (r->expanding[i]->node != node) i++;
    graft_async_call *t = r->expanding[i];
    r->expanding[i] = r->expanding[--r->n_expanding];
    graft_status st = graft_expansion_result(&t->call.expansion, &r->agenda, &result, e);
    graft_async_call_destroy(t);
    if (!st) st = note_inner(&r->agenda, node, result, e);
    if (st)
        graft_result_release(result);
    else
        st = settle(r, node, result, e);
    return st ? report(r, node, "", st, e) : GRAFT_OK;
}

/* What came of a task, which it takes. */
static graft_status complete(struct run *r, graft_async_call *t, graft_err *e)
{
    size_t node = t->node;
    graft_status st = t->st;
    char input[sizeof t->call.input];
    snprintf(input, sizeof input, "%s", t->call.input);
    r->agenda.node[node].running = false;
    if (!st && t->call.block[0]) tell_blocked(r, t);
    if (st)
        *e = t->e;
    else if (t->call.expansion.list) {
        st = expand(r, t, e);
        t = NULL;
    } else {
        st = settle(r, node, t->result, e);
        t->result = NULL;
    }
    graft_async_call_destroy(t);
    return st ? report(r, node, input, st, e) : GRAFT_OK;
}

static void fill_job(const struct run *r, graft_async_call *t)
{
    const graft_prompt_node *n = t->call.node;
    graft_job *job = &t->job;
    job->where = &t->where;
    job->agenda = (graft_agenda *)(uintptr_t)&r->agenda;
    job->prompt = r->prompt_text;
    job->extra_pnginfo = r->pnginfo_text;
    job->events = r->ev;
    job->cancel = r->rq->cancel;
    job->prepare_only = r->rq->prepare_only;
    job->may_expand = n->entry->node->flags & GRAFT_NODE_EXPANDS;
    job->n_dynamic = n->n_in - n->n_declared;
    if (job->n_dynamic) job->dynamic = n->inputs + n->n_declared;
}

static graft_status run_node(struct run *r, size_t node, graft_err *e)
{
    bool waits;
    graft_status st = GRAFT_OK;
    graft_async_call *t = graft_async_call_create(&r->agenda, node);
    if (!t) {
        st = no_memory(e);
        return report(r, node, "", st, e);
    }
    const graft_prompt_node *n = t->call.node;
    fill_job(r, t);
    t->call.host = r->x->host;
    if (n->entry->node->flags & GRAFT_NODE_ASYNC) t->call.helpers = &r->async.helpers;
    st = instance_of(r->x, n, &t->call.self, e);
    if (!st) st = ask_lazy(r, &t->call, node, &waits, e);
    if (st || waits) {
        if (!st && r->ev->node_asked) r->ev->node_asked(r->ev->ctx, &t->where);
        if (st) st = report(r, node, t->call.input, st, e);
        graft_async_call_destroy(t);
        return st;
    }
    if (r->ev->node_start) r->ev->node_start(r->ev->ctx, &t->where, n->entry->node, n->title);
    r->agenda.node[node].running = true;
    if ((n->entry->node->flags & GRAFT_NODE_ASYNC) && graft_async_start(&r->async, t))
        return GRAFT_OK;
    graft_async_call_run(t);
    return complete(r, t, e);
}

/* Nothing is ready. False: nothing runs, either. */
static graft_status wait_for_one(struct run *r, bool *more, graft_err *e)
{
    graft_async_call *t = graft_async_take(&r->async, true);
    *more = t;
    if (t) return complete(r, t, e);
    if (!graft_agenda_open(&r->agenda)) return GRAFT_OK;
    graft_status st = graft_fail(e, GRAFT_E_ARG, "Dependency cycle detected");
    return report(r, graft_agenda_circle(&r->agenda), "", st, e);
}

static graft_status run_all(struct run *r, graft_err *e)
{
    graft_agenda *a = &r->agenda;
    graft_status st = begin_cached(r, e);
    bool more = true;
    if (st) return report(r, GRAFT_AGENDA_NONE, "", st, e);
    for (size_t i = 0; i < r->rq->prompt->n_output; i++)
        graft_agenda_stage(a, r->rq->prompt->output[i]);
    while (more && !st) {
        graft_async_call *t = graft_async_take(&r->async, false);
        size_t node = t ? GRAFT_AGENDA_NONE : graft_agenda_next(a);
        if (t)
            st = complete(r, t, e);
        else if (node == GRAFT_AGENDA_NONE)
            st = wait_for_one(r, &more, e);
        else if (a->node[node].expanding)
            st = collapse(r, node, e);
        else if (r->rq->cancel && atomic_load(r->rq->cancel)) {
            st = graft_fail(e, GRAFT_E_CANCEL, "interrupted");
            st = report(r, node, "", st, e);
        } else {
            st = run_node(r, node, e);
        }
    }
    return st;
}

static graft_status run_init(struct run *r, graft_err *e)
{
    graft_agenda_init(&r->agenda);
    graft_async_init(&r->async);
    r->agenda.keep = r->x->keep;
    r->executed = cJSON_CreateArray();
    r->out->outputs = cJSON_CreateObject();
    r->out->meta = cJSON_CreateObject();
    r->prompt_text = graft_json_print(r->rq->prompt->json);
    if (r->rq->extra_pnginfo) r->pnginfo_text = graft_json_print(r->rq->extra_pnginfo);
    if (!r->executed || !r->out->outputs || !r->out->meta || !r->prompt_text ||
        (r->rq->extra_pnginfo && !r->pnginfo_text))
        return no_memory(e);
    return graft_agenda_add(&r->agenda, r->rq->prompt, GRAFT_AGENDA_NONE, e);
}

/* What still runs ends first: it may use all the rest. */
static void run_finish(struct run *r)
{
    graft_async_finish(&r->async);
    for (size_t i = 0; i < r->n_expanding; i++) graft_async_call_destroy(r->expanding[i]);
    graft_free(r->expanding);
    graft_agenda_finish(&r->agenda);
    graft_free(r->prompt_text);
    graft_free(r->pnginfo_text);
    cJSON_Delete(r->executed);
}

/* Instances of nodes that this prompt no longer has are destroyed after the run. */
static void mark_instances(graft_executor *x, const graft_prompt *p)
{
    for (size_t i = 0; i < x->n_instance; i++) {
        struct instance *in = &x->instance[i];
        in->used = false;
        for (size_t k = 0; k < p->count && !in->used; k++)
            in->used = p->node[k].entry->node == in->node && strcmp(p->node[k].id, in->id) == 0;
    }
}

graft_status graft_executor_run(graft_executor *x, const graft_run_request *request,
                                graft_run_result *out, graft_err *e)
{
    static const graft_events nobody = {0};
    graft_err own = GRAFT_ERR_INIT;
    struct run r = {
        .x = x, .rq = request, .ev = request->events ? request->events : &nobody, .out = out};
    if (!e) e = &own;
    memset(out, 0, sizeof *out);
    mark_instances(x, request->prompt);
    graft_status st = run_init(&r, e);
    if (st) {
        st = report(&r, GRAFT_AGENDA_NONE, "", st, e);
    } else {
        if (r.ev->start) r.ev->start(r.ev->ctx, r.agenda.n_order);
        st = run_all(&r, e);
        if (x->keep) keep_used(&r);
        /* Who was told that it will stop must not hear that it succeeded. */
        if (!st && request->cancel && atomic_load(request->cancel))
            st = report(&r, GRAFT_AGENDA_NONE, "", graft_fail(e, GRAFT_E_CANCEL, "interrupted"), e);
        if (!st && r.ev->success) r.ev->success(r.ev->ctx);
    }
    run_finish(&r);
    drop_instances(x, !x->keep);
    return st;
}
