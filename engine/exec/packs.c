#include "engine/exec/packs.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/exec/spill.h"

#define SPARE_MIN 65536 /* smaller blocks come cheaply from the heap */

/* A pack's life, in states that change under the lock:
 *
 *     add() ── FILLING ──┬── READY ── put() by its last user ── unused ── trimmed, or dropped
 *             (refs 1:   │     └──── get(), from unused as well ────┘
 *            the filler) └── FAILED ── goes with the last who waited, who then try themselves
 *
 * Who asks for a pack that is FILLING waits for `filled`, which is signalled when filling ends and
 * when a failed pack goes. A pack that was asked for by its sample alone has no name until it is
 * filled ("nameless"): it may turn out to be any that has this sample, so whoever asks for one of
 * these by name waits for it, too. A dropped pack in use is "unwanted" and goes with its last user,
 * unless somebody gets it before; its memory becomes a spare for the next of its size.
 *
 * A fill may take packs in turn: a merge's those of stored tensors (merge.c), whose fills take
 * none. So nobody waits in a circle. */
typedef enum pack_state { PACK_FILLING, PACK_READY, PACK_FAILED } pack_state;

/* One block of a device's memory for the packs of a set. */
struct graft_slab {
    graft_backend *backend;
    uint8_t *data;
    uint64_t bytes, taken;
    size_t live;        /* packs and spares in it, and whoever reserved it */
    uint64_t last_used; /* while packs are trimmed: the latest of its packs' */
    bool busy;          /* likewise: someone uses one of them */
    bool reserved;      /* more packs may come */
    graft_slab *next;
};

struct graft_pack {
    graft_pack_name name;
    graft_backend *backend;
    graft_slab *slab; /* NULL: `data` is a block of its own */
    void *data;
    uint64_t bytes, last_used;
    int refs;
    pack_state state;
    bool ordinary;    /* see graft_pack_ordinary() */
    bool nameless;    /* its content is found out while it is filled */
    bool unwanted;    /* goes with its last user */
    graft_pack *next; /* in its bucket */
};

/* Memory of a pack that was dropped for another of its size. */
typedef struct spare {
    graft_backend *backend;
    graft_slab *slab;
    void *data;
    uint64_t bytes;
    bool ordinary;
    bool promised; /* while a slab's size is found out */
    struct spare *next;
} spare;

/* Memory that nobody has any more. */
typedef struct dead {
    graft_backend *backend;
    void *data;
    uint64_t bytes;
    bool ordinary;
    struct dead *next;
} dead;

struct graft_packs {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    graft_pack **bucket;
    size_t n_buckets;
    spare *spares;
    graft_slab *slabs;
    dead *dead; /* freed when the lock is given back */
    bool no_slabs;
    bool offloaded;    /* see graft_packs_create() */
    const char *spill; /* the folder for packs of the machine's own memory */
    uint64_t clock, budget;
    graft_packs_stats stats;
};

graft_status graft_packs_create(bool offloaded, const char *spill, graft_packs **out, graft_err *e)
{
    graft_packs *p = graft_calloc(1, sizeof *p);
    graft_pack **bucket = graft_calloc(4096, sizeof *bucket);
    if (!p || !bucket) {
        graft_free(p);
        graft_free(bucket);
        return graft_fail_nomem(e, "store of packed weights");
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->filled, NULL);
    p->bucket = bucket;
    p->n_buckets = 4096;
    p->budget = UINT64_MAX;
    p->offloaded = p->no_slabs = offloaded;
    p->spill = spill;
    *out = p;
    return GRAFT_OK;
}

static graft_pack **place_of(graft_packs *p, graft_hash sample)
{
    return &p->bucket[sample.lo & (p->n_buckets - 1)];
}

static void *memory_alloc(const graft_packs *p, const graft_backend *b, uint64_t bytes)
{
    if (!p->offloaded) return b->api->alloc(b->device, bytes);
    return b->info.host_memory ? graft_spill_alloc(p->spill, bytes)
                               : graft_backend_more(b)->host_alloc(b->device, bytes);
}

static void memory_free(const graft_packs *p, const dead *d)
{
    const graft_backend *b = d->backend;
    if (d->ordinary)
        graft_free(d->data);
    else if (!p->offloaded)
        b->api->free(b->device, d->data);
    else if (b->info.host_memory)
        graft_spill_free(d->data, d->bytes);
    else
        graft_backend_more(b)->host_free(b->device, d->data);
}

