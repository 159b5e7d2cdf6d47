#include "engine/exec/tune.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "engine/graph/cost.h"

/* What a byte costs beside a floating-point operation, for the order of trials alone. */
#define FLOPS_PER_BYTE 10.0

typedef struct tuned {
    graft_hash signature;
    graft_trial trial;
} tuned;

typedef struct table { /* of one backend */
    graft_hash backend;
    tuned *list;
    size_t n, cap;
    bool loaded; /* from disk */
    struct table *next;
} table;

struct graft_tuner {
    pthread_mutex_t lock;   /* tables */
    pthread_mutex_t timing; /* held through trials: two at once would disturb each other */
    graft_disk_cache *disk;
    table *first;
};

graft_status graft_tuner_create(graft_disk_cache *disk, graft_tuner **out, graft_err *e)
{
    graft_tuner *t = graft_calloc(1, sizeof *t);
    if (!t) return graft_fail_nomem(e, "tuner");
    pthread_mutex_init(&t->lock, NULL);
    pthread_mutex_init(&t->timing, NULL);
    t->disk = disk;
    *out = t;
    return GRAFT_OK;
}

void graft_tuner_destroy(graft_tuner *t)
{
    if (!t) return;
    while (t->first) {
        table *k = t->first;
        t->first = k->next;
        graft_free(k->list);
        graft_free(k);
    }
    pthread_mutex_destroy(&t->lock);
    pthread_mutex_destroy(&t->timing);
    graft_free(t);
}

uint64_t graft_tuner_count(graft_tuner *t)
{
    uint64_t n = 0;
    pthread_mutex_lock(&t->lock);
    for (const table *k = t->first; k; k = k->next) n += k->n;
    pthread_mutex_unlock(&t->lock);
    return n;
}

graft_hash graft_tuner_signature(const graft_graph *g, size_t i, const graft_backend *backend)
{
    graft_op_desc d;
    graft_graph_desc(g, i, &d);
    for (int k = 0; k < GRAFT_MAX_INPUTS; k++)
        if (d.in[k].constant) d.in[k].dtype = GRAFT_F32; /* any: it means nothing */
    /* How far apart the rows of a channel_add lie is a matter of the graph, and of no time. */
    graft_tensor_desc *add = d.op == GRAFT_OP_CONV2D       ? &d.in[GRAFT_CONV_CHANNEL_ADD]
                             : d.op == GRAFT_OP_GROUP_NORM ? &d.in[GRAFT_NORM_CHANNEL_ADD]
                                                           : NULL;
    if (add && add->dtype) add->stride[0] = add->dim[1];
    graft_hash h = graft_hash128(&d, sizeof d);
    return graft_hash_mix(h, &backend->identity, sizeof backend->identity);
}

/* ------------------------------------------------------------------ tables; the lock is held */

static table *table_of(graft_tuner *t, graft_hash backend)
{
    for (table *k = t->first; k; k = k->next)
        if (graft_hash_equal(k->backend, backend)) return k;
    table *k = graft_calloc(1, sizeof *k);
    if (!k) return NULL;
    k->backend = backend;
    k->next = t->first;
    t->first = k;
    return k;
}

static tuned *find(const table *k, graft_hash signature)
{
    for (size_t i = 0; i < k->n; i++)
        if (graft_hash_equal(k->list[i].signature, signature)) return &k->list[i];
    return NULL;
}

/* What is there stays, unless it looked at fewer variants. */
static bool add(table *k, graft_hash signature, const graft_trial *trial)
{
    tuned *known = find(k, signature);
    if (known && trial->count > known->trial.count) known->trial = *trial;
    if (known) return true;
    if (graft_grow(&k->list, &k->cap, k->n + 1, sizeof *k->list)) return false;
    k->list[k->n++] = (tuned){signature, *trial};
    return true;
}

/* ------------------------------------------------------------------ the file
 *
 * "graft-tuning 1\n", then a line for each signature: two hexadecimal halves, the own choice, the
 * count, the layout bits and the times. */

static bool number(char **p, int base, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(*p, &end, base);
    bool ok = end != *p && !errno;
    *p = end;
    return ok;
}

static bool parse_line(char **p, graft_hash *signature, graft_trial *trial)
{
    uint64_t own, count, repacks;
    memset(trial, 0, sizeof *trial);
    if (!number(p, 16, &signature->hi) || !number(p, 16, &signature->lo) || !number(p, 10, &own) ||
        !number(p, 10, &count) || !number(p, 10, &repacks) || count > GRAFT_TRIAL_VARIANTS ||
        (count && own >= count) || repacks >> GRAFT_TRIAL_VARIANTS)
        return false;
    trial->own = (int32_t)own;
    trial->count = (int32_t)count;
    trial->repacks = (uint32_t)repacks;
    for (uint64_t i = 0; i < count; i++)
        if (!number(p, 10, &trial->ns[i])) return false;
    return true;
}

