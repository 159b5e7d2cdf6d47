/* A compiled graph run operator by operator with every value kept, and run again from any operator
 * on with changed values: how an error that is made in one place arrives in another.
 *
 * There are two copies of every activation, a clean and a changed one; an operator reads the
 * changed copy where there is one. One thread. */
#ifndef GRAFT_QUANT_REPLAY_H
#define GRAFT_QUANT_REPLAY_H
#include "engine/exec/run.h"

typedef struct graft_replay graft_replay;

/* `quantized`: the same graph with layers quantized; a layer's kernel there is the layer's twin.
 * Keeps references to both bindings. */
graft_status graft_replay_create(graft_binding *b, graft_binding *quantized, graft_replay **out,
                                 graft_err *e);
void graft_replay_destroy(graft_replay *r);
/* Runs the whole graph on `in` (host memory, as for graft_exe_run) and keeps every value; every
 * twin runs beside its layer on the same inputs, and its result is the layer's changed value until
 * the next call that changes it. Runs several times and notes the shortest time of each operator:
 * both sorts are timed in the order of a real run, with weights that other operators have pushed
 * out of the caches. */
graft_status graft_replay_run(graft_replay *r, const void *const *in, const graft_task *task,
                              graft_err *e);
double graft_replay_seconds(const graft_replay *r, size_t node);
bool graft_replay_has_twin(const graft_replay *r, size_t node);
double graft_replay_twin_seconds(const graft_replay *r, size_t node);

/* Values of a node's result. */
int64_t graft_replay_count(const graft_replay *r, size_t node);
/* Sum of the squares of its clean values in `count` columns from `first` on; count 0: in all. */
graft_status graft_replay_square(graft_replay *r, size_t node, int64_t first, int64_t count,
                                 double *out, graft_err *e);
/* Its changed values minus its clean ones; out has graft_replay_count() places. */
graft_status graft_replay_difference(graft_replay *r, size_t node, float *out, graft_err *e);
/* Its changed values become the clean ones plus `difference`. */
graft_status graft_replay_disturb(graft_replay *r, size_t node, const float *difference,
                                  graft_err *e);
/* Forgets all changes. */
void graft_replay_reset(graft_replay *r);
/* Runs the operators after `from` up to and including `to` that read something changed. */
graft_status graft_replay_continue(graft_replay *r, size_t from, size_t to, const graft_task *task,
                                   graft_err *e);
#endif
