#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/quantity.h"
#include "base/size.h"
#include "engine/exec/spill.h"
#include "engine/objects/objects.h"
#include "engine/objects/room.h"

#define COMPILED_MAX_BYTES ((uint64_t)256 << 20) /* tables of unused graphs; not their arenas */

static int processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n;
}

/* A whole number of at most `most` from the environment; what is none is told and not used. */
static uint64_t number_of(const char *name, uint64_t most, uint64_t fallback, const graft_log *log)
{
    const char *env = getenv(name);
    char *end = NULL;
    if (!env || !*env) return fallback;
    unsigned long long n = env[0] >= '0' && env[0] <= '9' ? strtoull(env, &end, 10) : 0;
    if (end && !*end && n <= most) return n;
    graft_log_printf(log, GRAFT_LOG_WARN, "%s must be a number from 0 to %llu, not \"%s\": ignored",
                     name, (unsigned long long)most, env);
    return fallback;
}

static int thread_count(const graft_engine_config *config)
{
    int n = config->threads > 0 ? config->threads
                                : (int)number_of("GRAFT_THREADS", 1024, 0, &config->log);
    return n < 1 ? processors() : n > 1024 ? 1024 : n;
}

/* A size in MiB from the environment, as bytes. */
static uint64_t mib_of(const char *name, uint64_t fallback, const graft_log *log)
{
    return number_of(name, (uint64_t)1 << 40, fallback, log) << 20;
}

static graft_status make_parts(graft_engine *g, const graft_engine_config *config, graft_err *e)
{
    graft_status st =
        graft_backends_load(&g->backends, config->kernel_dir, thread_count(config), &g->log, e);
    if (!st) st = graft_packs_create(false, NULL, &g->packs, e);
    if (!st) st = graft_arenas_create(&g->arenas, e);
    if (!st) st = graft_arenas_create(&g->kept, e);
    if (!st && config->cache_dir)
        st = graft_disk_cache_create(config->cache_dir, mib_of("GRAFT_CACHE_MAX_MB", 512, &g->log),
                                     &g->log, &g->disk, e);
    g->backends.disk = g->disk;
    if (!st) st = graft_packs_create(true, graft_cache_folder(g), &g->offloaded, e);
    if (!st) st = graft_tuner_create(g->disk, &g->tuner, e);
    if (!st) st = graft_compiled_create(COMPILED_MAX_BYTES, g->disk, g->tuner, &g->compiled, e);
    return st;
}

static bool is_one_of(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(s, *list) == 0) return true;
    return false;
}

static const char *const precisions[] = {"auto", "f32", "bf16", "f16", NULL};

static const char *precision_of(const graft_log *log)
{
    const char *env = getenv("GRAFT_PRECISION");
    if (!env || !*env) return "auto";
    if (is_one_of(env, precisions)) return env;
    graft_log_printf(log, GRAFT_LOG_WARN,
                     "GRAFT_PRECISION must be auto, f32, bf16 or f16, not \"%s\": ignored", env);
    return "auto";
}

/* UINT64_MAX where the system does not say. */
static uint64_t host_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
}

static bool offload_of(const graft_log *log)
{
    const char *env = getenv("GRAFT_OFFLOAD");
    if (!env || !*env || strcmp(env, "on") == 0) return true;
    if (strcmp(env, "off") == 0) return false;
    graft_log_printf(log, GRAFT_LOG_WARN, "GRAFT_OFFLOAD must be on or off, not \"%s\": ignored",
                     env);
    return true;
}

/* How many bytes of floats packed layers may become. */
static void set_floats_most(graft_engine *g)
{
    const char *env = getenv("GRAFT_PACKED");
    const bool keep = env && strcmp(env, "keep") == 0;
    if (keep || (env && strcmp(env, "floats") == 0)) {
        g->floats_most = keep ? 0 : UINT64_MAX;
        return;
    }
    g->floats_most = (g->max_bytes ? g->max_bytes : host_memory()) / 2;
    g->floats_of_host = !g->max_bytes;
    if (env && *env && strcmp(env, "auto") != 0)
        graft_log_printf(&g->log, GRAFT_LOG_WARN,
                         "GRAFT_PACKED must be auto, keep or floats, not \"%s\": ignored", env);
}