/* A device may wait for all its work before it frees memory: not while others wait for the lock. */
static void unlock(graft_packs *p)
{
    dead *list = p->dead;
    p->dead = NULL;
    pthread_mutex_unlock(&p->lock);
    while (list) {
        dead *d = list;
        list = d->next;
        memory_free(p, d);
        graft_free(d);
    }
}

/* ------------------------------------------------------------------ memory, the lock is held */

static void bury(graft_packs *p, const dead *memory)
{
    dead *d = graft_malloc(sizeof *d);
    if (!d) {
        memory_free(p, memory);
        return;
    }
    *d = *memory;
    d->next = p->dead;
    p->dead = d;
}

static void slab_leave(graft_packs *p, graft_slab *s)
{
    if (--s->live) return;
    graft_slab **at = &p->slabs;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    p->stats.bytes -= s->bytes;
    p->stats.slabs--;
    bury(p, &(dead){.backend = s->backend, .data = s->data, .bytes = s->bytes});
    graft_free(s);
}

static void free_memory(graft_packs *p, graft_slab *slab, const dead *memory)
{
    if (slab)
        slab_leave(p, slab);
    else if (memory->data)
        bury(p, memory);
}

/* Takes the pack out of the table and frees it. */
static void drop(graft_packs *p, graft_pack *pack)
{
    graft_pack **at = place_of(p, pack->name.sample);
    while (*at != pack) at = &(*at)->next;
    *at = pack->next;
    if (pack->state == PACK_READY) {
        if (!pack->slab) p->stats.bytes -= pack->bytes;
        p->stats.count--;
    }
    const dead memory = {pack->backend, pack->data, pack->bytes, pack->ordinary, NULL};
    if (pack->data) free_memory(p, pack->slab, &memory);
    graft_free(pack);
}

/* As drop(), but the memory waits for the next pack of this size: a swap then needs no fresh pages,
 * which the system would clear one by one, and other weights take the old ones' places in a slab.
 */
static void recycle(graft_packs *p, graft_pack *pack)
{
    bool worth = pack->data && (pack->slab || pack->bytes >= SPARE_MIN);
    spare *s = worth ? graft_malloc(sizeof *s) : NULL;
    if (s) {
        *s = (spare){.backend = pack->backend,
                     .slab = pack->slab,
                     .data = pack->data,
                     .bytes = pack->bytes,
                     .ordinary = pack->ordinary,
                     .next = p->spares};
        p->spares = s;
        pack->data = NULL;
    }
    drop(p, pack);
}

/* Memory for a new pack from the spares; false when none fits. */
static bool take_spare(graft_packs *p, graft_pack *k)
{
    for (spare **at = &p->spares; *at; at = &(*at)->next) {
        spare *s = *at;
        if (s->backend != k->backend || s->bytes != k->bytes) continue;
        k->data = s->data;
        k->slab = s->slab;
        k->ordinary = s->ordinary;
        *at = s->next;
        graft_free(s);
        return true;
    }
    return false;
}

/* The next place of the slab; false when it is full. */
static bool take_place(graft_slab *s, graft_pack *k)
{
    uint64_t bytes = s ? graft_backend_aligned(s->backend, k->bytes) : 0;
    if (!bytes || s->backend != k->backend || bytes > s->bytes - s->taken) return false;
    k->data = s->data + s->taken;
    k->slab = s;
    s->taken += bytes;
    s->live++;
    return true;
}

static void free_spares(graft_packs *p)
{
    while (p->spares) {
        spare *s = p->spares;
        p->spares = s->next;
        free_memory(p, s->slab, &(dead){s->backend, s->data, s->bytes, s->ordinary, NULL});
        graft_free(s);
    }
}

void graft_packs_destroy(graft_packs *p)
{
    if (!p) return;
    graft_packs_trim(p, 0);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->filled);
    graft_free(p->bucket);
    graft_free(p);
}

/* Drops the packs of a slab that nobody uses, and so the slab. */
static void drop_slab(graft_packs *p, graft_slab *slab)
{
    slab->live++; /* until all of them are gone */
    for (size_t i = 0; i < p->n_buckets; i++)
        for (graft_pack *k = p->bucket[i], *next; k; k = next) {
            next = k->next;
            if (k->slab == slab) drop(p, k);
        }
    for (spare **at = &p->spares; *at;) {
        spare *s = *at;
        if (s->slab != slab) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        slab_leave(p, slab);
        graft_free(s);
    }
    slab_leave(p, slab);
}

