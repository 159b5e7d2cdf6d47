#include "engine/exec/binding.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/exec/ahead.h"
#include "engine/exec/crew.h"
#include "engine/exec/merge.h"
#include "engine/exec/spill.h"
#include "engine/weights/quantized.h"
#include "engine/weights/slot_data.h"
#include "kernels/quant.h"

#define SMALL 4096 /* bytes of a pack: below, content is found out before packing */

/* ------------------------------------------------------------------ filling packs */

typedef struct fill_job {
    const graft_exe *exe;
    const graft_exe_use *use;
    const graft_weights *weights;
    const graft_merge_room *merge; /* where the device merges LoRAs; NULL: it does not */
    graft_slot_data *ready;        /* what was loaded ahead; NULL, or empty: nothing */
    bool forgets;                  /* whoever reads ahead forgets, too */
} fill_job;

/* Values that are quantized already go as they are to a kernel that quantizes likewise. */
static graft_status pack(const graft_exe *x, const graft_exe_use *use, const graft_gslot *slot,
                         graft_slot_data *data, void *dst)
{
    graft_kernel *k = x->step[use->step].kernel;
    graft_quant quant = x->graph->node[use->step].attrs.quant;
    graft_status st = GRAFT_E_UNSUPPORTED;
    if (!graft_is_quantized(data->dtype) || data->dtype == graft_quant_dtype(quant))
        st = x->backend->api->pack(k, use->input, data->dtype, data->data, dst);
    if (st != GRAFT_E_UNSUPPORTED || !slot || !graft_is_quantized(data->dtype)) return st;
    st = graft_slot_data_float(data, slot, NULL);
    return st ? st : x->backend->api->pack(k, use->input, data->dtype, data->data, dst);
}

static const graft_gslot *slot_of(const fill_job *j)
{
    return j->use->slot < 0 ? NULL : &j->exe->graph->slot[j->use->slot];
}

/* The dtype of the packed weights (kernels/blocks.h) that the operator has; GRAFT_DTYPE_NONE: it
 * has others. */
static graft_dtype blocks_wanted(const fill_job *j)
{
    const graft_attrs *a = &j->exe->graph->node[j->use->step].attrs;
    return j->use->input == GRAFT_LINEAR_W && graft_quant_blocks(a->quant)
               ? graft_quant_dtype(a->quant)
               : GRAFT_DTYPE_NONE;
}

static graft_status packing_failed(const fill_job *j, graft_status st, graft_err *e)
{
    return st ? graft_fail(e, st, "backend %s: packing a weight: %s", j->exe->backend->name,
                           graft_status_text(st))
              : GRAFT_OK;
}

/* Packs while reading. *done false: the backend or the slot wants it whole. */
static graft_status fill_by_rows(const fill_job *j, void *dst, bool *done, graft_err *e)
{
    const graft_kernels_more *more = graft_backend_more(j->exe->backend);
    bool rows = GRAFT_KERNELS_HAS(more, pack_rows);
    graft_kernel *k = j->exe->step[j->use->step].kernel;
    graft_slot_reader *r = NULL;
    graft_dtype dtype;
    const void *data;
    *done = false;
    if (!rows || !slot_of(j) || blocks_wanted(j)) return GRAFT_OK;
    graft_status st = graft_slot_reader_create(j->weights, slot_of(j), GRAFT_PACK_ROWS, &r, e);
    if (st || !r) return st;
    for (int64_t n, row = 0; !st; row += n) {
        n = graft_slot_reader_next(r, GRAFT_PACK_ROWS, &dtype, &data);
        *done = n == 0;
        if (*done) break;
        st = more->pack_rows(k, j->use->input, dtype, data, dst, row, n);
    }
    graft_slot_reader_destroy(r);
    return st == GRAFT_E_UNSUPPORTED ? GRAFT_OK : packing_failed(j, st, e);
}

