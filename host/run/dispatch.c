#include "host/run/dispatch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/tree.h"

/* The gathered inputs of a node. */
struct gather {
    graft_arg *in;      /* n_in: the arguments of the present call */
    graft_value **list; /* n_in: made for inputs that want a whole list */
    graft_arg *out;     /* n_out */
    bool *open;         /* n_out: an expansion will give it */
    char **link;        /* n_in: texts made for inputs that want to know their link */
    size_t calls;
};

static graft_status fault(graft_dispatch *c, const graft_input *in, graft_err *e, graft_status st,
                          const char *text)
{
    snprintf(c->input, sizeof c->input, "%s", in->name);
    return graft_fail(e, st, "%s", text);
}

/* The values behind a linked input; NULL when there are none yet. */
static const graft_slot *slot_of(const graft_dispatch *c, size_t i)
{
    return c->from[i] ? &c->from[i]->slot[c->node->in[i].slot] : NULL;
}

static bool wants_link(const graft_dispatch *c, size_t i)
{
    return c->node->in[i].linked && (c->node->inputs[i]->flags & GRAFT_INPUT_RAW_LINK);
}

/* The link as it stands in the prompt. */
static graft_status link_text(const graft_dispatch *c, size_t i, char **out, graft_err *e)
{
    const cJSON *inputs = graft_tree_get(c->node->json, "inputs");
    *out = graft_json_print(graft_tree_get(inputs, c->node->inputs[i]->name));
    return *out ? GRAFT_OK : graft_fail_nomem(e, "a node's inputs");
}

static graft_status gather_init(graft_dispatch *c, struct gather *g, graft_err *e)
{
    size_t n = c->node->n_in;
    bool empty = false;
    memset(g, 0, sizeof *g);
    g->in = graft_calloc(n, sizeof *g->in);
    g->list = graft_calloc(n, sizeof *g->list);
    g->out = graft_calloc(c->node->n_out, sizeof *g->out);
    g->open = graft_calloc(c->node->n_out, sizeof *g->open);
    g->link = graft_calloc(n, sizeof *g->link);
    if (!g->in || !g->list || !g->out || !g->open || !g->link)
        return graft_fail_nomem(e, "a node's inputs");
    g->calls = 1;
    for (size_t i = 0; i < n; i++) {
        const graft_slot *slot = slot_of(c, i);
        graft_slot one = {&c->node->in[i].literal.value, 1, 1};
        if (!c->node->in[i].linked && one.item->kind != GRAFT_NONE) slot = &one;
        if (wants_link(c, i)) {
            graft_status st = link_text(c, i, &g->link[i], e);
            if (st) return st;
            continue;
        }
        if (!slot) continue;
        if (c->node->inputs[i]->flags & GRAFT_INPUT_LIST) {
            graft_status st = graft_slot_as_list(slot, &g->list[i], e);
            if (st) return st;
        } else if (slot->count > g->calls) {
            g->calls = slot->count;
        } else if (!slot->count) {
            empty = true;
        }
    }
    if (empty) g->calls = 0;
    return GRAFT_OK;
}

static void gather_finish(const graft_dispatch *c, struct gather *g)
{
    for (size_t i = 0; g->list && i < c->node->n_in; i++)
        if (g->list[i]) g->list[i]->ops->release(g->list[i]);
    for (size_t i = 0; g->link && i < c->node->n_in; i++) graft_free(g->link[i]);
    graft_free(g->list);
    graft_free(g->in);
    graft_free(g->out);
    graft_free(g->open);
    graft_free(g->link);
}

/* What a node's outputs become when it is held up: the message was told already. */
static void block_count(graft_value *v)
{
    (void)v;
}
static const char *block_message(const graft_value *v)
{
    (void)v;
    return NULL;
}
static const void *block_query(const graft_value *v, const char *id)
{
    static const graft_block_api api = {block_message};
    (void)v;
    return strcmp(id, GRAFT_BLOCK_ID) == 0 ? &api : NULL;
}
static const graft_value_ops block_ops = {"BLOCK", block_count, block_count, block_query};
static graft_arg blocked_output(void)
{
    static const graft_value block = {&block_ops};
    const graft_arg a = {.kind = GRAFT_OBJECT, .u.v = (graft_value *)(uintptr_t)&block};
    return a;
}