/* A pack in a slab goes with all the others of it, or no memory would come free. */
static void trim_locked(graft_packs *p, uint64_t bytes)
{
    while (p->stats.bytes > bytes) {
        graft_pack *oldest = NULL;
        graft_slab *slab = NULL;
        for (graft_slab *s = p->slabs; s; s = s->next) {
            s->busy = s->reserved;
            s->last_used = 0;
        }
        for (size_t i = 0; i < p->n_buckets; i++)
            for (graft_pack *k = p->bucket[i]; k; k = k->next) {
                if (!k->slab) {
                    if (!k->refs && (!oldest || k->last_used < oldest->last_used)) oldest = k;
                    continue;
                }
                k->slab->busy |= k->refs > 0;
                if (k->last_used > k->slab->last_used) k->slab->last_used = k->last_used;
            }
        for (graft_slab *s = p->slabs; s; s = s->next)
            if (!s->busy && (!slab || s->last_used < slab->last_used)) slab = s;
        if (slab && (!oldest || slab->last_used < oldest->last_used))
            drop_slab(p, slab);
        else if (oldest)
            drop(p, oldest);
        else
            return;
    }
}

/* For so many bytes more. */
static void make_room(graft_packs *p, uint64_t bytes)
{
    if (p->budget != UINT64_MAX) trim_locked(p, p->budget > bytes ? p->budget - bytes : 0);
}

void graft_packs_trim(graft_packs *p, uint64_t bytes)
{
    pthread_mutex_lock(&p->lock);
    free_spares(p);
    trim_locked(p, bytes);
    unlock(p);
}

void graft_packs_settle(graft_packs *p)
{
    pthread_mutex_lock(&p->lock);
    free_spares(p);
    unlock(p);
}

void graft_packs_set_budget(graft_packs *p, uint64_t bytes)
{
    pthread_mutex_lock(&p->lock);
    p->budget = bytes;
    trim_locked(p, bytes);
    unlock(p);
}

static bool is_sample(const graft_pack *k, const graft_backend *backend, graft_hash sample)
{
    return k->backend == backend && graft_hash_equal(k->name.sample, sample);
}

static graft_pack *find(graft_packs *p, const graft_backend *backend, graft_pack_name name)
{
    for (graft_pack *k = *place_of(p, name.sample); k; k = k->next)
        if (!k->nameless && is_sample(k, backend, name.sample) &&
            graft_hash_equal(k->name.content, name.content))
            return k;
    return NULL;
}

/* A pack with this sample; `nameless`: only one whose content is not known yet. */
static graft_pack *find_sample(graft_packs *p, const graft_backend *backend, graft_hash sample,
                               bool nameless)
{
    for (graft_pack *k = *place_of(p, sample); k; k = k->next)
        if (is_sample(k, backend, sample) && (k->nameless || !nameless)) return k;
    return NULL;
}

/* Waits for a pack that another thread fills; NULL when that failed. The lock is held. */
static graft_pack *join(graft_packs *p, graft_pack *k)
{
    k->refs++;
    while (k->state == PACK_FILLING) pthread_cond_wait(&p->filled, &p->lock);
    if (k->state == PACK_READY) {
        p->stats.shared++;
        k->unwanted = false;
        return k;
    }
    if (--k->refs == 0) {
        drop(p, k);
        pthread_cond_broadcast(&p->filled);
    }
    return NULL;
}

/* A new pack with one user, in its bucket, with memory if a spare or the slab has it; else makes
 * room. */
static graft_pack *add(graft_packs *p, graft_backend *backend, graft_pack_name name, uint64_t bytes,
                       graft_slab *slab)
{
    graft_pack *k = graft_calloc(1, sizeof *k);
    if (!k) return NULL;
    k->name = name;
    k->backend = backend;
    k->bytes = bytes;
    k->refs = 1;
    if (!take_spare(p, k) && !take_place(slab, k)) make_room(p, bytes);
    graft_pack **at = place_of(p, name.sample);
    k->next = *at;
    *at = k;
    return k;
}

