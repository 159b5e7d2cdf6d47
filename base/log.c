#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void graft_log_printf(const graft_log *log, int32_t level, const char *fmt, ...)
{
    if (!log || !log->line) return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log->line(log->ctx, level, text);
}
