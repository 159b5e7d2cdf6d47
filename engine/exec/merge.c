#include "engine/exec/merge.h"

#include "base/alloc.h"
#include "engine/weights/patch.h"
#include "engine/weights/quantized.h"

static const graft_gslot *slot_of(const graft_exe *x, size_t i)
{
    return x->use[i].slot < 0 ? NULL : &x->graph->slot[x->use[i].slot];
}

bool graft_merge_possible(const graft_exe *x, size_t i, const graft_weights *w)
{
    const graft_gslot *slot = slot_of(x, i);
    const graft_kernels_more *more = graft_backend_more(x->backend);
    if (!slot || x->backend->info.host_memory || !GRAFT_KERNELS_HAS(more, pack_merged) ||
        !graft_gslot_plain(slot) || !graft_weights_slot_patched(w, slot))
        return false;
    for (size_t k = 0; k < slot->n_sources; k++) {
        graft_slot_source s;
        if (graft_weights_source(w, slot, k, false, &s, NULL) || s.sum ||
            graft_is_quantized(s.tensor->dtype))
            return false;
        for (size_t p = 0; p < s.n_patches; p++)
            if (s.patch[p].strength != 0.0f && !graft_patch_is_product(&s.patch[p])) return false;
    }
    return true;
}

/* Stored tensors are packs too, in a layout of their own. */
static graft_pack_name stored_name(const graft_exe *x, const graft_slot_source *s)
{
    static const char layout[] = "stored";
    graft_pack_name n = {s->content, s->sample};
    n.content = graft_hash_mix(n.content, layout, sizeof layout);
    n.sample = graft_hash_mix(n.sample, layout, sizeof layout);
    n.content = graft_hash_mix(n.content, &x->backend->identity, sizeof x->backend->identity);
    n.sample = graft_hash_mix(n.sample, &x->backend->identity, sizeof x->backend->identity);
    return n;
}

graft_status graft_merge_sizes(const graft_exe *x, size_t i, const graft_weights *w,
                               graft_packs *packs, uint64_t *bytes, size_t *n, graft_err *e)
{
    const graft_gslot *slot = slot_of(x, i);
    *n = 0;
    for (size_t k = 0; k < slot->n_sources; k++) {
        graft_slot_source s;
        graft_status st = graft_weights_source(w, slot, k, false, &s, e);
        if (st) return st;
        if (!graft_packs_sampled(packs, x->backend, stored_name(x, &s).sample))
            bytes[(*n)++] = s.tensor->bytes;
    }
    return GRAFT_OK;
}

typedef struct stored_fill {
    const graft_exe *x;
    const graft_st_tensor *tensor;
} stored_fill;

static graft_status fill_stored(void *ctx, void *dst, graft_hash *content, graft_err *e)
{
    const stored_fill *f = ctx;
    const graft_backend *b = f->x->backend;
    (void)content; /* known: it was asked for by name */
    graft_status st = b->api->upload(b->device, dst, f->tensor->data, f->tensor->bytes);
    return st ? graft_fail(e, st, "backend %s: bringing %s to the device: %s", b->name,
                           f->tensor->name, graft_status_text(st))
              : GRAFT_OK;
}

/* One source while its weight is merged. */
typedef struct merge_part {
    graft_slot_source source;
    graft_pack *pack;
    graft_low_rank *term;
    graft_patch_product *product;
} merge_part;

/* Brings a stored source to the device: into the store, or behind the `taken` bytes of what passes
 * through, for which graft_merge_fill() has seen that there is room. */
static graft_status place_part(const graft_exe *x, merge_part *p, const graft_merge_room *room,
                               uint64_t *taken, const void **src, graft_err *e)
{
    const graft_slot_source *s = &p->source;
    stored_fill fill = {x, s->tensor};
    graft_status st;
    if (room->packs) {
        st = graft_packs_get(room->packs, x->backend, stored_name(x, s), s->tensor->bytes,
                             room->slab, fill_stored, &fill, &p->pack, e);
        *src = st ? NULL : graft_pack_data(p->pack);
        return st;
    }
    uint8_t *place = (uint8_t *)room->passing + *taken;
    *taken += graft_backend_aligned(x->backend, s->tensor->bytes);
    *src = place;
    return fill_stored(&fill, place, NULL, e);
}

