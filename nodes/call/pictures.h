/* Saving pictures as PNG files that hold their workflow. One thread. */
#ifndef GRAFT_NODES_PICTURES_H
#define GRAFT_NODES_PICTURES_H
#include "nodes/call/call.h"

/* Saves each picture of the batch as PNG with the workflow as metadata and shows it. `folder`:
 * "output" or "temp"; `prefix` may hold %batch_num% beside what the host replaces; `level`: zlib's,
 * 0-9; `bits`: 8 or 16 a channel. Writes nothing when the job only prepares caches. Files that
 * were complete before a failure stay. */
graft_status graft_pictures_save(graft_call *c, const graft_image *images, const char *folder,
                                 const char *prefix, int level, int bits);
/* Saves the whole batch in the output folder as one animated PNG of `fps` pictures a second; as
 * above otherwise, and the node says that its picture is an animation. */
graft_status graft_pictures_save_apng(graft_call *c, const graft_image *images, const char *prefix,
                                      double fps, int level);
/* The same as an animated WebP. */
graft_status graft_pictures_save_webp(graft_call *c, const graft_image *images, const char *prefix,
                                      const graft_webp_options *options);
#endif
