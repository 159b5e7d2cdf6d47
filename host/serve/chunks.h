/* Bodies with `Transfer-Encoding: chunked` (RFC 9112, 7.1): the library hands over what comes as
 * it is. One thread, nothing to free. */
#ifndef GRAFT_HOST_SERVE_CHUNKS_H
#define GRAFT_HOST_SERVE_CHUNKS_H
#include <stddef.h>
#include <stdint.h>

#define GRAFT_CHUNKS_EXTRA 16384 /* bytes of extensions and trailers in one body */

typedef struct graft_chunks { /* zeroed: at the beginning of a body */
    int state, digits;
    uint64_t left; /* bytes of the piece that are still to come */
    size_t extra;
} graft_chunks;

typedef enum graft_chunks_event {
    GRAFT_CHUNKS_MORE, /* all input is used up */
    GRAFT_CHUNKS_DATA, /* some bytes of the body */
    GRAFT_CHUNKS_END,  /* the body is complete; what is left of the input does not belong to it */
    GRAFT_CHUNKS_BAD
} graft_chunks_event;

/* Takes input up to the next event and moves `in` behind it. For DATA, `data` and `size` are a part
 * of the input. After END and BAD there is nothing more to call. */
graft_chunks_event graft_chunks_next(graft_chunks *c, const uint8_t **in, const uint8_t *end,
                                     const uint8_t **data, size_t *size);
#endif