static graft_status fill_whole(const fill_job *j, void *dst, graft_err *e)
{
    const graft_exe *x = j->exe;
    graft_slot_data data = {0};
    graft_status st = GRAFT_OK;
    if (slot_of(j) && j->ready && j->ready->data) {
        data = *j->ready;
        *j->ready = (graft_slot_data){0};
    } else if (slot_of(j)) {
        st = graft_slot_data_wanted(j->weights, slot_of(j), blocks_wanted(j), &data, e);
        if (st) return st;
    } else {
        const graft_graph_literal *l = &x->graph->literal[j->use->literal];
        data.dtype = l->dtype;
        data.data = l->data;
    }
    st = pack(x, j->use, slot_of(j), &data, dst);
    graft_slot_data_finish(&data);
    return packing_failed(j, st, e);
}

/* ------------------------------------------------------------------ names */

static graft_hash in_layout(const fill_job *j, graft_hash h)
{
    const graft_backend *b = j->exe->backend;
    h = graft_hash_mix(h, &b->identity, sizeof b->identity);
    return graft_hash_mix(h, &j->use->packing, sizeof j->use->packing);
}

static graft_status sample_of(const fill_job *j, graft_hash *out, graft_err *e)
{
    const graft_graph_literal *l = slot_of(j) ? NULL : &j->exe->graph->literal[j->use->literal];
    graft_status st = GRAFT_OK;
    if (l)
        *out = graft_hash128(l->data, (size_t)l->count * graft_dtype_size(l->dtype));
    else
        st = graft_weights_slot_sample(j->weights, slot_of(j), out, e);
    if (!st) *out = in_layout(j, *out);
    return st;
}

static graft_status content_of(const fill_job *j, graft_hash *out, graft_err *e)
{
    if (!slot_of(j)) return sample_of(j, out, e);
    graft_status st = graft_weights_slot_hash(j->weights, slot_of(j), out, e);
    if (!st) *out = in_layout(j, *out);
    return st;
}

static graft_status name_of(const fill_job *j, graft_pack_name *out, graft_err *e)
{
    graft_status st = sample_of(j, &out->sample, e);
    return st ? st : content_of(j, &out->content, e);
}

static graft_status fill(void *ctx, void *dst, graft_hash *content, graft_err *e)
{
    const fill_job *j = ctx;
    bool done = false;
    graft_status st = GRAFT_OK;
    size_t i = (size_t)(j->use - j->exe->use);
    if (j->merge && graft_merge_possible(j->exe, i, j->weights))
        st = graft_merge_fill(j->exe, i, j->weights, j->merge, dst, &done, e);
    if (!st && !done) st = fill_by_rows(j, dst, &done, e);
    if (!st && !done) st = fill_whole(j, dst, e);
    if (!st && content) st = content_of(j, content, e);
    /* Who wrote into a file meanwhile may have left other values for the name than for the pack. */
    if (!st && slot_of(j)) st = graft_weights_unchanged(j->weights, e);
    if (slot_of(j) && !j->forgets) graft_weights_forget(j->weights, slot_of(j));
    return st;
}

graft_status graft_exe_pack_name(const graft_exe *x, size_t i, const graft_weights *w,
                                 graft_pack_name *out, graft_err *e)
{
    fill_job j = {.exe = x, .use = &x->use[i], .weights = w};
    return name_of(&j, out, e);
}

graft_status graft_exe_drop_packs(const graft_exe *x, const graft_weights *old,
                                  const graft_weights *keep, graft_packs *packs, graft_err *e)
{
    for (size_t i = 0; i < x->n_uses; i++) {
        fill_job before = {.exe = x, .use = &x->use[i], .weights = old}, after = before;
        after.weights = keep;
        graft_pack_name own, kept;
        if (!slot_of(&before) || !graft_weights_slot_hashed(old, slot_of(&before))) continue;
        graft_status st = name_of(&before, &own, e);
        if (st) return st;
        graft_merge_drop(x, i, old, keep, packs);
        if (!graft_packs_resident(packs, x->backend, own)) continue;
        /* Where a glance tells that the new weight is another one it is not read here. */
        if (keep) st = sample_of(&after, &kept.sample, e);
        bool same = keep && !st && graft_hash_equal(own.sample, kept.sample);
        if (same) {
            st = content_of(&after, &kept.content, e);
            same = graft_hash_equal(own.content, kept.content);
        }
        if (st) return st;
        if (!same) graft_packs_drop(packs, x->backend, own);
    }
    return GRAFT_OK;
}