static const graft_block_api *block_of(const graft_arg *a)
{
    if (a->kind != GRAFT_OBJECT || strcmp(a->u.v->ops->type, "BLOCK") != 0) return NULL;
    return a->u.v->ops->query(a->u.v, GRAFT_BLOCK_ID);
}

/* True when a value that call number `k` would get is blocked; keeps the first message. */
static bool is_blocked(graft_dispatch *c, const struct gather *g, size_t k)
{
    bool any = false;
    for (size_t i = 0; i < c->node->n_in; i++) {
        const graft_slot *slot = slot_of(c, i);
        if (!slot || !slot->count || g->link[i]) continue;
        size_t last = slot->count - 1, from = k < last ? k : last, to = from;
        if (g->list[i]) from = 0, to = last;
        for (size_t at = from; at <= to; at++) {
            const graft_block_api *block = block_of(&slot->item[at]);
            if (!block) continue;
            const char *text = block->message(slot->item[at].u.v);
            if (text && !c->block[0]) snprintf(c->block, sizeof c->block, "%s", text);
            any = true;
        }
    }
    return any;
}

static graft_status block_outputs(const graft_dispatch *c, graft_result *r, graft_err *e)
{
    for (size_t i = 0; i < c->node->n_out; i++) {
        graft_arg a = blocked_output();
        graft_status st = graft_slot_push(&r->slot[i], &a, e);
        if (st) return st;
    }
    return GRAFT_OK;
}

/* Brings a number that came along a link into the form and range of the input. */
static graft_status adapt_number(graft_dispatch *c, const graft_input *in, graft_arg *a,
                                 graft_err *e)
{
    char text[200];
    bool whole = strcmp(in->type, "INT") == 0;
    if (a->kind == GRAFT_BOOL) a->kind = GRAFT_INT;
    if (a->kind != GRAFT_INT && a->kind != GRAFT_FLOAT)
        return fault(c, in, e, GRAFT_E_ARG, "the linked value is not a number");
    if (whole && a->kind == GRAFT_FLOAT) {
        if (!(fabs(a->u.f) < 0x1p63))
            return fault(c, in, e, GRAFT_E_ARG, "the linked number is too large");
        a->u.i = (int64_t)a->u.f;
    } else if (!whole && a->kind == GRAFT_INT) {
        a->u.f = (double)a->u.i;
    }
    a->kind = whole ? GRAFT_INT : GRAFT_FLOAT;
    long double v = whole ? (long double)a->u.i : (long double)a->u.f, min = in->min, max = in->max;
    if (whole && (in->flags & GRAFT_INPUT_U64)) v = (long double)(uint64_t)a->u.i;
    if (whole) graft_literal_int_range(in, &min, &max);
    if (!(in->min < in->max) || (v >= min && v <= max)) return GRAFT_OK;
    snprintf(text, sizeof text, "the linked value %.*Lg is outside %.*Lg to %.*Lg", whole ? 20 : 9,
             v, whole ? 20 : 9, min, whole ? 20 : 9, max);
    return fault(c, in, e, GRAFT_E_ARG, text);
}

static graft_status adapt_choice(graft_dispatch *c, const graft_input *in, graft_arg *a,
                                 graft_err *e)
{
    graft_choices choices;
    char text[300];
    if (a->kind != GRAFT_STRING && a->kind != GRAFT_CHOICE)
        return fault(c, in, e, GRAFT_E_ARG, "the linked value is not text");
    graft_status st = graft_choices_init(&choices, c->host, c->node->entry->node, in, e);
    if (st) return st;
    if (graft_choices_has(&choices, a->u.s)) {
        a->kind = GRAFT_CHOICE;
    } else {
        snprintf(text, sizeof text, "the linked value '%.200s' is not one of the choices", a->u.s);
        st = fault(c, in, e, GRAFT_E_ARG, text);
    }
    graft_choices_finish(&choices);
    return st;
}

