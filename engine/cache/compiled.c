#include "engine/cache/compiled.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/size.h"
#include "compile_version.h"
#include "engine/exec/offload.h"
#include "engine/passes/passes.h"
#include "engine/quant/kept.h"
#include "kernels/quant.h"

#define WAIT_NS 10000000 /* between two looks whether a waiting caller is cancelled */

typedef struct entry {
    graft_hash key;
    graft_exe *exe; /* NULL while it is made */
    uint64_t last_used;
    struct entry *next;
} entry;

struct graft_compiled {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    entry *first;
    uint64_t clock, max_bytes;
    graft_disk_cache *disk;
    graft_tuner *tuner;
    graft_compiled_stats stats;
};

graft_status graft_compiled_create(uint64_t max_bytes, graft_disk_cache *disk, graft_tuner *tuner,
                                   graft_compiled **out, graft_err *e)
{
    pthread_condattr_t clock;
    graft_compiled *c = graft_calloc(1, sizeof *c);
    if (!c) return graft_fail_nomem(e, "compiled-graph cache");
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &clock);
    pthread_condattr_destroy(&clock);
    c->max_bytes = max_bytes;
    c->disk = disk;
    c->tuner = tuner;
    *out = c;
    return GRAFT_OK;
}

void graft_compiled_destroy(graft_compiled *c)
{
    if (!c) return;
    while (c->first) {
        entry *k = c->first;
        c->first = k->next;
        graft_exe_release(k->exe);
        graft_free(k);
    }
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    graft_free(c);
}

graft_hash graft_compile_key(const graft_compile_job *job)
{
    uint64_t numbers[] = {GRAFT_COMPILE_SOURCES, GRAFT_DISK_FORMAT, sizeof(graft_op_desc),
                          (uint64_t)job->tuning, (uint64_t)job->narrow};
    graft_hash h = graft_hash128(job->kind, strlen(job->kind));
    h = graft_hash_mix(h, job->arch, job->arch_bytes);
    h = graft_hash_mix(h, job->shape, job->shape_bytes);
    h = graft_hash_mix(h, numbers, sizeof numbers);
    if (job->packed) {
        const graft_hash kept = graft_kept_hash(job->packed);
        h = graft_hash_mix(h, &kept, sizeof kept);
    }
    h = graft_hash_mix(h, &job->max_bytes, sizeof job->max_bytes);
    if (job->max_bytes) h = graft_hash_mix(h, &job->beside_bytes, sizeof job->beside_bytes);
    return graft_hash_mix(h, &job->backend->identity, sizeof job->backend->identity);
}

/* What compiled graphs themselves weigh: tables, not arenas (shared) or weights (elsewhere). */
static uint64_t bytes_of(const graft_exe *x)
{
    const graft_graph *g = x->graph;
    return g->n_values * sizeof *g->value + x->n_uses * sizeof *x->use + g->n_slots * 256 +
           g->n_nodes * (sizeof *g->node + sizeof *x->step + sizeof *x->info + 16384);
}

/* ------------------------------------------------------------------ disk entries */

/* "variants N\n" N numbers "\n" and the graph's text. */
static char *to_text(const graft_exe *x, size_t *size)
{
    graft_str s = GRAFT_STR_INIT;
    size_t n = x->graph->n_nodes;
    graft_str_printf(&s, "variants %zu\n", n);
    for (size_t i = 0; i < n; i++) graft_str_printf(&s, "%d ", x->info[i].variant_index);
    graft_str_puts(&s, "\n");
    graft_graph_print(x->graph, &s);
    *size = s.len;
    return graft_str_take(&s);
}

static graft_status from_text(const char *text, size_t size, graft_graph **g, int32_t **variant,
                              graft_err *e)
{
    char *p = NULL;
    const char *graph = memmem(text, size, "graft-graph", 11);
    if (!graph || size < 16 || memcmp(text, "variants ", 9) != 0)
        return graft_fail(e, GRAFT_E_FORMAT, "no variants before the graph");
    size_t n = strtoul(text + 9, &p, 10);
    graft_status st = graft_graph_parse(graph, size - (size_t)(graph - text), g, e);
    if (st) return st;
    bool fits = n == (*g)->n_nodes && (*g)->n_inputs && (*g)->n_outputs;
    if (fits) *variant = graft_malloc_array(n, sizeof **variant);
    if (*variant) {
        for (size_t i = 0; i < n; i++) (*variant)[i] = (int32_t)strtol(p, &p, 10);
        return GRAFT_OK;
    }
    graft_graph_destroy(*g);
    *g = NULL;
    return fits ? graft_fail_nomem(e, "kernel variants")
                : graft_fail(e, GRAFT_E_FORMAT,
                             "variants do not fit the graph, or nothing goes in or out");
}

