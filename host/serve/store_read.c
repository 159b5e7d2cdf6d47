/* The store's answers: queue, history, jobs, settings. */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "host/serve/store_inside.h"

#define ANSWER_BYTES ((size_t)64 << 20)

static void put(graft_str *out, sqlite3_stmt *q, int at, const char *fallback)
{
    const char *text = (const char *)sqlite3_column_text(q, at);
    graft_str_puts(out, text ? text : fallback);
}

static void put_string(graft_str *out, sqlite3_stmt *q, int at)
{
    const char *text = (const char *)sqlite3_column_text(q, at);
    graft_str_json(out, text ? text : "");
}

static void put_number(graft_str *out, double v)
{
    /* The range first: what no int64_t can be must not become one. */
    if (v < 1e15 && v > -1e15 && v == (double)(int64_t)v)
        graft_str_printf(out, "%lld", (long long)v);
    else
        graft_str_printf(out, "%.17g", v);
}

/* Appends the entries of one state; locked. */
static graft_status put_jobs(graft_store *s, graft_store_state state, graft_str *out, graft_err *e)
{
    graft_status st = GRAFT_OK;
    int code = SQLITE_DONE;
    bool first = true;
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_QUEUE, e);
    if (!q) return GRAFT_E_IO;
    sqlite3_bind_int(q, 1, (int)state);
    while (out->len < ANSWER_BYTES && (code = sqlite3_step(q)) == SQLITE_ROW) {
        graft_str_puts(out, first ? "[" : ",[");
        put_number(out, sqlite3_column_double(q, 0));
        graft_str_puts(out, ",");
        put_string(out, q, 1);
        for (int i = 2; i < 5; i++) {
            graft_str_puts(out, ",");
            put(out, q, i, "null");
        }
        graft_str_puts(out, "]");
        first = false;
    }
    if (code != SQLITE_DONE && code != SQLITE_ROW) st = graft_sql__fail(&s->sql, e);
    sqlite3_reset(q);
    return st;
}

/* Under one lock: a job that began between the two lists would be in neither. */
graft_status graft_store_queue_json(graft_store *s, graft_str *out, graft_err *e)
{
    pthread_mutex_lock(&s->lock);
    graft_str_puts(out, "\"queue_running\":[");
    graft_status st = put_jobs(s, GRAFT_STORE_RUNNING, out, e);
    graft_str_puts(out, "],\"queue_pending\":[");
    if (!st) st = put_jobs(s, GRAFT_STORE_PENDING, out, e);
    graft_str_puts(out, "]");
    pthread_mutex_unlock(&s->lock);
    return !st && out->failed ? graft_fail_nomem(e, "the queue") : st;
}

/* "id": {"prompt": …, "outputs": …, "status": …, "meta": …}; columns as in store_sql.c. */
static void put_entry(graft_str *out, sqlite3_stmt *q)
{
    const char *status = (const char *)sqlite3_column_text(q, 6);
    bool good = status && strcmp(status, "success") == 0;
    put_string(out, q, 0);
    graft_str_puts(out, ":{\"prompt\":[");
    put_number(out, sqlite3_column_double(q, 1));
    graft_str_puts(out, ",");
    put_string(out, q, 0);
    for (int i = 2; i < 5; i++) {
        graft_str_puts(out, ",");
        put(out, q, i, "null");
    }
    graft_str_puts(out, "],\"outputs\":");
    put(out, q, 5, "{}");
    graft_str_printf(out, ",\"status\":{\"status_str\":\"%s\",\"completed\":%s,\"messages\":",
                     good ? "success" : "error", good ? "true" : "false");
    put(out, q, 7, "[]");
    graft_str_puts(out, "},\"meta\":");
    put(out, q, 8, "{}");
    graft_str_puts(out, "}");
}

/* The newest entries come newest first, and are put in front of each other. */
static graft_status newest(graft_store *s, sqlite3_stmt *q, graft_str *out, graft_err *e)
{
    struct piece {
        char *text;
        size_t size;
    } *piece = NULL;
    size_t n = 0, cap = 0, total = 0;
    graft_status st = GRAFT_OK;
    int code = SQLITE_DONE;
    while (total < ANSWER_BYTES && (code = sqlite3_step(q)) == SQLITE_ROW) {
        graft_str one = GRAFT_STR_INIT;
        put_entry(&one, q);
        size_t size = one.len;
        char *text = graft_str_take(&one);
        if (!text || graft_grow(&piece, &cap, n + 1, sizeof *piece)) {
            graft_free(text);
            st = graft_fail_nomem(e, "the history");
            break;
        }
        piece[n++] = (struct piece){text, size};
        total += size;
    }
    if (!st && code != SQLITE_DONE && code != SQLITE_ROW) st = graft_sql__fail(&s->sql, e);
    for (size_t i = n; i-- > 0;) {
        graft_str_append(out, piece[i].text, piece[i].size);
        if (i) graft_str_puts(out, ",");
        graft_free(piece[i].text);
    }
    graft_free(piece);
    return st;
}

