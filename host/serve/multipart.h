/* multipart/form-data bodies (RFC 7578). Any thread. */
#ifndef GRAFT_HOST_SERVE_MULTIPART_H
#define GRAFT_HOST_SERVE_MULTIPART_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GRAFT_MULTIPART_MAX 32 /* parts */

typedef struct graft_multipart_part {
    char name[64];
    char filename[256];  /* "" for a plain field */
    const uint8_t *data; /* into the body */
    size_t size;
} graft_multipart_part;
typedef struct graft_multipart {
    graft_multipart_part part[GRAFT_MULTIPART_MAX];
    size_t count;
} graft_multipart;

/* `content_type` is the request's header. The body must outlive the result. */
graft_status graft_multipart_parse(const char *content_type, const uint8_t *body, size_t size,
                                   graft_multipart *out, graft_err *e);
const graft_multipart_part *graft_multipart_find(const graft_multipart *m, const char *name);
/* A plain field as text, cut to the buffer; false when it is missing or not UTF-8. */
bool graft_multipart_text(const graft_multipart *m, const char *name, char *out, size_t n);
#endif
