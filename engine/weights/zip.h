/* Zip archives, of which entries can be read that are stored as they are: torch.save writes such
 * (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3 and 4.5.3: with the 64-bit
 * fields). Entries are found by the central directory, and every offset is checked against the
 * archive's size. Checksums are not looked at. */
#ifndef GRAFT_WEIGHTS_ZIP_H
#define GRAFT_WEIGHTS_ZIP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct graft_zip_entry {
    char *name;
    const uint8_t *data; /* inside the archive; NULL when it is compressed or encrypted */
    size_t size;
} graft_zip_entry;

/* Immutable once open; any thread. */
typedef struct graft_zip graft_zip;

/* `data` stays the caller's and must outlive the archive; `what` names it in messages.
 * GRAFT_E_FORMAT: no zip archive or a damaged one; GRAFT_E_UNSUPPORTED: one in several parts. */
graft_status graft_zip_open(const void *data, size_t size, const char *what, graft_zip **out,
                            graft_err *e);
void graft_zip_close(graft_zip *z);
size_t graft_zip_count(const graft_zip *z);
/* In the directory's order. */
const graft_zip_entry *graft_zip_at(const graft_zip *z, size_t i);
/* NULL when absent; of entries with one name the first. */
const graft_zip_entry *graft_zip_find(const graft_zip *z, const char *name);
#endif
