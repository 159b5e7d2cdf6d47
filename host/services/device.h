/* What plugins compute on, through their "graft.device/1". Any thread after loading. */
#ifndef GRAFT_HOST_SERVICES_DEVICE_H
#define GRAFT_HOST_SERVICES_DEVICE_H
#include "plugin/loader.h"

/* Whether all plugins that compute can do so on the device of this name. */
graft_status graft_device_check(const graft_registry *r, const char *name, graft_err *e);
/* What the first of them computes on where nothing else is said. GRAFT_E_NOTFOUND: none computes.
 */
graft_status graft_device_describe(const graft_registry *r, graft_device_facts *out);
#endif
