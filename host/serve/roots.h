/* The folders of the server, so that no answer tells where they lie. Made before other threads are
 * started and constant from then on. */
#ifndef GRAFT_HOST_SERVE_ROOTS_H
#define GRAFT_HOST_SERVE_ROOTS_H
#include "base/str.h"
#include "host/services/folders.h"

enum { GRAFT_ROOTS_MAX = 12 };
typedef struct graft_roots {
    struct {
        char *path; /* absolute, without a slash at the end */
        const char *name;
    } root[GRAFT_ROOTS_MAX];
    size_t count;
} graft_roots;

/* `state` is absolute. What it made before a failure is for graft_roots_finish(). */
graft_status graft_roots_init(graft_roots *r, const graft_folders *folders, const char *state,
                              graft_err *e);
void graft_roots_finish(graft_roots *r); /* fine on a zeroed one */
/* Appends the text with "output/x.png" in place of "/home/me/pictures/x.png". NULL has no roots. */
void graft_roots_hide(const graft_roots *r, const char *text, graft_str *out);
#endif
