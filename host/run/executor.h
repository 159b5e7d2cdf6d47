/* Runs checked prompts, one at a time, and keeps results between runs. Nodes run one after the
 * other on the thread that calls, except asynchronous ones (async.h). Knows neither terminals nor
 * sockets: what happens goes to a table of events. */
#ifndef GRAFT_HOST_RUN_EXECUTOR_H
#define GRAFT_HOST_RUN_EXECUTOR_H
#include <stdatomic.h>

#include "host/run/events.h"
#include "host/prompt/prompt.h"

typedef struct graft_executor graft_executor;

/* `keep`: results and node instances live on between runs; otherwise every value is released as
 * soon as its last consumer has run. `host` must outlive the executor. */
graft_status graft_executor_create(const graft_host *host, bool keep, graft_executor **out,
                                   graft_err *e);
/* Besides what the last run used or made, the `n` results that were used last are kept; 0 at first.
 * Of an executor that keeps, and not during a run. */
void graft_executor_keep_recent(graft_executor *x, size_t n);
/* Before the registry goes. NULL is fine. */
void graft_executor_destroy(graft_executor *x);
/* Forgets all kept results and instances. Not during a run. */
void graft_executor_clear(graft_executor *x);

typedef struct graft_run_request {
    const graft_prompt *prompt;
    const cJSON *extra_pnginfo; /* an object, or NULL */
    const graft_events *events; /* NULL: nobody listens */
    const atomic_int *cancel;   /* not 0: stop; NULL: cannot be cancelled */
    bool prepare_only;          /* fill caches, compute nothing; not with an executor that keeps */
} graft_run_request;

typedef struct graft_run_result {
    cJSON *outputs; /* id -> what the node showed, also after a failure */
    cJSON *meta;    /* id -> {display_node, parent_node, real_node_id} of those among them that came
                     * by expansion */
    size_t ran, cached;
} graft_run_result;

/* One call at a time per executor, any thread. On failure the message names node, class and input,
 * and events.error was called; GRAFT_E_CANCEL when interrupted. *out is valid in any case
 * (graft_run_result_finish). */
graft_status graft_executor_run(graft_executor *x, const graft_run_request *request,
                                graft_run_result *out, graft_err *e);
void graft_run_result_finish(graft_run_result *r);
#endif