void graft_exe_drop_derived(const graft_exe *x, const graft_weights *w, graft_packs *packs)
{
    for (size_t i = 0; i < x->n_uses; i++) {
        graft_pack_name name;
        const graft_gslot *slot = x->use[i].slot < 0 ? NULL : &x->graph->slot[x->use[i].slot];
        if (!slot || !graft_weights_slot_mixed(w, slot) || !graft_weights_slot_hashed(w, slot))
            continue;
        if (!graft_exe_pack_name(x, i, w, &name, NULL)) graft_packs_drop(packs, x->backend, name);
    }
}

/* ------------------------------------------------------------------ bindings */

typedef struct bind_job {
    graft_binding *b;
    const graft_offload_room *room; /* NULL: all weights are on the device */
    /* Memory of the device through which go those that will not be there; NULL: they have files,
     * or there are none. */
    uint8_t *passing;
    uint64_t passing_bytes;
    graft_slab *slab;   /* for the packs that are made; may be NULL */
    graft_slab *stored; /* for weights as LoRAs are merged from; may be NULL */
    bool merge;         /* the device merges LoRAs */
    uint32_t *missing;  /* uses without pack, the largest first */
    size_t n_missing;
    graft_ahead_item *item; /* of each of them, where they are read ahead; else NULL */
    graft_ahead *ahead;
} bind_job;

static bool is_known(const fill_job *j)
{
    return !slot_of(j) || graft_weights_slot_hashed(j->weights, slot_of(j));
}

static bool is_away(const graft_binding *b, size_t i)
{
    return b->offload && b->offload->away[i];
}

/* Takes what is there. */
static graft_status find_packs(bind_job *job, graft_offload_found *found, const graft_task *task,
                               graft_err *e)
{
    graft_binding *b = job->b;
    const graft_exe *x = b->exe;
    for (size_t i = 0; i < x->n_uses; i++) {
        fill_job j = {.exe = x, .use = &x->use[i], .weights = b->weights};
        graft_pack_name name;
        if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        if (!is_known(&j)) continue;
        graft_status st = name_of(&j, &name, e);
        if (st) return st;
        b->pack[i] = graft_packs_find(b->packs, x->backend, name);
        found[i] = b->pack[i] ? GRAFT_OFFLOAD_ON_DEVICE : GRAFT_OFFLOAD_NOWHERE;
        if (b->pack[i] || !job->room) continue;
        b->pack[i] = graft_packs_find(job->room->packs, x->backend, name);
        if (b->pack[i]) found[i] = GRAFT_OFFLOAD_ON_HOST;
    }
    return GRAFT_OK;
}

/* What others use of the device's memory for weights now, this binding's left out where that makes
 * a difference: `room` that its weights fit into in any case is enough. */
static uint64_t used_by_others(const bind_job *job, uint64_t room, const graft_offload_found *found)
{
    const graft_binding *b = job->b;
    const uint64_t own = b->exe->weight_bytes;
    graft_packs_stats stats;
    graft_packs_stats_get(b->packs, &stats);
    if (own <= room && stats.used_bytes <= room - own) return stats.used_bytes;
    for (size_t i = 0; i < b->exe->n_uses; i++) {
        bool again = found[i] != GRAFT_OFFLOAD_ON_DEVICE;
        for (size_t k = 0; k < i && !again; k++) again = b->pack[k] == b->pack[i];
        if (!again && stats.used_bytes >= b->exe->use[i].bytes)
            stats.used_bytes -= b->exe->use[i].bytes;
    }
    return stats.used_bytes;
}

