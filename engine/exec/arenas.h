/* Memory for runs. One pool serves all executables of an engine: runs that never happen together
 * share one block, which grows to the largest. Any thread. */
#ifndef GRAFT_EXEC_ARENAS_H
#define GRAFT_EXEC_ARENAS_H
#include "engine/exec/backend.h"

typedef struct graft_arena {
    graft_backend *backend;
    void *data; /* on the backend's device */
    uint64_t bytes;
    graft_lane *lane; /* of the runs in it that need one (offload.h), and its loads */
    uint32_t loads;
    struct graft_arena *next;
} graft_arena;
typedef struct graft_arenas graft_arenas;

graft_status graft_arenas_create(graft_arenas **out, graft_err *e);
void graft_arenas_destroy(graft_arenas *a); /* all blocks were given back */
/* Frees blocks that no run uses. */
void graft_arenas_trim(graft_arenas *a);
/* Of all blocks, also those in use. */
uint64_t graft_arenas_bytes(graft_arenas *a);

/* A block of at least so many bytes for the caller alone, until it is given back; what is in it is
 * anything. NULL with GRAFT_E_NOMEM in e. A block may be given back while the device still works
 * on it: who takes it next comes later in the device's order. */
graft_arena *graft_arenas_take(graft_arenas *a, graft_backend *backend, uint64_t bytes,
                               graft_err *e);
void graft_arenas_give(graft_arenas *a, graft_arena *block);
/* The block's lane, with so many loads at least, for whoever has taken the block. */
graft_status graft_arena_lane(graft_arena *block, uint32_t loads, graft_lane **out, graft_err *e);
#endif
