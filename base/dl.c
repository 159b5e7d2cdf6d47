#include "base/dl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

graft_status graft_dl_open(const char *path, graft_dl *out, graft_err *e)
{
    out->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (out->handle) return GRAFT_OK;
    const char *why = dlerror();
    size_t n = strlen(path);
    if (why && strncmp(why, path, n) == 0 && strncmp(why + n, ": ", 2) == 0) why += n + 2;
    return graft_fail(e, GRAFT_E_IO, "%s: cannot load: %s", path, why ? why : "no reason given");
}

void *graft_dl_symbol(const graft_dl *dl, const char *name)
{
    return dlsym(dl->handle, name);
}

char *graft_dl_folder_of(const void *address)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) return NULL;
    char *real = realpath(info.dli_fname, NULL);
    if (!real) return NULL;
    char *slash = strrchr(real, '/');
    char *folder = slash ? graft_strndup(real, (size_t)(slash - real)) : NULL;
    free(real);
    return folder;
}
