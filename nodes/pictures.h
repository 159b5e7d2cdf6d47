/* Saving pictures as PNG files that hold their workflow. One thread. */
#ifndef GRAFT_NODES_PICTURES_H
#define GRAFT_NODES_PICTURES_H
#include "nodes/call.h"

/* Saves each picture of the batch as PNG with the workflow as metadata and shows it. `folder`:
 * "output" or "temp"; `prefix` may hold %batch_num% beside what the host replaces; `level`: zlib's,
 * 0-9. Writes nothing when the job only prepares caches. Files that were complete before a failure
 * stay. */
graft_status graft_pictures_save(graft_call *c, const graft_image *images, const char *folder,
                                 const char *prefix, int level);
#endif
