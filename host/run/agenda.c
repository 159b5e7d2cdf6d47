#include "host/run/agenda.h"

#include <string.h>

#include "base/alloc.h"
#include "host/schema/schema.h"
#include "base/tree.h"

#define FAR 3 /* hops beyond which it does not matter how many */

void graft_agenda_init(graft_agenda *a)
{
    memset(a, 0, sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
}

void graft_agenda_finish(graft_agenda *a)
{
    for (size_t i = 0; i < a->count; i++) graft_result_release(a->node[i].result);
    for (size_t i = 0; i < a->n_part; i++) {
        graft_prompt_destroy(a->part[i].owned);
        graft_free(a->part[i].active);
    }
    graft_free(a->part);
    graft_free(a->node);
    graft_free(a->order);
    graft_free(a->link);
    graft_free(a->stack);
    graft_map_finish(&a->index);
    pthread_mutex_destroy(&a->lock);
}

/* ---- adding nodes */

/* The ids under which a node is told of. Those of its parent outlive it. */
static graft_where where_of(const graft_agenda *a, const graft_prompt_node *n, size_t parent)
{
    graft_where w = {n->id, n->id, NULL, n->id};
    if (parent == GRAFT_AGENDA_NONE) return w;
    const graft_where *from = &a->node[parent].where;
    const char *display = graft_json_str(n->json, "override_display_id", NULL);
    const char *known = display ? graft_map_get(&a->index, display) : NULL;
    w.parent = from->id;
    w.real = from->real;
    w.display = known ? a->node[(size_t)(uintptr_t)known - 1].where.display : from->display;
    return w;
}

static graft_status add_nodes(graft_agenda *a, const graft_prompt *p, size_t parent, graft_err *e)
{
    size_t base = a->count;
    graft_status st = GRAFT_OK;
    pthread_mutex_lock(&a->lock);
    if (graft_grow(&a->node, &a->cap, base + p->count, sizeof *a->node)) {
        st = graft_fail_nomem(e, "a run");
        goto out;
    }
    for (size_t i = 0; i < p->count; i++) {
        const graft_prompt_node *n = &p->node[i];
        graft_agenda_node *to = &a->node[base + i];
        memset(to, 0, sizeof *to);
        to->n = n;
        to->parent = parent;
        to->where = where_of(a, n, parent);
        to->hops = FAR;
        if (n->in && n->entry->node->flags & GRAFT_NODE_EXPANDS) a->keep = true;
    }
    a->count = base + p->count;
    for (size_t i = 0; i < p->count; i++) {
        if (parent != GRAFT_AGENDA_NONE && graft_map_has(&a->index, p->node[i].id)) {
            st = graft_fail(e, GRAFT_E_ARG, "there are two nodes %s", p->node[i].id);
            goto out;
        }
        if (!graft_map_put(&a->index, p->node[i].id, (void *)(uintptr_t)(base + i + 1))) continue;
        st = graft_fail_nomem(e, "a run");
        goto out;
    }
out:
    pthread_mutex_unlock(&a->lock);
    return st;
}

/* Origins before consumers, by depth-first search from the outputs without recursion: a node is on
 * the stack as 2*i to be opened and 2*i+1 to be closed. Numbers count from `base`. */
static graft_status find_order(graft_agenda *a, const graft_prompt *p, size_t base, graft_err *e)
{
    size_t depth = 0, links = 0;
    for (size_t i = 0; i < p->count; i++) links += p->node[i].in ? p->node[i].n_in + 1 : 0;
    /* For staging the stack must hold every node once. */
    size_t need = p->n_output + links > a->count ? p->n_output + links : a->count;
    if (graft_grow(&a->order, &a->cap_order, a->n_order + p->count, sizeof *a->order) ||
        graft_grow(&a->stack, &a->cap_stack, need, sizeof *a->stack))
        return graft_fail_nomem(e, "a run");
    for (size_t o = p->n_output; o-- > 0;) a->stack[depth++] = 2 * p->output[o];
    while (depth) {
        size_t top = a->stack[--depth], i = top / 2;
        const graft_prompt_node *n = &p->node[i];
        if (top & 1) {
            a->order[a->n_order++] = base + i;
            continue;
        }
        if (a->node[base + i].staged) continue;
        a->node[base + i].staged = true;
        a->stack[depth++] = top + 1;
        for (size_t k = n->n_in; k-- > 0;)
            if (n->in[k].linked && n->in[k].node >= base && !a->node[n->in[k].node].staged)
                a->stack[depth++] = 2 * (n->in[k].node - base);
    }
    for (size_t i = 0; i < p->count; i++) a->node[base + i].staged = false;
    return GRAFT_OK;
}

static graft_status add_link(graft_agenda *a, size_t origin, size_t consumer, size_t input,
                             graft_err *e)
{
    graft_agenda_node *from = &a->node[origin];
    if (graft_grow(&a->link, &a->cap_link, a->n_link + 1, sizeof *a->link))
        return graft_fail_nomem(e, "a run");
    a->link[a->n_link++] = (graft_agenda_link){consumer, input, from->first_link};
    from->first_link = a->n_link;
    from->consumers++;
    return GRAFT_OK;
}

/* Lists the links by origin, and counts how far each node is from an output. Consumers come before
 * their origins here, so one pass is enough. */
static graft_status find_links(graft_agenda *a, graft_agenda_part *part, size_t parent,
                               size_t first, graft_err *e)
{
    size_t inputs = 0, next = 0;
    for (size_t i = first; i < a->n_order; i++) inputs += a->node[a->order[i]].n->n_in;
    part->active = graft_calloc(inputs, sizeof *part->active);
    if (!part->active) return graft_fail_nomem(e, "a run");
    for (size_t i = 0; i < part->prompt->n_output; i++) {
        graft_agenda_node *to = &a->node[part->base + part->prompt->output[i]];
        bool shows = to->n->entry->node->flags & GRAFT_NODE_OUTPUT;
        to->hops = shows || parent == GRAFT_AGENDA_NONE ? 0 : a->node[parent].hops;
    }
    for (size_t i = a->n_order; i-- > first;) {
        graft_agenda_node *at = &a->node[a->order[i]];
        at->active = part->active + next;
        next += at->n->n_in;
        for (size_t k = 0; k < at->n->n_in; k++) {
            if (!at->n->in[k].linked) continue;
            size_t origin = at->n->in[k].node;
            graft_status st = add_link(a, origin, a->order[i], k, e);
            if (st) return st;
            if (a->node[origin].hops > at->hops + 1) a->node[origin].hops = at->hops + 1;
        }
    }
    return GRAFT_OK;
}

graft_status graft_agenda_add(graft_agenda *a, const graft_prompt *prompt, size_t parent,
                              graft_err *e)
{
    size_t base = a->count, first = a->n_order;
    graft_prompt *owned = parent == GRAFT_AGENDA_NONE ? NULL : (graft_prompt *)(uintptr_t)prompt;
    if (graft_grow(&a->part, &a->cap_part, a->n_part + 1, sizeof *a->part)) {
        graft_prompt_destroy(owned);
        return graft_fail_nomem(e, "a run");
    }
    graft_agenda_part *part = &a->part[a->n_part++];
    *part = (graft_agenda_part){prompt, owned, NULL, base};
    graft_status st = add_nodes(a, prompt, parent, e);
    if (!st) st = find_order(a, prompt, base, e);
    return st ? st : find_links(a, part, parent, first, e);
}

size_t graft_agenda_find(const graft_agenda *a, const char *id)
{
    size_t found = (size_t)(uintptr_t)graft_map_get(&a->index, id);
    return found && a->node[found - 1].n->in ? found - 1 : GRAFT_AGENDA_NONE;
}

char *graft_agenda_node_text(graft_agenda *a, const char *id)
{
    pthread_mutex_lock(&a->lock);
    size_t found = (size_t)(uintptr_t)graft_map_get(&a->index, id);
    char *text = found ? graft_json_print(a->node[found - 1].n->json) : NULL;
    pthread_mutex_unlock(&a->lock);
    return text;
}

/* ---- who waits */

static bool is_lazy(const graft_prompt_node *n, size_t input)
{
    return input < 64 && (n->inputs[input]->flags & GRAFT_INPUT_LAZY) &&
           graft_schema_table(n->entry->node, GRAFT_LAZY_ID);
}

/* Each node is pushed at most once: the stack has room. */
void graft_agenda_stage(graft_agenda *a, size_t node)
{
    size_t depth = 0;
    if (a->node[node].staged) return;
    a->node[node].staged = true;
    a->stack[depth++] = node;
    while (depth) {
        graft_agenda_node *at = &a->node[a->stack[--depth]];
        if (at->done) continue;
        for (size_t k = 0; k < at->n->n_in; k++) {
            if (!at->n->in[k].linked || is_lazy(at->n, k)) continue;
            graft_agenda_node *origin = &a->node[at->n->in[k].node];
            at->active[k] = true;
            if (!origin->done) at->blocked++;
            if (origin->staged) continue;
            origin->staged = true;
            a->stack[depth++] = at->n->in[k].node;
        }
    }
}

void graft_agenda_want(graft_agenda *a, size_t node, size_t input)
{
    graft_agenda_node *at = &a->node[node];
    size_t origin = at->n->in[input].node;
    at->active[input] = true;
    graft_agenda_stage(a, origin);
    if (!a->node[origin].done) at->blocked++;
}

graft_status graft_agenda_follow(graft_agenda *a, size_t node, size_t origin, graft_err *e)
{
    graft_status st = add_link(a, origin, node, GRAFT_AGENDA_NONE, e);
    if (st) return st;
    graft_agenda_stage(a, origin);
    if (!a->node[origin].done) a->node[node].blocked++;
    return GRAFT_OK;
}

static bool is_ready(const graft_agenda_node *at)
{
    return at->staged && !at->done && !at->running && !at->blocked;
}

static int rank(const graft_agenda_node *at)
{
    return at->n->entry->node->flags & GRAFT_NODE_ASYNC ? -1 : at->hops;
}

size_t graft_agenda_next(const graft_agenda *a)
{
    size_t best = GRAFT_AGENDA_NONE;
    for (size_t i = 0; i < a->n_order; i++) {
        const graft_agenda_node *at = &a->node[a->order[i]];
        if (!is_ready(at)) continue;
        if (best == GRAFT_AGENDA_NONE || rank(at) < rank(&a->node[best])) best = a->order[i];
    }
    return best;
}

bool graft_agenda_open(const graft_agenda *a)
{
    for (size_t i = 0; i < a->n_order; i++)
        if (a->node[a->order[i]].staged && !a->node[a->order[i]].done) return true;
    return false;
}

/* One node that `node` waits for. */
static size_t waits_for(const graft_agenda *a, size_t node)
{
    const graft_agenda_node *at = &a->node[node];
    for (size_t k = 0; !at->expanding && k < at->n->n_in; k++)
        if (at->n->in[k].linked && at->active[k] && !a->node[at->n->in[k].node].done)
            return at->n->in[k].node;
    for (size_t o = 0; at->expanding && o < a->n_order; o++) {
        const graft_agenda_node *origin = &a->node[a->order[o]];
        for (size_t l = origin->done ? 0 : origin->first_link; l; l = a->link[l - 1].next)
            if (a->link[l - 1].consumer == node && a->link[l - 1].input == GRAFT_AGENDA_NONE)
                return a->order[o];
    }
    return node;
}

/* Whoever follows waiting nodes is in the circle after as many steps as there are nodes. */
size_t graft_agenda_circle(const graft_agenda *a)
{
    size_t at = 0;
    for (size_t i = 0; i < a->n_order; i++)
        if (a->node[a->order[i]].staged && !a->node[a->order[i]].done) at = a->order[i];
    for (size_t i = 0; i < a->n_order; i++) at = waits_for(a, at);
    for (size_t i = 0; i < a->n_order && a->node[at].parent == GRAFT_AGENDA_NONE; i++)
        at = waits_for(a, at);
    return at;
}

/* ---- what is done */

/* One consumer less; the last one takes the values with it. */
static void consumed(graft_agenda *a, size_t node)
{
    graft_agenda_node *at = &a->node[node];
    at->consumers--;
    if (at->consumers || a->keep) return;
    graft_result_release(at->result);
    at->result = NULL;
}

void graft_agenda_done(graft_agenda *a, size_t node, graft_result *result)
{
    graft_agenda_node *at = &a->node[node];
    at->done = true;
    at->expanding = false;
    at->result = result;
    for (size_t l = at->first_link; l; l = a->link[l - 1].next) {
        const graft_agenda_link *link = &a->link[l - 1];
        graft_agenda_node *to = &a->node[link->consumer];
        if (link->input == GRAFT_AGENDA_NONE || to->active[link->input]) to->blocked--;
    }
    for (size_t k = 0; k < at->n->n_in; k++)
        if (at->n->in[k].linked) consumed(a, at->n->in[k].node);
    if (at->consumers || a->keep) return;
    graft_result_release(at->result);
    at->result = NULL;
}

void graft_agenda_cached(graft_agenda *a, size_t node, graft_result *result)
{
    a->node[node].result = result;
    a->node[node].done = a->node[node].cached = true;
}
