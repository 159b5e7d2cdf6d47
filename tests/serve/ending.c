/* The order in which the end of a prompt is told: the history has it before any client hears of it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "host/serve/queue.h"
#include "host/serve/sink.h"
#include "tests/test.h"

static const graft_store_limits roomy = {100, 1 << 20, 100, 1 << 20};
static char path[64];

static void remove_store(void)
{
    static const char *const tail[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", path, tail[i]);
        unlink(name);
    }
}

/* The types of the messages that wait for the transport, each with a blank behind. */
static void sent(graft_hub *h, char *text, size_t n)
{
    graft_hub_message *m = graft_hub_take(h), *next;
    *text = 0;
    for (; m; m = next) {
        char type[40] = "";
        next = m->next;
        sscanf((const char *)m->plain + GRAFT_HUB_HEADROOM, "{\"type\":\"%39[a-z_]", type);
        size_t used = strlen(text);
        snprintf(text + used, n - used, "%s ", type);
        graft_hub_release(m);
    }
}

struct fixture {
    graft_hub hub;
    graft_logs logs;
    graft_store *store;
    graft_queue queue;
    graft_sink sink;
};

/* Called between the entry and the telling. */
static void on_told(void *ctx)
{
    struct fixture *f = ctx;
    char types[200];
    sent(&f->hub, types, sizeof types);
    CHECK_STR(types, "");
    CHECK_INT(graft_store_find(f->store, "job"), GRAFT_STORE_DONE);
    graft_sink_tell(&f->sink);
}

static void begin(struct fixture *f)
{
    graft_err e = GRAFT_ERR_INIT;
    int64_t interrupted;
    char id[] = "job", prompt[] = "{}", outputs[] = "[]";
    graft_store_job job = {
        .number = 1, .id = id, .prompt = prompt, .extra = prompt, .outputs = outputs};
    memset(f, 0, sizeof *f);
    remove_store();
    graft_hub_init(&f->hub);
    graft_logs_init(&f->logs, &f->hub, true);
    graft_sink_init(&f->sink, &f->hub, &f->logs);
    CHECK_OK(graft_store_open(path, &roomy, &f->store, &interrupted, &e), &e);
    graft_queue_init(&f->queue, f->store, &f->hub);
    CHECK_OK(graft_queue_add(&f->queue, &job, &e), &e);
    CHECK(graft_queue_wait(&f->queue, &job) == GRAFT_QUEUE_JOB);
    graft_sink_begin(&f->sink, "job", "client", 0);
    graft_store_job_finish(&job);
}

static void finish(struct fixture *f)
{
    graft_sink_finish(&f->sink);
    graft_queue_finish(&f->queue);
    graft_store_close(f->store);
    graft_logs_finish(&f->logs);
    graft_hub_finish(&f->hub);
    remove_store();
}

/* How long a job that was queued `age` seconds ago needs for its end, from its beginning on. */
static double time_of_end(struct fixture *f, double age)
{
    double now = graft_clock_now();
    graft_sink_begin(&f->sink, "job", "client", now - age);
    const graft_events events = graft_sink_events(&f->sink, GRAFT_PREVIEWS_LATENT);
    events.success(events.ctx);
    graft_sink_close(&f->sink);
    return graft_clock_now() - now;
}

/* The answer to a prompt is read before its results come; an old job's are not held back. */
static void waits_for_readers(void)
{
    struct fixture f;
    double quickest = 1; /* a busy machine makes some slow */
    begin(&f);
    CHECK(time_of_end(&f, 0) >= 0.049);
    CHECK(time_of_end(&f, 0.02) >= 0.029);
    for (int i = 0; i < 20; i++) {
        double took = time_of_end(&f, 0.06);
        if (took < quickest) quickest = took;
    }
    CHECK(quickest < 0.02);
    finish(&f);
}

/* It counts from when a job is in the line, however long that took; the last one's is known best.
 */