static graft_status range(graft_store *s, sqlite3_stmt *q, graft_str *out, graft_err *e)
{
    int code = SQLITE_DONE;
    bool first = true;
    while (out->len < ANSWER_BYTES && (code = sqlite3_step(q)) == SQLITE_ROW) {
        if (!first) graft_str_puts(out, ",");
        put_entry(out, q);
        first = false;
    }
    return code == SQLITE_DONE || code == SQLITE_ROW ? GRAFT_OK : graft_sql__fail(&s->sql, e);
}

graft_status graft_store_history_json(graft_store *s, int64_t max_items, int64_t offset,
                                      graft_str *out, graft_err *e)
{
    bool newest_first = offset < 0;
    graft_status st = GRAFT_E_IO;
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = graft_sql__get(
        &s->sql, newest_first ? GRAFT_SQL_HISTORY_NEWEST : GRAFT_SQL_HISTORY_RANGE, e);
    if (q) {
        sqlite3_bind_int64(q, 1, max_items);
        if (!newest_first) sqlite3_bind_int64(q, 2, offset);
        st = newest_first ? newest(s, q, out, e) : range(s, q, out, e);
        sqlite3_reset(q);
    }
    pthread_mutex_unlock(&s->lock);
    return !st && out->failed ? graft_fail_nomem(e, "the history") : st;
}

graft_status graft_store_history_one(graft_store *s, const char *id, graft_str *out, graft_err *e)
{
    graft_status st = GRAFT_E_IO;
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_HISTORY_ONE, e);
    if (q) {
        graft_sql__text(q, 1, id);
        st = range(s, q, out, e);
        sqlite3_reset(q);
    }
    pthread_mutex_unlock(&s->lock);
    return !st && out->failed ? graft_fail_nomem(e, "the history") : st;
}

/* The WHERE of a query; parameters: ?1 id, ?2 workflow. */
static void put_where(graft_str *sql, const graft_store_query *q)
{
    static const char *const kind[] = {
        "state = 0", "state = 1", "(state = 2 AND status = 'success')",
        "(state = 2 AND status = 'error')", "(state = 2 AND status = 'interrupted')"};
    /* Only what is asked for, so that an index serves it: a history may be large. */
    graft_str_puts(sql, q->id ? " WHERE id = ?1" : " WHERE 1");
    if (q->workflow) graft_str_puts(sql, " AND workflow = ?2");
    if (!q->kinds) return;
    const char *glue = " AND (";
    for (uint32_t i = 0; i < sizeof kind / sizeof *kind; i++)
        if (q->kinds >> i & 1) {
            graft_str_printf(sql, "%s%s", glue, kind[i]);
            glue = " OR ";
        }
    graft_str_puts(sql, ")");
}

static graft_status prepare(graft_store *s, graft_str *text, const graft_store_query *query,
                            sqlite3_stmt **q, graft_err *e)
{
    if (text->failed) return graft_fail_nomem(e, "a query");
    if (sqlite3_prepare_v2(s->sql.reader, text->data, -1, q, NULL))
        return graft_sql__fail_on(s->sql.reader, e);
    if (query->id) graft_sql__text(*q, 1, query->id);
    if (query->workflow) graft_sql__text(*q, 2, query->workflow);
    return GRAFT_OK;
}

static graft_status each_row(graft_store *s, sqlite3_stmt *q,
                             void (*row)(void *ctx, const graft_store_row *r), void *ctx,
                             graft_err *e)
{
    int code;
    while ((code = sqlite3_step(q)) == SQLITE_ROW) {
        const char *text[9];
        for (int i = 0; i < 9; i++) text[i] = (const char *)sqlite3_column_text(q, i);
        const graft_store_row r = {text[0],
                                   text[1],
                                   text[2],
                                   text[3],
                                   text[4],
                                   text[5],
                                   text[6],
                                   text[7],
                                   text[8],
                                   (graft_store_state)sqlite3_column_int(q, 9),
                                   sqlite3_column_double(q, 10),
                                   sqlite3_column_int64(q, 11),
                                   sqlite3_column_int64(q, 12),
                                   sqlite3_column_int64(q, 13)};
        row(ctx, &r);
    }
    return code == SQLITE_DONE ? GRAFT_OK : graft_sql__fail_on(s->sql.reader, e);
}

