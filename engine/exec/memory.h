/* Where the arrays of a sampling run lie: in the host's memory or in a device's own, so that what
 * copies them and runs graphs on them is written once. A device's work is done in the order in
 * which it is handed over, behind which the host does not wait; a failure may show later. One
 * thread at a time. */
#ifndef GRAFT_EXEC_MEMORY_H
#define GRAFT_EXEC_MEMORY_H
#include "engine/exec/run.h"

typedef struct graft_memory {
    graft_backend *backend; /* NULL: the host's */
} graft_memory;

/* Whether a backend that has memory of its own can copy and clear in it. */
bool graft_memory_works(const graft_backend *b);
/* At least so many bytes, which are anything; NULL: there is no room. */
void *graft_memory_alloc(const graft_memory *m, size_t bytes);
/* Waits for work on it. NULL is fine. */
void graft_memory_free(const graft_memory *m, void *p);
graft_status graft_memory_copy(const graft_memory *m, void *to, const void *from, size_t bytes,
                               graft_err *e);
/* Zeros; on a device up to the next four bytes, which the array has to have. */
graft_status graft_memory_clear(const graft_memory *m, void *p, size_t bytes, graft_err *e);
/* From the host's memory, which is the caller's again on return. */
graft_status graft_memory_put(const graft_memory *m, void *to, const void *from, size_t bytes,
                              graft_err *e);
/* A new array with these bytes of the host's, which is the caller's also where filling it failed;
 * NULL where there is no room for it. what: the message's word for it. */
graft_status graft_memory_place(const graft_memory *m, const void *from, size_t bytes,
                                const char *what, void **out, graft_err *e);
/* st, with the device's words in e where it has any; GRAFT_OK is fine. */
graft_status graft_memory_check(const graft_memory *m, graft_status st, graft_err *e);
/* graft_exe_run() with inputs and outputs in this memory. The binding's backend is that of m, where
 * m has one. */
graft_status graft_memory_run(const graft_memory *m, const graft_binding *b, graft_arenas *arenas,
                              const void *const *in, void *const *out, const graft_task *task,
                              graft_err *e);
#endif