static graft_status adapt_object(graft_dispatch *c, const graft_input *in, const graft_arg *a,
                                 graft_err *e)
{
    char text[300];
    const char *type = a->kind == GRAFT_OBJECT ? a->u.v->ops->type : "a plain value";
    if (a->kind == GRAFT_OBJECT && graft_schema_match(type, in->type)) return GRAFT_OK;
    if (a->kind != GRAFT_OBJECT && graft_schema_match(graft_schema_of_kind(a->kind), in->type))
        return GRAFT_OK; /* one of several types */
    snprintf(text, sizeof text, "the linked value is %.80s, not %.80s", type, in->type);
    return fault(c, in, e, GRAFT_E_ARG, text);
}

/* `a` is a borrowed value that came along a link to input `in`. */
static graft_status adapt(graft_dispatch *c, const graft_input *in, graft_arg *a, graft_err *e)
{
    if (a->kind == GRAFT_NONE) {
        if (in->flags & GRAFT_INPUT_OPTIONAL) return GRAFT_OK;
        return fault(c, in, e, GRAFT_E_ARG, "the linked output was not set");
    }
    if (strcmp(in->type, "*") == 0) return GRAFT_OK;
    if (!graft_schema_literal(in)) return adapt_object(c, in, a, e);
    if (strcmp(in->type, "INT") == 0 || strcmp(in->type, "FLOAT") == 0)
        return adapt_number(c, in, a, e);
    if (graft_schema_combo(in)) return adapt_choice(c, in, a, e);
    if (strcmp(in->type, "BOOLEAN") == 0) {
        if (a->kind == GRAFT_FLOAT) a->u.i = a->u.f != 0;
        if (a->kind != GRAFT_FLOAT && a->kind != GRAFT_INT && a->kind != GRAFT_BOOL)
            return fault(c, in, e, GRAFT_E_ARG, "the linked value is not true or false");
        a->kind = GRAFT_BOOL;
        a->u.i = a->u.i != 0;
        return GRAFT_OK;
    }
    if (a->kind != GRAFT_STRING && a->kind != GRAFT_CHOICE)
        return fault(c, in, e, GRAFT_E_ARG, "the linked value is not text");
    a->kind = GRAFT_STRING;
    return GRAFT_OK;
}

/* Sets g->in for call number `k`; inputs that are not computed yet stay NONE. */
static graft_status set_inputs(graft_dispatch *c, struct gather *g, size_t k, graft_err *e)
{
    for (size_t i = 0; i < c->node->n_in; i++) {
        const graft_input *in = c->node->inputs[i];
        const graft_slot *slot = slot_of(c, i);
        memset(&g->in[i], 0, sizeof g->in[i]);
        if (g->link[i]) {
            g->in[i].kind = GRAFT_STRING;
            g->in[i].u.s = g->link[i];
        } else if (g->list[i]) {
            g->in[i].kind = GRAFT_OBJECT;
            g->in[i].u.v = g->list[i];
        } else if (!c->node->in[i].linked) {
            g->in[i] = c->node->in[i].literal.value;
        } else if (slot && slot->count) {
            g->in[i] = slot->item[k < slot->count ? k : slot->count - 1];
            graft_status st = adapt(c, in, &g->in[i], e);
            if (st) return st;
        }
    }
    return GRAFT_OK;
}

static bool fits(const graft_output *o, const graft_arg *a)
{
    if (a->kind == GRAFT_NONE || strcmp(o->type, "*") == 0) return true;
    if (a->kind == GRAFT_OBJECT)
        return strcmp(a->u.v->ops->type, "LIST") == 0 || block_of(a) ||
               graft_schema_match(a->u.v->ops->type, o->type);
    static const struct {
        const char *type;
        graft_kind kind;
    } plain[] = {{"INT", GRAFT_INT},       {"FLOAT", GRAFT_FLOAT},  {"BOOLEAN", GRAFT_BOOL},
                 {"STRING", GRAFT_STRING}, {"COMBO", GRAFT_STRING}, {"COMBO", GRAFT_CHOICE}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(o->type, plain[i].type) == 0 && a->kind == plain[i].kind) return true;
    return false;
}

