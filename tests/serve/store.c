#include "host/serve/store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/test.h"

static const graft_store_limits roomy = {100, 1 << 20, 100, 1 << 20};
static char path[64];

static void fresh(void)
{
    static const char *const tail[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", path, tail[i]);
        unlink(name);
    }
}

static graft_store *open_store(const graft_store_limits *limits)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_store *s = NULL;
    int64_t interrupted;
    CHECK_OK(graft_store_open(path, limits, &s, &interrupted, &e), &e);
    return s;
}

static graft_status add(graft_store *s, const char *id, double number, graft_err *e)
{
    char prompt[] = "{\"p\":1}", extra[] = "{}", outputs[] = "[\"2\"]";
    graft_store_job j = {.number = number,
                         .id = (char *)id,
                         .prompt = prompt,
                         .extra = extra,
                         .outputs = outputs,
                         .created = 5};
    return graft_store_add(s, &j, e);
}

static graft_status end(graft_store *s, const char *id, graft_err *e)
{
    const graft_store_end x = {id, "success", "[]", "{\"2\":{}}", "{}", 9, "{\"p\":2}"};
    return graft_store_finish(s, &x, e);
}

static void jobs_run_by_number(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_store_job j;
    bool found;
    fresh();
    graft_store *s = open_store(&roomy);
    CHECK_OK(add(s, "b", 2, &e), &e);
    CHECK_OK(add(s, "a", 1, &e), &e);
    CHECK_OK(add(s, "c", 2, &e), &e);
    CHECK_INT(add(s, "a", 9, &e), GRAFT_E_ARG);
    CHECK_INT(graft_store_remaining(s), 3);
    static const char *const order[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(graft_store_next(s, 7, &j, &found, &e), &e);
        CHECK(found);
        CHECK_STR(j.id, order[i]);
        CHECK_OK(end(s, order[i], &e), &e);
        graft_store_job_finish(&j);
    }
    CHECK_OK(graft_store_next(s, 7, &j, &found, &e), &e);
    CHECK(!found);
    CHECK_INT(graft_store_remaining(s), 0);
    CHECK_INT(end(s, "a", &e), GRAFT_E_NOTFOUND);
    CHECK_INT(graft_store_counter(s), 4);
    graft_str t = GRAFT_STR_INIT;
    CHECK_OK(graft_store_history_json(s, 2, -1, &t, &e), &e);
    CHECK(t.data && strncmp(t.data, "\"b\":", 4) == 0 && strstr(t.data, "\"c\":"));
    graft_str_finish(&t);
    /* A finished job's id may be used again, and then stands for the new job. */
    CHECK_OK(add(s, "b", 1, &e), &e);
    CHECK_INT(graft_store_find(s, "b"), GRAFT_STORE_PENDING);
    graft_store_close(s);
}

static void note_profile(void *ctx, const graft_store_row *r)
{
    char *text = ctx;
    strcat(strcat(text, r->profile ? r->profile : "-"), " ");
}

/* What a server of version 1 left is there, and gets what was added since. */
static void an_older_database(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_store_job j;
    bool found;
    int64_t total;
    char profiles[64] = "";
    sqlite3 *db;
    fresh();
    graft_store *s = open_store(&roomy);
    for (int i = 0; i < 2; i++) {
        const char *id = i ? "new" : "old";
        CHECK_OK(add(s, id, i, &e), &e);
        CHECK_OK(graft_store_next(s, 7, &j, &found, &e), &e);
        CHECK_OK(end(s, id, &e), &e);
        graft_store_job_finish(&j);
        graft_store_close(s);
        CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
        if (!i)
            CHECK_INT(
                sqlite3_exec(db,
                             "ALTER TABLE job DROP COLUMN profile; ALTER TABLE job DROP COLUMN "
                             "workflow; PRAGMA user_version = 1",
                             NULL, NULL, NULL),
                SQLITE_OK);
        sqlite3_close(db);
        s = open_store(&roomy);
    }
    const graft_store_query all = {.ascending = true, .limit = -1};
    CHECK_OK(graft_store_rows(s, &all, note_profile, profiles, &total, &e), &e);
    CHECK_INT(total, 2);
    CHECK_STR(profiles, "- {\"p\":2} ");
    graft_store_close(s);
}

