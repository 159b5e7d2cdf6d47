/* What inputs may be given, asked of each node once: a prompt has many nodes of a class, and asking
 * may list a folder. For the time of one check; one thread at a time. */
#ifndef GRAFT_HOST_KNOWN_H
#define GRAFT_HOST_KNOWN_H
#include "base/map.h"
#include "host/schema.h"
#include "host/services.h"

#define GRAFT_KNOWN_LONG 20 /* longer lists of choices are not repeated in messages */

typedef struct graft_known_choices {
    struct graft_known_choices *next;
    const graft_node *node; /* whose they are */
    const graft_input *in;
    graft_choices choices;
    graft_map names; /* of a long list; the values say nothing */
    char folder[64]; /* where the node looked for them, as in graft_lookup */
    bool described;  /* free for the caller */
} graft_known_choices;

typedef struct graft_known {
    graft_known_choices *first;
} graft_known;

void graft_known_finish(graft_known *k); /* fine on a zeroed one */
/* Those of a COMBO; *out is borrowed. */
graft_status graft_known_get(graft_known *k, const graft_host *host, const graft_node *node,
                             const graft_input *in, graft_known_choices **out, graft_err *e);
bool graft_known_has(const graft_known_choices *c, const char *name);
#endif
