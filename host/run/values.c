#include "host/run/values.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

graft_status graft_arg_copy(const graft_arg *from, graft_arg *to, graft_err *e)
{
    *to = *from;
    if ((from->kind == GRAFT_STRING || from->kind == GRAFT_CHOICE)) {
        to->u.s = graft_strdup(from->u.s ? from->u.s : "");
        if (!to->u.s) {
            to->kind = GRAFT_NONE;
            return graft_fail_nomem(e, "a value");
        }
    } else if (from->kind == GRAFT_OBJECT) {
        from->u.v->ops->retain(from->u.v);
    }
    return GRAFT_OK;
}

void graft_arg_drop(graft_arg *a)
{
    if (a->kind == GRAFT_STRING || a->kind == GRAFT_CHOICE) graft_free((char *)(uintptr_t)a->u.s);
    if (a->kind == GRAFT_OBJECT) a->u.v->ops->release(a->u.v);
    memset(a, 0, sizeof *a);
}

void graft_slot_finish(graft_slot *s)
{
    for (size_t i = 0; i < s->count; i++) graft_arg_drop(&s->item[i]);
    graft_free(s->item);
    memset(s, 0, sizeof *s);
}

graft_status graft_slot_push(graft_slot *s, graft_arg *item, graft_err *e)
{
    if (graft_grow(&s->item, &s->cap, s->count + 1, sizeof *s->item)) {
        graft_arg_drop(item);
        return graft_fail_nomem(e, "a value");
    }
    s->item[s->count++] = *item;
    memset(item, 0, sizeof *item);
    return GRAFT_OK;
}

graft_status graft_slot_spread(graft_slot *s, const graft_value *list, graft_err *e)
{
    const graft_list_api *api = list->ops->query(list, GRAFT_LIST_ID);
    if (!api) return graft_fail(e, GRAFT_E_INTERNAL, "a LIST without %s", GRAFT_LIST_ID);
    uint64_t n = api->count(list);
    for (uint64_t i = 0; i < n; i++) {
        graft_arg borrowed = {0}, own;
        graft_status st = api->at(list, i, &borrowed);
        if (st) return graft_fail(e, st, "element %llu of a list", (unsigned long long)i);
        st = graft_arg_copy(&borrowed, &own, e);
        if (!st) st = graft_slot_push(s, &own, e);
        if (st) return st;
    }
    return GRAFT_OK;
}

/* The host's own LIST value. */
struct list {
    graft_value value; /* first */
    _Atomic uint64_t refs;
    graft_slot slot;
};

static void list_retain(graft_value *v)
{
    atomic_fetch_add(&((struct list *)(void *)v)->refs, 1);
}

static void list_release(graft_value *v)
{
    struct list *l = (struct list *)(void *)v;
    if (atomic_fetch_sub(&l->refs, 1) != 1) return;
    graft_slot_finish(&l->slot);
    graft_free(l);
}

static uint64_t list_count(const graft_value *v)
{
    return ((const struct list *)(const void *)v)->slot.count;
}

static graft_status list_at(const graft_value *v, uint64_t i, graft_arg *out)
{
    const struct list *l = (const struct list *)(const void *)v;
    if (i >= l->slot.count) return GRAFT_E_ARG;
    *out = l->slot.item[i];
    return GRAFT_OK;
}

static const void *list_query(const graft_value *v, const char *id)
{
    (void)v;
    static const graft_list_api api = {list_count, list_at};
    return strcmp(id, GRAFT_LIST_ID) == 0 ? &api : NULL;
}

static const graft_value_ops list_ops = {"LIST", list_retain, list_release, list_query};

graft_status graft_slot_as_list(const graft_slot *s, graft_value **out, graft_err *e)
{
    struct list *l = graft_calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return graft_fail_nomem(e, "a list");
    l->value.ops = &list_ops;
    atomic_init(&l->refs, 1);
    for (size_t i = 0; i < s->count; i++) {
        graft_arg own;
        graft_status st = graft_arg_copy(&s->item[i], &own, e);
        if (!st) st = graft_slot_push(&l->slot, &own, e);
        if (st) {
            list_release(&l->value);
            return st;
        }
    }
    *out = &l->value;
    return GRAFT_OK;
}

graft_result *graft_result_create(size_t n_out)
{
    size_t bytes;
    if (!graft_size_mul(n_out, sizeof(graft_slot), &bytes) ||
        !graft_size_add(bytes, sizeof(graft_result), &bytes))
        return NULL;
    graft_result *r = graft_calloc(1, bytes);
    if (!r) return NULL;
    r->refs = 1;
    r->n_out = n_out;
    return r;
}

void graft_result_retain(graft_result *r)
{
    r->refs++;
}

void graft_result_release(graft_result *r)
{
    if (!r || --r->refs) return;
    for (size_t i = 0; i < r->n_out; i++) graft_slot_finish(&r->slot[i]);
    cJSON_Delete(r->ui);
    cJSON_Delete(r->warnings);
    graft_free(r->inner);
    graft_free(r);
}
