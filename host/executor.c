#include "host/executor.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "host/cache.h"
#include "host/call.h"
#include "host/tree.h"

struct instance {
    char *id; /* of the node in the prompt */
    const graft_node *node;
    void *self;
    bool used; /* by the present run */
};

struct graft_executor {
    const graft_host *host;
    bool keep;
    graft_cache cache;
    struct instance *instance;
    size_t n_instance, cap_instance;
};

/* One node of the present run. */
struct state {
    graft_result *result; /* NULL until done, and after the last consumer */
    size_t blocked;       /* active links whose origin is not done */
    size_t consumers;     /* links that may still want the result */
    size_t first_edge;    /* into run.edge: links that start here */
    size_t n_edge;
    bool staged, done, cached;
    bool *active; /* per input: the link counts in `blocked` */
    int hops;     /* links to the nearest output node, 3: three or more */
};
struct edge {
    size_t consumer, input;
};
struct run {
    graft_executor *x;
    const graft_run_request *rq;
    const graft_events *ev;
    const graft_prompt *p;
    struct state *node;
    graft_result **result; /* borrowed view of node[].result for calls */
    bool *active;          /* backs state.active */
    struct edge *edge;
    graft_cache_key *key;
    size_t *order, n_order; /* every node that may run, origins first */
    size_t *stack;
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

/* Origins before consumers, by depth-first search from the outputs without recursion: a node is on
 * the stack as 2*i to be opened and 2*i+1 to be closed. */
static graft_status find_order(struct run *r, graft_err *e)
{
    const graft_prompt *p = r->p;
    size_t depth = 0, cap = 0, *stack = NULL;
    graft_status st = GRAFT_OK;
    for (size_t o = p->n_output; o-- > 0 && !st;)
        if (graft_grow(&stack, &cap, depth + 1, sizeof *stack))
            st = graft_fail_nomem(e, "a run");
        else
            stack[depth++] = 2 * p->output[o];
    while (depth && !st) {
        size_t top = stack[--depth], i = top / 2;
        if (top & 1) {
            r->order[r->n_order++] = i;
            continue;
        }
        if (r->node[i].staged) continue;
        r->node[i].staged = true;
        const graft_prompt_node *n = &p->node[i];
        if (graft_grow(&stack, &cap, depth + n->n_in + 1, sizeof *stack)) {
            st = graft_fail_nomem(e, "a run");
            break;
        }
        stack[depth++] = top + 1;
        for (size_t k = n->n_in; k-- > 0;)
            if (n->in[k].linked && !r->node[n->in[k].node].staged)
                stack[depth++] = 2 * n->in[k].node;
    }
    graft_free(stack);
    for (size_t i = 0; i < p->count; i++) r->node[i].staged = false;
    return st;
}

/* Lists the links by origin, and counts how far each node is from an output. */
static graft_status find_edges(struct run *r, graft_err *e)
{
    const graft_prompt *p = r->p;
    size_t total = 0, inputs = 0;
    for (size_t i = 0; i < r->n_order; i++) {
        const graft_prompt_node *n = &p->node[r->order[i]];
        inputs += n->n_in;
        for (size_t k = 0; k < n->n_in; k++)
            if (n->in[k].linked) r->node[n->in[k].node].consumers++;
    }
    r->active = graft_calloc(inputs, sizeof *r->active);
    for (size_t i = 0; i < p->count; i++) {
        r->node[i].first_edge = total;
        total += r->node[i].n_edge = r->node[i].consumers;
        r->node[i].consumers = 0;
        r->node[i].hops = 3;
    }
    r->edge = graft_malloc_array(total, sizeof *r->edge);
    if (!r->edge || !r->active) return graft_fail_nomem(e, "a run");
    inputs = 0;
    for (size_t i = 0; i < p->n_output; i++) r->node[p->output[i]].hops = 0;
    for (size_t i = r->n_order; i-- > 0;) {
        size_t at = r->order[i];
        const graft_prompt_node *n = &p->node[at];
        r->node[at].active = r->active + inputs;
        inputs += n->n_in;
        for (size_t k = 0; k < n->n_in; k++) {
            if (!n->in[k].linked) continue;
            struct state *origin = &r->node[n->in[k].node];
            r->edge[origin->first_edge + origin->consumers++] = (struct edge){at, k};
            if (origin->hops > r->node[at].hops + 1) origin->hops = r->node[at].hops + 1;
        }
    }
    return GRAFT_OK;
}

static bool is_lazy(const graft_prompt_node *n, size_t input)
{
    return input < 64 && (n->inputs[input]->flags & GRAFT_INPUT_LAZY) &&
           graft_schema_table(n->entry->node, GRAFT_LAZY_ID);
}

/* Marks a node and everything it needs as to be computed. Each node is pushed once. */
static void stage(struct run *r, size_t node)
{
    size_t depth = 0;
    if (r->node[node].staged) return;
    r->node[node].staged = true;
    r->stack[depth++] = node;
    while (depth) {
        size_t at = r->stack[--depth];
        struct state *s = &r->node[at];
        const graft_prompt_node *n = &r->p->node[at];
        if (s->done) continue;
        for (size_t k = 0; k < n->n_in; k++) {
            if (!n->in[k].linked || is_lazy(n, k)) continue;
            struct state *origin = &r->node[n->in[k].node];
            s->active[k] = true;
            if (!origin->done) s->blocked++;
            if (origin->staged) continue;
            origin->staged = true;
            r->stack[depth++] = n->in[k].node;
        }
    }
}

static void set_result(struct run *r, size_t node, graft_result *result)
{
    r->node[node].result = result;
    r->result[node] = result;
}

/* One consumer less; without a cache the last one takes the values with it. */
static void consumed(struct run *r, size_t node)
{
    struct state *s = &r->node[node];
    s->consumers--;
    if (s->consumers || r->x->keep || !s->result) return;
    graft_result_release(s->result);
    set_result(r, node, NULL);
}

static void finish_node(struct run *r, size_t node, graft_result *result)
{
    struct state *s = &r->node[node];
    const graft_prompt_node *n = &r->p->node[node];
    s->done = true;
    set_result(r, node, result);
    for (size_t i = 0; i < s->n_edge; i++) {
        const struct edge *edge = &r->edge[s->first_edge + i];
        if (r->node[edge->consumer].active[edge->input]) r->node[edge->consumer].blocked--;
    }
    for (size_t k = 0; k < n->n_in; k++)
        if (n->in[k].linked) consumed(r, n->in[k].node);
    if (!s->consumers && !r->x->keep) {
        graft_result_release(result);
        set_result(r, node, NULL);
    }
}

/* Shows a node's ui, from this run or an earlier one. */
static graft_status show(struct run *r, size_t node, const cJSON *ui, bool cached, graft_err *e)
{
    const char *id = r->p->node[node].id;
    if (ui && !graft_tree_put(r->out->outputs, id, cJSON_Duplicate(ui, 1)))
        return graft_fail_nomem(e, "the outputs");
    if (r->ev->node_done && (ui || !cached)) r->ev->node_done(r->ev->ctx, id, ui, cached);
    return GRAFT_OK;
}

/* Takes what the cache has, and tells which. */
static graft_status use_cache(struct run *r, graft_err *e)
{
    size_t n = 0;
    const char **ids = graft_malloc_array(r->n_order, sizeof *ids);
    if (!ids) return graft_fail_nomem(e, "a run");
    if (r->x->keep) graft_cache_keys(r->x->host, r->p, r->order, r->n_order, r->key);
    for (size_t i = 0; i < r->n_order; i++) {
        size_t at = r->order[i];
        graft_result *hit = graft_cache_get(&r->x->cache, &r->key[at]);
        if (!hit) continue;
        graft_result_retain(hit);
        set_result(r, at, hit);
        r->node[at].done = r->node[at].cached = true;
        ids[n++] = r->p->node[at].id;
    }
    r->out->cached = n;
    if (r->ev->cached) r->ev->cached(r->ev->ctx, ids, n);
    graft_free(ids);
    for (size_t i = 0; i < r->n_order; i++) {
        const struct state *s = &r->node[r->order[i]];
        if (!s->cached || !s->result->ui) continue;
        graft_status st = show(r, r->order[i], s->result->ui, true, e);
        if (st) return st;
    }
    return GRAFT_OK;
}

/* The inputs that a failed node had, for clients that show them. NULL when memory is short. */
static cJSON *inputs_of(const graft_prompt_node *n)
{
    cJSON *all = cJSON_CreateObject();
    for (size_t i = 0; i < n->n_in; i++) {
        const graft_input *in = n->inputs[i];
        cJSON *list = cJSON_CreateArray();
        bool ok = graft_tree_push(list, n->in[i].linked
                                            ? cJSON_CreateString(in->type)
                                            : graft_literal_json(in, &n->in[i].literal.value));
        if (graft_tree_put(all, in->name, list) && ok) continue;
        cJSON_Delete(all);
        return NULL;
    }
    return all;
}

static graft_status report(struct run *r, const graft_prompt_node *n, const char *input,
                           graft_status st, graft_err *e)
{
    graft_err plain = *e;
    cJSON *inputs = n ? inputs_of(n) : NULL;
    graft_run_error error = {
        st, n ? n->id : "", n ? n->entry->node->id : "", input, plain.text, r->executed, inputs};
    if (r->rq->cancel && atomic_load(r->rq->cancel)) error.code = GRAFT_E_CANCEL;
    if (error.code == GRAFT_E_CANCEL)
        graft_fail(e, GRAFT_E_CANCEL, "interrupted");
    else if (n && *input)
        graft_err_prefix(e, st, "node %s (%s), input %s", n->id, n->entry->node->id, input);
    else if (n)
        graft_err_prefix(e, st, "node %s (%s)", n->id, n->entry->node->id);
    if (r->ev->error) r->ev->error(r->ev->ctx, &error);
    cJSON_Delete(inputs);
    return error.code;
}

/* True when the node asked for lazy inputs and waits again. */
static graft_status ask_lazy(struct run *r, graft_call *call, size_t node, bool *waits,
                             graft_err *e)
{
    const graft_prompt_node *n = &r->p->node[node];
    struct state *s = &r->node[node];
    uint64_t needed;
    bool any = false;
    *waits = false;
    for (size_t k = 0; k < n->n_in; k++) any |= n->in[k].linked && !s->active[k];
    if (!any) return GRAFT_OK;
    graft_status st = graft_call_lazy(call, &needed, e);
    if (st) return st;
    for (size_t k = 0; k < n->n_in && k < 64; k++) {
        if (!(needed >> k & 1) || !n->in[k].linked || s->active[k]) continue;
        s->active[k] = true;
        stage(r, n->in[k].node);
        if (!r->node[n->in[k].node].done) s->blocked++;
        *waits = true;
    }
    return GRAFT_OK;
}

static void tell_blocked(struct run *r, const graft_prompt_node *n, const char *text)
{
    cJSON *inputs = inputs_of(n);
    const graft_run_error why = {GRAFT_OK,    n->id, n->entry->node->id, "", text,
                                 r->executed, inputs};
    if (r->ev->blocked)
        r->ev->blocked(r->ev->ctx, &why);
    else if (r->ev->log)
        r->ev->log(r->ev->ctx, n->id, GRAFT_LOG_WARN, text);
    cJSON_Delete(inputs);
}

static graft_status run_node(struct run *r, size_t node, graft_err *e)
{
    const graft_prompt_node *n = &r->p->node[node];
    graft_result *result = NULL;
    graft_job job;
    graft_call call = {r->x->host, n, NULL, r->result, &job, "", ""};
    bool waits;
    graft_job_init(&job);
    job.node_id = n->id;
    job.prompt = r->prompt_text;
    job.extra_pnginfo = r->pnginfo_text;
    job.events = r->ev;
    job.cancel = r->rq->cancel;
    job.prepare_only = r->rq->prepare_only;
    job.n_dynamic = n->n_in - n->n_declared;
    if (job.n_dynamic) job.dynamic = n->inputs + n->n_declared;
    graft_status st = instance_of(r->x, n, &call.self, e);
    if (st) goto out;
    GRAFT_TRY(ask_lazy(r, &call, node, &waits, e));
    if (waits) goto out;
    if (r->ev->node_start) r->ev->node_start(r->ev->ctx, n->id, n->entry->node, n->title);
    GRAFT_TRY(graft_call_run(&call, &result, e));
    if (call.block[0]) tell_blocked(r, n, call.block);
    r->out->ran++;
    if (!graft_tree_push(r->executed, cJSON_CreateString(n->id))) st = graft_fail_nomem(e, "a run");
    if (!st) st = show(r, node, result->ui, false, e);
    if (r->x->keep) graft_cache_put(&r->x->cache, &r->key[node], result);
    finish_node(r, node, result);
out:
    graft_job_finish(&job);
    if (st) st = report(r, n, call.input, st, e);
    return st;
}

/* The ready node that leads soonest to something to look at; the count when none is ready. */
static size_t next_ready(const struct run *r)
{
    size_t best = r->p->count;
    for (size_t i = 0; i < r->n_order; i++) {
        size_t at = r->order[i];
        const struct state *s = &r->node[at];
        if (!s->staged || s->done || s->blocked) continue;
        if (best == r->p->count || s->hops < r->node[best].hops) best = at;
    }
    return best;
}

static graft_status run_all(struct run *r, graft_err *e)
{
    graft_status st = use_cache(r, e);
    if (st) return report(r, NULL, "", st, e);
    for (size_t i = 0; i < r->p->n_output; i++) stage(r, r->p->output[i]);
    for (;;) {
        size_t at = next_ready(r);
        if (at == r->p->count) return GRAFT_OK;
        if (r->rq->cancel && atomic_load(r->rq->cancel)) {
            st = graft_fail(e, GRAFT_E_CANCEL, "interrupted");
            return report(r, &r->p->node[at], "", st, e);
        }
        st = run_node(r, at, e);
        if (st) return st;
    }
}

static graft_status run_init(struct run *r, graft_err *e)
{
    size_t n = r->p->count;
    r->node = graft_calloc(n, sizeof *r->node);
    r->result = graft_calloc(n, sizeof *r->result);
    r->key = graft_calloc(n, sizeof *r->key);
    r->order = graft_malloc_array(n, sizeof *r->order);
    r->stack = graft_malloc_array(n, sizeof *r->stack);
    r->executed = cJSON_CreateArray();
    r->out->outputs = cJSON_CreateObject();
    r->prompt_text = graft_json_print(r->p->json);
    if (r->rq->extra_pnginfo) r->pnginfo_text = graft_json_print(r->rq->extra_pnginfo);
    if (!r->node || !r->result || !r->key || !r->order || !r->stack || !r->executed ||
        !r->out->outputs || !r->prompt_text || (r->rq->extra_pnginfo && !r->pnginfo_text))
        return graft_fail_nomem(e, "a run");
    graft_status st = find_order(r, e);
    return st ? st : find_edges(r, e);
}

static void run_finish(struct run *r)
{
    for (size_t i = 0; r->node && i < r->p->count; i++) graft_result_release(r->node[i].result);
    graft_free(r->node);
    graft_free(r->result);
    graft_free(r->active);
    graft_free(r->edge);
    graft_free(r->key);
    graft_free(r->order);
    graft_free(r->stack);
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
    struct run r = {.x = x,
                    .rq = request,
                    .ev = request->events ? request->events : &nobody,
                    .p = request->prompt,
                    .out = out};
    if (!e) e = &own;
    memset(out, 0, sizeof *out);
    mark_instances(x, request->prompt);
    graft_status st = run_init(&r, e);
    if (st) {
        st = report(&r, NULL, "", st, e);
    } else {
        if (r.ev->start) r.ev->start(r.ev->ctx, r.n_order);
        st = run_all(&r, e);
        if (x->keep) graft_cache_keep(&x->cache, r.key, r.p->count);
        if (!st && r.ev->success) r.ev->success(r.ev->ctx);
    }
    run_finish(&r);
    drop_instances(x, !x->keep);
    return st;
}
