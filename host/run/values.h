/* Values as the host keeps them between two nodes: owned arguments, vectors of them, and what one
 * node gave. */
#ifndef GRAFT_HOST_RUN_VALUES_H
#define GRAFT_HOST_RUN_VALUES_H
#include "base/hash.h"
#include "base/json.h"
#include "plugin/graft_plugin.h"

/* An owned argument has its own copy of text and its own reference to an object. */
graft_status graft_arg_copy(const graft_arg *from, graft_arg *to, graft_err *e);
void graft_arg_drop(graft_arg *a); /* leaves NONE */

/* What came out of one output socket: one value a call, or a list's elements. */
typedef struct graft_slot {
    graft_arg *item;
    size_t count, cap;
} graft_slot;
void graft_slot_finish(graft_slot *s);
/* Appends an owned argument; drops it when memory is short. */
graft_status graft_slot_push(graft_slot *s, graft_arg *item, graft_err *e);
/* Appends copies of all elements of an object that answers "graft.list/1". */
graft_status graft_slot_spread(graft_slot *s, const graft_value *list, graft_err *e);
/* A LIST value with copies of the slot's values; one reference for the caller. */
graft_status graft_slot_as_list(const graft_slot *s, graft_value **out, graft_err *e);

/* Everything one node gave; shared by a run and the cache. Counted; not thread-safe. */
typedef struct graft_result {
    size_t refs, n_out;
    cJSON *ui;         /* object of arrays, or NULL */
    cJSON *warnings;   /* array of texts, or NULL */
    graft_hash *inner; /* owned: keys under which the cache has what an expansion computed */
    size_t n_inner;
    uint64_t used; /* by a cache: larger is later */
    graft_slot slot[];
} graft_result;
graft_result *graft_result_create(size_t n_out); /* NULL when out of memory */
void graft_result_retain(graft_result *r);
void graft_result_release(graft_result *r); /* NULL is fine */
#endif