static const graft_log *log_of(const graft_task *task)
{
    return task ? &task->log : NULL;
}

static bool load(graft_compiled *c, const graft_compile_job *job, graft_hash key,
                 const graft_task *task, graft_graph **g, int32_t **variant)
{
    char *text = NULL;
    size_t size = 0;
    graft_err e = GRAFT_ERR_INIT;
    if (!c->disk || !job->use_disk ||
        graft_disk_cache_read(c->disk, GRAFT_DISK_GRAPH, key, log_of(task), &text, &size))
        return false;
    graft_status st = from_text(text, size, g, variant, &e);
    if (st && st != GRAFT_E_NOMEM)
        graft_disk_cache_reject(c->disk, GRAFT_DISK_GRAPH, key, log_of(task), "not readable");
    graft_free(text);
    return st == GRAFT_OK;
}

/* Writes the entry, unless another process wrote one meanwhile; true when that one differs, as it
 * may where both tuned. */
static bool store(graft_compiled *c, const graft_compile_job *job, graft_hash key,
                  const graft_task *task, const graft_exe *x)
{
    char *theirs = NULL;
    size_t size, n = 0;
    if (!c->disk || !job->use_disk) return false;
    char *text = to_text(x, &size);
    if (!text) return false;
    int lock = graft_disk_cache_lock(c->disk);
    graft_disk_cache_read(c->disk, GRAFT_DISK_GRAPH, key, log_of(task), &theirs, &n);
    bool differs = theirs && (n != size || memcmp(theirs, text, size) != 0);
    if (!theirs) graft_disk_cache_write(c->disk, GRAFT_DISK_GRAPH, key, log_of(task), text, size);
    graft_disk_cache_unlock(lock);
    graft_free(theirs);
    graft_free(text);
    return differs;
}

/* ------------------------------------------------------------------ making */

static int64_t total_bytes(const graft_exe *x)
{
    return x->arena_bytes + (int64_t)x->weight_bytes;
}

static long long mib(int64_t bytes)
{
    return (long long)graft_size_mib((uint64_t)bytes);
}

static graft_status check_budget(const graft_compile_job *job, const graft_exe *x, graft_err *e)
{
    int64_t need = total_bytes(x) + job->beside_bytes;
    char beside[64] = "";
    if (!job->max_bytes || need <= job->max_bytes) return GRAFT_OK;
    if (job->offload) need -= (int64_t)(x->weight_bytes - graft_offload_least(x));
    if (need <= job->max_bytes) return GRAFT_OK;
    if (job->beside_bytes)
        snprintf(beside, sizeof beside, ", %lld of ControlNets", mib(job->beside_bytes));
    return graft_fail(
        e, GRAFT_E_LIMIT,
        "%s needs %lld MiB here (%lld of weights, %lld of activations%s), more than the "
        "%lld MiB allowed; the smallest max_memory_mb that would do is %lld%s",
        job->kind, mib(total_bytes(x) + job->beside_bytes), mib((int64_t)x->weight_bytes),
        mib(x->arena_bytes), beside, mib(job->max_bytes), mib(need),
        job->part ? ", and more with its model" : "");
}

#define MORE_WEIGHTS 128 /* tuning may add one part in this many, for layouts padded otherwise */

/* A graph that is over its budget anyway is not worth a trial. */
static graft_status tune(graft_compiled *c, const graft_compile_job *job, graft_exe *x,
                         const graft_task *task, graft_err *e)
{
    if (job->tuning == GRAFT_TUNING_OFF || check_budget(job, x, NULL)) return GRAFT_OK;
    int32_t *variant = graft_malloc_array(x->graph->n_nodes, sizeof *variant);
    if (!variant) return graft_fail_nomem(e, "kernel variants");
    graft_exe_choices choices = {variant, x->graph->n_nodes, total_bytes(x) / MORE_WEIGHTS};
    int64_t most = total_bytes(x); /* or less, where weights are offloaded */
    if (job->max_bytes && job->max_bytes < most) most = job->max_bytes;
    if (job->process_bytes && job->process_bytes < most) most = job->process_bytes;
    graft_tuner_request rq = {x, job->tuning, job->use_disk, most - job->resident_bytes};
    if (rq.max_bytes < x->arena_bytes) rq.max_bytes = x->arena_bytes;
    graft_task_phase(task, "tune");
    graft_status st = graft_tuner_choose(c->tuner, &rq, task, variant, e);
    if (!st) st = graft_exe_apply(x, &choices, task, e);
    graft_free(variant);
    return st;
}

static bool supports(void *ctx, const graft_op_desc *op)
{
    const graft_backend *b = ctx;
    return b->api->supports(b->device, op);
}