/* Of `bytes` what is not left to weights that come behind; others: what these, or others, use. */
static uint64_t less_behind(const bind_job *job, uint64_t bytes, uint64_t others)
{
    const graft_exe *x = job->b->exe;
    const uint64_t behind = job->room->behind > others ? job->room->behind - others : 0;
    const uint64_t half = bytes / 2, most = bytes - (behind < half ? behind : half);
    if (x->weight_bytes <= most) return bytes;
    const uint64_t least = graft_offload_least(x);
    return most > least ? most : bytes < least ? bytes : least;
}

static graft_status choose(bind_job *job, const graft_offload_found *found, graft_err *e)
{
    graft_binding *b = job->b;
    const graft_offload_room *room = job->room;
    if (!room) return GRAFT_OK;
    if (b->exe->weight_bytes <= room->own && room->with_others == UINT64_MAX) return GRAFT_OK;
    uint64_t others = used_by_others(job, room->with_others, found);
    if (others < room->beside) others = room->beside;
    uint64_t bytes = room->with_others > others ? room->with_others - others : 0;
    const bool is_limit = room->is_limit || room->own < bytes;
    if (bytes > room->own) bytes = room->own;
    if (room->behind) bytes = less_behind(job, bytes, others);
    return graft_offload_choose(b->exe, bytes, is_limit, found, &b->offload, e);
}

/* Keeps what is where it shall be, and lists the rest. */
static graft_status bind_present(bind_job *job, const graft_task *task, graft_err *e)
{
    graft_binding *b = job->b;
    const size_t n = b->exe->n_uses;
    graft_offload_found *found = graft_calloc(n, sizeof *found);
    if (!found) return graft_fail_nomem(e, "weight table");
    graft_status st = find_packs(job, found, task, e);
    if (!st) st = choose(job, found, e);
    for (size_t i = 0; i < n; i++) {
        const bool away = found[i] == GRAFT_OFFLOAD_ON_HOST;
        if (b->pack[i] && (st || away != is_away(b, i))) {
            graft_packs_put(away ? job->room->packs : b->packs, b->pack[i]);
            b->pack[i] = NULL;
        }
        if (!b->pack[i]) job->missing[job->n_missing++] = (uint32_t)i;
    }
    graft_free(found);
    return st;
}

static int largest_first(const void *pa, const void *pb, void *ctx)
{
    const graft_exe_use *use = ctx;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    if (use[a].bytes != use[b].bytes) return use[a].bytes < use[b].bytes ? 1 : -1;
    return a < b ? -1 : a > b;
}

/* A pack that does not stay on the device is made there all the same; one of a file in the file. */
typedef struct away_job {
    fill_job *fill;
    void *passing;
} away_job;

static graft_status fill_away(void *ctx, void *dst, graft_hash *content, graft_err *e)
{
    const away_job *a = ctx;
    const graft_backend *b = a->fill->exe->backend;
    graft_status st = fill(a->fill, a->passing ? a->passing : dst, content, e);
    if (!st && !a->passing) graft_spill_done(dst, a->fill->use->bytes);
    if (st || !a->passing) return st;
    st = b->api->download(b->device, dst, a->passing, a->fill->use->bytes);
    return packing_failed(a->fill, st, e);
}

/* Where the sources of one use lie while LoRAs are merged: what passes through is behind it. */
static graft_merge_room room_to_merge(const bind_job *job, uint32_t use)
{
    const graft_binding *b = job->b;
    if (!job->passing) return (graft_merge_room){.packs = b->packs, .slab = job->stored};
    const uint64_t own = graft_backend_aligned(b->exe->backend, b->exe->use[use].bytes);
    const uint64_t before = is_away(b, use) ? own : 0;
    if (before > job->passing_bytes) return (graft_merge_room){.passing = job->passing};
    return (graft_merge_room){.passing = job->passing + before,
                              .bytes = job->passing_bytes - before};
}

