/* One connection, as HTTP and after an upgrade as WebSocket; for the transport's own files. All of
 * it belongs to the thread that owns the sockets. */
#ifndef GRAFT_HOST_SERVE_TRANSPORT_INSIDE_H
#define GRAFT_HOST_SERVE_TRANSPORT_INSIDE_H
#include <libwebsockets.h>
#include <stdatomic.h>
#include <string.h>

#include "host/serve/chunked.h"
#include "host/serve/inbox.h"
#include "host/serve/listener.h"
#include "host/serve/transport.h"

#define GRAFT_WS_BACKLOG    ((size_t)64 << 20)   /* bytes that wait for one slow client */
#define GRAFT_CONN_HEAD     8192                 /* bytes of an answer's headers */
#define GRAFT_CONN_PIECE    65536                /* bytes of an answer that are sent at once */
#define GRAFT_CONN_WRITABLE 256                  /* connections that wait for one round's end */
#define GRAFT_CONN_BODIES   ((int64_t)768 << 20) /* bytes of all bodies that are being received */

_Static_assert(LWS_PRE <= GRAFT_HUB_HEADROOM, "room for a frame's header");

typedef struct graft_ws_item {
    struct graft_ws_item *next;
    graft_hub_message *message;
} graft_ws_item;

/* A WebSocket client. */
typedef struct graft_ws {
    struct graft_ws *next;
    struct lws *wsi;
    char *id; /* "" once another socket of the client took its place */
    graft_ws_item *first, **last;
    size_t waiting; /* bytes */
    bool logs, doomed;
    graft_inbox inbox;
} graft_ws;

/* What waits for clients without a socket, oldest first; bounded by time, count and bytes. */
typedef struct graft_mail_item {
    struct graft_mail_item *next;
    graft_hub_message *message;
    double time; /* graft_clock_now() */
} graft_mail_item;
typedef struct graft_mail {
    graft_mail_item *first, **last;
    size_t count, bytes;
} graft_mail;

/* A request that is answered by another thread: see transport_later.c. */
typedef struct graft_later {
    struct graft_later *next;
    graft_http_request q; /* until it is in `done`, both are that thread's */
    graft_http_response r;
    struct graft_conn *conn; /* NULL: nobody waits any more */
    size_t held;             /* then: bytes of the body that count in graft_transport.bodies */
    int fd;                  /* its socket, or what was its socket */
} graft_later;
typedef struct graft_later_line {
    pthread_t thread;
    pthread_mutex_t lock; /* guards the lists and `stop` */
    pthread_cond_t changed;
    graft_later *first, **last; /* to be answered, in order */
    graft_later *done;
    bool runs, stop;
} graft_later_line;

/* The library gives each connection one of these, zeroed. */
typedef struct graft_conn {
    bool active; /* q and r hold something */
    bool answered;
    int refused;   /* the status that follows a body which is read and dropped; 0: it is kept */
    bool unwanted; /* who asks may not: a body is dropped likewise, and the answer says why */
    graft_http_request q;
    graft_http_response r;
    graft_later *later; /* q and r are there meanwhile */
    bool due;           /* they have come back, and the answer waits for its turn to be sent */
    struct lws
        *sending; /* NULL, or in the transport's list: a long answer is on its way, or made */
    struct graft_conn *next;
    size_t cap, sent, was_sent; /* was_sent: at the last look, see graft_conn__look() */
    int64_t expect, got;        /* bytes of the body; with `chunked`, got has its borders, too */
    double began;               /* graft_clock_now() at the end of the headers */
    bool chunked;               /* it comes in pieces, and `expect` is no more than a limit */
    graft_chunked chunks;
    graft_ws *ws;
} graft_conn;