/* Rows stay as they are where the library cannot turn them. */
static void turn_back(graft_graph *g, graft_backend *b)
{
    const bool turns = graft_backend_wants(b, GRAFT_WANTS_HADAMARD);
    for (size_t i = 0; i < g->n_nodes; i++) {
        graft_op_desc d;
        if (g->node[i].op != GRAFT_OP_LINEAR || !g->node[i].attrs.groups) continue;
        graft_graph_desc(g, i, &d);
        if (!turns || !supports(b, &d)) graft_graph_turn_rows(g, i, 0);
    }
}

/* Blocks of files become floats where the library has no such operator. */
static void without_blocks(graft_graph *g, graft_backend *b)
{
    const bool wants = graft_backend_wants(b, GRAFT_WANTS_BLOCKS);
    for (size_t i = 0; i < g->n_nodes; i++) {
        graft_op_desc d;
        if (!graft_quant_blocks(g->node[i].attrs.quant)) continue;
        graft_graph_desc(g, i, &d);
        if (!wants || !supports(b, &d)) g->node[i].attrs.quant = GRAFT_QUANT_NONE;
    }
}

static graft_status build(graft_compiled *c, const graft_compile_job *job, const graft_task *task,
                          graft_exe **out, graft_err *e)
{
    graft_graph *g = NULL;
    graft_status st = GRAFT_OK;
    graft_task_phase(task, "compile");
    GRAFT_TRY(job->build(job->arch, job->shape, &g, e));
    if (job->packed) graft_kept_apply(job->packed, g);
    GRAFT_TRY(graft_passes_run(g, e));
    turn_back(g, job->backend);
    without_blocks(g, job->backend);
    if (graft_backend_wants(job->backend, GRAFT_WANTS_NORM_ADD))
        GRAFT_TRY(graft_pass_norm_add(g, e));
    if (graft_backend_wants(job->backend, GRAFT_WANTS_LINEAR_NORM))
        GRAFT_TRY(graft_pass_norm_linear(g, supports, job->backend, e));
    if (job->narrow) graft_graph_narrow(g, job->narrow);
    GRAFT_TRY(graft_exe_create(g, job->backend, NULL, task, out, e));
    g = NULL; /* the executable's now */
    GRAFT_TRY(tune(c, job, *out, task, e));
out:
    graft_graph_destroy(g);
    if (st) {
        graft_exe_release(*out);
        *out = NULL;
    }
    return st;
}

/* From the disk; NULL when it is not there or cannot be used. */
static graft_exe *revive(graft_compiled *c, const graft_compile_job *job, graft_hash key,
                         const graft_task *task)
{
    graft_graph *g = NULL;
    graft_exe *x = NULL;
    int32_t *variant = NULL;
    if (!load(c, job, key, task, &g, &variant)) return NULL;
    graft_exe_choices choices = {variant, g->n_nodes, 0};
    if (graft_exe_create(g, job->backend, &choices, task, &x, NULL)) {
        graft_graph_destroy(g);
        x = NULL;
    }
    graft_free(variant);
    return x;
}

/* Tells what was done: to everybody when filling caches is all that was asked for. */
static void tell(const graft_task *task, const graft_exe *x, bool from_disk, double seconds)
{
    const graft_gvalue *in = &x->graph->value[x->graph->input[0]];
    char shape[96] = "";
    size_t at = 0;
    if (!task) return;
    for (int i = 0; i < in->rank && at < sizeof shape; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%lld", i ? "x" : "",
                               (long long)in->dim[i]);
    graft_log_printf(&task->log, task->compile_only ? GRAFT_LOG_INFO : GRAFT_LOG_DEBUG,
                     "%-10s %-12s %-16s %-5s %7.2f s, %zu operators, %lld MiB of activations, "
                     "%lld MiB of weights",
                     from_disk ? "from cache" : "compiled", x->kind, shape, x->backend->name,
                     seconds, x->graph->n_nodes, mib(x->arena_bytes),
                     mib((int64_t)x->weight_bytes));
}