/* Moves one output into its slot. An object's reference is ours already; text is copied, unless it
 * is ours, too. */
static graft_status keep_output(const graft_dispatch *c, size_t i, graft_arg *a, bool owned,
                                graft_slot *slot, graft_err *e)
{
    const graft_output *o = c->node->entry->node->outputs[i];
    graft_status st = GRAFT_OK;
    graft_arg own = *a;
    owned |= a->kind == GRAFT_OBJECT;
    if (!fits(o, a)) {
        st = graft_fail(e, GRAFT_E_INTERNAL, "output %s is not a value of type %s",
                        o->name ? o->name : "", o->type);
    } else if (a->kind == GRAFT_OBJECT && strcmp(a->u.v->ops->type, "LIST") == 0 &&
               a->u.v->ops->query(a->u.v, GRAFT_LIST_ID)) {
        st = graft_slot_spread(slot, a->u.v, e);
    } else {
        if (!owned) st = graft_arg_copy(a, &own, e);
        if (st == GRAFT_OK) st = graft_slot_push(slot, &own, e);
        if (owned) memset(a, 0, sizeof *a); /* the slot took it */
    }
    if (owned) graft_arg_drop(a);
    memset(a, 0, sizeof *a);
    return st;
}

/* What execute() or expand() said of the failure. */
static graft_status failed(graft_dispatch *c, graft_job *job, graft_status st, graft_err *e)
{
    pthread_mutex_lock(&job->lock);
    snprintf(c->input, sizeof c->input, "%s", job->fail_input);
    if (job->fail_code)
        graft_fail(e, st, "%s", job->fail.text);
    else
        graft_fail(e, st, "%s", graft_status_text(st));
    pthread_mutex_unlock(&job->lock);
    return st;
}

/* Calls execute() with g->in. After a failure `out` is empty. */
static graft_status execute(graft_dispatch *c, const struct gather *g, graft_job *job,
                            graft_arg *out, graft_err *e)
{
    memset(out, 0, c->node->n_out * sizeof *out);
    graft_status st = c->node->entry->node->execute(c->self, job, g->in, out);
    if (st == GRAFT_OK) return GRAFT_OK;
    memset(out, 0, c->node->n_out * sizeof *out);
    return failed(c, job, st, e);
}

/* Puts what call number `k` gave, which is taken, into `r`. */
static graft_status keep_outputs(graft_dispatch *c, struct gather *g, size_t k, graft_job *job,
                                 graft_arg *out, bool owned, graft_result *r, graft_err *e)
{
    graft_status st;
    if (job->refused)
        st = failed(c, job, job->fail_code, e);
    else
        st = graft_expansion_take(&c->expansion, job, k, r, g->open, e);
    for (size_t i = 0; i < c->node->n_out; i++) {
        if (st || g->open[i]) { /* nobody will see it */
            if (owned || out[i].kind == GRAFT_OBJECT) graft_arg_drop(&out[i]);
            continue;
        }
        st = keep_output(c, i, &out[i], owned, &r->slot[i], e);
    }
    return st;
}

static graft_status run_in_turn(graft_dispatch *c, struct gather *g, graft_result *r, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t k = 0; k < g->calls; k++) {
        if (k && graft_job_cancelled(c->job)) return graft_fail(e, GRAFT_E_CANCEL, "interrupted");
        if (is_blocked(c, g, k)) {
            st = block_outputs(c, r, e);
        } else {
            st = set_inputs(c, g, k, e);
            if (!st) st = execute(c, g, c->job, g->out, e);
            if (!st) st = keep_outputs(c, g, k, c->job, g->out, false, r, e);
        }
        if (st) return st;
    }
    return st;
}

/* ---- calls over a list beside each other */

struct element {
    graft_job *job; /* NULL when there is nothing in it to be kept */
    graft_arg *out; /* owned values */
};

