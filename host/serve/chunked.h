/* Bodies with `Transfer-Encoding: chunked` (RFC 9112, 7.1): the library hands over what comes as
 * it is. One thread, nothing to free. */
#ifndef GRAFT_HOST_SERVE_CHUNKED_H
#define GRAFT_HOST_SERVE_CHUNKED_H
#include <stddef.h>
#include <stdint.h>

#define GRAFT_CHUNKED_EXTRA 16384 /* bytes of extensions and trailers in one body */

typedef struct graft_chunked { /* zeroed: at the beginning of a body */
    int state, digits;
    uint64_t left; /* bytes of the piece that are still to come */
    size_t extra;
} graft_chunked;

typedef enum graft_chunked_event {
    GRAFT_CHUNKED_MORE, /* all input is used up */
    GRAFT_CHUNKED_DATA, /* some bytes of the body */
    GRAFT_CHUNKED_END,  /* the body is complete; what is left of the input does not belong to it */
    GRAFT_CHUNKED_BAD
} graft_chunked_event;

/* Takes input up to the next event and moves `in` behind it. For DATA, `data` and `size` are a part
 * of the input. After END and BAD there is nothing more to call. */
graft_chunked_event graft_chunked_next(graft_chunked *c, const uint8_t **in, const uint8_t *end,
                                       const uint8_t **data, size_t *size);
#endif
