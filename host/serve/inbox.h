/* What a WebSocket client says, put together from the pieces in which it comes. Clients have one
 * thing to say: which features they know, as their first message. The thread that owns the sockets.
 */
#ifndef GRAFT_HOST_SERVE_INBOX_H
#define GRAFT_HOST_SERVE_INBOX_H
#include <stdbool.h>
#include <stddef.h>

#define GRAFT_INBOX_MAX 16384 /* bytes of the longest message that is read */

typedef struct graft_inbox {
    char *text; /* of a message that is not complete */
    size_t size;
    bool spoke; /* a message was complete */
    bool rich;  /* the client wants to know of which node a preview is */
} graft_inbox;
void graft_inbox_finish(graft_inbox *b); /* fine on a zeroed one */

typedef enum graft_inbox_result {
    GRAFT_INBOX_OK,
    GRAFT_INBOX_FEATURES, /* the client told its features and waits for ours */
    GRAFT_INBOX_TOO_LONG,
    GRAFT_INBOX_NOMEM
} graft_inbox_result;
/* `last`: the piece completes a message. Anything that is not understood is forgotten. */
graft_inbox_result graft_inbox_take(graft_inbox *b, const void *data, size_t n, bool last,
                                    bool binary);
#endif
