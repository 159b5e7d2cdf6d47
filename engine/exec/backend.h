/* Kernel libraries, found in a folder and loaded at run time, and one device of one of them. */
#ifndef GRAFT_EXEC_BACKEND_H
#define GRAFT_EXEC_BACKEND_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "engine/disk/disk.h"
#include "kernels/kernel_abi.h"

typedef struct graft_backend {
    const graft_kernels *lib;
    const graft_kernels_api *api;
    graft_device *device;
    graft_device_info info;
    graft_hash identity; /* library, its code, device: part of every cache key */
    char name[32];
    int threads;            /* that work for it may use; 0 is one */
    graft_disk_cache *disk; /* for what the library keeps; NULL: nothing */
    atomic_int no_disk;     /* work that must not touch the disk goes on */
    /* Bytes that recorded runs hold on the device (recordings.h), and may hold; 0: as many as
     * they want */
    _Atomic uint64_t recorded, recorded_most;
} graft_backend;

#define GRAFT_MAX_BACKENDS 8
typedef struct graft_backends {
    graft_backend list[GRAFT_MAX_BACKENDS]; /* best first; device NULL until first used */
    const char *name[GRAFT_MAX_BACKENDS + 1];
    size_t count;
    int threads;
    graft_disk_cache *disk; /* set by the owner before the first get(); may be NULL */
    graft_log log;
    struct { /* libraries that cannot run here, and why */
        char name[32], why[480];
    } absent[GRAFT_MAX_BACKENDS];
    size_t n_absent;
} graft_backends;

/* Loads every graft_kernels_*.so of the folder whose score says that it can run here. A library
 * that does not load or has another ABI version is reported and passed over. */
graft_status graft_backends_load(graft_backends *b, const char *folder, int threads,
                                 const graft_log *log, graft_err *e);
void graft_backends_finish(graft_backends *b);
/* By name, or the best for "auto" and NULL; its device is made at first use. Not thread-safe: the
 * engine calls it under its lock. */
graft_status graft_backends_get(graft_backends *b, const char *name, graft_backend **out,
                                graft_err *e);
/* What a library has beyond the plain table; NULL for older and simpler ones. Any thread. */
const graft_kernels_more *graft_backend_more(const graft_backend *b);
bool graft_backend_wants(const graft_backend *b, uint32_t bit); /* GRAFT_WANTS_…; any thread */
/* Whether it multiplies matrices of this type. Any thread. */
bool graft_backend_computes_in(const graft_backend *b, graft_dtype dtype);
/* So many bytes, up to where another value may begin in its memory. */
static inline uint64_t graft_backend_aligned(const graft_backend *b, uint64_t bytes)
{
    const uint64_t align = b->info.alignment ? b->info.alignment : 256;
    return (bytes + align - 1) / align * align;
}
#endif
