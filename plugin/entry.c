#include "plugin/entry.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dl.h"
#include "plugin/elf.h"

static graft_status compare_versions(const char *path, uint32_t major, uint32_t minor, graft_err *e)
{
    if (major == GRAFT_ABI_MAJOR && minor <= GRAFT_ABI_MINOR) return GRAFT_OK;
    return graft_fail(
        e, GRAFT_E_UNSUPPORTED, "%s: made for plugin ABI %u.%u, this host speaks %u.%u; %s", path,
        major, minor, GRAFT_ABI_MAJOR, GRAFT_ABI_MINOR,
        major == GRAFT_ABI_MAJOR ? "a newer host is needed" : "the two cannot work together");
}

/* The version stands in the first bytes of a constant, so it can be read where even the library's
 * constructors have not run. */
static graft_status check_file(const char *path, graft_err *e)
{
    graft_elf f;
    graft_elf_symbol s;
    uint32_t version[2];
    graft_status st = graft_elf_init(&f, path, e);
    if (st != GRAFT_OK) return st;
    if (!graft_elf_find(&f, GRAFT_PLUGIN_SYMBOL, &s)) {
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: not a Graft plugin (it does not export %s)", path,
                        GRAFT_PLUGIN_SYMBOL);
        goto out;
    }
    const void *p = graft_elf_bytes(&f, s.address, sizeof version);
    if (!p || !s.data || s.size < sizeof version) {
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: %s is not a constant of type graft_plugin", path,
                        GRAFT_PLUGIN_SYMBOL);
        goto out;
    }
    memcpy(version, p, sizeof version);
    GRAFT_TRY(compare_versions(path, version[0], version[1], e));
    if (s.size < sizeof(graft_plugin))
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: %s has %llu bytes, not %zu", path,
                        GRAFT_PLUGIN_SYMBOL, (unsigned long long)s.size, sizeof(graft_plugin));
out:
    graft_elf_finish(&f);
    return st;
}

static graft_status check_entry(const char *path, const graft_plugin *p, graft_err *e)
{
    const char *missing = !p->id || !p->id[0] ? "id"
                          : !p->version       ? "version"
                          : !p->init          ? "init"
                          : !p->deinit        ? "deinit"
                          : !p->node          ? "node"
                                              : NULL;
    if (!missing) return compare_versions(path, p->abi_major, p->abi_minor, e);
    return graft_fail(e, GRAFT_E_FORMAT, "%s: %s.%s is missing", path, GRAFT_PLUGIN_SYMBOL,
                      missing);
}

graft_status graft_entry_open(const char *path, const graft_plugin **entry, char **folder,
                              graft_err *e)
{
    graft_dl dl;
    *entry = NULL;
    *folder = NULL;
    graft_status st = check_file(path, e);
    if (st != GRAFT_OK) return st;
    /* A name without a slash would be searched for in the system's folders. */
    char *real = realpath(path, NULL);
    if (!real) return graft_fail(e, GRAFT_E_IO, "%s: cannot be found any more", path);
    GRAFT_TRY(graft_dl_open(real, &dl, e));
    const graft_plugin *p = graft_dl_symbol(&dl, GRAFT_PLUGIN_SYMBOL);
    if (!p) {
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: lost %s while loading", path, GRAFT_PLUGIN_SYMBOL);
        goto out;
    }
    GRAFT_TRY(check_entry(path, p, e));
    const char *slash = strrchr(real, '/');
    *folder = slash ? graft_strndup(real, (size_t)(slash - real)) : NULL;
    if (!*folder) {
        st = graft_fail_nomem(e, path);
        goto out;
    }
    *entry = p;
out:
    free(real); /* by realpath(): the system's allocator */
    return st;
}
