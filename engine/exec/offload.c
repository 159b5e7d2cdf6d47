#include "engine/exec/offload.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/exec/spill.h"

/* Bytes of a weight: a smaller one is not worth a copy of its own, nor a file. */
#define LEAST          ((uint64_t)64 << 10)
#define LEAST_OF_FILES ((uint64_t)1 << 20)
#define ALIGN          256
#define PIECES         2 /* of the largest size in the window: one is read while the next comes */
#define AHEAD          3 /* pieces of files that the system reads at once */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

bool graft_offload_possible(const graft_backend *b)
{
    const graft_kernels_more *more = graft_backend_more(b);
    return b->info.host_memory ||
           (GRAFT_KERNELS_HAS(more, lane_free) && GRAFT_KERNELS_HAS(more, send));
}

/* ------------------------------------------------------------------ what may be away */

/* The largest of its step, and no other step's. Uses are in the order of steps. */
static bool may_be_away(const graft_exe *x, size_t i)
{
    const graft_exe_use *u = &x->use[i];
    if (u->bytes < (x->backend->info.host_memory ? LEAST_OF_FILES : LEAST)) return false;
    for (size_t k = i; k-- && x->use[k].step == u->step;)
        if (x->use[k].bytes >= u->bytes) return false;
    for (size_t k = i + 1; k < x->n_uses && x->use[k].step == u->step; k++)
        if (x->use[k].bytes > u->bytes) return false;
    for (size_t k = 0; k < x->n_uses; k++)
        if (k != i && graft_exe_same_weight(&x->use[k], u)) return false;
    return true;
}

typedef struct candidates {
    bool *may; /* one a use */
    uint64_t largest, bytes;
} candidates;

static graft_status candidates_init(candidates *c, const graft_exe *x, graft_err *e)
{
    *c = (candidates){graft_calloc(x->n_uses, sizeof *c->may), 0, 0};
    if (!c->may) return graft_fail_nomem(e, "weight table");
    for (size_t i = 0; i < x->n_uses; i++) {
        const uint64_t bytes = aligned(x->use[i].bytes);
        c->may[i] = may_be_away(x, i);
        if (!c->may[i]) continue;
        if (bytes > c->largest) c->largest = bytes;
        c->bytes += x->use[i].bytes;
    }
    return GRAFT_OK;
}

uint64_t graft_offload_least(const graft_exe *x)
{
    candidates c;
    if (candidates_init(&c, x, NULL)) return UINT64_MAX;
    const uint64_t least = x->weight_bytes - c.bytes + c.largest;
    graft_free(c.may);
    return least < x->weight_bytes ? least : x->weight_bytes;
}

/* ------------------------------------------------------------------ what is away */

static bool is_invariant(const graft_exe *x, size_t use)
{
    return x->kept && x->kept[x->use[use].step].invariant;
}

/* What is chosen from at once: the first ones before the others. */
typedef enum pool { THERE_ALREADY, OF_INVARIANTS, NOWHERE_YET, ON_DEVICE, POOLS } pool;

static pool pool_of(const graft_exe *x, size_t use, const graft_offload_found *found)
{
    if (found[use] == GRAFT_OFFLOAD_ON_HOST) return THERE_ALREADY;
    if (found[use] == GRAFT_OFFLOAD_ON_DEVICE) return ON_DEVICE;
    return is_invariant(x, use) ? OF_INVARIANTS : NOWHERE_YET;
}

/* At least `wanted` bytes of the pool, if it has as many, evenly over its weights: after each, the
 * share of what was passed is chosen. Returns what was chosen. */
