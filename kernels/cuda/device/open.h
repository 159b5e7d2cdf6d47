/* NVIDIA's libraries, found at run time: nothing of them is linked. */
#ifndef GRAFT_KERNELS_CUDA_OPEN_H
#define GRAFT_KERNELS_CUDA_OPEN_H
#include "base/dl.h"

/* The first of `names` (NULL-terminated) that loads: from the folders of GRAFT_CUDA_LIBS (joined by
 * colons), by the system's search, from the usual folders of a CUDA toolkit, in this order. On
 * failure the message says what was looked for, where, and why the system's search failed. */
graft_status graft_cuda_open(const char *const *names, graft_dl *out, graft_err *e);
/* The file that was loaded: "" where the system cannot tell. Lives as long as the library. */
const char *graft_cuda_path(const graft_dl *dl);
/* Fills the table's functions, named one after the other in `names` (NULL-terminated). */
graft_status graft_cuda_symbols(const graft_dl *dl, const char *const *names, void *table,
                                const char *library, graft_err *e);
#endif
