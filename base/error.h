/* Error reports: a status and one sentence, in a buffer that the caller owns.
 *
 * A function that can fail takes a `graft_err *` as its last argument (NULL: the caller does not
 * want the text) and returns the status. The message names the thing at fault (file, tensor, node)
 * and what was expected. Nothing global is written, so any thread may fail at any time. */
#ifndef GRAFT_BASE_ERROR_H
#define GRAFT_BASE_ERROR_H
#include "base/status.h"

typedef struct graft_err {
    graft_status code;
    char text[1020]; /* UTF-8, always terminated, cut if too long */
} graft_err;

#define GRAFT_ERR_INIT                                                                             \
    {                                                                                              \
        GRAFT_OK, ""                                                                               \
    }

/* Fills `e` (if not NULL) and returns `code`, so that `return graft_fail(e, ...)` reads well. */
graft_status graft_fail(graft_err *e, graft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "prefix: " before the present text: the outer layer adds where, the inner one said what. */
graft_status graft_err_prefix(graft_err *e, graft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Out of memory while making `what`. */
graft_status graft_fail_nomem(graft_err *e, const char *what);
/* "out of memory", never NULL; unknown codes give "unknown error". */
const char *graft_status_text(graft_status code);

/* Leaves by the function's single cleanup label when `expr` failed. */
#define GRAFT_TRY(expr)                                                                            \
    do {                                                                                           \
        if ((st = (expr)) != GRAFT_OK) goto out;                                                   \
    } while (0)
#endif