struct crowd {
    graft_dispatch *call;
    const struct gather *g;
    struct element *element; /* one a call */
    graft_arg *out;
    atomic_size_t next;
    atomic_int failed;
    pthread_mutex_t lock; /* guards what follows: the failure that came first */
    char input[128];      /* as in graft_dispatch */
    graft_status st;
    graft_err e;
};

static void give_up(struct crowd *w, const graft_dispatch *c, graft_status st, const graft_err *e)
{
    pthread_mutex_lock(&w->lock);
    if (!w->st) {
        w->st = st;
        w->e = *e;
        snprintf(w->input, sizeof w->input, "%s", c->input);
    }
    pthread_mutex_unlock(&w->lock);
    atomic_store(&w->failed, 1);
}

/* A text lasts only until the next call on the instance. */
static graft_status own_texts(const graft_dispatch *c, graft_arg *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < c->node->n_out; i++) {
        const graft_arg given = out[i];
        if (given.kind == GRAFT_OBJECT) continue;
        memset(&out[i], 0, sizeof out[i]);
        if (!st) st = graft_arg_copy(&given, &out[i], e);
    }
    return st;
}

static graft_status run_element(struct crowd *w, graft_dispatch *c, struct gather *g, size_t k,
                                graft_err *e)
{
    struct element *at = &w->element[k];
    graft_status st = set_inputs(c, g, k, e);
    if (st) return st;
    at->job = graft_malloc(sizeof *at->job);
    if (!at->job) return graft_fail_nomem(e, "a node's call");
    graft_job_init_like(at->job, w->call->job);
    at->job->beside = &w->failed;
    GRAFT_TRY(execute(c, g, at->job, at->out, e));
    GRAFT_TRY(own_texts(c, at->out, e));
    if (at->job->refused) return failed(c, at->job, at->job->fail_code, e);
    if (at->job->ui || at->job->ui_lost || at->job->warnings || at->job->part) return GRAFT_OK;
out:
    graft_job_finish(at->job);
    graft_free(at->job);
    at->job = NULL;
    return st;
}

/* Takes one call after the other, until there is none or one has failed. */
static void work(struct crowd *w, void *self)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_dispatch c = *w->call; /* with an error and a message of its own */
    struct gather g = *w->g;
    c.self = self;
    g.in = graft_calloc(c.node->n_in, sizeof *g.in);
    if (!g.in) {
        const graft_status st = graft_fail_nomem(&e, "a node's inputs");
        give_up(w, &c, st, &e);
        return;
    }
    size_t k;
    while ((k = atomic_fetch_add(&w->next, 1)) < g.calls && !atomic_load(&w->failed)) {
        graft_status st = GRAFT_OK;
        if (is_blocked(&c, &g, k)) continue;
        if (k && graft_job_cancelled(w->call->job))
            st = graft_fail(&e, GRAFT_E_CANCEL, "interrupted");
        else
            st = run_element(w, &c, &g, k, &e);
        if (st) give_up(w, &c, st, &e);
    }
    graft_free(g.in);
}

/* Without an instance the calls are left to the other threads. */
static void *help(void *crowd)
{
    struct crowd *w = crowd;
    const graft_node *node = w->call->node->entry->node;
    void *self = NULL;
    if (node->create && node->create(w->call->host, &self)) return NULL;
    work(w, self);
    if (node->destroy) node->destroy(self);
    return NULL;
}

/* Runs all calls on this thread and as many others as may be had. */
static void run_crowd(struct crowd *w)
{
    pthread_t helper[GRAFT_DISPATCH_HELPERS];
    size_t n = 0;
    while (n + 1 < w->g->calls && n < GRAFT_DISPATCH_HELPERS) {
        if (atomic_fetch_sub(w->call->helpers, 1) > 0 &&
            pthread_create(&helper[n], NULL, help, w) == 0) {
            n++;
            continue;
        }
        atomic_fetch_add(w->call->helpers, 1);
        break;
    }
    work(w, w->call->self);
    for (size_t i = 0; i < n; i++) pthread_join(helper[i], NULL);
    atomic_fetch_add(w->call->helpers, (int)n);
}

