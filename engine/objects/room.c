#include "engine/objects/room.h"

#include "base/size.h"

#define SPARED      16 /* one part in this many of a device's memory is left to others, */
#define SPARED_MOST ((uint64_t)1 << 30) /* but no more than this; */
#define SPARED_HOST 4                   /* of a machine's memory this part */
#define KEPT        8  /* what is kept from step to step may be this part of either */
#define RECORDED    32 /* and of a limit to recordings, where weights do not fit into it */

/* What the graph takes with all its weights on the device. */
typedef struct needs {
    uint64_t arena, beside, all; /* beside: of ControlNets */
} needs;

static needs needs_of(const graft_exe *x, const graft_compile_job *job)
{
    const int64_t most = x->arena_bytes > job->arena_bytes ? x->arena_bytes : job->arena_bytes;
    const uint64_t arena = (uint64_t)most, beside = (uint64_t)job->beside_bytes;
    return (needs){arena, beside, arena + beside + x->weight_bytes};
}

/* And what it must have. That takes milliseconds to find out, so it is asked where there is not
 * room for all. */
static uint64_t least_of(const graft_exe *x, const graft_compile_job *job, const needs *n)
{
    return job->offload ? n->all - x->weight_bytes + graft_offload_least(x) : n->all;
}

/* ------------------------------------------------------------------ what is refused */

/* Whether a graph in 16 bits would need less. */
static bool could_be_narrower(const graft_exe *x)
{
    for (size_t i = 0; i < x->graph->n_values; i++)
        if (graft_dtype_size(x->graph->value[i].dtype) == 2) return false;
    return graft_backend_computes_in(x->backend, GRAFT_BF16);
}

