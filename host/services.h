/* The graft_host that plugins are given. */
#ifndef GRAFT_HOST_SERVICES_H
#define GRAFT_HOST_SERVICES_H
#include "host/folders.h"
#include "plugin/graft_plugin.h"

typedef struct graft_services {
    graft_host host; /* first: the tables find their way back from it */
    const graft_folders *folders;
} graft_services;

/* `folders` must outlive the services; both must outlive the registry. */
void graft_services_init(graft_services *s, const graft_folders *folders);
#endif