struct graft_transport {
    graft_serve *serve;
    struct lws_context *context;
    struct lws_vhost *vhost;
    graft_listener listener; /* its socket is the library's as soon as there is a vhost */
    struct lws_protocols protocol[2];
    lws_sorted_usec_list_t timer;
    graft_ws *clients;
    graft_conn *sending; /* those with long answers */
    graft_mail mail;
    graft_later_line later;
    int64_t bodies; /* bytes that are held for requests */
    bool hurry;     /* the last round left something half done */
    double credit;  /* answers that need not be gathered: see graft_transport_run() */
    int ready;      /* epoll over all connections, -1: none */
    int writable[GRAFT_CONN_WRITABLE]; /* sockets: see graft_ready__writable() */
    size_t n_writable;
    atomic_int stop;
    atomic_bool woken; /* the hub has messages, or a long answer is made */
};

/* Hands what was pushed to the hub since the last time to the sockets it is for. */
void graft_transport__deliver(graft_transport *t);

/* Callbacks of the library: 0 goes on, -1 closes the connection. */
/* For a CONNECT, after which the library takes a connection for no HTTP any more and would keep it
 * for ever: refuses and closes it. */
int graft_conn__not_http(struct lws *wsi);
int graft_conn__request(graft_transport *t, graft_conn *c, struct lws *wsi);
int graft_conn__body(graft_transport *t, graft_conn *c, struct lws *wsi, const void *data,
                     size_t n);
int graft_conn__complete(graft_transport *t, graft_conn *c, struct lws *wsi);
int graft_conn__write(graft_transport *t, graft_conn *c, struct lws *wsi);
void graft_conn__reset(graft_transport *t, graft_conn *c);
/* Now and then: ends connections that take nothing of a long answer and have sent more requests
 * behind it. The library would ask without a pause whether those can be served. */
void graft_conn__look(graft_transport *t);
/* Reads method, path, arguments and headers; false when memory is short or the method is unknown.
 */
bool graft_conn__read(struct lws *wsi, graft_http_request *q);

/* Where its thread cannot be started, all is answered at once. */
void graft_later__init(graft_transport *t);
void graft_later__stop(graft_transport *t);   /* before the library's context goes */
void graft_later__finish(graft_transport *t); /* after that */
/* Hands over the connection's request, which is in the list of those that are sent to; false: it is
 * to be answered now. */
bool graft_later__begin(graft_transport *t, graft_conn *c, struct lws *wsi);
/* The connection closes. */
void graft_later__leave(graft_conn *c);
/* Gives answers that are made to their connections, which then send them. */
void graft_later__deliver(graft_transport *t);

/* Without TLS only. */
void graft_ready__init(graft_transport *t, bool tls);
void graft_ready__finish(graft_transport *t);
void graft_ready__add(graft_transport *t, int fd);
/* This connection has sent all it had and waits for the library to see that it may send again,
 * which graft_ready__flush() says at the end of the round. */
void graft_ready__writable(graft_transport *t, struct lws *wsi);
void graft_ready__flush(graft_transport *t);
/* One round for what connections have sent. Timers and connections that wait until they can send
 * more are left to lws_service(). */
void graft_ready__serve(graft_transport *t);

int graft_ws__confirm(graft_transport *t, struct lws *wsi, const char *protocol);
int graft_ws__open(graft_transport *t, graft_conn *c, struct lws *wsi);
int graft_ws__receive(graft_transport *t, graft_ws *w, const void *data, size_t n);
int graft_ws__write(graft_ws *w, struct lws *wsi);
void graft_ws__close(graft_transport *t, graft_conn *c);
/* Takes a reference. A client that is too slow is given up. */
void graft_ws__queue(graft_transport *t, graft_ws *w, graft_hub_message *m);
void graft_mail__init(graft_mail *mail);
void graft_mail__finish(graft_mail *mail);
/* Takes a reference to a message with a client; pictures and log lines are not kept. */
void graft_mail__keep(graft_mail *mail, graft_hub_message *m);
/* Queues and forgets what waits for this client. */
void graft_mail__hand_over(graft_transport *t, graft_ws *w);
/* graft_serve.subscribe. */
void graft_ws__subscribe(void *ctx, const char *client, bool on);
#endif
