/* The server: everything that its threads and routes share. */
#ifndef GRAFT_HOST_SERVE_SERVE_H
#define GRAFT_HOST_SERVE_SERVE_H
#include <stdatomic.h>

#include "base/hash.h"
#include "host/run/executor.h"
#include "host/session/options.h"
#include "host/serve/http.h"
#include "host/serve/hub.h"
#include "host/serve/logs.h"
#include "host/serve/queue.h"
#include "host/serve/security.h"
#include "host/serve/sink.h"
#include "host/serve/store.h"
#include "host/session/session.h"

#define GRAFT_SERVE_HISTORY_COUNT 10000
#define GRAFT_SERVE_HISTORY_BYTES ((int64_t)512 << 20)
#define GRAFT_SERVE_PENDING_COUNT 100000
#define GRAFT_SERVE_PENDING_BYTES ((int64_t)1 << 30)

/* What the main thread owns and routes may change is marked; the rest stays as it is made, or has a
 * lock of its own. */
typedef struct graft_serve {
    const graft_options *options;
    graft_session session;
    graft_security security;
    graft_hub hub;
    graft_roots roots;
    graft_logs logs;
    graft_store *store;
    graft_queue queue;
    graft_sink sink;
    graft_preview_mode previews;       /* where a prompt does not say */
    graft_executor *executor;          /* the worker's */
    char *users;                       /* absolute folder of the files of /userdata */
    char *web_root;                    /* NULL: there is no page */
    const char *templates;             /* folder of workflows to begin with; need not exist */
    int64_t max_upload;                /* bytes of one request body */
    graft_http_blob *info, *info_gzip; /* main thread: rendered /object_info */
    graft_hash info_choices;           /* of the files that it names */
    double info_at;
    atomic_bool info_stale; /* any thread: what info_at says does not count */
    void (*subscribe)(void *ctx, const char *client, bool on); /* to log lines; main thread */
    void *subscribe_ctx;
    int64_t counter; /* main thread: the next number of a prompt */
} graft_serve;

/* Whether an answer may take so long that others should not wait for it: pictures in another form,
 * uploads, headers of models, the device. [any] */
bool graft_serve_takes_long(const graft_http_request *q);
/* Answers a request. Never fails: what goes wrong becomes an answer. The main thread, and for those
 * that take long one other. */
void graft_serve_answer(graft_serve *s, const graft_http_request *q, graft_http_response *r);

/* The thread that runs jobs, until graft_queue_stop(). */
void *graft_serve_worker(void *serve);
#endif
