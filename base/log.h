/* Log levels, and where lines go: a callback that the owner of the process gives. Any thread. */
#ifndef GRAFT_BASE_LOG_H
#define GRAFT_BASE_LOG_H
#include <stdint.h>

enum { GRAFT_LOG_DEBUG = 0, GRAFT_LOG_INFO = 1, GRAFT_LOG_WARN = 2, GRAFT_LOG_ERROR = 3 };

typedef struct graft_log {
    void *ctx;
    void (*line)(void *ctx, int32_t level, const char *text); /* any thread; NULL: silent */
} graft_log;

/* Formats one line (cut at 1 kB) and passes it on; `log` may be NULL. */
void graft_log_printf(const graft_log *log, int32_t level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#endif
