/* Loading node plugins, and the registry of their nodes. Part of a host; uses base/ only. */
#ifndef GRAFT_PLUGIN_LOADER_H
#define GRAFT_PLUGIN_LOADER_H
#include <stddef.h>

#include "base/error.h"
#include "base/log.h"
#include "plugin/graft_plugin.h"

typedef struct graft_registry graft_registry;

/* `host` must outlive the registry. [main] */
graft_status graft_registry_create(const graft_host *host, graft_registry **out, graft_err *e);
/* Calls deinit of every plugin, once for each init, in reverse order; unloads nothing. All values
 * and instances must be gone. [main] */
void graft_registry_destroy(graft_registry *r);

/* Loads one file: versions are compared before any code of it runs; a refusal names the file and
 * both versions. Nodes whose id is taken already are skipped with a warning. [main] */
graft_status graft_registry_load(graft_registry *r, const char *path, const graft_log *log,
                                 graft_err *e);
/* Loads every *.so in the folder in order of name; kernel libraries (graft_kernels_*) are passed
 * over. A bad file is reported to `log` and skipped; *n_loaded counts the good ones. [main] */
graft_status graft_registry_load_folder(graft_registry *r, const char *folder, const graft_log *log,
                                        size_t *n_loaded, graft_err *e);

typedef struct graft_registry_node {
    const graft_node *node;
    const graft_plugin *plugin;
    const char *path; /* of the plugin's file */
} graft_registry_node;
/* By class name; NULL when unknown. [any] after loading */
const graft_registry_node *graft_registry_find(const graft_registry *r, const char *id);
/* In the order of loading; NULL past the end. [any] after loading */
const graft_registry_node *graft_registry_at(const graft_registry *r, size_t i);

/* Has each plugin give back the memory that it holds and nothing uses ("graft.memory/1"). [any]
 * after loading */
void graft_registry_release_memory(const graft_registry *r);

/* Tries a plugin against every rule of the ABI that can be checked from outside: the symbol table,
 * versions, record sizes, texts, ranges, choices, nested init, node list, create and destroy. Each
 * finding is one line to `log` (GRAFT_LOG_ERROR: a broken rule, GRAFT_LOG_WARN: bad style).
 * GRAFT_OK when no rule is broken. [main] */
graft_status graft_plugin_check(const char *path, const graft_host *host, const graft_log *log,
                                graft_err *e);

/* Reads member `m` of record *r of type T, or zero when the maker's record is too short for it. */
#define GRAFT_FIELD(T, r, m)                                                                       \
    ((r)->size >= offsetof(T, m) + sizeof((r)->m) ? (r)->m : (__typeof__((r)->m))0)
#endif