static graft_status check(const graft_engine *g, const graft_exe *x, const graft_compile_job *job,
                          const needs *n, graft_err *e)
{
    const uint64_t total = x->backend->info.memory_total;
    const bool over = g->max_bytes && n->all > g->max_bytes;
    if (!over && (!total || n->all <= total)) return GRAFT_OK;
    const uint64_t least = least_of(x, job, n);
    const unsigned long long mib = graft_size_mib(least);
    if (g->max_bytes && least > g->max_bytes)
        return graft_fail(
            e, GRAFT_E_LIMIT,
            "%s%s needs %llu MiB, more than the %llu MiB of GRAFT_MEMORY_MB; the smallest "
            "GRAFT_MEMORY_MB that would do is %llu%s",
            x->kind, n->beside ? " with its ControlNets" : "", mib,
            (unsigned long long)(g->max_bytes >> 20), mib,
            job->part ? ", and more with its model" : " for it alone");
    if (total && least > total)
        return graft_fail(e, GRAFT_E_NOMEM, "out of memory: %s needs %llu MiB, %s has %llu MiB%s",
                          x->kind, mib, x->backend->name, (unsigned long long)(total >> 20),
                          could_be_narrower(x) ? "; less with precision bf16" : "");
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ recordings */

/* What recordings may take of a limit: what weights leave. */
static uint64_t for_recordings(const graft_engine *g, const graft_exe *x,
                               const graft_compile_job *job, const needs *n)
{
    if (n->all <= g->max_bytes) return g->max_bytes - n->all;
    const uint64_t some = g->max_bytes / RECORDED, rest = g->max_bytes - least_of(x, job, n);
    return some < rest ? some : rest;
}

/* Bytes that recorded runs on x's device hold, once those of other graphs made room for x where
 * memory has a limit. They are cheap to make again, other than weights. */
static uint64_t make_room_of_recordings(graft_engine *g, const graft_exe *x,
                                        const graft_compile_job *job, const needs *need)
{
    graft_backend *b = x->backend;
    graft_exe **list = NULL;
    size_t n = 0;
    if (!g->max_bytes) return atomic_load(&b->recorded);
    const uint64_t left = for_recordings(g, x, job, need);
    atomic_store(&b->recorded_most, left ? left : 1);
    if (atomic_load(&b->recorded) > left &&
        graft_compiled_list(g->compiled, &list, &n, NULL) == GRAFT_OK) {
        for (size_t i = 0; i < n; i++)
            if (list[i] != x && list[i]->backend == b) graft_recordings_trim(list[i]->recordings);
        if (atomic_load(&b->recorded) > left) graft_recordings_trim(x->recordings);
        graft_compiled_list_free(list, n);
    }
    return atomic_load(&b->recorded);
}

/* ------------------------------------------------------------------ what weights may take */

/* Free on the device; UINT64_MAX where it does not say. */
static uint64_t free_on(const graft_backend *b)
{
    graft_device_info now = {.size = sizeof now};
    if (b->api->info(b->device, &now) || !now.memory_total) return UINT64_MAX;
    return now.memory_free;
}

/* What the device could give: what is free there, and what is held for runs now; of the machine's
 * memory all, since what the system keeps of files counts as used. What samplings keep is theirs
 * until they end, and goes then where it is needed here. Where there is far more than `need` and
 * nobody ran out of it (`asked`) the device is not asked, which takes it a while. UINT64_MAX then,
 * and where it does not say. */
static uint64_t within_reach(const graft_engine *g, const graft_backend *b, uint64_t need,
                             bool asked)
{
    graft_packs_stats packs;
    const uint64_t total = b->info.memory_total;
    if (b->info.host_memory) return total ? total : UINT64_MAX;
    graft_packs_stats_get(g->packs, &packs);
    const uint64_t held = packs.bytes + graft_arenas_bytes(g->arenas) + atomic_load(&b->recorded);
    const uint64_t all = held + graft_arenas_bytes(g->kept);
    if (!asked && all < total / 2 && need < total / 2 - all) return UINT64_MAX;
    uint64_t left = free_on(b);
    if (left != UINT64_MAX && left + held < need) {
        graft_arenas_trim(g->kept);
        left = free_on(b);
    }
    if (left == UINT64_MAX) return left;
    return left + held < total ? left + held : total;
}

static uint64_t less(uint64_t from, uint64_t bytes)
{
    return from > bytes ? from - bytes : 0;
}

/* Some memory is left for recordings, libraries and other programs, too. */
static uint64_t less_spared(const graft_exe *x, const graft_compile_job *job, const needs *n,
                            uint64_t reach)
{
    const uint64_t total = x->backend->info.memory_total;
    uint64_t spared = total / SPARED < SPARED_MOST ? total / SPARED : SPARED_MOST;
    if (x->backend->info.host_memory) spared = total / SPARED_HOST;
    const uint64_t rest = less(reach, least_of(x, job, n));
    return reach - (spared < rest ? spared : rest);
}

static graft_offload_room room_of(graft_engine *g, const graft_exe *x, const graft_compile_job *job,
                                  const needs *n, bool asked)
{
    uint64_t limit = g->max_bytes ? g->max_bytes : UINT64_MAX;
    uint64_t device = within_reach(g, x->backend, n->all, asked), own = UINT64_MAX;
    if (n->all > limit) limit -= for_recordings(g, x, job, n);
    if (n->all > device) device = less_spared(x, job, n, device);
    if (job->max_bytes) own = less((uint64_t)job->max_bytes, n->beside + n->arena);
    const uint64_t all = limit < device ? limit : device;
    return (graft_offload_room){.packs = g->offloaded,
                                .arenas = g->arenas,
                                .own = own,
                                .with_others = all < UINT64_MAX ? less(all, n->arena) : all,
                                .beside = n->beside,
                                .behind = job->behind_bytes,
                                .is_limit = limit < device};
}

graft_status graft_engine_make_room(graft_engine *g, const graft_exe *x,
                                    const graft_compile_job *job, bool asked,
                                    graft_offload_room *out, graft_err *e)
{
    const needs n = needs_of(x, job);
    const uint64_t budget = g->max_bytes ? g->max_bytes : x->backend->info.memory_total / 2;
    graft_status st = check(g, x, job, &n, e);
    if (st) return st;
    *out = job->offload ? room_of(g, x, job, &n, asked)
                        : (graft_offload_room){.own = UINT64_MAX, .with_others = UINT64_MAX};
    const bool short_of = job->offload && less(out->with_others, x->weight_bytes) == 0;
    if (!budget) return GRAFT_OK;
    const uint64_t recorded = make_room_of_recordings(g, x, job, &n);
    if ((g->max_bytes || short_of) && graft_arenas_bytes(g->arenas) > n.arena)
        graft_arenas_trim(g->arenas);
    const uint64_t most = less(budget, n.arena + recorded);
    graft_packs_set_budget(g->packs, out->with_others < most ? out->with_others : most);
    return GRAFT_OK;
}

bool graft_engine_may_keep(const graft_backend *b, uint64_t bytes)
{
    if (bytes <= GRAFT_INVARIANTS_SMALL) return true; /* not worth the question */
    const uint64_t total = b->info.memory_total;
    if (total && bytes > total / KEPT) return false;
    return b->info.host_memory || bytes <= free_on(b) / 2;
}
