/* Memory that lies in a file: what a machine's memory has no room for. The system reads and writes
 * its pages as they are used, and takes them back when memory is short. Files have no name, so that
 * nothing is left of them when the process ends, however it does. Any thread. */
#ifndef GRAFT_EXEC_SPILL_H
#define GRAFT_EXEC_SPILL_H
#include <stdbool.h>
#include <stdint.h>

/* Whether files in the folder are in no memory themselves. It need not be there yet. */
bool graft_spill_helps(const char *folder);
/* Zeros, at a page's begin, in a file of `folder`, which is made if need be. NULL, with the reason
 * in errno, where no file can be made or the disk has not so much room and GRAFT_SPILL_LEFT beside
 * it. */
#define GRAFT_SPILL_LEFT ((uint64_t)1 << 30) /* bytes that are left to others */
void *graft_spill_alloc(const char *folder, uint64_t bytes);
void graft_spill_free(void *p, uint64_t bytes); /* NULL is fine */
/* Begins to read it: it is used soon. */
void graft_spill_soon(void *p, uint64_t bytes);
/* It is not used for a while, and counts no more as the process's memory; nothing in it is lost. */
void graft_spill_done(void *p, uint64_t bytes);
#endif
