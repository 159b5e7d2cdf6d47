#include "nodes/call/list.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

typedef struct list {
    graft_value value; /* first: a graft_value * is a list * */
    atomic_size_t refs;
    size_t n, room;
    graft_value *item[];
} list;

static void retain(graft_value *v)
{
    atomic_fetch_add_explicit(&((list *)v)->refs, 1, memory_order_relaxed);
}

static void release(graft_value *v)
{
    list *l = (list *)v;
    if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < l->n; i++) l->item[i]->ops->release(l->item[i]);
    graft_free(l);
}

static uint64_t count(const graft_value *v)
{
    return ((const list *)v)->n;
}

static graft_status at(const graft_value *v, uint64_t i, graft_arg *out)
{
    const list *l = (const list *)v;
    if (i >= l->n) return GRAFT_E_ARG;
    *out = (graft_arg){.kind = GRAFT_OBJECT, .u.v = l->item[i]};
    return GRAFT_OK;
}

static const void *query(const graft_value *v, const char *id)
{
    static const graft_list_api api = {count, at};
    (void)v;
    return strcmp(id, GRAFT_LIST_ID) == 0 ? &api : NULL;
}

static const graft_value_ops ops = {"LIST", retain, release, query};

graft_status graft_list_create(size_t room, graft_value **out, graft_err *e)
{
    size_t bytes;
    list *l = NULL;
    *out = NULL;
    if (graft_size_mul(room, sizeof l->item[0], &bytes) && graft_size_add(bytes, sizeof *l, &bytes))
        l = graft_malloc(bytes);
    if (!l) return graft_fail_nomem(e, "a list");
    l->value.ops = &ops;
    atomic_init(&l->refs, 1);
    l->n = 0;
    l->room = room;
    *out = &l->value;
    return GRAFT_OK;
}

graft_status graft_list_push(graft_value *v, graft_value_kind kind, void *object, graft_err *e)
{
    list *l = (list *)v;
    assert(v->ops == &ops && l->n < l->room);
    graft_status st = graft_value_wrap(kind, object, &l->item[l->n], e);
    if (!st) l->n++;
    return st;
}

graft_status graft_list_adopt(const graft_value *v, graft_value_kind kind, graft_value **out,
                              graft_err *e)
{
    const graft_list_api *api = v->ops->query(v, GRAFT_LIST_ID);
    graft_value *made = NULL;
    *out = NULL;
    if (!api) return graft_fail(e, GRAFT_E_ARG, "this %s is not a list", v->ops->type);
    const uint64_t n = api->count(v);
    graft_status st = graft_list_create((size_t)n, &made, e);
    if (st) return st;
    list *l = (list *)made;
    for (uint64_t i = 0; i < n && !st; i++) {
        graft_arg a = {0};
        st = api->at(v, i, &a);
        if (!st && (a.kind != GRAFT_OBJECT || !a.u.v)) st = GRAFT_E_ARG;
        if (st)
            st = graft_fail(e, st, "element %llu of the list is not an object",
                            (unsigned long long)i);
        else
            st = graft_value_adopt(a.u.v, kind, &l->item[l->n], e);
        if (!st) l->n++;
    }
    if (st)
        release(made);
    else
        *out = made;
    return st;
}

size_t graft_list_count(const graft_value *v)
{
    assert(v->ops == &ops);
    return ((const list *)v)->n;
}

void *graft_list_object(const graft_value *v, size_t i, graft_value_kind kind)
{
    const list *l = (const list *)v;
    assert(v->ops == &ops && i < l->n);
    return graft_value_object(l->item[i], kind);
}