static void counts_from_the_line(void)
{
    struct fixture f;
    graft_err e = GRAFT_ERR_INIT;
    char id[] = "a", text[] = "{}";
    begin(&f);
    graft_store_job job = {.number = 2, .id = id, .prompt = text, .extra = text, .outputs = text};
    job.created = graft_clock_ms() - 3000;
    double before = graft_clock_now();
    CHECK_OK(graft_queue_add(&f.queue, &job, &e), &e);
    CHECK(graft_queue_added(&f.queue, &job) >= before);
    graft_store_job earlier = job, set_back = job;
    earlier.seq--;
    CHECK_NEAR(before - graft_queue_added(&f.queue, &earlier), 3, 1);
    set_back.seq--;
    set_back.created = graft_clock_ms() + 3600000;
    CHECK(graft_queue_added(&f.queue, &set_back) < before - 1);
    finish(&f);
}

/* Between its end and its history entry a job no longer runs: it is at no node. */
static void at_no_node_afterwards(void)
{
    struct fixture f;
    const graft_where at = {"1", "1", NULL, "1"};
    graft_str before = GRAFT_STR_INIT, after = GRAFT_STR_INIT;
    begin(&f);
    const graft_events events = graft_sink_events(&f.sink, GRAFT_PREVIEWS_LATENT);
    events.node_start(events.ctx, &at, NULL, "");
    graft_sink_resume(&f.sink, "client", &before);
    graft_sink_progress(&f.sink, "job", &before);
    CHECK(before.data && strstr(before.data, "executing") && strstr(before.data, "nodes_done"));
    events.success(events.ctx);
    graft_sink_resume(&f.sink, "client", &after);
    graft_sink_progress(&f.sink, "job", &after);
    CHECK_STR(after.data, "null");
    graft_sink_close(&f.sink);
    graft_str_finish(&before);
    graft_str_finish(&after);
    finish(&f);
}

/* `code` GRAFT_OK: success. */
static void ends(graft_status code, const char *status, const char *event)
{
    struct fixture f;
    graft_err e = GRAFT_ERR_INIT;
    char types[200], wanted[80];
    begin(&f);
    const graft_events events = graft_sink_events(&f.sink, GRAFT_PREVIEWS_LATENT);
    const graft_run_error error = {code, "1", "Node", "", "it failed", NULL, NULL};
    events.start(events.ctx, 1);
    sent(&f.hub, types, sizeof types);
    CHECK_STR(types, "status status execution_start ");
    if (code)
        events.error(events.ctx, &error);
    else
        events.success(events.ctx);
    char *messages = graft_sink_take_messages(&f.sink);
    CHECK(messages && strstr(messages, event));
    CHECK_STR(f.sink.end, status);
    const graft_store_end end = {"job", f.sink.end, messages, "{}", "{}", 9, NULL};
    CHECK_OK(graft_queue_end(&f.queue, &end, on_told, &f, &e), &e);
    graft_sink_close(&f.sink);
    sent(&f.hub, types, sizeof types);
    snprintf(wanted, sizeof wanted, "%s status executing ", event);
    CHECK_STR(types, wanted);
    graft_free(messages);
    finish(&f);
}

static void after_the_entry(void)
{
    ends(GRAFT_OK, "success", "execution_success");
    ends(GRAFT_E_ARG, "error", "execution_error");
    ends(GRAFT_E_CANCEL, "interrupted", "execution_interrupted");
}

