/* One node in words, for a terminal of 80 columns: `graft nodes NAME`. One thread. */
#ifndef GRAFT_HOST_SCHEMA_DESCRIBE_H
#define GRAFT_HOST_SCHEMA_DESCRIBE_H
#include "base/str.h"
#include "host/schema/near.h"
#include "plugin/loader.h"

/* The node with this class name; else the one node whose class or title it is when capitals do not
 * count. GRAFT_E_NOTFOUND names some that are near. Borrowed from the registry. */
graft_status graft_describe_find(const graft_registry *r, const char *name,
                                 const graft_registry_node **out, graft_err *e);
/* Adds the classes that may have been meant, by their own names or their titles. */
void graft_describe_near(const graft_registry *r, graft_near *near);
/* Appends what the node does, its inputs with type, initial value, limits and tooltip, and its
 * outputs. Choices are those of this machine. */
graft_status graft_describe(const graft_host *host, const graft_node *node, graft_str *out,
                            graft_err *e);
#endif