/* Memory for a pack; where there is none, that of packs which nobody uses comes free first: the
 * system may have less than the device says, in a container or under a limit. Memory that a device
 * reads by itself is shorter than other memory is, and other memory does in its place. */
static void *allocate(graft_packs *p, graft_pack *k)
{
    const graft_backend *b = k->backend;
    uint64_t bytes = k->bytes ? k->bytes : 1;
    void *data = memory_alloc(p, b, bytes);
    if (data) return data;
    graft_packs_trim(p, 0);
    data = memory_alloc(p, b, bytes);
    if (data || !p->offloaded || b->info.host_memory) return data;
    k->ordinary = true;
    return graft_malloc(bytes);
}

/* Behind allocate(). */
static graft_status no_room(const graft_packs *p, const graft_pack *k, graft_err *e)
{
    char buf[128];
    if (p->offloaded && k->backend->info.host_memory)
        return graft_fail(e, GRAFT_E_NOMEM,
                          "out of memory: weights that have no room in it cannot lie in %s: %s",
                          p->spill, strerror_r(errno, buf, sizeof buf));
    return graft_fail(e, GRAFT_E_NOMEM, "out of memory: %llu bytes of packed weights%s",
                      (unsigned long long)k->bytes, p->offloaded ? " in the host's memory" : "");
}

/* Fills a pack that add() gave, NULL when it failed. Without the lock. */
static graft_status fill_pack(graft_packs *p, graft_pack *k, graft_pack_fill *fill, void *ctx,
                              graft_pack **out, graft_err *e)
{
    graft_status st;
    graft_hash content = {0, 0};
    if (!k) return graft_fail_nomem(e, "packed weights");
    if (!k->data) k->data = allocate(p, k);
    if (!k->data)
        st = no_room(p, k, e);
    else
        st = fill(ctx, k->data, k->nameless ? &content : NULL, e);
    pthread_mutex_lock(&p->lock);
    if (k->nameless) k->name.content = content;
    k->state = st ? PACK_FAILED : PACK_READY;
    if (!st) {
        k->nameless = false;
        if (!k->slab) p->stats.bytes += k->bytes;
        p->stats.count++;
        p->stats.made++;
        *out = k;
    } else if (--k->refs == 0) {
        drop(p, k);
    }
    pthread_cond_broadcast(&p->filled);
    unlock(p);
    return st;
}

graft_status graft_packs_get(graft_packs *p, graft_backend *backend, graft_pack_name name,
                             uint64_t bytes, graft_slab *slab, graft_pack_fill *fill, void *ctx,
                             graft_pack **out, graft_err *e)
{
    pthread_mutex_lock(&p->lock);
    for (;;) {
        graft_pack *k = find(p, backend, name);
        if (!k && !find_sample(p, backend, name.sample, true)) break;
        if (!k || k->state == PACK_FAILED) { /* it may be this; its waiters are on their way out */
            pthread_cond_wait(&p->filled, &p->lock);
            continue;
        }
        if ((k = join(p, k)) == NULL) continue;
        unlock(p);
        *out = k;
        return GRAFT_OK;
    }
    graft_pack *k = add(p, backend, name, bytes, slab);
    unlock(p);
    return fill_pack(p, k, fill, ctx, out, e);
}

graft_status graft_packs_add(graft_packs *p, graft_backend *backend, graft_hash sample,
                             uint64_t bytes, graft_slab *slab, graft_pack_fill *fill, void *ctx,
                             graft_pack **out, graft_err *e)
{
    *out = NULL;
    pthread_mutex_lock(&p->lock);
    bool taken = find_sample(p, backend, sample, false) != NULL;
    graft_pack *k = NULL;
    if (!taken) k = add(p, backend, (graft_pack_name){{0, 0}, sample}, bytes, slab);
    if (k) k->nameless = true;
    unlock(p);
    return taken ? GRAFT_OK : fill_pack(p, k, fill, ctx, out, e);
}

graft_pack *graft_packs_find(graft_packs *p, const graft_backend *backend, graft_pack_name name)
{
    pthread_mutex_lock(&p->lock);
    graft_pack *k = find(p, backend, name);
    if (k && k->state == PACK_READY)
        k = join(p, k);
    else
        k = NULL;
    unlock(p);
    return k;
}