static graft_status make(graft_compiled *c, const graft_compile_job *job, graft_hash key,
                         const graft_task *task, graft_exe **out, bool *from_disk, graft_err *e)
{
    double start = graft_clock_now();
    graft_status st = GRAFT_OK;
    if (!job->use_disk) atomic_fetch_add(&job->backend->no_disk, 1);
    graft_exe *x = revive(c, job, key, task);
    *from_disk = x != NULL;
    if (!x) st = build(c, job, task, &x, e);
    if (!job->use_disk) atomic_fetch_sub(&job->backend->no_disk, 1);
    if (st) return st;
    if (!*from_disk && store(c, job, key, task, x)) {
        graft_exe *theirs = revive(c, job, key, task);
        if (theirs) {
            graft_exe_release(x);
            x = theirs;
        } else {
            store(c, job, key, task, x);
        }
    }
    st = graft_exe_find_invariants(x, job->steady, e);
    if (st) {
        graft_exe_release(x);
        return st;
    }
    x->key = key;
    x->arch = graft_compiled_arch(job->arch, job->arch_bytes);
    snprintf(x->kind, sizeof(x->kind), "%s", job->kind);
    tell(task, x, *from_disk, graft_clock_now() - start);
    *out = x;
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ table */

static entry *find(graft_compiled *c, graft_hash key)
{
    for (entry *k = c->first; k; k = k->next)
        if (graft_hash_equal(k->key, key)) return k;
    return NULL;
}

static void unlink_entry(graft_compiled *c, entry *k)
{
    entry **at = &c->first;
    while (*at != k) at = &(*at)->next;
    *at = k->next;
}

/* Lets go of the longest unused graphs until the rest fits; the lock is held. */
static void trim(graft_compiled *c)
{
    for (;;) {
        uint64_t bytes = 0;
        entry *oldest = NULL;
        for (entry *k = c->first; k; k = k->next) {
            if (!k->exe || atomic_load(&k->exe->refs) > 1) continue;
            bytes += bytes_of(k->exe);
            if (!oldest || k->last_used < oldest->last_used) oldest = k;
        }
        if (!oldest || bytes <= c->max_bytes) return;
        unlink_entry(c, oldest);
        graft_exe_release(oldest->exe);
        graft_free(oldest);
    }
}

/* Waits for a change, but no longer than it may take to notice a cancellation. */
static void wait_a_little(graft_compiled *c)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&c->changed, &c->lock, &until);
}

/* An entry for the key: a finished one, or a new one that the caller must make (*mine). */
static graft_status claim(graft_compiled *c, graft_hash key, const graft_task *task, entry **out,
                          bool *mine, graft_err *e)
{
    entry *k;
    *mine = false;
    while ((k = find(c, key)) != NULL && !k->exe) {
        if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        wait_a_little(c);
    }
    if (!k) {
        k = graft_calloc(1, sizeof *k);
        if (!k) return graft_fail_nomem(e, "compiled-graph cache");
        k->key = key;
        k->next = c->first;
        c->first = k;
        *mine = true;
    }
    *out = k;
    return GRAFT_OK;
}

graft_status graft_compiled_get(graft_compiled *c, const graft_compile_job *job,
                                const graft_task *task, graft_exe **out, graft_err *e)
{
    graft_hash key = graft_compile_key(job);
    entry *k = NULL;
    bool mine, from_disk = false;
    pthread_mutex_lock(&c->lock);
    graft_status st = claim(c, key, task, &k, &mine, e);
    if (mine) {
        graft_exe *x = NULL;
        double seconds = graft_clock_now();
        pthread_mutex_unlock(&c->lock);
        st = make(c, job, key, task, &x, &from_disk, e);
        pthread_mutex_lock(&c->lock);
        c->stats.build_seconds += graft_clock_now() - seconds;
        if (st) {
            unlink_entry(c, k);
            graft_free(k);
        } else {
            k->exe = x;
            c->stats.from_disk += from_disk;
            c->stats.built += !from_disk;
        }
        pthread_cond_broadcast(&c->changed);
    } else if (!st) {
        c->stats.hits++;
    }
    if (!st) {
        k->last_used = ++c->clock;
        st = check_budget(job, k->exe, e); /* it stays: tiles look for it again and again */
        if (!st) *out = graft_exe_retain(k->exe);
        trim(c);
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

graft_hash graft_compiled_arch(const void *arch, size_t bytes)
{
    return graft_hash128(arch, bytes);
}

graft_status graft_compiled_list(graft_compiled *c, graft_exe ***out, size_t *n, graft_err *e)
{
    size_t count = 0;
    pthread_mutex_lock(&c->lock);
    for (entry *k = c->first; k; k = k->next) count += k->exe != NULL;
    graft_exe **list = graft_malloc_array(count, sizeof(graft_exe *));
    count = 0;
    for (entry *k = c->first; k && list; k = k->next)
        if (k->exe) list[count++] = graft_exe_retain(k->exe);
    pthread_mutex_unlock(&c->lock);
    if (!list) return graft_fail_nomem(e, "list of compiled graphs");
    *out = list;
    *n = count;
    return GRAFT_OK;
}

void graft_compiled_list_free(graft_exe **list, size_t n)
{
    for (size_t i = 0; i < n; i++) graft_exe_release(list[i]);
    graft_free(list);
}

void graft_compiled_stats_get(graft_compiled *c, graft_compiled_stats *out)
{
    pthread_mutex_lock(&c->lock);
    *out = c->stats;
    for (entry *k = c->first; k; k = k->next) out->in_memory += k->exe != NULL;
    pthread_mutex_unlock(&c->lock);
}
