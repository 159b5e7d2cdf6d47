/* The graft_host that plugins are given. */
#ifndef GRAFT_HOST_SERVICES_SERVICES_H
#define GRAFT_HOST_SERVICES_SERVICES_H
#include <pthread.h>

#include "base/log.h"
#include "host/services/folders.h"
#include "plugin/graft_plugin.h"

/* Notes which folder a node looks into while it is asked for choices or for its own check, so that
 * a message about a missing file can name it. */
typedef struct graft_lookup {
    struct graft_lookup *next;
    pthread_t thread;
    char folder[64]; /* as users know it: "models/loras", "input"; "": none */
} graft_lookup;

/* A table of functions that plugins may ask for. */
typedef struct graft_service {
    const char *id;
    const void *table;
} graft_service;

typedef struct graft_services {
    graft_host host; /* first: the tables find their way back from it */
    const graft_folders *folders;
    const graft_service *more; /* beside folders and log */
    graft_log log;             /* for what plugins say outside jobs */
    pthread_mutex_t lock;      /* guards the list and what is in it */
    graft_lookup *lookup;      /* those that go on now */
} graft_services;

/* `folders` and `more`, a list that ends with an id of NULL, must outlive the services; all must
 * outlive the registry. `log` is copied; NULL: silent. */
void graft_services_init(graft_services *s, const graft_folders *folders, const graft_service *more,
                         const graft_log *log);
void graft_services_finish(graft_services *s); /* fine on a zeroed one */

/* Between these two the calling thread's last folder is noted that it listed, or in which it looked
 * for a file in vain. `host` is that of a graft_services; the caller owns `l`. [any] */
void graft_lookup_begin(graft_lookup *l, const graft_host *host);
void graft_lookup_end(graft_lookup *l, const graft_host *host);
#endif