/* In the order of the list, whatever the order in which the calls ended. */
static graft_status keep_all(struct crowd *w, struct gather *g, graft_result *r, graft_err *e)
{
    graft_dispatch *c = w->call;
    graft_status st = GRAFT_OK;
    for (size_t k = 0; k < g->calls && !st; k++) {
        struct element *at = &w->element[k];
        if (is_blocked(c, g, k)) {
            st = block_outputs(c, r, e);
            continue;
        }
        if (at->job) graft_job_show_all(c->job, at->job);
        st = keep_outputs(c, g, k, at->job ? at->job : c->job, at->out, true, r, e);
    }
    return st;
}

static graft_status run_beside(graft_dispatch *c, struct gather *g, graft_result *r, graft_err *e)
{
    struct crowd w = {.call = c, .g = g};
    graft_status st = GRAFT_OK;
    size_t n_out = c->node->n_out, values;
    atomic_init(&w.next, 0);
    atomic_init(&w.failed, 0);
    pthread_mutex_init(&w.lock, NULL);
    w.element = graft_calloc(g->calls, sizeof *w.element);
    w.out = graft_size_mul(g->calls, n_out, &values) ? graft_calloc(values, sizeof *w.out) : NULL;
    if (!w.element || !w.out) {
        st = graft_fail_nomem(e, "a node's calls");
        goto out;
    }
    for (size_t k = 0; k < g->calls; k++) w.element[k].out = w.out + k * n_out;
    run_crowd(&w);
    st = w.st;
    if (st) {
        snprintf(c->input, sizeof c->input, "%s", w.input);
        *e = w.e;
    } else {
        st = keep_all(&w, g, r, e);
    }
out:
    for (size_t i = 0; w.element && w.out && i < g->calls * n_out; i++) graft_arg_drop(&w.out[i]);
    for (size_t k = 0; w.element && k < g->calls; k++) {
        if (w.element[k].job) graft_job_finish(w.element[k].job);
        graft_free(w.element[k].job);
    }
    graft_free(w.element);
    graft_free(w.out);
    pthread_mutex_destroy(&w.lock);
    return st;
}

graft_status graft_dispatch_run(graft_dispatch *c, graft_result **out, graft_err *e)
{
    graft_status st;
    struct gather g;
    graft_result *r = graft_result_create(c->node->n_out);
    *out = NULL;
    GRAFT_TRY(gather_init(c, &g, e));
    if (!r) {
        st = graft_fail_nomem(e, "a node's outputs");
        goto out;
    }
    if (c->helpers && g.calls > 1)
        st = run_beside(c, &g, r, e);
    else
        st = run_in_turn(c, &g, r, e);
    if (st) goto out;
    if (c->job->ui_lost) {
        st = graft_fail_nomem(e, "what a node shows");
        goto out;
    }
    r->ui = c->job->ui;
    r->warnings = c->job->warnings;
    c->job->ui = c->job->warnings = NULL;
    *(c->expansion.list ? &c->expansion.partial : out) = r;
    r = NULL;
out:
    gather_finish(c, &g);
    graft_result_release(r);
    return st;
}

graft_status graft_dispatch_lazy(graft_dispatch *c, uint64_t *needed, graft_err *e)
{
    graft_status st;
    struct gather g;
    const graft_lazy_api *api = graft_schema_table(c->node->entry->node, GRAFT_LAZY_ID);
    *needed = 0;
    GRAFT_TRY(gather_init(c, &g, e));
    for (size_t k = 0; api && k < g.calls; k++) {
        uint64_t bits = 0;
        if (is_blocked(c, &g, k)) continue;
        GRAFT_TRY(set_inputs(c, &g, k, e));
        st = api->needed(c->self, g.in, &bits);
        if (st) {
            st = graft_fail(e, st, "which inputs are needed is not known");
            goto out;
        }
        *needed |= bits;
    }
out:
    gather_finish(c, &g);
    return st;
}