static uint64_t choose_from(const graft_exe *x, const candidates *c, pool from,
                            const graft_offload_found *found, uint64_t wanted, bool *away)
{
    uint64_t all = 0, passed = 0, chosen = 0;
    for (size_t i = 0; i < x->n_uses; i++)
        if (c->may[i] && pool_of(x, i, found) == from) all += x->use[i].bytes;
    for (size_t i = 0; i < x->n_uses && chosen < wanted; i++) {
        if (!c->may[i] || pool_of(x, i, found) != from) continue;
        passed += x->use[i].bytes;
        const double share = all > wanted ? (double)wanted / (double)all : 1;
        if (passed < all && (double)chosen >= share * (double)passed) continue;
        away[i] = true;
        chosen += x->use[i].bytes;
    }
    return chosen;
}

/* ------------------------------------------------------------------ when it comes */

static void schedule_free(graft_offload_schedule *s)
{
    graft_free(s->piece);
    graft_free(s->place);
}

/* The window is a ring: a piece that does not fit behind the last one begins at its start. It comes
 * once all whose bytes it takes were read, and behind those before it. */
static void place_piece(graft_offload_schedule *s, size_t i, uint64_t window)
{
    graft_offload_piece *p = &s->piece[i];
    const graft_offload_piece *last = i ? p - 1 : NULL;
    uint64_t at = last ? last->offset + aligned(last->bytes) : 0;
    if (at + aligned(p->bytes) > window) at = 0;
    p->offset = at;
    p->behind = last ? last->behind : -1;
    for (size_t k = 0; k < i; k++) {
        const graft_offload_piece *q = &s->piece[k];
        if (q->offset < at + aligned(p->bytes) && at < q->offset + aligned(q->bytes) &&
            q->step > p->behind)
            p->behind = q->step;
    }
}

static graft_status schedule_init(graft_offload_schedule *s, const graft_exe *x,
                                  const graft_offload *o, bool later, graft_err *e)
{
    s->piece = graft_calloc(x->n_uses, sizeof *s->piece);
    s->place = graft_malloc_array(x->n_uses, sizeof *s->place);
    if (!s->piece || !s->place) return graft_fail_nomem(e, "weight table");
    for (size_t i = 0; i < x->n_uses; i++) {
        s->place[i] = -1;
        if (!o->away[i] || (later && is_invariant(x, i))) continue;
        s->piece[s->n] = (graft_offload_piece){
            .use = (uint32_t)i, .step = x->use[i].step, .bytes = x->use[i].bytes};
        if (o->window) {
            place_piece(s, s->n, o->window);
            s->place[i] = (int64_t)s->piece[s->n].offset;
        } else {
            s->piece[s->n].behind = s->n < AHEAD ? -1 : (int64_t)s->piece[s->n - AHEAD].step;
        }
        s->n++;
    }
    return GRAFT_OK;
}

void graft_offload_free(graft_offload *o)
{
    if (!o) return;
    schedule_free(&o->all);
    schedule_free(&o->later);
    graft_free(o->away);
    graft_free(o);
}

/* ------------------------------------------------------------------ the choice */

static graft_status too_little(const graft_exe *x, const candidates *c, uint64_t bytes,
                               bool is_limit, graft_err *e)
{
    const uint64_t arena = (uint64_t)x->arena_bytes;
    const uint64_t least = arena + x->weight_bytes - c->bytes + c->largest;
    const uint64_t left = (arena + bytes) >> 20;
    const bool in_files = x->backend->info.host_memory;
    char device[48] = "";
    if (!in_files) snprintf(device, sizeof device, " on %s", x->backend->name);
    return graft_fail(e, is_limit ? GRAFT_E_LIMIT : GRAFT_E_NOMEM,
                      "%s%s needs %llu MiB%s even with weights in %s, and %llu MiB are left for "
                      "it; a smaller picture or batch needs less%s",
                      is_limit ? "" : "out of memory: ", x->kind,
                      (unsigned long long)graft_size_mib(least), device,
                      in_files ? "files" : "the host's memory", (unsigned long long)left,
                      is_limit ? ", a higher limit gives it more" : "");
}

