#include "host/serve/store.h"

#include <string.h>

#include "base/alloc.h"
#include "host/serve/store_inside.h"

void graft_store_job_finish(graft_store_job *j)
{
    graft_free(j->id);
    graft_free(j->client);
    graft_free(j->prompt);
    graft_free(j->extra);
    graft_free(j->outputs);
    graft_free(j->workflow);
    memset(j, 0, sizeof *j);
}

static graft_status run(graft_store *s, graft_sql_statement which, graft_err *e)
{
    sqlite3_stmt *q = graft_sql__get(&s->sql, which, e);
    return q ? graft_sql__done(&s->sql, q, e) : GRAFT_E_IO;
}

/* Ends the transaction: keeps the work when `st` is OK. */
static graft_status settle(graft_store *s, graft_status st, graft_err *e)
{
    if (!st) st = run(s, GRAFT_SQL_COMMIT, e);
    if (st) run(s, GRAFT_SQL_ROLLBACK, NULL);
    return st;
}

static graft_status load_totals(graft_store *s, graft_err *e)
{
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_TOTALS, e);
    if (!q) return GRAFT_E_IO;
    int code;
    memset(s->count, 0, sizeof s->count);
    memset(s->bytes, 0, sizeof s->bytes);
    while ((code = sqlite3_step(q)) == SQLITE_ROW) {
        int state = sqlite3_column_int(q, 0);
        if (state < 0 || state > 2) continue;
        s->count[state] = sqlite3_column_int64(q, 1);
        s->bytes[state] = sqlite3_column_int64(q, 2);
        if (state == GRAFT_STORE_DONE) s->finished = sqlite3_column_int64(q, 3);
    }
    graft_status st = code == SQLITE_DONE ? GRAFT_OK : graft_sql__fail(&s->sql, e);
    sqlite3_reset(q);
    if (st) return st;
    sqlite3_stmt *seq;
    if (sqlite3_prepare_v2(s->sql.db, "SELECT seq FROM sqlite_sequence WHERE name = 'job'", -1,
                           &seq, NULL))
        return graft_sql__fail(&s->sql, e);
    if (sqlite3_step(seq) == SQLITE_ROW) s->counter = sqlite3_column_int64(seq, 0);
    sqlite3_finalize(seq);
    return GRAFT_OK;
}

/* One id that was running when the process died; NULL when there is none. */
static char *stale_id(graft_store *s, int64_t *started, graft_status *st, graft_err *e)
{
    char *id = NULL;
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_RUNNING, e);
    *st = q ? GRAFT_OK : GRAFT_E_IO;
    if (!q) return NULL;
    int code = sqlite3_step(q);
    if (code == SQLITE_ROW) {
        id = graft_strdup((const char *)sqlite3_column_text(q, 0));
        *started = sqlite3_column_int64(q, 1);
        if (!id) *st = graft_fail_nomem(e, "a job");
    } else if (code != SQLITE_DONE) {
        *st = graft_sql__fail(&s->sql, e);
    }
    sqlite3_reset(q);
    return id;
}

static graft_status mark_interrupted(graft_store *s, const char *id, int64_t started, graft_err *e)
{
    graft_str messages = GRAFT_STR_INIT;
    long long t = started;
    graft_str_puts(&messages, "[[\"execution_start\",{\"prompt_id\":");
    graft_str_json(&messages, id);
    graft_str_printf(&messages,
                     ",\"timestamp\":%lld}],[\"execution_interrupted\",{\"prompt_id\":", t);
    graft_str_json(&messages, id);
    graft_str_printf(&messages,
                     ",\"node_id\":\"\",\"node_type\":\"\",\"executed\":[],\"reason\":"
                     "\"the server stopped\",\"timestamp\":%lld}]]",
                     t);
    char *text = graft_str_take(&messages);
    const graft_store_end end = {id, "interrupted", text, "{}", "{}", started, NULL};
    graft_status st = text ? graft_store_finish(s, &end, e) : graft_fail_nomem(e, "a job");
    graft_free(text);
    return st;
}

graft_status graft_store_open(const char *path, const graft_store_limits *limits, graft_store **out,
                              int64_t *interrupted, graft_err *e)
{
    graft_store *s = graft_calloc(1, sizeof *s);
    *out = NULL;
    *interrupted = 0;
    if (!s) return graft_fail_nomem(e, "the database of jobs");
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->read_lock, NULL);
    s->limits = *limits;
    graft_status st = graft_sql__open(&s->sql, path, e);
    if (!st) st = load_totals(s, e);
    while (!st) {
        int64_t started = 0;
        char *id = stale_id(s, &started, &st, e);
        if (!id) break;
        st = mark_interrupted(s, id, started, e);
        graft_free(id);
        ++*interrupted;
    }
    if (st)
        graft_store_close(s);
    else
        *out = s;
    return st;
}