/* Numbers that clients choose: whole ones are printed as such, and any can be. */
static void numbers_of_any_size(void)
{
    static const struct {
        double number;
        const char *printed;
    } c[] = {{-1e300, "[[-1.0000000000000001e+300,"},
             {-7, "[-7,"},
             {7.5, "[7.5,"},
             {999999999999999, "[999999999999999,"},
             {1e15, "[1000000000000000,"},
             {9.3e18, "[9.3e+18,"},
             {1e300, "[1.0000000000000001e+300,"}};
    graft_err e = GRAFT_ERR_INIT;
    graft_str t = GRAFT_STR_INIT;
    fresh();
    graft_store *s = open_store(&roomy);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        CHECK_OK(add(s, (char[]){(char)('a' + i), 0}, c[i].number, &e), &e);
    CHECK_OK(graft_store_queue_json(s, &t, &e), &e);
    const char *at = t.data ? t.data : "";
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const char *next = strstr(at, c[i].printed);
        CHECK(next);
        if (next) at = next;
    }
    graft_str_finish(&t);
    graft_store_close(s);
}

static void limits_hold(void)
{
    const graft_store_limits tight = {3, 1 << 20, 2, 1 << 20};
    graft_err e = GRAFT_ERR_INIT;
    graft_store_job j;
    bool found;
    int64_t changed;
    fresh();
    graft_store *s = open_store(&tight);
    for (int i = 0; i < 3; i++) CHECK_OK(add(s, (char[]){(char)('a' + i), 0}, i, &e), &e);
    CHECK_INT(add(s, "d", 1, &e), GRAFT_E_LIMIT);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(graft_store_next(s, 7, &j, &found, &e), &e);
        CHECK_OK(end(s, j.id, &e), &e);
        graft_store_job_finish(&j);
    }
    CHECK_INT(graft_store_find(s, "a"), GRAFT_STORE_UNKNOWN);
    CHECK_INT(graft_store_find(s, "c"), GRAFT_STORE_DONE);
    CHECK_OK(graft_store_delete(s, GRAFT_STORE_DONE, NULL, &changed, &e), &e);
    CHECK_INT(changed, 2);
    graft_store_close(s);
}

static void a_dead_process_leaves_a_mark(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_store_job j;
    graft_store *s;
    bool found;
    int64_t interrupted;
    fresh();
    s = open_store(&roomy);
    CHECK_OK(add(s, "ran \"x\"", 1, &e), &e);
    CHECK_OK(add(s, "waits", 2, &e), &e);
    CHECK_OK(graft_store_next(s, 7, &j, &found, &e), &e);
    graft_store_job_finish(&j);
    graft_store_close(s);
    CHECK_OK(graft_store_open(path, &roomy, &s, &interrupted, &e), &e);
    CHECK_INT(interrupted, 1);
    CHECK_INT(graft_store_remaining(s), 1);
    CHECK_INT(graft_store_find(s, "waits"), GRAFT_STORE_PENDING);
    CHECK_INT(graft_store_find(s, "ran \"x\""), GRAFT_STORE_DONE);
    graft_str t = GRAFT_STR_INIT;
    CHECK_OK(graft_store_history_one(s, "ran \"x\"", &t, &e), &e);
    CHECK(t.data && strstr(t.data, "execution_interrupted") && strstr(t.data, "ran \\\"x\\\""));
    graft_str_finish(&t);
    graft_store_close(s);
}

#define JOBS 200

/* Lets all jobs begin, one by one. */
static void *begin_all(void *ctx)
{
    graft_store *s = ctx;
    graft_store_job j;
    bool found = true;
    while (!graft_store_next(s, 7, &j, &found, NULL) && found) graft_store_job_finish(&j);
    return NULL;
}