static graft_status prepare_part(const graft_exe *x, merge_part *p, const graft_merge_room *room,
                                 uint64_t *taken, graft_weight_part *out, graft_err *e)
{
    const graft_slot_source *s = &p->source;
    const void *src;
    graft_status st = place_part(x, p, room, taken, &src, e);
    if (st) return st;
    p->term = graft_calloc(s->n_patches + 1, sizeof *p->term);
    p->product = graft_calloc(s->n_patches + 1, sizeof *p->product);
    if (!p->term || !p->product) return graft_fail_nomem(e, "LoRA");
    *out = (graft_weight_part){
        .src = src, .rows = s->rows, .dtype = s->tensor->dtype, .term = p->term};
    for (size_t i = 0; i < s->n_patches && !st; i++) {
        const graft_patch *patch = &s->patch[i];
        graft_patch_product *m = &p->product[i];
        if (patch->strength == 0.0f) continue;
        st = graft_patch_product_init(patch, s->tensor, m, e);
        p->term[out->n_terms++] = (graft_low_rank){.up = m->up,
                                                   .down = m->down,
                                                   .up_dtype = m->up_dtype,
                                                   .down_dtype = m->down_dtype,
                                                   .first = patch->row,
                                                   .rows = m->rows,
                                                   .rank = m->rank,
                                                   .factor = patch->scale * patch->strength};
    }
    return st;
}

static void finish_part(merge_part *p, const graft_merge_room *room)
{
    for (size_t i = 0; p->product && i < p->source.n_patches; i++)
        graft_patch_product_finish(&p->product[i]);
    graft_free(p->product);
    graft_free(p->term);
    if (room->packs) graft_packs_put(room->packs, p->pack);
}

/* Whether all sources of the weight have room at once. */
static bool has_room(const graft_exe *x, const merge_part *part, size_t n,
                     const graft_merge_room *room)
{
    uint64_t left = room->bytes;
    for (size_t k = 0; k < n && !room->packs; k++) {
        const uint64_t bytes = part[k].source.tensor->bytes;
        if (bytes > left || graft_backend_aligned(x->backend, bytes) > left) return false;
        left -= graft_backend_aligned(x->backend, bytes);
    }
    return true;
}

graft_status graft_merge_fill(const graft_exe *x, size_t i, const graft_weights *w,
                              const graft_merge_room *room, void *dst, bool *done, graft_err *e)
{
    const graft_gslot *slot = slot_of(x, i);
    const graft_exe_use *use = &x->use[i];
    merge_part *part = graft_calloc(slot->n_sources, sizeof *part);
    graft_weight_part *given = graft_calloc(slot->n_sources, sizeof *given);
    graft_status st = part && given ? GRAFT_OK : graft_fail_nomem(e, "LoRA");
    uint64_t taken = 0;
    *done = false;
    for (size_t k = 0; k < slot->n_sources && !st; k++)
        st = graft_weights_source(w, slot, k, room->packs != NULL, &part[k].source, e);
    if (!st && !has_room(x, part, slot->n_sources, room)) st = GRAFT_E_UNSUPPORTED;
    for (size_t k = 0; k < slot->n_sources && !st; k++)
        st = prepare_part(x, &part[k], room, &taken, &given[k], e);
    if (!st) {
        st = graft_backend_more(x->backend)
                 ->pack_merged(x->step[use->step].kernel, use->input, given,
                               (uint32_t)slot->n_sources, dst);
        *done = !st;
        if (st && st != GRAFT_E_UNSUPPORTED && st != GRAFT_E_NOMEM)
            graft_fail(e, st, "backend %s: merging a LoRA: %s", x->backend->name,
                       graft_status_text(st));
    }
    for (size_t k = 0; part && k < slot->n_sources; k++) finish_part(&part[k], room);
    graft_free(part);
    graft_free(given);
    /* Without memory for it there the host may still manage, piece by piece. */
    return st == GRAFT_E_UNSUPPORTED || st == GRAFT_E_NOMEM ? GRAFT_OK : st;
}

void graft_merge_drop(const graft_exe *x, size_t i, const graft_weights *old,
                      const graft_weights *keep, graft_packs *packs)
{
    const graft_gslot *slot = slot_of(x, i);
    if (!slot || !graft_merge_possible(x, i, old)) return;
    for (size_t k = 0; k < slot->n_sources; k++) {
        graft_slot_source own, kept;
        if (graft_weights_source(old, slot, k, true, &own, NULL)) continue;
        if (keep && !graft_weights_source(keep, slot, k, false, &kept, NULL) &&
            graft_hash_equal(own.sample, kept.sample))
            continue;
        graft_packs_drop(packs, x->backend, stored_name(x, &own));
    }
}
