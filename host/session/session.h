/* What every command needs: folders, services, and the registry with its plugins loaded. */
#ifndef GRAFT_HOST_SESSION_SESSION_H
#define GRAFT_HOST_SESSION_SESSION_H
#include "base/log.h"
#include "host/session/options.h"
#include "host/services/services.h"
#include "plugin/loader.h"

typedef struct graft_session {
    graft_folders folders;
    graft_services services;
    graft_registry *registry;
    size_t plugins; /* files loaded */
} graft_session;

/* Warnings and errors to standard error, for commands that draw nothing there. */
extern const graft_log graft_session_log;

/* `s` must stay where it is until graft_session_finish(). [main] */
graft_status graft_session_init(graft_session *s, const graft_options *o, const graft_log *log,
                                graft_err *e);
void graft_session_finish(graft_session *s); /* fine on a zeroed one */
#endif
