/* HTTP and WebSocket connections, through libwebsockets: the only file that knows the library. All
 * sockets belong to the thread that calls graft_transport_run(); see graft_serve_answer() for who
 * makes answers. */
#ifndef GRAFT_HOST_SERVE_TRANSPORT_H
#define GRAFT_HOST_SERVE_TRANSPORT_H
#include "host/serve/serve.h"

typedef struct graft_transport graft_transport;

/* Listens; graft_transport_port() tells at which port when options say 0. */
graft_status graft_transport_create(graft_serve *s, graft_transport **out, graft_err *e);
void graft_transport_destroy(graft_transport *t); /* NULL is fine */
int graft_transport_port(const graft_transport *t);
/* Until graft_transport_stop(). */
void graft_transport_run(graft_transport *t);
void graft_transport_stop(graft_transport *t); /* [any] */
#endif
