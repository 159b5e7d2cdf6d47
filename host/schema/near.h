/* Names that may have been meant by one that does not exist: what "did you mean" tells. */
#ifndef GRAFT_HOST_SCHEMA_NEAR_H
#define GRAFT_HOST_SCHEMA_NEAR_H
#include <stddef.h>

enum { GRAFT_NEAR_MAX = 5, GRAFT_NEAR_TEXT = 480 };

typedef struct graft_near {
    const char *wanted;
    size_t count;
    struct {
        const char *name; /* borrowed from whoever added it, and not terminated */
        size_t length;
        int far;
    } at[GRAFT_NEAR_MAX]; /* nearest first */
} graft_near;

/* `wanted` is borrowed. */
void graft_near_init(graft_near *n, const char *wanted);
/* Keeps `name` if it may have been meant. Cheap for names of quite another length. */
void graft_near_add(graft_near *n, const char *name);
/* Keeps `name` if `like`, another word for it, may have been meant. */
void graft_near_add_like(graft_near *n, const char *like, const char *name);
/* Keeps the first `length` bytes of `name` likewise. */
void graft_near_add_part(graft_near *n, const char *name, size_t length);
/* "; did you mean A, B or C?", or "" when nothing is near. Returns `out`. */
const char *graft_near_text(const graft_near *n, char out[GRAFT_NEAR_TEXT]);
#endif