graft_status graft_engine_create(const graft_engine_config *config, graft_engine **out,
                                 graft_err *e)
{
    graft_engine *g = graft_calloc(1, sizeof *g);
    if (!g) return graft_fail_nomem(e, "engine");
    pthread_mutex_init(&g->lock, NULL);
    g->log = config->log;
    const char *env = getenv("GRAFT_BACKEND");
    bool any = !config->backend || strcmp(config->backend, "auto") == 0;
    snprintf(g->default_backend, sizeof g->default_backend, "%s",
             !any            ? config->backend
             : env && env[0] ? env
                             : "auto");
    snprintf(g->default_precision, sizeof g->default_precision, "%s", precision_of(&g->log));
    g->max_bytes = mib_of("GRAFT_MEMORY_MB", 0, &g->log);
    graft_status st = make_parts(g, config, e);
    g->offload = offload_of(&g->log);
    set_floats_most(g);
    if (!st) graft_packs_use_slabs(g->packs, !g->max_bytes);
    if (!st) graft_packs_set_budget(g->offloaded, host_memory() / 2);
    if (st)
        graft_engine_destroy(g);
    else
        *out = g;
    return st;
}

void graft_engine_destroy(graft_engine *g)
{
    if (!g) return;
    graft_compiled_destroy(g->compiled);
    graft_arenas_destroy(g->arenas);
    graft_arenas_destroy(g->kept);
    graft_packs_destroy(g->packs);
    graft_packs_destroy(g->offloaded);
    graft_tuner_destroy(g->tuner);
    graft_backends_finish(&g->backends);
    graft_disk_cache_destroy(g->disk);
    graft_tokenizer_destroy(g->tokenizer);
    pthread_mutex_destroy(&g->lock);
    graft_free(g);
}

const char *const *graft_engine_backends(const graft_engine *engine)
{
    return engine->backends.name;
}

graft_status graft_engine_describe(graft_engine *g, const char *name, graft_engine_device *out,
                                   graft_err *e)
{
    graft_backend *b;
    bool own = !name || !name[0] || strcmp(name, "auto") == 0;
    pthread_mutex_lock(&g->lock);
    graft_status st = graft_backends_get(&g->backends, own ? g->default_backend : name, &b, e);
    pthread_mutex_unlock(&g->lock);
    if (st || !out) return st;
    graft_device_info now = {.size = sizeof now};
    if (b->api->info(b->device, &now)) now = b->info;
    *out = (graft_engine_device){.own_memory = !now.host_memory,
                                 .memory_total = now.memory_total,
                                 .memory_free = now.memory_free};
    snprintf(out->backend, sizeof out->backend, "%s", b->name);
    snprintf(out->name, sizeof out->name, "%s", now.name);
    return GRAFT_OK;
}

graft_status graft_engine_tokenizer(graft_engine *g, const graft_tokenizer **out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    pthread_mutex_lock(&g->lock);
    if (!g->tokenizer) st = graft_tokenizer_create(&g->tokenizer, e);
    *out = g->tokenizer;
    pthread_mutex_unlock(&g->lock);
    return st;
}

graft_status graft_options_resolve(graft_engine *g, const graft_build_options *o,
                                   graft_backend **backend, graft_dtype *act_dtype, graft_err *e)
{
    bool any = !o->device[0] || strcmp(o->device, "auto") == 0;
    pthread_mutex_lock(&g->lock);
    graft_status st =
        graft_backends_get(&g->backends, any ? g->default_backend : o->device, backend, e);
    pthread_mutex_unlock(&g->lock);
    if (st) return st;
    const char *p = o->precision;
    if (!p[0] || strcmp(p, "auto") == 0) p = g->default_precision;
    if (strcmp(p, "auto") == 0)
        *act_dtype = (*backend)->info.fast_bf16 ? GRAFT_BF16 : GRAFT_F32;
    else
        *act_dtype = strcmp(p, "bf16") == 0  ? GRAFT_BF16
                     : strcmp(p, "f16") == 0 ? GRAFT_F16
                                             : GRAFT_F32;
    if (*act_dtype != GRAFT_F32 && !graft_backend_computes_in(*backend, *act_dtype))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "precision %s: the %s backend does not have it",
                          p, (*backend)->name);
    return GRAFT_OK;
}

