#include "kernels/cuda/device/open.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usual_folders[] =
    "/usr/local/cuda/lib64:/usr/local/cuda/lib:/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu:"
    "/usr/lib64";

/* Tries the name in each folder of a colon-separated list. */
static bool open_in(const char *folders, const char *name, graft_dl *out)
{
    char path[1024];
    for (const char *at = folders; at && *at;) {
        size_t n = strcspn(at, ":");
        int length = snprintf(path, sizeof path, "%.*s/%s", (int)n, at, name);
        if (n && length > 0 && (size_t)length < sizeof path &&
            graft_dl_open(path, out, NULL) == GRAFT_OK)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

graft_status graft_cuda_open(const char *const *names, graft_dl *out, graft_err *e)
{
    const char *own = getenv("GRAFT_CUDA_LIBS");
    graft_err why = GRAFT_ERR_INIT;
    for (size_t i = 0; names[i]; i++)
        if (open_in(own, names[i], out)) return GRAFT_OK;
    for (size_t i = 0; names[i]; i++)
        if (graft_dl_open(names[i], out, i ? NULL : &why) == GRAFT_OK) return GRAFT_OK;
    for (size_t i = 0; names[i]; i++)
        if (open_in(usual_folders, names[i], out)) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_NOTFOUND, "%s (looked in %s%s%s and where the system looks)",
                      why.text, own && *own ? own : "", own && *own ? ", " : "", usual_folders);
}

const char *graft_cuda_path(const graft_dl *dl)
{
    struct link_map *map = NULL;
    if (dlinfo(dl->handle, RTLD_DI_LINKMAP, &map) || !map || !map->l_name) return "";
    return map->l_name;
}

graft_status graft_cuda_symbols(const graft_dl *dl, const char *const *names, void *table,
                                const char *library, graft_err *e)
{
    for (size_t i = 0; names[i]; i++) {
        void *f = graft_dl_symbol(dl, names[i]);
        if (!f)
            return graft_fail(e, GRAFT_E_NOTFOUND, "%s has no %s: it is too old", library,
                              names[i]);
        memcpy((char *)table + i * sizeof f, &f, sizeof f);
    }
    return GRAFT_OK;
}
