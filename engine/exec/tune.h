/* Autotuning: which variant of a kernel is the fastest here, found by timing.
 *
 * Results are kept for each operator signature (descriptor and backend) and shared by all graphs, so
 * nothing is tuned twice. Timing runs on scratch memory no larger than the plan's own arena. */
#ifndef GRAFT_EXEC_TUNE_H
#define GRAFT_EXEC_TUNE_H
#include "engine/engine.h"
#include "engine/exec/backend.h"
#include "engine/graph/graph.h"

typedef enum graft_tuning { GRAFT_TUNING_OFF = 0, GRAFT_TUNING_FAST = 1, GRAFT_TUNING_FULL = 2 } graft_tuning;

typedef struct graft_tuner graft_tuner; /* any thread; one operator is timed at a time */
graft_status graft_tuner_create(graft_tuner **out, graft_err *e);
void graft_tuner_destroy(graft_tuner *t);

/* Fills variant[i] for each node of the graph: what earlier timings found, or a new timing, or -1 for
 * the library's own choice (also once the time limit is used up or the scratch memory would exceed
 * max_bytes, when that is not 0). FAST: at most 3 s in all and the most costly operators first; FULL:
 * every operator. */
graft_status graft_tuner_choose(graft_tuner *t, const graft_graph *g, graft_backend *backend,
                                graft_tuning level, int64_t max_bytes, const graft_task *task,
                                int32_t *variant, graft_err *e);
/* The results as text, one line a signature, to be stored beside the cache; and back. */
uint64_t graft_tuner_count(graft_tuner *t);
#endif
