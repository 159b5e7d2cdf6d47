/* Shared objects by dlopen. Libraries are never unloaded: their threads and drivers may outlive any
 * moment at which unloading would be safe. Any thread. */
#ifndef GRAFT_BASE_DL_H
#define GRAFT_BASE_DL_H
#include "base/error.h"

typedef struct graft_dl {
    void *handle;
} graft_dl;

/* RTLD_NOW | RTLD_LOCAL: every symbol is resolved here and none of them is shared. */
graft_status graft_dl_open(const char *path, graft_dl *out, graft_err *e);
/* NULL when the library has no such symbol. */
void *graft_dl_symbol(const graft_dl *dl, const char *name);
/* Folder of the file that contains `address`, without a trailing slash (graft_free); NULL when the
 * system cannot tell. Finds libraries that were installed beside this one. */
char *graft_dl_folder_of(const void *address);
#endif
