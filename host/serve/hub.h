/* What goes out to WebSocket clients: written by any thread, sent by the one that owns the sockets.
 * The order of pushing is the order on every socket. */
#ifndef GRAFT_HOST_SERVE_HUB_H
#define GRAFT_HOST_SERVE_HUB_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define GRAFT_HUB_HEADROOM 32 /* free bytes before the data, for the frame's header */

/* A frame, or two forms of it: clients that announced "supports_preview_metadata" get `rich`. */
typedef struct graft_hub_message {
    struct graft_hub_message *next;
    char *client;          /* NULL: everybody, and nobody in particular */
    uint8_t *plain, *rich; /* with headroom before the data; rich may be NULL */
    size_t plain_size, rich_size;
    bool binary, log; /* log: only clients that subscribed to log lines */
    bool everybody;   /* although it has a client, who misses it while away */
    size_t refs;      /* the sending thread's */
} graft_hub_message;

typedef struct graft_hub {
    pthread_mutex_t lock;
    graft_hub_message *first, **last;
    void (*wake)(void *ctx); /* [any]; NULL until a transport runs */
    void *wake_ctx;
} graft_hub;

void graft_hub_init(graft_hub *h);
void graft_hub_finish(graft_hub *h);
void graft_hub_set_wake(graft_hub *h, void (*wake)(void *ctx), void *ctx); /* [any] */

/* Takes the text of `s` and leaves it empty; text that failed to be built is dropped: a lost event
 * must not end a run. client NULL: everybody. [any] */
void graft_hub_text(graft_hub *h, const char *client, graft_str *s);
/* The same to everybody; kept for this client (NULL: for nobody) while it is away. [any] */
void graft_hub_tell_all(graft_hub *h, const char *client, graft_str *s);
/* The same, for clients that want log lines. [any] */
void graft_hub_log(graft_hub *h, graft_str *s);
/* Binary frames; both are copied. rich_size 0: only one form. [any] */
void graft_hub_binary(graft_hub *h, const char *client, const void *plain, size_t plain_size,
                      const void *rich, size_t rich_size);

/* The whole list, oldest first; each message has one reference. The sending thread only. */
graft_hub_message *graft_hub_take(graft_hub *h);
void graft_hub_release(graft_hub_message *m);
/* A message for one socket that is not in the list, with one reference; NULL without memory. */
graft_hub_message *graft_hub_message_create(graft_str *s);
#endif
