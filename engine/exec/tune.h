/* Autotuning: which variant of a kernel is the fastest here, found by timing.
 *
 * Timings are kept for each operator signature (descriptor without the dtype of constants, and
 * backend), shared by all graphs and written beside the compiled graphs, one file a backend, so
 * that nothing is timed twice. */
#ifndef GRAFT_EXEC_TUNE_H
#define GRAFT_EXEC_TUNE_H
#include "engine/disk/disk.h"
#include "engine/engine.h"
#include "engine/exec/exe.h"
#include "engine/exec/trial.h"

typedef enum graft_tuning {
    GRAFT_TUNING_OFF = 0,
    GRAFT_TUNING_FAST = 1,
    GRAFT_TUNING_FULL = 2
} graft_tuning;

#define GRAFT_TUNING_FAST_SECONDS 3.0

typedef struct graft_tuner graft_tuner; /* any thread; one operator is timed at a time */
/* disk: where results are kept, borrowed; NULL: in memory only. */
graft_status graft_tuner_create(graft_disk_cache *disk, graft_tuner **out, graft_err *e);
void graft_tuner_destroy(graft_tuner *t);

typedef struct graft_tuner_request {
    const graft_exe *exe; /* with the library's own choices */
    graft_tuning level;
    bool use_disk;
    int64_t max_bytes; /* that a trial may take */
} graft_tuner_request;

/* Fills variant[i] for each node of the graph: what earlier timings found, or a new timing, or -1
 * for the library's own choice. OFF: -1 for all. FAST: new timings for at most 3 s in all, the most
 * costly operators first, without variants that take long to prepare; FULL: every operator, anew
 * where FAST left out some. An operator whose trial has no room stays at -1.
 * Progress counts trials. GRAFT_E_CANCEL keeps the results so far. */
graft_status graft_tuner_choose(graft_tuner *t, const graft_tuner_request *request,
                                const graft_task *task, int32_t *variant, graft_err *e);
/* Signatures with a result in memory. */
uint64_t graft_tuner_count(graft_tuner *t);
/* The result for node i of an executable, with the library's own choices or others; false: there is
 * none. */
bool graft_tuner_find(graft_tuner *t, const graft_exe *x, size_t i, graft_trial *out);
/* What stands for node i in the table of results. */
graft_hash graft_tuner_signature(const graft_graph *g, size_t i, const graft_backend *backend);
#endif
