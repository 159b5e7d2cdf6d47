/* Answers with the bytes of stored files, to those who have them already or want a part (RFC 9110,
 * 13 and 14). One thread for each request. */
#ifndef GRAFT_HOST_SERVE_STORED_H
#define GRAFT_HOST_SERVE_STORED_H
#include <sys/stat.h>

#include "host/serve/http.h"

/* Opens a regular file for reading, without waiting; -1 when it is none. */
int graft_stored_open(const char *path, struct stat *info);
/* Sets an entity tag by the file's size, place and time and `form`, which says what is made of it
 * ("" for the file itself); true, and 304, when the client has that. */
bool graft_stored_known(graft_http_response *r, const graft_http_request *q,
                        const struct stat *info, const char *form);
/* 200 with the file; 206 with the part, or 416, that a GET asks for with one range of bytes, unless
 * If-Range names another version; 304. Takes fd; type: of the response. */
void graft_stored_answer(graft_http_response *r, const graft_http_request *q, int fd,
                         const struct stat *info, const char *type);

/* Which part of `size` bytes a Range header means. */
typedef enum graft_stored_range {
    GRAFT_STORED_ALL,    /* no range, several, other units, or nonsense: what a server may ignore */
    GRAFT_STORED_PART,   /* *first and *count are set */
    GRAFT_STORED_OUTSIDE /* nothing of it is there */
} graft_stored_range;
graft_stored_range graft_stored_parse(const char *range, size_t size, size_t *first, size_t *count);
#endif
