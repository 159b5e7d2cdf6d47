/* Lists, and accumulations: values that are not spread and grow by one value at a time. */
#include "tests/plugins/comfy_testnodes.h"

static graft_status give_list(graft_job *j, graft_arg *out, list *l)
{
    if (!l) return no_memory(j);
    give(out, &l->value);
    return GRAFT_OK;
}
/* A list of the items `from` to `to` of another one (NULL: none), and room for `more`. */
static list *copy_of(const graft_value_ops *ops, const list *old, uint64_t from, uint64_t to,
                     uint64_t more)
{
    list *l = list_create(ops, (old ? old->n : 0) + more);
    for (uint64_t i = from; l && old && i < to; i++) {
        if (list_push(l, &old->item[i])) continue;
        list_release(&l->value);
        l = NULL;
    }
    return l;
}

#define LIST_INPUTS 9
static graft_status run_list(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self;
    list *l = list_create(&list_ops, LIST_INPUTS);
    for (uint64_t i = 0; l && i < LIST_INPUTS; i++) {
        if (in[i].kind == GRAFT_NONE || list_push(l, &in[i])) continue;
        list_release(&l->value);
        l = NULL;
    }
    return give_list(j, out, l);
}

static graft_status run_add(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const list *old = accumulation_of(&in[1]);
    (void)self;
    list *l = copy_of(&accumulation_ops, old, 0, old ? old->n : 0, 1);
    if (l && !list_push(l, &in[0])) {
        list_release(&l->value);
        l = NULL;
    }
    return give_list(j, out, l);
}
/* What is left, and the value at one end. Of an empty one: see run_head() and run_tail(). */
static graft_status split(graft_job *j, const list *old, graft_arg *out, int head)
{
    list *l = head ? copy_of(&accumulation_ops, old, 1, old->n, 0)
                   : copy_of(&accumulation_ops, old, 0, old->n - 1, 0);
    graft_status st = give_list(j, &out[0], l);
    if (!st) pass(&out[1], &old->item[head ? 0 : old->n - 1]);
    return st;
}
static graft_status run_head(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const list *old = accumulation_of(&in[0]);
    (void)self;
    if (!old) return fail(j, "no accumulation");
    if (old->n) return split(j, old, out, 1);
    pass(&out[0], &in[0]); /* and nothing */
    return GRAFT_OK;
}
static graft_status run_tail(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const list *old = accumulation_of(&in[0]);
    (void)self;
    if (!old) return fail(j, "no accumulation");
    if (old->n) return split(j, old, out, 0);
    pass(&out[1], &in[0]); /* nothing in the place of what is left */
    return GRAFT_OK;
}
static graft_status run_to_list(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const list *old = accumulation_of(&in[0]);
    (void)self;
    return give_list(j, out, copy_of(&list_ops, old, 0, old ? old->n : 0, 0));
}
static graft_status run_from_list(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const graft_list_api *api = in[0].u.v->ops->query(in[0].u.v, GRAFT_LIST_ID);
    (void)self;
    if (!api) return fail(j, "list is no list");
    uint64_t n = api->count(in[0].u.v);
    list *l = list_create(&accumulation_ops, n);
    for (uint64_t i = 0; l && i < n; i++) {
        graft_arg item = {0};
        if (!api->at(in[0].u.v, i, &item) && list_push(l, &item)) continue;
        list_release(&l->value);
        l = NULL;
    }
    return give_list(j, out, l);
}
static graft_status run_length(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const list *old = accumulation_of(&in[0]);
    (void)self, (void)j;
    out->kind = GRAFT_INT;
    out->u.i = old ? (int64_t)old->n : 0;
    return GRAFT_OK;
}
/* A place in the list, counted from its end when negative; its length: there is no such place. */
static uint64_t place(const list *l, int64_t index)
{
    if (index < 0) index += (int64_t)l->n;
    return index >= 0 && (uint64_t)index < l->n ? (uint64_t)index : l->n;
}
static graft_status run_item(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const list *old = accumulation_of(&in[0]);
    (void)self;
    if (!old || place(old, in[1].u.i) == old->n) return fail(j, "no such item");
    pass(out, &old->item[place(old, in[1].u.i)]);
    return GRAFT_OK;
}
static graft_status run_replace(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    const list *old = accumulation_of(&in[0]);
    (void)self;
    if (!old || place(old, in[1].u.i) == old->n) return fail(j, "no such item");
    list *l = list_create(&accumulation_ops, old->n);
    for (uint64_t i = 0; l && i < old->n; i++) {
        if (list_push(l, i == place(old, in[1].u.i) ? &in[2] : &old->item[i])) continue;
        list_release(&l->value);
        l = NULL;
    }
    return give_list(j, out, l);
}

IN(in_value1, "value1", "*", .kind = GRAFT_OBJECT);
#define MORE(i)                                                                                    \
    IN(in_value##i, "value" #i, "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_OPTIONAL)
MORE(2);
MORE(3);
MORE(4);
MORE(5);
MORE(6);
MORE(7);
MORE(8);
MORE(9);
IN(in_to_add, "to_add", "*", .kind = GRAFT_OBJECT);
IN(in_old, "accumulation", "ACCUMULATION", .kind = GRAFT_OBJECT);
IN(in_maybe, "accumulation", "ACCUMULATION", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_OPTIONAL);
IN(in_list, "list", "*", .kind = GRAFT_OBJECT, .flags = GRAFT_INPUT_LIST);
IN(in_index, "index", "INT", .kind = GRAFT_INT);
IN(in_value, "value", "*", .kind = GRAFT_OBJECT);
OUT(out_list, "*", GRAFT_OUTPUT_LIST);
OUT(out_any, "*", 0);
OUT(out_int, "INT", 0);
OUT(out_new, "ACCUMULATION", 0);

static const graft_node nodes[] = {
    NODE("TestMakeListNode", 0,
         INS(&in_value1, &in_value2, &in_value3, &in_value4, &in_value5, &in_value6, &in_value7,
             &in_value8, &in_value9),
         OUTS(&out_list), run_list, NULL),
    NODE("TestAccumulateNode", 0, INS(&in_to_add, &in_maybe), OUTS(&out_new), run_add, NULL),
    NODE("TestAccumulationHeadNode", 0, INS(&in_old), OUTS(&out_new, &out_any), run_head, NULL),
    NODE("TestAccumulationTailNode", 0, INS(&in_old), OUTS(&out_new, &out_any), run_tail, NULL),
    NODE("TestAccumulationToListNode", 0, INS(&in_old), OUTS(&out_list), run_to_list, NULL),
    NODE("TestListToAccumulationNode", 0, INS(&in_list), OUTS(&out_new), run_from_list, NULL),
    NODE("TestAccumulationGetLengthNode", 0, INS(&in_old), OUTS(&out_int), run_length, NULL),
    NODE("TestAccumulationGetItemNode", 0, INS(&in_old, &in_index), OUTS(&out_any), run_item, NULL),
    NODE("TestAccumulationSetItemNode", 0, INS(&in_old, &in_index, &in_value), OUTS(&out_new),
         run_replace, NULL),
};
NODE_LIST(list_nodes, nodes)
