/* Who may ask: a page of another site may not, nor one whose name was pointed at this machine, nor
 * anybody without the token when there is one. Any thread. */
#ifndef GRAFT_HOST_SERVE_SECURITY_H
#define GRAFT_HOST_SERVE_SECURITY_H
#include "host/serve/http.h"

typedef struct graft_security {
    const char *token;       /* NULL: none is asked for */
    const char *cors_origin; /* NULL: none; "*": any */
    const char *listen;      /* the address we listen at */
    const char *allow_host;  /* comma-separated names that Host may have; NULL */
} graft_security;

typedef enum graft_verdict {
    GRAFT_VERDICT_OK,
    GRAFT_VERDICT_HOST,   /* 403: a name that is not ours (DNS rebinding) */
    GRAFT_VERDICT_ORIGIN, /* 403: asked for by a page of another site */
    GRAFT_VERDICT_TOKEN   /* 401 */
} graft_verdict;

graft_verdict graft_security_check(const graft_security *s, const graft_http_request *q);
/* True when the request carries the token as "?token=", to be kept in a cookie. */
bool graft_security_by_argument(const graft_security *s, const graft_http_request *q);
/* Headers that let pages of the allowed origin read the answer. */
void graft_security_cors(const graft_security *s, const graft_http_request *q,
                         graft_http_response *r);
/* Takes the same time wherever two texts differ. */
bool graft_security_equal(const char *a, const char *b);
/* 127.0.0.0/8, ::1, localhost and names below it. */
bool graft_security_loopback(const char *host);
#endif