graft_status graft_options_resolve_wide(graft_engine *engine, const graft_build_options *o,
                                        graft_backend **backend, graft_dtype *act_dtype,
                                        graft_err *e)
{
    graft_status st = graft_options_resolve(engine, o, backend, act_dtype, e);
    if (!st && *act_dtype == GRAFT_F16)
        *act_dtype = graft_backend_computes_in(*backend, GRAFT_BF16) ? GRAFT_BF16 : GRAFT_F32;
    return st;
}

graft_status graft_options_from(graft_engine *engine, const graft_compile_options *in,
                                graft_build_options *out, graft_err *e)
{
    static const char *const tunings[] = {"off", "fast", "full", NULL};
    const char *tuning = in->tuning ? in->tuning : "fast";
    const char *precision = in->precision ? in->precision : "auto";
    const char *device = in->device ? in->device : "auto";
    graft_backend *backend;
    graft_dtype act_dtype;
    if (!is_one_of(precision, precisions))
        return graft_fail(e, GRAFT_E_ARG, "unknown precision %s", precision);
    if (!is_one_of(tuning, tunings)) return graft_fail(e, GRAFT_E_ARG, "unknown tuning %s", tuning);
    if (in->max_memory_mb < 0 || in->max_memory_mb > (INT64_MAX >> 20))
        return graft_fail(e, GRAFT_E_ARG, "max_memory_mb out of range");
    memset(out, 0, sizeof *out);
    snprintf(out->precision, sizeof out->precision, "%s", precision);
    snprintf(out->device, sizeof out->device, "%s", device);
    out->tuning = tuning[0] == 'o'   ? GRAFT_TUNING_OFF
                  : tuning[1] == 'a' ? GRAFT_TUNING_FAST
                                     : GRAFT_TUNING_FULL;
    out->no_disk = !in->cache;
    out->tile = in->tile;
    out->max_bytes = in->max_memory_mb << 20;
    return graft_options_resolve(engine, out, &backend, &act_dtype, e);
}

void graft_engine_release_unused(graft_engine *g)
{
    graft_exe **list = NULL;
    size_t n = 0;
    if (graft_compiled_list(g->compiled, &list, &n, NULL) == GRAFT_OK) {
        for (size_t i = 0; i < n; i++) graft_recordings_trim(list[i]->recordings);
        graft_compiled_list_free(list, n);
    }
    graft_arenas_trim(g->arenas);
    graft_arenas_trim(g->kept);
    graft_packs_trim(g->packs, 0);
    graft_packs_trim(g->offloaded, 0);
    graft_alloc_trim();
}

/* Files are in the folder of the cache: without one, or in memory, there are none. */
static bool may_offload(const graft_engine *g, const graft_backend *b)
{
    return g->offload && graft_offload_possible(b) &&
           (!b->info.host_memory || (g->disk && graft_spill_helps(graft_cache_folder(g))));
}

/* How fast a run is then depends on the bus, or the disk: to be seen, but no mistake. */
static void tell_offload(const graft_binding *b, const graft_task *task)
{
    char bytes[16], ordinary[16], more[96] = "";
    if (!b->offload || !task) return;
    const bool on_disk = b->exe->backend->info.host_memory;
    graft_bytes_text(b->offload->bytes, bytes);
    graft_bytes_text(b->offload->ordinary, ordinary);
    if (b->offload->ordinary)
        snprintf(more, sizeof more, ", %s of them slowly: there is no pinned memory for those",
                 ordinary);
    graft_log_printf(&task->log, GRAFT_LOG_INFO,
                     "%s: %s of its weights have no room %s%s and come anew in each run%s%s",
                     b->exe->kind, bytes, on_disk ? "in memory" : "on ",
                     on_disk ? "" : b->exe->backend->name, on_disk ? " from the disk" : "", more);
}

