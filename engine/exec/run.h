/* Runs of executables. Any thread; one run at a time of a series. */
#ifndef GRAFT_EXEC_RUN_H
#define GRAFT_EXEC_RUN_H
#include "engine/exec/binding.h"
#include "engine/exec/invariants.h"

/* Time of each step, added up over runs; by the device's own clock where it has one. A run with a
 * profile is no recorded one, and waits for the device. */
typedef struct graft_exe_profile {
    double *seconds; /* one a node */
    size_t n;
    uint64_t runs;
} graft_exe_profile;

/* Runs once. in[i], out[i]: host memory of the graph's inputs and outputs, dense. Blocks. profile
 * may be NULL. GRAFT_E_CANCEL within one operator after task->cancelled says so, or within a part
 * of it where the library asks meanwhile. */
graft_status graft_exe_run(const graft_binding *b, graft_arenas *arenas, const void *const *in,
                           void *const *out, const graft_task *task, graft_exe_profile *profile,
                           graft_err *e);

/* The same as part of a series (invariants.h; NULL: of none), in which the steady inputs have the
 * same values in every run. */
graft_status graft_exe_run_again(const graft_binding *b, graft_arenas *arenas,
                                 graft_invariants *series, const void *const *in, void *const *out,
                                 const graft_task *task, graft_err *e);

/* That with inputs and outputs that are made and used on the device: `before` writes to the
 * addresses of the inputs, `after` reads from those of the outputs, both by work that the device
 * does in the order it is given. Does not wait; a failure of the device may show later. profile may
 * be NULL. */
#define GRAFT_EXE_PLACES 160 /* inputs, and outputs, at most: as many as residuals, and more */
typedef graft_status graft_exe_place(void *ctx, void *const *address);
graft_status graft_exe_run_there(const graft_binding *b, graft_arenas *arenas,
                                 graft_invariants *series, graft_exe_place *before,
                                 graft_exe_place *after, void *ctx, const graft_task *task,
                                 graft_exe_profile *profile, graft_err *e);
#endif
