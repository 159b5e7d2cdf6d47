/* The socket at which the server listens. Connections are accepted here and handed to the library,
 * so that there is a limit to them: files that a job writes need descriptors, too. */
#ifndef GRAFT_HOST_SERVE_LISTENER_H
#define GRAFT_HOST_SERVE_LISTENER_H
#include "base/error.h"

#define GRAFT_LISTENER_RESERVE 64 /* descriptors that connections leave to others */

typedef struct graft_listener {
    int fd;    /* does not block */
    int port;  /* the one that was taken when 0 was asked for */
    int limit; /* connections get descriptors below this one */
    int spare; /* open, and closed to say no when no other descriptor is left */
} graft_listener;

/* `address` is numeric (IPv4 or IPv6) or "localhost"; "0.0.0.0" and "::" are all of this machine.
 * On failure nothing is open. */
graft_status graft_listener_open(graft_listener *l, const char *address, int port, graft_err *e);
/* Also after a failed open; `fd` may have been given away by setting it to -1. */
void graft_listener_close(graft_listener *l);
/* A connection that the caller owns, non-blocking, or -1 when none waits. Those beyond the limit
 * are closed at once. */
int graft_listener_accept(graft_listener *l);
#endif