/* The file's times, and what this process knows of the variants that it tried itself. */
static void take_times(tuned *to, const graft_trial *from)
{
    const graft_trial own = to->trial;
    to->trial = *from;
    to->trial.wrong = own.wrong;
    memcpy(to->trial.status, own.status, sizeof own.status);
    memcpy(to->trial.off, own.off, sizeof own.off);
}

/* Takes over what the file knows, also for what this process timed itself: the result that was
 * written first stays, so that all processes choose alike. A file that cannot be read back leaves
 * the table as far as it came. */
static void merge_file(graft_tuner *t, table *k, const graft_log *log)
{
    static const char title[] = "graft-tuning 1\n";
    char *text = NULL;
    size_t size = 0;
    if (graft_disk_cache_read(t->disk, GRAFT_DISK_TUNING, k->backend, log, &text, &size)) return;
    char *p = text + sizeof title - 1;
    bool ok = size >= sizeof title - 1 && memcmp(text, title, sizeof title - 1) == 0;
    while (ok && *p) {
        graft_hash signature;
        graft_trial trial;
        ok = parse_line(&p, &signature, &trial) && add(k, signature, &trial);
        if (ok && trial.count >= find(k, signature)->trial.count)
            take_times(find(k, signature), &trial);
        while (*p == '\n' || *p == ' ') p++;
    }
    graft_free(text);
}

/* The table as its file has it. */
static void print_table(const table *k, graft_str *out)
{
    graft_str_puts(out, "graft-tuning 1\n");
    for (size_t i = 0; i < k->n; i++) {
        const graft_trial *r = &k->list[i].trial;
        graft_str_printf(out, "%016llx %016llx %d %d %u",
                         (unsigned long long)k->list[i].signature.hi,
                         (unsigned long long)k->list[i].signature.lo, r->own, r->count, r->repacks);
        for (int32_t v = 0; v < r->count; v++)
            graft_str_printf(out, " %llu", (unsigned long long)r->ns[v]);
        graft_str_puts(out, "\n");
    }
}

/* Other processes may have written since: their results are taken over first. Others may look up
 * what they need while the disk is written to. */
static void save(graft_tuner *t, graft_hash backend, const graft_log *log)
{
    graft_str text = GRAFT_STR_INIT;
    int lock = graft_disk_cache_lock(t->disk);
    pthread_mutex_lock(&t->lock);
    table *k = table_of(t, backend);
    if (k) {
        merge_file(t, k, log);
        print_table(k, &text);
    }
    pthread_mutex_unlock(&t->lock);
    if (k && !text.failed)
        graft_disk_cache_write(t->disk, GRAFT_DISK_TUNING, backend, log, text.data, text.len);
    graft_str_finish(&text);
    graft_disk_cache_unlock(lock);
}

/* ------------------------------------------------------------------ choosing */

typedef struct pending { /* a signature without a result */
    graft_hash signature;
    size_t node; /* one that has it */
    double cost; /* of all that have it */
} pending;

