/* What survives the process: jobs (pending, running, finished) and settings, in one SQLite file.
 *
 * Journal mode WAL with synchronous NORMAL: what was stored survives the death of the process at
 * any point; the last few transactions may be lost when the whole machine loses power. All
 * functions: any thread; each is one transaction. */
#ifndef GRAFT_HOST_SERVE_STORE_H
#define GRAFT_HOST_SERVE_STORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

typedef struct graft_store graft_store;

typedef enum graft_store_state {
    GRAFT_STORE_PENDING = 0,
    GRAFT_STORE_RUNNING = 1,
    GRAFT_STORE_DONE = 2,
    GRAFT_STORE_UNKNOWN = 3
} graft_store_state;

typedef struct graft_store_limits {
    int64_t pending_count, pending_bytes; /* adding beyond fails with GRAFT_E_LIMIT */
    int64_t history_count, history_bytes; /* the oldest entries go */
} graft_store_limits;

/* Opens or creates. Jobs that were running when the last process died become history entries that
 * say "interrupted"; *interrupted counts them. */
graft_status graft_store_open(const char *path, const graft_store_limits *limits, graft_store **out,
                              int64_t *interrupted, graft_err *e);
void graft_store_close(graft_store *s); /* NULL is fine */

typedef struct graft_store_job {
    int64_t seq; /* set by the store */
    double number;
    char *id;
    char *client;    /* NULL: none */
    char *prompt;    /* JSON object */
    char *extra;     /* JSON object */
    char *outputs;   /* JSON array of the ids of the outputs to run */
    int64_t created; /* ms since 1970 */
    char *workflow;  /* extra_pnginfo.workflow.id; NULL: none; the store does not give it back */
} graft_store_job;
void graft_store_job_finish(graft_store_job *j);

/* Sets job->seq. GRAFT_E_ARG when a pending or running job has the id; a finished one gives way. */
graft_status graft_store_add(graft_store *s, graft_store_job *job, graft_err *e);
/* The pending job with the smallest number becomes the running one; *found is false when there is
 * none. */
graft_status graft_store_next(graft_store *s, int64_t now, graft_store_job *out, bool *found,
                              graft_err *e);

typedef struct graft_store_end {
    const char *id;
    const char *status;                    /* "success", "error", "interrupted" */
    const char *messages, *outputs, *meta; /* JSON: array, object, object */
    int64_t ended;
    const char *profile; /* JSON object: what the run took; NULL: not known */
} graft_store_end;
graft_status graft_store_finish(graft_store *s, const graft_store_end *end, graft_err *e);

graft_store_state graft_store_find(graft_store *s, const char *id);
/* Pending and running jobs. */
int64_t graft_store_remaining(graft_store *s);
/* One more than the number of jobs ever added. */
int64_t graft_store_counter(graft_store *s);
/* *changed counts the deleted ones; id NULL: all of this state, which is PENDING or DONE. */
graft_status graft_store_delete(graft_store *s, graft_store_state state, const char *id,
                                int64_t *changed, graft_err *e);

/* Appends "queue_running": […], "queue_pending": […] without braces: the entries [number, id,
 * prompt, extra, outputs] of these jobs, in the order in which they run. Both are of one moment. */
graft_status graft_store_queue_json(graft_store *s, graft_str *out, graft_err *e);
/* Appends "id": entry, … in order of finishing, without braces. max_items < 0: all; offset < 0: the
 * newest max_items. An answer stops to grow at 64 MiB: older entries are left out. */
graft_status graft_store_history_json(graft_store *s, int64_t max_items, int64_t offset,
                                      graft_str *out, graft_err *e);
/* The same for one id; appends nothing when it is unknown. */
graft_status graft_store_history_one(graft_store *s, const char *id, graft_str *out, graft_err *e);

/* A row as /api/jobs shows it; texts are borrowed for the call. */
typedef struct graft_store_row {
    const char *id, *client, *prompt, *extra, *status, *messages, *outputs, *profile, *workflow;
    graft_store_state state;
    double number;
    int64_t created, started, ended; /* 0: not yet */
} graft_store_row;
typedef struct graft_store_query {
    const char *id;       /* NULL: any */
    uint32_t kinds;       /* bits of graft_store_kind; 0: all */
    const char *workflow; /* NULL: any */
    bool whole;           /* with prompt and extra, which may be large; else they are NULL */
    bool by_duration, ascending;
    int64_t limit, offset; /* limit < 0: no limit */
} graft_store_query;
enum {
    GRAFT_STORE_IS_PENDING = 1,
    GRAFT_STORE_IS_RUNNING = 2,
    GRAFT_STORE_IS_SUCCESS = 4,
    GRAFT_STORE_IS_ERROR = 8,
    GRAFT_STORE_IS_INTERRUPTED = 16
}; /* graft_store_kind */
/* Calls `row` for each; the store is locked meanwhile. *total counts without limit and offset. */
graft_status graft_store_rows(graft_store *s, const graft_store_query *q,
                              void (*row)(void *ctx, const graft_store_row *r), void *ctx,
                              int64_t *total, graft_err *e);

/* Settings: JSON text by name. */
graft_status graft_store_setting_set(graft_store *s, const char *name, const char *json,
                                     graft_err *e);
/* *out: graft_free, or NULL when there is none. */
graft_status graft_store_setting_get(graft_store *s, const char *name, char **out, graft_err *e);
/* Appends an object of all. */
graft_status graft_store_settings_json(graft_store *s, graft_str *out, graft_err *e);
#endif
