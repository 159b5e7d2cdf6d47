/* Bindings: the packed weights of one weight set for one executable. Immutable and
 * reference-counted: any thread. */
#ifndef GRAFT_EXEC_BINDING_H
#define GRAFT_EXEC_BINDING_H
#include "engine/exec/arenas.h"
#include "engine/exec/exe.h"
#include "engine/exec/offload.h"
#include "engine/exec/packs.h"
#include "engine/weights/weights.h"

typedef struct graft_binding {
    _Atomic int refs;
    graft_exe *exe;
    graft_weights *weights;
    graft_packs *packs;
    graft_pack **pack;      /* one a use */
    graft_hash places;      /* of their addresses */
    graft_offload *offload; /* what is not on the device; NULL: all is */
    graft_packs *offloaded; /* the store of that */
} graft_binding;
/* Packs what is not packed yet, several weights at once. room: NULL, or where weights may stay away
 * from the device, which must outlive the binding. task cancels between tensors. */
graft_status graft_binding_create(graft_exe *x, graft_weights *w, graft_packs *packs,
                                  const graft_offload_room *room, const graft_task *task,
                                  graft_binding **out, graft_err *e);
void graft_binding_release(graft_binding *b);
/* Bytes of the packed weights of all of them that are on the device; what they share counts once.
 */
uint64_t graft_bindings_bytes(graft_binding *const *list, size_t n);
/* What a run takes beside: activations, workspaces, and the window of weights that come and go. */
int64_t graft_binding_arena(const graft_binding *b);
/* So much, as graft_arenas_take() gives it; where there is none, packs that nobody uses go. */
graft_arena *graft_binding_take_arena(const graft_binding *b, graft_arenas *arenas, graft_err *e);
/* Bytes of its packed weights on the device. */
uint64_t graft_binding_bytes(const graft_binding *b);
/* The name of use i's pack in the store for this weight set. */
graft_status graft_exe_pack_name(const graft_exe *x, size_t i, const graft_weights *w,
                                 graft_pack_name *out, graft_err *e);
/* Drops the packs that `old` has here and `keep` has not; all of old's where keep is NULL. Only
 * packs whose name is known without reading tensors of `old` can be there. */
graft_status graft_exe_drop_packs(const graft_exe *x, const graft_weights *old,
                                  const graft_weights *keep, graft_packs *packs, graft_err *e);

/* Drops the packs that LoRAs and merges made for this weight set. */
void graft_exe_drop_derived(const graft_exe *x, const graft_weights *w, graft_packs *packs);
#endif