static graft_status bind_missing(void *ctx, size_t i, const graft_task *task, graft_err *e)
{
    const bind_job *job = ctx;
    graft_binding *b = job->b;
    uint32_t use = job->missing[i];
    const bool away = is_away(b, use);
    const graft_merge_room room = room_to_merge(job, use);
    fill_job j = {.exe = b->exe,
                  .use = &b->exe->use[use],
                  .weights = b->weights,
                  .merge = job->merge ? &room : NULL,
                  .ready = job->item ? &job->item[i].data : NULL,
                  .forgets = job->ahead != NULL};
    graft_backend *backend = b->exe->backend;
    graft_packs *store = away ? b->offloaded : b->packs;
    graft_slab *slab = away ? NULL : job->slab;
    away_job passing = {&j, job->passing};
    graft_pack_fill *filled = away ? fill_away : fill;
    void *with = away ? (void *)&passing : (void *)&j;
    graft_pack_name name;
    (void)task;
    graft_status st = graft_weights_unchanged(b->weights, e);
    if (st) return st;
    graft_ahead_reach(job->ahead, i);
    if (j.use->bytes >= SMALL && !is_known(&j)) {
        st = sample_of(&j, &name.sample, e);
        if (!st)
            st = graft_packs_add(store, backend, name.sample, j.use->bytes, slab, filled, with,
                                 &b->pack[use], e);
        if (st || b->pack[use]) return st;
    }
    st = name_of(&j, &name, e);
    return st ? st
              : graft_packs_get(store, backend, name, j.use->bytes, slab, filled, with,
                                &b->pack[use], e);
}

/* Several uses of one weight in one layout have one pack. */
static bool is_repeated(const bind_job *job, size_t i)
{
    const graft_exe_use *use = job->b->exe->use, *u = &use[job->missing[i]];
    /* They follow each other: sorted by size. */
    for (size_t k = i; k-- && use[job->missing[k]].bytes == u->bytes;)
        if (graft_exe_same_weight(&use[job->missing[k]], u)) return true;
    return false;
}

/* Room for the weights that LoRAs are merged from. They are a convenience: where they would take
 * more than the budget the host merges. */
static graft_status reserve_stored(bind_job *job, graft_err *e)
{
    graft_binding *b = job->b;
    uint64_t all = 0;
    size_t n = 0, cap = 0;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < job->n_missing; i++) {
        int32_t slot = b->exe->use[job->missing[i]].slot;
        if (slot >= 0) cap += b->exe->graph->slot[slot].n_sources;
    }
    uint64_t *bytes = graft_malloc_array(cap, sizeof *bytes);
    if (!bytes) return graft_fail_nomem(e, "weight table");
    for (size_t i = 0; i < job->n_missing && !st; i++) {
        size_t more;
        if (is_repeated(job, i) || !graft_merge_possible(b->exe, job->missing[i], b->weights))
            continue;
        st = graft_merge_sizes(b->exe, job->missing[i], b->weights, b->packs, bytes + n, &more, e);
        for (size_t k = 0; k < more && !st; k++) all += bytes[n + k];
        n += st ? 0 : more;
        job->merge = true;
    }
    if (!st && job->merge) job->merge = graft_packs_fit(b->packs, all);
    if (!st && job->merge) job->stored = graft_packs_reserve(b->packs, b->exe->backend, bytes, n);
    graft_free(bytes);
    return st;
}

/* One allocation for what is missing. What another set seems to have is not counted in, and not
 * loaded ahead. */