graft_status graft_offload_choose(const graft_exe *x, uint64_t bytes, bool is_limit,
                                  const graft_offload_found *found, graft_offload **out,
                                  graft_err *e)
{
    candidates c = {0};
    graft_offload *o = NULL;
    graft_status st = GRAFT_OK;
    *out = NULL;
    if (x->weight_bytes <= bytes) return GRAFT_OK;
    GRAFT_TRY(candidates_init(&c, x, e));
    const uint64_t stays = x->weight_bytes - c.bytes; /* whatever is chosen */
    if (!c.bytes || stays + c.largest > bytes) {
        st = too_little(x, &c, bytes, is_limit, e);
        goto out;
    }
    o = graft_calloc(1, sizeof *o);
    if (o) o->away = graft_calloc(x->n_uses, sizeof *o->away);
    if (!o || !o->away) {
        st = graft_fail_nomem(e, "weight table");
        goto out;
    }
    const uint64_t window = stays + PIECES * c.largest > bytes ? c.largest : PIECES * c.largest;
    const uint64_t wanted = x->weight_bytes - (bytes - window);
    o->window = x->backend->info.host_memory ? 0 : window;
    for (pool p = 0; p < POOLS && o->bytes < wanted; p++)
        o->bytes += choose_from(x, &c, p, found, wanted - o->bytes, o->away);
    GRAFT_TRY(schedule_init(&o->all, x, o, false, e));
    GRAFT_TRY(schedule_init(&o->later, x, o, true, e));
    *out = o;
    o = NULL;
out:
    graft_offload_free(o);
    graft_free(c.may);
    return st;
}

/* ------------------------------------------------------------------ runs */

void graft_offload_begin(graft_offload_run *r)
{
    r->loaded = r->needed = 0;
}

static const graft_pack *pack_of(const graft_offload_run *r, size_t i)
{
    return r->pack[r->schedule->piece[i].use];
}

static void *data_of(const graft_offload_run *r, size_t i)
{
    return (void *)(uintptr_t)graft_pack_data(pack_of(r, i));
}

static bool by_lane(const graft_offload_run *r, size_t i)
{
    return r->lane && !graft_pack_ordinary(pack_of(r, i));
}

static graft_status load(const graft_offload_run *r, size_t i)
{
    const graft_offload_piece *p = &r->schedule->piece[i];
    uint8_t *place = r->window + p->offset;
    if (by_lane(r, i))
        return r->more->lane_load(r->lane, (uint32_t)i, place, data_of(r, i), p->bytes);
    if (r->lane) return r->more->send(r->device, place, data_of(r, i), p->bytes);
    graft_spill_soon(data_of(r, i), p->bytes);
    return GRAFT_OK;
}

/* Launches of what has files are over when they come back. */
static void leave_files(graft_offload_run *r, size_t step)
{
    const graft_offload_schedule *s = r->schedule;
    for (; r->needed < s->n && s->piece[r->needed].step < step; r->needed++)
        graft_spill_done(data_of(r, r->needed), s->piece[r->needed].bytes);
}

graft_status graft_offload_before(graft_offload_run *r, size_t step)
{
    const graft_offload_schedule *s = r->schedule;
    graft_status st = GRAFT_OK;
    if (!s) return GRAFT_OK;
    if (!r->lane) leave_files(r, step);
    while (r->loaded < s->n && s->piece[r->loaded].behind < (int64_t)step && !st) {
        st = load(r, r->loaded);
        if (!st) r->loaded++;
    }
    for (; r->lane && r->needed < s->n && s->piece[r->needed].step == step && !st; r->needed++)
        if (by_lane(r, r->needed)) st = r->more->lane_need(r->lane, (uint32_t)r->needed);
    return st;
}

/* A lane's loads come in one order, so that the last one is enough. If it fails the device is lost.
 */
void graft_offload_end(graft_offload_run *r)
{
    if (!r->schedule) return;
    if (!r->lane) leave_files(r, SIZE_MAX);
    for (size_t i = r->loaded; r->lane && i-- > r->needed;)
        if (by_lane(r, i)) {
            r->more->lane_need(r->lane, (uint32_t)i);
            break;
        }
}
