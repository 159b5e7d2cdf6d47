/* One HTTP request with its answer, apart from the library that carries them. One thread. */
#ifndef GRAFT_HOST_SERVE_HTTP_H
#define GRAFT_HOST_SERVE_HTTP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"

typedef enum graft_method {
    GRAFT_HTTP_GET = 1,
    GRAFT_HTTP_POST = 2,
    GRAFT_HTTP_PUT = 4,
    GRAFT_HTTP_PATCH = 8,
    GRAFT_HTTP_DELETE = 16,
    GRAFT_HTTP_OPTIONS = 32
} graft_method;

/* Header values are NULL when absent. Text is what the client sent, so nothing can be assumed of it
 * but the terminating zero; path and arguments are percent-decoded. */
typedef struct graft_http_request {
    graft_method method; /* HEAD is GET with `head` */
    bool head, upgrade;  /* upgrade: a WebSocket handshake */
    bool tls;
    char *path; /* without the query */
    char **arg; /* "name=value" */
    size_t n_arg;
    char *host, *origin, *authorization, *cookie, *content_type, *if_none_match, *accept_encoding;
    char *fetch_site, *fetch_mode, *fetch_dest, *range, *if_range;
    uint8_t *body;
    size_t body_size;
} graft_http_request;

void graft_http_request_finish(graft_http_request *q); /* leaves a zeroed one */
/* NULL when the argument was not given. */
const char *graft_http_arg(const graft_http_request *q, const char *name);
/* "true", "1", "yes" (any case); `fallback` when it was not given. */
bool graft_http_arg_bool(const graft_http_request *q, const char *name, bool fallback);
/* The body as JSON of any kind; GRAFT_E_FORMAT also for text that is not UTF-8. An empty body gives
 * NULL and GRAFT_OK. */
graft_status graft_http_json(const graft_http_request *q, cJSON **out, graft_err *e);
/* The same as Python's json writes it: see graft_json_parse_python(). */
graft_status graft_http_json_python(const graft_http_request *q, cJSON **out, graft_err *e);

/* Bytes that several answers share. Counted; one thread. */
typedef struct graft_http_blob {
    size_t refs, size;
    uint8_t *data;
    char etag[40];
} graft_http_blob;
/* Takes `data` (graft_malloc) in any case; NULL when out of memory. */
graft_http_blob *graft_http_blob_create(void *data, size_t size);
void graft_http_blob_release(graft_http_blob *b); /* NULL is fine */

#define GRAFT_HTTP_MAX_HEADERS 14
typedef struct graft_http_response {
    int status;
    const char *type; /* a constant; NULL: application/octet-stream */
    struct {
        const char *name; /* a constant, lower case with a colon: "cache-control:" */
        char value[300];
    } header[GRAFT_HTTP_MAX_HEADERS];
    size_t n_header;
    /* At most one of these: */
    uint8_t *body; /* owned */
    graft_http_blob *blob;
    int fd; /* -1: none; closed by finish */
    size_t size;
    bool close; /* the connection is of no more use */
} graft_http_response;

void graft_http_response_init(graft_http_response *r); /* 200, empty */
void graft_http_response_finish(graft_http_response *r);
/* Forgets body and headers, and sets a status without a body. */
void graft_http_empty(graft_http_response *r, int status);
/* Sets a header; bytes that do not belong into one become '_'. */
void graft_http_header(graft_http_response *r, const char *name, const char *value);
/* A text/plain body; `text` is copied. */
graft_status graft_http_text(graft_http_response *r, int status, const char *text, graft_err *e);
/* Takes the text of `s`, which is JSON. */
graft_status graft_http_str(graft_http_response *r, int status, graft_str *s, graft_err *e);
/* Prints the tree; it stays the caller's. NULL means that memory was short when it was made. */
graft_status graft_http_tree(graft_http_response *r, int status, const cJSON *json, graft_err *e);
/* {"error": text}. */
graft_status graft_http_error(graft_http_response *r, int status, const char *text, graft_err *e);
/* 200 with shared bytes, or 304 when the client has them. Takes a reference of its own. */
void graft_http_blob_answer(graft_http_response *r, const graft_http_request *q, graft_http_blob *b,
                            const char *type);

/* By the name's ending, for files of a web root and of /view; "application/octet-stream" when
 * unknown. */
const char *graft_http_type(const char *name);
/* A type that a browser shows as a picture, a sound or a film, and never runs. */
bool graft_http_type_inert(const char *type);
/* Whether `word` is in a comma-separated list (any case), and not with the weight 0 (";q=0",
 * RFC 9110, 12.4.2). */
bool graft_http_has_word(const char *list, const char *word);
#endif
