/* Packed weights: slots in a backend's own layout, made once and shared by every compiled graph and
 * every weight set with the same content. Any thread. */
#ifndef GRAFT_EXEC_PACKS_H
#define GRAFT_EXEC_PACKS_H
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "engine/exec/backend.h"

typedef struct graft_packs graft_packs;
typedef struct graft_pack graft_pack;
/* One allocation for the packs of a set, on devices with memory of their own: there an allocation
 * for each of some thousand weights takes long to make, and each that is freed waits for the
 * device. Packs in it have names and users of their own like all others; when the last of them is
 * gone it is freed. What is dropped and has a successor of its size is replaced in its place. */
typedef struct graft_slab graft_slab;

/* offloaded: of devices with memory of their own packs lie in memory of the host, of others in
 * files in the folder `spill`, which outlives the store (offload.h, spill.h). */
graft_status graft_packs_create(bool offloaded, const char *spill, graft_packs **out, graft_err *e);
void graft_packs_destroy(graft_packs *p); /* no pack may be in use */

/* What a pack holds. Equal content has equal samples, so that a sample that no pack has tells that
 * content is new before all of it was read. */
typedef struct graft_pack_name {
    graft_hash content, sample;
} graft_pack_name;

/* Fills `dst` (memory of the pack's size, where the store has it). Runs without the store's lock.
 * Where the pack was asked for by its sample, it gives the content too; `content` is NULL
 * otherwise. */
typedef graft_status graft_pack_fill(void *ctx, void *dst, graft_hash *content, graft_err *e);
/* The pack with this name, filled by `fill` when it is not there; another thread that asks for the
 * same one waits for it, which takes no longer than filling it, and like filling it is not broken
 * off when the task is cancelled: that is asked between packs. slab: where it may lie; NULL:
 * anywhere. Release with graft_packs_put(). */
graft_status graft_packs_get(graft_packs *p, graft_backend *backend, graft_pack_name name,
                             uint64_t bytes, graft_slab *slab, graft_pack_fill *fill, void *ctx,
                             graft_pack **out, graft_err *e);
/* A pack of content that is not known yet, filled by `fill`. *out NULL: there is a pack with this
 * sample, so the caller must find out the content and ask again by name. */
graft_status graft_packs_add(graft_packs *p, graft_backend *backend, graft_hash sample,
                             uint64_t bytes, graft_slab *slab, graft_pack_fill *fill, void *ctx,
                             graft_pack **out, graft_err *e);
/* The pack with this name if it is there now, else NULL. */
graft_pack *graft_packs_find(graft_packs *p, const graft_backend *backend, graft_pack_name name);
/* The pack stays in memory for the next user, until the budget needs its place. */
void graft_packs_put(graft_packs *p, graft_pack *pack);
/* The pack with this name goes: now when nobody uses it, else with its last user, unless someone
 * asks for it before. Nothing happens when there is none. */
void graft_packs_drop(graft_packs *p, const graft_backend *backend, graft_pack_name name);
/* Memory of packs that graft_packs_drop() let go is kept for new packs of the same size; this gives
 * what nobody took back to the system. Bindings call it once all their weights are packed. */
void graft_packs_settle(graft_packs *p);
/* Bytes of the pack with this name; 0 when it is not resident. */
uint64_t graft_packs_resident(graft_packs *p, const graft_backend *backend, graft_pack_name name);
/* Whether there is a pack with this sample, filled or about to be. */
bool graft_packs_sampled(graft_packs *p, const graft_backend *backend, graft_hash sample);

/* A slab with room for packs of these sizes, less those that dropped packs left. NULL: none is
 * needed, or there is no memory in one piece, or none on this device; packs are blocks of their own
 * then. */
graft_slab *graft_packs_reserve(graft_packs *p, graft_backend *backend, const uint64_t *bytes,
                                size_t n);
/* Whether so much more may be held, once packs that nobody uses made room. */
bool graft_packs_fit(graft_packs *p, uint64_t bytes);
/* Packs that nobody uses go until the budget has room for so much more, or none is left. */
void graft_packs_make_room(graft_packs *p, uint64_t bytes);
/* No more packs will be put there. NULL is fine. */
void graft_packs_reserved(graft_packs *p, graft_slab *slab);
/* Where memory has a strict limit, which slabs in use by one pack would hold up: false. */
void graft_packs_use_slabs(graft_packs *p, bool use);
const void *graft_pack_data(const graft_pack *pack);
/* Of a store that is offloaded: there was no memory that the device reads by itself, and it lies in
 * ordinary memory, which the host has to send. */
bool graft_pack_ordinary(const graft_pack *pack);

typedef struct graft_packs_stats {
    uint64_t bytes, used_bytes;   /* all memory, slabs as a whole; packs in use */
    uint64_t count, made, shared; /* packs now; ever filled; requests that found one */
    uint64_t slabs;
} graft_packs_stats;
void graft_packs_stats_get(graft_packs *p, graft_packs_stats *out);
/* Unused packs are dropped, the longest unused first, until at most `bytes` are held. */
void graft_packs_trim(graft_packs *p, uint64_t bytes);
/* Trims to this size whenever a pack is made or given back. UINT64_MAX: no limit. */
void graft_packs_set_budget(graft_packs *p, uint64_t bytes);
#endif
