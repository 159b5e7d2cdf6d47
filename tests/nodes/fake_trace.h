/* What all functions of the stand-in engine do: they write down that they were called, and fail
 * when that is planned. */
#ifndef GRAFT_TESTS_FAKE_TRACE_H
#define GRAFT_TESTS_FAKE_TRACE_H
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
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

/* An object of the engine, and make_T(). */
#define FAKE_OBJECT(T)                                                                             \
    struct graft_##T {                                                                             \
        atomic_int refs;                                                                           \
        size_t n; /* of what it is, where that counts */                                           \
    };                                                                                             \
    graft_##T *graft_##T##_retain(graft_##T *o)                                                    \
    {                                                                                              \
        if (o) atomic_fetch_add(&o->refs, 1);                                                      \
        return o;                                                                                  \
    }                                                                                              \
    void graft_##T##_release(graft_##T *o)                                                         \
    {                                                                                              \
        if (!o || atomic_fetch_sub(&o->refs, 1) != 1) return;                                      \
        fake_live--;                                                                               \
        graft_free(o);                                                                             \
    }                                                                                              \
    static graft_status make_##T(graft_##T **out, graft_err *e)                                    \
    {                                                                                              \
        graft_status st = due(e);                                                                  \
        if (st != GRAFT_OK) return st;                                                             \
        *out = graft_malloc(sizeof **out);                                                         \
        if (!*out) return graft_fail_nomem(e, #T);                                                 \
        atomic_init(&(*out)->refs, 1);                                                             \
        (*out)->n = 0;                                                                             \
        fake_live++;                                                                               \
        return GRAFT_OK;                                                                           \
    }

/* A model, a text encoder or a prompt of the stand-in, unless it is to fail. */
graft_status fake_make_model(graft_model **out, graft_err *e);
graft_status fake_make_clip(graft_clip **out, graft_err *e);
graft_status fake_make_cond(graft_cond **out, graft_err *e);
#endif