/* Others may have the device's memory: what was thought to have room did not. */
static bool is_short(graft_engine *g, const graft_exe *x, const graft_compile_job *job,
                     graft_offload_room *room)
{
    graft_packs_stats packs;
    if (!job->offload || job->backend->info.host_memory) return false;
    if (graft_engine_make_room(g, x, job, true, room, NULL)) return false;
    graft_packs_stats_get(g->packs, &packs);
    return room->with_others < packs.used_bytes + x->weight_bytes;
}

static graft_status bind_within(graft_engine *g, graft_exe *x, const graft_compile_job *job,
                                graft_weights *w, const graft_task *task, graft_binding **out,
                                graft_err *e)
{
    graft_offload_room room;
    graft_status st = graft_engine_make_room(g, x, job, false, &room, e);
    if (st) return st;
    const graft_offload_room *some = job->offload ? &room : NULL;
    st = graft_binding_create(x, w, g->packs, some, task, out, e);
    if (st == GRAFT_E_NOMEM && is_short(g, x, job, &room))
        st = graft_binding_create(x, w, g->packs, some, task, out, e);
    return st;
}

bool graft_engine_keeps(const graft_engine *engine, const graft_build_options *o,
                        const graft_backend *b, graft_dtype act_dtype, const graft_weights *w)
{
    const uint64_t limit = (uint64_t)o->max_bytes / 2;
    uint64_t most = engine->floats_most;
    if (most == UINT64_MAX || !graft_backend_wants(b, GRAFT_WANTS_BLOCKS)) return false;
    if (!b->info.host_memory && b->info.memory_total) {
        const uint64_t half = b->info.memory_total / 2;
        if (engine->floats_of_host || half < most) most = half;
    }
    if (limit && limit < most) most = limit;
    return graft_weights_packed_values(w) > most / graft_dtype_size(act_dtype);
}

graft_status graft_engine_bind(graft_engine *g, const graft_build_options *o,
                               graft_compile_job *job, graft_weights *weights,
                               const graft_task *task, graft_binding **out, graft_err *e)
{
    graft_exe *exe = NULL;
    graft_packs_stats packs;
    graft_packs_stats_get(g->packs, &packs);
    job->tuning = o->tuning;
    job->use_disk = !o->no_disk;
    job->max_bytes = o->max_bytes;
    job->resident_bytes = (int64_t)packs.bytes;
    job->process_bytes = (int64_t)g->max_bytes;
    job->offload = job->offload && may_offload(g, job->backend);
    graft_status st = graft_compiled_get(g->compiled, job, task, &exe, e);
    if (st) return st;
    graft_task_phase(task, "load");
    st = graft_weights_check(weights, exe->graph, e);
    if (!st) st = bind_within(g, exe, job, weights, task, out, e);
    if (!st) tell_offload(*out, task);
    graft_exe_release(exe);
    return st;
}

void graft_engine_release_weights(graft_engine *engine, graft_weights *w)
{
    graft_exe **list;
    size_t n, tensors, patches = 0;
    if (w) graft_weights_patch_count(w, &tensors, &patches);
    if (w && (patches || graft_weights_is_sum(w)) && !graft_weights_shared(w) &&
        !graft_compiled_list(engine->compiled, &list, &n, NULL)) {
        for (size_t i = 0; i < n; i++) {
            graft_exe_drop_derived(list[i], w, engine->packs);
            graft_exe_drop_derived(list[i], w, engine->offloaded);
        }
        graft_compiled_list_free(list, n);
    }
    graft_weights_release(w);
}