void graft_store_close(graft_store *s)
{
    if (!s) return;
    graft_sql__close(&s->sql);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->read_lock);
    graft_free(s);
}

static graft_store_state state_of(graft_store *s, const char *id)
{
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_STATE, NULL);
    if (!q) return GRAFT_STORE_UNKNOWN;
    graft_sql__text(q, 1, id);
    int state = sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int(q, 0) : GRAFT_STORE_UNKNOWN;
    sqlite3_reset(q);
    return (graft_store_state)state;
}

/* Deletes one row and takes it off the totals. */
static graft_status delete_one(graft_store *s, graft_store_state state, const char *id,
                               int64_t *changed, graft_err *e)
{
    sqlite3_stmt *q = graft_sql__get(&s->sql, id ? GRAFT_SQL_DELETE_ONE : GRAFT_SQL_OLDEST, e);
    if (!q) return GRAFT_E_IO;
    if (id) {
        graft_sql__text(q, 1, id);
        sqlite3_bind_int(q, 2, (int)state);
    }
    int64_t bytes = 0;
    int code = sqlite3_step(q);
    if (code == SQLITE_ROW) {
        bytes = sqlite3_column_int64(q, 0);
        ++*changed;
        code = sqlite3_step(q);
        if (code == SQLITE_DONE) {
            s->count[state]--;
            s->bytes[state] -= bytes;
        }
    }
    graft_status st = code == SQLITE_DONE ? GRAFT_OK : graft_sql__fail(&s->sql, e);
    sqlite3_reset(q);
    return st;
}

static graft_status insert(graft_store *s, graft_store_job *j, int64_t bytes, graft_err *e)
{
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_ADD, e);
    if (!q) return GRAFT_E_IO;
    graft_sql__text(q, 1, j->id);
    sqlite3_bind_double(q, 2, j->number);
    graft_sql__text(q, 3, j->client);
    graft_sql__text(q, 4, j->prompt);
    graft_sql__text(q, 5, j->extra);
    graft_sql__text(q, 6, j->outputs);
    sqlite3_bind_int64(q, 7, j->created);
    sqlite3_bind_int64(q, 8, bytes);
    graft_sql__text(q, 9, j->workflow);
    return graft_sql__done(&s->sql, q, e);
}

