/* The running workflow as text for files: "prompt" and every key of extra_pnginfo. One thread. */
#ifndef GRAFT_NODES_METADATA_H
#define GRAFT_NODES_METADATA_H
#include "nodes/call/call.h"

typedef struct graft_metadata {
    char **pairs; /* key, value, …, NULL: what engine.h wants; values are JSON in ASCII */
    size_t count; /* texts in pairs */
} graft_metadata;

#define GRAFT_METADATA_INIT                                                                        \
    {                                                                                              \
        NULL, 0                                                                                    \
    }

/* Empty when the host knows no workflow. Keys that a PNG text chunk cannot have are left out with a
 * warning in the job's log. */
graft_status graft_metadata_read(graft_call *c, graft_metadata *out);
void graft_metadata_finish(graft_metadata *m);
/* JSON in which every character beyond ASCII is written \uXXXX (graft_free); NULL when out of
 * memory. Bytes that are not UTF-8 become \ufffd. */
char *graft_metadata_ascii(const char *json);
#endif