/* The fewest jobs that the queue showed while all of them began. */
static int fewest_seen(void)
{
    graft_err e = GRAFT_ERR_INIT;
    const graft_store_limits limits = {JOBS, 1 << 20, JOBS, 1 << 20};
    pthread_t thread;
    fresh();
    graft_store *s = open_store(&limits);
    int fewest = JOBS, waiting = JOBS;
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        snprintf(id, sizeof id, "job %d", i);
        CHECK_OK(add(s, id, i, &e), &e);
    }
    bool runs = pthread_create(&thread, NULL, begin_all, s) == 0;
    CHECK(runs);
    while (runs && waiting) {
        graft_str t = GRAFT_STR_INIT;
        int seen = 0;
        CHECK_OK(graft_store_queue_json(s, &t, &e), &e);
        waiting = 0;
        char *pending = t.data ? strstr(t.data, "queue_pending") : NULL;
        for (char *p = t.data; p && (p = strstr(p, "\"job ")); p++) {
            seen++;
            waiting += p > pending;
        }
        if (seen < fewest) fewest = seen;
        graft_str_finish(&t);
    }
    if (runs) pthread_join(thread, NULL);
    graft_store_close(s);
    return fewest;
}

/* What a client sees in the queue either waits or runs, at any moment. */
static void no_job_is_missing(void)
{
    for (int i = 0; i < 3; i++) CHECK_INT(fewest_seen(), JOBS);
}

static void count(void *ctx, const graft_store_row *row)
{
    *(int *)ctx += row->state == GRAFT_STORE_DONE ? 1 : 100;
}

/* One pass over everything; any allocation may fail, and the store must then say so and stay
 * usable. */
static graft_status everything(graft_store *s, graft_err *e)
{
    graft_store_job j = {0};
    graft_str t = GRAFT_STR_INIT;
    const graft_store_query all = {.limit = 10};
    char *text = NULL;
    int rows = 0;
    int64_t n;
    bool found;
    graft_status st = GRAFT_OK;
    GRAFT_TRY(add(s, "x", 1, e));
    GRAFT_TRY(graft_store_next(s, 7, &j, &found, e));
    GRAFT_TRY(end(s, "x", e));
    GRAFT_TRY(graft_store_history_json(s, 5, -1, &t, e));
    GRAFT_TRY(graft_store_queue_json(s, &t, e));
    GRAFT_TRY(graft_store_rows(s, &all, count, &rows, &n, e));
    GRAFT_TRY(graft_store_setting_set(s, "a", "1", e));
    GRAFT_TRY(graft_store_setting_get(s, "a", &text, e));
    GRAFT_TRY(graft_store_settings_json(s, &t, e));
out:
    graft_free(text);
    graft_str_finish(&t);
    graft_store_job_finish(&j);
    return st;
}

static void memory_may_be_short(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_alloc_stats before, after;
    int64_t interrupted;
    graft_status st = GRAFT_E_NOMEM;
    graft_alloc_stats_get(&before);
    for (int n = 1; n < 500 && st; n++) {
        graft_store *s = NULL;
        fresh();
        graft_alloc_fail_at(n);
        st = graft_store_open(path, &roomy, &s, &interrupted, &e);
        if (!st) st = everything(s, &e);
        graft_alloc_fail_at(0);
        if (st) CHECK_INT(st, GRAFT_E_NOMEM);
        graft_store_close(s);
        if (!st) continue;
        s = open_store(&roomy); /* what was half done is undone, or marked */
        CHECK(graft_store_remaining(s) <= 1);
        graft_store_close(s);
    }
    CHECK_INT(st, GRAFT_OK);
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

static void damage_is_told(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_store *s = NULL;
    int64_t interrupted;
    fresh();
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 500; i++) fputs("this is no database ", f);
    fclose(f);
    CHECK_INT(graft_store_open(path, &roomy, &s, &interrupted, &e), GRAFT_E_FORMAT);
    CHECK(!s && strstr(e.text, path));
}

int main(void)
{
    char dir[] = "/tmp/graft-store-XXXXXX";
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/jobs.sqlite", dir);
    RUN(jobs_run_by_number);
    RUN(an_older_database);
    RUN(numbers_of_any_size);
    RUN(limits_hold);
    RUN(a_dead_process_leaves_a_mark);
    RUN(no_job_is_missing);
    RUN(memory_may_be_short);
    RUN(damage_is_told);
    fresh();
    rmdir(dir);
    return test_end();
}
