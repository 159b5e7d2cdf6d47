/* From a plugin's file to its entry, with every refusal that is possible before its code runs. */
#ifndef GRAFT_PLUGIN_ENTRY_H
#define GRAFT_PLUGIN_ENTRY_H
#include "base/error.h"
#include "plugin/graft_plugin.h"

/* Compares versions in the file, then loads it. *folder: the real folder of the file (graft_free).
 * Refusals name the file, and both versions if these are at fault. init() is left to the caller.
 * [main] */
graft_status graft_entry_open(const char *path, const graft_plugin **entry, char **folder,
                              graft_err *e);
#endif
