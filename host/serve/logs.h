/* The last lines of the server's log: to standard error and, without absolute paths, to
 * /internal/logs, to subscribers. */
#ifndef GRAFT_HOST_SERVE_LOGS_H
#define GRAFT_HOST_SERVE_LOGS_H
#include <pthread.h>
#include <stdint.h>

#include "base/str.h"
#include "host/serve/hub.h"
#include "host/serve/roots.h"

#define GRAFT_LOGS_LINES 300

typedef struct graft_logs {
    pthread_mutex_t lock;
    graft_hub *hub;
    struct {
        int64_t time; /* ms */
        char *text;
    } line[GRAFT_LOGS_LINES];
    size_t next, count;
    const graft_roots *roots; /* not to be told; NULL until they are known */
    bool quiet;               /* nothing but errors on standard error */
} graft_logs;

void graft_logs_init(graft_logs *l, graft_hub *hub, bool quiet);
void graft_logs_finish(graft_logs *l);
/* [any] Levels as in base/log.h. */
void graft_logs_line(graft_logs *l, int32_t level, const char *text);
/* The whole log as one text, and the {t, m} objects without brackets. [any] */
void graft_logs_text(graft_logs *l, graft_str *out);
void graft_logs_entries(graft_logs *l, graft_str *out);
#endif
