/* A picture by a process of its own, seen from outside. */
#ifndef GRAFT_BENCH_GPU_PICTURE_H
#define GRAFT_BENCH_GPU_PICTURE_H
#include "engine/objects/objects.h"

typedef struct gpu_picture {
    double seconds;      /* from starting the process to its end */
    double read_seconds; /* what reading the checkpoint took just before, from the page cache */
    uint64_t file_bytes; /* its size */
    uint64_t peak_bytes; /* the most that was less free on the device meanwhile, looked at every 2
                            ms; 0 where the device does not say */
} gpu_picture;

/* Reads the file `model` whole, then runs `command` (NULL-terminated, its first entry a path) and
 * waits for it. Other processes on the device disturb peak_bytes. GRAFT_E_IO: a file that cannot be
 * read, or a command that cannot be started or does not end with 0. */
graft_status gpu_picture_run(const graft_backend *device, const char *model, char **command,
                             gpu_picture *out, graft_err *e);
#endif
