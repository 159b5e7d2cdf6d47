/* What all functions of the stand-in engine do: they write down that they were called, and fail
 * when that is planned. */
#ifndef GRAFT_TESTS_FAKE_TRACE_H
#define GRAFT_TESTS_FAKE_TRACE_H
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/nodes/fake_engine.h"

__attribute__((format(printf, 1, 2))) static inline void trace(const char *fmt, ...)
{
    size_t n = strlen(fake_trace);
    va_list args;
    va_start(args, fmt);
    vsnprintf(fake_trace + n, sizeof fake_trace - n, fmt, args);
    va_end(args);
}

static inline graft_status due(graft_err *e)
{
    graft_status st = fake_fail;
    fake_fail = GRAFT_OK;
    return st == GRAFT_OK ? st : graft_fail(e, st, "planned failure");
}

static inline const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A model, a text encoder or a prompt of the stand-in, unless it is to fail. */
graft_status fake_make_model(graft_model **out, graft_err *e);
graft_status fake_make_clip(graft_clip **out, graft_err *e);
graft_status fake_make_cond(graft_cond **out, graft_err *e);
#endif