graft_status graft_store_add(graft_store *s, graft_store_job *j, graft_err *e)
{
    int64_t bytes = (int64_t)(strlen(j->prompt) + strlen(j->extra) + strlen(j->outputs)) + 300;
    int64_t replaced = 0;
    graft_status st = GRAFT_OK;
    pthread_mutex_lock(&s->lock);
    graft_store_state old = state_of(s, j->id);
    if (old == GRAFT_STORE_PENDING || old == GRAFT_STORE_RUNNING)
        st = graft_fail(e, GRAFT_E_ARG, "a job with the id %s waits or runs already", j->id);
    else if (s->count[GRAFT_STORE_PENDING] >= s->limits.pending_count ||
             s->bytes[GRAFT_STORE_PENDING] + bytes > s->limits.pending_bytes)
        st = graft_fail(e, GRAFT_E_LIMIT, "the queue is full");
    if (!st) {
        st = run(s, GRAFT_SQL_BEGIN, e);
        if (!st && old == GRAFT_STORE_DONE) st = delete_one(s, old, j->id, &replaced, e);
        if (!st) st = insert(s, j, bytes, e);
        j->seq = sqlite3_last_insert_rowid(s->sql.db);
        st = settle(s, st, e);
        if (!st) {
            s->counter = j->seq;
            s->count[GRAFT_STORE_PENDING]++;
            s->bytes[GRAFT_STORE_PENDING] += bytes;
        } else if (replaced) {
            load_totals(s, NULL);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

static char *column(sqlite3_stmt *q, int at, bool *ok)
{
    const char *text = (const char *)sqlite3_column_text(q, at);
    if (!text) return NULL;
    char *copy = graft_strdup(text);
    if (!copy) *ok = false;
    return copy;
}

graft_status graft_store_next(graft_store *s, int64_t now, graft_store_job *out, bool *found,
                              graft_err *e)
{
    memset(out, 0, sizeof *out);
    *found = false;
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_NEXT, e);
    graft_status st = q ? run(s, GRAFT_SQL_BEGIN, e) : GRAFT_E_IO;
    if (st) goto unlock;
    sqlite3_bind_int64(q, 1, now);
    bool ok = true;
    int64_t bytes = 0;
    int code = sqlite3_step(q);
    if (code == SQLITE_ROW) {
        *found = true;
        out->seq = sqlite3_column_int64(q, 0);
        out->number = sqlite3_column_double(q, 1);
        out->id = column(q, 2, &ok);
        out->client = column(q, 3, &ok);
        out->prompt = column(q, 4, &ok);
        out->extra = column(q, 5, &ok);
        out->outputs = column(q, 6, &ok);
        out->created = sqlite3_column_int64(q, 7);
        bytes = sqlite3_column_int64(q, 8);
        code = sqlite3_step(q);
    }
    st = code == SQLITE_DONE ? GRAFT_OK : graft_sql__fail(&s->sql, e);
    sqlite3_reset(q);
    if (!st && !ok) st = graft_fail_nomem(e, "a job");
    st = settle(s, st, e);
    if (!st && *found) {
        s->count[GRAFT_STORE_PENDING]--;
        s->bytes[GRAFT_STORE_PENDING] -= bytes;
        s->count[GRAFT_STORE_RUNNING]++;
        s->bytes[GRAFT_STORE_RUNNING] += bytes;
    }
unlock:
    pthread_mutex_unlock(&s->lock);
    if (st) {
        graft_store_job_finish(out);
        *found = false;
    }
    return st;
}

/* Drops the oldest entries until both limits hold. */
static graft_status trim(graft_store *s, graft_err *e)
{
    graft_status st = GRAFT_OK;
    int64_t gone = 0, before = -1;
    while (!st && gone != before && s->count[GRAFT_STORE_DONE] > 1 &&
           (s->count[GRAFT_STORE_DONE] > s->limits.history_count ||
            s->bytes[GRAFT_STORE_DONE] > s->limits.history_bytes)) {
        before = gone;
        st = delete_one(s, GRAFT_STORE_DONE, NULL, &gone, e);
    }
    if (!st && gone) st = run(s, GRAFT_SQL_VACUUM, e);
    return st;
}

graft_status graft_store_finish(graft_store *s, const graft_store_end *end, graft_err *e)
{
    int64_t more = (int64_t)(strlen(end->messages) + strlen(end->outputs) + strlen(end->meta));
    if (end->profile) more += (int64_t)strlen(end->profile);
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_FINISH, e);
    graft_status st = q ? run(s, GRAFT_SQL_BEGIN, e) : GRAFT_E_IO;
    if (st) goto unlock;
    graft_sql__text(q, 1, end->status);
    graft_sql__text(q, 2, end->messages);
    graft_sql__text(q, 3, end->outputs);
    graft_sql__text(q, 4, end->meta);
    sqlite3_bind_int64(q, 5, end->ended);
    sqlite3_bind_int64(q, 6, s->finished + 1);
    sqlite3_bind_int64(q, 7, more);
    graft_sql__text(q, 8, end->profile);
    graft_sql__text(q, 9, end->id);
    int64_t bytes = -1;
    int code = sqlite3_step(q);
    if (code == SQLITE_ROW) {
        bytes = sqlite3_column_int64(q, 0);
        code = sqlite3_step(q);
    }
    st = code == SQLITE_DONE ? GRAFT_OK : graft_sql__fail(&s->sql, e);
    sqlite3_reset(q);
    if (!st && bytes < 0)
        st = graft_fail(e, GRAFT_E_NOTFOUND, "no job with the id %s runs", end->id);
    st = settle(s, st, e);
    if (!st) {
        s->finished++;
        s->count[GRAFT_STORE_RUNNING]--;
        s->bytes[GRAFT_STORE_RUNNING] -= bytes - more;
        s->count[GRAFT_STORE_DONE]++;
        s->bytes[GRAFT_STORE_DONE] += bytes;
        trim(s, NULL); /* tried again at the next end */
    }
unlock:
    pthread_mutex_unlock(&s->lock);
    return st;
}

graft_store_state graft_store_find(graft_store *s, const char *id)
{
    pthread_mutex_lock(&s->lock);
    graft_store_state state = state_of(s, id);
    pthread_mutex_unlock(&s->lock);
    return state;
}

int64_t graft_store_remaining(graft_store *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t n = s->count[GRAFT_STORE_PENDING] + s->count[GRAFT_STORE_RUNNING];
    pthread_mutex_unlock(&s->lock);
    return n;
}

int64_t graft_store_counter(graft_store *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t n = s->counter + 1;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static graft_status delete_all(graft_store *s, graft_store_state state, int64_t *changed,
                               graft_err *e)
{
    sqlite3_stmt *q = graft_sql__get(&s->sql, GRAFT_SQL_DELETE_ALL, e);
    if (!q) return GRAFT_E_IO;
    sqlite3_bind_int(q, 1, (int)state);
    graft_status st = graft_sql__done(&s->sql, q, e);
    if (st) return st;
    *changed += sqlite3_changes(s->sql.db);
    s->count[state] = s->bytes[state] = 0;
    return run(s, GRAFT_SQL_VACUUM, e);
}

graft_status graft_store_delete(graft_store *s, graft_store_state state, const char *id,
                                int64_t *changed, graft_err *e)
{
    *changed = 0;
    pthread_mutex_lock(&s->lock);
    graft_status st = id ? delete_one(s, state, id, changed, e) : delete_all(s, state, changed, e);
    pthread_mutex_unlock(&s->lock);
    return st;
}