static int costly_first(const void *a, const void *b)
{
    const pending *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static graft_status look_up(graft_tuner *t, const graft_tuner_request *rq,
                            const graft_hash *signature, const graft_task *task, int32_t *variant,
                            graft_err *e)
{
    pthread_mutex_lock(&t->lock);
    table *k = table_of(t, rq->exe->backend->identity);
    if (k && t->disk && rq->use_disk && !k->loaded) {
        merge_file(t, k, task ? &task->log : NULL);
        k->loaded = true;
    }
    for (size_t i = 0; k && i < rq->exe->graph->n_nodes; i++) {
        const tuned *r = find(k, signature[i]);
        variant[i] = r ? graft_trial_best(&r->trial) : -1;
    }
    pthread_mutex_unlock(&t->lock);
    return k ? GRAFT_OK : graft_fail_nomem(e, "tuner");
}

/* With so many variants looked at. */
static bool known(graft_tuner *t, graft_hash backend, graft_hash signature, int32_t variants)
{
    pthread_mutex_lock(&t->lock);
    const table *k = table_of(t, backend);
    const tuned *r = k ? find(k, signature) : NULL;
    bool found = r && r->trial.count >= variants;
    pthread_mutex_unlock(&t->lock);
    return found;
}

/* How many variants of a node a result must have looked at. */
static int32_t variants_wanted(const graft_kernel_info *info, graft_tuning level)
{
    int32_t n = info->variant_count;
    if (level != GRAFT_TUNING_FULL || !info->slow) return 0;
    return n < GRAFT_TRIAL_VARIANTS ? n : GRAFT_TRIAL_VARIANTS;
}

bool graft_tuner_find(graft_tuner *t, const graft_exe *x, size_t i, graft_trial *out)
{
    graft_hash signature = graft_tuner_signature(x->graph, i, x->backend);
    pthread_mutex_lock(&t->lock);
    const table *k = table_of(t, x->backend->identity);
    const tuned *r = k ? find(k, signature) : NULL;
    if (r) *out = r->trial;
    pthread_mutex_unlock(&t->lock);
    return r != NULL;
}

/* The signatures of the graph that have no result; pending[] has room for all nodes. */
static size_t collect(graft_tuner *t, const graft_tuner_request *rq, const graft_hash *signature,
                      pending *list)
{
    const graft_exe *x = rq->exe;
    size_t n = 0;
    for (size_t i = 0; i < x->graph->n_nodes; i++) {
        double cost =
            graft_cost_flops(x->graph, i) + FLOPS_PER_BYTE * graft_cost_bytes(x->graph, i);
        size_t k = 0;
        if (x->info[i].variant_count < 2) continue; /* nothing to choose */
        while (k < n && !graft_hash_equal(list[k].signature, signature[i])) k++;
        if (k < n)
            list[k].cost += cost;
        else if (!known(t, x->backend->identity, signature[i],
                        variants_wanted(&x->info[i], rq->level)))
            list[n++] = (pending){signature[i], i, cost};
    }
    qsort(list, n, sizeof *list, costly_first);
    return n;
}

static graft_status run_trials(graft_tuner *t, const graft_tuner_request *rq, const pending *list,
                               size_t n, const graft_task *task, graft_err *e)
{
    const graft_exe *x = rq->exe;
    graft_trial_limits limits = {rq->max_bytes, 0};
    bool any = false;
    graft_status st = GRAFT_OK;
    if (rq->level == GRAFT_TUNING_FAST)
        limits.deadline = graft_trial_now() + GRAFT_TUNING_FAST_SECONDS;
    for (size_t i = 0; i < n && !st; i++) {
        graft_op_desc d;
        graft_trial trial;
        graft_task_progress(task, i, n);
        if (graft_task_cancelled(task)) st = graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        if (st || (limits.deadline > 0 && graft_trial_now() >= limits.deadline)) break;
        graft_graph_desc(x->graph, list[i].node, &d);
        st = graft_trial_run(x->backend, &d, &limits, task, &trial, e);
        if (st) {
            if (st != GRAFT_E_CANCEL) st = GRAFT_OK; /* this one keeps the library's choice */
            continue;
        }
        pthread_mutex_lock(&t->lock);
        table *k = table_of(t, x->backend->identity);
        any |= k && add(k, list[i].signature, &trial);
        pthread_mutex_unlock(&t->lock);
    }
    if (any && t->disk && rq->use_disk) save(t, x->backend->identity, task ? &task->log : NULL);
    return st;
}

/* Waits for its turn, but not beyond a cancellation. */
static graft_status begin_timing(graft_tuner *t, const graft_task *task, graft_err *e)
{
    while (pthread_mutex_trylock(&t->timing)) {
        if (graft_task_cancelled(task)) return graft_fail(e, GRAFT_E_CANCEL, "cancelled");
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return GRAFT_OK;
}

graft_status graft_tuner_choose(graft_tuner *t, const graft_tuner_request *rq,
                                const graft_task *task, int32_t *variant, graft_err *e)
{
    const graft_graph *g = rq->exe->graph;
    graft_hash *signature = NULL;
    pending *list = NULL;
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < g->n_nodes; i++) variant[i] = -1;
    if (rq->level == GRAFT_TUNING_OFF) return GRAFT_OK;
    signature = graft_malloc_array(g->n_nodes, sizeof *signature);
    list = graft_malloc_array(g->n_nodes, sizeof *list);
    if (!signature || !list) {
        st = graft_fail_nomem(e, "tuner");
        goto out;
    }
    for (size_t i = 0; i < g->n_nodes; i++)
        signature[i] = graft_tuner_signature(g, i, rq->exe->backend);
    GRAFT_TRY(look_up(t, rq, signature, task, variant, e));
    if (collect(t, rq, signature, list)) {
        GRAFT_TRY(begin_timing(t, task, e));
        /* Others may have timed the same operators meanwhile. */
        size_t n = collect(t, rq, signature, list);
        st = run_trials(t, rq, list, n, task, e);
        pthread_mutex_unlock(&t->timing);
        if (!st) st = look_up(t, rq, signature, task, variant, e);
    }
out:
    graft_free(signature);
    graft_free(list);
    return st;
}
