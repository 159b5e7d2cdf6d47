/* The compiled-graph cache on disk: one file an entry, for many processes at once.
 *
 * A file holds a header (magic, format version, key, length, checksum) and the entry: the optimised
 * graph in text form and the chosen kernel variants. Never weights. It is written to a temporary and
 * renamed. A file that is truncated, damaged, of another version or another key is reported, removed
 * and made anew; a folder that cannot be written is reported once, and work goes on without. */
#ifndef GRAFT_CACHE_DISK_H
#define GRAFT_CACHE_DISK_H
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

#define GRAFT_DISK_FORMAT 1u

typedef struct graft_disk_cache graft_disk_cache; /* any thread */

/* The folder is made at the first write. max_bytes: of all files; the longest unused go first. */
graft_status graft_disk_cache_create(const char *folder, uint64_t max_bytes, const graft_log *log,
                                     graft_disk_cache **out, graft_err *e);
void graft_disk_cache_destroy(graft_disk_cache *c);
/* *data is freed with graft_free(); GRAFT_E_NOTFOUND when there is no usable entry. */
graft_status graft_disk_cache_read(graft_disk_cache *c, graft_hash key, char **data, size_t *size);
/* Failures are reported to the log and otherwise without effect. */
void graft_disk_cache_write(graft_disk_cache *c, graft_hash key, const void *data, size_t size);

typedef struct graft_disk_entry {
    char name[48];
    uint64_t bytes;
    int64_t modified; /* seconds since 1970 */
    bool good;        /* header and checksum hold */
} graft_disk_entry;
/* All entries (graft_free); checks each when `verify`. */
graft_status graft_disk_cache_list(graft_disk_cache *c, bool verify, graft_disk_entry **out,
                                   size_t *n, graft_err *e);
/* Removes all entries; *removed counts them. */
graft_status graft_disk_cache_clear(graft_disk_cache *c, size_t *removed, graft_err *e);
const char *graft_disk_cache_folder(const graft_disk_cache *c);
#endif
