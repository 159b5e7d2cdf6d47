#include "host/serve/store_sql.h"

#include <string.h>

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS job("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, state INTEGER NOT NULL,"
    " number REAL NOT NULL, client TEXT, prompt TEXT NOT NULL, extra TEXT NOT NULL,"
    " targets TEXT NOT NULL, created INTEGER NOT NULL, started INTEGER, ended INTEGER,"
    " status TEXT, messages TEXT, outputs TEXT, meta TEXT, finished INTEGER,"
    " bytes INTEGER NOT NULL, profile TEXT, workflow TEXT);"
    "CREATE INDEX IF NOT EXISTS job_waiting ON job(state, number, seq) WHERE state < 2;"
    /* In the order of the history; with what is counted, so that the totals, which are made at
     * every start, are had without reading the rows. */
    "CREATE INDEX IF NOT EXISTS job_history ON job(state, finished, bytes, status);"
    "CREATE TABLE IF NOT EXISTS setting(name TEXT PRIMARY KEY, value TEXT NOT NULL);"
    "PRAGMA user_version = 2;";

/* What tables of version 1 lack. */
static const char from_1[] = "BEGIN; ALTER TABLE job ADD COLUMN profile TEXT;"
                             "ALTER TABLE job ADD COLUMN workflow TEXT;"
                             "UPDATE job SET workflow = json_extract(extra,"
                             " '$.extra_pnginfo.workflow.id') WHERE json_valid(extra);"
                             "PRAGMA user_version = 2; COMMIT;";

#define HISTORY_COLUMNS                                                                            \
    "id, number, prompt, extra, targets, outputs, status, messages, meta, finished"

/* A partial index is used only where its condition stands in the query word by word: hence the
 * "state < 2" behind a "state = 0". */
static const char *const sql[GRAFT_SQL_COUNT] = {
    [GRAFT_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [GRAFT_SQL_COMMIT] = "COMMIT",
    [GRAFT_SQL_ROLLBACK] = "ROLLBACK",
    [GRAFT_SQL_ADD] = "INSERT INTO job(id, state, number, client, prompt, extra, targets, created,"
                      " bytes, workflow) VALUES(?, 0, ?, ?, ?, ?, ?, ?, ?, ?)",
    [GRAFT_SQL_STATE] = "SELECT state FROM job WHERE id = ?",
    [GRAFT_SQL_NEXT] =
        "UPDATE job SET state = 1, started = ? WHERE seq = (SELECT seq FROM job WHERE"
        " state = 0 AND state < 2 ORDER BY number, seq LIMIT 1) RETURNING seq, number, id, client,"
        " prompt, extra, targets, created, bytes",
    [GRAFT_SQL_FINISH] = "UPDATE job SET state = 2, status = ?, messages = ?, outputs = ?,"
                         " meta = ?, ended = ?, finished = ?, bytes = bytes + ?, profile = ?"
                         " WHERE id = ? AND state = 1 RETURNING bytes",
    [GRAFT_SQL_DELETE_ONE] = "DELETE FROM job WHERE id = ? AND state = ? RETURNING bytes",
    [GRAFT_SQL_DELETE_ALL] = "DELETE FROM job WHERE state = ?",
    [GRAFT_SQL_OLDEST] = "DELETE FROM job WHERE seq = (SELECT seq FROM job WHERE state = 2 ORDER BY"
                         " finished LIMIT 1) RETURNING bytes",
    [GRAFT_SQL_QUEUE] = "SELECT number, id, prompt, extra, targets FROM job WHERE state = ? AND"
                        " state < 2 ORDER BY number, seq",
    [GRAFT_SQL_HISTORY_NEWEST] = "SELECT " HISTORY_COLUMNS " FROM job WHERE state = 2"
                                 " ORDER BY finished DESC LIMIT ?",
    [GRAFT_SQL_HISTORY_RANGE] = "SELECT " HISTORY_COLUMNS " FROM job WHERE state = 2"
                                " ORDER BY finished LIMIT ? OFFSET ?",
    [GRAFT_SQL_HISTORY_ONE] = "SELECT " HISTORY_COLUMNS " FROM job WHERE state = 2 AND id = ?",
    [GRAFT_SQL_RUNNING] = "SELECT id, started FROM job WHERE state = 1 AND state < 2",
    [GRAFT_SQL_TOTALS] =
        "SELECT state, COUNT(*), SUM(bytes), MAX(finished) FROM job GROUP BY state",
    [GRAFT_SQL_SETTING_SET] = "INSERT INTO setting VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET"
                              " value = excluded.value",
    [GRAFT_SQL_SETTING_GET] = "SELECT value FROM setting WHERE name = ?",
    [GRAFT_SQL_SETTINGS] = "SELECT name, value FROM setting ORDER BY rowid",
    [GRAFT_SQL_VACUUM] = "PRAGMA incremental_vacuum(64)"};

graft_status graft_sql__fail(graft_sql *s, graft_err *e)
{
    return graft_sql__fail_on(s->db, e);
}

graft_status graft_sql__fail_on(sqlite3 *db, graft_err *e)
{
    int code = sqlite3_errcode(db) & 0xff;
    graft_status st = code == SQLITE_NOMEM                              ? GRAFT_E_NOMEM
                      : code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? GRAFT_E_FORMAT
                      : code == SQLITE_TOOBIG || code == SQLITE_FULL    ? GRAFT_E_LIMIT
                                                                        : GRAFT_E_IO;
    return graft_fail(e, st, "the database of jobs: %s", sqlite3_errmsg(db));
}

sqlite3_stmt *graft_sql__get(graft_sql *s, graft_sql_statement which, graft_err *e)
{
    sqlite3_stmt **q = &s->statement[which];
    if (!*q && sqlite3_prepare_v3(s->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT, q, NULL)) {
        graft_sql__fail(s, e);
        return NULL;
    }
    return *q;
}

graft_status graft_sql__done(graft_sql *s, sqlite3_stmt *q, graft_err *e)
{
    int code = sqlite3_step(q);
    graft_status st = code == SQLITE_DONE || code == SQLITE_ROW ? GRAFT_OK : graft_sql__fail(s, e);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return st;
}

void graft_sql__text(sqlite3_stmt *q, int at, const char *text)
{
    sqlite3_bind_text(q, at, text, -1, SQLITE_STATIC);
}

/* 0: a new database; -1: it cannot be read. */
static int version_of(sqlite3 *db)
{
    sqlite3_stmt *q = NULL;
    int version = -1;
    if (!sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &q, NULL) &&
        sqlite3_step(q) == SQLITE_ROW)
        version = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    return version;
}

graft_status graft_sql__open(graft_sql *s, const char *path, graft_err *e)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &s->db, flags, NULL))
        return s->db ? graft_err_prefix(e, graft_sql__fail(s, e), "%s", path)
                     : graft_fail_nomem(e, "the database of jobs");
    sqlite3_busy_timeout(s->db, 2000);
    if (sqlite3_exec(s->db,
                     "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
                     "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -4000;"
                     "PRAGMA journal_size_limit = 16777216;",
                     NULL, NULL, NULL) ||
        (version_of(s->db) == 1 && sqlite3_exec(s->db, from_1, NULL, NULL, NULL)) ||
        sqlite3_exec(s->db, schema, NULL, NULL, NULL))
        return graft_err_prefix(e, graft_sql__fail(s, e), "%s", path);
    flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &s->reader, flags, NULL))
        return s->reader ? graft_err_prefix(e, graft_sql__fail_on(s->reader, e), "%s", path)
                         : graft_fail_nomem(e, "the database of jobs");
    sqlite3_busy_timeout(s->reader, 2000);
    return GRAFT_OK;
}

void graft_sql__close(graft_sql *s)
{
    for (int i = 0; i < GRAFT_SQL_COUNT; i++) sqlite3_finalize(s->statement[i]);
    sqlite3_close(s->reader);
    sqlite3_close(s->db);
}