void graft_packs_put(graft_packs *p, graft_pack *pack)
{
    if (!pack) return;
    pthread_mutex_lock(&p->lock);
    pack->refs--;
    pack->last_used = ++p->clock;
    if (pack->unwanted && !pack->refs) recycle(p, pack);
    trim_locked(p, p->budget);
    unlock(p);
}

void graft_packs_drop(graft_packs *p, const graft_backend *backend, graft_pack_name name)
{
    pthread_mutex_lock(&p->lock);
    graft_pack *k = find(p, backend, name);
    if (k && k->state == PACK_READY) {
        k->unwanted = true;
        if (!k->refs) recycle(p, k);
    }
    unlock(p);
}

uint64_t graft_packs_resident(graft_packs *p, const graft_backend *backend, graft_pack_name name)
{
    pthread_mutex_lock(&p->lock);
    const graft_pack *k = find(p, backend, name);
    uint64_t bytes = k && k->state == PACK_READY ? k->bytes : 0;
    unlock(p);
    return bytes;
}

bool graft_packs_sampled(graft_packs *p, const graft_backend *backend, graft_hash sample)
{
    pthread_mutex_lock(&p->lock);
    bool there = find_sample(p, backend, sample, false) != NULL;
    unlock(p);
    return there;
}

/* ------------------------------------------------------------------ slabs */

/* What packs of these sizes take beyond the spares; the lock is held. */
static uint64_t beyond_spares(graft_packs *p, const graft_backend *backend, const uint64_t *bytes,
                              size_t n)
{
    uint64_t all = 0;
    for (spare *s = p->spares; s; s = s->next) s->promised = false;
    for (size_t i = 0; i < n; i++) {
        spare *s = p->spares;
        while (s && (s->promised || s->backend != backend || s->bytes != bytes[i])) s = s->next;
        if (s)
            s->promised = true;
        else
            all += graft_backend_aligned(backend, bytes[i]);
    }
    return all;
}

graft_slab *graft_packs_reserve(graft_packs *p, graft_backend *backend, const uint64_t *bytes,
                                size_t n)
{
    graft_slab *s = n > 1 && !backend->info.host_memory ? graft_calloc(1, sizeof *s) : NULL;
    if (!s) return NULL;
    pthread_mutex_lock(&p->lock);
    s->backend = backend;
    s->bytes = p->no_slabs ? 0 : beyond_spares(p, backend, bytes, n);
    if (s->bytes) make_room(p, s->bytes);
    unlock(p);
    if (s->bytes) s->data = backend->api->alloc(backend->device, s->bytes);
    if (!s->data) {
        graft_free(s);
        return NULL;
    }
    pthread_mutex_lock(&p->lock);
    s->live = 1;
    s->reserved = true;
    s->next = p->slabs;
    p->slabs = s;
    p->stats.bytes += s->bytes;
    p->stats.slabs++;
    unlock(p);
    return s;
}

bool graft_packs_fit(graft_packs *p, uint64_t bytes)
{
    pthread_mutex_lock(&p->lock);
    bool fits = bytes <= p->budget;
    if (fits && p->stats.bytes > p->budget - bytes) {
        trim_locked(p, p->budget - bytes);
        fits = p->stats.bytes <= p->budget - bytes;
    }
    unlock(p);
    return fits;
}

void graft_packs_make_room(graft_packs *p, uint64_t bytes)
{
    pthread_mutex_lock(&p->lock);
    make_room(p, bytes);
    unlock(p);
}

void graft_packs_reserved(graft_packs *p, graft_slab *s)
{
    if (!s) return;
    pthread_mutex_lock(&p->lock);
    s->reserved = false;
    slab_leave(p, s);
    unlock(p);
}

void graft_packs_use_slabs(graft_packs *p, bool use)
{
    pthread_mutex_lock(&p->lock);
    p->no_slabs = !use;
    unlock(p);
}

const void *graft_pack_data(const graft_pack *pack)
{
    return pack->data;
}

bool graft_pack_ordinary(const graft_pack *pack)
{
    return pack->ordinary;
}

void graft_packs_stats_get(graft_packs *p, graft_packs_stats *out)
{
    pthread_mutex_lock(&p->lock);
    *out = p->stats;
    out->used_bytes = 0;
    for (size_t i = 0; i < p->n_buckets; i++)
        for (graft_pack *k = p->bucket[i]; k; k = k->next)
            if (k->refs && k->state == PACK_READY) out->used_bytes += k->bytes;
    unlock(p);
}
