/* Bindings: the packed weights of one weight set for one executable. */
#include <string.h>

#include "base/alloc.h"
#include "engine/exec/exe.h"
#include "engine/weights/quantized.h"

typedef struct fill_job {
    const graft_exe *exe;
    const graft_exe_use *use;
    const graft_weights *weights;
    const graft_task *task;
} fill_job;

/* Values that are quantized already go as they are to a kernel that quantizes likewise. */
static graft_status pack(const graft_exe *x, const graft_exe_use *use, const graft_gslot *slot,
                         graft_slot_data *data, void *dst)
{
    graft_kernel *k = x->step[use->step].kernel;
    graft_quant quant = x->graph->node[use->step].attrs.quant;
    graft_status st = GRAFT_E_UNSUPPORTED;
    if ((data->dtype != GRAFT_Q8 || quant == GRAFT_QUANT_INT8) &&
        (data->dtype != GRAFT_Q4 || quant == GRAFT_QUANT_INT4))
        st = x->backend->api->pack(k, use->input, data->dtype, data->data, dst);
    if (st != GRAFT_E_UNSUPPORTED || !slot || !graft_is_quantized(data->dtype)) return st;
    st = graft_slot_data_float(data, slot, NULL);
    return st ? st : x->backend->api->pack(k, use->input, data->dtype, data->data, dst);
}

static graft_status fill(void *ctx, void *dst, graft_err *e)
{
    const fill_job *job = ctx;
    const graft_exe *x = job->exe;
    graft_slot_data data = {0};
    graft_status st = GRAFT_OK;
    const graft_gslot *slot = NULL;
    if (job->use->slot >= 0) {
        slot = &x->graph->slot[job->use->slot];
        st = graft_weights_load(job->weights, slot, job->task ? &job->task->log : NULL, &data, e);
        if (st) return st;
    } else {
        const graft_literal *l = &x->graph->literal[job->use->literal];
        data.dtype = l->dtype;
        data.data = l->data;
    }
    st = pack(x, job->use, slot, &data, dst);
    if (st)
        graft_fail(e, st, "backend %s: packing a weight: %s", x->backend->name,
                   graft_status_text(st));
    graft_slot_data_finish(&data);
    if (slot) graft_weights_forget(job->weights, slot);
    return st;
}

static graft_status content_hash(const graft_exe *x, const graft_exe_use *use,
                                 const graft_weights *w, graft_hash *out, graft_err *e)
{
    if (use->slot >= 0) return graft_weights_slot_hash(w, &x->graph->slot[use->slot], out, e);
    const graft_literal *l = &x->graph->literal[use->literal];
    *out = graft_hash128(l->data, (size_t)l->count * graft_dtype_size(l->dtype));
    return GRAFT_OK;
}

graft_status graft_exe_pack_key(const graft_exe *x, size_t i, const graft_weights *w,
                                graft_hash *out, graft_err *e)
{
    const graft_exe_use *use = &x->use[i];
    graft_hash key;
    graft_status st = content_hash(x, use, w, &key, e);
    if (st) return st;
    key = graft_hash_mix(key, &x->backend->identity, sizeof x->backend->identity);
    *out = graft_hash_mix(key, &use->packing, sizeof use->packing);
    return GRAFT_OK;
}

graft_status graft_exe_drop_packs(const graft_exe *x, const graft_weights *old,
                                  const graft_weights *keep, graft_packs *packs, graft_err *e)
{
    for (size_t i = 0; i < x->n_uses; i++) {
        graft_hash own, kept;
        int32_t slot = x->use[i].slot;
        if (slot < 0 || !graft_weights_slot_hashed(old, &x->graph->slot[slot])) continue;
        graft_status st = graft_exe_pack_key(x, i, old, &own, e);
        if (st) return st;
        if (!graft_packs_resident(packs, x->backend, own)) continue;
        st = graft_exe_pack_key(x, i, keep, &kept, e);
        if (st) return st;
        if (!graft_hash_equal(own, kept)) graft_packs_drop(packs, x->backend, own);
    }
    return GRAFT_OK;
}

void graft_exe_drop_derived(const graft_exe *x, const graft_weights *w, graft_packs *packs)
{
    for (size_t i = 0; i < x->n_uses; i++) {
        graft_hash key;
        const graft_gslot *slot = x->use[i].slot < 0 ? NULL : &x->graph->slot[x->use[i].slot];
        if (!slot || !graft_weights_slot_patched(w, slot) || !graft_weights_slot_hashed(w, slot))
            continue;
        if (!graft_exe_pack_key(x, i, w, &key, NULL)) graft_packs_drop(packs, x->backend, key);
    }
}

static graft_status bind_use(graft_binding *b, size_t i, const graft_task *task, graft_err *e)
{
    const graft_exe *x = b->exe;
    const graft_exe_use *use = &x->use[i];
    graft_hash key;
    graft_status st = graft_exe_pack_key(x, i, b->weights, &key, e);
    if (st) return st;
    fill_job job = {x, use, b->weights, task};
    return graft_packs_get(b->packs, x->backend, key, use->bytes, fill, &job, &b->pack[i], e);
}

graft_status graft_binding_create(graft_exe *x, graft_weights *w, graft_packs *packs,
                                  const graft_task *task, graft_binding **out, graft_err *e)
{
    graft_binding *b = graft_calloc(1, sizeof *b);
    graft_pack **pack = graft_calloc(x->n_uses, sizeof *pack);
    graft_status st = GRAFT_OK;
    if (!b || !pack) {
        graft_free(b);
        graft_free(pack);
        return graft_fail_nomem(e, "weight table");
    }
    atomic_init(&b->refs, 1);
    b->exe = graft_exe_retain(x);
    b->weights = graft_weights_retain(w);
    b->packs = packs;
    b->pack = pack;
    b->recording = graft_recording_create(x->backend);
    for (size_t i = 0; i < x->n_uses && !st; i++) {
        if (graft_task_cancelled(task))
            st = graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        else
            st = bind_use(b, i, task, e);
    }
    graft_packs_settle(packs);
    if (st)
        graft_binding_release(b);
    else
        *out = b;
    return st;
}

void graft_binding_release(graft_binding *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) != 1) return;
    graft_recording_destroy(b->recording);
    for (size_t i = 0; i < b->exe->n_uses; i++) graft_packs_put(b->packs, b->pack[i]);
    graft_free(b->pack);
    graft_weights_release(b->weights);
    graft_exe_release(b->exe);
    graft_free(b);
}