static graft_status reserve(bind_job *job, graft_err *e)
{
    graft_binding *b = job->b;
    const graft_exe *x = b->exe;
    uint64_t *bytes = graft_malloc_array(job->n_missing, sizeof *bytes);
    graft_status st = bytes ? GRAFT_OK : graft_fail_nomem(e, "weight table");
    size_t n = 0;
    for (size_t i = 0; i < job->n_missing && !st; i++) {
        fill_job j = {.exe = x, .use = &x->use[job->missing[i]], .weights = b->weights};
        graft_hash sample;
        const bool away = is_away(b, job->missing[i]);
        if (is_repeated(job, i)) continue;
        st = sample_of(&j, &sample, e);
        if (st || graft_packs_sampled(away ? b->offloaded : b->packs, x->backend, sample)) continue;
        if (!away) bytes[n++] = j.use->bytes;
        if (job->item) job->item[i].load = true;
        if (job->item) job->item[i].wanted = blocks_wanted(&j);
    }
    if (!st) job->slab = graft_packs_reserve(b->packs, x->backend, bytes, n);
    graft_free(bytes);
    return st;
}

/* Weights that LoRAs are merged into on the device are loaded there. */
static void read_ahead(bind_job *job)
{
    const graft_exe *x = job->b->exe;
    for (size_t i = 0; i < job->n_missing && job->item; i++) {
        const graft_exe_use *use = &x->use[job->missing[i]];
        graft_ahead_item *item = &job->item[i];
        item->slot = use->slot < 0 ? NULL : &x->graph->slot[use->slot];
        item->bytes = use->bytes;
        if (job->merge && graft_merge_possible(x, job->missing[i], job->b->weights))
            item->load = false;
    }
    if (job->item)
        job->ahead =
            graft_ahead_begin(job->b->weights, job->item, job->n_missing, x->backend->threads);
}

/* Devices have one queue of copies, which threads would only wait for: one thread packs, and others
 * read ahead of it. Where memory is so short that weights are away nothing is kept for LoRAs. */
static graft_status bind_for_device(bind_job *job, const graft_task *task, graft_err *e)
{
    job->item = graft_calloc(job->n_missing, sizeof *job->item); /* a convenience */
    graft_status st = reserve(job, e);
    if (job->passing)
        job->merge = true;
    else if (!st)
        st = reserve_stored(job, e);
    if (!st) read_ahead(job);
    if (!st) st = graft_crew_run(job->n_missing, 1, bind_missing, job, task, e);
    graft_ahead_end(job->ahead);
    graft_free(job->item);
    return st;
}

/* Of the packs that are made, those that stay on the device. */
static uint64_t missing_there(const bind_job *job)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < job->n_missing; i++)
        if (!is_away(job->b, job->missing[i]) && !is_repeated(job, i))
            bytes += job->b->exe->use[job->missing[i]].bytes;
    return bytes;
}

/* What does not stay on the device passes through the memory of its later runs. */
static graft_status bind_some_away(bind_job *job, const graft_task *task, graft_err *e)
{
    const graft_binding *b = job->b;
    graft_arenas *arenas = job->room->arenas;
    graft_arena *a = graft_binding_take_arena(b, arenas, e);
    if (!a) return GRAFT_E_NOMEM;
    job->passing = a->data;
    job->passing_bytes = (uint64_t)graft_binding_arena(b);
    graft_status st = bind_for_device(job, task, e);
    graft_arenas_give(arenas, a);
    return st;
}

static graft_status bind_all(graft_binding *b, const graft_offload_room *room,
                             const graft_task *task, graft_err *e)
{
    graft_exe *x = b->exe;
    bind_job job = {
        .b = b, .room = room, .missing = graft_malloc_array(x->n_uses, sizeof *job.missing)};
    if (!job.missing) return graft_fail_nomem(e, "weight table");
    graft_status st = bind_present(&job, task, e);
    qsort_r(job.missing, job.n_missing, sizeof *job.missing, largest_first, x->use);
    /* The store's budget does not know of the window. */
    if (!st && b->offload && b->offload->window)
        graft_packs_make_room(b->packs, b->offload->window + missing_there(&job));
    if (!st && job.n_missing) {
        if (x->backend->info.host_memory)
            st = graft_crew_run(job.n_missing, x->backend->threads, bind_missing, &job, task, e);
        else
            st = b->offload ? bind_some_away(&job, task, e) : bind_for_device(&job, task, e);
        for (size_t i = 0; i < job.n_missing && !st && task; i++) {
            int32_t slot = x->use[job.missing[i]].slot;
            if (slot >= 0) graft_weights_report(b->weights, &x->graph->slot[slot], &task->log);
        }
    }
    graft_packs_reserved(b->packs, job.slab);
    graft_packs_reserved(b->packs, job.stored);
    graft_packs_settle(b->packs);
    if (b->offloaded) graft_packs_settle(b->offloaded);
    graft_free(job.missing);
    return st;
}