/* While the entry cannot be written the job runs, and nobody is told anything else. */
static void no_room(void)
{
    struct fixture f;
    struct rlimit before, none;
    graft_err e = GRAFT_ERR_INIT;
    char types[200];
    begin(&f);
    const graft_events events = graft_sink_events(&f.sink, GRAFT_PREVIEWS_LATENT);
    events.success(events.ctx);
    sent(&f.hub, types, sizeof types);
    const graft_store_end end = {"job", "success", "[]", "{}", "{}", 9, NULL};
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    graft_status st = graft_queue_end(&f.queue, &end, on_told, &f, &e);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(st && st != GRAFT_E_NOTFOUND);
    sent(&f.hub, types, sizeof types);
    CHECK_STR(types, "");
    CHECK_INT(graft_store_find(f.store, "job"), GRAFT_STORE_RUNNING);
    CHECK_INT(graft_store_remaining(f.store), 1);
    CHECK(graft_queue_busy(&f.queue));
    CHECK_OK(graft_queue_end(&f.queue, &end, on_told, &f, &e), &e);
    sent(&f.hub, types, sizeof types);
    CHECK_STR(types, "execution_success status ");
    CHECK(!graft_queue_busy(&f.queue));
    /* One that the store does not have is not tried for ever. */
    CHECK_INT(graft_queue_end(&f.queue, &end, on_told, &f, &e), GRAFT_E_NOTFOUND);
    CHECK(graft_queue_pause(&f.queue));
    graft_queue_stop(&f.queue);
    CHECK(!graft_queue_pause(&f.queue));
    graft_sink_close(&f.sink);
    finish(&f);
}

/* Memory is short from the beginning of a job on: it ends, and the history says with what. */
static void no_memory(void)
{
    for (int64_t n = 1; n < 30; n++) {
        struct fixture f;
        graft_err e = GRAFT_ERR_INIT;
        const graft_err why = {GRAFT_E_NOMEM, "a job: out of memory"};
        begin(&f);
        graft_sink_close(&f.sink);
        graft_alloc_fail_at(n);
        graft_sink_begin(&f.sink, "job", "client", 0);
        graft_sink_fail(&f.sink, &why);
        char *messages = graft_sink_take_messages(&f.sink);
        graft_alloc_fail_at(0);
        CHECK_STR(f.sink.end, "error");
        const graft_store_end end = {"job", "error", messages ? messages : "[]", "{}", "{}",
                                     9,     NULL};
        CHECK_OK(graft_queue_end(&f.queue, &end, graft_sink_tell, &f.sink, &e), &e);
        CHECK_INT(graft_store_find(f.store, "job"), GRAFT_STORE_DONE);
        graft_sink_close(&f.sink);
        graft_free(messages);
        finish(&f);
    }
}

/* An end that is never told, because the server stops, is not lost memory. */
static void never_told(void)
{
    struct fixture f;
    begin(&f);
    const graft_events events = graft_sink_events(&f.sink, GRAFT_PREVIEWS_LATENT);
    events.success(events.ctx);
    finish(&f);
}

/* A phase begins with nothing done, whatever the one before it said last. */
static void phase_begins_anew(void)
{
    struct fixture f;
    graft_str t = GRAFT_STR_INIT;
    const graft_where at = {"5", "5", NULL, "5"};
    begin(&f);
    const graft_events events = graft_sink_events(&f.sink, GRAFT_PREVIEWS_LATENT);
    events.node_start(events.ctx, &at, NULL, "");
    events.phase(events.ctx, &at, "compile");
    events.progress(events.ctx, &at, 235, 235);
    events.phase(events.ctx, &at, "sample");
    graft_sink_progress(&f.sink, "job", &t);
    CHECK(t.data && strstr(t.data, "\"phase\":\"sample\",\"value\":0,\"max\":1,"));
    graft_str_finish(&t);
    finish(&f);
}

int main(void)
{
    char dir[] = "/tmp/graft-ending-XXXXXX";
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/jobs.sqlite", dir);
    RUN(after_the_entry);
    RUN(never_told);
    RUN(no_room);
    RUN(no_memory);
    RUN(waits_for_readers);
    RUN(counts_from_the_line);
    RUN(at_no_node_afterwards);
    RUN(phase_begins_anew);
    rmdir(dir);
    return test_end();
}
