/* What inputs may be given, asked of each node once: a prompt has many nodes of a class, and asking
 * may list a folder. For the time of one check; one thread at a time. */
#ifndef GRAFT_HOST_SCHEMA_OFFERS_H
#define GRAFT_HOST_SCHEMA_OFFERS_H
#include "base/map.h"
#include "host/schema/schema.h"
#include "host/services/services.h"

#define GRAFT_OFFERS_LONG 20 /* longer lists of choices are not repeated in messages */

typedef struct graft_offer {
    struct graft_offer *next;
    const graft_node *node; /* whose they are */
    const graft_input *in;
    graft_choices choices;
    graft_map names; /* of a long list; the values say nothing */
    char folder[64]; /* where the node looked for them, as in graft_lookup */
    bool described;  /* free for the caller */
} graft_offer;

typedef struct graft_offers {
    graft_offer *first;
} graft_offers;

void graft_offers_finish(graft_offers *k); /* fine on a zeroed one */
/* Those of a COMBO; *out is borrowed. */
graft_status graft_offers_get(graft_offers *k, const graft_host *host, const graft_node *node,
                              const graft_input *in, graft_offer **out, graft_err *e);
bool graft_offers_has(const graft_offer *c, const char *name);
#endif
