/* What is kept on disk from one process to the next: one file an entry, for many processes at once.
 *
 * A file holds a header (magic, format version, kind, key, length, checksum) and the entry: the
 * optimised graph in text form with its kernel variants, one backend's timings, or what a kernel
 * library keeps (graft_kernels_host, kernel_abi.h). Never weights.
 * It is written to a temporary and renamed. A file that is truncated, damaged, of another version
 * or another key is reported, removed and made anew; a folder that cannot be used is reported once,
 * and work goes on without. */
#ifndef GRAFT_DISK_DISK_H
#define GRAFT_DISK_DISK_H
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

#define GRAFT_DISK_FORMAT 3u

typedef enum graft_disk_kind {
    GRAFT_DISK_GRAPH = 0,  /* KEY.graft */
    GRAFT_DISK_TUNING = 1, /* KEY.tuning: a few kB, never evicted */
    GRAFT_DISK_KEPT = 2,   /* KEY.kept */
    GRAFT_DISK_KINDS
} graft_disk_kind;

typedef struct graft_disk_cache graft_disk_cache; /* any thread */

/* The folder is made at the first write. max_bytes: of all files; the longest unused go
 * first, but never timings nor the one that was just written. */
graft_status graft_disk_cache_create(const char *folder, uint64_t max_bytes, const graft_log *log,
                                     graft_disk_cache **out, graft_err *e);
void graft_disk_cache_destroy(graft_disk_cache *c);
/* `log` of these: who asked, and hears about trouble; NULL, or silent: the cache's own log.
 *
 * *data is terminated with a zero byte and freed with graft_free(); GRAFT_E_NOTFOUND when there is
 * no usable entry. */
graft_status graft_disk_cache_read(graft_disk_cache *c, graft_disk_kind kind, graft_hash key,
                                   const graft_log *log, char **data, size_t *size);
/* Failures are reported to the log and otherwise without effect. */
void graft_disk_cache_write(graft_disk_cache *c, graft_disk_kind kind, graft_hash key,
                            const graft_log *log, const void *data, size_t size);
/* For an entry whose checksum holds but whose content makes no sense: reports and removes it. */
void graft_disk_cache_reject(graft_disk_cache *c, graft_disk_kind kind, graft_hash key,
                             const graft_log *log, const char *why);
/* Keeps other processes from the same between a read and a write. Waits at most two seconds: -1
 * then, and where the folder cannot be locked; going on is safe, but results of others may be lost.
 */
int graft_disk_cache_lock(graft_disk_cache *c);
void graft_disk_cache_unlock(int lock);

typedef struct graft_disk_entry {
    char name[48];
    uint64_t bytes;
    int64_t modified; /* seconds since 1970 */
    bool good;        /* header and checksum hold, or the entry is old, see below */
    bool tuning;
} graft_disk_entry;
/* All entries (graft_free), in order of name; checks each when `verify`. */
graft_status graft_disk_cache_list(graft_disk_cache *c, bool verify, graft_disk_entry **out,
                                   size_t *n, graft_err *e);
/* True for an entry of another version of the format: no damage, but it is made anew when it is
 * needed. name: of a listed entry. */
bool graft_disk_cache_old(const graft_disk_cache *c, const char *name);
/* Removes all entries and what interrupted writes left; *removed counts the entries. */
graft_status graft_disk_cache_clear(graft_disk_cache *c, size_t *removed, graft_err *e);
const char *graft_disk_cache_folder(const graft_disk_cache *c);
#endif