/* Where a run reads weights, and where some of them come to. */
static void find_places(graft_binding *b)
{
    const size_t n = b->exe->n_uses;
    for (size_t i = 0; i < n; i++) {
        const void *place = graft_pack_data(b->pack[i]);
        b->places = graft_hash_mix(b->places, &place, sizeof place);
        if (is_away(b, i) && graft_pack_ordinary(b->pack[i]))
            b->offload->ordinary += b->exe->use[i].bytes;
    }
    if (b->offload)
        b->places =
            graft_hash_mix(b->places, b->offload->all.place, n * sizeof *b->offload->all.place);
}

graft_status graft_binding_create(graft_exe *x, graft_weights *w, graft_packs *packs,
                                  const graft_offload_room *room, const graft_task *task,
                                  graft_binding **out, graft_err *e)
{
    graft_binding *b = graft_calloc(1, sizeof *b);
    graft_pack **pack = graft_calloc(x->n_uses, sizeof *pack);
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
    b->offloaded = room ? room->packs : NULL;
    graft_status st = bind_all(b, room, task, e);
    if (!st) find_places(b);
    if (st)
        graft_binding_release(b);
    else
        *out = b;
    return st;
}

void graft_binding_release(graft_binding *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) != 1) return;
    for (size_t i = 0; i < b->exe->n_uses; i++)
        graft_packs_put(is_away(b, i) ? b->offloaded : b->packs, b->pack[i]);
    graft_offload_free(b->offload);
    graft_free(b->pack);
    graft_weights_release(b->weights);
    graft_exe_release(b->exe);
    graft_free(b);
}

/* at: where it is when both have the same weights in the same order, as variants mostly do. */
static bool holds(const graft_binding *b, size_t uses, size_t at, const graft_pack *pack)
{
    if (at < uses && b->pack[at] == pack) return true;
    for (size_t i = 0; i < uses; i++)
        if (b->pack[i] == pack) return true;
    return false;
}

uint64_t graft_bindings_bytes(graft_binding *const *list, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < list[i]->exe->n_uses; k++) {
            bool again = is_away(list[i], k) || holds(list[i], k, k, list[i]->pack[k]);
            for (size_t j = 0; j < i && !again; j++)
                again = holds(list[j], list[j]->exe->n_uses, k, list[i]->pack[k]);
            if (!again) bytes += list[i]->exe->use[k].bytes;
        }
    return bytes;
}

uint64_t graft_binding_bytes(const graft_binding *b)
{
    return b->exe->weight_bytes - (b->offload ? b->offload->bytes : 0);
}

graft_arena *graft_binding_take_arena(const graft_binding *b, graft_arenas *arenas, graft_err *e)
{
    const uint64_t bytes = (uint64_t)graft_binding_arena(b);
    graft_arena *a = graft_arenas_take(arenas, b->exe->backend, bytes, e);
    if (a) return a;
    graft_packs_trim(b->packs, 0);
    return graft_arenas_take(arenas, b->exe->backend, bytes, e);
}

int64_t graft_binding_arena(const graft_binding *b)
{
    const int64_t own = b->exe->arena_bytes;
    if (!b->offload) return own;
    return (int64_t)(graft_backend_aligned(b->exe->backend, (uint64_t)own) + b->offload->window);
}
