/* Lists of engine objects: what an input with GRAFT_INPUT_LIST gets, and what an output with
 * GRAFT_OUTPUT_LIST gives ("graft.list/1"). A list is filled by its creator alone, then immutable
 * and reference-counted; any thread. */
#ifndef GRAFT_NODES_LIST_H
#define GRAFT_NODES_LIST_H
#include "nodes/call/value.h"

/* An empty list with room for so many elements. */
graft_status graft_list_create(size_t room, graft_value **out, graft_err *e);
/* Wraps `object` and takes over the caller's reference to it, also on failure. */
graft_status graft_list_push(graft_value *list, graft_value_kind kind, void *object, graft_err *e);

/* The list of any plugin as one of ours, each element adopted as graft_value_adopt() does it.
 * GRAFT_E_ARG when `v` is no list or has an element of another type. */
graft_status graft_list_adopt(const graft_value *v, graft_value_kind kind, graft_value **out,
                              graft_err *e);

/* Of a list that create or adopt made; objects are borrowed. */
size_t graft_list_count(const graft_value *list);
void *graft_list_object(const graft_value *list, size_t i, graft_value_kind kind);
#endif