graft_status graft_store_rows(graft_store *s, const graft_store_query *query,
                              void (*row)(void *ctx, const graft_store_row *r), void *ctx,
                              int64_t *total, graft_err *e)
{
    graft_str sql = GRAFT_STR_INIT;
    sqlite3_stmt *q = NULL;
    graft_status st = GRAFT_OK;
    *total = 0;
    pthread_mutex_lock(&s->read_lock);
    graft_str_puts(&sql, "SELECT COUNT(*) FROM job");
    put_where(&sql, query);
    GRAFT_TRY(prepare(s, &sql, query, &q, e));
    if (sqlite3_step(q) != SQLITE_ROW) {
        st = graft_sql__fail_on(s->sql.reader, e);
        goto out;
    }
    *total = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    q = NULL;
    graft_str_finish(&sql);
    /* The inner query finds the rows by an index alone; only those of the answer are read. Jobs are
     * numbered as they are created. */
    graft_str order = GRAFT_STR_INIT;
    const char *way = query->ascending ? "ASC" : "DESC";
    graft_str_printf(&order, " ORDER BY %s%s%sseq %s", query->by_duration ? "ended - started " : "",
                     query->by_duration ? way : "", query->by_duration ? ", " : "", way);
    graft_str_printf(&sql,
                     "SELECT id, client, %s, status, messages, outputs, profile, workflow, state, "
                     "number, created, started, ended FROM job WHERE seq IN (SELECT seq FROM job",
                     query->whole ? "prompt, extra" : "NULL, NULL");
    put_where(&sql, query);
    graft_str_printf(&sql, "%s LIMIT %lld OFFSET %lld)%s", order.data ? order.data : "",
                     (long long)query->limit, (long long)query->offset,
                     order.data ? order.data : "");
    sql.failed |= order.failed;
    graft_str_finish(&order);
    GRAFT_TRY(prepare(s, &sql, query, &q, e));
    st = each_row(s, q, row, ctx, e);
out:
    sqlite3_finalize(q);
    pthread_mutex_unlock(&s->read_lock);
    graft_str_finish(&sql);
    return st;
}

graft_status graft_store_setting_set(graft_store *s, const char *name, const char *json,
                                     graft_err *e)
{
    graft_status st = GRAFT_E_IO;
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_SETTING_SET, e);
    if (q) {
        graft_sql__text(q, 1, name);
        graft_sql__text(q, 2, json);
        st = graft_sql__done(&s->sql, q, e);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

graft_status graft_store_setting_get(graft_store *s, const char *name, char **out, graft_err *e)
{
    graft_status st = GRAFT_E_IO;
    *out = NULL;
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_SETTING_GET, e);
    if (q) {
        graft_sql__text(q, 1, name);
        int code = sqlite3_step(q);
        st = code == SQLITE_ROW || code == SQLITE_DONE ? GRAFT_OK : graft_sql__fail(&s->sql, e);
        if (code == SQLITE_ROW && !(*out = graft_strdup((const char *)sqlite3_column_text(q, 0))))
            st = graft_fail_nomem(e, "a setting");
        sqlite3_reset(q);
        sqlite3_clear_bindings(q);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

graft_status graft_store_settings_json(graft_store *s, graft_str *out, graft_err *e)
{
    graft_status st = GRAFT_E_IO;
    int code = SQLITE_DONE;
    bool first = true;
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_SETTINGS, e);
    graft_str_puts(out, "{");
    while (q && (code = sqlite3_step(q)) == SQLITE_ROW) {
        if (!first) graft_str_puts(out, ",");
        put_string(out, q, 0);
        graft_str_puts(out, ":");
        put(out, q, 1, "null");
        first = false;
    }
    graft_str_puts(out, "}");
    if (q) {
        st = code == SQLITE_DONE ? GRAFT_OK : graft_sql__fail(&s->sql, e);
        sqlite3_reset(q);
    }
    pthread_mutex_unlock(&s->lock);
    return !st && out->failed ? graft_fail_nomem(e, "the settings") : st;
}
