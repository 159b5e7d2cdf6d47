/* The open database with its prepared statements; for the store's own files. One thread at a time,
 * at the reader by itself and at all else. */
#ifndef GRAFT_HOST_SERVE_STORE_SQL_H
#define GRAFT_HOST_SERVE_STORE_SQL_H
#include <sqlite3.h>

#include "base/error.h"

typedef enum graft_sql_statement {
    GRAFT_SQL_BEGIN,
    GRAFT_SQL_COMMIT,
    GRAFT_SQL_ROLLBACK,
    GRAFT_SQL_ADD,
    GRAFT_SQL_STATE,
    GRAFT_SQL_NEXT,
    GRAFT_SQL_FINISH,
    GRAFT_SQL_DELETE_ONE,
    GRAFT_SQL_DELETE_ALL,
    GRAFT_SQL_OLDEST,
    GRAFT_SQL_QUEUE,
    GRAFT_SQL_HISTORY_NEWEST,
    GRAFT_SQL_HISTORY_RANGE,
    GRAFT_SQL_HISTORY_ONE,
    GRAFT_SQL_RUNNING,
    GRAFT_SQL_TOTALS,
    GRAFT_SQL_SETTING_SET,
    GRAFT_SQL_SETTING_GET,
    GRAFT_SQL_SETTINGS,
    GRAFT_SQL_VACUUM,
    GRAFT_SQL_COUNT
} graft_sql_statement;

/* Zeroed before it is opened. */
typedef struct graft_sql {
    sqlite3 *db;
    /* A connection that only reads, for answers that may take long: in write-ahead mode it sees the
     * state at its beginning, and nobody waits for it but those that want the same. */
    sqlite3 *reader;
    sqlite3_stmt *statement[GRAFT_SQL_COUNT];
} graft_sql;

/* Ready to be bound; prepared at its first use. NULL with a message when that fails. */
sqlite3_stmt *graft_sql__get(graft_sql *s, graft_sql_statement which, graft_err *e);
/* Steps a statement that gives no rows, and resets it. */
graft_status graft_sql__done(graft_sql *s, sqlite3_stmt *q, graft_err *e);
/* The status for SQLite's last failure; the second on any connection. */
graft_status graft_sql__fail(graft_sql *s, graft_err *e);
graft_status graft_sql__fail_on(sqlite3 *db, graft_err *e);
void graft_sql__text(sqlite3_stmt *q, int at, const char *text); /* borrowed until the reset */
graft_status graft_sql__open(graft_sql *s, const char *path, graft_err *e);
void graft_sql__close(graft_sql *s);
#endif
